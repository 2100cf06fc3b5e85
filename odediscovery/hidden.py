"""States that nobody measured, told by a conserved sum.

    x_h = (value - sum over i != h of c_i x_i) / c_h

With a sum whose value is known and whose other states are measured, a state without a column is
no unknown: its samples follow from the others', and so does their noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from odediscovery.errors import InputError
from odediscovery.knowledge import Knowledge
from odediscovery.powersum import Array
from odediscovery.series import TimeSeries, Trajectory
from odediscovery.statements import Conserved
from odediscovery.table import check_names


def with_hidden(series: TimeSeries, hidden: Sequence[str]) -> TimeSeries:
    """The series with columns for unmeasured states, nothing known of them yet.

    Raises:
        InputError: a name is empty, doubled or that of a column.
    """
    states = (*series.states, *hidden)
    check_names([series.time_name, *states], len(states) + 1)

    def wider(values: Array | None, missing: int) -> Array | None:
        return None if values is None else np.pad(
            values, ((0, 0), (0, missing)), constant_values=np.nan)  # fmt: skip

    trajectories = []
    for t in series.trajectories:
        values = wider(t.values, len(hidden))
        assert values is not None
        sigma = wider(t.sigma, len(hidden))
        trajectories.append(Trajectory(t.time, values, t.label, sigma, t.inputs))
    return dataclasses.replace(series, states=states, trajectories=tuple(trajectories))


def revealed(series: TimeSeries, hidden: Sequence[str], known: Knowledge) -> TimeSeries:
    """The series with the samples of unmeasured states that conserved sums tell.

    Args:
        series: with a column of nan for each of them, from `with_hidden`.
        hidden: their names.
        known: holds the sums, in the user's units.

    Raises:
        InputError: a state that no sum tells.
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
            names = ", ".join(series.states[i] for i in sorted(unknown))
            raise InputError(
                f"cannot tell the unmeasured {names}: expected for each a conserved sum with its "
                f'value and otherwise measured states, such as --conserve "{series.states[0]} + '
                f'{series.states[min(unknown)]} = 100"'
            )
    return series


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
        trajectories.append(Trajectory(t.time, x, t.label, sigma, t.inputs))
    said = f"{series.states[i]} was not measured: its samples follow from the conserved sum"
    return dataclasses.replace(series, trajectories=tuple(trajectories),
                               messages=(*series.messages, said))  # fmt: skip
