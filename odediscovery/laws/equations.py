"""Equations as sympy expressions, forms with named constants, and how both are read.

Where every right-hand side is a sum of products of powers, the same law is also kept as numbers (`PowerSum`), in which
a monomial that stands in several equations is one. So is a fitted law with functions and inner sums,

    a x y / (c + d x)  =  (a / c) x y (1 + (d / c) x)^-1

where constants that are tied to each other in the expressions are numbers of their own. Column names may be anything;
inside, states are symbols with safe names.

A form that somebody writes down has constants that are to be fitted.

    prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)

Names that are no states are constants, and numbers stay. In a law without such names, as this program prints them, the
numbers are the constants: those with an error bar, 0.481(65), and those with a decimal point that are no exponents.
Powers are written ^ or **; nothing is evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from odediscovery.data.signals import Signal, solve_piecewise
from odediscovery.errors import InputError, unknown_name
from odediscovery.families import STATE_FUNCTIONS, Function, power_is_rate
from odediscovery.ivp.solvers import solve_until_failure
from odediscovery.laws.compiled import CompiledForm, FilledForm, form_of_expressions, point_field, vector_field
from odediscovery.laws.expressions import (
    JULIA_WORDS,
    Notation,
    constant,
    exact,
    function_name,
    identifiers,
    join_terms,
    julia_name,
    latex_name,
    latex_number,
    law_constant,
    number,
    order,
    parse,
    render,
    rounded,
    text,
    third_of,
)
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums, signs
from odediscovery.runtime.arrays import Array


class _Sum(NamedTuple):
    """1 + weight * product of powers of the states."""

    weight: float
    exponents: tuple[float, ...]


# What a factor is a power of; a state goes by its index.
_Base: TypeAlias = int | Function | _Sum


@dataclass
class _Term:
    """A coefficient, the powers of its factors, and states of which it takes fractional powers of -x or x."""

    coefficient: float = 1.0
    powers: dict[_Base, float] = field(default_factory=dict)
    turned: dict[int, bool] = field(default_factory=dict)


def read_law(
    sides: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol], *, features: bool = False
) -> PowerSum | None:
    """The law as numbers, 0 for inputs, or None where some side is no sum of products of powers, and of functions of a
    state and of 1 + b m, m a product of powers, where these `features` are wanted."""
    place = {symbol: k for k, symbol in enumerate(symbols)}
    found: dict[tuple[tuple[_Base, float], ...], dict[int, float]] = {}
    # Of each state either fractional powers of x or of -x.
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
    """The terms of a sum, multiplied out if it stays short."""
    if side == 0:
        return ()
    # A longer product of sums stays as it is.
    if _count_terms(side) > 500:
        return None
    multiplied = side.expand(power_base=False, power_exp=False, log=False, basic=False, complex=False)
    return tuple(term for term in sympy.Add.make_args(multiplied) if term != 0)


def _count_terms(side: sympy.Expr) -> float:
    """An upper bound of the number of terms after multiplying out."""
    if side.is_Add:
        return math.fsum(_count_terms(part) for part in side.args)
    if side.is_Mul:
        return float(np.prod([_count_terms(part) for part in side.args]))
    if side.is_Pow and side.exp.is_Integer and side.exp > 1 and not side.base.is_Symbol:
        return float(_count_terms(side.base) ** min(float(side.exp), 100.0))
    return 1.0


def _term(expression: sympy.Expr, place: Mapping[sympy.Symbol, int], features: bool) -> _Term | None:
    """A product of powers; None where a factor is none that may stand."""
    term, whole = _Term(), [0.0] * len(place)
    for factor in sympy.Mul.make_args(expression):
        # sympy takes exp(x) for a power of e.
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
                # sympy writes whole powers of -x as those of x.
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
    """c + d m as 1 + (d / c) m, and c."""
    if not base.is_Add or len(base.args) != 2:
        return None
    constant, rest = base.as_independent(*place, as_Add=True)
    found = _term(rest, place, features=False)
    if not constant.is_Number or float(constant) <= 0.0 or found is None or any(found.turned.values()):
        return None
    inner = np.zeros(len(place))
    for k, power in found.powers.items():
        assert isinstance(k, int)  # inside a sum are states alone
        inner[k] = power
    return _Sum(found.coefficient / float(constant), tuple(inner.tolist())), float(constant)


def _function(base: sympy.Expr, place: Mapping[sympy.Symbol, int]) -> tuple[_Base, float] | None:
    """f(r x) of a state x."""
    name = type(base).__name__
    if name not in STATE_FUNCTIONS or len(base.args) != 1:
        return None
    rate, state = base.args[0].as_independent(*place, as_Add=False)
    return (Function(name, place[state], float(rate)), 1.0) if state in place and rate.is_Number else None


# A longer equation is cut where equations print themselves; `pretty` has it whole.
MAX_LINE = 160


@dataclass(frozen=True, eq=False, repr=False)
class Equations:
    """dx_i/dt = f_i(x, u(t)) for named states and, where there are any, controls.

    Args:
        states: names as the user wrote them.
        right_hand_sides: f_i over `symbols`, one a state.
        time_name: name of the time.
        power_sum: the same law as numbers, or None where some f_i is no sum of monomials.
        standard_errors: of the constants of `law`, in the same places; 0 for those held fixed
            (snapped), nan where unknown.
        snapped: (coefficients, exponents) of `power_sum`, True for constants set to a round
            number instead of a fitted one.
        units: unit of a state or of the time, by name, where known.
        extended: the law as numbers where it has functions of states or inner sums, and
            `power_sum` is None for that reason; None where nothing but expressions is known.
        spare: digits that constants are printed with beyond the two of their errors (see `judge.identifiability`).
        controls: names of the controls u, the last variables of `symbols` and of the laws, which have
            no equation there (0). One that is called like the time is time itself.

    Attributes:
        variables: states and controls.

    >>> decay = Equations.parse(["mass"], {"mass": "-0.5*mass"})
    >>> print(decay.pretty())
    mass' = -0.5*mass
    """

    states: tuple[str, ...]
    right_hand_sides: tuple[sympy.Expr, ...]
    time_name: str = "t"
    power_sum: PowerSum | None = None
    standard_errors: PowerSum | None = None
    snapped: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    extended: PowerSum | None = None
    controls: tuple[str, ...] = ()
    spare: int = 0
    variables: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", (*self.states, *self.controls))

    @property
    def law(self) -> PowerSum | None:
        """The law as numbers, a sum of monomials or an extended one; None where neither is."""
        return self.extended if self.power_sum is None else self.power_sum

    @property
    def symbols(self) -> tuple[sympy.Symbol, ...]:
        """One symbol a state, then one an input, with safe names."""
        return _symbols(self.variables)

    @classmethod
    def from_power_sum(
        cls,
        states: Sequence[str],
        power_sum: PowerSum,
        *,
        time_name: str = "t",
        standard_errors: PowerSum | None = None,
        snapped: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
        units: Mapping[str, str] | None = None,
        controls: Sequence[str] = (),
    ) -> Equations:
        """The equations of a law given as numbers; equal monomials should be merged before.

        Args:
            states: names as the user wrote them.
            power_sum: the law, in the user's units; controls are its last variables.
            time_name: name of the time.
            standard_errors: of the law's constants, in the same places.
            snapped: [states, monomials] and [monomials, variables] of sums of monomials; in other
                laws the constants with error 0.
            units: unit of a state or of the time, by name.
            controls: names of the controls.

        Raises:
            ValueError: the number of states or the shapes do not fit.
        """
        names = (*states, *controls)
        if len(names) != power_sum.n_states:
            raise ValueError(f"{len(names)} names for a law of {power_sum.n_states} states")
        own = [values.shape for values in power_sum.constants]
        given = [] if standard_errors is None else [v.shape for v in standard_errors.constants]
        held = [] if snapped is None else [values.shape for values in snapped]
        if given != own[: len(given)] or held != own[: len(held)]:
            raise ValueError("standard errors and snapped constants should have the shapes of the law")
        is_sum, factors = power_sum.features is None, _features(power_sum, _symbols(names))
        monomials = [_product(factors, w, power_sum.mirrored) for w in power_sum.exponents]
        sides = tuple(
            sympy.Add(*(number(float(row[j])) * monomials[j] for j in np.flatnonzero(row)))
            for row in power_sum.coefficients[: len(states)]
        )
        return cls(
            tuple(states),
            sides,
            time_name,
            power_sum=power_sum if is_sum else None,
            standard_errors=standard_errors,
            snapped=snapped if is_sum else None,
            units=dict(units or {}),
            extended=None if is_sum else power_sum,
            controls=tuple(controls),
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
        """The equations written as text, read without evaluating anything.

        Args:
            states: names as the user wrote them.
            texts: right-hand side of every state, over the safe identifiers of the states and
                controls.
            constants: other names in the texts and the numbers they stand for.
            time_name: name of the time.
            units: unit of a state or of the time, by name.
            controls: names of the controls.

        Raises:
            InputError: a state without text, or a text that cannot be read.

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
        sides = tuple(parse(texts[state], names) for state in states)
        power_sum = read_law(sides, symbols)
        if power_sum is not None:
            return cls.from_power_sum(states, power_sum, time_name=time_name, units=units, controls=controls)
        return cls(tuple(states), sides, time_name, units=dict(units or {}), controls=tuple(controls))

    @property
    def complexity(self) -> int:
        """Constants and states of a sum of monomials (see `PowerSum.complexity`); nodes of the
        expression trees otherwise."""
        if self.power_sum is not None:
            return self.power_sum.complexity
        return sum(1 for side in self.right_hand_sides for _ in sympy.preorder_traversal(side))

    def rhs(self, x: ArrayLike) -> Array:
        """dx/dt for x [..., variables] -> [..., states]; nan or inf where it is not defined."""
        with np.errstate(all="ignore"):
            return self._rhs_function()(np.asarray(x, dtype=np.float64))

    def simulate(
        self,
        initial: ArrayLike,
        times: ArrayLike,
        rtol: float = 1e-9,
        atol: float = 1e-12,
        most_evaluations: int | None = None,
        controls: Signal | None = None,
    ) -> Array:
        """The states at some times, [n, states]; nan rows from where the solution fails on.

        Args:
            initial: states at the first time [states].
            times: increasing [n].
            rtol: relative tolerance of the solver (LSODA).
            atol: absolute tolerance, as a share of the initial value of each state.
            most_evaluations: of the right-hand sides, after which the solution counts as failed (default:
                100 000).
            controls: of equations with controls, in the order of these, known from the first of the
                times on; after their last time they keep their last values. Not needed for time alone.

        Raises:
            ValueError: shapes that do not fit, or controls that are missing.

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
        size, rhs = np.abs(start), self._rhs_function()
        largest = np.max(size, initial=0.0) or 1.0

        def solved(least: float) -> Array:
            absolute = atol * np.maximum(size, least * largest)
            solve = partial(solve_until_failure, rtol=rtol, atol=absolute, max_evaluations=most_evaluations)
            if controls is None:
                return solve(lambda t, x: rhs(x), start, at)
            time = [name == self.time_name for name in self.controls]
            return solve_piecewise(solve, rhs, start, at, controls, np.array(time))

        # A state that starts at 0 is measured by a share of the largest one; by a larger share where the solver gets
        # stuck at that, since what it rounds is more.
        found = solved(1e-6)
        if not np.isfinite(found).all() and (size < 1e-6 * largest).any():
            again = solved(1e-2)
            found = again if np.isfinite(again).sum() > np.isfinite(found).sum() else found
        return found

    def texts(self) -> dict[str, str]:
        """Right-hand side of every state, over safe identifiers, with exact numbers."""
        return {state: text(side) for state, side in zip(self.states, self.right_hand_sides, strict=True)}

    def __repr__(self) -> str:
        lines = self.pretty().splitlines()
        return "\n".join(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in lines)

    def pretty(self, digits: int = 4) -> str:
        """Lines for people: x' = 0.0600(12)*x^0.5, with two digits of the standard error in
        parentheses, and round constants bare.

        Args:
            digits: significant digits of a constant whose error is unknown.
        """
        law = self.law if self.standard_errors is not None else self.power_sum
        if law is not None:
            plain = Notation(str, "(-{})", lambda power: f"^({power})" if "/" in power else f"^{power}", "*", str)
            rows = self._rows(law, digits, plain)
        else:
            names = dict(zip((s.name for s in self.symbols), self.variables, strict=True))
            show = partial(render, name=names.__getitem__, power="^", number=partial(constant, digits=digits))
            rows = [show(side, divided=True) for side in self.right_hand_sides]
            # A fitted 0.9999999 is a factor, or an exponent, that rounds to 1.
            rows = [re.sub(r"(?<![\w.^])1\*(?=[^\d])|\^1(?![\d.e])", "", row) for row in rows]
        return "\n".join(f"{s}' = {row}" for s, row in zip(self.states, rows, strict=True))

    def latex(self, digits: int = 4) -> dict[str, str]:
        r"""Every equation in LaTeX, "\frac{dx}{dt} = ...", by state; `digits` as in `pretty`."""
        names, time = [latex_name(name) for name in self.variables], latex_name(self.time_name)
        if self.power_sum is not None:
            latex = Notation(latex_name, r"\left(-{}\right)", lambda power: f"^{{{power}}}", r"\,", latex_number)
            rows = self._rows(self.power_sum, digits, latex)
        else:
            symbols = dict(zip(self.symbols, names, strict=True))
            rows = [sympy.latex(rounded(side, digits), symbol_names=symbols) for side in self.right_hand_sides]
        return {
            state: rf"\frac{{d{name}}}{{d{time}}} = {row}"
            for state, name, row in zip(self.states, names, rows, strict=False)
        }

    def python(self) -> str:
        """Source of a Python function `rates(t, y)` for scipy's `solve_ivp`; with controls
        `rates(t, y, u)`, where the function u gives them at a time: `solve_ivp(..., args=(u,))`."""
        names, own, acting, given, (time, state, controls) = self._local_names("np rates", ("t", "y", "u"))
        time, function = given or time, lambda name: f"np.{name.lower()}"
        sides = [render(side, name=names.__getitem__, function=function) for side in self.right_hand_sides]
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
        """Source of a Julia function `rates!(du, u, p, t)` for DifferentialEquations.jl; the
        function p gives controls at a time."""
        names, own, acting, given, _ = self._local_names(JULIA_WORDS, (), julia_name)
        notation: dict[str, Any] = {"name": names.__getitem__, "function": lambda name: f"Base.{name.lower()}"}
        sides = [render(side, **notation, power="^") for side in self.right_hand_sides]
        numbered = enumerate(zip(sides, self.states, strict=True), start=1)
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
        """Right-hand sides of a law that is known as numbers, with standard errors."""
        show = partial(law_constant, digits=digits, spare=self.spare)
        features = law.features or Features(law.n_states)
        n, simple = features.states, [notation.name(variable) for variable in self.variables]
        simple += [function_name(simple, function) for function in features.functions]

        def product(names: Sequence[str], row: Array, errors: Array) -> list[tuple[bool, str]]:
            """The factors of a product of powers, and whether they stand below, as sums to whole negative powers do."""
            factors = []
            turned = signs(row[None], law.mirrored)[0] < 0.0
            for k in np.flatnonzero(row).tolist():
                name, power, error = names[k], float(row[k]), float(errors[k])
                function = features.functions[k - n] if n <= k < features.simple else None
                if function is not None and power_is_rate(function):
                    # exp(r x) ** w is written exp(w r x).
                    written = show(abs(power * function.rate), error * abs(function.rate))
                    argument = names[function.state] if written == "1" else f"{written}*{names[function.state]}"
                    factors.append((False, f"exp({'-' * (power * function.rate < 0)}{argument})"))
                    continue
                below = bool(k >= features.simple and power < 0 and error == 0)
                # Thirds are fractions in sums of powers alone.
                third = third_of(power) if error == 0.0 and law.features is None else ""
                written = third or show(abs(power) if below else power, error)
                base = notation.minus.format(name) if turned[k] else name
                factors.append((below, base if written == "1" else f"{base}{notation.power(written)}"))
            return factors

        def total(
            values: Array, errors: Array, powers: Array, products: list[list[tuple[bool, str]]], first: str = ""
        ) -> str:
            terms = [(False, first)] if first else []
            for j in sorted(np.flatnonzero(values), key=lambda j: order(float(values[j]), powers[j])):
                number = notation.number(show(abs(float(values[j])), float(errors[j])))
                above = [factor for below, factor in products[j] if not below]
                above = above if number == "1" and above else [number, *above]
                below = [f"/{factor}" for below, factor in products[j] if below]
                terms.append((bool(values[j] < 0), notation.times.join(above) + "".join(below)))
            return join_terms(terms)

        a, w, b, v = law.constants
        known = self.standard_errors
        errors = [np.full_like(c, np.nan) for c in law.constants] if known is None else [*known.constants]
        for k, held in enumerate(self.snapped or ()):
            errors[k] = np.where(held, 0.0, errors[k])
        da, dw, db, dv = errors
        inner = [product(simple, *of) for of in zip(v, dv, strict=True)]
        names = simple + [f"({total(*of, v, inner, '1')})" for of in zip(b, db, strict=True)]
        outer = [product(names, *of) for of in zip(w, dw, strict=True)]
        return [total(*of, w, outer) for of in zip(a, da, strict=True)][: len(self.states)]

    def _local_names(
        self, words: str, arguments: tuple[str, ...], spelled: Callable[[str], str] = str
    ) -> tuple[dict[str, str], str, str, str, list[str]]:
        """Variable names, as the language spells them, and arguments that avoid reserved words and each other.

        Names by symbol; those of the states and of the inputs but for time, as they are unpacked; that of time if it is
        an input, else ""; the arguments.
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

    def _rhs_function(self) -> Callable[[Array], Array]:
        law = self.power_sum or FilledForm(_form(tuple(self.right_hand_sides), tuple(self.symbols)), np.zeros(0))
        field, of_point = vector_field(law), point_field(law, len(self.states))
        # A solver asks for one point at a time.
        return lambda x: np.asarray(of_point(0.0, x)) if x.ndim == 1 else field(0.0, x)[..., : len(self.states)]


