r"""Laws as text, LaTeX, Python and Julia.

Equations for people: plain text and LaTeX.

A fitted constant is printed as 0.06003(12): the value to the place of the second digit of its
standard error, and these two digits in parentheses, the notation of metrology (JCGM 100:2008,
7.2.2), also within functions and inner sums. Constants that were set to a round number carry no
error and stand bare; an exponent of 1 and a coefficient of 1 are left out. Terms come in a fixed
order: gains before losses, then by the sum of their exponents, then in the order of the states.

Equations as source code of other programs: Python and Julia.

A column may have the name of a word of the language or of an argument of the printed function. Its
variable then gets underscores until the name is free.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

from odediscovery.families import Function, power_is_rate
from odediscovery.laws.expressions import identifiers, join_terms, render
from odediscovery.laws.power_sum import Features, PowerSum, signs
from odediscovery.runtime.arrays import Array

# More digits than this say nothing: no solver here is that accurate.
_MAX_DIGITS = 12

# What an exponent that was set to a third is off by rounding at most.
THIRD = 1e-9

# A constant with its standard error, as text.
Written: TypeAlias = Callable[[float, float], str]

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


class Printable(Protocol):
    """What is printed: `Equations`, of which this file needs only these values."""

    @property
    def states(self) -> tuple[str, ...]: ...
    @property
    def controls(self) -> tuple[str, ...]: ...
    @property
    def variables(self) -> tuple[str, ...]: ...
    @property
    def symbols(self) -> tuple[sympy.Symbol, ...]: ...
    @property
    def right_hand_sides(self) -> tuple[sympy.Expr, ...]: ...
    @property
    def time_name(self) -> str: ...
    @property
    def power_sum(self) -> PowerSum | None: ...
    @property
    def standard_errors(self) -> PowerSum | None: ...
    @property
    def snapped(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None: ...
    @property
    def extended(self) -> PowerSum | None: ...
    @property
    def spare(self) -> int: ...


def constant(value: float, error: float = math.nan, digits: int = 4, spare: int = 0) -> str:
    """A number to the precision of its standard error: 0.06003(12).

    Args:
        value: the number.
        error: its standard error; 0 for exact, nan for unknown.
        digits: significant digits when the error is unknown.
        spare: digits beyond the two of the error, for constants that mean something together only.

    >>> constant(0.0600312, 0.000118), constant(1234.5, 56.0), constant(0.5, 0.0)
    ('0.06003(12)', '1234(56)', '0.5')
    >>> constant(0.0600312, 0.000118, spare=1)
    '0.060031(118)'
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
    """A constant of a law: as `constant`, and with (?) where the error is as large as the value.

    To the place of such an error it would be printed as another number.

    >>> law_constant(0.222, 78.0, 4), law_constant(-3.2e-36, 6.4e-35, 4), law_constant(0.5, 0.01, 4)
    ('0.222(?)', '-3.2(?)e-36', '0.500(10)')
    """
    if value and math.isfinite(value) and math.isfinite(error) and error >= abs(value):
        mantissa, _, exponent = _general(value, 3 + spare).partition("e")
        return f"{mantissa}(?)" + (f"e{exponent}" if exponent else "")
    return constant(value, error, digits, spare)


def read_constant(written: str) -> float:
    """The number that stands there: 0.06003 for 0.06003(12)."""
    return float(re.sub(r"\([^)]*\)", "", written))


def as_printed(law: PowerSum, errors: PowerSum, digits: int, spare: int) -> PowerSum:
    """The law with its constants as a reader of the printed equations would copy them."""

    def copied(values: Array, of: Array, factors: Array) -> Array:
        pairs = np.stack([values * factors, of * np.abs(factors)], axis=-1).reshape(-1, 2)
        read = [read_constant(law_constant(float(v), float(e), digits, spare)) if v else 0.0 for v, e in pairs]
        return np.array(read).reshape(values.shape) / factors

    (a, w, b, v), (a_error, w_error, b_error, v_error) = law.constants, errors.constants
    rates = np.ones(w.shape[1])
    if law.features is not None:
        own = [f.rate if power_is_rate(f) else 1.0 for f in law.features.functions]
        rates[law.features.states : law.features.simple] = own
    inner = np.broadcast_to(rates[: v.shape[1]], v.shape)
    one = np.ones_like
    return law.with_constants(
        copied(a, a_error, one(a)),
        copied(w, w_error, np.broadcast_to(rates, w.shape)),
        copied(b, b_error, one(b)),
        copied(v, v_error, inner),
    )


