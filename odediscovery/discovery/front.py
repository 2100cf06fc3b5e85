"""The shortlist polished, judged and simplified: rows of the Pareto front."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.judge.criterion import choose, judge, penalty, shortlist
from odediscovery.judge.stability import runs_away
from odediscovery.laws.cost import Free, constant_penalty
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import Prepared
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import MOST, refined, sigma_of
from odediscovery.stages.polish.snap import merged_law, snap
from odediscovery.stages.values import SETTLED, Candidate, Judged, Polished

# A candidate whose mean square is this many times the best one's is polished only roughly: most
# evaluations in noise and on clean data, where it will not turn out to be right.
FAR, ROUGHLY = 10.0, (8, 4)
# Share of the estimated noise's variance below which what a law leaves shows that it is smaller.
QUIET = 0.5
# Share of an equation's largest term below which another one is no evidence.
NEGLIGIBLE = 1e-6


def polish_candidate(p: Prepared, c: Candidate, law: PowerSum, free: Free, most: int) -> Polished:
    initial = c.initial if p.heads is None else p.initial
    found = refined(p, law, free, initial, sigma_of(p), most)
    if p.knowledge is not None and found.finite and not p.knowledge.allows(found.law):
        # Exponents have left their bounds: they are held there.
        found = refined(p, found.law, found.free, found.initial, sigma_of(p), most)
    return found


def polish_shortlist(
    p: Prepared, candidates: list[Candidate], known: dict[Candidate, Polished], monitor: Monitor
) -> list[Judged]:
    """The shortlist with constants refined on whole trajectories, those that integrate.

    What is more complex than a law that leaves nothing could only fit rounding: it is left out.

    Args:
        known: laws that are polished already.
    """
    floor = SETTLED if p.clean else 0.0
    around = 1 if monitor.stopping() else 4
    listed = shortlist(candidates, p.samples, floor, around=around)
    least = min((c.mean_square for c in listed), default=0.0) + floor
    monitor.stage("polish", len(listed))
    rows: list[Judged] = []
    for i, c in enumerate(listed):
        if any(_needless(p, c, row) for row in rows):
            continue
        # A row that is far from the data is there for the front, not for its constants.
        far = c.mean_square > FAR * least
        most = 3 if monitor.stopping() else ROUGHLY[p.clean] if far else MOST
        polished = known.get(c) or polish_candidate(p, c, c.law, c.free, most)
        law, free = drop_negligible(polished.law, polished.free, pooled(p.smooth))
        if law is not polished.law and polished.finite:
            polished = polish_candidate(p, c, law, free, most)
        kept = polished.finite and _printable(p, polished.law)
        if kept:
            rows.append(judge(polished, sigma_of(p), c.origin, fragile=_fragile(p, polished)))
        monitor.step(i + 1)
        monitor.note(
            event="candidate",
            origin=c.origin,
            complexity=c.law.complexity,
            mean_square=c.mean_square,
            finite=polished.finite,
            criterion=rows[-1].criterion if kept else None,
        )
    if not rows and len(listed) < len(candidates):
        # What is best on windows may blow up beyond them if there was no time to refine it.
        return polish_shortlist(p, [c for c in candidates if c not in listed], known, monitor)
    return rows


def _needless(p: Prepared, c: Candidate, row: Judged) -> bool:
    """Whether clean data leave a candidate nothing to win from a row that is simpler.

    What the row leaves of whole trajectories is explained by rounding and integration.
    """
    best = row.polished
    if not p.clean or c.law.complexity <= best.law.complexity:
        return False
    starts = c.initial.size
    dearer = penalty(c.law, c.free, p.samples, starts) >= penalty(best.law, best.free, p.samples, starts)
    return dearer and bool((best.squares <= best.counts * sigma_of(p) ** 2).all())


def lower_noise(p: Prepared, rows: list[Judged]) -> tuple[Prepared, list[Judged]]:
    """The rows judged anew where a law leaves far less than what was taken for noise.

    What is sampled a few times a turn looks noisier than it is, until a law is known.
    """
    left = np.stack([r.polished.squares / r.polished.counts.clip(1) for r in rows])
    share = (left / sigma_of(p) ** 2).min(axis=0)
    if p.clean or not (share < QUIET).any():
        return p, rows
    noise = np.where(share < QUIET, np.sqrt(share) * p.noise, p.noise)
    p = dataclasses.replace(p, noise=noise)
    return p, [judge(r.polished, sigma_of(p), r.origin, fragile=r.fragile) for r in rows]


def _printable(p: Prepared, law: PowerSum) -> bool:
    """Whether numbers are large enough for its coefficients in the user's units."""
    return bool(np.isfinite(law.unscaled(p.scale.state, p.scale.time).coefficients).all())


def _fragile(p: Prepared, found: Polished) -> bool:
    return not p.clean and runs_away(found.law, p.data, found.initial, p.start_errors, p.nonnegative)


def drop_negligible(law: PowerSum, free: Free, x: Array) -> tuple[PowerSum, Free]:
    """The law without terms smaller than what the solvers that judge leave uncertain.

    Over a long or chaotic trajectory such a term can fit the error of the integration.

    Args:
        x: states at which terms are compared, [samples, states].
    """
    if not law.n_monomials:
        return law, free
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.sqrt(np.mean(law.monomials(x) ** 2, axis=0)) * np.abs(law.coefficients)
    small = (law.coefficients != 0) & (size < NEGLIGIBLE * size.max(axis=1, keepdims=True))
    if not small.any():
        return law, free
    _, w, b, v = law.constants
    kept = law.with_constants(np.where(small, 0.0, law.coefficients), w, b, v)
    return merged_law(kept, free)


def simplify_exponents(p: Prepared, rows: list[Judged], monitor: Monitor) -> list[Judged]:
    """Rows that could still win, with simple exponents where the data cannot tell."""
    best = rows[choose(rows)].criterion
    monitor.stage("snap", len(rows))

    def refit(law: PowerSum, free: Free, row: Judged) -> Judged:
        before = row.polished
        sigma = np.maximum(np.sqrt(before.squares / before.counts.clip(1)), p.floor)
        after = refined(p, law, free, before.initial, sigma)
        return judge(after, sigma_of(p), row.origin, fragile=row.fragile)

    simple = []
    for i, row in enumerate(rows):
        law, free = row.polished.law, row.polished.free
        gain = int(free[1].sum()) * constant_penalty(law.n_states, row.polished.counts.sum())
        if row.criterion - gain < best and not monitor.stopping():
            row = snap(row, partial(refit, row=row))
            best = min(best, row.criterion)
        simple.append(row)
        monitor.step(i + 1)
    return simple