def compiled(equations: Equations) -> Callable[[Array], Array]:
    """`equations.rhs` as one function, for callers that need it many times; it may warn of what is not defined."""
    return equations._rhs_function()


@lru_cache(maxsize=100)
def _form(sides: tuple[sympy.Expr, ...], symbols: tuple[sympy.Symbol, ...]) -> CompiledForm:
    """Kept: a fit solves the same equations hundreds of times."""
    return form_of_expressions(sides, symbols)


def _symbols(states: Sequence[str]) -> tuple[sympy.Symbol, ...]:
    return tuple(sympy.Symbol(name) for name in identifiers(states).values())


def _product(factors: Sequence[sympy.Expr], exponents: Array, mirrored: Sequence[int]) -> sympy.Expr:
    """prod_k factor_k ** w_k, of -x for a fractional power of a mirrored state; exp(r x) ** w is exp(w r x)."""
    powers, turned = [], signs(exponents[None], mirrored)[0] < 0.0
    for k in np.flatnonzero(exponents).tolist():
        base, w = -factors[k] if turned[k] else factors[k], float(exponents[k])
        if isinstance(base, sympy.exp):
            rate, symbol = base.args[0].as_coeff_Mul()
            powers.append(sympy.exp(number(float(rate) * w) * symbol))
        else:
            powers.append(sympy.Pow(base, number(w)))
    return sympy.Mul(*powers)


