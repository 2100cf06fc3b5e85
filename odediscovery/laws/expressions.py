"""Text to sympy and back, without ever evaluating text.

sympy's own readers call `eval`; files and columns come from strangers. Here Python's `ast` only
takes the text apart, and a walk over the tree builds the expression from a short list of what is
allowed: numbers, known names, + - * / **, and a handful of functions. Numbers are computed as
Python floats, so that an expression read back has the very same constants. A name is a symbol
and never looked up anywhere, so columns called `S`, `I`, `E`, `sin` or `lambda_` are ordinary.
"""

from __future__ import annotations

import ast
import keyword
import math
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

import sympy

from odediscovery.errors import InputError, unknown_name
from odediscovery.families import STATE_FUNCTIONS
from odediscovery.runtime.arrays import ABOVE_ZERO

MAX_EQUATION_LETTERS, MAX_NESTING = 100_000, 60
# sympy raises numbers to whole powers at once: without a limit, (2*x)**999999999 would hang.
MAX_POWER = 1000.0

_NO_FLOATS = (sympy.zoo, sympy.oo, -sympy.oo, sympy.nan, sympy.I)

_Value: TypeAlias = float | sympy.Expr

_FUNCTIONS: dict[str, tuple[Callable[..., sympy.Expr], Callable[[float], float]]] = {
    **{name: (getattr(sympy, name), getattr(math, name)) for name in STATE_FUNCTIONS},
    "tan": (sympy.tan, math.tan),
    "sqrt": (lambda x: sympy.Pow(x, sympy.Float(0.5)), math.sqrt),
    "Abs": (sympy.Abs, abs),
    "sign": (sympy.sign, lambda x: float(x > 0) - float(x < 0)),
    "tanh": (sympy.tanh, math.tanh),
}


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """A Python identifier for every column name, unique, and the name itself where it is one."""
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
    # Python reads identifiers in this normal form, so another spelling would not be found again.
    plain = unicodedata.normalize("NFKC", name)
    text = "".join(c if f"a{c}".isidentifier() else "_" for c in plain)
    if not text.isidentifier():
        text = f"x_{text}"
    return f"{text}_" if keyword.iskeyword(text) or text == "__debug__" else text


def number(value: float) -> sympy.Expr:
    """A float as sympy number: an `Integer` where it is whole (sympy keeps x**1.0 apart from x),
    else a `Float` of the same 53 bits."""
    if value.is_integer() and abs(value) < 2**53:
        return sympy.Integer(int(value))
    return sympy.Float(value)


def parse(text: str, symbols: Mapping[str, sympy.Symbol | float]) -> sympy.Expr:
    """The expression that `text` writes in Python's notation: numbers, names, + - * / **, parentheses and functions.

    A name stands for a symbol or for a number; anything else is refused with its position.
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
        raise InputError(f"cannot read {_shortened(text)}: {reason} at character {error.offset or 1}") from None
    except (RecursionError, MemoryError):
        raise InputError(f"cannot read {_shortened(text)}: nested too deeply") from None
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {_shortened(text)}: {error}") from None
    if isinstance(result, float):
        return number(result)
    # sympy computes on the way: 0.5*S + 0.5*S is 1.0*S, and (3*S)**-1 holds the fraction 1/3.
    kept = {part: number(float(part)) for part in result.atoms(sympy.Float, sympy.Rational)}
    return result.xreplace(kept)


class _Reader(NamedTuple):
    """The walk over the tree of one text."""

    text: str
    symbols: Mapping[str, sympy.Symbol | float]

    def read(self, node: ast.expr, depth: int) -> _Value:
        value = self.value(node, depth)
        # What sympy has made a number, as in S - S + 1, is computed with like any other.
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
        """a - b + c as (False, a), (True, b), (False, c), one by one: long sums are no deep ones."""
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
        if node.func.id not in _FUNCTIONS:
            raise unknown_name("function", node.func.id, _FUNCTIONS)
        symbolic, numeric = _FUNCTIONS[node.func.id]
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
        # Python counts bytes, a person counts letters.
        before = self.text.encode().splitlines()[node.lineno - 1][: node.col_offset]
        place = len(before.decode(errors="ignore")) + 1
        return InputError(f"cannot read {_shortened(self.text)}: {reason} at character {place}")


def _expression(value: _Value) -> sympy.Expr:
    return number(value) if isinstance(value, float) else value


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def exact(value: float) -> str:
    """The shortest decimal that reads back as the same float, whole numbers without point."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else repr(float(value))


def render(
    expression: sympy.Expr,
    *,
    name: Callable[[str], str] = str,
    number: Callable[[float], str] = exact,
    function: Callable[[str], str] = str,
    power: str = "**",
    divided: bool = False,
) -> str:
    """The expression in the notation that `parse` reads, with the same constants, or in another one.

    The order is fixed by names and powers: terms with a plus first, lower powers first. `divided`: x/y for x*y**(-1).
    """
    return _Writer(name, number, function, power, divided).sum(expression)


text = render


class _Writer(NamedTuple):
    name: Callable[[str], str]
    number: Callable[[float], str]
    function: Callable[[str], str]
    power: str
    divided: bool

    def sum(self, expression: sympy.Expr) -> str:
        terms = [self.signed(term) for term in sympy.Add.make_args(expression)]
        terms.sort(key=lambda term: term[:2])
        return join_terms((minus, written) for minus, _, written in terms)

    def signed(self, term: sympy.Expr) -> tuple[bool, tuple[float, str], str]:
        """Whether a term is subtracted, its place, and its absolute value written out."""
        numbers = [float(f) for f in sympy.Mul.make_args(term) if f.is_Number]
        factors = [f for f in sympy.Mul.make_args(term) if not f.is_Number]
        below = [f for f in factors if self.divided and f.is_Pow and f.exp == -1]
        written = sorted(self.factor(f) for f in factors if f not in below)
        degree = sum(_degree(f) for f in factors)
        coefficient = reduce(lambda a, b: a * b, numbers, 1.0)
        if abs(coefficient) != 1 or not written:
            written.insert(0, self.number(abs(coefficient)))
        quotient = "".join(f"/{part}" for part in sorted(self.atom(f.base) for f in below))
        return coefficient < 0, (degree, "*".join(sorted(written)) + quotient), "*".join(written) + quotient

    def factor(self, expression: sympy.Expr) -> str:
        if expression.is_Pow or isinstance(expression, sympy.exp):
            base, exponent = expression.as_base_exp()
            if isinstance(expression, sympy.exp):
                return f"{self.function('exp')}({self.sum(expression.args[0])})"
            if exponent == 1:
                return self.factor(base)
            return f"{self.atom(base)}{self.power}{self.exponent(exponent)}"
        return self.atom(expression)

    def exponent(self, expression: sympy.Expr) -> str:
        simple = isinstance(expression, sympy.Symbol) or (expression.is_Number and expression > 0)
        return self.atom(expression) if simple else f"({self.sum(expression)})"

    def atom(self, expression: sympy.Expr) -> str:
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
    """Terms, whether subtracted and the absolute value, as "a - b + c"; nothing as "0"."""
    written = ""
    for minus, term in terms:
        if written:
            written += f" - {term}" if minus else f" + {term}"
        else:
            written = f"-{term}" if minus else term
    return written or "0"