def _is_plain(power: int) -> bool:
    """Whether a number of this power of ten needs no exponent: beyond, zeros would hide the digits that matter."""
    return -4 <= power < 7


def _exponent(value: float, digits: int) -> int:
    """Power of ten of a number rounded to some digits."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _general(value: float, digits: int) -> str:
    """At most `digits` significant digits, without the zeros at the end."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    power = _exponent(value, digits)
    if _is_plain(power):
        written = f"{value:.{max(digits - 1 - power, 0)}f}"
        return written.rstrip("0").rstrip(".") if "." in written else written
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"


def pretty_text(equations: Printable, digits: int) -> str:
    """See `Equations.pretty`."""
    rows = _rows(equations, digits, str, "(-{})", _raised, "*", lambda c: c)
    names = dict(zip((s.name for s in equations.symbols), equations.variables, strict=True))
    if rows is None and equations.extended is not None and equations.standard_errors is not None:
        written = partial(law_constant, digits=digits, spare=equations.spare)
        rows = _extended_rows(equations.extended, equations.standard_errors, equations.variables, written)[
            : len(equations.states)
        ]
    if rows is None:
        plain = [
            render(
                side,
                name=names.__getitem__,
                power="^",
                number=lambda value: constant(value, digits=digits),
                divided=True,
            )
            for side in equations.right_hand_sides
        ]
        # A fitted 0.9999999 is a factor, or an exponent, that rounds to 1.
        rows = [re.sub(r"(?<![\w.^])1\*(?=[^\d])|\^1(?![\d.e])", "", row) for row in plain]
    return "\n".join(f"{s}' = {row}" for s, row in zip(equations.states, rows, strict=True))


def _raised(power: str) -> str:
    return f"^({power})" if "/" in power else f"^{power}"


def latex_rows(equations: Printable, digits: int) -> dict[str, str]:
    """See `Equations.latex`."""
    rows = _rows(
        equations, digits, latex_name, r"\left(-{}\right)", lambda power: f"^{{{power}}}", r"\,", _latex_number
    )
    names = [latex_name(name) for name in equations.variables]
    time = latex_name(equations.time_name)
    if rows is None:
        symbols = dict(zip(equations.symbols, names, strict=True))
        rows = [sympy.latex(_rounded(side, digits), symbol_names=symbols) for side in equations.right_hand_sides]
    return {
        state: rf"\frac{{d{name}}}{{d{time}}} = {row}"
        for state, name, row in zip(equations.states, names, rows, strict=False)
    }


def _rows(
    equations: Printable,
    digits: int,
    name: Callable[[str], str],
    minus: str,
    raised: Callable[[str], str],
    times: str,
    shown: Callable[[str], str],
) -> list[str] | None:
    """Right-hand sides of a sum of monomials with their standard errors; None if it is none.

    Args:
        minus: how -x is written as a base.
    """
    law, errors, snapped = equations.power_sum, equations.standard_errors, equations.snapped
    if law is None:
        return None
    unknown = np.full_like(law.coefficients, np.nan), np.full_like(law.exponents, np.nan)
    a_error = unknown[0] if errors is None else errors.coefficients
    w_error = unknown[1] if errors is None else errors.exponents
    if snapped is not None:
        a_error, w_error = np.where(snapped[0], 0.0, a_error), np.where(snapped[1], 0.0, w_error)
    names = [name(variable) for variable in equations.variables]
    turned = signs(law.exponents, law.mirrored) < 0.0
    written = partial(law_constant, digits=digits, spare=equations.spare)
    monomials = [
        _powers(
            [minus.format(name) if below else name for name, below in zip(names, of_minus, strict=True)],
            row,
            error,
            written,
            raised,
        )
        for row, error, of_minus in zip(law.exponents, w_error, turned, strict=True)
    ]
    rows = []
    for a, error in list(zip(law.coefficients, a_error, strict=True))[: len(equations.states)]:
        terms = []
        for j in sorted(np.flatnonzero(a), key=lambda j: order(a[j], law.exponents[j])):
            number = shown(written(abs(float(a[j])), float(error[j])))
            factors = [] if number == "1" and monomials[j] else [number]
            terms.append((bool(a[j] < 0), times.join([*factors, *monomials[j]])))
        rows.append(join_terms(terms))
    return rows