def _features(law: PowerSum, symbols: Sequence[sympy.Symbol]) -> list[sympy.Expr]:
    """States, functions and sums as expressions."""
    features, simple = law.features or Features(len(symbols)), list[sympy.Expr](symbols)
    simple += [getattr(sympy, f.name)(number(f.plain_rate) * symbols[f.state]) for f in features.functions]
    sums = features.sums
    inner = [_product(simple, v, law.mirrored) for v in sums.exponents]
    rows = [sympy.Add(1, *(number(float(b)) * m for b, m in zip(row, inner, strict=True))) for row in sums.weights]
    return simple + rows


# What people write: one text of several lines, a line a state, or right-hand sides by state.
Written: TypeAlias = str | Sequence[str] | Mapping[str, str]

_NUMBER = re.compile(r"(?<![\w.])(?P<value>\d+\.?\d*|\.\d+)(?P<error>\(\d+\))?(?P<power>[eE][+-]?\d+)?(?![\w.])")
_NAME = re.compile(r"[^\W\d]\w*")
_EQUATION = re.compile(r"\s*(?P<state>[^=]+?)\s*['\u2019\u2032]\s*=(?P<side>.*)", re.DOTALL)
# The same as textbooks write it, dx/dt = ...
_DERIVATIVE = re.compile(r"\s*d\s*(?P<state>[^=]+?)\s*/\s*d\s*[^=/]+?\s*=(?P<side>.*)", re.DOTALL)
# Lines that stand below printed equations.
_REMARK = re.compile(r"\s*(note:|at .+? = .+?:|#|\()")


