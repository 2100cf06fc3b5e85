r"""Groups that follow another law, left out so that they do not bend the law of all others.

    C(others) + \sum_g [ n_g (\ln 2 \pi \sigma^2 + 1) + k \ln N ] + margin < C(all)

C is the criterion of a mixed model, n_g the values of a group that is left out, N those of all. Such a group
counts as if a law of its own, with k constants, followed it within the noise of the others. Looked for are
groups whose residuals are much larger than those of the others, under any of the best laws: the best one of
all groups may be one that bends until it follows the strange one as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from odediscovery.population.model.mixed import MixedFit
from odediscovery.population.model.vary import criterion
from odediscovery.population.sound import sound_model, with_spreads
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import SEARCHING, Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class StrangerThresholds(Thresholds):
    """When a group does not follow the law of the others."""

    ratio: float = threshold(3.0, "residuals from which on a group is odd", unit="median of all groups")
    exact: float = threshold(1e-12, "least residual that others are compared with", unit="sigma", origin="rounding")
    values: int = threshold(3, "fewest values of such a group", origin="fewer follow any law")
    share: float = threshold(0.25, "most groups that are left out", unit="share", origin="the law is that of most")
    laws: int = threshold(6, "laws, the best first, under which they are looked for", origin="cost: a fit each")
    constants: int = threshold(5, "constants and starts of a law that a strange group has", origin="as most laws have")
    margin: float = threshold(10.0, "gain of the criterion from which on they are left out", origin="BIC: very strong")


STRANGERS = StrangerThresholds()


def odd_groups(fit: MixedFit) -> Mask:
    """Groups that the law follows much worse than the others [groups]."""
    curves = fit.model.curves(fit.unknowns, slopes=False)
    z = np.einsum("tig,i->g", curves.residual**2, 1.0 / fit.estimate.sigma**2)
    count = fit.model.measured.seen.sum(axis=(0, 1))
    ratio = np.sqrt(z / np.maximum(count, 1))
    middle = max(float(np.median(ratio)), STRANGERS.exact)
    odd: Mask = (ratio > STRANGERS.ratio * middle) & (count >= STRANGERS.values)
    return odd


def leave_out_strangers(rows: Sequence[MixedFit], monitor: Monitor) -> tuple[MixedFit, Mask]:
    """The best law of all groups, or of those that it is the law of, and the groups left out [groups].

    Args:
        rows: mixed models of all groups, the best first.
    """
    best, least = rows[0], criterion(rows[0]) - STRANGERS.margin
    out = np.zeros(best.model.measured.data.n_groups, bool)
    for row in rows[: STRANGERS.laws]:
        odd = odd_groups(row)
        if not 0 < odd.sum() <= STRANGERS.share * len(odd):
            continue
        for less in monitor.in_time(SEARCHING, partial(_without, row, odd), list[MixedFit]()):
            cost = criterion(less) + _own_cost(row, odd, less)
            if cost < least:
                best, least, out = less, cost, odd
    return best, out


def _without(row: MixedFit, odd: Mask) -> list[MixedFit]:
    """The same law without some groups, its spreads chosen anew; none where the numbers do not allow it."""
    kept = np.flatnonzero(~odd)
    found = sound_model(row.model.measured.taken(kept), row.model.structure, row.unknowns[:, kept])
    return [with_spreads(one) for one in found]


def _own_cost(row: MixedFit, odd: Mask, less: MixedFit) -> float:
    """What groups of a law of their own cost, which follows them within the noise of the others."""
    measured = row.model.measured
    values: Array = measured.seen[:, :, odd].sum(axis=(0, 2)).astype(float)
    noise = float(values[values > 0] @ (np.log(2.0 * math.pi * less.estimate.sigma[values > 0] ** 2) + 1.0))
    total = math.log(max(float(measured.counts().sum()), 2.0))
    return noise + measured.taken(np.flatnonzero(odd)).jacobian_of_logs() + STRANGERS.constants * total * int(odd.sum())
