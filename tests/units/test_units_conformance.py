"""What every unit of the registry must be: finite far out, and what its snapped form says."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
import torch
from test_units import INPUTS, MEMBERS, VARIANTS, label, unit_of
from torch import Tensor

from odediscovery.units import NAU, NMU, NPU, NSR, UNITS, iNALU

pytestmark = pytest.mark.usefixtures("double_precision")

Variant = tuple[str, dict[str, Any]]


# (sign, zero, bias) of saturated evidence, and the relation of x0 to x1 that it means.
COMPARISONS = {
    "Gt": (9.0, -9.0, -9.0),
    "Lt": (-9.0, -9.0, -9.0),
    "Ge": (9.0, 9.0, 9.0),
    "Le": (-9.0, 9.0, 9.0),
    "Eq": (0.0, 9.0, 0.0),
    "Ne": (0.0, -9.0, 0.0),
}


@pytest.mark.parametrize("redundancy", [1, 3])
@pytest.mark.parametrize("relation", COMPARISONS)
def test_a_status_register_is_a_relation(relation: str, redundancy: int) -> None:
    unit = NSR(2, 1, redundancy=redundancy, scale=10.0)
    sign, zero, bias = COMPARISONS[relation]
    p = {name: torch.zeros(1, *shape, dtype=torch.float64) for name, shape in unit.shapes().items()}
    for r in range(redundancy):
        turned = r % 2 == 1  # every other copy has its operands swapped
        p["left"][0, 0, r, int(turned)] = p["right"][0, 0, r, 1 - int(turned)] = 40.0
        p["sign"][0, 0, r] = -sign if turned else sign
        p["zero"][0, 0, r], p["bias"][0, 0, r] = zero, bias
    a, b = sympy.symbols("a b")
    snapped = unit.snapped({k: v[0].numpy() for k, v in p.items()}, [a, b])[0]
    assert snapped == getattr(sympy, relation)(a, b)
    values = [-1e13, -7.0, -6.0, 0.0, 1.0, 1e13, 1e13 + 1.0]
    pairs = torch.tensor([[(u, v) for u in values for v in values]], dtype=torch.float64)
    y = unit.compute(p, pairs)[0, :, 0] > 0.5
    told = [bool(snapped.subs({a: sympy.Integer(int(u)), b: sympy.Integer(int(v))})) for u, v in pairs[0].tolist()]
    assert y.tolist() == told


def test_regularisers_are_zero_at_whole_weights_only() -> None:
    for unit, whole in ((NAU(2, 2), [[-1.0, 0.0], [1.0, 1.0]]), (NMU(2, 2), [[1.0, 0.0], [0.0, 1.0]])):
        at = {"weight": torch.tensor([whole], dtype=torch.float64)}
        between = {"weight": torch.full((1, 2, 2), 0.25, dtype=torch.float64)}
        assert unit.regulariser(at).tolist() == [0.0]
        assert unit.regulariser(between).tolist() == [0.25]
    pushed = iNALU(1, 1, members=2)
    wide = {k: torch.full((2, *s), 25.0, dtype=torch.float64) for k, s in pushed.shapes().items()}
    assert pushed.regulariser(wide).tolist() == [0.0, 0.0]
    assert bool((pushed.regulariser(dict(pushed.named_parameters())) > 0.9).all())


def test_clipping_brings_weights_back() -> None:
    for unit, low in ((NAU(2, 2, clip=True), -1.0), (NMU(2, 2), 0.0), (NPU(2, 2, clip=1.0), -1.0)):
        for value in unit.parameters():
            value.data.copy_(torch.linspace(-3.0, 3.0, value.numel()).reshape(value.shape))
        unit.project_()
        first = next(iter(unit.parameters()))
        assert first.min() == low and first.max() == 1.0
    free = NAU(2, 2)
    free.weight.data.fill_(7.0)
    free.project_()
    assert bool((free.weight == 7.0).all())


def wide_parameters(unit: Any) -> dict[str, Tensor]:
    """Weights in [-1.5, 1.5]; gates of power units at 0, at 1 and between."""
    source = torch.Generator().manual_seed(7)
    values = {name: 3.0 * torch.rand(MEMBERS, *shape, generator=source) - 1.5 for name, shape in unit.shapes().items()}
    if "gate" in unit.gates:
        values["gate"] = torch.tensor([[0.0, 1.0, 0.3]] * MEMBERS)
    return values


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_far_out_values_are_exact_and_derivatives_finite(variant: Variant) -> None:
    # An angle of 1e24 is no angle in double precision.
    highest = 4 if variant[0] == "Functions" else 31
    unit, line = unit_of(variant), [0.0, *(10.0**k for k in range(-30, highest, 3))]
    rows = np.random.default_rng(2).choice([*line, *(-v for v in line)], size=(400, INPUTS))
    rows[0], rows[1] = 0.0, -0.0
    x = torch.tensor(rows).expand(MEMBERS, -1, -1).clone().requires_grad_(True)
    p = {k: v.requires_grad_(True) for k, v in wide_parameters(unit).items()}
    y = unit.compute(p, x)
    fixed = {k: v.detach() for k, v in p.items()}
    pulled, grads = unit.pull(fixed, x.detach(), torch.ones_like(y.detach())[:, :, None])
    for told in (*torch.autograd.grad(y.sum(), [x, *p.values()]), pulled, *grads.values()):
        assert told.isfinite().all(), "a derivative is nan or inf at 0 or far out"
    symbols = sympy.symbols("a b c")
    formulas = unit.symbolic({k: v[0].numpy() for k, v in fixed.items()}, symbols)
    step = {"Heaviside": lambda z, at_zero: 1 if z > 0 else at_zero}
    exact = sympy.lambdify(symbols, formulas, modules=[step, "mpmath"])
    with mpmath.workdps(60):
        for row, got in zip(rows[:25].tolist(), y[0].tolist(), strict=False):
            expected = [float(mpmath.re(v)) for v in exact(*map(mpmath.mpf, row))]
            # What is left of sums that cancel, and of angles of 1e2, is the rounding of terms.
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-300)


# Of units without gates `opened` says whether exponents are whole, so that all inputs may be negative.
@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in UNITS if name.endswith(("NAC", "NMU", "NALU", "NPU"))), ("NALU", {"independent": True})],
)
def test_snapped_is_the_limit(name: str, options: dict[str, Any], opened: bool) -> None:
    unit = UNITS[name](INPUTS, 6, **options)
    source, p = np.random.default_rng(11), {}
    rows = np.array([[1.5, 2.0, 3.0], [-1.5, 2.0, 3.0], [4.0, 2.5, -0.7], [-0.5, -0.25, 4.0]])
    assert (rows.sum(axis=1) >= 1.0).all()  # gates are as open as at x = 1
    if name.endswith("NPU"):
        rows = rows if opened else np.abs(rows)
        p["real"] = source.integers(-2, 3, (6, INPUTS)).astype(float) if opened else source.uniform(-2, 2, (6, INPUTS))
        p |= {"imaginary": np.zeros((6, INPUTS)), "gate": np.array([1.0, 0.0, 1.0])}
        p = {key: p[key] for key in unit.shapes()}
    for key, shape in {} if p else unit.shapes().items():
        levels = [-30.0, 30.0] if key.startswith("mask") else [-30.0, 0.0, 30.0]
        p[key] = source.choice([-30.0, 0.0, 1.0, 30.0] if name == "NMU" else levels, size=shape)
        if key in ("gate", "bias"):
            p[key] = np.full(shape, 30.0 if opened else -30.0)
    symbols = sympy.symbols("a b c")
    y = unit.compute({key: torch.tensor(value)[None] for key, value in p.items()}, torch.tensor(rows)[None])[0]
    snapped = unit.snapped(p, symbols)
    told = [[float(e.subs(dict(zip(symbols, row, strict=True)))) for e in snapped] for row in rows.tolist()]
    assert len({str(e) for e in snapped}) > 2 and np.ptp(told) > 1.0
    np.testing.assert_allclose(y, told, rtol=1e-6, atol=1e-9)
