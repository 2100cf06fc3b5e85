"""Laws as text: parsed into sympy without evaluation, and printed in every notation.

Printed laws are trees,

    dx_i/dt = sum of terms,    term = coefficient * product of bases ** exponents

where a base is a variable, a function of a sum of terms, or a sum in brackets.

sympy's own parsers call `eval`, but files and column names are not trusted. Here Python's `ast` only parses the text,
and a walk over the tree builds the expression from a short list of allowed nodes. Numbers are computed as Python
floats, so that an expression read back has exactly the same constants. A name is a symbol and never looked up,
so columns called `S`, `I`, `E`, `sin` or `lambda_` are ordinary.

A fitted constant is printed as 0.06003(12): the value to the place of the second digit of its standard error, and these
two digits in parentheses, the notation of metrology (JCGM 100:2008, 7.2.2). Constants that were set to a round number
are printed without an error; exponents and coefficients of 1 are omitted. Terms come in a fixed order: gains
before losses, then by the sum of their exponents, then in the order of the states. In source code a variable whose name
is reserved by the language or used by the printed function gets underscores until it is unique.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy

from odediscovery.errors import InputError, unknown_name
from odediscovery.families import EXP, STATE_FUNCTIONS, Function
from odediscovery.laws.power_sum import PowerSum, as_written, signs
from odediscovery.runtime.arrays import ABOVE_ZERO, Array

MAX_EQUATION_LETTERS, MAX_NESTING = 100_000, 60
# sympy evaluates whole powers of numbers immediately: without a limit, (2*x)**999999999 would hang.
MAX_POWER = 1000.0

_NO_FLOATS = (sympy.zoo, sympy.oo, -sympy.oo, sympy.nan, sympy.I)

_Value: TypeAlias = float | sympy.Expr

# The functions that texts may contain: symbolic, and of a number.
FUNCTIONS: dict[str, tuple[Callable[..., sympy.Expr], Callable[[float], float]]] = {
    **{
        name: (getattr(sympy, name), getattr(math, name, f.plain))
        for name, f in STATE_FUNCTIONS.items()
        if hasattr(sympy, name)
    },
    "tan": (sympy.tan, math.tan),
    "sqrt": (lambda x: sympy.Pow(x, sympy.Float(0.5)), math.sqrt),
    "sign": (sympy.sign, lambda x: float(x > 0) - float(x < 0)),
    "tanh": (sympy.tanh, math.tanh),
}


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """A unique Python identifier for every column name: the name itself if it is one."""
    safe = {name: _safe(name) for name in names}
    taken = {name for name in names if safe[name] == name}
    result = {}
    for name in names:
        candidate, k = safe[name], 2
        while candidate != name and candidate in taken:
            candidate, k = f"{safe[name]}_{k}", k + 1
        taken.add(candidate)
        result[name] = candidate
    return result


def _safe(name: str) -> str:
    # Python normalises identifiers in this way, so another spelling would not be found again.
    plain = unicodedata.normalize("NFKC", name)
    text = "".join(c if f"a{c}".isidentifier() else "_" for c in plain)
    if not text.isidentifier():
        text = f"x_{text}"
    return f"{text}_" if keyword.iskeyword(text) or text == "__debug__" else text


def number(value: float) -> sympy.Expr:
    """A float as a sympy number: an `Integer` where it is whole (sympy distinguishes x**1.0 from
    x), else a `Float` of the same 53 bits."""
    if value.is_integer() and abs(value) < 2**53:
        return sympy.Integer(int(value))
    return sympy.Float(value)


def parse(text: str, symbols: Mapping[str, sympy.Symbol | float]) -> sympy.Expr:
    """The expression for a text in Python's notation: numbers, names, + - * / **, parentheses and functions.

    A name stands for a symbol or a number; anything else raises InputError with its position.
    """
    if len(text) > MAX_EQUATION_LETTERS:
        raise InputError(f"an equation of {len(text)} characters is longer than {MAX_EQUATION_LETTERS}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval")
        result = _Reader(text.strip(), symbols).read(tree.body, 0)
    except SyntaxError as error:
        reason = error.msg.partition(";")[0]
        raise InputError(f"cannot read {quoted(text)}: {reason} at character {error.offset or 1}") from None
    except (RecursionError, MemoryError):
        raise InputError(f"cannot read {quoted(text)}: nested too deeply") from None
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {quoted(text)}: {error}") from None
    if isinstance(result, float):
        return number(result)
    # sympy simplifies: 0.5*S + 0.5*S is 1.0*S, and (3*S)**-1 contains the fraction 1/3.
    kept = {part: number(float(part)) for part in result.atoms(sympy.Float, sympy.Rational)}
    return result.xreplace(kept)


class _Reader(NamedTuple):
    """Walk over the syntax tree of one text."""

    text: str
    symbols: Mapping[str, sympy.Symbol | float]

    def read(self, node: ast.expr, depth: int) -> _Value:
        value = self.value(node, depth)
        # sympy may reduce an expression to a number, as in S - S + 1.
        if not isinstance(value, float) and value.is_Number:
            return self.finite(node, float(value))
        return value

    def value(self, node: ast.expr, depth: int) -> _Value:
        if depth > MAX_NESTING:
            raise self.error(node, f"nested more than {MAX_NESTING} deep")
        match node:
            case ast.Constant():
                if type(node.value) not in (int, float):
                    raise self.error(node, "expected a number")
                return self.finite(node, float(node.value))  # type: ignore[arg-type]
            case ast.Name():
                if node.id not in self.symbols:
                    raise unknown_name("name", node.id, self.symbols)
                value = self.symbols[node.id]
                return value if isinstance(value, sympy.Symbol) else float(value)
            case ast.UnaryOp(op=ast.UAdd()):
                return self.read(node.operand, depth + 1)
            case ast.UnaryOp(op=ast.USub()):
                return -self.read(node.operand, depth + 1)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self.sum(node, depth)
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return self.product(node, depth)
            case ast.BinOp(op=ast.Pow()):
                return self.power(node, depth)
            case ast.Call():
                return self.call(node, depth)
        raise self.error(node, "expected numbers, names, + - * / ** and functions")

    def spine(self, node: ast.expr, depth: int, operators: tuple[type, type]) -> Iterator[tuple[bool, _Value]]:
        """a - b + c as (False, a), (True, b), (False, c), so that long sums do not count as deeply nested."""
        parts: list[tuple[bool, ast.expr]] = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, operators):
            parts.append((isinstance(node.op, operators[1]), node.right))
            node = node.left
        for inverse, part in [(False, node), *reversed(parts)]:
            yield inverse, self.read(part, depth + 1)

    def sum(self, node: ast.expr, depth: int) -> _Value:
        constant, terms = 0.0, list[sympy.Expr]()
        for minus, value in self.spine(node, depth, (ast.Add, ast.Sub)):
            if isinstance(value, float):
                constant += -value if minus else value
            else:
                terms.append(-value if minus else value)
        self.finite(node, constant)
        if not terms:
            return constant
        return sympy.Add(*terms) if constant == 0 else sympy.Add(*terms, number(constant))

    def product(self, node: ast.expr, depth: int) -> _Value:
        constant, factors = 1.0, list[sympy.Expr]()
        for below, value in self.spine(node, depth, (ast.Mult, ast.Div)):
            if isinstance(value, float):
                constant = constant / value if below else constant * value
            else:
                factors.append(sympy.Pow(value, -1) if below else value)
        self.finite(node, constant)
        if not factors:
            return constant
        return self.bounded(node, sympy.Mul(number(constant), *factors))

    def power(self, node: ast.BinOp, depth: int) -> _Value:
        base, exponent = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
        if isinstance(exponent, float) and abs(exponent) > MAX_POWER:
            raise self.error(node, f"the power {exponent:g} is beyond {MAX_POWER:g}")
        if isinstance(base, float) and isinstance(exponent, float):
            value = base**exponent
            if isinstance(value, complex):
                raise self.error(node, "a fractional power of a negative number")
            return self.finite(node, value)
        return self.bounded(node, sympy.Pow(_expression(base), _expression(exponent)))

    def call(self, node: ast.Call, depth: int) -> _Value:
        if not isinstance(node.func, ast.Name) or len(node.args) != 1 or node.keywords:
            raise self.error(node, "expected a function of one argument")
        if node.func.id not in FUNCTIONS:
            raise unknown_name("function", node.func.id, FUNCTIONS)
        symbolic, numeric = FUNCTIONS[node.func.id]
        value = self.read(node.args[0], depth + 1)
        if isinstance(value, float):
            return self.finite(node, float(numeric(value)))
        return self.bounded(node, symbolic(value))

    def finite(self, node: ast.expr, value: float) -> float:
        if not math.isfinite(value):
            raise self.error(node, "a number beyond the range of floats")
        return value

    def bounded(self, node: ast.expr, value: sympy.Expr) -> sympy.Expr:
        sizes = [abs(part) for part in value.atoms(sympy.Number) if part.is_finite and part != 0]
        if value.has(*_NO_FLOATS) or any(size > 1e300 or size < ABOVE_ZERO for size in sizes):
            raise self.error(node, "a number beyond the range of floats")
        return value

    def error(self, node: ast.expr, reason: str) -> InputError:
        # Python counts bytes, people count letters.
        before = self.text.encode().splitlines()[node.lineno - 1][: node.col_offset]
        place = len(before.decode(errors="ignore")) + 1
        return InputError(f"cannot read {quoted(self.text)}: {reason} at character {place}")


def _expression(value: _Value) -> sympy.Expr:
    return number(value) if isinstance(value, float) else value


def quoted(text: str) -> str:
    """A text as quoted in messages, at most 60 characters of it."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def exact(value: float) -> str:
    """The shortest decimal that reads back as the same float, whole numbers without point."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else repr(float(value))


class ExpressionWriter(NamedTuple):
    """Writes expressions in the notation that `parse` reads, with the same constants, or in another notation.

    The order is fixed: terms with a plus first, then lower powers, then by name.
    """

    name: Callable[[str], str] = str
    number: Callable[[float], str] = exact
    function: Callable[[str], str] = str
    power: str = "**"
    divided: bool = False  # x/y for x*y**(-1)

    def sum(self, expression: sympy.Expr) -> str:
        """The text of an expression."""
        terms = [self._signed(term) for term in sympy.Add.make_args(expression)]
        terms.sort(key=lambda term: term[:2])
        return join_terms((minus, written) for minus, _, written in terms)

    def _signed(self, term: sympy.Expr) -> tuple[bool, tuple[float, str], str]:
        """Whether a term is subtracted, its sort key, and the text of its absolute value."""
        numbers = [float(f) for f in sympy.Mul.make_args(term) if f.is_Number]
        factors = [f for f in sympy.Mul.make_args(term) if not f.is_Number]
        below = [f for f in factors if self.divided and f.is_Pow and f.exp == -1]
        written = sorted(self._factor(f) for f in factors if f not in below)
        degree = sum(_degree(f) for f in factors)
        coefficient = reduce(lambda a, b: a * b, numbers, 1.0)
        if abs(coefficient) != 1 or not written:
            written.insert(0, self.number(abs(coefficient)))
        quotient = "".join(f"/{part}" for part in sorted(self._atom(f.base) for f in below))
        return coefficient < 0, (degree, "*".join(sorted(written)) + quotient), "*".join(written) + quotient

    def _factor(self, expression: sympy.Expr) -> str:
        if expression.is_Pow or isinstance(expression, sympy.exp):
            base, exponent = expression.as_base_exp()
            if isinstance(expression, sympy.exp):
                return f"{self.function('exp')}({self.sum(expression.args[0])})"
            if exponent == 1:
                return self._factor(base)
            return f"{self._atom(base)}{self.power}{self._exponent(exponent)}"
        return self._atom(expression)

    def _exponent(self, expression: sympy.Expr) -> str:
        simple = isinstance(expression, sympy.Symbol) or (expression.is_Number and expression > 0)
        return self._atom(expression) if simple else f"({self.sum(expression)})"

    def _atom(self, expression: sympy.Expr) -> str:
        if isinstance(expression, sympy.Symbol):
            return self.name(expression.name)
        if expression.is_Number and expression >= 0:
            return self.number(float(expression))
        if isinstance(expression, sympy.Function) and len(expression.args) == 1:
            return f"{self.function(expression.func.__name__)}({self.sum(expression.args[0])})"
        if not (expression.is_Number or expression.is_Add or expression.is_Mul or expression.is_Pow):
            raise TypeError(f"{expression!r} has no notation here")
        return f"({self.sum(expression)})"


def _degree(factor: sympy.Expr) -> float:
    exponent = factor.as_base_exp()[1]
    return float(exponent) if exponent.is_Number else 1.0


def join_terms(terms: Iterable[tuple[bool, str]]) -> str:
    """The terms, (whether subtracted, absolute value), as "a - b + c"; "0" if there are none."""
    written = ""
    for minus, term in terms:
        if written:
            written += f" - {term}" if minus else f" + {term}"
        else:
            written = f"-{term}" if minus else term
    return written or "0"


# More digits are meaningless: no solver here is that accurate.
_MAX_DIGITS = 12

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi "
    "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
_ESCAPES = {
    "\\": r"\backslash{}",
    "=": r"\char61{}",
    " ": r"\ ",
    "^": r"\hat{}",
    "~": r"\sim{}",
    **{c: f"\\{c}" for c in "_%$#&{}"},
}


def constant(value: float, error: float = math.nan, digits: int = 4, spare: int = 0) -> str:
    """A number to the precision of its standard error, 0.06003(12): without error if that is 0, to `digits` if nan.

    Constants that are only meaningful jointly have `spare` digits beyond the two of the error.
    """
    if error == 0:
        return _general(value, _MAX_DIGITS)
    if not (math.isfinite(error) and math.isfinite(value)):
        return _general(value, digits + spare)
    place = _exponent(error, 2) - 1 - spare
    top = max(_exponent(value, 3) if value else place + 1, place + 1)
    if top - place >= _MAX_DIGITS:
        return _general(value, _MAX_DIGITS)
    shift = 0 if place <= 0 and _is_plain(top) else top
    decimals = max(shift - place, 0)
    number = f"{value / 10.0**shift:.{decimals}f}({round(error / 10.0**place)})"
    return number if shift == 0 else f"{number}e{shift}"


def law_constant(value: float, error: float, digits: int, spare: int = 0) -> str:
    """A constant of a law, printed as by `constant`, but with (?) if its error is at least as large as its value.

    Rounding to the precision of that error would change the number.

    >>> law_constant(0.222, 78.0, 4), law_constant(-3.2e-36, 6.4e-35, 4), law_constant(0.5, 0.01, 4)
    ('0.222(?)', '-3.2(?)e-36', '0.500(10)')
    """
    if value and math.isfinite(value) and math.isfinite(error) and error >= abs(value):
        mantissa, _, exponent = _general(value, 3 + spare).partition("e")
        return f"{mantissa}(?)" + (f"e{exponent}" if exponent else "")
    return constant(value, error, digits, spare)


def read_constant(written: str) -> float:
    """The value of a printed constant: 0.06003 for 0.06003(12)."""
    return float(re.sub(r"\([^)]*\)", "", written))


def as_printed(law: PowerSum, errors: PowerSum, digits: int, spare: int) -> PowerSum:
    """The law with its constants rounded as they are printed."""

    def copied(values: Array, of: Array, rates: Array | float = 1.0) -> Array:
        pairs = np.stack([values * rates, of * np.abs(rates)], axis=-1).reshape(-1, 2)
        read = [read_constant(law_constant(float(v), float(e), digits, spare)) if v else 0.0 for v, e in pairs]
        return np.array(read).reshape(values.shape) / rates

    (a, w, b, v), (a_error, w_error, b_error, v_error) = law.constants, errors.constants
    rates = np.ones(w.shape[1])
    rates[law.inputs.states : law.inputs.simple] = [f.rate_of_power for f in law.inputs.functions]
    w, v = copied(w, w_error, rates), copied(v, v_error, rates[: v.shape[1]])
    return law.with_constants(copied(a, a_error), w, copied(b, b_error), v)


def _is_plain(power: int) -> bool:
    """Whether a number of this power of ten is printed without an exponent: otherwise zeros would hide its digits."""
    return -4 <= power < 7


def _exponent(value: float, digits: int) -> int:
    """Power of ten of a number rounded to `digits` significant digits."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _general(value: float, digits: int) -> str:
    """The value to `digits` significant digits, without trailing zeros."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    power = _exponent(value, digits)
    if _is_plain(power):
        written = f"{value:.{max(digits - 1 - power, 0)}f}"
        return written.rstrip("0").rstrip(".") if "." in written else written
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"


def order(coefficient: float, powers: Iterable[float]) -> tuple[bool, float, tuple[float, ...]]:
    """Sort key of a term in its equation: gains first, then by rising sum of exponents, then by state."""
    # Rounded, so that fitted exponents of 0.9998 and 1.0001 do not change the order.
    near = tuple(round(-float(p), 2) for p in powers)
    return coefficient < 0, round(-sum(near), 1), near


def third_of(power: float) -> str:
    """An exponent that is a third of a whole number, as a fraction; "" for others."""
    thirds = round(3.0 * power)
    return f"{thirds}/3" if thirds % 3 and abs(3.0 * power - thirds) < 1e-9 else ""


def function_name(states: Sequence[str], function: Function) -> str:
    """f(x), or f(r*x) if the rate is not 1."""
    rate = function.plain_rate
    if function.kind.of_inverse:
        return f"exp({1.0 / rate:.6g}/{states[function.state]})"
    size = "" if abs(rate) == 1.0 else f"{abs(rate):.6g}*"
    return f"{function.name}({'-' * (rate < 0)}{size}{states[function.state]})"


def latex_number(written: str) -> str:
    """A printed number in LaTeX math."""
    mantissa, _, exponent = written.partition("e")
    return rf"{mantissa} \times 10^{{{exponent}}}" if exponent else mantissa


def latex_name(name: str) -> str:
    r"""A column name in LaTeX math: x1 -> x_{1}, beta -> \beta, heart rate -> upright."""
    stem, index = re.fullmatch(r"(.*?)_?(\d*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    if index and stem and not re.search(r"\d$", stem):
        return f"{latex_name(stem)}_{{{index}}}"
    if len(name) == 1 and name.isascii() and name.isalpha():
        return name
    letters = unicodedata.name(name, "").split() if len(name) == 1 else []
    if letters[:1] == ["GREEK"] and letters[2:3] == ["LETTER"] and len(letters) == 4:
        greek = letters[3].lower().replace("lamda", "lambda")
        name = greek.capitalize() if letters[1] == "CAPITAL" else greek
    if name in _GREEK.split():
        return f"\\{name}"
    return rf"\mathrm{{{''.join(_ESCAPES.get(c, c) for c in name)}}}"


def rounded(expression: sympy.Expr, digits: int) -> sympy.Expr:
    """The expression with its floats rounded to `digits` significant digits."""
    return expression.xreplace({f: sympy.Float(float(f), digits) for f in expression.atoms(sympy.Float)})


# Reserved words of Julia, and names that the printed function uses.
JULIA_WORDS = (
    "abstract baremodule begin catch const do else elseif end export false function let local macro module "
    "mutable primitive quote struct true try type using where outer in isa ccall Base du u p t"
)
# Unicode categories that Python and Julia both allow in names.
_JULIA_LETTERS = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Nd")


def julia_name(name: str) -> str:
    """A Python identifier as a Julia identifier.

    In Julia some letters are operators or other letters, and names of underscores alone cannot be read."""
    letters = [c if unicodedata.category(c) in _JULIA_LETTERS and c != "\u025b" else "_" for c in name]
    kept = "".join(letters)
    return kept if kept.strip("_") and not kept[0].isdigit() else f"x{kept}"


@dataclass(frozen=True)
class Number:
    """A constant; its standard error is 0 if it is held, and nan if it is unknown."""

    value: float
    error: float = 0.0
    # Digits beyond the two of its error, for constants that are only meaningful together.
    spare: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Name:
    """A state or an input under the user's name."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function of a sum of terms."""

    function: str
    inside: Side


