"""A series of many trajectories and what is known of its groups, as `Measured`.

Known starts are written as "conc = 0", "gut = dose" (a column that is constant within a group) or
"gut = measured" (the first sample is exact). The start of a state that nobody measured is known but for
a factor, which stands for its unknown scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.noise import estimate_noise
from odediscovery.data.recorded.statements import OF_SAMPLE, known_start
from odediscovery.data.samples import measured as has_samples
from odediscovery.data.samples import with_latent_states
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError, unknown_name
from odediscovery.population.doses import dosed_places, doses_of_groups, first_factor, with_factors
from odediscovery.population.model.measured import ANY, EXACT, KNOWN, POSITIVE, SCALED, Measured, Start
from odediscovery.population.model.members import Members, members_of
from odediscovery.problem.prepare import of_groups
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.settings import Settings


@dataclass(frozen=True)
class PoseThresholds(Thresholds):
    """When negative samples are errors about a state that is positive."""

    noise: float = threshold(4.0, "negative samples are noise within so many of its standard deviations")
    blank: float = threshold(0.1, "and no larger than this part of the largest sample", unit="share")
    few: float = threshold(0.05, "or where no more samples than this are negative", unit="share")
    small: float = threshold(0.03, "none of them larger than this part of the largest sample", unit="share")
    same: float = threshold(1e-9, "logarithms of a covariate no further apart are one", origin="rounding")


POSE = PoseThresholds()


def pose_groups(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Measured]:
    """The series with its unmeasured states, and its groups ready to be fitted.

    Raises:
        InputError: fewer than two groups, or a start or covariate that does not fit the series.
    """
    if len(series.trajectories) < 2:
        raise InputError("--vary compares groups: expected two or more, name their column with --group")
    if settings.hidden_states:
        series = with_latent_states(series, settings.hidden_states)
    data = members_of(*doses_of_groups(series, settings))
    dosed = dosed_places(series, settings)
    known = dict(map(known_start, settings.starts))
    for state in known:
        if state not in series.states:
            raise unknown_name("state with a known start", state, series.states)
    seen = has_samples(series)
    _refuse_columns_of_groups(series)
    factors = with_factors(series, settings)
    for i, _ in dosed:
        # Who has nothing but doses and no first sample had nothing before the first of them.
        if series.states[i] not in known and not np.isfinite(data.values[0, i]).any():
            known[series.states[i]] = 0.0
    starts = tuple(
        _start(series, data.values[0, i], i, known.get(state), bool(seen[i]), i in dict(dosed))
        for i, state in enumerate(series.states)
    )
    starts = tuple(_with_factor(one, data, i, series.states) if i in factors else one for i, one in enumerate(starts))
    labels = tuple(run.label or str(g + 1) for g, run in enumerate(series.trajectories))
    covariates = {name: _logarithm(series, name) for name in settings.covariate}
    return series, Measured(data, starts, np.zeros(series.n_states, bool), labels, covariates, dosed)


def _refuse_columns_of_groups(series: TimeSeries) -> None:
    """Numbers that say something of a group, a year or a weight, follow no law of change.

    Raises:
        InputError: a state changes within no group.
    """
    idle = [
        name
        for i, name in enumerate(series.states)
        if (columns := [x for run in series.trajectories if len(x := _finite(run.values[:, i]))])
        and all(np.ptp(x) == 0 for x in columns)
        and any(len(x) > 1 for x in columns)
    ]
    if idle:
        others = [name for name in series.states if name not in idle]
        advice = f"name the states, --states {','.join(others)}" if others else "there is no law to find"
        raise InputError(
            f"{', '.join(idle)}: expected states that change, got the same value within every group; {advice}"
        )


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


def _start(series: TimeSeries, first: Array, i: int, known: str | float | None, seen: bool, dosed: bool) -> Start:
    """What is known of the starts of one state."""
    name = series.states[i]
    if known is None:
        if not seen:
            raise InputError(
                f"{name} was not measured: with --vary its start has to be known, such as "
                f'--starts "{name} = dose" with a column of doses, or "{name} = 1", or --doses "{name} = dose" with '
                "a column of amounts at their times"
            )
        values = np.concatenate([run.values[:, i] for run in series.trajectories])
        least, middle = (
            float(np.nanmin(values)),
            float(np.nanmedian(first[np.isfinite(first)])) if np.isfinite(first).any() else 1.0,
        )
        filled = np.where(np.isfinite(first), first, middle)
        if least < 0 and not _is_positive_but_for_noise(series, i, values):
            return Start(ANY, filled)
        positive = values[values > 0]
        floor = 0.5 * float(positive.min()) if len(positive) else 1.0
        return Start(POSITIVE, np.maximum(filled, floor))
    if known == OF_SAMPLE:
        if not np.isfinite(first).all():
            raise InputError(f"--starts {name!r} = {OF_SAMPLE}: expected a first sample in every group; fill it in")
        return Start(EXACT, first)
    value = of_groups(series, known) if isinstance(known, str) else np.full(len(first), known)
    if not seen and np.any(value < 0 if dosed else value <= 0):
        raise InputError(f"--starts {name!r}: an unmeasured state has to start above 0; {known} is not")
    return Start(KNOWN if seen else SCALED, value)


def _with_factor(start: Start, data: Members, i: int, states: Sequence[str]) -> Start:
    """The start of a state in whose unit doses are but for a factor that is fitted."""
    if start.kind == SCALED:
        return start
    if start.kind != KNOWN or start.value.any():
        raise InputError(
            f"--doses with a factor for {states[i]}: expected that it starts at 0 before the first dose, say so with "
            f'--starts "{states[i]} = 0"'
        )
    return Start(SCALED, start.value, first_factor(data, i))


def _is_positive_but_for_noise(series: TimeSeries, i: int, values: Array) -> bool:
    """Whether negative samples of a state are noise, or few and small, as where too much of a blank was subtracted."""
    below, largest = -float(np.nanmin(values)), float(np.nanmax(np.abs(values)))
    few = float(np.mean(values[np.isfinite(values)] < 0)) <= POSE.few and below <= POSE.small * largest
    return few or (below <= POSE.blank * largest and below <= POSE.noise * float(estimate_noise(series)[i]))


def _logarithm(series: TimeSeries, name: str) -> Array:
    values = of_groups(series, name)
    if np.any(values <= 0):
        raise InputError(f"--covariate {name}: expected values above 0, a power law needs them")
    logs = np.log(values)
    if np.ptp(logs) < POSE.same:
        raise InputError(f"--covariate {name}: it is the same in all groups, so no constant can depend on it")
    centred: Array = logs - logs.mean()
    return centred


def asked_to_vary(vary: str, states: Sequence[str], terms: Sequence[tuple[int, str]]) -> Mapping[int, bool] | None:
    """Which terms vary as the user says, by their place; None for "auto".

    Args:
        vary: "all", "none", "auto", or pieces such as "k in conc'" (all constants of its equation) and
            "gut in conc'" (that of one term), parted by commas.
        states: names.
        terms: state and name of the monomial of every term.

    >>> asked_to_vary("k in y'", ["x", "y"], [(0, "x"), (1, "x"), (1, "y")])
    {0: False, 1: True, 2: True}
    """
    if vary == "auto":
        return None
    if vary in ("all", "none"):
        return dict.fromkeys(range(len(terms)), vary == "all")
    found = dict.fromkeys(range(len(terms)), False)
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
        found.update(dict.fromkeys(chosen, True))
    return found
