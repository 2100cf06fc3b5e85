"""Equations as sympy expressions, forms with named constants, and the readers of both.

Where every right-hand side is a sum of products of powers, the same law is also kept as numbers (`PowerSum`), in which
equations share their common monomials. So is a fitted law with functions and inner sums,

    a x y / (c + d x)  =  (a / c) x y (1 + (d / c) x)^-1

in which constants that depend on each other in the expressions are independent numbers. Column names may be anything;
internally, states are symbols with safe names.

A form that a user writes down has constants to be fitted.

    prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)

Names other than states are constants, and numbers stay. In a law without named constants, as this program prints it,
the constants are the numbers with an error bar, 0.481(65), and those with a decimal point, except exponents.
Powers are written ^ or **; nothing is evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import ArrayLike

from odediscovery.data.signals import Signal, solve_piecewise
from odediscovery.errors import InputError, InputTypeError, unknown_name
from odediscovery.families import EXP, EXP_INVERSE, STATE_FUNCTIONS, Function
from odediscovery.ivp.solvers import solve_until_failure
from odediscovery.laws.compiled import FilledForm, form_of_expressions, point_field, vector_field
from odediscovery.laws.expressions import (
    JULIA_WORDS,
    LATEX,
    PLAIN,
    ExpressionWriter,
    Notation,
    Writer,
    constant,
    exact,
    expression_of,
    identifiers,
    julia_name,
    latex_name,
    parse,
    rounded,
    sides_of_law,
)
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums
from odediscovery.runtime.arrays import Array


class _Sum(NamedTuple):
    """1 + weight * product of powers of the states."""

    weight: float
    exponents: tuple[float, ...]


# The base of a factor; a state is given by its index.
_Base: TypeAlias = int | Function | _Sum


@dataclass
class _Term:
    """A coefficient, the powers of its factors, and for states with fractional powers whether these are of -x."""

    coefficient: float = 1.0
    powers: dict[_Base, float] = field(default_factory=dict)
    turned: dict[int, bool] = field(default_factory=dict)


def read_law(
    sides: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol], *, features: bool = False
) -> PowerSum | None:
    """The law as numbers, 0 for inputs, or None where some side is not a sum of products of powers.

    With `features`, factors may also be functions of a state and sums 1 + b m, m a product of powers."""
    place = {symbol: k for k, symbol in enumerate(symbols)}
    found: dict[tuple[tuple[_Base, float], ...], dict[int, float]] = {}
    # A state may have fractional powers of x or of -x, not both.
    sides_of: dict[int, bool] = {}
    for i, side in enumerate(sides):
        terms = _terms(side)
        if terms is None:
            return None
        for expression in terms:
            term = _term(expression, place, features)
            if term is None or any(sides_of.setdefault(k, minus) is not minus for k, minus in term.turned.items()):
                return None
            row = found.setdefault(tuple(sorted(term.powers.items(), key=str)), {})
            row[i] = row.get(i, 0.0) + term.coefficient
    kept = {powers: row for powers, row in found.items() if any(row.values())}
    bases = dict.fromkeys(base for powers in kept for base, _ in powers)
    functions = [base for base in bases if isinstance(base, Function)]
    sums, n = [base for base in bases if isinstance(base, _Sum)], len(symbols)
    columns: dict[_Base, int] = {base: k for k, base in enumerate((*range(n), *functions, *sums))}
    coefficients, exponents = np.zeros((n, len(kept))), np.zeros((len(kept), len(columns)))
    for j, (powers, row) in enumerate(kept.items()):
        coefficients[list(row), j] = list(row.values())
        for base, power in powers:
            exponents[j, columns[base]] = power
    seen = None
    if functions or sums:
        inner = np.zeros((len(sums), n + len(functions)))
        for own, one in zip(inner, sums, strict=True):
            own[:n] = one.exponents
        of_sums = Sums(np.diag([one.weight for one in sums]), inner) if sums else NO_SUMS
        seen = Features(n, tuple(functions), of_sums)
    mirrored = tuple(sorted(k for k in sides_of if sides_of[k]))
    return PowerSum(coefficients, exponents, seen, mirrored=mirrored)


def _terms(side: sympy.Expr) -> tuple[sympy.Expr, ...] | None:
    """The terms of a side after multiplying out; None if there could be more than 500."""
    if side == 0:
        return ()
    if _count_terms(side) > 500:
        return None
    multiplied = side.expand(power_base=False, power_exp=False, log=False, basic=False, complex=False)
    return tuple(term for term in sympy.Add.make_args(multiplied) if term != 0)


def _count_terms(side: sympy.Expr) -> float:
    """An upper bound on the number of terms after multiplying out."""
    if side.is_Add:
        return math.fsum(_count_terms(part) for part in side.args)
    if side.is_Mul:
        return float(np.prod([_count_terms(part) for part in side.args]))
    if side.is_Pow and side.exp.is_Integer and side.exp > 1 and not side.base.is_Symbol:
        return float(_count_terms(side.base) ** min(float(side.exp), 100.0))
    return 1.0


def _term(expression: sympy.Expr, place: Mapping[sympy.Symbol, int], features: bool) -> _Term | None:
    """A product of powers; None where a factor is not allowed."""
    term, whole = _Term(), [0.0] * len(place)
    for factor in sympy.Mul.make_args(expression):
        # sympy treats exp(x) as a power of e.
        base, exponent = (factor, sympy.Integer(1)) if factor.func is sympy.exp else factor.as_base_exp()
        if factor.is_Number:
            term.coefficient *= float(factor)
            continue
        if not exponent.is_Number:
            return None
        minus, power = -base in place, float(exponent)
        if minus or base in place:
            k = place[-base if minus else base]
            term.powers[k] = term.powers.get(k, 0.0) + power
            if power.is_integer():
                # sympy writes whole powers of -x as powers of x.
                whole[k] += power
            elif term.turned.setdefault(k, minus) is not minus:
                return None
            continue
        read = (_sum(base, place) or _function(base, place)) if features else None
        if read is None:
            return None
        term.coefficient *= read[1] ** power
        term.powers[read[0]] = term.powers.get(read[0], 0.0) + power
    for k in [k for k, minus in term.turned.items() if minus]:
        # x^p (-x)^q = (-1)^p (-x)^(p + q)
        power = term.powers[k]
        term.coefficient *= (-1.0) ** whole[k] * ((-1.0) ** power if power.is_integer() else 1.0)
    term.turned = {k: minus for k, minus in term.turned.items() if not term.powers[k].is_integer()}
    term.powers = {base: power for base, power in term.powers.items() if power}
    return term


def _sum(base: sympy.Expr, place: Mapping[sympy.Symbol, int]) -> tuple[_Base, float] | None:
    """c + d m as the sum 1 + (d / c) m and the factor c; None for other bases."""
    if not base.is_Add or len(base.args) != 2:
        return None
    constant, rest = base.as_independent(*place, as_Add=True)
    found = _term(rest, place, features=False)
    if not constant.is_Number or float(constant) <= 0.0 or found is None or any(found.turned.values()):
        return None
    inner = np.zeros(len(place))
    for k, power in found.powers.items():
        assert isinstance(k, int)  # sums contain only states
        inner[k] = power
    return _Sum(found.coefficient / float(constant), tuple(inner.tolist())), float(constant)


def _function(base: sympy.Expr, place: Mapping[sympy.Symbol, int]) -> tuple[_Base, float] | None:
    """f(r x) of a state x and the factor 1; None for other bases."""
    name = type(base).__name__
    if name not in STATE_FUNCTIONS or len(base.args) != 1:
        return None
    rate, state = base.args[0].as_independent(*place, as_Add=False)
    if name == EXP.name and 1 / state in place and rate.is_Number and rate:
        return Function(EXP_INVERSE.name, place[1 / state], 1.0 / float(rate)), 1.0
    return (Function(name, place[state], float(rate)), 1.0) if state in place and rate.is_Number else None


# `repr` truncates longer equations; `pretty` prints them in full.
MAX_LINE = 160


@dataclass(frozen=True, eq=False, repr=False)
class Equations:
    """dx_i/dt = f_i(x, u(t)) for named states and, where there are any, controls.

    Args:
        states: names as the user wrote them.
        right_hand_sides: f_i over `symbols`, one per state.
        time_name: name of the time.
        law: the same law as numbers, perhaps with functions of states or inner sums; None where only the
            expressions are known.
        standard_errors: of the constants of `law`, in the same places; 0 for those set to a round number instead of
            a fitted one, nan where unknown.
        units: unit of a state or of the time, by name, where known.
        spare: number of digits printed beyond the two of a standard error (see `judge.identifiability`).
        controls: names of the controls u, the last variables of `symbols` and of the laws, whose
            rates are 0 there. A control with the name of the time is time itself.

    Attributes:
        variables: states and controls.

    >>> decay = Equations.parse(["mass"], {"mass": "-0.5*mass"})
    >>> print(decay.pretty())
    mass' = -0.5*mass
    """

    states: tuple[str, ...]
    right_hand_sides: tuple[sympy.Expr, ...]
    time_name: str = "t"
    law: PowerSum | None = None
    standard_errors: PowerSum | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    controls: tuple[str, ...] = ()
    spare: int = 0
    variables: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", (*self.states, *self.controls))

    @property
    def power_sum(self) -> PowerSum | None:
        """The law if it is a sum of monomials of the states, else None."""
        return self.law if self.law is not None and self.law.features is None else None

    @property
    def symbols(self) -> tuple[sympy.Symbol, ...]:
        """One symbol per state, then one per control, with safe names."""
        return _symbols(self.variables)

    @classmethod
    def from_power_sum(
        cls,
        states: Sequence[str],
        power_sum: PowerSum,
        *,
        time_name: str = "t",
        standard_errors: PowerSum | None = None,
        units: Mapping[str, str] | None = None,
        controls: Sequence[str] = (),
    ) -> Equations:
        """The equations of a law given as numbers, with equal monomials already merged.

        Args:
            states: names as the user wrote them.
            power_sum: the law, in the user's units; controls are its last variables.
            time_name: name of the time.
            standard_errors: of the law's constants, in the same places; 0 for those set to simple values.
            units: unit of a state or of the time, by name.
            controls: names of the controls.

        Raises:
            ValueError: the number of states or the shapes do not match.
        """
        names = (*states, *controls)
        if len(names) != power_sum.n_states:
            raise ValueError(f"{len(names)} names for a law of {power_sum.n_states} states")
        own = [values.shape for values in power_sum.constants]
        if standard_errors is not None and [v.shape for v in standard_errors.constants] != own:
            raise ValueError("standard errors should have the shapes of the law")
        symbols = dict(zip(names, _symbols(names), strict=True))
        sides = tuple(expression_of(side, symbols) for side in sides_of_law(power_sum, names)[: len(states)])
        return cls(
            tuple(states), sides, time_name, power_sum, standard_errors, dict(units or {}), controls=tuple(controls)
        )

    @classmethod
    def parse(
        cls,
        states: Sequence[str],
        texts: Mapping[str, str],
        *,
        time_name: str = "t",
        constants: Mapping[str, float] | None = None,
        units: Mapping[str, str] | None = None,
        controls: Sequence[str] = (),
    ) -> Equations:
        """The equations read from text, which is never evaluated.

        Args:
            states: names as the user wrote them.
            texts: right-hand side of every state, over the safe identifiers of states and controls; x^2 is x**2.
            constants: values of the other names in the texts.
            time_name: name of the time.
            units: unit of a state or of the time, by name.
            controls: names of the controls.

        Raises:
            InputError: a state has no text, or a text cannot be read.

        >>> law = Equations.parse(["S"], {"S": "k - S**0.5"}, constants={"k": 2.0})
        >>> law.power_sum.exponents.tolist()
        [[0.0], [0.5]]
        """
        symbols = _symbols((*states, *controls))
        names: dict[str, sympy.Symbol | float] = dict(constants or {})
        names.update({symbol.name: symbol for symbol in symbols})
        for state in states:
            if state not in texts:
                raise InputError(f"the equation of {state!r} is missing")
        sides = tuple(parse(texts[state].replace("^", "**"), names) for state in states)
        power_sum = read_law(sides, symbols)
        if power_sum is not None:
            return cls.from_power_sum(states, power_sum, time_name=time_name, units=units, controls=controls)
        return cls(tuple(states), sides, time_name, units=dict(units or {}), controls=tuple(controls))

    @property
    def complexity(self) -> int:
        """Number of constants and states of a sum of monomials (see `PowerSum.complexity`),
        otherwise of nodes in the expression trees."""
        if self.power_sum is not None:
            return self.power_sum.complexity
        return sum(1 for side in self.right_hand_sides for _ in sympy.preorder_traversal(side))

    def rhs(self, x: ArrayLike) -> Array:
        """dx/dt for x [..., variables] -> [..., states]; nan or inf where undefined."""
        with np.errstate(all="ignore"):
            return self.rhs_function()(np.asarray(x, dtype=np.float64))

    def simulate(
        self,
        initial: ArrayLike,
        times: ArrayLike,
        rtol: float = 1e-9,
        atol: float = 1e-12,
        most_evaluations: int | None = None,
        controls: Signal | None = None,
    ) -> Array:
        """Simulated states at some times, [n, states]; rows are nan from where the solution fails.

        Args:
            initial: states at the first time [states].
            times: increasing [n].
            rtol: relative tolerance of the solver (LSODA).
            atol: absolute tolerance, as a share of the initial value of each state.
            most_evaluations: number of evaluations of the right-hand sides after which the solution
                counts as failed (default: 100 000).
            controls: signals in the order of the controls, known from the first of the times; after
                their last time they keep their last values. Not needed if time is the only control.

        Raises:
            ValueError: shapes do not match, or controls are missing.

        >>> decay = Equations.parse(["x"], {"x": "-x"})
        >>> decay.simulate([1.0], [0.0, 1.0])[1].round(6).tolist()
        [0.367879]
        """
        start, at = np.array(initial, dtype=np.float64), np.array(times, dtype=np.float64)
        if start.shape != (len(self.states),) or at.ndim != 1:
            raise ValueError(
                f"expected {len(self.states)} initial values and a list of times, got "
                f"shapes {start.shape} and {at.shape}"
            )
        if controls is None and self.controls == (self.time_name,) and at.size:
            controls = Signal(at[:1], at[:1, None], np.array([False]))
        if len(self.controls) != (0 if controls is None else len(controls.held)):
            raise ValueError(f"expected the inputs {', '.join(self.controls) or 'none'} over time")
        size, rhs = np.abs(start), self.rhs_function()
        largest = np.max(size, initial=0.0) or 1.0

        def solved(least: float) -> Array:
            absolute = atol * np.maximum(size, least * largest)
            solve = partial(solve_until_failure, rtol=rtol, atol=absolute, max_evaluations=most_evaluations)
            if controls is None:
                return solve(lambda t, x: rhs(x), start, at)
            time = [name == self.time_name for name in self.controls]
            return solve_piecewise(solve, rhs, start, at, controls, np.array(time))

        # The tolerance of a state that starts at 0 is a share of the largest state's; a larger share where the solver
        # gets stuck because rounding errors exceed it.
        found = solved(1e-6)
        if not np.isfinite(found).all() and (size < 1e-6 * largest).any():
            again = solved(1e-2)
            found = again if np.isfinite(again).sum() > np.isfinite(found).sum() else found
        return found

    def texts(self) -> dict[str, str]:
        """Right-hand side of every state, with safe identifiers and exact numbers."""
        sides = map(ExpressionWriter().sum, self.right_hand_sides)
        return dict(zip(self.states, sides, strict=True))

    def __repr__(self) -> str:
        lines = self.pretty().splitlines()
        return "\n".join(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in lines)

    def pretty(self, digits: int = 4) -> str:
        """The equations in readable form: x' = 0.0600(12)*x^0.5, with two digits of the standard
        error in parentheses, and without an error for round constants.

        Args:
            digits: significant digits of a constant whose error is unknown.
        """
        law = self.law if self.standard_errors is not None else self.power_sum
        if law is not None:
            rows = self._rows(law, digits, PLAIN)
        else:
            names = dict(zip((s.name for s in self.symbols), self.variables, strict=True))
            show = ExpressionWriter(names.__getitem__, partial(constant, digits=digits), power="^", divided=True)
            rows = [show.sum(side) for side in self.right_hand_sides]
            # A fitted 0.9999999 is a factor, or an exponent, that rounds to 1.
            rows = [re.sub(r"(?<![\w.^])1\*(?=[^\d])|\^1(?![\d.e])", "", row) for row in rows]
        return "\n".join(f"{s}' = {row}" for s, row in zip(self.states, rows, strict=True))

    def short(self) -> str:
        """The equations to three digits, without errors, one line per state."""
        return replace(self, standard_errors=None).pretty(3)

    def latex(self, digits: int = 4) -> dict[str, str]:
        r"""Equations in LaTeX, "\frac{dx}{dt} = ...", by state; `digits` as in `pretty`."""
        names, time = [latex_name(name) for name in self.variables], latex_name(self.time_name)
        if self.power_sum is not None:
            rows = self._rows(self.power_sum, digits, LATEX)
        else:
            symbols = dict(zip(self.symbols, names, strict=True))
            rows = [sympy.latex(rounded(side, digits), symbol_names=symbols) for side in self.right_hand_sides]
        return {
            state: rf"\frac{{d{name}}}{{d{time}}} = {row}"
            for state, name, row in zip(self.states, names, rows, strict=False)
        }

    def python(self) -> str:
        """Source of a Python function `rates(t, y)` for scipy's `solve_ivp`; with controls
        `rates(t, y, u)`, where u(t) returns their values: `solve_ivp(..., args=(u,))`."""
        names, own, acting, given, (time, state, controls) = self._local_names("np rates", ("t", "y", "u"))
        time, show = given or time, ExpressionWriter(names.__getitem__, function=lambda name: f"np.{name.lower()}")
        sides = [show.sum(side) for side in self.right_hand_sides]
        lines = [
            "import numpy as np\n\n",
            f"def rates({time}, {state}{f', {controls}' if acting else ''}):",
            *([f"    {acting} = {controls}({time})  # inputs at this time"] * bool(acting)),
            f"    {own} = {state}",
            "    return np.array([",
            *(f"        {side},  # d/dt of {name}" for side, name in zip(sides, self.states, strict=True)),
            "    ])\n",
        ]
        return "\n".join(lines)

    def julia(self) -> str:
        """Source of a Julia function `rates!(du, u, p, t)` for DifferentialEquations.jl, where
        p(t) returns the values of the controls."""
        names, own, acting, given, _ = self._local_names(JULIA_WORDS, (), julia_name)
        show = ExpressionWriter(names.__getitem__, function=lambda name: f"Base.{name.lower()}", power="^")
        numbered = enumerate(zip(map(show.sum, self.right_hand_sides), self.states, strict=True), start=1)
        lines = [
            "function rates!(du, u, p, t)",
            *([f"    {given} = t"] * bool(given)),
            *([f"    {acting} = p(t)  # the inputs at this time"] * bool(acting)),
            f"    {own} = u",
            *(f"    du[{i}] = {side}  # d/dt of {name}" for i, (side, name) in numbered),
            "    return nothing",
            "end\n",
        ]
        return "\n".join(lines)

    def _rows(self, law: PowerSum, digits: int, notation: Notation) -> list[str]:
        """Right-hand sides of a law given as numbers, with standard errors."""
        errors, writer = self.standard_errors, Writer(notation, digits, thirds=law.features is None)
        sides = sides_of_law(law, self.variables, errors.constants if errors else None, self.spare)
        return [writer.sum(side) for side in sides[: len(self.states)]]

    def _local_names(
        self, words: str, arguments: tuple[str, ...], spelled: Callable[[str], str] = str
    ) -> tuple[dict[str, str], str, str, str, list[str]]:
        """Names in a language, distinct from reserved words and from each other.

        They are the names by symbol; the states, and the controls except time, as they are unpacked; the name of time
        if it is a control, else ""; the arguments.
        """
        reserved = set(words.split())
        taken = set(identifiers(self.variables).values()) | reserved
        names = {}
        for symbol in self.symbols:
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
        of_column = dict(zip(self.variables, names.values(), strict=True))
        time = of_column[self.time_name] if self.time_name in self.controls else ""

        def unpacked(columns: Sequence[str]) -> str:
            return ", ".join(of_column[column] for column in columns) + "," * (len(columns) == 1)

        acting = [column for column in self.controls if column != self.time_name]
        return names, unpacked(self.states), unpacked(acting), time, given

    def rhs_function(self) -> Callable[[Array], Array]:
        """`rhs` as one function of states [..., states], for repeated calls; it may warn where rates are undefined."""
        law = self.power_sum or FilledForm(_form(tuple(self.right_hand_sides), tuple(self.symbols)), np.zeros(0))
        field, of_point = vector_field(law), point_field(law, len(self.states))
        # Solvers pass one point at a time.
        return lambda x: np.asarray(of_point(0.0, x)) if x.ndim == 1 else field(0.0, x)[..., : len(self.states)]


# A fit solves the same equations hundreds of times.
_form = lru_cache(maxsize=100)(form_of_expressions)


def _symbols(states: Sequence[str]) -> tuple[sympy.Symbol, ...]:
    return tuple(sympy.Symbol(name) for name in identifiers(states).values())


# Equations as users write them: one text with a line per state, or right-hand sides by state.
Written: TypeAlias = str | Sequence[str] | Mapping[str, str]

_NUMBER = re.compile(r"(?<![\w.])(?P<value>\d+\.?\d*|\.\d+)(?P<error>\(\d+\))?(?P<power>[eE][+-]?\d+)?(?![\w.])")
# A name, but not the e of 1e-7.
NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_EQUATION = re.compile(r"\s*(?P<state>[^=]+?)\s*['\u2019\u2032]\s*=(?P<side>.*)", re.DOTALL)
# The same as textbooks write it, dx/dt = ...
_DERIVATIVE = re.compile(r"\s*d\s*(?P<state>[^=]+?)\s*/\s*d\s*[^=/]+?\s*=(?P<side>.*)", re.DOTALL)
# Remarks that follow printed equations.
_REMARK = re.compile(r"\s*(note:|at .+? = .+?:|#|\()")


@dataclass(frozen=True)
class Form:
    """Equations with named constants."""

    states: tuple[str, ...]  # names as the user wrote them
    controls: tuple[str, ...]  # names of the controls
    # Right-hand side of every state, in the notation of `expressions.parse`, with identifiers of states, controls
    # and constants.
    texts: tuple[str, ...]
    names: tuple[str, ...]  # of the constants
    # Initial guesses of the constants, None where not given; forms that differ in them are equal.
    starts: tuple[float | None, ...] = field(compare=False)
    time_name: str = "t"  # name of the time

    def with_constants(self, values: Sequence[float]) -> Equations:
        """The equations with numbers in place of the constants."""
        return self._read(self.controls, dict(zip(self.names, map(float, values), strict=True)))

    def holding(self, values: Mapping[str, float]) -> Form:
        """The form with some constants replaced by numbers."""
        numbers = {name: f"({value!r})" for name, value in values.items()}
        left = [(name, start) for name, start in zip(self.names, self.starts, strict=True) if name not in values]
        names, starts = tuple(name for name, _ in left), tuple(start for _, start in left)
        return replace(self, texts=tuple(renamed(text, numbers) for text in self.texts), names=names, starts=starts)

    def open(self) -> Equations:
        """The equations with the constants as additional controls, after the others."""
        return self._read((*self.controls, *self.names), {})

    def _read(self, controls: tuple[str, ...], constants: Mapping[str, float]) -> Equations:
        texts = dict(zip(self.states, self.texts, strict=True))
        return Equations.parse(self.states, texts, constants=constants, time_name=self.time_name, controls=controls)

    def lines(self) -> list[str]:
        """The equations as written, with ^ for powers."""
        back = {safe: name for name, safe in identifiers((*self.states, *self.controls)).items()}
        shown = (renamed(text, back).replace("**", "^") for text in self.texts)
        return [f"{state}' = {text}" for state, text in zip(self.states, shown, strict=True)]


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other names, or expressions, in place of some of its names."""
    return NAME.sub(lambda match: names.get(match[0], match[0]), text)


