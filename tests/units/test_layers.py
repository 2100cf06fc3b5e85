"""Every unit of the registry is an ordinary layer of torch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from test_units import VARIANTS, label
from torch import nn

from odediscovery.units import NMU, NPU, UNITS, NaiveNPU, RealNPU

pytestmark = pytest.mark.usefixtures("double_precision")

Variant = tuple[str, dict[str, Any]]
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=label)
each_unit = pytest.mark.parametrize("name", UNITS)


def layer(variant: Variant, **base: Any) -> nn.Module:
    name, options = variant
    return UNITS[name](3, 4, **options, **base)


@each_variant
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inputs_have_any_leading_axes(variant: Variant, dtype: torch.dtype) -> None:
    unit = layer(variant, dtype=dtype)
    x = torch.rand(2, 5, 3, dtype=dtype)
    y = unit(x)
    assert y.shape == (2, 5, 4) and y.dtype == dtype
    torch.testing.assert_close(unit(x[0]), y[0])
    torch.testing.assert_close(unit(x[0, 1]), y[0, 1])
    assert {p.dtype for p in unit.parameters()} == {dtype}


@each_variant
def test_members_are_a_leading_axis_and_only_where_they_were_asked_for(variant: Variant) -> None:
    unit = layer(variant, members=2)
    x = torch.rand(2, 6, 5, 3)
    y = unit(x)
    assert y.shape == (2, 6, 5, 4)
    torch.testing.assert_close(unit(x[:, 0]), y[:, 0])
    torch.testing.assert_close(unit(x[:, 0, 0]), y[:, 0, 0])
    for own, members in ((unit, (2,)), (layer(variant), ())):
        assert [p.shape for p in own.parameters()] == [(*members, *shape) for shape in own.shapes().values()]


@pytest.mark.slow
@pytest.mark.parametrize("variant", [("NPU", {}), ("NALU", {}), ("NSR", {})], ids=label)
def test_a_compiled_layer_computes_the_same(variant: Variant) -> None:
    unit = layer(variant)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compiler.reset()
        compiled = torch.compile(unit, backend="aot_eager", fullgraph=True)
        x = (torch.rand(5, 3) - 0.3).requires_grad_(True)
        y, told = unit(x), compiled(x)
        torch.testing.assert_close(told, y)
        for a, b in zip(*(torch.autograd.grad(z.sum(), [x, *unit.parameters()]) for z in (y, told)), strict=True):
            torch.testing.assert_close(a, b)


@each_variant
def test_a_layer_moves_as_a_whole(variant: Variant) -> None:
    unit = layer(variant).to("meta")
    assert all(v.device.type == "meta" for v in [*unit.parameters(), *unit.buffers()])


@each_unit
def test_a_layer_of_another_width_is_refused_in_one_line(name: str) -> None:
    unit = UNITS[name](3, 4)
    with pytest.raises(ValueError, match=rf"^{unit.name} expects an input of shape \[\.\.\., 3\], got \[5, 2\]$"):
        unit(torch.rand(5, 2))
    with pytest.raises(ValueError, match=r"shape \[2, \.\.\., 3\], got \[5, 3\]$"):
        UNITS[name](3, 4, members=2)(torch.rand(5, 3))
    with pytest.raises(ValueError, match="at least 1, got 3, 4 and 0"):
        UNITS[name](3, 4, members=0)


def test_parameters_begin_as_they_are_asked_to() -> None:
    unit = NPU(3, 4, init_re="ones", init_im=0.25, init_gate=lambda t: torch.linspace(0.0, 1.0, 3))
    assert bool((unit.real == 1.0).all()) and bool((unit.imaginary == 0.25).all())
    assert unit.gate.tolist() == [0.0, 0.5, 1.0]
    torch.manual_seed(2)
    expected = torch.nn.init.kaiming_uniform_(torch.empty(4, 3, dtype=torch.float64))
    torch.manual_seed(2)
    assert torch.equal(RealNPU(3, 4, init_re=nn.init.kaiming_uniform_).real.detach(), expected)
    a, b = (NMU(3, 4, init_weight=nn.init.uniform_, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(a.weight, b.weight)
    assert bool((RealNPU(3, 4).gate == 0.5).all())  # as in NeuralArithmetic.jl
    with pytest.raises(TypeError, match="NaiveNPU has no option init_gate; its initialisers are init_re, init_im"):
        NaiveNPU(3, 4, init_gate=1.0)
    with pytest.raises(ValueError, match="an initialiser is one of glorot, zeros"):
        RealNPU(3, 4, init_re="xavier")
