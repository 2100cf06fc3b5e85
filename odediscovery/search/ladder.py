"""Families of laws from simple to rich, climbed until an equation is no longer doubtful.

    powers                 sums of products of real powers    NPU -> NAU
    functions              the same with sin, cos, exp, log among the inputs
    sums                   with 1 / (1 + b m), m a product     NPU -> NAU -> NPU -> NAU
    sums of exponentials   the same with 1 / (1 + b exp(r x))

On clean data a law of the right family leaves nothing and looks like a law; one of a poorer
family may leave nothing too, since enough real powers fit any smooth curve, but it does not look
like one. Only equations that are doubtful climb further, the others keep their terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from odediscovery.families import FAMILIES
from odediscovery.judge.doubt import doubtful
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow.grow import grow

# States up to which richer families are looked through: their terms grow with the square of them.
MOST_STATES = 10


def climb(p: Problem, powers: list[PowerSum], monitor: Monitor) -> Iterator[list[PowerSum]]:
    """Laws of each family after the first, the best first, while equations are doubtful.

    Args:
        powers: laws of the first family, the best first.
    """
    best = powers[0] if powers else None
    for family in FAMILIES[1:] if (~p.constant).sum() <= MOST_STATES else ():
        doubt = ~p.constant if best is None else doubtful(best, p)
        if not doubt.any() or monitor.stopping():
            return
        monitor.stage(f"grow {family.name}", 1)
        laws = grow(
            p.data,
            p.noise,
            integer=~p.nonnegative | p.integer_exponents,
            family=family,
            size=p.scale.state,
            known=best,
            doubtful=doubt,
            monitor=monitor,
        )
        yield list(laws)
        better = [law for law in laws[:1] if best is None or doubtful(law, p).sum() < doubt.sum()]
        if better and better[0].features is None:
            best = better[0]
        elif better and not doubtful(better[0], p).any():
            return
