"""Latent states, which nobody measured, and what a conserved sum says of them.

    x_h = (value - sum over i != h of c_i x_i) / c_h

If the value of a sum is known and its other states are measured, a state without a column is no
unknown: its samples follow from the others', and so does their noise. Other latent states stay
without samples: only whole trajectories with fitted starts can determine them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import numpy as np

from odediscovery.data.samples import measured, spread_columns, with_columns
from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.knowledge.statements import Conserved
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask


def infer_latent_states(series: TimeSeries, latent: Sequence[str], known: Knowledge) -> TimeSeries:
    """The series with samples of the latent states that follow from conserved sums.

    Args:
        series: with a column of nan for each of them, from `with_latent_states`.
        latent: their names.
        known: holds the sums, in the user's units.

    States that follow from no sum keep nan.
    """
    unknown = {series.states.index(name) for name in latent}
    while unknown:
        for conserved in (c for c in known.conserved if c.value is not None):
            asked = sorted(unknown & set(np.flatnonzero(conserved.weights)))
            if len(asked) == 1:
                series = _infer(series, conserved, asked[0])
                unknown.remove(asked[0])
                break
        else:
            break
    return series


def prepare_with_latent_states(series: TimeSeries, known: Knowledge, *, smoothing: bool = True) -> Problem:
    """`prepare` of the measured states, beside which the latent ones stand without samples.

    A latent state is divided by the most that a conserved sum lets it reach, or else by the
    largest scale of a measured state, and does not become negative.
    """
    seen = measured(series)
    if seen.all():
        return prepare(series, smoothing=smoothing)
    narrow = dataclasses.replace(
        series,
        states=tuple(np.array(series.states)[seen].tolist()),
        trajectories=tuple(_select_states(t, seen) for t in series.trajectories),
    )
    p = prepare(narrow, smoothing=smoothing)
    scale = np.full(series.n_states, p.scale.size.max())
    scale[seen] = p.scale.state
    for one in known.conserved:
        if one.value is not None:
            of_sum = (one.weights * one.value > 0) & ~seen
            scale[of_sum] = one.value / one.weights[of_sum]
    wide = partial(spread_columns, places=np.flatnonzero(seen).tolist(), n=len(seen))
    return dataclasses.replace(
        p,
        data=_recorded_as(with_columns(p.data, series.states), series, scale),
        smooth=with_columns(p.smooth, series.states),
        scale=Scale(scale, p.scale.time),
        noise=wide(p.noise, fill=p.noise.max()),
        floor=wide(p.floor, fill=p.floor.max()),
        nonnegative=wide(p.nonnegative.astype(np.float64), fill=1.0) > 0,
        constant=wide(p.constant.astype(np.float64), fill=0.0) > 0,
        relative_sigma=tuple(wide(s, fill=1.0) for s in p.relative_sigma),
    )


def _recorded_as(data: TimeSeries, series: TimeSeries, scale: Array) -> TimeSeries:
    """The dimensionless series with what is known of the samples and starts of all states."""
    runs = [
        dataclasses.replace(run, recorded=own.recorded and own.recorded.scaled(scale))
        for run, own in zip(data.trajectories, series.trajectories, strict=True)
    ]
    return dataclasses.replace(data, trajectories=tuple(runs))


def _select_states(t: Trajectory, which: Mask) -> Trajectory:
    sigma = None if t.sigma is None else t.sigma[:, which]
    recorded = t.recorded and t.recorded.select(which)
    return dataclasses.replace(t, values=t.values[:, which], sigma=sigma, recorded=recorded)


def _infer(series: TimeSeries, conserved: Conserved, i: int) -> TimeSeries:
    """The series with samples of state i from those of the other states of a sum."""
    c, value = conserved.weights, conserved.value
    assert value is not None
    others = np.where(np.arange(len(c)) == i, 0.0, c) / c[i]
    used = others != 0
    trajectories = []
    for t in series.trajectories:
        x = t.values.copy()
        x[:, i] = value / c[i] - t.values[:, used] @ others[used]
        sigma = None if t.sigma is None else t.sigma.copy()
        if sigma is not None and t.sigma is not None:
            sigma[:, i] = np.sqrt(t.sigma[:, used] ** 2 @ others[used] ** 2)
            sigma[np.isnan(x)] = np.nan
        trajectories.append(dataclasses.replace(t, values=x, sigma=sigma))
    note = f"{series.states[i]} was not measured: its samples follow from the conserved sum"
    return dataclasses.replace(series, trajectories=tuple(trajectories), messages=(*series.messages, note))
