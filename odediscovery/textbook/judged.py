"""Fitted forms beside laws that were found: their criterion, their names, and their rows of the front."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import sympy
from scipy.optimize import least_squares

from odediscovery.data.series import TimeSeries, pooled
from odediscovery.errors import InputError
from odediscovery.judge.claim import shares_explained
from odediscovery.judge.criterion import NO_EVIDENCE, correction, judge_on, misfit
from odediscovery.judge.doubt import UNDERESTIMATED, examine_residuals
from odediscovery.laws.equations import Equations, Form, read_law
from odediscovery.laws.power_sum import Free, PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.result.front import FrontRow
from odediscovery.result.named import NamedConstants
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Judged, Origin
from odediscovery.textbook.fit import FittedForm, Fitter, Path, Start, path_of, rates_of, start_of
from odediscovery.textbook.registry import TEXTBOOK, TextbookLaw, orders

# A law that leaves more of the integral form is not looked at [variance of the states]
NAMING_NEAR = 0.3
# Largest difference between the rates of two laws [rms of the rates]
NAMING_LOST = 1e3


def criterion_of(p: Problem, fitted: FittedForm, *, constants: int | None = None) -> float:
    """The criterion of a fitted form on the data of a problem, as `judge.criterion.judge` gives it to laws.

    Args:
        constants: that are paid for (default: all).
    """
    squares, counts = weighted_squares(p, fitted)
    price = price_of_name(
        len(fitted.constants) if constants is None else constants, float(counts.sum()), fitted.starts.size
    )
    return misfit(squares, counts, np.maximum(p.noise, p.floor), p.independent) + price


def weighted_squares(p: Problem, fitted: FittedForm) -> tuple[Array, Array]:
    """Sum of the weighted squares that a form leaves, dimensionless, and number of values, both [states]."""
    n = len(p.noise)
    return fitted.found.squares[:n], fitted.found.counts[:n]


def price_of_name(constants: int, samples: float, starts: int) -> float:
    """What a law with a name costs.

    What stands in it was not chosen term by term: it is the name that was chosen. The choice costs as much whatever
    number of constants a law has.
    """
    # Choosing one of the textbook laws [criterion]
    return constants * price_of_number(samples, constants + starts) + (2.0 * math.log(15.0))


def price_of_number(samples: float, fitted: int) -> float:
    """What each of some fitted numbers costs where none was chosen: ln N, corrected for small samples."""
    return float(np.log(max(samples, 2.0))) * correction(samples, fitted)


def is_left_to_noise(p: Problem, fitted: FittedForm) -> bool:
    """Whether what a form leaves of every state is no more than its noise explains."""
    squares, counts = weighted_squares(p, fitted)
    seen, sigma = counts > 0, np.maximum(p.noise, p.floor)
    return bool((squares[seen] <= UNDERESTIMATED * counts[seen] * sigma[seen] ** 2).all())


def as_law(fitted: FittedForm) -> PowerSum | None:
    """The form as a law in the user's units, its constants no longer tied; None where it is none."""
    law = _numbers(fitted.form, fitted.constants)
    return law if law is not None and law.n_monomials else None


def as_numbers(fitted: FittedForm) -> tuple[PowerSum, Free] | None:
    """The form as a sum of powers and what of it is fitted; None where it is none, or ties its constants."""
    law, moved = as_law(fitted), _numbers(fitted.form, _moved(fitted.constants))
    if law is None or moved is None or law.mirrored:
        return None
    if any(one.shape != other.shape for one, other in zip(law.constants, moved.constants, strict=True)):
        return None
    a, w, b, v = law.constants
    order = [int(np.abs(moved.exponents - row).sum(axis=1).argmin()) for row in w]
    others = (moved.coefficients[:, order], moved.exponents[order], moved.constants[2], moved.constants[3])
    free = (_follows(a, others[0]), _follows(w, others[1]), _follows(b, others[2]), _follows(v, others[3]))
    return (law, free) if sum(int(mask.sum()) for mask in free) == len(fitted.constants) else None


def _follows(numbers: Array, moved: Array) -> Mask:
    """Which numbers of a law are not those of the same law with other constants."""
    # What differs by less follows none [relative]; rounding
    found: Mask = (numbers != 0) & ~np.isclose(moved, numbers, rtol=1e-9, atol=0.0)
    return found


def _moved(constants: Array) -> Array:
    """Constants that differ a little, each by another share."""
    # Ends of the factors by which constants differ to show what follows them
    return constants * np.linspace(*(1.01, 1.02), len(constants))


