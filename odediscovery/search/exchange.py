"""Exchange: what backward elimination cannot bring back.

Where 1 / sqrt(S) stands for R, removing it is always worse; only R in its place is better. So
each monomial of the best laws is replaced by simple ones in turn, and the new laws are pruned
like all others.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from odediscovery.judge.criterion import rank
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.stages.values import Candidate

# Candidates whose monomials are exchanged, and laws that come of it at most.
EXCHANGED, MOST_EXCHANGED = 4, 80


def exchanged(p: Problem, candidates: Sequence[Candidate]) -> list[PowerSum]:
    """The best candidates with one monomial replaced by a simple one, in all its equations."""
    pool = [np.array(w) for w in itertools.product((0.0, 1.0), repeat=p.data.n_states) if sum(w) <= 2]
    laws: list[PowerSum] = []
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
                laws.append(new)
        bases += 1
        if bases == EXCHANGED:
            break
    return laws[:MOST_EXCHANGED]


def _form(law: PowerSum) -> bytes:
    """Which states stand in which monomials of which equations, whatever the order."""
    rows = zip(law.exponents != 0, (law.coefficients != 0).T, strict=True)
    return b"".join(sorted(w.tobytes() + a.tobytes() for w, a in rows))
