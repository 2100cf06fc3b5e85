"""Every unit of the registry: reference values, both stories, limits, gradients, beginnings, a layer of torch."""

import importlib
import json
import math
import pkgutil
import warnings
from pathlib import Path

import mpmath
import numpy as np
import pytest
import sympy
import torch
from torch import nn

from odediscovery import units
from odediscovery.units import NAU, NMU, NPU, NSR, UNITS, AbstractUnit, NaiveNPU, RealNPU, glorot, iNALU
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
VARIANTS = [
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


def test_every_unit_of_the_package_is_in_the_registry():
    for module in pkgutil.iter_modules(units.__path__, f"{units.__name__}."):
        importlib.import_module(module.name)
    ours = [c for c in descendants(AbstractUnit) if c.__module__.startswith(units.__name__)]
    assert {c for c in ours if not c.__subclasses__()} <= set(UNITS.values()) and {*UNITS.values()} <= set(ours)
    assert all(unit.__name__ == name for name, unit in UNITS.items())


def descendants(cls):
    return [c for child in cls.__subclasses__() for c in (child, *descendants(child))]


def label(variant):
    name, options = variant
    return name + "".join(f"-{key}={value}" for key, value in options.items())


def unit_of(variant, inputs=INPUTS):
    name, options = variant
    return UNITS[name](inputs, OUTPUTS, **options)


def random_parameters(unit, seed=0):
    """Weights of both signs and gates on both sides of 0 and 1 as well as between."""
    source = torch.Generator().manual_seed(seed)

    def uniform(shape, low, high):
        draw = torch.rand(MEMBERS, *shape, generator=source, dtype=torch.float64)
        return low + (high - low) * draw

    values = {name: uniform(shape, -1.5, 1.5) for name, shape in unit.shapes().items()}
    if "gate" in values:
        values["gate"] = uniform(unit.shapes()["gate"], -0.3, 1.3)
    return values


def random_inputs(seed=1):
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(MEMBERS, BATCH, INPUTS, generator=source, dtype=torch.float64)
    assert (x < 0).any() and (x > 0).any()
    return x


def arrays(p, member):
    return {name: value[member].numpy() for name, value in p.items()}


def numbers(expressions, symbols, x):
    """Expressions at x [batch, inputs] -> [batch, outputs]."""
    function = sympy.lambdify(symbols, expressions, modules=["numpy", {"Heaviside": np.heaviside}])
    return np.array([[complex(v).real for v in function(*row)] for row in x.tolist()])


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['unit']}-{np.shape(c['x'])[1]}")
def test_reference_values(case):
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


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_both_stories_agree(variant):
    unit, x = unit_of(variant), random_inputs()
    p, symbols = random_parameters(unit), [sympy.Symbol(f"y{k}") for k in range(INPUTS)]
    y = unit.compute(p, x)
    assert y.shape == (MEMBERS, BATCH, OUTPUTS)
    for member in range(MEMBERS):
        told = numbers(unit.symbolic(arrays(p, member), symbols), symbols, x[member])
        np.testing.assert_allclose(told, y[member], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_members_are_independent(variant):
    unit, x = unit_of(variant), random_inputs()
    p = random_parameters(unit)
    y = unit.compute(p, x)
    for member in range(MEMBERS):
        alone = {name: value[member : member + 1] for name, value in p.items()}
        np.testing.assert_allclose(unit.compute(alone, x[member : member + 1])[0], y[member], rtol=1e-13)
    spoiled = {name: torch.stack([value[0], value[1] * torch.nan]) for name, value in p.items()}
    assert torch.equal(unit.compute(spoiled, x)[0], y[0])


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_pull_is_the_derivative(variant):
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


def test_nonnegative_inputs_below_zero_count_as_zero():
    unit = RealNPU(2, 1, nonnegative=[True, False])
    p = {"real": torch.tensor([[[0.5, 1.0]]], dtype=torch.float64), "gate": torch.ones(1, 2, dtype=torch.float64)}
    below = unit.compute(p, torch.tensor([[[-0.3, 2.0]]], dtype=torch.float64))
    zero = unit.compute(p, torch.tensor([[[0.0, 2.0]]], dtype=torch.float64))
    assert below.item() == zero.item() < 1e-7
    signed = unit.compute(p, torch.tensor([[[4.0, -2.0]]], dtype=torch.float64))
    assert signed.item() == pytest.approx(-4.0, rel=1e-12)


@pytest.mark.parametrize("cls", [RealNPU, NPU])
@pytest.mark.parametrize(("rule", "passes"), [("through", True), ("zero", False)])
def test_gradients_of_gates_outside(cls, rule, passes):
    unit = cls(3, 2, gate_gradient=rule)
    p = {name: value.detach().clone() for name, value in unit.named_parameters()}
    p["gate"] = torch.tensor([[-0.2, 0.5, 1.3]], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([[[2.0, 3.0, 0.4], [0.7, 5.0, 1.9]]], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(unit.compute(p, x).sum(), p["gate"])
    assert gradient[0, 1] != 0
    assert bool((gradient[0, [0, 2]] != 0).all()) is passes
    assert passes or bool((gradient[0, [0, 2]] == 0).all())


def test_weights_begin_as_in_the_study():
    values = NPU(3, 9, init_re=glorot(0.2)).initial(400, torch.Generator().manual_seed(7))
    weight, bound = values["real"], 0.2 * math.sqrt(6.0 / (3 + 9))
    assert weight.shape == (400, 9, 3) and weight.dtype == torch.float64
    assert 0.99 * bound < weight.max() <= bound and -bound <= weight.min() < -0.99 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3.0), rel=0.02)
    assert bool((values["gate"] == 0.5).all()) and not values["imaginary"].any()


@pytest.mark.parametrize("name", UNITS)
def test_beginnings_are_repeatable_and_members_differ(name):
    one, same, other = (
        next(UNITS[name](3, 4, members=2, generator=torch.Generator().manual_seed(seed)).parameters()).detach()
        for seed in (3, 3, 4)
    )
    assert torch.equal(one, same) and not torch.equal(one, other) and not torch.equal(one[0], one[1])


each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=label)