def read_form(
    written: Written,
    states: Sequence[str],
    *,
    controls: Sequence[str] = (),
    time_name: str = "t",
    start: Mapping[str, float] | None = None,
) -> Form:
    """The form that a user wrote or this program printed, without remarks; `start` has initial guesses by constant."""
    sides = _sides(written, states)
    safe = identifiers((*states, *controls))
    plain = [_with_identifiers(side, safe).replace("^", "**") for side in sides]
    names = _names(plain, set(safe.values()), time_name)
    found: dict[str, float | None] = dict.fromkeys(names)
    texts = tuple(_lifted(text, found, named=bool(names)) for text in plain)
    if not found:
        raise InputError("the law has no constants to fit: name them, as in x' = -k*x, or write numbers such as 1.0")
    if len(found) > 60:
        raise InputError(f"the law has {len(found)} constants; at most 60 can be fitted")
    for name, value in (start or {}).items():
        if name not in found:
            raise unknown_name("constant", name, list(found))
        try:
            found[name] = float(value)
        except (TypeError, ValueError):
            found[name] = math.nan
        if not math.isfinite(found[name] or 0.0):
            raise InputError(f"start: expected a finite number for {name}, got {value}")
    form = Form(tuple(states), tuple(controls), texts, tuple(found), tuple(found.values()), time_name)
    form.open()  # raises if the texts cannot be read
    return form


