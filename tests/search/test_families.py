"""Laws beyond sums of powers: functions, sums, logistic terms; and the ladder that finds them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sympy
import torch

from odediscovery import discover, settings_for
from odediscovery.data.noise import relative_noise
from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries
from odediscovery.families import Function
from odediscovery.judge.doubt import doubtful, interval_squares
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.networks.layers import Network
from odediscovery.networks.translate import network_of
from odediscovery.plots.heatmaps import network_figure
from odediscovery.problem.prepare import prepare
from odediscovery.problem.redundancy import linear_relation
from odediscovery.runtime.arrays import Array
from odediscovery.stages.grow.subsets import best_subsets
from odediscovery.stages.polish.polish import polish
from odediscovery.units import UNITS

T = np.linspace(0.0, 10.0, 150)
# x' = 2 - 0.5 sin(x) x^2 / (1 + 0.25 x^2), y' = y exp(-0.3 x) - y^1.5
RICH = PowerSum(
    np.array([[2.0, -0.5, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]),
    np.array([[0, 0, 0, 0, 0.0], [2, 0, 1, 0, -1], [0, 1, 0, -0.3, 0], [0, 1.5, 0, 0, 0]]),
    Features(2, (Function("sin", 0), Function("exp", 0)), Sums(np.array([[0.25]]), np.array([[2.0, 0.0, 0.0, 0.0]]))),
)
X = np.array([[0.3, 1.2], [2.0, 0.4], [4.0, 2.5]])


def formula(x: Array) -> Array:
    a, b = x[..., 0], x[..., 1]
    first = 2.0 - 0.5 * np.sin(a) * a**2 / (1.0 + 0.25 * a**2)
    return np.stack([first, b * np.exp(-0.3 * a) - b**1.5], axis=-1)


def series_of(texts: dict[str, str], start: list[float], noise: float = 0.0) -> TimeSeries:
    law = Equations.parse(list(texts), texts)
    clean = law.simulate(start, T)
    seen = clean * (1.0 + noise * np.random.default_rng(0).standard_normal(clean.shape))
    return TimeSeries.from_arrays(T, seen, list(texts))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[Network], Path]:
    """Writes a network as a file."""

    def write(network: Network) -> Path:
        path = tmp_path / "model.npz"
        path.write_bytes(Network.to_bytes(network))
        return path

    return write


def test_a_law_over_functions_and_sums_is_its_formula() -> None:
    np.testing.assert_allclose(RICH.rhs(X), formula(X), rtol=1e-13)
    printed = Equations.from_power_sum(["x", "y"], RICH)
    np.testing.assert_allclose(printed.rhs(X), formula(X), rtol=1e-13)
    assert printed.power_sum is None
    again = Equations.parse(["x", "y"], printed.texts())
    np.testing.assert_allclose(again.rhs(X), formula(X), rtol=1e-13)


def test_scales_are_undone_exactly() -> None:
    scale = np.array([3.0, 0.2])
    there = RICH.rescaled(scale, 0.5)
    np.testing.assert_allclose(there.rhs(X / scale) * scale / 0.5, formula(X), rtol=1e-12)
    np.testing.assert_allclose(there.unscaled(scale, 0.5).rhs(X), formula(X), rtol=1e-12)


def test_compact_drops_what_nothing_needs() -> None:
    coefficients = RICH.coefficients.copy()
    coefficients[0, 1] = 0.0
    smaller = PowerSum(coefficients, RICH.exponents, RICH.features).merged().compact()
    assert smaller.features is not None
    assert [f.name for f in smaller.features.functions] == ["exp"] and not len(smaller.features.sums)
    kept = RICH.rhs(X)[:, 1]
    np.testing.assert_allclose(smaller.rhs(X)[:, 1], kept, rtol=1e-13)
    plain = PowerSum(np.array([[1.0]]), np.array([[1.0, 0.0]]), Features(1, (Function("sin", 0),)))
    assert plain.compact().features is None
    # 3 coefficients, 3 exponents, exp, and two states.
    assert smaller.complexity == 3 + 3 + 1 + 2


def test_polish_finds_the_constants_of_a_sum() -> None:
    series = series_of({"x": "1 - 2*x/(1 + 0.5*x)"}, [4.0])
    near = PowerSum(
        np.array([[1.1, -1.8]]),
        np.array([[0.0, 0.0], [1.0, -1.0]]),
        Features(1, (), Sums(np.array([[0.4]]), np.array([[1.0]]))),
    )
    a, w, b, v = near.constants
    found = polish(
        near,
        series,
        np.array([[4.0]]),
        np.array([1e-6]),
        floor=np.array([1e-9]),
        nonnegative=np.array([True]),
        free=(a != 0, w < -9, b != 0, v < -9),
    )
    np.testing.assert_allclose(found.law.coefficients, [[1.0, -2.0]], rtol=1e-6)
    assert found.law.constants[2][0, 0] == pytest.approx(0.5, rel=1e-6)
    assert found.covariance.shape == (3, 3)


def test_the_beam_finds_what_explains_nothing_alone() -> None:
    t = np.linspace(-1.0, 1.0, 60)
    columns = np.stack([t**k for k in range(12)], axis=1)
    columns /= np.linalg.norm(columns, axis=0)
    y = 1.0 * columns[:, 2] - 0.999 * columns[:, 4] + 0.01 * columns[:, 7]
    assert best_subsets(columns, y, np.arange(12), 3, 1)[2] == [(2, 4, 7)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("texts", "start"),
    [
        ({"x": "0.3 - sin(x)"}, [2.0]),
        ({"x": "0.05*x*log(3*x)"}, [1.2]),
        ({"x": "x - x**2 - 0.2*x/(0.6 + x)"}, [0.2]),
        ({"x": "1/(1 + exp(4*y - 1)) - x", "y": "0.7*x - 0.5*y"}, [0.1, 1.5]),
    ],
    ids=["sine", "logarithm", "rational", "logistic"],
)
def test_clean_data_of_a_rich_family_give_its_law(texts: dict[str, str], start: list[float]) -> None:
    # A limit of its own: the default one is short for a machine that is busy, or counts lines.
    found = discover(series_of(texts, start), settings_for(seed=0, max_seconds=120.0))
    truth = Equations.parse(list(texts), texts)
    points = np.abs(np.array(start)) * np.random.default_rng(1).uniform(0.5, 1.5, (40, len(start)))
    np.testing.assert_allclose(found.equations.rhs(points), truth.rhs(points), rtol=1e-4, atol=1e-6)
    assert found.equations.power_sum is None
    assert any("complexity counts" in message for message in found.messages)


def test_only_equations_that_look_wrong_are_doubtful() -> None:
    p = prepare(series_of({"x": "-0.5*x**1.5", "y": "x - y"}, [2.0, 0.1]))
    law = PowerSum(np.array([[-0.5, 0.0, 0.0], [0.0, 1.0, -1.0]]), np.array([[1.5, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    true = law.rescaled(p.scale.state, p.scale.time)
    assert interval_squares(true, p).max() < 1e-12
    assert doubtful(true, p).tolist() == [False, False]
    exponents = true.exponents.copy()
    exponents[2, 1] = 1.01
    assert doubtful(PowerSum(true.coefficients, exponents), p).tolist() == [False, True]


def test_the_network_of_a_law_with_functions_and_sums_computes_it(stored: Callable[[Network], Path]) -> None:
    path = stored(network_of(RICH, Scale(np.ones(2), 1.0)))
    network = Network.from_bytes(path.read_bytes(), path)
    assert network is not None
    assert [layer.unit for layer in network.layers] == ["Functions", *["RealNPU", "NAU"] * 2]
    x = torch.as_tensor(X)[None]
    for layer in network.layers:
        own = {"functions": layer.functions} if layer.functions else {}
        unit = UNITS[layer.unit](layer.n_in, layer.n_out, **own)
        arrays = dict(layer.arrays)
        if layer.functions:
            assert arrays["rate"][: layer.n_in].tolist() == [1.0, 1.0]
            arrays["rate"] = arrays["rate"][layer.n_in :]
        x = unit.compute({name: torch.as_tensor(a)[None] for name, a in arrays.items()}, x)
    np.testing.assert_allclose(x[0], formula(X), rtol=1e-9)


def test_the_network_of_a_law_with_functions_is_drawn() -> None:
    figure = network_figure(network_of(RICH, Scale(np.ones(2), 1.0)), ["x", "y"], "t")
    texts = [t.get_text() for axes in figure.axes for t in axes.get_yticklabels()]
    assert {"x", "y", "sin(x)", "exp(x)", "dx/dt"} <= set(texts)


def test_noise_that_grows_with_the_state_is_told_from_noise_that_does_not() -> None:
    clean = 5.0 * np.exp(-0.5 * T) + 0.05
    random = np.random.default_rng(2)
    relative = TimeSeries.from_arrays(T, (clean * (1 + 0.05 * random.standard_normal(150)))[:, None])
    same = TimeSeries.from_arrays(T, (clean + 0.05 * random.standard_normal(150))[:, None])
    (shape,) = relative_noise(relative)
    assert shape[:10].mean() > 10 * shape[-10:].mean()
    assert (relative_noise(same)[0] == 1.0).all()


def test_states_that_cannot_be_told_apart_are_named() -> None:
    series = series_of({"S": "-0.5*S*I", "I": "0.5*S*I - 0.2*I", "R": "0.2*I"}, [2.0, 0.1, 0.0])
    relation = linear_relation(prepare(series))
    assert relation is not None
    np.testing.assert_allclose(relation[0], [1.0, 1.0, 1.0], rtol=1e-6)
    assert relation[1] == pytest.approx(2.1)
    free = series_of({"x": "-x", "y": "x*y - y"}, [2.0, 0.5])
    assert linear_relation(prepare(free)) is None


def test_pieces_hold_every_sample_once() -> None:
    p = prepare(series_of({"x": "-x"}, [2.0], noise=0.01))
    pieces = p.pieces(40)
    assert [len(t.time) for t in pieces.data.trajectories] == [50, 50, 50]
    assert pieces.heads == (0,)
    joined = np.concatenate([t.values for t in pieces.data.trajectories])
    np.testing.assert_array_equal(joined, p.data.trajectories[0].values)
    assert sum(map(len, pieces.relative_sigma)) == 150


@pytest.mark.slow
def test_latex_of_a_rational_law_is_a_fraction() -> None:
    law = Equations.from_power_sum(
        ["x"],
        PowerSum(
            np.array([[1.0]]), np.array([[1.0, -1.0]]), Features(1, (), Sums(np.array([[2.0]]), np.array([[1.0]])))
        ),
    )
    assert sympy.simplify(law.right_hand_sides[0] - law.symbols[0] / (1 + 2.0 * law.symbols[0])) == 0
    assert r"\frac{x}" in law.latex()["x"]
    assert law.pretty() == "x' = x/(1 + 2*x)"


@pytest.mark.slow
def test_a_predator_that_saturates_is_found() -> None:
    """Rosenzweig and MacArthur's law: a quotient that two equations share."""
    prey = {"x": "x*(1 - x/3) - 1.2*x*y/(1 + 0.8*x)", "y": "0.9*x*y/(1 + 0.8*x) - 0.5*y"}
    first, second = series_of(prey, [1.5, 0.6]), series_of(prey, [0.4, 1.8])
    both = dataclasses.replace(first, trajectories=(*first.trajectories, *second.trajectories))
    found = discover(both, settings_for(members=0))
    assert found.r2 > 1 - 1e-12
    x, y = found.equations.symbols
    truth = 0.9 * x * y / (1 + 0.8 * x) - 0.5 * y
    rate = sympy.lambdify((x, y), found.equations.right_hand_sides[1] - truth)
    assert max(abs(rate(a, b)) for a in (0.5, 1.0, 2.0) for b in (0.3, 1.0)) < 1e-5
