"""Differential equations as one value: expressions, constants with errors, names and units.

Where every right-hand side is a sum of products of powers, the same law is also kept as numbers
(`PowerSum`), in which a monomial that stands in several equations is one: its exponents are
single constants with single standard errors. So is a fitted law with functions and inner sums.
Anything else is kept as sympy expressions alone. Column names may be anything; inside, states are
symbols with safe names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from odediscovery.data.signals import Signal, solve_piecewise
from odediscovery.errors import InputError
from odediscovery.ivp.lsoda import solve_until_failure
from odediscovery.laws.compiled import CompiledForm, FilledForm, form_of_expressions, point_field, vector_field
from odediscovery.laws.expressions import identifiers, number, parse, text
from odediscovery.laws.mirror import signs
from odediscovery.laws.monomials import read_law
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.printing import latex_rows, pretty_text
from odediscovery.laws.source_code import julia_source, python_source
from odediscovery.runtime.arrays import Array

# A longer equation is cut where equations print themselves; `pretty` has it whole.
MAX_LINE = 160

# A state that starts at 0 is measured by such a share of the largest one; by the second where the solver gets stuck
# at that, since what it rounds is more.
LEAST_STARTS = (1e-6, 1e-2)


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
        spare: digits that constants are printed with beyond the two of their errors (see `judge.printed`).
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
        symbols, is_sum = _symbols(names), power_sum.features is None
        factors = symbols if is_sum else _features(power_sum, symbols)
        mirrored = power_sum.mirrored
        monomials = [_product(_bases(factors, w, mirrored), w) for w in power_sum.exponents]
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
                `LsodaThresholds.max_evaluations`).
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

        found = solved(LEAST_STARTS[0])
        if not np.isfinite(found).all() and (size < LEAST_STARTS[0] * largest).any():
            again = solved(LEAST_STARTS[1])
            found = again if np.isfinite(again).sum() > np.isfinite(found).sum() else found
        return found

    def texts(self) -> dict[str, str]:
        """Right-hand side of every state, over safe identifiers, with exact numbers."""
        sides = zip(self.states, self.right_hand_sides, strict=True)
        return {state: text(side) for state, side in sides}

    def __repr__(self) -> str:
        lines = self.pretty().splitlines()
        return "\n".join(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in lines)

    def pretty(self, digits: int = 4) -> str:
        """Lines for people: x' = 0.0600(12)*x^0.5, with two digits of the standard error in
        parentheses, and round constants bare.

        Args:
            digits: significant digits of a constant whose error is unknown.
        """
        return pretty_text(self, digits)

    def latex(self, digits: int = 4) -> dict[str, str]:
        r"""Every equation in LaTeX, "\frac{dx}{dt} = ...", by state; `digits` as in `pretty`."""
        return latex_rows(self, digits)

    def python(self) -> str:
        """Source of a Python function `rates(t, y)` for scipy's `solve_ivp`; with controls
        `rates(t, y, u)`, where the function u gives them at a time: `solve_ivp(..., args=(u,))`."""
        return python_source(self)

    def julia(self) -> str:
        """Source of a Julia function `rates!(du, u, p, t)` for DifferentialEquations.jl; the
        function p gives controls at a time."""
        return julia_source(self)

    def _rhs_function(self) -> Callable[[Array], Array]:
        law = self.power_sum or FilledForm(_form(tuple(self.right_hand_sides), tuple(self.symbols)), np.zeros(0))
        field, of_point = vector_field(law), point_field(law, len(self.states))
        # A solver asks for one point at a time.
        return lambda x: np.asarray(of_point(0.0, x)) if x.ndim == 1 else field(0.0, x)[..., : len(self.states)]


def compiled(equations: Equations) -> Callable[[Array], Array]:
    """`equations.rhs` as one function, for callers that need it many times; it may warn of what is not defined.

    >>> compiled(Equations.parse(["x"], {"x": "-2*x"}))(np.array([[1.0], [3.0]])).tolist()
    [[-2.0], [-6.0]]
    """
    return equations._rhs_function()


@lru_cache(maxsize=100)
def _form(sides: tuple[sympy.Expr, ...], symbols: tuple[sympy.Symbol, ...]) -> CompiledForm:
    """Kept: a fit solves the same equations hundreds of times."""
    return form_of_expressions(sides, symbols)


def _symbols(states: Sequence[str]) -> tuple[sympy.Symbol, ...]:
    return tuple(sympy.Symbol(name) for name in identifiers(states).values())


def _product(factors: Sequence[sympy.Expr], exponents: Array) -> sympy.Expr:
    """prod_k factor_k ** w_k; exp(r x) ** w is exp(w r x)."""
    powers = []
    for factor, w in zip(factors, exponents.tolist(), strict=True):
        if w and isinstance(factor, sympy.exp):
            rate, symbol = factor.args[0].as_coeff_Mul()
            powers.append(sympy.exp(number(float(rate) * w) * symbol))
        elif w:
            powers.append(sympy.Pow(factor, number(w)))
    return sympy.Mul(*powers)


def _bases(factors: Sequence[sympy.Expr], w: Array, mirrored: Sequence[int]) -> list[sympy.Expr]:
    """What is raised to the powers w: -x where that is a fractional one of a mirrored state."""
    turned = signs(w[None], mirrored)[0] < 0.0
    return [-f if minus else f for f, minus in zip(factors, turned, strict=True)]


def _features(law: PowerSum, symbols: Sequence[sympy.Symbol]) -> list[sympy.Expr]:
    """States, functions and sums as expressions."""
    simple: list[sympy.Expr] = list(symbols)
    features = law.features
    assert features is not None  # that is what makes a law an extended one
    for f in features.functions:
        simple.append(getattr(sympy, f.name)(number(f.plain_rate) * symbols[f.state]))
    sums = features.sums
    inner = [_product(_bases(simple, v, law.mirrored), v) for v in sums.exponents]
    rows = [sympy.Add(1, *(number(float(b)) * m for b, m in zip(row, inner, strict=True))) for row in sums.weights]
    return simple + rows
