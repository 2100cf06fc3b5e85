"""Groups in which one state was not measured: flows between compartments, each with its own constants.

All sets of linear flows between the states and out of them are fitted to every group from several
beginnings; the mixed model decides among the best.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from odediscovery.errors import FitError
from odediscovery.population.model.measured import SCALED, GroupModel, Measured
from odediscovery.population.model.mixed import MIXED, MixedFit
from odediscovery.population.model.separate import fit_each
from odediscovery.population.model.structures import Entry, Structure
from odediscovery.population.model.vary import criterion
from odediscovery.population.sound import sound_model
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.monitor import JUDGING, SEARCHING, Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class HiddenFlowThresholds(Thresholds):
    """How flows with an unmeasured state are sought."""

    rates: tuple[float, ...] = threshold(
        (1.0, 5.0, 25.0), "rate constants to begin from", unit="inverse longest span", origin="all that samples can see"
    )
    flows: int = threshold(3, "flows, at most", origin="cost: all sets and beginnings are fitted")
    steps: int = threshold(20, "Levenberg-Marquardt steps from each beginning", origin="cost")
    width: float = threshold(2.0, "how far rates are looked for from a beginning", unit="logarithm")
    noise: float = threshold(0.1, "noise of these fits", unit="largest sample")
    mixed: int = threshold(4, "sets of flows that are fitted as mixed models", origin="cost")


HIDDEN_FLOWS = HiddenFlowThresholds()
OUTSIDE = -1


def choose_flows(measured: Measured, monitor: Monitor) -> tuple[list[MixedFit], Measured]:
    """Mixed models of the best sets of flows, the best first.

    Raises:
        FitError: no set of flows could be fitted to all groups.
    """
    n = measured.data.n_states
    hidden = [i for i in range(n) if not np.isfinite(measured.data.values[:, i]).any()]
    ways = [(i, j) for i in range(n) for j in [*range(n), OUTSIDE] if i != j]
    sets = [
        s for k in range(1, HIDDEN_FLOWS.flows + 1) for s in itertools.combinations(ways, k) if _is_fed(s, hidden, n)
    ]
    monitor.stage("flows of all groups", len(sets))
    begun: list[tuple[float, Structure, Array]] = []
    for place, flows in enumerate(sets):
        structure = _structure(flows, n)
        first = monitor.in_time(SEARCHING, partial(_begun, measured, structure), None)
        if first is None:
            break
        begun.append((first[0], structure, first[1]))
        monitor.step(place + 1)
    begun.sort(key=lambda one: one[0])
    rows = list[MixedFit]()
    for _, structure, unknowns in begun[: HIDDEN_FLOWS.mixed]:
        fit = partial(sound_model, measured, structure, unknowns, MIXED.rounds)
        rows += monitor.in_time(SEARCHING if rows else JUDGING, fit, [])
    if not rows:
        raise FitError("no set of flows could be fitted to all groups; fit them one by one")
    return sorted(rows, key=criterion), measured


def _is_fed(flows: tuple[tuple[int, int], ...], hidden: list[int], n: int) -> bool:
    """Whether every unmeasured state has an effect on a measured one, and every measured one an equation."""
    reached = {i for i in range(n) if i not in hidden}
    for _ in range(n):
        reached |= {i for i, j in flows if j in reached}
    touched = {k for flow in flows for k in flow}
    return reached >= set(range(n)) and touched >= set(range(n)) and all(any(i == h for i, _ in flows) for h in hidden)


def _structure(flows: tuple[tuple[int, int], ...], n: int) -> Structure:
    """Each flow is proportional to the state that it leaves."""
    sources = sorted({i for i, _ in flows})
    entries = []
    for k, (i, j) in enumerate(flows):
        entries.append(Entry(i, sources.index(i), k, -1))
        if j != OUTSIDE:
            entries.append(Entry(j, sources.index(i), k, 1))
    # What leaves a state on two ways is two entries of one place: they stay two constants of one term.
    return Structure(np.eye(n)[sources], tuple(sorted(entries)))


def _amount(measured: Measured, i: int) -> Array:
    """The largest amount that is known of a state at once: of its start, or a dose [groups]."""
    doses = measured.data.doses
    found = measured.starts[i].value if doses is None else np.maximum(measured.starts[i].value, doses[:, i].max(axis=0))
    # A group that was given nothing tells nothing of the factor.
    usual: Array = np.where(found > 0, found, np.median(found[found > 0]))
    return usual


def _begun(measured: Measured, structure: Structure) -> tuple[float, Array]:
    """The best of several beginnings for every group, and what it leaves in units of -2 log likelihood."""
    groups, k = measured.data.n_groups, structure.n_constants
    span = float(np.median(measured.data.times[-1] - measured.data.times[0]))
    rates = np.log(np.array(list(itertools.product(HIDDEN_FLOWS.rates, repeat=k))) / max(span, ABOVE_ZERO))
    many = len(rates)
    starts = tuple(start._replace(value=np.tile(start.value, many)) for start in measured.starts)
    wide = replace(measured, data=measured.data.taken(np.tile(np.arange(groups), many)), starts=starts)
    seen = measured.counts() > 0
    height = np.nanmedian(
        np.nanmax(np.where(np.isfinite(measured.data.values), measured.data.values, -np.inf), axis=0)[seen]
    )
    first = measured.first_starts()
    for row, i in enumerate(measured.open_starts):
        if measured.starts[i].kind == SCALED:
            first[row] = np.log(max(height, ABOVE_ZERO)) - np.log(_amount(measured, i))
    begin = np.vstack([np.repeat(rates.T, groups, axis=1), np.tile(first, (1, many))])
    width = np.full(len(begin), HIDDEN_FLOWS.width)
    noise = HIDDEN_FLOWS.noise * wide.data.scale
    fit = fit_each(GroupModel(structure, wide), begin, noise, begin, width, HIDDEN_FLOWS.steps)
    value = np.einsum("ig,i->g", fit.squares, np.where(seen, 1.0 / measured.data.scale**2, 0.0)).reshape(many, groups)
    # One beginning for all groups: what is called what may differ from beginning to beginning.
    best = int(np.argmin(value.sum(axis=1)))
    counts = measured.counts()
    score = float(counts.sum() * np.log(max(value[best].sum() / counts.sum(), ABOVE_ZERO))) + 2.0 * k * groups
    return score, fit.unknowns[:, best * groups : (best + 1) * groups]
