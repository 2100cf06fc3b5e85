"""Every unit of the registry: reference values, both stories, limits, gradients, beginnings."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from torch import Tensor

from odediscovery.units import NPU, UNITS, AbstractUnit, RealNPU, glorot
from odediscovery.units.nac import EPSILON

pytestmark = pytest.mark.usefixtures("double_precision")

CASES = json.loads((Path(__file__).parents[1] / "files" / "unit_values.json").read_text())["cases"]
OURS = {
    "Re": "real",
    "Im": "imaginary",
    "g": "gate",
    "W": "weight",
    "M": "mask",
    "G": "gate",
    "b": "bias",
    "W_add": "weight_add",
    "M_add": "mask_add",
    "W_mul": "weight_mul",
    "M_mul": "mask_mul",
}

# Every unit with the options that change what it computes.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("NAU", {}),
    ("NAU", {"clip": True}),
    *(
        (name, {"nonnegative": flags})
        for name in ("NPU", "RealNPU", "NaiveNPU", "RealNaiveNPU")
        for flags in (False, True, [True, False, True])
    ),
    ("RealNPU", {"gate_gradient": "zero"}),
    ("NPU", {"gate_gradient": "zero"}),
    *(("Dense", {"activation": name}) for name in ("identity", "tanh", "sigmoid")),
    ("NAC", {}),
    ("MultiplicativeNAC", {}),
    ("NALU", {}),
    ("NALU", {"independent": True}),
    ("iNALU", {}),
    ("iNALU", {"omega": 0.5}),
    ("NMU", {}),
    ("Linear", {}),
    ("NSR", {}),
    ("NSR", {"scale": 0.3, "redundancy": 3}),
    ("Functions", {}),
    *(("Functions", {"functions": [(f, 1)]}) for f in ("cos", "exp", "log")),
]
# A unit that is not named above is tested as it comes.
VARIANTS += [(name, {}) for name in UNITS if name not in {listed for listed, _ in VARIANTS}]
INPUTS, OUTPUTS, MEMBERS, BATCH = 3, 4, 2, 5


def label(variant: tuple[str, dict[str, Any]]) -> str:
    name, options = variant
    return name + "".join(f"-{key}={value}" for key, value in options.items())


def unit_of(variant: tuple[str, dict[str, Any]], inputs: int = INPUTS) -> AbstractUnit:
    name, options = variant
    return UNITS[name](inputs, OUTPUTS, **options)


def random_parameters(unit: AbstractUnit, seed: int = 0) -> dict[str, Tensor]:
    """Weights of both signs and gates on both sides of 0 and 1 as well as between."""
    source = torch.Generator().manual_seed(seed)

    def uniform(shape: tuple[int, ...], low: float, high: float) -> Tensor:
        draw = torch.rand(MEMBERS, *shape, generator=source, dtype=torch.float64)
        return low + (high - low) * draw

    values = {name: uniform(shape, -1.5, 1.5) for name, shape in unit.shapes().items()}
    if "gate" in values:
        values["gate"] = uniform(unit.shapes()["gate"], -0.3, 1.3)
    return values


def random_inputs(seed: int = 1) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(MEMBERS, BATCH, INPUTS, generator=source, dtype=torch.float64)
    assert (x < 0).any() and (x > 0).any()
    return x


def arrays(p: dict[str, Tensor], member: int) -> dict[str, np.ndarray]:
    return {name: value[member].numpy() for name, value in p.items()}


def numbers(expressions: list[sympy.Expr], symbols: list[sympy.Symbol], x: Tensor) -> np.ndarray:
    """Expressions at x [batch, inputs] -> [batch, outputs]."""
    function = sympy.lambdify(symbols, expressions, modules=["numpy", {"Heaviside": np.heaviside}])
    return np.array([[complex(v).real for v in function(*row)] for row in x.tolist()])


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['unit']}-{np.shape(c['x'])[1]}")
def test_reference_values(case: dict[str, Any]) -> None:
    """Computed in numpy from the formulas of NeuralArithmetic.jl, not by the package: Julia was not run."""
    given = dict(case["parameters"])
    options = {"clip": bool(given.pop("clip"))} if "clip" in given else {}
    if case["unit"] == "iNALU":
        options |= {name: given.pop(name) for name in ("epsilon", "omega")}
    if case["unit"] == "NALU":
        assert given.pop("epsilon") == EPSILON
    x, y = torch.tensor(case["x"], dtype=torch.float64), np.array(case["y"])
    unit = UNITS[case["unit"]](x.shape[1], y.shape[1], **options)
    p = {OURS[name]: torch.tensor(value, dtype=torch.float64)[None] for name, value in given.items()}
    assert {k: v.shape[1:] for k, v in p.items()} == unit.shapes()
    np.testing.assert_allclose(unit.compute(p, x[None])[0], y, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_both_stories_agree(variant: tuple[str, dict[str, Any]]) -> None:
    unit, x = unit_of(variant), random_inputs()
    p, symbols = random_parameters(unit), [sympy.Symbol(f"y{k}") for k in range(INPUTS)]
    y = unit.compute(p, x)
    assert y.shape == (MEMBERS, BATCH, OUTPUTS)
    for member in range(MEMBERS):
        told = numbers(unit.symbolic(arrays(p, member), symbols), symbols, x[member])
        np.testing.assert_allclose(told, y[member], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_members_are_independent(variant: tuple[str, dict[str, Any]]) -> None:
    unit, x = unit_of(variant), random_inputs()
    p = random_parameters(unit)
    y = unit.compute(p, x)
    for member in range(MEMBERS):
        alone = {name: value[member : member + 1] for name, value in p.items()}
        np.testing.assert_allclose(unit.compute(alone, x[member : member + 1])[0], y[member], rtol=1e-13)
    spoiled = {name: torch.stack([value[0], value[1] * torch.nan]) for name, value in p.items()}
    assert torch.equal(unit.compute(spoiled, x)[0], y[0])


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_pull_is_the_derivative(variant: tuple[str, dict[str, Any]]) -> None:
    unit, x = unit_of(variant), random_inputs()
    p = random_parameters(unit)
    source = torch.Generator().manual_seed(5)
    g = torch.randn(MEMBERS, BATCH, 2, OUTPUTS, generator=source, dtype=torch.float64)
    g_x, grads = unit.pull(p, x, g)
    assert {name: grads[name].shape[3:] for name in grads} == unit.shapes()
    for b in range(BATCH):  # autograd sums over samples, `pull` does not
        for k in range(2):
            leaves = [v.clone().requires_grad_(True) for v in (x[:, b : b + 1], *p.values())]
            y = unit.compute(dict(zip(p, leaves[1:], strict=True)), leaves[0])
            d_x, *d_p = torch.autograd.grad((y[:, 0] * g[:, b, k]).sum(), leaves)
            torch.testing.assert_close(g_x[:, b, k], d_x[:, 0], rtol=1e-10, atol=1e-12)
            for name, d in zip(p, d_p, strict=True):
                torch.testing.assert_close(grads[name][:, b, k], d, rtol=1e-10, atol=1e-12)


def test_nonnegative_inputs_below_zero_count_as_zero() -> None:
    unit = RealNPU(2, 1, nonnegative=[True, False])
    p = {"real": torch.tensor([[[0.5, 1.0]]], dtype=torch.float64), "gate": torch.ones(1, 2, dtype=torch.float64)}
    below = unit.compute(p, torch.tensor([[[-0.3, 2.0]]], dtype=torch.float64))
    zero = unit.compute(p, torch.tensor([[[0.0, 2.0]]], dtype=torch.float64))
    assert below.item() == zero.item() < 1e-7
    signed = unit.compute(p, torch.tensor([[[4.0, -2.0]]], dtype=torch.float64))
    assert signed.item() == pytest.approx(-4.0, rel=1e-12)


@pytest.mark.parametrize("cls", [RealNPU, NPU])
@pytest.mark.parametrize(("rule", "passes"), [("through", True), ("zero", False)])
def test_gradients_of_gates_outside(cls: type[AbstractUnit], rule: str, passes: bool) -> None:
    unit = cls(3, 2, gate_gradient=rule)  # type: ignore[call-arg]
    p = {name: value.detach().clone() for name, value in unit.named_parameters()}
    p["gate"] = torch.tensor([[-0.2, 0.5, 1.3]], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([[[2.0, 3.0, 0.4], [0.7, 5.0, 1.9]]], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(unit.compute(p, x).sum(), p["gate"])
    assert gradient[0, 1] != 0
    assert bool((gradient[0, [0, 2]] != 0).all()) is passes
    assert passes or bool((gradient[0, [0, 2]] == 0).all())


def test_weights_begin_as_in_the_study() -> None:
    values = NPU(3, 9, init_re=glorot(0.2)).initial(400, torch.Generator().manual_seed(7))
    weight, bound = values["real"], 0.2 * math.sqrt(6.0 / (3 + 9))
    assert weight.shape == (400, 9, 3) and weight.dtype == torch.float64
    assert 0.99 * bound < weight.max() <= bound and -bound <= weight.min() < -0.99 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3.0), rel=0.02)
    assert bool((values["gate"] == 0.5).all()) and not values["imaginary"].any()


@pytest.mark.parametrize("name", UNITS)
def test_beginnings_are_repeatable_and_members_differ(name: str) -> None:
    one, same, other = (
        next(UNITS[name](3, 4, members=2, generator=torch.Generator().manual_seed(seed)).parameters()).detach()
        for seed in (3, 3, 4)
    )
    assert torch.equal(one, same) and not torch.equal(one, other) and not torch.equal(one[0], one[1])
