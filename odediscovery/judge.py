"""Judging: which of many laws do the data support?

    criterion = sum over states of n ln(SSR / n + floor^2) + k (ln N + 2 ln p)

on trajectories integrated from fitted start values, never on derivatives. The floor (the
largest of rounding and integration error) keeps clean data from buying terms with digits that
carry no information. k counts coefficients and non-zero exponents; p = n (n + 1) is the number
of places where n equations could have one more. A search tries them all, and the best of many
useless constants looks better than a useless constant should: BIC alone forgets that.

Source: Chen and Chen, Extended Bayesian information criteria (Biometrika 95, 2008), gamma = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.polish import Polished
from odediscovery.powersum import Array, PowerSum


@dataclass(frozen=True, eq=False)
class Candidate:
    """A law on the way to the judge, dimensionless.

    Args:
        law: a sum of powers.
        initial: start values to begin from, [trajectories, states].
        mean_square: of its weighted training residuals.
        origin: index of the pruned law it came from, for the log.
    """

    law: PowerSum
    initial: Array
    mean_square: float
    origin: int


def criterion(squares: Array, counts: Array, floor: Array, constants: int) -> float:
    """The information criterion above; lower is better, inf for a law that blows up."""
    if not np.isfinite(squares).all():
        return float("inf")
    seen = counts > 0
    fit = counts[seen] * np.log(squares[seen] / counts[seen] + floor[seen] ** 2)
    return float(fit.sum() + constants * price(len(squares), counts.sum()))


def price(states: int, samples: float) -> float:
    """What one constant has to gain in twice the log-likelihood: ln N + 2 ln(n (n + 1))."""
    return float(np.log(max(samples, 2.0)) + 2.0 * np.log(states * (states + 1)))


def constants_of(law: PowerSum) -> int:
    """Coefficients and non-zero exponents."""
    return int(np.count_nonzero(law.coefficients) + np.count_nonzero(law.exponents))


def shortlist(
    candidates: Sequence[Candidate], samples: int, floor: float, *, around: int = 4
) -> list[Candidate]:
    """The best candidate of each complexity near the best of all, simplest first.

    Args:
        samples: number of residuals behind `mean_square`.
        floor: mean square that integration error alone explains.
        around: how many complexities are kept on either side of the best.
    """
    best: dict[int, Candidate] = {}
    for c in candidates:
        size = c.law.complexity
        if size not in best or c.mean_square < best[size].mean_square:
            best[size] = c
    # Only rows that beat everything simpler belong to the front.
    front: list[Candidate] = []
    for size in sorted(best):
        if not front or best[size].mean_square < front[-1].mean_square:
            front.append(best[size])
    if not front:
        return []
    scores = [
        samples * np.log(c.mean_square + floor)
        + constants_of(c.law) * price(c.law.n_states, samples)
        for c in front
    ]
    middle = int(np.argmin(scores))
    return front[max(middle - around, 0) : middle + around + 1]


@dataclass(frozen=True, eq=False)
class Judged:
    """A polished law with its criterion."""

    polished: Polished
    criterion: float
    origin: int


def judged(polished: Polished, floor: Array, origin: int) -> Judged:
    """The polished law with its criterion."""
    k = constants_of(polished.law)
    return Judged(polished, criterion(polished.squares, polished.counts, floor, k), origin)


def choose(rows: Sequence[Judged]) -> int:
    """Index of the row with the smallest criterion."""
    return int(np.argmin([row.criterion for row in rows]))


def non_dominated(rows: Sequence[Judged], chosen: int) -> list[int]:
    """Rows that are better than every simpler one, simplest first; the chosen one always."""
    order = sorted(range(len(rows)), key=lambda i: rows[i].polished.law.complexity)
    kept: list[int] = []
    least = np.inf
    for i in order:
        total = float((rows[i].polished.squares / rows[i].polished.counts.clip(1)).sum())
        if total < least or i == chosen:
            kept.append(i)
            least = min(least, total)
    return kept