def order(coefficient: float, powers: Iterable[float]) -> tuple[bool, float, tuple[float, ...]]:
    """The place of a term in its equation: gains first, then by the sum of its exponents."""
    # Rounded, so that fitted exponents of 0.9998 and 1.0001 do not change places.
    near = tuple(round(-float(p), 2) for p in powers)
    return coefficient < 0, round(-sum(near), 1), near


def _powers(
    names: Sequence[str], row: Iterable[float], errors: Iterable[float], show: Written, raised: Callable[[str], str]
) -> list[str]:
    factors = []
    for name, power, error in zip(names, row, errors, strict=True):
        if power != 0:
            written = third_of(float(power)) if error == 0.0 else ""
            written = written or show(float(power), float(error))
            factors.append(name if written == "1" else f"{name}{raised(written)}")
    return factors


def third_of(power: float) -> str:
    """An exponent that is a third of a whole number, as a fraction; nothing for others.

    >>> third_of(2.0 / 3.0), third_of(-4.0 / 3.0), third_of(2.0), third_of(0.66)
    ('2/3', '-4/3', '', '')
    """
    thirds = round(3.0 * power)
    return f"{thirds}/3" if thirds % 3 and abs(3.0 * power - thirds) < THIRD else ""


def _extended_rows(law: PowerSum, errors: PowerSum, states: Sequence[str], show: Written) -> list[str]:
    """Right-hand sides of a law with functions and inner sums, with their standard errors."""
    features, (a, w, b, v), (da, dw, db, dv) = law.features, law.constants, errors.constants
    assert features is not None  # that is what makes a law an extended one
    simple = [*states, *map(partial(function_name, states), features.functions)]

    def sums(
        values: Array, error: Array, powers: Array, products: list[list[str]], first: list[tuple[bool, str]]
    ) -> str:
        terms = []
        for j in sorted(np.flatnonzero(values), key=lambda j: order(float(values[j]), powers[j])):
            written = show(abs(float(values[j])), float(error[j]))
            above = [f for f in products[j] if not f.startswith("/")]
            above = above if written == "1" and above else [written, *above]
            below = [f for f in products[j] if f.startswith("/")]
            terms.append((bool(values[j] < 0), "*".join(above) + "".join(below)))
        return join_terms([*first, *terms])

    inner = [_factors(features, simple, row, error, show, law.mirrored) for row, error in zip(v, dv, strict=True)]
    names = simple + [f"({sums(row, error, v, inner, [(False, '1')])})" for row, error in zip(b, db, strict=True)]
    outer = [_factors(features, names, row, error, show, law.mirrored) for row, error in zip(w, dw, strict=True)]
    return [sums(row, error, w, outer, []) for row, error in zip(a, da, strict=True)]


def function_name(states: Sequence[str], function: Function) -> str:
    """f(x), or f(r*x) where the rate is another than 1."""
    rate = function.plain_rate
    size = "" if abs(rate) == 1.0 else f"{abs(rate):.6g}*"
    return f"{function.name}({'-' * (rate < 0)}{size}{states[function.state]})"


def _factors(
    features: Features,
    names: Sequence[str],
    row: Array,
    errors: Iterable[float],
    show: Written,
    mirrored: Sequence[int],
) -> list[str]:
    """The factors of a product of powers of features; what the product is divided by starts with /.

    exp(r x) ** w is written exp(w r x), and a sum to a whole negative power stands below.
    """
    factors, n = [], features.states
    turned = signs(row[None], mirrored)[0] < 0.0
    for k, (name, power, error) in enumerate(zip(names, row, errors, strict=True)):
        if power == 0:
            continue
        name = f"(-{name})" if turned[k] else name
        function = features.functions[k - n] if n <= k < features.simple else None
        if function is not None and power_is_rate(function):
            rate = float(power) * function.rate
            written = show(abs(rate), float(error) * abs(function.rate))
            state = names[function.state]
            argument = state if written == "1" else f"{written}*{state}"
            factors.append(f"exp({'-' if rate < 0 else ''}{argument})")
            continue
        below = k >= features.simple and power < 0 and error == 0
        written = show(abs(power) if below else float(power), float(error))
        raised = name if written == "1" else f"{name}^{written}"
        factors.append(f"/{raised}" if below else raised)
    return factors


def _latex_number(written: str) -> str:
    mantissa, _, exponent = written.partition("e")
    return rf"{mantissa} \times 10^{{{exponent}}}" if exponent else mantissa


