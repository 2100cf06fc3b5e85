r"""Prediction for a group that the fit has not seen, from its first samples, with the population as the prior.

    maximise  log p(samples | c) + log p(c | population)

over its constants and start c; the curvature at the maximum gives the band of its curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.sheets import read_table
from odediscovery.errors import InputError, unknown_name
from odediscovery.laws.power_sum import PowerSum
from odediscovery.population import groups
from odediscovery.result.population import GroupConstant, Population
from odediscovery.runtime.arrays import Array
from odediscovery.uncertainty.bands import deviations_of

# Width of the prior of a known number, in logarithms.
_KNOWN = 1e-6


class Newcomer(NamedTuple):
    """A new group: its most likely constants by name, and its curve at requested times."""

    constants: Mapping[str, float]
    values: Array  # [times, states]
    deviations: Array  # of a new measurement [times, states]


def _structure_in(law: PowerSum, population: Population) -> tuple[groups.Structure, list[GroupConstant]]:
    """Return the structure of a law in its states, with constants tied as in the population, and these constants."""
    n, places = len(population.starts), list(zip(*np.nonzero(law.coefficients), strict=True))
    own = np.all(law.exponents[:, n:] == 0, axis=1)
    row = np.cumsum(own) - 1
    constants = [one for one in population.constants if own[places[one.terms[0]][1]]]
    entries = [
        groups.Entry(int(i), int(row[j]), k, 1 if law.coefficients[i, j] > 0 else -1)
        for k, one in enumerate(constants)
        for i, j in (places[term] for term in one.terms)
    ]
    return groups.Structure(law.exponents[own, :n], tuple(sorted(entries))), constants


def meet(
    law: PowerSum,
    population: Population,
    series: TimeSeries,
    times: Array,
    known: Mapping[str, float],
    doses: Mapping[str, Array] | None = None,
) -> Newcomer:
    """Predict the curve of a new group, whose samples are one trajectory, at `times` from its first sample on.

    `known` holds starts by state (if unmeasured, what they are proportional to), `doses` those given after each sample.
    """
    if len(series.trajectories) != 1:
        raise InputError(f"expected the samples of one new group, got {len(series.trajectories)} groups")
    if population.exponents:
        raise InputError("a new group is not yet possible where exponents differ from group to group; fit it with them")
    run = series.trajectories[0]
    if times.min() < run.time[0]:
        raise InputError(f"times should not lie before the first sample at {run.time[0]:g}, got {times.min():g}")
    states, every = series.states, np.union1d(run.time, times)
    logarithmic = np.array([state in population.proportional for state in states])
    # A state that receives doses starts at 0 unless its start is known.
    nothing = {state: 0.0 for state in doses or () if population.starts[state][0] == "scaled"}
    starts, centre, width = _starts(states, population, run.values[0], nothing | dict(known))
    values = np.full((len(every), len(states), 1), np.nan)
    given, places = np.zeros(values.shape), np.searchsorted(every, run.time)
    values[places, :, 0] = run.values
    for state, amounts in (doses or {}).items():
        given[places, states.index(state), 0] = amounts
    measured = groups.Measured((every - every[0])[:, None], values, given, starts, logarithmic, ("new",))
    structure, constants = _structure_in(law, population)
    middle = np.concatenate([np.log([one.mean for one in constants]), centre])
    spread = np.concatenate([[max(one.sd_log, _KNOWN) for one in constants], width])
    sigma = np.array([population.residual_sd.get(state, 1.0) for state in states])
    # The band of an unmeasured state is that of its curve alone.
    noise = np.array([population.residual_sd.get(state, 0.0) for state in states])
    scale = np.maximum(np.nan_to_num(np.abs(run.values)).max(axis=0), 1e-6) * 10.0
    model = groups.GroupModel(structure, measured, scale=scale)
    unknowns, _ = groups.fit_each(model, middle[:, None], sigma, middle[:, None], spread)
    curve = model.fitted(unknowns)[:, :, 0]
    at, seen = np.searchsorted(every, times), model.seen[:, :, 0, None]
    model.seen = np.ones(model.seen.shape, bool)  # slopes of the curve also where there are no samples
    slopes = model.curves(unknowns)[1][..., 0]
    used = np.where(seen, slopes, 0.0) / sigma[:, None]
    precision = np.einsum("tip,tiq->pq", used, used) + np.diag(1.0 / spread**2)
    deviations = deviations_of(slopes, np.linalg.inv(precision), noise)
    deviations = np.where(logarithmic, deviations * np.abs(curve), deviations)
    found = np.exp(unknowns[: len(constants), 0])
    names = {one.name: float(value) for one, value in zip(constants, found, strict=True)}
    return Newcomer(names, curve[at], deviations[at])


def first_samples(
    path: Path, like: TimeSeries, hidden: Sequence[str], doses: Sequence[tuple[str, str]] = ()
) -> tuple[TimeSeries, dict[str, Array]]:
    """Read a table of first samples of a new group, with the states of another series except hidden ones, and the
    amounts [samples] given to states right after each sample, by state, from columns of `doses` (empty: none)."""
    for state, _ in doses:
        if state not in like.states:
            raise unknown_name("state with doses", state, like.states)
    table = read_table(path)
    seen = [state for state in like.states if state not in hidden]
    times = table.increasing_times(path, like.time_name, [*seen, *(name for _, name in doses)])
    nothing = np.full(len(times), np.nan)
    columns = [nothing if state in hidden else table.numbers(state, "state") for state in like.states]
    run = Trajectory(times, np.stack(columns, axis=1), "new")
    given: dict[str, Array] = {}
    for state, name in doses:
        given[state] = given.get(state, 0.0) + np.nan_to_num(table.numbers(name, "dose"))
    return TimeSeries(like.states, (run,), like.time_name, like.units), given


def _starts(
    states: tuple[str, ...], population: Population, first: Array, known: Mapping[str, float]
) -> tuple[tuple[groups.Start, ...], Array, Array]:
    """Return the starts of the states, and mean and width of the fitted ones."""
    found, priors = [], []
    for state, sample in zip(states, first, strict=True):
        kind, mean, sd = population.starts[state]
        if kind != "scaled" and state in known:
            found.append(groups.Start(groups.KNOWN, np.array([known[state]])))
        elif kind == "known":
            if not np.isfinite(sample):
                raise InputError(f"the start of {state} has to be known: give it, --initial {state}=...")
            found.append(groups.Start(groups.EXACT, np.array([sample])))
        else:
            if kind == "scaled" and state not in known:
                raise InputError(f"{state} was not measured: give what its start is known by, --initial {state}=...")
            of = {"normal": groups.ANY, "log-normal": groups.POSITIVE, "scaled": groups.SCALED}[kind]
            found.append(groups.Start(of, np.array([known[state] if kind == "scaled" else mean])))
            priors.append((mean if kind == "normal" else np.log(mean), max(sd, _KNOWN)))
    centre, width = np.array(priors).reshape(-1, 2).T
    return tuple(found), centre, width