def _numbers(form: Form, constants: Array) -> PowerSum | None:
    try:
        equations = form.with_constants(constants.tolist())
    except InputError:  # a constant beyond all numbers
        return None
    if equations.power_sum is not None:
        return equations.power_sum
    return read_law(equations.right_hand_sides, equations.symbols, features=True)


def as_judged(p: Problem, fitted: FittedForm) -> Judged | None:
    """The form as a law beside others, its constants refined; None where it cannot be one."""
    numbers = as_numbers(fitted)
    if numbers is None or (p.given is not None and not p.given.allows(numbers[0])):
        return None
    law, free = numbers[0].rescaled(p.scale.state, p.scale.time), numbers[1]
    if not all(np.isfinite(part).all() for part in law.constants):
        return None
    sigma = np.maximum(p.noise, p.floor)
    found = polish(
        law,
        p.data,
        fitted.found.initial,
        sigma,
        floor=p.floor,
        nonnegative=p.nonnegative,
        free=free,
        relative_sigma=p.relative_sigma,
    )
    return judge_on(p, found, Origin(0, "textbook")) if found.finite else None


def named_constants(fitter: Fitter, fitted: FittedForm) -> NamedConstants:
    """The constants of a fitted form with their standard errors."""
    joint = fitted.found.joint.widened(inflation_of(fitter, fitted))
    values, errors = fitted.constants.tolist(), joint.deviations()[: len(fitted.constants)].tolist()
    return NamedConstants(tuple(fitted.form.lines()), fitted.form.names, tuple(values), tuple(errors))


def inflation_of(fitter: Fitter, fitted: FittedForm) -> float:
    """By how much the correlation of its residuals widens the standard errors of a form."""
    return examine_residuals(fitter.residuals(fitted.found)).inflation


def covariance_of(fitter: Fitter, fitted: FittedForm) -> Array:
    """The covariance of the constants of a fitted form [constants, constants]."""
    k = len(fitted.constants)
    return fitted.found.joint.widened(inflation_of(fitter, fitted)).matrix[:k, :k]


def has_terms_of(one: Equations, other: Equations) -> bool:
    """Whether two sums of powers have the same terms."""
    a, b = one.power_sum, other.power_sum
    if a is None or b is None or a.coefficients.shape != b.coefficients.shape:
        return False
    order = [int(np.abs(b.exponents - row).sum(axis=1).argmin()) for row in a.exponents]
    # Exponents no further apart are those of one term; the fit's accuracy
    if len(set(order)) < len(order) or not np.allclose(b.exponents[order], a.exponents, atol=1e-6):
        return False
    return bool(((a.coefficients != 0) == (b.coefficients[:, order] != 0)).all())


def recognise(
    p: Problem, equations: Equations, initial: Array, laws: Sequence[TextbookLaw] = TEXTBOOK
) -> FittedForm | None:
    """The textbook law that equations are; None where they are none.

    Args:
        p: the data that they were found in.
        equations: in the user's units.
        initial: fitted starts, dimensionless [trajectories, states].
        laws: that are looked through, the shorter ones first.
    """
    path = path_of(p)
    x = np.concatenate(path.values)
    rates = equations.rhs(x)
    with np.errstate(over="ignore"):  # squares of the largest numbers are none
        size = np.sqrt(np.mean(rates**2, axis=0))
    size = np.where(size > 0, size, 1.0)
    for law, form, start in sorted(_near(path, equations, laws), key=lambda found: len(found[2].constants)):
        function, units = rates_of(form), (1.0,) * (x.shape[1] + 1)

        def missed(c: Array, function=function, units=units) -> Array:  # type: ignore[no-untyped-def]
            off: Array = np.nan_to_num((function.rates(x.T, (*c, *units)).T - rates) / size, nan=NAMING_LOST)
            return off.clip(-NAMING_LOST, NAMING_LOST).ravel()

        try:
            with np.errstate(all="ignore"):
                solved = least_squares(missed, start.constants, x_scale="jac", max_nfev=30)
        except ValueError:
            # Constants of 1e-300 have slopes that are no numbers.
            continue
        # A law with rates that differ by less is the same one [rms of the rates]
        if np.sqrt(np.mean(solved.fun**2)) < 1e-5 and (says := law.called(form.names, solved.x)):
            return Fitter.of(p).taken(form, solved.x, initial, says)
    return None