def latex_name(name: str) -> str:
    r"""A column name in LaTeX's mathematics: x1 -> x_{1}, beta -> \beta, heart rate -> upright.

    >>> latex_name("x1"), latex_name("beta"), latex_name("heart rate")
    ('x_{1}', '\\beta', '\\mathrm{heart\\ rate}')
    """
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


def _rounded(expression: sympy.Expr, digits: int) -> sympy.Expr:
    return expression.xreplace({f: sympy.Float(float(f), digits) for f in expression.atoms(sympy.Float)})


# Words of the language, and names that the printed function itself uses.
_JULIA_WORDS = (
    "abstract baremodule begin catch const do else elseif end export false function let local macro module "
    "mutable primitive quote struct true try type using where outer in isa ccall Base du u p t"
)
_PYTHON_WORDS = "np rates"
# Categories of letters, marks and digits that both languages take in names.
_JULIA_LETTERS = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Nd")


def python_source(equations: Printable) -> str:
    """See `Equations.python`."""
    names, given, (time, state, controls) = _local_names(equations, _PYTHON_WORDS, ("t", "y", "u"))
    sides = [
        render(side, name=names.__getitem__, function=lambda f: f"np.{f.lower()}")
        for side in equations.right_hand_sides
    ]
    own, acting = _split(equations, names)
    time = given or time
    lines = [
        "import numpy as np",
        "",
        "",
        f"def rates({time}, {state}{f', {controls}' if acting else ''}):",
        *([f"    {_unpacked(acting)} = {controls}({time})  # inputs at this time"] * bool(acting)),
        f"    {_unpacked(own)} = {state}",
        "    return np.array([",
        *(f"        {side},  # d/dt of {name}" for side, name in zip(sides, equations.states, strict=True)),
        "    ])",
    ]
    return "\n".join(lines) + "\n"


def _julia_name(name: str) -> str:
    """An identifier of Python as one of Julia: some letters are operators or other letters there, and
    what consists of underscores cannot be read.

    >>> _julia_name("heart_rate"), _julia_name("__"), _julia_name("a\u00b7b")
    ('heart_rate', 'x__', 'a_b')
    """
    kept = "".join(
        c if c == "_" or (unicodedata.category(c) in _JULIA_LETTERS and c != "\u025b") else "_" for c in name
    )
    return kept if kept.strip("_") and not kept[0].isdigit() else f"x{kept}"


def julia_source(equations: Printable) -> str:
    """See `Equations.julia`."""
    names, given, _ = _local_names(equations, _JULIA_WORDS, (), _julia_name)
    sides = [
        render(side, name=names.__getitem__, function=lambda f: f"Base.{f.lower()}", power="^")
        for side in equations.right_hand_sides
    ]
    own, acting = _split(equations, names)
    lines = [
        "function rates!(du, u, p, t)",
        *([f"    {given} = t"] * bool(given)),
        *([f"    {_unpacked(acting)} = p(t)  # the inputs at this time"] * bool(acting)),
        f"    {_unpacked(own)} = u",
        *(
            f"    du[{i + 1}] = {side}  # d/dt of {name}"
            for i, (side, name) in enumerate(zip(sides, equations.states, strict=True))
        ),
        "    return nothing",
        "end",
    ]
    return "\n".join(lines) + "\n"


def _unpacked(names: Sequence[str]) -> str:
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _split(equations: Printable, names: dict[str, str]) -> tuple[list[str], list[str]]:
    """Variable names of the states, and of the inputs but for time."""
    local, count = list(names.values()), len(equations.states)
    acting = zip(equations.controls, local[count:], strict=True)
    return local[:count], [name for column, name in acting if column != equations.time_name]


def _local_names(
    equations: Printable, words: str, arguments: tuple[str, ...], spelled: Callable[[str], str] = str
) -> tuple[dict[str, str], str, list[str]]:
    """Variable names by symbol that avoid reserved words, that of time if it is an input ("" if
    not), and argument names that avoid all of them; `spelled` is how the language writes a name."""
    reserved = set(words.split())
    taken = set(identifiers(equations.variables).values()) | reserved
    names = {}
    for symbol in equations.symbols:
        name = spelled(symbol.name)
        while (name != symbol.name and name in taken) or name in reserved:
            name += "_"
        taken.add(name)
        names[symbol.name] = name
    given = []
    for argument in arguments:
        while argument in taken:
            argument += "_"
        given.append(argument)
    of_column = dict(zip(equations.variables, names.values(), strict=True))
    time = equations.time_name
    return names, of_column[time] if time in equations.controls else "", given