def layer(variant, **base):
    name, options = variant
    return UNITS[name](3, 4, **options, **base)


@each_variant
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inputs_have_any_leading_axes(variant, dtype):
    unit = layer(variant, dtype=dtype)
    x = torch.rand(2, 5, 3, dtype=dtype)
    y = unit(x)
    assert y.shape == (2, 5, 4) and y.dtype == dtype
    torch.testing.assert_close(unit(x[0]), y[0])
    torch.testing.assert_close(unit(x[0, 1]), y[0, 1])
    assert {p.dtype for p in unit.parameters()} == {dtype}


@each_variant
def test_members_are_a_leading_axis_and_only_where_they_were_asked_for(variant):
    unit = layer(variant, members=2)
    x = torch.rand(2, 6, 5, 3)
    y = unit(x)
    assert y.shape == (2, 6, 5, 4)
    torch.testing.assert_close(unit(x[:, 0]), y[:, 0])
    torch.testing.assert_close(unit(x[:, 0, 0]), y[:, 0, 0])
    for own, members in ((unit, (2,)), (layer(variant), ())):
        assert [p.shape for p in own.parameters()] == [(*members, *shape) for shape in own.shapes().values()]


@pytest.mark.parametrize("variant", [("NPU", {}), ("NALU", {}), ("NSR", {})], ids=label)
def test_a_compiled_layer_computes_the_same(variant):
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


@pytest.mark.parametrize("name", UNITS)
def test_a_layer_of_another_width_is_refused_in_one_line(name):
    unit = UNITS[name](3, 4)
    with pytest.raises(ValueError, match=rf"^{unit.name} expects an input of shape \[\.\.\., 3\], got \[5, 2\]$"):
        unit(torch.rand(5, 2))
    with pytest.raises(ValueError, match=r"shape \[2, \.\.\., 3\], got \[5, 3\]$"):
        UNITS[name](3, 4, members=2)(torch.rand(5, 3))
    with pytest.raises(ValueError, match="at least 1, got 3, 4 and 0"):
        UNITS[name](3, 4, members=0)


def test_parameters_begin_as_they_are_asked_to():
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
def test_a_status_register_is_a_relation(relation, redundancy):
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


def test_regularisers_are_zero_at_whole_weights_only():
    for unit, whole in ((NAU(2, 2), [[-1.0, 0.0], [1.0, 1.0]]), (NMU(2, 2), [[1.0, 0.0], [0.0, 1.0]])):
        at = {"weight": torch.tensor([whole], dtype=torch.float64)}
        between = {"weight": torch.full((1, 2, 2), 0.25, dtype=torch.float64)}
        assert unit.regulariser(at).tolist() == [0.0]
        assert unit.regulariser(between).tolist() == [0.25]
    pushed = iNALU(1, 1, members=2)
    wide = {k: torch.full((2, *s), 25.0, dtype=torch.float64) for k, s in pushed.shapes().items()}
    assert pushed.regulariser(wide).tolist() == [0.0, 0.0]
    assert bool((pushed.regulariser(dict(pushed.named_parameters())) > 0.9).all())


def test_clipping_brings_weights_back():
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


def wide_parameters(unit):
    """Weights in [-1.5, 1.5]; gates of power units at 0, at 1 and between."""
    source = torch.Generator().manual_seed(7)
    values = {name: 3.0 * torch.rand(MEMBERS, *shape, generator=source) - 1.5 for name, shape in unit.shapes().items()}
    if "gate" in unit.gates:
        values["gate"] = torch.tensor([[0.0, 1.0, 0.3]] * MEMBERS)
    return values


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_far_out_values_are_exact_and_derivatives_finite(variant):
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
def test_snapped_is_the_limit(name, options, opened):
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
