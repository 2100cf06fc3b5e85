"""The criterion that ranks laws, the ties between their coefficients, and the verdict.

    criterion = sum over states of m ln(SSR / n + floor^2) + cost * N / (N - K - 2) + 2 sum ln(0.01 / share)

on trajectories integrated from fitted start values, never on derivatives. The floor is the largest of estimated
noise, rounding and integration error: a much closer fit is hardly rewarded, neither in the last digits of clean data
nor in the noise of measured data. `cost` is that of `laws/power_sum.py`; the factor, with K fitted numbers (start
values included), corrects for small samples. m is the number n of samples, but smaller where the residuals of the
closest law are autocorrelated and not below the noise, as with solver errors in the data or a model that is nearly
right. The last sum is over terms, constants inside sums, and distances of exponents from simple ones, that are
negligible in their equation: a number this small is improbable and is charged for it. Such a term is charged a
further 100; so is such an exponent where residuals are not noise, since solver errors mimic weak damping and small
shifts of an exponent. Source: McQuarrie and Tsai, Regression and Time Series Model Selection (1998), BICc.

A flow that leaves one state and enters another has one rate, not two.

    a_ij s_i = -a_kj s_k    for a monomial j in the equations of states i and k with scales s

Coefficients whose difference from such a tie is not significant count as one value in the criterion. To second order,
a refit with such ties would reduce twice the log-likelihood by

    d^T (C V C^T)^-1 d,    d = C theta [ties],

where the rows of C are the ties, theta the fitted constants and V their covariance; this is charged to the law. Ties
are added one by one, the likeliest first, and the number that saves most is kept.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import pooled
from odediscovery.judge.notes import Note, weaker_between
from odediscovery.laws.power_sum import SIMPLE, Free, PowerSum, cost, count, picked, powers, value_penalty
from odediscovery.laws.records import Candidate, FittedForm, Judged, Origin, Polished
from odediscovery.problem.problem import Independent, Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.stages.prune import wald_statistic


@dataclass(frozen=True)
class Ties:
    """Number of coefficients of a law that others determine, and the loss in likelihood."""

    number: int = 0
    loss: float = 0.0  # in units of twice the log-likelihood


NO_TIES = Ties()


def find_ties(found: Polished, scale: Array) -> Ties:
    """The ties of a law whose states were divided by `scale`; none without a covariance or with a stoichiometry."""
    law, v, best = found.law, found.covariance, NO_TIES
    if law.stoichiometry is not None or not np.isfinite(v).all():
        return best
    theta, worth = picked(law, found.free), value_penalty(found.counts.sum())
    flows = _likeliest_first(_flows(law, found.free[0], scale, len(theta)), theta, v, worth)
    for number in range(1, len(flows) + 1):
        loss = wald_statistic(flows[:number], theta, v)
        if number * worth - loss > best.number * worth - best.loss:
            best = Ties(number, loss)
    return best


def count_constants(found: Polished, scale: Array) -> int:
    """Number of fitted values of a law, with tied ones counted once; the states were divided by `scale` [states]."""
    return count(found.free) - find_ties(found, scale).number


def _flows(law: PowerSum, fitted: Mask, scale: Array, width: int) -> Array:
    """One row for each pair of coefficients that may be one flow, [pairs, constants]: their sum in user scales."""
    place = np.full(law.coefficients.shape, -1)
    place[fitted] = np.arange(fitted.sum())
    rates, rows = law.coefficients * scale[:, None], list[Array]()
    for j in range(law.n_monomials):
        for i, k in itertools.combinations(np.flatnonzero(fitted[:, j]), 2):
            if rates[i, j] * rates[k, j] < 0.0:
                rows.append(np.zeros(width))
                rows[-1][place[i, j]], rows[-1][place[k, j]] = scale[i], scale[k]
    return np.array(rows).reshape(len(rows), width)


def _likeliest_first(flows: Array, theta: Array, v: Array, worth: float) -> Array:
    """Flows whose tie alone loses less than a value costs, without those that follow from likelier ones."""
    lost, rate, kept = [wald_statistic(row[None], theta, v) for row in flows], np.arange(len(theta)), list[int]()
    for t in np.argsort(lost, kind="stable"):
        one, other = rate[flows[t] != 0.0]
        if lost[t] < worth and one != other:
            rate[rate == other] = one
            kept.append(int(t))
    return np.asarray(flows[kept])


# Candidates of one complexity whose scores on windows differ by less are all judged [criterion]; chosen: a likelihood
# ratio of 20, where evidence begins to be strong
CLOSE = 6.0
# Complexities on either side of the best one that are judged
AROUND = 4
# Difference of the criterion up to which another law is about as good [criterion]
NO_EVIDENCE = 4.0
# Terms below this are charged for being so small, as are exponents this near to a simple one [largest term of the
# equation]
NOTHING = 1e-2
# Extra charge for such a term, and for such an exponent where residuals are not noise [criterion]; a likelihood ratio
# of e^50 is beyond doubt, while solvers damp and shift like a small term
NO_NOISE = 100.0
# Residuals of the closest law are systematic above this [variance of the noise]
SYSTEMATIC = 4.0
# Laws with residuals below this show the autocorrelation of unexplained error [standard deviation of a state]; the
# relative error of a solver at its default tolerance
SOLVER = 1e-3


def correction(samples: float, fitted: int) -> float:
    """N / (N - K - 2): the factor of the penalty for N samples and K fitted numbers, start values included."""
    return samples / max(samples - fitted - 2.0, 1.0)


def penalty(law: PowerSum, free: Free, samples: float, starts: int, ties: int = 0) -> float:
    """The second part of the criterion: cost * N / (N - K - 2).

    `ties` counts coefficients that equal others; their places are charged as usual.
    """
    charged = cost(law, free, samples) - ties * value_penalty(samples)
    return charged * correction(samples, count(free) - ties + starts)


def judge(
    polished: Polished,
    floor: Array,
    origin: Origin,
    *,
    independent: Independent | None = None,
    more: float = 0.0,
    ties: Ties = NO_TIES,
) -> Judged:
    """The polished law with its criterion, see `misfit`; `more` is an additional charge."""
    squares, counts = polished.squares, polished.counts
    if not polished.finite or not np.isfinite(squares).all():
        return Judged(polished, float("inf"), origin)
    charged = penalty(polished.law, polished.free, counts.sum(), polished.initial.size, ties.number) + ties.loss + more
    return Judged(polished, misfit(squares, counts, floor, independent) + charged, origin)


def misfit(squares: Array, counts: Array, floor: Array, independent: Independent | None = None) -> float:
    """sum of m ln(SSR / n + floor^2) + (n - m) ln(SSR / n + solver^2) over states with samples; arrays are [states].

    SSR are the `squares`, n the `counts` of values, m / n the share that counts as `independent` (default: all), and
    the floor is the standard deviation explained by noise, rounding and integration. Dependent samples say nothing
    below the error of the `solver` that may have made them, and nothing at all in noise.
    """
    seen = counts > 0
    n, mean = counts[seen], squares[seen] / counts[seen]
    every = n * np.log(mean + floor[seen] ** 2)
    if independent is None:
        return float(every.sum())
    share = independent.share[seen]
    found = float(np.sum(share * every))
    if independent.solver is not None:
        found += float(np.sum((1.0 - share) * n * np.log(mean + independent.solver[seen] ** 2)))
    return found


def judge_on(p: Problem, polished: Polished, origin: Origin) -> Judged:
    """The polished law with its criterion on the data of a problem; see `judge`."""
    more, ties = price_of_nothing(p, polished), find_ties(polished, p.scale.state)
    return judge(polished, p.sigma, origin, independent=p.independent, more=more, ties=ties)


def price_of_nothing(p: Problem, polished: Polished) -> float:
    """The charge for negligible terms and for exponents that are nearly simple, on the data of a problem."""
    of_terms, _, of_sums = shares_of(polished.law, polished.free, pooled(p.smooth))
    beyond_doubt = sum(_price(shares, NO_NOISE) for shares in (of_terms, of_sums))
    return beyond_doubt + price_of_powers(p, polished)


def price_of_powers(p: Problem, polished: Polished) -> float:
    """The part of `price_of_nothing` that is charged for nearly simple exponents."""
    of_powers = shares_of(polished.law, polished.free, pooled(p.smooth))[1]
    return _price(of_powers, 0.0 if p.independent is None else NO_NOISE)


def _price(shares: Array, doubted: float) -> float:
    tiny = np.maximum(shares[shares < NOTHING], ABOVE_ZERO)
    return float(np.sum(2.0 * np.log(NOTHING / tiny) + doubted))


def shares_of(law: PowerSum, free: Free, x: Array) -> tuple[Array, Array, Array]:
    """The effect of fitted constants, inf for those that are not fitted or have no effect to measure.

    The share of a term is its root mean square relative to the largest term of its equation, or to 1 in a sum
    1 + ...; that of an exponent is the effect of its distance from the nearest simple one,
    |p - p0| sd(ln x), at states x [samples, states]. Shares are of coefficients [states, monomials], exponents of
    states [monomials, states] and constants inside sums.
    """
    x = x[np.isfinite(x).all(axis=1)]
    a, w, b, _ = law.constants
    w = w[:, : x.shape[1]]
    if not len(x) or not law.n_monomials:
        return np.full(a.shape, np.inf), np.full(w.shape, np.inf), np.full(b.shape, np.inf)
    with np.errstate(all="ignore"):
        share = sizes_beside_the_largest(law, x)
        inner = np.abs(b) * _sizes_in_sums(law, x)
        spread = np.std(np.log(np.maximum(np.abs(x), ABOVE_ZERO)), axis=0)
    distance = np.abs(w[..., None] - np.array([0.0, *SIMPLE])).min(axis=-1) * spread
    fitted = free[0] & (a != 0), free[1][:, : x.shape[1]] & (distance > 0), free[2]
    of_terms, of_powers, of_sums = (
        np.where(mask & np.isfinite(part), part, np.inf)
        for mask, part in zip(fitted, (share, distance, inner), strict=True)
    )
    return of_terms, of_powers, of_sums


def sizes_beside_the_largest(law: PowerSum, x: Array) -> Array:
    """Root mean square of every term relative to the largest of its equation at each sample [states, monomials].

    A negative power is huge only at samples where a state x [samples, states] is near 0; where all terms are small,
    the reference is the median of the largest.
    """
    if not law.n_monomials:
        return np.zeros(law.coefficients.shape)
    with np.errstate(all="ignore"):
        terms = np.abs(law.monomials(x)[:, None, :] * law.coefficients)
        largest = terms.max(axis=2, keepdims=True)
        share = np.nan_to_num(terms / np.maximum(largest, np.median(largest, axis=0)), nan=0.0)
    return np.asarray(np.sqrt(np.mean(share**2, axis=0)))


def _sizes_in_sums(law: PowerSum, x: Array) -> Array:
    """Root mean square of the monomials inside sums [monomials]."""
    sums = law.inputs.sums
    if not len(sums):
        return np.zeros(sums.weights.shape[-1])
    of_sums = powers(law.inputs.base(x), sums.exponents, law.mirrored)
    return np.asarray(np.sqrt(np.mean(of_sums**2, axis=0)))


def score(c: Candidate, samples: int, floor: float = ABOVE_ZERO) -> float:
    """Misfit on the windows of pruning, or over intervals, and penalty of a candidate, lower is better.

    `floor` is the mean square that integration error alone explains.
    """
    charged = penalty(c.law, c.free, samples, c.initial.size)
    return float(samples * np.log(max(c.mean_square + floor, ABOVE_ZERO)) + charged)


def rank(candidates: Sequence[Candidate], samples: int) -> list[Candidate]:
    """The candidates sorted by `score`, best first."""
    return sorted(candidates, key=lambda c: score(c, samples))


def shortlist(
    candidates: Sequence[Candidate], samples: int, floor: float, *, around: int | None = None
) -> list[Candidate]:
    """The best candidates of each complexity near the best of all, simplest first.

    Several laws of one complexity are listed where windows hardly distinguish them. Laws with whole powers and laws
    with real ones are listed separately: the same complexity costs them differently. `around` is the number of
    complexities kept on either side of the best, for each kind (default: `AROUND`).
    """
    around = AROUND if around is None else around
    listed: list[Candidate] = []
    for whole in (False, True):
        of_size: dict[int, list[Candidate]] = {}
        for c in sorted(candidates, key=lambda c: c.mean_square):
            if bool(c.whole.all()) is whole:
                of_size.setdefault(c.law.complexity, []).append(c)
        # Only laws that fit better than all simpler ones belong to the front.
        front: list[Candidate] = []
        for size in sorted(of_size):
            if not front or of_size[size][0].mean_square < front[-1].mean_square:
                front.append(of_size[size][0])
        scores = [score(c, samples, floor) for c in front]
        middle = int(np.argmin(scores)) if front else 0
        # Above noise, residuals may be solver errors in the data, which ever closer laws follow.
        first = 0 if front and front[middle].mean_square > SYSTEMATIC else max(middle - around, 0)
        for c in front[first : middle + around + 1]:
            listed += _as_good(of_size[c.law.complexity], samples, floor)
    return sorted(listed, key=lambda c: c.law.complexity)


def _as_good(candidates: Sequence[Candidate], samples: int, floor: float) -> list[Candidate]:
    """The first candidate, and others of its complexity with other monomials and a similar score."""
    kept = [candidates[0]]
    most = score(candidates[0], samples, floor) + CLOSE
    for c in candidates[1:]:
        # At most this many of one complexity
        if score(c, samples, floor) > most or len(kept) == 3:
            break
        if all(c.form != k.form for k in kept):
            kept.append(c)
    return kept


def choose(rows: Sequence[Judged]) -> int:
    """Index of the row with the smallest criterion."""
    return int(np.argmin([row.criterion for row in rows]))


def non_dominated(rows: Sequence[Judged], chosen: int, scale: Array) -> list[int]:
    """Rows that fit better than every simpler one, simplest first, and the chosen row, alone of its complexity.

    Better means a smaller mean squared error in the user's units, of states that were divided by `scale` [states].
    """

    def mean_square(i: int) -> float:
        return float((rows[i].polished.plain_squares * scale**2).sum())

    taken = rows[chosen].polished.law.complexity
    # Rows that are not shown dominate none.
    shown = [i for i, row in enumerate(rows) if i == chosen or row.polished.law.complexity != taken]
    order = sorted(shown, key=lambda i: (rows[i].polished.law.complexity, mean_square(i)))
    kept: list[int] = []
    least = np.inf
    for i in order:
        if mean_square(i) < least or i == chosen:
            kept.append(i)
            least = min(least, mean_square(i))
    return kept


@dataclass(frozen=True, eq=False)
class Verdict:
    """Judged laws, and the one that is claimed."""

    p: Problem  # the data that they were judged on: whole trajectories, or pieces of them
    rows: tuple[Judged, ...]  # the rows of the Pareto front and their rivals
    chosen: int  # index of the law that is claimed, or of the best sum of powers if a form is
    reasons: tuple[Note, ...] = ()  # why closer laws were not chosen, for the reader
    named: tuple[FittedForm, ...] = ()  # laws with named constants; those that are sums of powers are also rows
    form: FittedForm | None = None  # the one of `named` that is claimed, if it is no sum of powers

    @classmethod
    def of(cls, p: Problem, rows: Sequence[Judged]) -> Verdict:
        """The verdict for the law with the smallest criterion."""
        return cls(p, tuple(rows), choose(rows))

    @property
    def best(self) -> Judged:
        """The chosen sum of powers, which is claimed unless `form` is."""
        return self.rows[self.chosen]

    def with_rows(self, rows: Sequence[Judged], p: Problem | None = None) -> Verdict:
        """The verdict on other rows, perhaps on other data, for the one with the smallest criterion."""
        return dataclasses.replace(self, p=p or self.p, rows=tuple(rows), chosen=choose(rows))

    def passed_over(self, chosen: int) -> Verdict:
        """The verdict for another law, with a note on the complexity of the previous one."""
        note = weaker_between(self.best.polished.law.complexity)
        return dataclasses.replace(self, chosen=chosen, reasons=(*self.reasons, note))

    def with_best(self, row: Judged) -> Verdict:
        """The verdict with another row for the law that is claimed."""
        rows = (*self.rows[: self.chosen], row, *self.rows[self.chosen + 1 :])
        return dataclasses.replace(self, rows=rows)
