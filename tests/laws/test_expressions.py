"""Text to expressions and back: the same floats, and nothing evaluated."""

import keyword
import time

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from odediscovery import InputError
from odediscovery.laws.expressions import ExpressionWriter, identifiers, parse

NAMES = ["S", "I", "R", "E", "N", "Q", "beta", "gamma", "sin", "I0", "x_y", "β", "lambda_"]
SYMBOLS = {name: sympy.Symbol(name) for name in NAMES}
S = SYMBOLS["S"]
text = ExpressionWriter().sum


def test_ordinary_names_are_their_identifiers_and_odd_ones_have_some():
    assert identifiers([*NAMES, "_"]) == {name: name for name in [*NAMES, "_"]}
    names = ["x y", "x_y", "lambda", "lambda_", "2nd", "", "a-b", "a+b", "µ", "μ", "⚗", "None"]
    safe = identifiers(names)
    assert safe["x_y"] == "x_y" and safe["x y"] == "x_y_2"
    assert safe["lambda_"] == "lambda_" and safe["lambda"] == "lambda__2"
    assert safe["μ"] == "μ" and safe["µ"] == "μ_2"
    assert safe["None"] == "None_" and safe["2nd"] == "x_2nd"


@given(st.lists(st.text(max_size=6), unique=True, max_size=8))
@settings(deadline=None)
def test_identifiers_are_unique_and_found_again_by_parse(names):
    safe = identifiers(names)
    assert list(safe) == names and len(set(safe.values())) == len(names)
    for identifier in safe.values():
        assert identifier.isidentifier() and not keyword.iskeyword(identifier)
        symbol = sympy.Symbol(identifier)
        assert parse(identifier, {identifier: symbol}) == symbol


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("-0.06*S**0.5*I**0.5 + 0.01*R", "0.01*R - 0.06*I**0.5*S**0.5"),
        ("2.0*S - 1.0*I", "2*S - I"),
        ("S**-1", "S**(-1)"),
        ("I/S/2", "0.5*I*S**(-1)"),
        ("-S**2", "-S**2"),
        ("S*S**0.5", "S**1.5"),
        ("S**1.0", "S"),
        ("0*S", "0"),
        ("(S - I)**2*R", "(S - I)**2*R"),
        ("sin(sin)*sin", "sin*sin(sin)"),
        ("exp(-2*S) + log(Abs(I))", "exp(-2*S) + log(Abs(I))"),
        ("sqrt(S) + tanh(I) + cos(R) + tan(E) + sign(N)", "S**0.5 + cos(R) + sign(N) + tan(E) + tanh(I)"),
        ("2**S", "2**S"),
        ("1e-7*S + 12345678901234567890", "12345678901234567000 + 1e-07*S"),
        ("0.1*S + 0.2*S", "0.30000000000000004*S"),
        ("x_y*β*lambda_", "lambda_*x_y*β"),
        ("  +S\t", "S"),
    ],
)
def test_text_of_parse(written, expected):
    expression = parse(written, SYMBOLS)
    expected = expected.replace("12345678901234567000", "1.2345678901234567e+19")
    assert text(expression) == expected
    assert parse(expected, SYMBOLS) == expression


def test_numbers_may_stand_for_names():
    expression = parse("-k*S**p + k/3", {"S": S, "k": 0.3, "p": 0.5})
    assert text(expression) == f"{0.3 / 3!r} - 0.3*S**0.5"


def test_another_notation():
    writer = ExpressionWriter(str.lower, lambda value: f"{value:.2f}", str.upper, power="^")
    written = writer.sum(parse("-0.123456*S**-2*sin(I)", SYMBOLS))
    assert written == "-0.12*SIN(i)*s^(-2.00)"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "invalid syntax"),
        ("S +", "invalid syntax"),
        ("S; I", "invalid syntax"),
        ("Z", "unknown name 'Z'"),
        ("pi", "unknown name 'pi'"),
        ("__import__('os')", "unknown function '__import__'"),
        ("S(2)", "unknown function 'S'"),
        ("S.__class__", "expected numbers, names, .* at character 1"),
        ("R + β*S.x", "at character 7"),
        ("[S]", "expected numbers, names"),
        ("S if I else R", "expected numbers, names"),
        ("S < I", "expected numbers, names"),
        ("lambda: S", "expected numbers, names"),
        ("S // 2", "expected numbers, names"),
        ("~S", "expected numbers, names"),
        ("(S)(I)", "unknown function 'S'"),
        ("sin()", "expected a function of one argument"),
        ("sin(x=S)", "expected a function of one argument"),
        ("sin(*S)", "expected numbers, names"),
        ("'S'", "expected a number"),
        ("True*S", "expected a number"),
        ("3j*S", "expected a number"),
        ("...", "expected a number"),
        ("1if S else 2", "expected numbers, names"),
        ("S\x00", "null byte"),
        ("1e400*S", "beyond the range of floats"),
        ("9**9**9", "the power .* is beyond 1000"),
        ("(2*S)**999999999", "the power 1e\\+09 is beyond 1000"),
        ("((2*S)**1000)**1000", "beyond the range of floats"),
        ("1e200*(1e200*S)", "beyond the range of floats"),
        ("1/0", "division by zero"),
        ("1/(S - S)", "division by zero"),
        ("log(0)", "math domain error"),
        ("exp(1000)", "math range error"),
        ("(-8)**0.5", "a fractional power of a negative number"),
        ("1" * 5000, "limit"),
        ("S" * 100_001, "longer than 100000"),
        ("(" * 150 + "S" + ")" * 150 + "+", "invalid syntax"),
        ("-" * 100 + "S", "nested more than 60 deep"),
        ("sin(" * 90 + "S" + ")" * 90, "nested more than 60 deep"),
        ("-" * 15_000 + "S", "nested"),
    ],
)
def test_refuses_anything_else(written, message):
    started = time.perf_counter()
    with pytest.raises(InputError, match=message) as caught:
        parse(written, SYMBOLS)
    assert time.perf_counter() - started < 2
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_long_sums_are_no_deep_ones():
    assert text(parse(" + ".join(["S"] * 500), SYMBOLS)) == "500*S"


@given(st.text(alphabet="SIR0189.e+-*/()%,[] sinlogexp_'\n", max_size=30))
@settings(max_examples=200, deadline=None)
def test_random_text_is_read_or_refused(written):
    try:
        expression = parse(written, SYMBOLS)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert text(parse(text(expression), SYMBOLS)) == text(expression)


def test_text_has_no_notation_for_what_parse_refuses():
    with pytest.raises(TypeError, match="no notation"):
        text(sympy.I * S)
