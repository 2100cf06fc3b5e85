"""Equations: read, printed, computed and integrated."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import constant, latex_name
from odediscovery.laws.power_sum import PowerSum

FSIR = Equations.parse(
    ["S", "I", "R"], {"S": "-0.06*S**0.5*I**0.5 + 0.01*R", "I": "0.06*S**0.5*I**0.5 - 0.05*I", "R": "0.05*I - 0.01*R"}
)
PENDULUM = Equations.parse(["θ", "x y"], {"θ": "x_y", "x y": "-9.81*sin(θ) - 0.25*x_y*Abs(x_y)"})


def law(equations: Equations) -> PowerSum:
    assert equations.power_sum is not None
    return equations.power_sum


def test_monomials_are_shared() -> None:
    assert law(FSIR).n_monomials == 3
    assert FSIR.complexity == 13
    shared = law(FSIR).exponents.tolist().index([0.5, 0.5, 0.0])
    assert law(FSIR).coefficients[:, shared].tolist() == [-0.06, 0.06, 0.0]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("x", [(1.0, (1, 0))]),
        ("3", [(3.0, (0, 0))]),
        ("2.5/y - x/4", [(2.5, (0, -1)), (-0.25, (1, 0))]),
        ("x**0.5*x**0.5", [(1.0, (1, 0))]),
        ("(x - y)*(x + y)", [(1.0, (2, 0)), (-1.0, (0, 2))]),
        ("0.1*(x + y)**2", [(0.1, (2, 0)), (0.2, (1, 1)), (0.1, (0, 2))]),
        ("x**1.35*y**-0.8*1e-9", [(1e-9, (1.35, -0.8))]),
        ("x - x", []),
        ("sqrt(y)", [(1.0, (0, 0.5))]),
    ],
)
def test_sums_of_monomials_are_recognised(text: str, terms: list[tuple[float, Any]]) -> None:
    found = law(Equations.parse(["x", "y"], {"x": text, "y": "0"}))
    powers = map(tuple, found.exponents.tolist())
    seen = dict(zip(powers, found.coefficients[0].tolist(), strict=True))
    assert seen == {row: coefficient for coefficient, row in terms}


@pytest.mark.parametrize(
    "text",
    ["sin(x)", "x**y", "2**x", "(x + y)**0.5", "(x*y)**0.5", "(x**2)**0.5", "x/(1 + y)", "(x + y)**300", "Abs(x)"],
)
def test_everything_else_is_kept_as_expression(text: str) -> None:
    equations = Equations.parse(["x", "y"], {"x": text, "y": "x"})
    assert equations.power_sum is None
    assert equations.complexity > 2
    again = Equations.parse(["x", "y"], equations.texts())
    assert again.right_hand_sides == equations.right_hand_sides


coefficient = st.floats(1e-200, 1e200).flatmap(lambda x: st.sampled_from([x, -x]))
exponent = st.one_of(st.sampled_from([0.0, 1.0, 0.5, -2.0]), st.floats(-9, 9))


@pytest.mark.slow
@given(st.lists(st.tuples(coefficient, coefficient, exponent, exponent), max_size=4))
@settings(max_examples=80, deadline=None)
def test_texts_read_back_to_the_same_floats(rows: list[tuple[float, ...]]) -> None:
    unique = {row[2:]: row for row in rows if all(w == 0 or abs(w) > 1e-200 for w in row[2:])}
    values = np.array(list(unique.values())).reshape(-1, 4)
    states = ["x y", "lambda"]
    equations = Equations.from_power_sum(states, PowerSum(values[:, :2].T.copy(), values[:, 2:]))
    again = Equations.parse(states, equations.texts())
    read = {tuple(w): tuple(a) for w, a in zip(law(again).exponents, law(again).coefficients.T, strict=True)}
    assert read == {tuple(row[2:]): tuple(row[:2]) for row in values}
    assert again.texts() == equations.texts()


def test_a_missing_or_bad_equation_is_refused() -> None:
    with pytest.raises(InputError, match="the equation of 'y' is missing"):
        Equations.parse(["x", "y"], {"x": "1"})
    with pytest.raises(InputError, match="unknown name 'z'"):
        Equations.parse(["x"], {"x": "z"})


def test_from_power_sum_checks_shapes() -> None:
    one = PowerSum(np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(ValueError, match="2 names for a law of 1 states"):
        Equations.from_power_sum(["x", "y"], one)
    two = PowerSum(np.ones((1, 2)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="shapes of the law"):
        Equations.from_power_sum(["x"], one, standard_errors=two)
    with pytest.raises(ValueError, match="shapes of the law"):
        Equations.from_power_sum(["x"], one, snapped=(np.ones((1, 1), bool), np.ones((2, 1), bool)))


@given(st.lists(st.floats(0.01, 50.0), min_size=3, max_size=3))
@settings(max_examples=25, deadline=None)
def test_numbers_and_expressions_agree(state: list[float]) -> None:
    bare = Equations(FSIR.states, FSIR.right_hand_sides)
    np.testing.assert_allclose(bare.rhs(state), FSIR.rhs(state), rtol=1e-12)


def test_rates_keep_leading_axes_and_never_warn() -> None:
    x = np.ones((4, 5, 2))
    assert PENDULUM.rhs(x).shape == (4, 5, 2)
    constant_rate = Equations.parse(["x", "y"], {"x": "2", "y": "log(x)"})
    assert constant_rate.rhs([[1.0, 0.0], [0.0, 0.0]]).tolist() == [[2.0, 0.0], [2.0, -np.inf]]
    inverse = Equations.parse(["x"], {"x": "x**-1 - x**-2"})
    assert not np.isfinite(inverse.rhs([0.0])).any()


# Simulation


def test_simulation_is_accurate() -> None:
    times = np.array([1.0, 1.5, 4.0, 10.0])
    logistic = Equations.parse(["N"], {"N": "0.5*N - 0.005*N**2"})
    exact = 100.0 / (1.0 + 49.0 * np.exp(-0.5 * (times - 1.0)))
    np.testing.assert_allclose(logistic.simulate([2.0], times)[:, 0], exact, rtol=1e-7)
    oscillator = Equations.parse(["x", "v"], {"x": "v", "v": "-x"})
    found = oscillator.simulate([0.0, 1e-6], times)
    np.testing.assert_allclose(found[:, 0], 1e-6 * np.sin(times - 1.0), atol=1e-13)


def test_stiff_equations() -> None:
    stiff = Equations.parse(["x", "y"], {"x": "-1e6*x + 1e6*y", "y": "-y"})
    found = stiff.simulate([0.0, 1.0], np.array([0.0, 1.0]))
    np.testing.assert_allclose(found[1], np.exp(-1.0), rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("x**2", 4),  # blows up at t = 1
        ("-1/x", 2),  # reaches its pole at t = 0.5
        ("log(x) - 2", 2),  # leaves the domain
        ("1e300*x**900", 1),  # overflows at once
        ("1e9*sin(1e9*x)", 1),
    ],
)
def test_failed_solutions_end_in_nan_without_warning_or_hanging(text: str, reached: int) -> None:
    times = np.linspace(0.0, 2.0, 9)
    started = time.perf_counter()
    found = Equations.parse(["x"], {"x": text}).simulate([1.0], times, most_evaluations=5000)
    assert time.perf_counter() - started < 5
    finite = np.isfinite(found[:, 0])
    assert finite[:reached].all()
    assert text == "1e9*sin(1e9*x)" or not finite[-1]
    assert (np.diff(finite.astype(int)) <= 0).all()


def test_starts_and_times_at_the_edge() -> None:
    assert np.isnan(FSIR.simulate([np.nan, 1.0, 0.0], [0.0, 1.0])).all()
    assert FSIR.simulate([1.0, 2.0, 3.0], [5.0]).tolist() == [[1.0, 2.0, 3.0]]
    assert FSIR.simulate([1.0, 2.0, 3.0], []).shape == (0, 3)
    np.testing.assert_allclose(FSIR.simulate([0.0] * 3, [0.0, 1.0]), 0.0, atol=1e-100)
    with pytest.raises(ValueError, match="expected 3 initial values"):
        FSIR.simulate([1.0], [0.0, 1.0])
    tank = Equations.parse(["h"], {"h": "-h**0.5"})
    np.testing.assert_allclose(tank.simulate([1.0], [0.0, 2.0, 5.0])[1:, 0], 0.0, atol=1e-9)


# Printing


@pytest.mark.parametrize(
    ("value", "error", "written"),
    [
        (0.0600312, 0.000118, "0.06003(12)"),
        (0.06, 0.000118, "0.06000(12)"),
        (9.996, 0.0996, "10.00(10)"),
        (1.0, 0.01, "1.000(10)"),
        (3.0, 2.0, "3.0(20)"),
        (1234.5, 56.0, "1234(56)"),
        (123456.0, 560.0, "1.2346(56)e5"),
        (12345678.0, 560.0, "1.234568(56)e7"),
        (1e-5, 1.2e-7, "1.000(12)e-5"),
        (0.01, 0.5, "0.01(50)"),
        (0.0, 0.1, "0.00(10)"),
        (0.5, 0.0, "0.5"),
        (2.0 / 3.0, 0.0, "0.666666666667"),
        (0.5, 1e-15, "0.5"),
        (12345.678, np.nan, "12346"),
        (2.0 / 3.0, np.nan, "0.6667"),
        (1e-7, np.inf, "1e-7"),
        (-0.25, np.nan, "-0.25"),
        (1e300, 1e299, "1.00(10)e300"),
    ],
)
def test_constants_show_their_error(value: float, error: float, written: str) -> None:
    assert constant(value, error) == written


def test_pretty_without_errors() -> None:
    assert FSIR.pretty().splitlines() == [
        "S' = 0.01*R - 0.06*S^0.5*I^0.5",
        "I' = 0.06*S^0.5*I^0.5 - 0.05*I",
        "R' = 0.05*I - 0.01*R",
    ]
    assert PENDULUM.pretty(2).splitlines() == ["θ' = x y", "x y' = -9.8*sin(θ) - 0.25*Abs(x y)*x y"]


def test_pretty_with_errors_and_snapped_constants() -> None:
    found = PowerSum(np.array([[9.81, -0.90123], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.6, -1.0]]))
    errors = PowerSum(np.array([[0.0, 0.0021], [0.0, 0.0]]), np.array([[0.0, 0.0], [0.0123, 0.01]]))
    snapped = (np.zeros((2, 2), bool), np.array([[False, False], [False, True]]))
    equations = Equations.from_power_sum(["x y", "sin"], found, standard_errors=errors, snapped=snapped)
    assert equations.pretty() == "x y' = 9.81 - 0.9012(21)*x y^1.600(12)*sin^-1\nsin' = 0"


def test_terms_keep_their_places_when_constants_change_a_little() -> None:
    texts = {"x": "2 + 3*x**{a}*y - y**{b} + x", "y": "0"}
    lines = []
    for a, b in ((0.9998, 1.0001), (1.0001, 0.9998)):
        filled = {state: text.format(a=a, b=b) for state, text in texts.items()}
        lines.append(Equations.parse(["x", "y"], filled).pretty(3).splitlines()[0])
    assert lines[0] == lines[1] == "x' = 2 + x + 3*x*y - y"


def test_latex() -> None:
    assert FSIR.latex()["S"] == r"\frac{dS}{dt} = 0.01\,R - 0.06\,S^{0.5}\,I^{0.5}"
    assert PENDULUM.latex()["θ"] == r"\frac{d\theta}{dt} = \mathrm{x\ y}"
    assert r"\sin{\left(\theta \right)}" in PENDULUM.latex()["x y"]
    tiny = Equations.parse(["a=b"], {"a=b": "1e-9*a_b"}, time_name="time")
    assert tiny.latex()["a=b"] == (
        r"\frac{d\mathrm{a\char61{}b}}{d\mathrm{time}} = 1 \times 10^{-9}\,\mathrm{a\char61{}b}"
    )


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("S", "S"),
        ("x1", "x_{1}"),
        ("x_1", "x_{1}"),
        ("beta", r"\beta"),
        ("β", r"\beta"),
        ("Λ", r"\Lambda"),
        ("λ2", r"\lambda_{2}"),
        ("50%_a", r"\mathrm{50\%\_a}"),
        ("7", r"\mathrm{7}"),
        ("prey", r"\mathrm{prey}"),
    ],
)
def test_names_in_latex(name: str, written: str) -> None:
    assert latex_name(name) == written


def test_python_source_computes_the_same() -> None:
    names = ["t", "y", "np", "lambda", "x y"]
    texts = {
        "t": "sin(y)*np",
        "y": "t**0.5 - y",
        "np": "-np*lambda_",
        "lambda": "0",
        "x y": "Abs(t) + sqrt(x_y)*exp(-y) - sign(np)",
    }
    for equations in (Equations.parse(names, texts), Equations.parse(["x"], {"x": "-2*x"})):
        source = equations.python()
        space: dict[str, Any] = {}
        exec(compile(source, "exported", "exec"), space)
        state = np.linspace(0.5, 2.0, len(equations.states))
        np.testing.assert_allclose(space["rates"](0.0, state), equations.rhs(state), rtol=1e-14)


def test_julia_source() -> None:
    assert FSIR.julia() == (
        "function rates!(du, u, p, t)\n"
        "    S, I, R = u\n"
        "    du[1] = 0.01*R - 0.06*I^0.5*S^0.5  # d/dt of S\n"
        "    du[2] = 0.06*I^0.5*S^0.5 - 0.05*I  # d/dt of I\n"
        "    du[3] = 0.05*I - 0.01*R  # d/dt of R\n"
        "    return nothing\n"
        "end\n"
    )
    odd = Equations.parse(["end", "u"], {"end": "-u*end**-0.5", "u": "sin(end)"})
    assert "    end_, u_ = u\n    du[1] = -end_^(-0.5)*u_  # d/dt of end\n" in odd.julia()
    assert "    du[2] = Base.sin(end_)  # d/dt of u\n" in odd.julia()


def test_columns_with_any_name_work() -> None:
    names = ["S", "I", "R", "E", "N", "Q", "beta", "gamma", "lambda", "sin", "I0", "x y", "β"]
    power_sum = PowerSum(-np.diag(np.arange(1.0, 14.0)), np.eye(13))
    equations = Equations.from_power_sum(names, power_sum)
    assert equations.pretty().splitlines()[11] == "x y' = -12*x y"
    assert np.array_equal(law(Equations.parse(names, equations.texts())).exponents, np.eye(13))
    assert all(isinstance(symbol, sympy.Symbol) for symbol in equations.symbols)
    assert set(equations.latex()) == set(names)


def test_a_state_may_start_at_0_where_another_one_drives_it() -> None:
    # At a tolerance of 1e-18 for v, which rounding of x alone moves by 1e-16, LSODA gets stuck.
    toda = Equations.parse(["x", "v"], {"x": "v", "v": "0.5*v**2 - 0.7182818284438731 - x"})
    end = toda.simulate([1.0, 0.0], [0.0, 5.0])[1]
    np.testing.assert_allclose(end, toda.simulate([1.0, 1e-9], [0.0, 5.0])[1], atol=1e-7)