def _sides(written: Written, states: Sequence[str]) -> list[str]:
    """The right-hand sides, in the order of the states."""
    sides: dict[str, str] = {}
    for state, side in _equations(written, states[0]):
        if state not in states:
            raise unknown_name("state", state, states)
        if state in sides:
            raise InputError(f"the equation of {state!r} stands twice; write each once")
        sides[state] = side
    for state in states:
        if state not in sides:
            # Two equations separated by a comma are read as one.
            between = "; put ; or a new line between equations" if any("=" in side for side in sides.values()) else ""
            raise InputError(
                f"the equation of {state!r} is missing: write {state}' = ..., or 0 if it never changes{between}"
            )
    return [sides[state] for state in states]


def _equations(written: Written, first: str) -> Iterator[tuple[str, str]]:
    """Each state with its right-hand side."""
    if isinstance(written, Mapping):
        yield from ((str(state), str(side)) for state, side in written.items())
        return
    if not isinstance(written, Iterable):
        raise InputTypeError(f"expected a law as text, such as {first}' = -k*{first}, got a {type(written).__name__}")
    for line in re.split(r"[\n;]", written) if isinstance(written, str) else map(str, written):
        if not line.strip() or _REMARK.match(line):
            continue
        found = _EQUATION.fullmatch(line) or _DERIVATIVE.fullmatch(line)
        if not found:
            raise InputError(f"cannot read {line.strip()!r}: expected an equation such as {first}' = ...")
        yield found["state"].strip(), found["side"].strip()


