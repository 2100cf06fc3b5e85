"""Recipe `neural`: networks alone find the law. Nothing is grown, no library is regressed.

    random starts -> Adam, LBFGS under L1, gates drawn to 1 -> pruned -> (judged, polished, simplified)

The data are taken for exact first, with one-interval windows that start at samples: where the law
that comes of it leaves nothing, they are. Otherwise the members are trained and pruned as data
with noise want it, on windows of several intervals with fitted starts.
"""

from __future__ import annotations

from collections.abc import Sequence

from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import proposals
from odediscovery.search.conditions import LITTLE_NOISE, NOISY
from odediscovery.search.rungs import (
    ALWAYS,
    Climb,
    Proposer,
    Rung,
    Strategy,
    at_rest,
    climb,
    each_alone,
    is_settled,
    warm_start,
)
from odediscovery.search.strategies import IF_HOPEFUL
from odediscovery.settings import Settings
from odediscovery.stages.values import Candidate

_MEMBERS = Rung(
    "random members", ALWAYS, Proposer("networks trained under L1", proposals.trained_members), IF_HOPEFUL, late=True
)
AS_IF_EXACT = Strategy(
    "neural, as if exact", "samples are taken for exact starts of windows", LITTLE_NOISE, (_MEMBERS,)
)
IN_NOISE = Strategy("neural, in noise", "starts of windows are fitted", NOISY, (_MEMBERS,))
NEURAL = (AS_IF_EXACT, IN_NOISE)


def train_networks(
    p: Problem, before: Sequence[PowerSum], settings: Settings, monitor: Monitor
) -> tuple[Problem, list[Candidate]]:
    """Pruned laws of trained networks, and the data as they compare on them.

    Args:
        before: laws in the user's units that compete, such as those of an earlier fit.

    Returns:
        The data, without noise where a law leaves nothing, and the candidates.
    """
    if p.constant.all():
        return p, [at_rest(p)]
    exact = p.without_noise(None)
    for strategy, q in ((AS_IF_EXACT, exact), (IN_NOISE, p)):
        at = Climb(q, settings, monitor)
        if not strategy.when.holds(Climb(p, settings, monitor)):
            continue
        climb(strategy, at)
        if q is p or p.clean or is_settled(at.candidates) or monitor.stopping():
            break
    candidates = warm_start(q, before, monitor) + at.candidates
    # A stop ends with a law, also before the first network is trained.
    return q, candidates or [each_alone(q)] * bool(monitor.stopping())
