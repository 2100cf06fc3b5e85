"""Where the laws of each move come from.

What backward elimination cannot bring back is swapped: where 1 / sqrt(S) stands for R, removing it is always worse,
only R in its place is better. So each monomial of the best laws is replaced by simple ones in turn, and the new laws
are pruned like all others.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from odediscovery.families import TRIGONOMETRIC, Family
from odediscovery.judge.criterion import rank, score
from odediscovery.judge.doubt import WHOLE_POWER, interval_squares, is_explained
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.search.moves import Proposal, Search, begins_a_sine, in_doubt, likeliest, simplest
from odediscovery.search.refinement import NEAR, fit_library, is_coarse, is_growable, plain_law, sigma_of
from odediscovery.stages.grow.grow import QUICK_MONOMIALS, grow
from odediscovery.stages.grow.regression import fewest_terms, polynomials, propose_terms, shared_products
from odediscovery.stages.prune.prune import all_whole, has_whole_powers
from odediscovery.stages.values import FoundBy
from odediscovery.textbook.judged import as_law, criterion_of

GROWN = 8  # of grown laws so many are pruned, the best
MANY_STATES = 10  # of more states that change no richer families are looked through


def grow_powers(at: Search, most: int) -> list[PowerSum]:
    """Sums of real powers grown on the integral form, the best first."""
    p = at.problem
    if not at.settings.grow or not is_growable(p):
        return []
    at.monitor.stage("grow", 1)
    return [law for law in grow(p, max_monomials=most, monitor=at.monitor) if law.n_monomials][:GROWN]


def exact_law(at: Search) -> Iterator[Proposal]:
    """The law by which it is known that there is no noise."""
    law = at.problem.exact
    if law is not None:
        whole = all_whole(law.exponents)
        # Over a sample interval solutions are nearly linear in coefficients.
        yield Proposal([law], whole=whole, linear=whole, found_by="regression")
        short = fewest_terms(simplest(at.new, at.problem).law, at.problem) if at.new and whole else None
        if short is not None:
            yield Proposal([short], whole=True, linear=True, found_by="regression")


def plain_exact_law(at: Search) -> Iterator[Proposal]:
    """That law without the terms that are nothing once constants are exact."""
    found = None if at.problem.exact is None else plain_law(at.problem.exact, at.problem)
    if found is not None:
        yield Proposal([found], whole=True, found_by="regression")


def named_laws(at: Search) -> Iterator[Proposal]:
    """The likeliest textbook laws among those that are sums of powers."""
    p = at.problem
    fitted = sorted(at.named(), key=lambda one: criterion_of(p, one))
    scaled = [law.rescaled(p.scale.state, p.scale.time) for one in fitted if (law := as_law(one)) is not None]
    # A constant may have run far away.
    usable = [law for law in scaled if not law.mirrored and all(np.isfinite(part).all() for part in law.constants)]
    for whole in (True, False):
        yield Proposal([law for law in usable[:2] if has_whole_powers(law) is whole], whole=whole, found_by="textbook")


def near(laws: Callable[[Search], Iterator[Proposal]]) -> Callable[[Search], Iterator[Proposal]]:
    """What is proposed, without laws that leave so much that pruning them is not worth its time."""

    def nearest(at: Search) -> Iterator[Proposal]:
        for proposal in laws(at):
            kept = [k for k, law in enumerate(proposal.laws) if is_near(law, at.problem)]
            source = [proposal.source(k) for k in kept]
            yield dataclasses.replace(proposal, laws=[proposal.laws[k] for k in kept], found_by=source)

    return nearest


def sines_for_a_series(at: Search) -> Iterator[Proposal]:
    """Textbook laws with sines that come near, then sines in equations that may be the first terms of some.

    Other laws are for later moves: here they would stand alone, without simpler ones beside them.
    """
    for proposal in near(named_laws)(at):
        yield dataclasses.replace(proposal, laws=_with_functions(proposal.laws), found_by="textbook")
    p, best = at.problem, simplest(at.candidates, at.problem).law
    begun = begins_a_sine(best, p)
    if begun.any() and TRIGONOMETRIC in at.families:
        at.monitor.stage(f"grow {TRIGONOMETRIC.name}", 1)
        known = _with_whole_powers(best)
        grown = grow(p, family=TRIGONOMETRIC, known=known, doubtful=begun, monitor=at.monitor)
        yield _as_they_are(_with_functions(grown), whole=True)


def _with_functions(laws: Sequence[PowerSum]) -> list[PowerSum]:
    return [law for law in laws if law.features is not None and law.features.functions]


def few_powers(at: Search) -> Iterator[Proposal]:
    """A few monomials; the best of what comes of them is what richer families go on from."""
    p = at.problem
    powers = grow_powers(at, min(QUICK_MONOMIALS, at.settings.hidden))
    at.reference = powers[0] if powers else None
    if any(is_near(law, p) for law in powers):
        yield Proposal(powers)
        # Pruning may have shown what a grown law only nearly is.
        at.reference = simplest(at.new, p).law if at.new else powers[0]


def is_near(law: PowerSum, p: Problem) -> bool:
    """Whether a grown law leaves so little that pruning it is worth its time."""
    moving = ~p.constant
    return bool((interval_squares(law, p)[moving] < NEAR).all() or is_explained(law, p)[moving].all())


def richer_families(at: Search) -> Iterator[Proposal]:
    """Laws of each richer family, the best first, while equations of the reference are doubtful."""
    p = at.problem
    if (~p.constant).sum() > MANY_STATES:
        return
    if at.candidates and (at.reference is None or not p.clean):
        at.reference = rank(at.candidates, p.samples)[0].law
    for family in (f for f in _from_simple_to_rich(at) if not f.real_exponents):
        best = at.reference
        doubt = ~p.constant if best is None else in_doubt(at, best)
        if not doubt.any() or at.monitor.stopping():
            return
        at.monitor.stage(f"grow {family.name}", 1)
        known = None if best is None else _with_whole_powers(best)
        laws = grow(p, family=family, known=known, doubtful=doubt, monitor=at.monitor)
        yield _as_they_are(laws, whole=all(has_whole_powers(law) for law in laws))
        better = [law for law in laws[:1] if best is None or in_doubt(at, law).sum() < doubt.sum()]
        if better and better[0].features is None:
            at.reference = better[0]
        elif better and not in_doubt(at, better[0]).any():
            return


def _as_they_are(laws: Sequence[PowerSum], *, whole: bool) -> Proposal:
    """Grown laws of a family; without sums only coefficients are left to be fitted, if powers are whole."""
    linear = whole and not any(law.features is not None and len(law.features.sums) for law in laws)
    return Proposal(laws, whole=whole, linear=linear)


def _from_simple_to_rich(at: Search) -> list[Family]:
    """The families in the order in which they are tried."""
    p = at.problem
    if not p.nonnegative[~p.constant].all():
        return list(at.families)
    return sorted(at.families, key=lambda f: f.richness if f.richness_of_amounts is None else f.richness_of_amounts)


def _with_whole_powers(law: PowerSum) -> PowerSum:
    """The law with powers at whole numbers that are nearly there: equations in doubt disturb those of others."""
    a, w, *inner = law.constants
    whole = np.round(w)
    return law.with_constants(a, np.where(np.abs(w - whole) < WHOLE_POWER, whole, w), *inner)


def trained_members(at: Search) -> Iterator[Proposal]:
    """Random networks trained on one-interval windows."""
    yield Proposal(_trained(at), found_by="training")


def trained_and_grown(at: Search) -> Iterator[Proposal]:
    """Random networks trained on one-interval windows, and grown laws beside them."""
    p, trained = at.problem, list[PowerSum]()
    grown = grow_powers(at, at.settings.hidden)
    # Where every state changes its sign powers are whole: there is nothing that training could find.
    real = p.nonnegative[~p.constant].any() and not p.integer_exponents
    # On clean data whatever grows is grown.
    real = real and not (p.clean and at.settings.grow)
    if at.settings.members and real and not (at.out_of_time or (grown and at.monitor.stopping())):
        trained = _trained(at)
    sources: list[FoundBy] = ["training" if k < len(trained) else "growing" for k in range(len(trained) + len(grown))]
    yield Proposal([*trained, *grown], found_by=sources)


def _trained(at: Search) -> list[PowerSum]:
    from odediscovery.neural.members import trained_laws  # noqa: PLC0415 (torch waits until somebody trains)

    return trained_laws(at.problem, at.settings, at.monitor)


def whole_powers(at: Search) -> Iterator[Proposal]:
    """Laws of whole powers by regression; of samples that are few a turn all products up to degree two, fitted.

    Smoothing flattens such samples, so that they are fitted as they are.
    """
    p, coarse = at.problem, None
    if p.complete and is_coarse(p):
        coarse = fit_library(p, 2, at.monitor)
    laws = [*polynomials(p), *([] if coarse is None else [coarse])]
    yield Proposal(laws, whole=True, linear=True, found_by="regression")


def few_products(at: Search) -> Iterator[Proposal]:
    """Laws whose equations consist of the same few products, by regression, unless it confirms the best law."""
    known = likeliest(at).law if at.candidates else None
    yield Proposal(shared_products(at.problem, known), whole=True, linear=True, found_by="regression")


def freed_powers(at: Search) -> Iterator[Proposal]:
    """The best law with real powers of all states that never change sign, if it has any."""
    p, best = at.problem, likeliest(at)
    if not p.integer_exponents and (best.law.exponents[:, : p.data.n_states][:, p.nonnegative] != 0).any():
        yield Proposal([best.law], found_by=[best.found_by])


def swapped_monomials(at: Search) -> Iterator[Proposal]:
    """The best candidates with one monomial replaced by a product of at most two states, everywhere."""
    p = at.problem
    pool = [np.array(w) for w in itertools.product((0.0, 1.0), repeat=p.data.n_states) if sum(w) <= 2]
    laws: list[PowerSum] = []
    sources: list[FoundBy] = []
    seen: set[bytes] = set()
    bases = 0
    for candidate in rank(at.candidates, p.samples):
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
                sources.append(candidate.found_by)
        bases += 1
        if bases == 4:
            break
    yield Proposal(laws[:80], found_by=sources[:80])


def _form(law: PowerSum) -> bytes:
    """Which states stand in which monomials of which equations, whatever the order."""
    rows = zip(law.exponents != 0, (law.coefficients != 0).T, strict=True)
    return b"".join(sorted(w.tobytes() + a.tobytes() for w, a in rows))


def noisy_families(at: Search) -> Iterator[Proposal]:
    """Laws of each richer family that is looked through in noise."""
    if (~at.problem.constant).sum() > MANY_STATES:
        return
    for family in _from_simple_to_rich(at):
        if family.real_exponents or not family.in_noise:
            continue
        if at.monitor.stopping():
            return
        at.monitor.stage(f"grow {family.name}", 1)
        yield _as_they_are(grow(at.problem, family=family, monitor=at.monitor)[:GROWN], whole=True)


def terms_along_the_best(at: Search) -> Iterator[Proposal]:
    """What regression along the trajectory of the best law proposes, and again along a better one.

    A law along which no family does better is unrivalled. Nothing where controls act or something is known of the
    law: terms are sought as if all were free.
    """
    p, sought = at.problem, [f for f in at.families if f.in_noise]
    known = p.data.controls or p.knowledge is not None
    if known or not (sought and at.candidates) or (~p.constant).sum() > MANY_STATES:
        return
    families, idle = itertools.cycle(sought), 0
    base, near, family = None, None, next(families)
    for _ in range(10):
        best = rank(at.candidates, p.samples)[0]
        if best is not base:
            base, near = best, at.follow(best) or near
        if idle == len(sought):
            at.unrivalled = best
            return
        if near is None or at.monitor.stopping():
            return
        at.monitor.stage(f"terms along a law: {family.name}", 1)
        q, law = near
        # Real powers that other equations have stay real.
        whole = not family.real_exponents and all_whole(law.law.exponents[:, : p.data.n_states])
        yield Proposal(propose_terms(q, law.law, law.initial, sigma_of(q), family), whole=whole, found_by="regression")
        least = min((score(c, p.samples) for c in at.new), default=np.inf)
        # Along a law that is hardly better nothing else would be found.
        idle = 0 if least < score(best, p.samples) - 1.0 else idle + 1
        family = next(families) if idle else family