def _has_the_same_states(form: Form, equations: Equations) -> bool:
    """Whether each equation of a form is written with the states that stand in the given one."""
    sides = dict(zip(equations.states, equations.right_hand_sides, strict=True))
    return all({s.name for s in sides[state].free_symbols} == form.states_in(state) for state in form.states)


def _near(path: Path, equations: Equations, laws: Sequence[TextbookLaw]) -> Iterator[tuple[TextbookLaw, Form, Start]]:
    """Textbook laws that meet the integral form, with the constants with which they do."""
    for law in (law for law in laws if path.goes(law.way)):
        for order in orders(law, equations.states):
            form, sought = law.form(equations.states, order, equations.time_name)
            if law.n_states == len(equations.states) and _has_the_same_states(form, equations):
                for start in start_of(form, sought, path, most=1, worst=NAMING_NEAR):
                    if start.misfit < NAMING_NEAR:
                        yield law, form, start


def row_of(p: Problem, fitted: FittedForm, series: TimeSeries) -> FrontRow:
    """A textbook law as a row of the front."""
    equations = dataclasses.replace(fitted.equations, standard_errors=None, snapped=None)
    values, squares = pooled(series), fitted.squares
    spread = float(np.nansum((values - np.nanmean(values, axis=0)) ** 2))
    r2 = 1.0 - float(squares.sum()) / spread if spread > 0 else 1.0
    return FrontRow(
        equations,
        complexity_of(fitted),
        float(squares.sum() / fitted.counts.sum()),
        r2,
        criterion_of(p, fitted),
        False,
        fitted.starts,
        fitted.says,
        state_r2=shares_explained(series, squares),
    )


def complexity_of(fitted: FittedForm) -> int:
    """Constants, factors that are states, functions, and states used; at least that of a sum of monomials."""
    opened = fitted.form.open()
    states = set(opened.symbols[: len(opened.states)])
    sides = opened.right_hand_sides
    factors = sum(int(side.count(symbol)) for side in sides for symbol in states)
    functions = sum(len(side.atoms(sympy.Function)) for side in sides)
    counted = len(fitted.constants) + len(states) + factors + functions
    equations = fitted.equations
    return counted if equations.power_sum is None else max(counted, equations.complexity)


def _place(row: FrontRow) -> tuple[int, float]:
    """Simple rows first; of one complexity a law with a name where another one is not far nearer to the data."""
    # A law with a name stands for one of its complexity that is nearer by no more [ratio of mean squares]
    return row.complexity, row.mse / (2.0 if row.name else 1.0)


def merged(front: Sequence[FrontRow], rows: Sequence[FrontRow]) -> tuple[FrontRow, ...]:
    """A front with more rows, one a complexity: those better than every simpler one, with or without a name.

    Textbook laws stand on it where they beat simpler textbook laws; a row that is one of them takes its name.
    """
    named: list[FrontRow] = []
    front, least = list(front), np.inf
    for row in _known_first(rows):
        same = next((i for i, one in enumerate(front) if has_terms_of(one.equations, row.equations)), None)
        if same is not None:
            front[same] = dataclasses.replace(front[same], name=front[same].name or row.name)
            least = min(least, front[same].mse)
        elif row.mse < least and row.complexity not in {one.complexity for one in named}:
            named.append(row)
            least = row.mse
    kept: dict[int, FrontRow] = {row.complexity: row for row in front if row.selected}
    for row in sorted([*named, *front], key=_place):
        # What is not shown itself hides nothing.
        simpler = [one for one in kept.values() if one.complexity < row.complexity]
        # A row is nearer to the data than a simpler one below this, or two fits of one law would be two rows [mean
        # square]
        if row.complexity not in kept and (row.name or all(row.mse < 0.999 * one.mse for one in simpler)):
            kept[row.complexity] = row
    return tuple(kept[size] for size in sorted(kept))


def _known_first(rows: Sequence[FrontRow]) -> list[FrontRow]:
    """Simple rows first; of one complexity the law that a textbook names first, of those about as good."""
    order = {name: place for place, law in enumerate(TEXTBOOK) for name in (law.says, law.backwards)}
    least: dict[int, float] = {}
    for row in rows:
        least[row.complexity] = min(row.criterion, least.get(row.complexity, np.inf))

    def place(row: FrontRow) -> tuple[int, bool, int, float]:
        worse = row.criterion > least[row.complexity] + NO_EVIDENCE
        return row.complexity, worse, order.get(row.name, len(order)), row.mse

    return sorted(rows, key=place)
