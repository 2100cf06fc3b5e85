"""Where the claimed law comes to rest, told with its error."""

from __future__ import annotations

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.judge.extrapolation import resting_note, resting_point
from odediscovery.judge.notes import Note
from odediscovery.laws.equations import Equations, Form
from odediscovery.laws.power_sum import count, filled
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array

# A picture of the future needs no more; a law that needs more is no simple one.
TOLERANCE, MAX_EVALUATIONS = 1e-8, 20_000


def rest(found: Discovery, form: Form | None = None, covariance: Array | None = None) -> list[Note]:
    """A sentence about the point at which the solution of the first trajectory comes to rest, if it does.

    Args:
        found: with estimates, or of a form.
        form: whose constants `found.named` are, if it is of one.
        covariance: of these constants.
    """
    if found.series.controls or found.equations.states != found.series.states:
        return []
    start, estimates = found.initial_values[0], found.estimates
    if form is not None and covariance is not None and found.named is not None:
        constants = np.array(found.named.values)

        def equations(c: Array) -> Equations:
            return form.with_constants(c.tolist())

    elif estimates is not None:
        k, law = count(estimates.free), estimates.law
        parts = [values[mask] for values, mask in zip(law.constants, estimates.free, strict=True)]
        constants, covariance = np.concatenate(parts), estimates.covariance.matrix[:k, :k]

        def equations(c: Array) -> Equations:
            moved = law.with_constants(*filled(law.constants, estimates.free, c))
            scaled = moved.unscaled(estimates.scale.state, estimates.scale.time)
            return Equations.from_power_sum(found.series.states, scaled, time_name=found.series.time_name)

    else:
        return []

    def solve(c: Array, times: Array) -> Array:
        return equations(c).simulate(start, times, TOLERANCE, most_evaluations=MAX_EVALUATIONS)

    def rates(c: Array, x: Array) -> Array:
        return equations(c).rhs(x)

    values, time = pooled(found.series), found.series.trajectories[0].time
    span, low, high = (float(time[0]), float(time[-1])), np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    at = resting_point(solve, rates, constants, covariance, span, low, high)
    return [] if at is None else [resting_note(found.series.states, *at)]
