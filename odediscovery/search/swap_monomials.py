"""One monomial for another: what backward elimination cannot bring back.

Where 1 / sqrt(S) stands for R, removing it is always worse; only R in its place is better. So
each monomial of the best laws is replaced by simple ones in turn, and the new laws are pruned
like all others.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.judge.criterion import rank
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.stages.values import Candidate, FoundBy


@dataclass(frozen=True)
class SwapThresholds:
    """How much is swapped."""

    candidates: int = 4  # candidates whose monomials are swapped
    max_laws: int = 80  # most laws that come of it


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


def _form(law: PowerSum) -> bytes:
    """Which states stand in which monomials of which equations, whatever the order."""
    rows = zip(law.exponents != 0, (law.coefficients != 0).T, strict=True)
    return b"".join(sorted(w.tobytes() + a.tobytes() for w, a in rows))
