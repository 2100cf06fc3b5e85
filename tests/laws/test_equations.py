"""Equations: read, printed, computed and integrated; text to expressions and back."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odediscovery import Equations, InputError
from odediscovery.laws.equations import read_form
from odediscovery.laws.expressions import constant, latex_name
from odediscovery.laws.power_sum import PowerSum

FSIR = Equations.parse(
    ["S", "I", "R"], {"S": "-0.06*S**0.5*I**0.5 + 0.01*R", "I": "0.06*S**0.5*I**0.5 - 0.05*I", "R": "0.05*I - 0.01*R"}
)
PENDULUM = Equations.parse(["θ", "x y"], {"θ": "x_y", "x y": "-9.81*sin(θ) - 0.25*x_y*Abs(x_y)"})


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
def test_sums_of_monomials_are_recognised(text, terms):
    found = Equations.parse(["x", "y"], {"x": text, "y": "0"}).power_sum
    powers = map(tuple, found.exponents.tolist())
    seen = dict(zip(powers, found.coefficients[0].tolist(), strict=True))
    assert seen == {row: coefficient for coefficient, row in terms}


@pytest.mark.parametrize(
    "text",
    ["sin(x)", "x**y", "2**x", "(x + y)**0.5", "(x*y)**0.5", "(x**2)**0.5", "x/(1 + y)", "(x + y)**300", "Abs(x)"],
)
def test_everything_else_is_kept_as_expression(text):
    equations = Equations.parse(["x", "y"], {"x": text, "y": "x"})
    assert equations.power_sum is None
    assert equations.complexity > 2
    again = Equations.parse(["x", "y"], equations.texts())
    assert again.right_hand_sides == equations.right_hand_sides


coefficient = st.floats(1e-200, 1e200).flatmap(lambda x: st.sampled_from([x, -x]))
exponent = st.one_of(st.sampled_from([0.0, 1.0, 0.5, -2.0]), st.floats(-9, 9))


@given(st.lists(st.tuples(coefficient, coefficient, exponent, exponent), max_size=4))
@settings(max_examples=80, deadline=None)
def test_texts_read_back_to_the_same_floats(rows):
    unique = {row[2:]: row for row in rows if all(w == 0 or abs(w) > 1e-200 for w in row[2:])}
    values = np.array(list(unique.values())).reshape(-1, 4)
    states = ["x y", "lambda"]
    equations = Equations.from_power_sum(states, PowerSum(values[:, :2].T.copy(), values[:, 2:]))
    again = Equations.parse(states, equations.texts())
    read = {tuple(w): tuple(a) for w, a in zip(again.power_sum.exponents, again.power_sum.coefficients.T, strict=True)}
    assert read == {tuple(row[2:]): tuple(row[:2]) for row in values}
    assert again.texts() == equations.texts()


def test_a_missing_or_bad_equation_is_refused():
    with pytest.raises(InputError, match="the equation of 'y' is missing"):
        Equations.parse(["x", "y"], {"x": "1"})
    with pytest.raises(InputError, match="unknown name 'z'"):
        Equations.parse(["x"], {"x": "z"})


@given(st.lists(st.floats(0.01, 50.0), min_size=3, max_size=3))
@settings(max_examples=25, deadline=None)
def test_numbers_and_expressions_agree(state):
    bare = Equations(FSIR.states, FSIR.right_hand_sides)
    np.testing.assert_allclose(bare.rhs(state), FSIR.rhs(state), rtol=1e-12)


def test_rates_keep_leading_axes_and_never_warn():
    x = np.ones((4, 5, 2))
    assert PENDULUM.rhs(x).shape == (4, 5, 2)
    constant_rate = Equations.parse(["x", "y"], {"x": "2", "y": "log(x)"})
    assert constant_rate.rhs([[1.0, 0.0], [0.0, 0.0]]).tolist() == [[2.0, 0.0], [2.0, -np.inf]]
    inverse = Equations.parse(["x"], {"x": "x**-1 - x**-2"})
    assert not np.isfinite(inverse.rhs([0.0])).any()


# Simulation


def test_simulation_is_accurate():
    times = np.array([1.0, 1.5, 4.0, 10.0])
    logistic = Equations.parse(["N"], {"N": "0.5*N - 0.005*N**2"})
    exact = 100.0 / (1.0 + 49.0 * np.exp(-0.5 * (times - 1.0)))
    np.testing.assert_allclose(logistic.simulate([2.0], times)[:, 0], exact, rtol=1e-7)
    oscillator = Equations.parse(["x", "v"], {"x": "v", "v": "-x"})
    found = oscillator.simulate([0.0, 1e-6], times)
    np.testing.assert_allclose(found[:, 0], 1e-6 * np.sin(times - 1.0), atol=1e-13)


def test_stiff_equations():
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
def test_failed_solutions_end_in_nan_without_warning_or_hanging(text, reached):
    times = np.linspace(0.0, 2.0, 9)
    started = time.perf_counter()
    found = Equations.parse(["x"], {"x": text}).simulate([1.0], times, most_evaluations=5000)
    assert time.perf_counter() - started < 5
    finite = np.isfinite(found[:, 0])
    assert finite[:reached].all()
    assert text == "1e9*sin(1e9*x)" or not finite[-1]
    assert (np.diff(finite.astype(int)) <= 0).all()


def test_starts_and_times_at_the_edge():
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
def test_constants_show_their_error(value, error, written):
    assert constant(value, error) == written


def test_pretty_without_errors():
    assert FSIR.pretty().splitlines() == [
        "S' = 0.01*R - 0.06*S^0.5*I^0.5",
        "I' = 0.06*S^0.5*I^0.5 - 0.05*I",
        "R' = 0.05*I - 0.01*R",
    ]
    assert PENDULUM.pretty(2).splitlines() == ["θ' = x y", "x y' = -9.8*sin(θ) - 0.25*Abs(x y)*x y"]


def test_pretty_with_errors_and_snapped_constants():
    found = PowerSum(np.array([[9.81, -0.90123], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.6, -1.0]]))
    errors = PowerSum(np.array([[0.0, 0.0021], [0.0, 0.0]]), np.array([[0.0, 0.0], [0.0123, 0.0]]))
    equations = Equations.from_power_sum(["x y", "sin"], found, standard_errors=errors)
    assert equations.pretty() == "x y' = 9.81 - 0.9012(21)*x y^1.600(12)*sin^-1\nsin' = 0"


def test_terms_keep_their_places_when_constants_change_a_little():
    texts = {"x": "2 + 3*x**{a}*y - y**{b} + x", "y": "0"}
    lines = []
    for a, b in ((0.9998, 1.0001), (1.0001, 0.9998)):
        filled = {state: text.format(a=a, b=b) for state, text in texts.items()}
        lines.append(Equations.parse(["x", "y"], filled).pretty(3).splitlines()[0])
    assert lines[0] == lines[1] == "x' = 2 + x + 3*x*y - y"


def test_latex():
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
def test_names_in_latex(name, written):
    assert latex_name(name) == written


def test_python_source_computes_the_same():
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
        space = {}
        exec(compile(source, "exported", "exec"), space)
        state = np.linspace(0.5, 2.0, len(equations.states))
        np.testing.assert_allclose(space["rates"](0.0, state), equations.rhs(state), rtol=1e-14)


def test_julia_source():
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


def test_a_state_may_start_at_0_where_another_one_drives_it():
    # At a tolerance of 1e-18 for v, which rounding of x alone moves by 1e-16, LSODA gets stuck.
    toda = Equations.parse(["x", "v"], {"x": "v", "v": "0.5*v**2 - 0.7182818284438731 - x"})
    end = toda.simulate([1.0, 0.0], [0.0, 5.0])[1]
    np.testing.assert_allclose(end, toda.simulate([1.0, 1e-9], [0.0, 5.0])[1], atol=1e-7)


def test_julia_takes_controls_from_its_parameter():
    law = Equations.parse(["u", "end"], {"u": "w*end", "end": "-u**2"}, controls=["w"])
    lines = law.julia().splitlines()
    assert lines[0] == "function rates!(du, u, p, t)" and lines[-1] == "end"
    assert lines[1] == "    w, = p(t)  # the inputs at this time" and lines[2] == "    u_, end_ = u"
    assert "du[2] = -u_^2" in lines[4]


HOLLING = """
prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)
pred' = e*prey*pred/(1 + b*prey) - m*pred
"""


def test_names_that_are_no_states_are_constants():
    form = read_form(HOLLING, ["prey", "pred"], start={"K": 40})
    assert form.names == ("r", "K", "a", "b", "e", "m")
    assert form.starts == (None, 40.0, None, None, None, None)
    law = form.with_constants([0.5, 50.0, 0.1, 0.02, 0.05, 0.3])
    x, y = 20.0, 3.0
    eaten = x * y / (1 + 0.02 * x)
    np.testing.assert_allclose(law.rhs([x, y]), [0.5 * x * (1 - x / 50) - 0.1 * eaten, 0.05 * eaten - 0.3 * y])
    np.testing.assert_allclose(form.open().rhs([x, y, 0.5, 50.0, 0.1, 0.02, 0.05, 0.3]), law.rhs([x, y]))
    assert form.lines() == HOLLING.strip().splitlines()


@pytest.mark.parametrize(
    ("written", "text", "starts"),
    [
        ("x' = -k*x", "-k*x", [None]),
        ("x' = -k*x^0.5 + 2", "-k*x**0.5 + 2", [None]),
        ("x' = 0.481(65)*x - 0.02*x^2", "c1*x - c2*x**2", [0.481, 0.02]),
        ("x' = 6.4(29)e-7*x^0.51(2)", "c1*x**c2", [6.4e-7, 0.51]),
        ("x' = -0.5*x^0.5 - 3*x^-1.5", "-c1*x**0.5 - 3*x**-1.5", [0.5]),
        ("x' = 1.67(4) - 1.0000000040(68)*sin(x)", "c1 - c2*sin(x)", [1.67, 1.000000004]),
        ("x' = -k*x + 1.5(2)", "-k*x + c1", [None, 1.5]),
        ("x' = c1*x + 2.0(1)", "c1*x + c2", [None, 2.0]),
        ({"x": "-lam*x/(1.5 + x)"}, "-lam*x/(1.5 + x)", [None]),
        (["x' = -k*x", "note: of mine", "at t = 0: x = 3.0(1)"], "-k*x", [None]),
    ],
)
def test_numbers_are_constants_where_they_were_fitted(written, text, starts):
    form = read_form(written, ["x"])
    assert form.texts == (text,)
    assert list(form.starts) == starts


def test_the_e_of_a_number_is_no_constant():
    form = read_form("x' = e*x - 1e-7*x^2", ["x"]).holding({"e": 2.0})
    assert (form.texts, form.names) == (("(2.0)*x - 1e-07*x**2",), ())


def test_names_that_are_no_identifiers_are_read_as_printed():
    form = read_form("cell count' = k*cell count*feed rate - 0.5(1)*cell count", ["cell count"], controls=["feed rate"])
    assert form.texts == ("k*cell_count*feed_rate - c1*cell_count",)
    assert form.lines() == ["cell count' = k*cell count*feed rate - c1*cell count"]
    np.testing.assert_allclose(form.with_constants([2.0, 0.5]).rhs([3.0, 0.25]), [0.0])


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("y' = k*x", "unknown state 'y'"),
        ("x = k*x", "expected an equation such as x' = ..."),
        ("x' = k*x\nx' = 2*x", "the equation of 'x' stands twice"),
        ("", "the equation of 'x' is missing"),
        ("x' = 2*x", "no constants to fit"),
        ("x' = k*x*t", "'t' is the time"),
        ("x' = k*foo(x)", "unknown function 'foo'"),
        ("x' = k*x +", "cannot read"),
        ("x' = k*x.real", "cannot read"),
        ("x' = __import__('os')", "unknown function '__import__'"),
        ("x' = " + " + ".join(f"k{i}*x" for i in range(61)), "at most 60 can be fitted"),
    ],
)
def test_mistakes_say_what_to_write(written, message):
    with pytest.raises(InputError) as caught:
        read_form(written, ["x"])
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_comma_between_equations_is_named_where_one_is_missing():
    with pytest.raises(InputError, match=r"'v' is missing.*; put ; or a new line between equations$"):
        read_form("x' = v, v' = -k*x", ["x", "v"])


def test_a_start_belongs_to_a_constant():
    with pytest.raises(InputError, match="unknown constant 'q'"):
        read_form("x' = -k*x", ["x"], start={"q": 1.0})


@pytest.mark.parametrize("left", ["dx/dt", "d x / d t", "dx/dtime", "x\u2019", "x\u2032", " x '"])
def test_derivatives_are_read_as_people_write_them(left):
    assert read_form(f"{left} = -k*x", ["x"]).texts == ("-k*x",)
    with pytest.raises(InputError, match="unknown state 'y'"):
        read_form(f"{left.replace('x', 'y')} = -k*x", ["x"])
