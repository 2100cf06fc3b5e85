"""Whether what was found may be called a law, and which of its terms are significant.

Whether equations are claimed as a law: judged by the state that they explain least.

Terms that act: a coefficient whose 95 % interval contains 0, or an exponent known to no whole number, does not.

    a +- t f standard error,    t the 97.5 % point of Student's t

with the factor f of residuals that have a memory (`autocorrelation_inflation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri

from odediscovery.data.series import TimeSeries, pooled
from odediscovery.judge.doubt import ResidualTests
from odediscovery.judge.notes import (
    Note,
    idle_terms_left,
    poor_fit,
    stopped,
    turns_back,
    unexplained_states,
    walk_as_good,
)
from odediscovery.laws.records import interval
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import TIME_SPENT, Monitor
from odediscovery.stages.values import Judged, Polished, residual_freedom

# Least share of the variance that a law explains, of all states and of each
EXPLAINED = 0.5
# Least share where the residuals are clearly no noise
EXPLAINED_STRUCTURED = 0.95


@dataclass(frozen=True, eq=False)
class Claim:
    """What equations explain, and what they have to explain to be claimed as a law.

    Args:
        explained: share of the variance of all states together.
        least: that they have to explain.
        each: share of the variance of every state [states]; nan where nothing varies or is measured.
        least_each: that they have to explain of every state [states].
        walk: whether a random walk explains the data as well.
        idle: terms that the data do not tell from nothing, by name.
    """

    explained: float
    least: float = EXPLAINED
    each: Array | None = None
    least_each: Array | None = None
    walk: bool = False
    idle: Sequence[str] = ()

    def outcome(self, monitor: Monitor, states: Sequence[str]) -> tuple[str, list[Note]]:
        """How the fit ended, and why. A law that explains too little is none, also where the time was up."""
        found, notes = "converged", list[Note]()
        reason = monitor.stopping()
        # Time that a fit takes by default is no limit that somebody set.
        if reason and reason != TIME_SPENT:
            found = "stopped"
            notes.append(stopped(reason, monitor.seconds()))
        poor = self._unexplained()
        if not self.explained >= self.least:
            notes.append(poor_fit(self.explained, self.least))
        elif len(poor):
            notes.append(unexplained_states([states[i] for i, _ in poor], [share for _, share in poor]))
        elif self.walk:
            notes.append(walk_as_good())
        elif self.idle:
            notes.append(idle_terms_left(self.idle))
        else:
            return found, notes
        return "poor-fit", notes

    def _unexplained(self) -> list[tuple[int, float]]:
        """Indices of the states of which too little is explained, and how much is."""
        if self.each is None or self.least_each is None:
            return []
        return [(int(i), float(self.each[i])) for i in np.flatnonzero(self.each < self.least_each)]


def shares_explained(series: TimeSeries, squares: Array) -> Array:
    """1 - SSR / sum (x - mean x)^2 of every state [states], in the user's units; nan where nothing varies.

    Args:
        squares: sum of squared residuals of every state [states].
    """
    values = pooled(series)
    seen = np.isfinite(values).any(axis=0)
    mean = np.where(seen, np.nan_to_num(values).sum(axis=0) / np.isfinite(values).sum(axis=0).clip(1), np.nan)
    spread = np.nansum((values - mean) ** 2, axis=0)
    # Rounding of a large number that never changes is no spread.
    moves = seen & (spread > len(values) * (1e-12 * np.nan_to_num(np.abs(mean))) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: Array = np.where(moves, 1.0 - squares / spread, np.nan)
    return shares


def least_shares(p: Problem, series: TimeSeries, tests: ResidualTests) -> Array:
    """What equations have to explain of every state [states].

    Of what is no noise: half; nearly all where the residuals of the state are clearly no noise.
    """
    own = ~p.data.is_control
    values = pooled(p.data)[:, own]
    variance = np.array([float(np.nanvar(column)) if np.isfinite(column).any() else 0.0 for column in values.T])
    noise = np.maximum(p.noise, p.floor)[own] ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        possible = np.where(variance > 0.0, 1.0 - noise / variance, 0.0).clip(0.0)
    structured: Mask = np.zeros(series.n_states, dtype=bool)
    for i in (*(i for i, *_ in tests.few_runs), *(i for i, _ in tests.correlated)):
        structured[i] = True
    least = np.where(structured, EXPLAINED_STRUCTURED, EXPLAINED) * possible
    # A state whose variance has a smaller share that is no noise has nothing that a law could explain [share of the
    # variance]
    return np.where(possible < 0.1, -np.inf, least)


def turning_state(p: Problem) -> list[Note]:
    """That the only state clearly rises and falls within a trajectory, if it does and nothing measured acts on it."""
    if len(p.data.is_control) != 1 or p.data.is_control.any() or not p.measured.all():
        return []
    noise = float(np.maximum(p.noise, p.floor)[0])
    for run in p.data.trajectories:
        x = run.values[np.isfinite(run.values[:, 0]), 0]
        if len(x):
            rise, fall = (x - np.minimum.accumulate(x)).max(), (np.maximum.accumulate(x) - x).max()
            # A state that rises and falls by more than so much turns back [standard deviation of the noise]; white
            # noise of ten thousand samples stays below
            if min(rise, fall) > max(10.0 * noise, 0.1 * float(np.ptp(x))):
                return [turns_back(p.data.states[0])]
    return []


def share_in_pieces(p: Problem, found: Polished) -> tuple[float, Array]:
    """Share of the variance within pieces, of all states and of each: their starts, which are fitted, explain
    the rest."""
    own = ~p.data.is_control
    parts = [(t.values - np.nanmean(t.values, axis=0))[:, own] ** 2 for t in p.data.trajectories]
    within = np.sum([np.nansum(part, axis=0) for part in parts], axis=0)
    squares = found.plain_squares[own]
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(within > 0.0, 1.0 - squares / within, np.nan)
    total = within.sum()
    return (float(1.0 - squares.sum() / total) if total > 0 else 1.0), each


def idle_terms(found: Polished, inflation: float) -> list[tuple[int, int]]:
    """Equation and monomial of fitted terms that the data do not tell from nothing, the weakest first.

    Args:
        inflation: factor by which memory in the residuals widens standard errors.
    """
    law, errors, freedom = found.law, found.errors, residual_freedom(found)
    if law.stoichiometry is not None:
        return []
    # An exponent with a larger standard error says nothing of its term
    open_rows: Mask = np.any((inflation * errors.exponents > 1.0) & found.free[1], axis=1)
    weak = []
    for i, j in weak_terms(found):
        value, error = float(law.coefficients[i, j]), inflation * float(errors.coefficients[i, j])
        ends = interval(value, error, freedom)
        if open_rows[j] or (ends is not None and ends[0] <= 0.0 <= ends[1]):
            weak.append((i, j))
    return weak


def has_idle_terms(row: Judged) -> bool:
    """Whether the data do not tell a term of a law from nothing, nor the constants of its name, if it has one."""
    return not row.origin.acts and bool(idle_terms(row.polished, 1.0))


def idle_constants(found: Polished, inflation: float) -> list[tuple[int, int]]:
    """Sum and monomial of fitted constants inside sums that the data do not tell from nothing, the weakest first.

    Args:
        inflation: factor by which memory in the residuals widens standard errors.
    """
    value, error, freedom = found.law.constants[2], inflation * found.errors.constants[2], residual_freedom(found)
    places = [(int(m), int(k)) for m, k in np.argwhere(found.free[2])]
    ends = {place: interval(float(value[place]), float(error[place]), freedom) for place in places}
    weak = [place for place, e in ends.items() if e is not None and e[0] <= 0.0 <= e[1]]
    return sorted(weak, key=lambda place: float(abs(value[place]) / error[place]))


def is_needed(found: Polished, without: Polished, floor: Array, inflation: float) -> bool:
    """Whether the data are clearly worse explained without a constant, although its own interval may contain 0.

        sum_i n_i ln(S_i' / S_i) > N ln(1 + F / nu),    F of 1 and nu degrees of freedom

    Intervals are those of a law that is linear in its constants; a fit without the constant says more.

    Args:
        found: with it, nu degrees of freedom left.
        without: the fit without it.
        floor: standard deviation that noise, rounding and integration explain [states].
        inflation: factor by which memory in the residuals widens standard errors.
    """
    n, freedom = found.counts, residual_freedom(found)
    seen = n > 0
    ratio = (without.squares[seen] / n[seen] + floor[seen] ** 2) / (found.squares[seen] / n[seen] + floor[seen] ** 2)
    rise = float(n[seen] @ np.log(ratio)) / inflation**2
    # Confidence of a test of two fits from which on what one lacks is needed [probability]
    return bool(rise > n.sum() * np.log1p(fdtri(1, freedom, 0.99) / freedom))


def weak_terms(found: Polished) -> list[tuple[int, int]]:
    """Equation and monomial of all fitted terms, those whose coefficients are least certain first."""
    if found.law.stoichiometry is not None:
        return []
    value, error = np.abs(found.law.coefficients), found.errors.coefficients
    certain = np.divide(value, error, out=np.full(value.shape, np.inf), where=error > 0.0)
    places = [(int(i), int(j)) for i, j in np.argwhere(found.free[0])]
    return sorted(places, key=lambda place: float(certain[place]))
