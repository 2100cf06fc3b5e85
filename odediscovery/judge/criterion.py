"""Judging: which of many laws do the data support?

    criterion = sum over states of n ln(SSR / n + floor^2) + cost * N / (N - K - 2)

on trajectories integrated from fitted start values, never on derivatives. The floor is the
largest of estimated noise, rounding and integration error: a closer fit earns nothing, neither in
the last digits of clean data nor in the noise of measured ones. `cost` is
that of `cost.cost`; the factor, with K fitted numbers (start values included), corrects for
small samples, where every fitted number takes away residual.

Source: McQuarrie and Tsai, Regression and Time Series Model Selection (1998), BICc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import Free, constant_penalty, cost, count
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.stages.values import Candidate, Judged, Origin, Polished


@dataclass(frozen=True)
class CriterionThresholds(Thresholds):
    """What decides which laws are judged, and when one is better than another."""

    close: float = threshold(
        6.0,
        "candidates of one complexity whose scores on windows differ by less are all judged",
        unit="criterion",
        origin="chosen: a likelihood ratio of 20, where evidence begins to be strong; sensitivity in docs/thresholds",
    )
    alike: int = threshold(3, "so many of one complexity at most", origin="cost: each is polished")
    around: int = threshold(
        4, "complexities on either side of the best one that are judged", origin="cost: each is polished"
    )
    no_evidence: float = threshold(
        4.0,
        "difference of the criterion up to which another law is about as good",
        unit="criterion",
        origin="chosen: a likelihood ratio of 7; sensitivity in docs/thresholds",
    )
    fragile_price: int = threshold(
        4, "what it costs a law to run away from starts that the data allow", unit="free constants"
    )


CRITERION = CriterionThresholds()


def correction(samples: float, fitted: int) -> float:
    """N / (N - K - 2): the factor of the penalty for small samples.

    Args:
        samples: number of observed values N.
        fitted: numbers fitted to them K, start values included.
    """
    return samples / max(samples - fitted - 2.0, 1.0)


def penalty(law: PowerSum, free: Free, samples: float, starts: int) -> float:
    """The second part of the criterion: cost * N / (N - K - 2).

    Args:
        free: which constants of the law are fitted.
        samples: number of observed values N.
        starts: number of fitted start values.
    """
    return cost(law, free, samples) * correction(samples, count(free) + starts)


def judge(polished: Polished, floor: Array, origin: Origin, *, fragile: bool = False) -> Judged:
    """The polished law with its criterion.

    Args:
        floor: standard deviation that noise, rounding and integration explain [states].
        fragile: whether it runs away from starts that the data allow.
    """
    squares, counts = polished.squares, polished.counts
    if not polished.finite or not np.isfinite(squares).all():
        return Judged(polished, float("inf"), origin)
    seen = counts > 0
    misfit = counts[seen] * np.log(squares[seen] / counts[seen] + floor[seen] ** 2)
    charged = penalty(polished.law, polished.free, counts.sum(), polished.initial.size)
    charged += fragile * CRITERION.fragile_price * constant_penalty(polished.law.n_states, counts.sum())
    return Judged(polished, float(misfit.sum() + charged), origin, fragile)


def score(c: Candidate, samples: int, floor: float = ABOVE_ZERO) -> float:
    """Misfit on training windows and penalty of a candidate, lower is better.

    Args:
        samples: number of observed values.
        floor: mean square that integration error alone explains.
    """
    charged = penalty(c.law, c.free, samples, c.initial.size)
    return float(samples * np.log(max(c.mean_square + floor, ABOVE_ZERO)) + charged)


def rank(candidates: Sequence[Candidate], samples: int) -> list[Candidate]:
    """The candidates by `score`, the best first."""
    return sorted(candidates, key=lambda c: score(c, samples))


def shortlist(
    candidates: Sequence[Candidate], samples: int, floor: float, *, around: int | None = None
) -> list[Candidate]:
    """The best candidates of each complexity near the best of all, simplest first.

    Several laws of one complexity are listed where windows hardly distinguish them. Laws with whole
    powers and laws with real ones are listed separately: the same complexity costs them differently.

    Args:
        samples: number of observed values.
        floor: mean square that integration error alone explains.
        around: how many complexities are kept on either side of the best, of each kind (default:
            `CRITERION.around`).
    """
    around = CRITERION.around if around is None else around
    listed: list[Candidate] = []
    for whole in (False, True):
        of_size: dict[int, list[Candidate]] = {}
        for c in sorted(candidates, key=lambda c: c.mean_square):
            if bool(c.whole.all()) is whole:
                of_size.setdefault(c.law.complexity, []).append(c)
        # Only rows that beat everything simpler belong to the front.
        front: list[Candidate] = []
        for size in sorted(of_size):
            if not front or of_size[size][0].mean_square < front[-1].mean_square:
                front.append(of_size[size][0])
        scores = [score(c, samples, floor) for c in front]
        middle = int(np.argmin(scores)) if front else 0
        for c in front[max(middle - around, 0) : middle + around + 1]:
            listed += _as_good(of_size[c.law.complexity], samples, floor)
    return sorted(listed, key=lambda c: c.law.complexity)


def _as_good(candidates: Sequence[Candidate], samples: int, floor: float) -> list[Candidate]:
    """The first candidate, and others of its complexity with other monomials and a like score."""
    kept = [candidates[0]]
    most = score(candidates[0], samples, floor) + CRITERION.close
    for c in candidates[1:]:
        if score(c, samples, floor) > most or len(kept) == CRITERION.alike:
            break
        if all(c.form != k.form for k in kept):
            kept.append(c)
    return kept


def choose(rows: Sequence[Judged]) -> int:
    """Index of the row with the smallest criterion."""
    return int(np.argmin([row.criterion for row in rows]))


def non_dominated(rows: Sequence[Judged], chosen: int, scale: Array) -> list[int]:
    """Rows that are better than every simpler one, simplest first; the chosen one always, alone of its complexity.

    Args:
        scale: what the states were divided by [states]: better means a smaller mean squared
            error in the user's units.
    """

    def mean_square(i: int) -> float:
        return float((rows[i].polished.plain_squares * scale**2).sum())

    taken = rows[chosen].polished.law.complexity
    # What will not be shown hides nothing.
    shown = [i for i, row in enumerate(rows) if i == chosen or row.polished.law.complexity != taken]
    order = sorted(shown, key=lambda i: (rows[i].polished.law.complexity, mean_square(i)))
    kept: list[int] = []
    least = np.inf
    for i in order:
        if mean_square(i) < least or i == chosen:
            kept.append(i)
            least = min(least, mean_square(i))
    return kept