def _with_identifiers(side: str, safe: Mapping[str, str]) -> str:
    """The text with names replaced by their identifiers: "feed rate" by feed_rate."""
    for name in sorted((name for name in safe if safe[name] != name), key=len, reverse=True):
        side = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", safe[name], side)
    return side


def _names(texts: Sequence[str], taken: set[str], time_name: str) -> list[str]:
    """Names other than states and functions, in order of appearance."""
    found: dict[str, None] = {}
    for side in texts:
        for match in NAME.finditer(_NUMBER.sub(lambda m: " " * len(m[0]), side)):
            called = side[match.end() :].lstrip().startswith("(")
            if match[0] in taken or called:
                continue
            if match[0] == time_name:
                raise InputError(
                    f"{time_name!r} is the time: for a law that has it, name it as an input, --inputs {time_name}"
                )
            found[match[0]] = None
    return list(found)


def _lifted(text: str, found: dict[str, float | None], *, named: bool) -> str:
    """The text with names for the numbers to be fitted; adds these to `found`."""

    def one(match: re.Match[str]) -> str:
        number = match["value"] + (match["power"] or "")
        exponent = text[: match.start()].rstrip(" (-").endswith("**")
        fitted = match["error"] is not None or (not named and "." in number and not exponent)
        if not fitted:
            return exact(float(number))
        k = 1 + sum(name.startswith("c") and name[1:].isdigit() for name in found)
        while f"c{k}" in found:
            k += 1
        found[f"c{k}"] = float(number)
        return f"c{k}"

    return _NUMBER.sub(one, text)