@dataclass(frozen=True)
class Form:
    """Equations with named constants."""

    states: tuple[str, ...]  # names as the user wrote them
    controls: tuple[str, ...]  # names of what acts on the states
    # Right-hand side of every state, in the notation of `expressions.parse`, over the identifiers of states, controls
    # and constants.
    texts: Mapping[str, str]
    names: tuple[str, ...]  # of the constants
    starts: tuple[float | None, ...]  # where their fit begins, None where that was not said
    time_name: str = "t"  # name of the time

    def with_constants(self, values: Sequence[float]) -> Equations:
        """The equations with numbers in the place of the constants."""
        numbers = dict(zip(self.names, map(float, values), strict=True))
        return Equations.parse(
            self.states, self.texts, constants=numbers, time_name=self.time_name, controls=self.controls
        )

    def holding(self, values: Mapping[str, float]) -> Form:
        """The form of the other constants, with numbers in the place of some."""

        def numbered(text: str) -> str:
            return _NAME.sub(lambda m: f"({values[m[0]]!r})" if m[0] in values else m[0], text)

        left = [(name, start) for name, start in zip(self.names, self.starts, strict=True) if name not in values]
        names, starts = tuple(name for name, _ in left), tuple(start for _, start in left)
        texts = {state: numbered(text) for state, text in self.texts.items()}
        return replace(self, texts=texts, names=names, starts=starts)

    def open(self) -> Equations:
        """The equations with the constants as further controls, the last ones."""
        return Equations.parse(
            self.states, self.texts, time_name=self.time_name, controls=(*self.controls, *self.names)
        )

    def states_in(self, state: str) -> set[str]:
        """Identifiers of the states that stand in the equation of one."""
        return set(identifiers(self.states).values()) & set(_NAME.findall(self.texts[state]))

    def lines(self) -> list[str]:
        """The equations as they were written, with ^ for powers."""
        back = {safe: name for name, safe in identifiers((*self.states, *self.controls)).items()}
        shown = {s: _NAME.sub(lambda m: back.get(m[0], m[0]), self.texts[s]) for s in self.states}
        return [f"{state}' = {text.replace('**', '^')}" for state, text in shown.items()]


