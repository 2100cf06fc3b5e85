"""One monomial for another: what backward elimination cannot bring back.

Where 1 / sqrt(S) stands for R, removing it is always worse; only R in its place is better. So
each monomial of the best laws is replaced by simple ones in turn. Where x and x^2 together stand for
x^1.5, each of them is needed; only one real power in the place of both is better. The new laws are
pruned like all others.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odediscovery.judge.criterion import rank
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.stages.values import Candidate, FoundBy

Index = NDArray[np.int64]


@dataclass(frozen=True)
class SwapThresholds(Thresholds):
    """How much is swapped."""

    candidates: int = threshold(4, "candidates whose monomials are swapped")
    max_laws: int = threshold(80, "most laws that come of it", origin="cost: members of one batch")
    powers: tuple[float, ...] = threshold(
        tuple(np.arange(-12, 17) / 4),
        "real powers that are tried for a sum of whole ones",
        origin="pruning refits them",
    )


SWAPS = SwapThresholds()


def swap_monomials(p: Problem, candidates: Sequence[Candidate]) -> list[tuple[PowerSum, FoundBy]]:
    """The best candidates with one monomial replaced by a product of at most two states, everywhere.

    Beside each stands the stage that the candidate came from.
    """
    pool = [np.array(w) for w in itertools.product((0.0, 1.0), repeat=p.data.n_states) if sum(w) <= 2]
    laws: list[tuple[PowerSum, FoundBy]] = []
    seen: set[bytes] = set()
    bases = 0
    for candidate in rank(candidates, p.samples):
        law = candidate.law.merged()
        if law.features is not None or _form(law) in seen:
            continue
        seen.add(_form(law))
        for j, w in itertools.product(range(law.n_monomials), pool):
            exponents = law.exponents.copy()
            exponents[j] = w
            new = dataclasses.replace(law, exponents=exponents)
            if _form(new) not in seen:
                seen.add(_form(new))
                laws.append((new, candidate.found_by))
        bases += 1
        if bases == SWAPS.candidates:
            break
    return laws[: SWAPS.max_laws]


def merge_powers(p: Problem, law: PowerSum) -> list[PowerSum]:
    """The law with real powers of an amount in the place of sums of its whole powers:

        (a x^v + b x^w + ...) m  ->  c x^u m,    m a product of other states

    In all equations at once and in each of them alone, with and without the term that has no x.
    """
    x = np.concatenate([t.values for t in p.smooth.trajectories])
    found: list[PowerSum] = []
    for least in (1.0, 0.0):
        sums = [_longest_sum(law, i, p.nonnegative, least) for i in range(len(law.coefficients))]
        merged = {i: _merged(law, i, *of, x) for i, of in enumerate(sums) if of is not None}
        each = [[one] for one in merged] if len(merged) > 1 else []
        for chosen in ([list(merged)] if merged else []) + each:
            a = np.hstack([law.coefficients, np.zeros((len(law.coefficients), len(chosen)))])
            w = np.vstack([law.exponents, *[merged[i][2] for i in chosen]])
            for place, i in enumerate(chosen):
                terms, c, _ = merged[i]
                a[i, terms], a[i, law.n_monomials + place] = 0.0, c
            found.append(dataclasses.replace(law, coefficients=a, exponents=w).merged())
    return list({one.coefficients.tobytes() + one.exponents.tobytes(): one for one in found}.values())


def _longest_sum(law: PowerSum, i: int, amounts: Mask, least: float) -> tuple[int, Index] | None:
    """State and terms of the longest sum of an equation over powers of one amount from `least` on, of two terms."""
    used = np.flatnonzero(law.coefficients[i])
    best: tuple[int, Index] | None = None
    for k in np.flatnonzero(amounts):
        rest = np.delete(law.exponents[used], k, axis=1)
        for one in np.unique(rest, axis=0):
            terms = used[(rest == one).all(axis=1) & (law.exponents[used, k] >= least)]
            if len(terms) > (1 if best is None else len(best[1])):
                best = int(k), terms
    return best


def _merged(law: PowerSum, i: int, k: int, terms: Index, x: Array) -> tuple[Index, float, Array]:
    """Terms of an equation, and the coefficient and exponents of the one power nearest to them in least squares."""
    total = law.monomials(x)[:, terms] @ law.coefficients[i, terms]
    rows = np.repeat(law.exponents[terms[:1]], len(SWAPS.powers), axis=0)
    rows[:, k] = SWAPS.powers
    columns = PowerSum(np.ones((len(law.coefficients), len(rows))), rows).monomials(x)
    size = np.sum(columns**2, axis=0)
    with np.errstate(all="ignore"):  # negative powers of nothing
        c = total @ columns / size
        explained = np.where(np.isfinite(size) & (size > 0.0), c**2 * size, -np.inf)
    best = int(np.argmax(explained))
    return terms, float(c[best]), rows[best]


def _form(law: PowerSum) -> bytes:
    """Which states stand in which monomials of which equations, whatever the order."""
    rows = zip(law.exponents != 0, (law.coefficients != 0).T, strict=True)
    return b"".join(sorted(w.tobytes() + a.tobytes() for w, a in rows))
