"""What every unit of the registry must be: smooth where its formula is, finite, a torch module."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
import torch
from test_units import INPUTS, MEMBERS, OUTPUTS, VARIANTS, label, random_inputs, unit_of
from torch import Tensor

from odediscovery.units import NAC, NALU, NAU, NMU, NPU, NSR, UNITS, MultiplicativeNAC, iNALU
from odediscovery.units.base import l1_norm, redraw

pytestmark = pytest.mark.usefixtures("double_precision")

Variant = tuple[str, dict[str, Any]]


def inputs_beside_zero(variant: Variant) -> Tensor:
    """Where features are nonnegative none is below 0, which counts as 0: epsilon is another in each precision."""
    x = random_inputs()
    return x.abs() if "nonnegative" in variant[1] else x


def smooth_parameters(unit: Any, seed: int = 3) -> dict[str, Tensor]:
    """Weights away from the edges of gates and clips, some beyond the clips."""
    source = torch.Generator().manual_seed(seed)
    values = {}
    for name, shape in unit.shapes().items():
        draw = torch.rand(MEMBERS, *shape, generator=source, dtype=torch.float64)
        if name == "gate" and unit.name.endswith("NPU"):
            values[name] = 0.1 + 0.8 * draw
        elif unit.name == "NMU":
            values[name] = torch.where(draw > 0.8, 1.3 + 0.0 * draw, 0.05 + 0.9 * draw)
        else:
            values[name] = (0.1 + 0.8 * draw) * torch.sign(draw - 0.5)
            if unit.name == "NAU":
                values[name] = torch.where(draw > 0.8, 2.0 * values[name].sign(), values[name])
    return values


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_gradients_agree_with_finite_differences(variant: Variant) -> None:
    unit = unit_of(variant)
    p = {k: v.requires_grad_(True) for k, v in smooth_parameters(unit).items()}
    x = random_inputs()
    x = torch.where(x.abs() < 0.1, 0.1 * x.sign(), x).requires_grad_(True)
    names = list(p)

    def formula(x: Tensor, *values: Tensor) -> Tensor:
        return unit.compute(dict(zip(names, values, strict=True)), x)

    assert torch.autograd.gradcheck(formula, (x, *p.values()), eps=1e-6, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", ["RealNPU", "NPU"])
def test_straight_through_gates_have_the_gradient_of_the_clamped_gate(name: str) -> None:
    unit = UNITS[name](INPUTS, OUTPUTS)
    p, x = smooth_parameters(unit), random_inputs()
    beyond = torch.tensor([[-0.4, 1.7, 0.5]] * MEMBERS, dtype=torch.float64)
    gradients, outputs = [], []
    for gate in (beyond, beyond.clamp(0.0, 1.0)):
        leaf = gate.clone().requires_grad_(True)
        y = unit.compute(p | {"gate": leaf}, x)
        outputs.append(y.detach())
        gradients.append(torch.autograd.grad(y.sum(), leaf)[0])
    torch.testing.assert_close(*outputs, rtol=1e-15, atol=0.0)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=0.0)
    assert (gradients[0] != 0).all()


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_value_and_gradient_are_finite_far_out_and_at_zero(variant: Variant) -> None:
    unit = unit_of(variant)
    sizes = torch.tensor([0.0, *(10.0**k for k in range(-30, 31, 5))], dtype=torch.float64)
    line = torch.cat([sizes, -sizes])  # 0 and -0 among them
    x = torch.cartesian_prod(line, line, line)[None].expand(MEMBERS, -1, -1).clone()
    x.requires_grad_(True)
    p = {k: v.requires_grad_(True) for k, v in smooth_parameters(unit).items()}
    y = unit.compute(p, x)
    # Weights up to 0.9 and three inputs up to 1e30: no exact value is beyond 1e90.
    assert y.isfinite().all()
    for by, gradient in zip(["x", *p], torch.autograd.grad(y.sum(), [x, *p.values()]), strict=True):
        assert gradient.isfinite().all(), f"the derivative by {by} is nan or inf at 0 or far out"


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_units_are_saved_and_loaded_like_any_module(variant: Variant) -> None:
    name, options = variant
    generator = torch.Generator().manual_seed(5)
    unit = UNITS[name](INPUTS, OUTPUTS, members=MEMBERS, generator=generator, **options)
    other = UNITS[name](INPUTS, OUTPUTS, members=MEMBERS, **options)
    x = random_inputs()
    assert not torch.equal(unit(x), other(x))
    other.load_state_dict(unit.state_dict())
    assert torch.equal(unit(x), other(x))


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_single_precision_stays_single_and_agrees(variant: Variant) -> None:
    unit, x = unit_of(variant), inputs_beside_zero(variant)
    p = smooth_parameters(unit)
    single = unit.compute({k: v.float() for k, v in p.items()}, x.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), unit.compute(p, x), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    "unit",
    [NAC(3, 4), MultiplicativeNAC(3, 4), NALU(3, 4), iNALU(3, 4), NMU(3, 4), NALU(3, 4, independent=True)],
    ids=lambda u: u.name,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_saturated_weights_are_what_snapped_says(unit: Any, seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    p = {}
    for name, shape in unit.shapes().items():
        draw = torch.rand(1, *shape, generator=source, dtype=torch.float64)
        p[name] = torch.where(draw > 0.5, 60.0, -60.0).to(draw)
    x = torch.tensor([[[1.5, 2.0, 3.0], [0.7, 1.1, 2.5]]], dtype=torch.float64)
    if unit.name in ("NAC", "NMU"):  # those that keep signs
        x = x * torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)
    symbols = list(sympy.symbols("a b c"))
    snapped = unit.snapped({k: v[0].numpy() for k, v in p.items()}, symbols)
    y = unit.compute(p, x)[0]
    # The limit of a gate that depends on x holds where the gate is as open as at x = 1.
    gate = p.get("gate")
    for k in range(4):
        for i in range(2):
            if gate is not None:
                z = x[0, i] @ gate[0, k] + (p["bias"][0, k] if "bias" in p else 0.0)
                at_one = gate[0, k].sum() + (p["bias"][0, k] if "bias" in p else 0.0)
                if z * at_one <= 0 or z.abs() < 30:
                    continue
            told = float(snapped[k].subs(dict(zip(symbols, x[0, i].tolist(), strict=True))))
            assert y[i, k].item() == pytest.approx(told, rel=1e-6, abs=1e-9)


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


def test_imaginary_exponents_have_a_weight_of_their_own() -> None:
    p = {k: torch.ones(2, *s, dtype=torch.float64) for k, s in NPU(2, 3).shapes().items()}
    assert l1_norm(NPU(2, 3), p).tolist() == [14.0, 14.0]
    assert l1_norm(NPU(2, 3, imaginary_l1=10.0), p).tolist() == [68.0, 68.0]


@pytest.mark.parametrize("name", UNITS)
def test_redrawing_changes_the_chosen_members_alone(name: str) -> None:
    unit = UNITS[name](2, 3, members=3)
    before = {k: v.detach().clone() for k, v in unit.named_parameters()}
    redraw(unit, torch.tensor([False, True, False]), torch.Generator().manual_seed(9))
    changed = np.zeros(3, dtype=bool)
    for key, value in unit.named_parameters():
        changed |= (value.detach() != before[key]).flatten(1).any(dim=1).numpy()
    assert changed.tolist() == [False, True, False]


def wide_parameters(unit: Any, members: int = MEMBERS) -> dict[str, Tensor]:
    """Weights in [-1.5, 1.5]; gates of power units at 0, at 1 and between."""
    source = torch.Generator().manual_seed(7)
    values = {}
    for name, shape in unit.shapes().items():
        draw = torch.rand(members, *shape, generator=source, dtype=torch.float64)
        values[name] = 3.0 * draw - 1.5
        if name == "gate" and unit.name.endswith("NPU"):
            values[name] = torch.tensor([[0.0, 1.0, 0.3]] * members, dtype=torch.float64)
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


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_a_module_of_three_members_is_three_modules(variant: Variant) -> None:
    name, options = variant
    unit, copy = (
        UNITS[name](INPUTS, OUTPUTS, members=3, generator=torch.Generator().manual_seed(s), **options) for s in (1, 2)
    )
    x = torch.randn(3, 5, INPUTS, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    y = unit(x)
    saved = {key: value.clone() for key, value in unit.state_dict().items()}
    assert set(saved) == set(unit.shapes())
    copy.load_state_dict(saved)
    assert torch.equal(copy(x), y) and y.shape == (3, 5, OUTPUTS)
    for member in range(3):
        alone = unit_of(variant)
        alone.load_state_dict({key: value[member] for key, value in saved.items()})
        torch.testing.assert_close(alone(x[member]), y[member], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_modules_turn_to_single_precision_as_a_whole(variant: Variant) -> None:
    name, options = variant
    unit, x = UNITS[name](INPUTS, OUTPUTS, members=MEMBERS, **options), inputs_beside_zero(variant)
    double = unit(x).detach()
    leaf = x.float().requires_grad_(True)
    y = unit.float()(leaf)
    p = {key: value.detach() for key, value in unit.named_parameters()}
    pulled, grads = unit.pull(p, leaf.detach(), torch.ones_like(y.detach())[:, :, None])
    told = [
        y,
        unit.regulariser(p),
        l1_norm(unit, p),
        pulled,
        *grads.values(),
        *torch.autograd.grad(y.sum(), [leaf, *unit.parameters()]),
    ]
    assert {value.dtype for value in told} == {torch.float32}
    torch.testing.assert_close(y.double(), double, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize(
    ("name", "options"),
    [("NAC", {}), ("MultiplicativeNAC", {}), ("NMU", {}), ("NALU", {}), ("NALU", {"independent": True}), ("iNALU", {})],
)
def test_snapped_is_the_limit_at_inputs_of_both_signs(name: str, options: dict[str, Any], opened: bool) -> None:
    unit = UNITS[name](INPUTS, 6, **options)
    source, p = np.random.default_rng(11), {}
    for key, shape in unit.shapes().items():
        levels = [-30.0, 30.0] if key.startswith("mask") else [-30.0, 0.0, 30.0]
        if name == "NMU":
            levels = [-30.0, 0.0, 1.0, 30.0]
        p[key] = source.choice(levels, size=shape)
        if key in ("gate", "bias"):
            p[key] = np.full(shape, 30.0 if opened else -30.0)
    symbols = sympy.symbols("a b c")
    rows = [[1.5, 2.0, 3.0], [-1.5, 2.0, 3.0], [4.0, 2.5, -0.7], [-0.5, -0.25, 4.0]]
    assert all(sum(row) >= 1.0 for row in rows)  # gates are as open as at x = 1
    tensors = {key: torch.tensor(value)[None] for key, value in p.items()}
    y = unit.compute(tensors, torch.tensor([rows], dtype=torch.float64))[0]
    snapped = unit.snapped(p, symbols)
    told = [[float(e.subs(dict(zip(symbols, row, strict=True)))) for e in snapped] for row in rows]
    assert len({str(e) for e in snapped}) > 2 and np.ptp(told) > 1.0
    np.testing.assert_allclose(y, told, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("redundancy", [1, 3])
@pytest.mark.parametrize("chosen", [(0, 2), (2, 0), (1, 0)])
@pytest.mark.parametrize("relation", COMPARISONS)
def test_relations_between_chosen_operands(relation: str, chosen: tuple[int, int], redundancy: int) -> None:
    """Of three inputs; with three copies, one holds another pair and has little evidence."""
    unit = NSR(3, 1, redundancy=redundancy, scale=10.0)
    p = {name: np.zeros(shape) for name, shape in unit.shapes().items()}
    for r in range(redundancy):
        left, right = chosen if r < 2 else (1, 2)
        p["left"][0, r, left] = p["right"][0, r, right] = 60.0
        for name, value in zip(("sign", "zero", "bias"), COMPARISONS[relation], strict=True):
            p[name][0, r] = value if r < 2 else 0.1
    symbols = sympy.symbols("a b c")
    (snapped,) = unit.snapped(p, symbols)
    meant = getattr(sympy, relation)(symbols[chosen[0]], symbols[chosen[1]])
    assert snapped in (meant, meant.reversed)
    numbers = [-1e13, -1e13 + 1.0, -7.0, 0.0, 2.0, 1e13 - 1.0, 1e13]
    rows = [np.insert([u, v], 3 - sum(chosen), 5.0).tolist() for u in numbers for v in numbers]
    tensors = {name: torch.tensor(value)[None] for name, value in p.items()}
    y = unit.compute(tensors, torch.tensor([rows], dtype=torch.float64))[0, :, 0].round()
    told = [bool(snapped.subs(dict(zip(symbols, map(int, row), strict=True)))) for row in rows]
    assert y.tolist() == told and any(told) and not all(told)


@pytest.mark.parametrize("bias", [30.0, -30.0])
def test_a_register_without_evidence_is_true_or_false(bias: float) -> None:
    unit = NSR(2, 1)
    p = {name: np.zeros(shape) for name, shape in unit.shapes().items()}
    p["left"][0, 0, 0] = p["right"][0, 0, 1] = 40.0
    p["bias"][:], p["sign"][:] = bias, 1.0
    assert unit.snapped(p, sympy.symbols("a b")) == [sympy.true if bias > 0 else sympy.false]


@pytest.mark.parametrize(("name", "low", "high"), [("NAU", -1, 1), ("NMU", 0, 1)])
def test_regularisers_are_the_distance_to_whole_weights(name: str, low: int, high: int) -> None:
    weights = torch.linspace(low, high, 8 * (high - low) + 1, dtype=torch.float64)
    told = UNITS[name](1, 1).regulariser({"weight": weights.reshape(-1, 1, 1)})
    assert torch.equal(told, (weights - weights.round()).abs())
    assert int((told == 0.0).sum()) == high - low + 1 and told.max() == 0.5


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_penalties_are_one_number_a_member(variant: Variant) -> None:
    unit = unit_of(variant)
    p = wide_parameters(unit, members=3)
    for told in (unit.regulariser, lambda q: l1_norm(unit, q)):
        values = told(p)
        assert values.shape == (3,) and bool((values >= 0.0).all())
        changed = {k: torch.cat([v[:1], 0.5 * v[1:]]) for k, v in p.items()}
        assert told(changed)[0] == values[0]
    total = sum(v[2].abs().sum().item() for v in p.values())
    assert l1_norm(unit, p)[2].item() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("clip", [0.7, None])
def test_clipping_power_units_clips_gates_but_no_imaginary_exponents(clip: float | None) -> None:
    unit = NPU(2, 2, members=2, clip=clip)
    for value in unit.parameters():
        value.data.copy_(torch.linspace(-3.0, 3.0, value.numel()).reshape(value.shape))
    before = {k: v.detach().clone() for k, v in unit.named_parameters()}
    unit.project_()
    bounds = {} if clip is None else {"real": (-clip, clip), "gate": (0.0, 1.0)}
    for key, value in unit.named_parameters():
        expected = before[key].clamp(*bounds[key]) if key in bounds else before[key]
        assert torch.equal(value.detach(), expected)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("which", [[True, False, True], [False, False, False]])
def test_redrawn_members_are_as_at_the_beginning(name: str, which: list[bool]) -> None:
    unit, chosen = UNITS[name](2, 3, members=3), torch.tensor(which)
    for value in unit.parameters():
        value.data.fill_(7.0)
    redraw(unit, chosen, torch.Generator().manual_seed(9))
    fresh = unit.initial(3, torch.Generator().manual_seed(9))
    for key, value in unit.named_parameters():
        assert torch.equal(value.detach()[chosen], fresh[key][chosen])
        assert bool((value.detach()[~chosen] == 7.0).all())
        assert value.requires_grad and not bool((fresh[key] == 7.0).any())


@pytest.mark.parametrize("name", ["NALU", "iNALU"])
def test_closed_gates_silence_products_that_overflow(name: str) -> None:
    unit = UNITS[name](14, 1)  # 14 factors 1e30 ** 0.74 are beyond 1e308
    p = {k: torch.full((1, *s), 1.5, dtype=torch.float64, requires_grad=True) for k, s in unit.shapes().items()}
    x = torch.full((1, 1, 14), 1e30, dtype=torch.float64, requires_grad=True)
    y = unit.compute(p, x)
    assert y.item() == pytest.approx(14e30 * math.tanh(1.5) / (1.0 + math.exp(-1.5)), rel=1e-12)
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), [x, *p.values()]))
