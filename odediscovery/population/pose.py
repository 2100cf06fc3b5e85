r"""Conversion of a series of many trajectories to `Measured`, and its doses in the model and the law.

Known starts are written as "conc = 0", "gut = dose" (a column that is constant within a group) or
"gut = measured" (the first sample is exact). The start of an unmeasured state is known up to a factor,
which represents its unknown scale. Doses are given to each group at known times:

    dx_i/dt = ... + f_i D_i(t),    D_i(t) = \sum_k d_k \delta(t - t_k)

Each group has its own amounts d and times t_k. Doses to a measured state are in its units, f = 1. An unmeasured
state has the units of the state that it flows into: f is fitted, with a mean and a spread over groups.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from odediscovery.data.noise import estimate_noise
from odediscovery.data.recorded import OF_SAMPLE, dose_column, dose_factor, known_start
from odediscovery.data.series import TimeSeries, with_latent_states
from odediscovery.errors import InputError, unknown_name
from odediscovery.laws.power_sum import PowerSum
from odediscovery.population.groups import ANY, EXACT, KNOWN, POSITIVE, SCALED, Measured, Start, padded
from odediscovery.population.mixed import MixedFit
from odediscovery.problem.problem import dose_statements, of_groups, where_starts_hold
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings


def pose_groups(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Measured]:
    """The series with its unmeasured states, and its groups in the form that is fitted."""
    if len(series.trajectories) < 2:
        raise InputError("--vary compares groups: expected two or more, name their column with --group")
    if settings.hidden_states:
        series = with_latent_states(series, settings.hidden_states)
    dose_statements(series, settings)
    dosed = tuple((series.states.index(state), name) for state, name in map(dose_column, settings.doses))
    times, values, doses = padded(*_doses_of_groups(series, dosed))
    known = dict(map(known_start, settings.starts))
    for state in known:
        if state not in series.states:
            raise unknown_name("state with a known start", state, series.states)
    _refuse_columns_of_groups(series)
    labels = tuple(run.label or str(g + 1) for g, run in enumerate(series.trajectories))
    factors, additive = with_factors(series, settings), np.zeros(series.n_states, bool)
    measured = Measured(times, values, doses, (), additive, labels, dosed=dosed)
    starts = []
    for i, state in enumerate(series.states):
        start = _start(series, measured, i, known.get(state))
        starts.append(_with_factor(start, measured, i, state) if i in factors else start)
    covariates = {name: _logarithm(series, name) for name in settings.covariate}
    series = dataclasses.replace(series, messages=(*series.messages, *where_starts_hold(series, settings)))
    return series, dataclasses.replace(measured, starts=tuple(starts), covariates=covariates)


def _refuse_columns_of_groups(series: TimeSeries) -> None:
    """Raise InputError for columns that are constant within groups, such as a year or a weight."""
    idle = []
    for i, name in enumerate(series.states):
        columns = [run.values[np.isfinite(run.values[:, i]), i] for run in series.trajectories]
        if any(len(x) > 1 for x in columns) and all(np.ptp(x) == 0 for x in columns if len(x)):
            idle.append(name)
    if idle:
        others = ",".join(name for name in series.states if name not in idle)
        advice = f"name the states, --states {others}" if others else "there is no law to find"
        raise InputError(
            f"{', '.join(idle)}: expected states that change, got the same value within every group; {advice}"
        )


def _start(series: TimeSeries, measured: Measured, i: int, known: str | float | None) -> Start:
    """The start values of one state, as far as they are known."""
    name, values, dosed = series.states[i], measured.values[:, i], i in dict(measured.dosed)
    first, seen = values[0], bool(np.isfinite(values).any())
    if known is None and dosed and not np.isfinite(first).any():
        known = 0.0  # before the first dose
    if known is None:
        if not seen:
            raise InputError(
                f"{name} was not measured: with --vary its start has to be known, such as "
                f'--starts "{name} = dose" with a column of doses, or "{name} = 1", or --doses "{name} = dose" with '
                "a column of amounts at their times"
            )
        begun, positive = first[np.isfinite(first)], values[values > 0]
        filled = np.where(np.isfinite(first), first, np.median(begun) if len(begun) else 1.0)
        if np.nanmin(values) < 0 and not _is_positive_but_for_noise(series, i, values):
            return Start(ANY, filled)
        return Start(POSITIVE, np.maximum(filled, 0.5 * positive.min() if len(positive) else 1.0))
    if known == OF_SAMPLE:
        if not np.isfinite(first).all():
            raise InputError(f"--starts {name!r} = {OF_SAMPLE}: expected a first sample in every group; fill it in")
        return Start(EXACT, first)
    value = of_groups(series, known) if isinstance(known, str) else np.full(len(first), known)
    if not seen and np.any(value < 0 if dosed else value <= 0):
        raise InputError(f"--starts {name!r}: an unmeasured state has to start above 0; {known} is not")
    return Start(KNOWN if seen else SCALED, value)


def _with_factor(start: Start, measured: Measured, i: int, state: str) -> Start:
    """The start of a state whose doses have a fitted factor."""
    if start.kind == SCALED:
        return start
    if start.kind != KNOWN or start.value.any():
        raise InputError(
            f"--doses with a factor for {state}: expected that it starts at 0 before the first dose, say so with "
            f'--starts "{state} = 0"'
        )
    # A rough estimate: the median rise per unit of dose.
    ratios = list[float]()
    for given, y in zip(measured.given()[:, i].T, measured.values[:, i].T, strict=True):
        seen = np.isfinite(y)
        amounts, rises = np.diff(given[seen], prepend=0.0), np.diff(y[seen], prepend=0.0)
        ratios += (rises[amounts > 0] / amounts[amounts > 0]).tolist()
    above = [ratio for ratio in ratios if ratio > 0]
    return Start(SCALED, start.value, float(np.median(above)) if above else 1.0)


def _is_positive_but_for_noise(series: TimeSeries, i: int, values: Array) -> bool:
    """Whether negative samples of a state are noise, or few and small, as after subtraction of too large a blank."""
    below, largest = -float(np.nanmin(values)), float(np.nanmax(np.abs(values)))
    few = float(np.mean(values[np.isfinite(values)] < 0)) <= 0.05 and below <= 0.03 * largest
    return few or (below <= 0.1 * largest and below <= 4.0 * float(estimate_noise(series)[i]))


def _logarithm(series: TimeSeries, name: str) -> Array:
    values = of_groups(series, name)
    if np.any(values <= 0):
        raise InputError(f"--covariate {name}: expected values above 0, a power law needs them")
    logs = np.log(values)
    if np.ptp(logs) < 1e-9:
        raise InputError(f"--covariate {name}: it is the same in all groups, so no constant can depend on it")
    return np.asarray(logs - logs.mean())


def asked_to_vary(vary: str, states: Sequence[str], terms: Sequence[tuple[int, str]]) -> set[int] | None:
    """Indices of the terms, (state, name of the monomial), whose constants the user lets vary; None for "auto".

    `vary` is "all", "none", or a comma-separated list such as "k in conc'" (all constants of its equation) and
    "gut in conc'" (that of one term).

    >>> asked_to_vary("k in y'", ["x", "y"], [(0, "x"), (1, "x"), (1, "y")])
    {1, 2}
    """
    if vary == "auto":
        return None
    if vary in ("all", "none"):
        return set(range(len(terms))) if vary == "all" else set()
    found = set[int]()
    for piece in vary.split(","):
        what, sign, where = (part.strip() for part in piece.rpartition(" in "))
        state = where.removesuffix("'").strip()
        if not sign or state not in states:
            raise InputError(f'--vary expects all, none, auto or "k in {states[0]}\'", got {piece.strip()!r}')
        own = [place for place, (i, _) in enumerate(terms) if states[i] == state]
        chosen = [place for place in own if what in ("k", "all") or terms[place][1] == what]
        if not chosen:
            names = ", ".join(terms[place][1] for place in own)
            raise InputError(f"--vary {piece.strip()!r}: the equation of {state} has the terms {names}")
        found.update(chosen)
    return found


def _doses_of_groups(
    series: TimeSeries, dosed: Sequence[tuple[int, str]]
) -> tuple[list[tuple[Array, Array]], list[Array]]:
    """Times [samples] and values [samples, states] of all groups, and the doses immediately after these samples.

    In the series doses are rates for a moment, see `with_moments`; samples that only mark its end are removed.
    """
    runs, doses = [], []
    for run in series.trajectories:
        amounts, kept = np.zeros(run.values.shape), np.ones(len(run.time), bool)
        for i, name in dosed:
            assert run.controls is not None
            amounts[:-1, i] += run.controls.values[:-1, series.controls.index(name)] * np.diff(run.time)
        # The end of the moment of a dose is marked by a sample without values.
        after = np.flatnonzero(amounts.any(axis=1)) + 1
        kept[after] = np.isfinite(run.values[after]).any(axis=1)
        runs.append((run.time[kept] - run.time[0], run.values[kept]))
        doses.append(amounts[kept])
    for i, name in dosed:
        if not any(given[:, i].any() for given in doses):
            raise InputError(
                f"--doses {series.states[i]} = {name}: no group has an amount before its last sample; leave it out"
            )
    return runs, doses


def with_factors(series: TimeSeries, settings: Settings) -> dict[int, str]:
    """Names that the user gave to the factors of doses, by the index of their state."""
    return {series.states.index(dose_column(one)[0]): name for one in settings.doses if (name := dose_factor(one))}


def dose_rows(fit: MixedFit) -> list[tuple[int, str, int | None]]:
    """State and column of every dose in the law, and the index of the unknown for the log of its factor, if any."""
    m, first = fit.model.measured, fit.model.first_start
    return [(i, name, first + m.open_starts.index(i) if m.starts[i].kind == SCALED else None) for i, name in m.dosed]


def law_with_doses(fit: MixedFit, controls: Sequence[str]) -> tuple[PowerSum, list[tuple[int, int]], list[int | None]]:
    """The law of the typical group with its doses as additional terms.

    Also returns state and monomial of every term, in the order of the results, and the unknown of its constant.
    """
    model, beta, rows = fit.model, fit.estimate.beta, dose_rows(fit)
    k, n = model.n_constants, model.structure.n_states
    law = model.structure.with_exponents(beta[k : model.first_start].tolist()).law(beta[:k])
    columns = {name: len(law.exponents) + d for d, name in enumerate(dict.fromkeys(name for _, name, _ in rows))}
    # Every control has an equation without terms.
    a = np.pad(law.coefficients, ((0, len(controls)), (0, len(columns))))
    w = np.pad(law.exponents, ((0, len(columns)), (0, len(controls))))
    of: dict[tuple[int, int], int | None] = {(e.state, e.monomial): e.constant for e in model.structure.entries}
    for i, name, unknown in rows:
        w[columns[name], n + list(controls).index(name)] = 1.0
        a[i, columns[name]] = 1.0 if unknown is None else float(np.exp(beta[unknown]))
        of[i, columns[name]] = unknown
    terms = [(int(i), int(j)) for i, j in zip(*np.nonzero(a), strict=True)]
    return PowerSum(a, w), terms, [of[term] for term in terms]


def factor_names(fit: MixedFit, given: Mapping[int, str], taken: Mapping[int, str]) -> dict[int, str]:
    """Unused names for the factors of doses, by unknown: those given by the user, or f, or f1, f2, ... by state."""
    states = {unknown: i for i, _, unknown in dose_rows(fit) if unknown is not None}
    names = {unknown: given.get(i, "f" if len(states) == 1 else f"f{i + 1}") for unknown, i in states.items()}
    while set(names.values()) & set(taken.values()):
        names = {unknown: f"{name}_dose" for unknown, name in names.items()}
    return names