def read_form(
    written: Written,
    states: Sequence[str],
    *,
    controls: Sequence[str] = (),
    time_name: str = "t",
    start: Mapping[str, float] | None = None,
) -> Form:
    """A form as it was written down, or as this program printed it, without the remarks below; `start` by constant."""
    sides = _sides(written, states)
    safe = identifiers((*states, *controls))
    plain = {state: _with_identifiers(side, safe).replace("^", "**") for state, side in sides.items()}
    names = _names(plain, set(safe.values()), time_name)
    found: dict[str, float | None] = dict.fromkeys(names)
    texts = {state: _lifted(text, found, named=bool(names)) for state, text in plain.items()}
    if not found:
        raise InputError("the law has no constants to fit: name them, as in x' = -k*x, or write numbers such as 1.0")
    if len(found) > 60:
        raise InputError(f"the law has {len(found)} constants; at most 60 can be fitted")
    for name, value in (start or {}).items():
        if name not in found:
            raise unknown_name("constant", name, list(found))
        found[name] = float(value)
    form = Form(tuple(states), tuple(controls), texts, tuple(found), tuple(found.values()), time_name)
    form.open()  # whether it can be read
    return form


def _sides(written: Written, states: Sequence[str]) -> dict[str, str]:
    """The right-hand sides by state, in the order of the states."""
    if isinstance(written, Mapping):
        sides = {str(state): str(side) for state, side in written.items()}
        for state in sides:
            if state not in states:
                raise unknown_name("state", state, states)
    else:
        lines = re.split(r"[\n;]", written) if isinstance(written, str) else [str(line) for line in written]
        sides = {}
        for line in (line for line in lines if line.strip() and not _REMARK.match(line)):
            found = _EQUATION.fullmatch(line) or _DERIVATIVE.fullmatch(line)
            if not found:
                raise InputError(f"cannot read {line.strip()!r}: expected an equation such as {states[0]}' = ...")
            state = found["state"].strip()
            if state not in states:
                raise unknown_name("state", state, states)
            if state in sides:
                raise InputError(f"the equation of {state!r} stands twice; write each once")
            sides[state] = found["side"].strip()
    for state in states:
        if state not in sides:
            # Two equations with a comma between them are read as one.
            between = "; put ; or a new line between equations" if any("=" in side for side in sides.values()) else ""
            raise InputError(
                f"the equation of {state!r} is missing: write {state}' = ..., or 0 if it never changes{between}"
            )
    return {state: sides[state] for state in states}


def _with_identifiers(side: str, safe: Mapping[str, str]) -> str:
    """The text with identifiers for names that are none: "feed rate" as feed_rate."""
    for name in sorted((name for name in safe if safe[name] != name), key=len, reverse=True):
        side = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", safe[name], side)
    return side


def _names(texts: Mapping[str, str], taken: set[str], time_name: str) -> list[str]:
    """Names that are neither states nor functions, in order of appearance."""
    found: dict[str, None] = {}
    for side in texts.values():
        for match in _NAME.finditer(_NUMBER.sub(lambda m: " " * len(m[0]), side)):
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
    """The text with names for the numbers that are to be fitted, which join `found`."""

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
