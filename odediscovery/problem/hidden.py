"""States that nobody measured, and what a conserved sum tells of them.

    x_h = (value - sum over i != h of c_i x_i) / c_h

With a sum whose value is known and whose other states are measured, a state without a column is
no unknown: its samples follow from the others', and so does their noise. Others stay without
samples: only whole trajectories with fitted starts can tell them (`unmeasured`).
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
from odediscovery.problem.prepare import Prepared, prepare
from odediscovery.runtime.arrays import Mask


def revealed(series: TimeSeries, hidden: Sequence[str], known: Knowledge) -> TimeSeries:
    """The series with the samples of unmeasured states that conserved sums tell.

    Args:
        series: with a column of nan for each of them, from `with_hidden`.
        hidden: their names.
        known: holds the sums, in the user's units.

    States that no sum tells keep nan.
    """
    unknown = {series.states.index(name) for name in hidden}
    while unknown:
        for conserved in (c for c in known.conserved if c.value is not None):
            asked = sorted(unknown & set(np.flatnonzero(conserved.weights)))
            if len(asked) == 1:
                series = _told(series, conserved, asked[0])
                unknown.remove(asked[0])
                break
        else:
            break
    return series


def widely_prepared(series: TimeSeries, known: Knowledge, *, smoothing: bool = True) -> Prepared:
    """`prepare` of the measured states, beside which the others stand without samples.

    An unmeasured state is divided by what a conserved sum lets it reach, or else by the largest
    scale of a measured one, and does not become negative.
    """
    seen = measured(series)
    if seen.all():
        return prepare(series, smoothing=smoothing)
    narrow = dataclasses.replace(
        series,
        states=tuple(np.array(series.states)[seen].tolist()),
        trajectories=tuple(_columns(t, seen) for t in series.trajectories),
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
        data=with_columns(p.data, series.states),
        smooth=with_columns(p.smooth, series.states),
        scale=Scale(scale, p.scale.time),
        noise=wide(p.noise, fill=p.noise.max()),
        floor=wide(p.floor, fill=p.floor.max()),
        nonnegative=wide(p.nonnegative.astype(np.float64), fill=1.0) > 0,
        constant=wide(p.constant.astype(np.float64), fill=0.0) > 0,
        shape=tuple(wide(s, fill=1.0) for s in p.shape),
    )


def _columns(t: Trajectory, which: Mask) -> Trajectory:
    sigma = None if t.sigma is None else t.sigma[:, which]
    return Trajectory(t.time, t.values[:, which], t.label, sigma, t.controls)


def _told(series: TimeSeries, conserved: Conserved, i: int) -> TimeSeries:
    c, value = conserved.weights, conserved.value
    assert value is not None
    others = np.where(np.arange(len(c)) == i, 0.0, c) / c[i]
    trajectories = []
    for t in series.trajectories:
        x = t.values.copy()
        used = others != 0
        x[:, i] = value / c[i] - t.values[:, used] @ others[used]
        sigma = None if t.sigma is None else t.sigma.copy()
        if sigma is not None and t.sigma is not None:
            sigma[:, i] = np.sqrt(t.sigma[:, used] ** 2 @ others[used] ** 2)
            sigma[np.isnan(x)] = np.nan
        trajectories.append(Trajectory(t.time, x, t.label, sigma, t.controls))
    said = f"{series.states[i]} was not measured: its samples follow from the conserved sum"
    return dataclasses.replace(series, trajectories=tuple(trajectories), messages=(*series.messages, said))