@dataclass(frozen=True)
class Bracket:
    """A sum of terms in brackets."""

    inside: Side


@dataclass(frozen=True)
class Power:
    """base ** exponent; the exponent is an expression only in laws that were not fitted here."""

    base: Base
    exponent: Number | Bracket = Number(1.0)


@dataclass(frozen=True)
class Term:
    """coefficient * product of powers; a constant without factors."""

    coefficient: Number
    factors: tuple[Power, ...] = ()
    monomial: int | None = None  # its place in a sum of powers


Base: TypeAlias = Name | Call | Bracket
Side: TypeAlias = tuple[Term, ...]

ONE = Number(1.0)


def _terms(row: Array, errors: Array, exponents: Array, products: Sequence[tuple[Power, ...]], spare: int) -> Side:
    places = sorted(np.flatnonzero(row).tolist(), key=lambda j: order(float(row[j]), exponents[j]))
    return tuple(Term(Number(float(row[j]), float(errors[j]), spare), products[j], j) for j in places)


def _powers(bases: Sequence[Base], row: Array, errors: Array, mirrored: Sequence[int], spare: int) -> tuple[Power, ...]:
    found = []
    turned = (signs(row[None], mirrored)[0] < 0.0).tolist()
    for base, w, error, of_minus in zip(bases, row.tolist(), errors.tolist(), turned, strict=True):
        if w == 0.0:
            continue
        if of_minus:
            found.append(Power(Bracket((Term(Number(-1.0), (Power(base),)),)), Number(w, error, spare)))
        elif isinstance(base, Call) and base.function == "exp":
            # exp(r x) ** w is exp(w r x).
            (term,) = base.inside
            rate = term.coefficient.value
            inside = Term(Number(rate * w, abs(rate) * error, spare), term.factors)
            found.append(Power(Call("exp", (inside,))))
        else:
            found.append(Power(base, Number(w, error, spare)))
    return tuple(found)


