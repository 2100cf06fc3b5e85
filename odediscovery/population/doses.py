r"""Doses of groups at known times: what is given to each, and how that stands in the law.

    dx_i/dt = ... + f_i D_i(t),    D_i(t) = \sum_k d_k \delta(t - t_k)

Amounts d and times t_k are of each group's own. They are in the units of a state that was measured, f = 1. A state
that nobody measured is in units of the one that it flows into: f is fitted, with a mean and a spread over groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from odediscovery.data.recorded.statements import dose_column, dose_factor
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.errors import InputError
from odediscovery.laws.power_sum import PowerSum
from odediscovery.population.model.measured import SCALED
from odediscovery.population.model.members import Members
from odediscovery.population.model.mixed import MixedFit
from odediscovery.problem.prepare import dose_statements
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings


def doses_of_groups(series: TimeSeries, settings: Settings) -> tuple[list[tuple[Array, Array]], list[Array]]:
    """Times [samples] and values [samples, states] of all groups, and amounts right after these samples.

    Args:
        series: with doses as rates for a moment, see `with_moments`; samples without values that end one are
            left out.
        settings: which columns are doses of which states.

    Raises:
        InputError: no such state or column, or a column without any amount.
    """
    dose_statements(series, settings)
    pairs = [(series.states.index(state), series.controls.index(name)) for state, name in _pairs(settings)]
    runs, doses = [], []
    for run in series.trajectories:
        kept, amounts = _amounts(run, pairs)
        runs.append((run.time[kept] - run.time[0], run.values[kept]))
        doses.append(amounts[kept])
    for state, name in _pairs(settings):
        if not any(given[:, series.states.index(state)].any() for given in doses):
            raise InputError(f"--doses {state} = {name}: no group has an amount before its last sample; leave it out")
    return runs, doses if pairs else []


def dosed_places(series: TimeSeries, settings: Settings) -> tuple[tuple[int, str], ...]:
    """Places of the states that are given doses, with the columns of these."""
    return tuple((series.states.index(state), name) for state, name in _pairs(settings))


def with_factors(series: TimeSeries, settings: Settings) -> dict[int, str]:
    """Names of the factors that the user gave to doses, by the place of their state."""
    named = {state: name for text in settings.doses if (name := dose_factor(text)) for state, _ in [dose_column(text)]}
    return {series.states.index(state): name for state, name in named.items()}


def first_factor(data: Members, i: int) -> float:
    """How much a measured state rises for each amount that is given to it, roughly: the median over all doses."""
    assert data.doses is not None  # callers have a dose of this state
    ratios = []
    for g in range(data.n_groups):
        seen = np.flatnonzero(np.isfinite(data.values[:, i, g]))
        given, y = data.given()[seen, i, g], data.values[seen, i, g]
        amounts = np.diff(np.append(0.0, given))
        rises = np.diff(np.append(0.0, y))
        ratios += (rises[amounts > 0] / amounts[amounts > 0]).tolist()
    above = [ratio for ratio in ratios if ratio > 0]
    return float(np.median(above)) if above else 1.0


def _pairs(settings: Settings) -> list[tuple[str, str]]:
    return [dose_column(text) for text in settings.doses]


def _amounts(run: Trajectory, pairs: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    """Samples that are kept, and amounts right after every sample [samples, states]."""
    found, kept = np.zeros(run.values.shape), np.ones(len(run.time), dtype=bool)
    if run.controls is None or not pairs:
        return kept, found
    for state, column in pairs:
        found[:-1, state] += run.controls.values[:-1, column] * np.diff(run.time)
    # Right after a dose stands a sample without values, where its moment ends.
    given = np.flatnonzero(found.any(axis=1))
    kept[given + 1] = np.isfinite(run.values[given + 1]).any(axis=1)
    return kept, found


def dose_rows(fit: MixedFit) -> list[tuple[int, str, int | None]]:
    """State and column of every dose in the law, and the unknown that is the logarithm of its factor, if it has one."""
    m, before = fit.model.measured, fit.model.n_constants + fit.model.n_free
    return [(i, name, before + m.open_starts.index(i) if m.starts[i].kind == SCALED else None) for i, name in m.dosed]


def with_doses(law: PowerSum, fit: MixedFit, controls: Sequence[str], factors: Mapping[int | None, float]) -> PowerSum:
    """A law of states alone with its doses as further terms, and no other control.

    Args:
        law: of the states.
        fit: knows the doses.
        controls: of the series, the columns of doses among them.
        factors: by unknown; that of a dose without one is under None.
    """
    a, w = law.coefficients, np.pad(law.exponents, ((0, 0), (0, len(controls))))
    columns = list(dict.fromkeys(name for _, name, _ in dose_rows(fit)))
    more, rows = np.zeros((len(a), len(columns))), np.zeros((len(columns), w.shape[1]))
    for d, name in enumerate(columns):
        rows[d, len(a) + list(controls).index(name)] = 1.0
    for i, name, unknown in dose_rows(fit):
        more[i, columns.index(name)] = factors[unknown]
    # With all controls the law has a row without terms for each.
    a = np.pad(np.hstack([a, more]), ((0, len(controls)), (0, 0)))
    return PowerSum(a, np.vstack([w, rows]))


def unknown_of_terms(fit: MixedFit, law: PowerSum) -> tuple[list[tuple[int, int]], list[int | None]]:
    """State and monomial of every term in the order of the results, and the unknown of its constant.

    Args:
        law: of `with_doses`.
    """
    terms = [(int(i), int(j)) for i, j in zip(*np.nonzero(law.coefficients), strict=True)]
    of: dict[tuple[int, int], int | None] = {(e.state, e.monomial): e.constant for e in fit.model.structure.entries}
    size, rows = len(fit.model.structure.exponents), dose_rows(fit)
    columns = list(dict.fromkeys(name for _, name, _ in rows))
    of |= {(i, size + columns.index(name)): unknown for i, name, unknown in rows}
    return terms, [of[term] for term in terms]


def factor_names(fit: MixedFit, given: Mapping[int, str], taken: Mapping[int, str]) -> dict[int, str]:
    """Names of the factors of doses, by unknown: those that were given, or f, f1, f2, ..., which no constant has.

    Args:
        given: of the user, by the place of the state.
        taken: names of constants that somebody wrote, by unknown.
    """
    states = {unknown: i for i, _, unknown in dose_rows(fit) if unknown is not None}
    names = {unknown: given.get(i, "f" if len(states) == 1 else f"f{i + 1}") for unknown, i in states.items()}
    while set(names.values()) & set(taken.values()):
        names = {unknown: f"{name}_dose" for unknown, name in names.items()}
    return names