def sides_of_law(
    law: PowerSum, names: Sequence[str], errors: tuple[Array, Array, Array, Array] | None = None, spare: int = 0
) -> list[Side]:
    """The terms of every equation of a law, in the order of printing.

    Args:
        law: in the user's units.
        names: of its variables.
        errors: standard errors of its constants, 0 for those held fixed, nan where unknown; None if all are.
        spare: digits of a constant beyond the two of its error.
    """
    a_error, w_error, b_error, v_error = errors or (np.full_like(c, np.nan) for c in law.constants)
    features = law.inputs
    simple: list[Base] = [Name(name) for name in names]
    for f in features.functions:
        name = Name(names[f.state])
        if f.kind.of_inverse:
            simple.append(Call(EXP.name, (Term(Number(1.0 / f.plain_rate), (Power(name, Number(-1.0)),)),)))
        else:
            simple.append(Call(f.name, (Term(Number(f.plain_rate), (Power(name),)),)))
    b, (w, v, first) = features.sums.weights, as_written(law)

    def products(bases: Sequence[Base], rows: Array, errors: Array) -> list[tuple[Power, ...]]:
        return [_powers(bases, *of, law.mirrored, spare) for of in zip(rows, errors, strict=True)]

    ones, inner = products(simple, first, np.zeros_like(first)), products(simple, v, v_error)
    sums = [
        Bracket((Term(ONE, one), *_terms(row, errors, v, inner, spare)))
        for row, errors, one in zip(b, b_error, ones, strict=True)
    ]
    outer = products([*simple, *sums], w, w_error)
    return [_terms(*of, w, outer, spare) for of in zip(law.coefficients, a_error, strict=True)]


def expression_of(side: Side, symbols: Mapping[str, sympy.Symbol]) -> sympy.Expr:
    """The terms of a law as an expression; the symbols are those of its variables, by name."""

    def of_base(base: Base) -> sympy.Expr:
        match base:
            case Name(name):
                return symbols[name]
            case Call(function, inside):
                return STATE_FUNCTIONS[function].symbolic(expression_of(inside, symbols))
            case Bracket(inside):
                return expression_of(inside, symbols)

    def of_power(power: Power) -> sympy.Expr:
        assert isinstance(power.exponent, Number)
        return sympy.Pow(of_base(power.base), number(power.exponent.value))

    return sympy.Add(*(number(term.coefficient.value) * sympy.Mul(*map(of_power, term.factors)) for term in side))


class Notation(NamedTuple):
    """How sums of products are written."""

    name: Callable[[str], str]  # a variable
    number: Callable[[str], str]  # a number printed by `law_constant`
    times: str
    power: Callable[[str], str]
    brackets: str  # with {} for the sum


PLAIN = Notation(str, str, "*", lambda power: f"^({power})" if "/" in power else f"^{power}", "({})")
LATEX = Notation(latex_name, latex_number, r"\,", lambda power: f"^{{{power}}}", r"\left({}\right)")


class Writer(NamedTuple):
    """Writes the terms of a law."""

    notation: Notation
    digits: int  # of a constant whose error is unknown
    thirds: bool  # whether held exponents that are thirds are written as fractions

    def sum(self, side: Side, *, divided: bool = False) -> str:
        """A sum of terms; if `divided`, variables to held negative powers are divisors, as sums always are."""
        terms = []
        for term in side:
            number, above, below = self._number(term.coefficient), list[str](), list[str]()
            for base, exponent in ((p.base, p.exponent) for p in term.factors):
                assert isinstance(exponent, Number)
                if exponent.error == 0.0 > exponent.value and (divided or _is_sum(base)):
                    below.append("/" + self._power(base, replace(exponent, value=-exponent.value)))
                else:
                    above.append(self._power(base, exponent))
            if number != "1" or not above:
                above.insert(0, number)
            terms.append((term.coefficient.value < 0, self.notation.times.join(above) + "".join(below)))
        return join_terms(terms)

    def _power(self, base: Base, exponent: Number) -> str:
        third = third_of(exponent.value) if self.thirds and exponent.error == 0.0 else ""
        written = third or law_constant(exponent.value, exponent.error, self.digits, exponent.spare)
        return self._base(base) + ("" if written == "1" else self.notation.power(written))

    def _base(self, base: Base) -> str:
        match base:
            case Name(name):
                return self.notation.name(name)
            case Call(function, inside):
                if function != EXP.name:  # rates that are not fitted have six digits
                    inside = tuple(replace(t, coefficient=Number(float(f"{t.coefficient.value:.6g}"))) for t in inside)
                return f"{function}({self.sum(inside, divided=True)})"
            case Bracket(inside):
                return self.notation.brackets.format(self.sum(inside))

    def _number(self, number: Number) -> str:
        """The absolute value of a constant."""
        return self.notation.number(law_constant(abs(number.value), number.error, self.digits, number.spare))


def _is_sum(base: Base) -> bool:
    return isinstance(base, Bracket) and len(base.inside) > 1
