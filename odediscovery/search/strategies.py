"""The default search: which laws are worth judging?

Members come from two sides. Grown ones start from laws that were built monomial by monomial on
the integral form, exact on clean data; random ones are trained by Adam and LBFGS under L1,
robust in noise. Both are networks of one batch, pruned in the same way. On clean data the
residuals are those of one-interval windows, each from a measured state; in noise they are
those of long windows with fitted starts, where noise of a start cannot pass for physics. Laws of
richer families are grown, and in noise sought along the trajectory of the best law at last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odediscovery.families import FAMILIES
from odediscovery.fitting.levenberg_marquardt import levenberg_marquardt
from odediscovery.fitting.windows import ShortResiduals, short_windows
from odediscovery.judge.criterion import rank, score
from odediscovery.judge.doubt import doubtful, interval_squares, is_convincing, is_short, is_within_noise
from odediscovery.judge.residual_tests import has_no_memory
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.translate import laws_of, members_of
from odediscovery.problem.impose import apply_knowledge, fixed_mask
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.exchange import exchanged
from odediscovery.search.ladder import climb
from odediscovery.search.refine_terms import along_the_best, followed_closely
from odediscovery.settings import Settings
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.grow.grow import QUICK, grow
from odediscovery.stages.grow.polynomials import library_law, polynomials
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.prune.paths import PRUNING_WINDOWS, all_whole, prune_laws, whole_inputs
from odediscovery.stages.train import trained_laws
from odediscovery.stages.values import STAGES, Candidate

# Grown laws that are pruned: the best.
GROWN = 8
# Laws found without noise that are looked at as if there were some.
FEW = 3
# Relative mean square of one-interval windows below which a grown law is worth pruning.
NEAR = 1e-3
# Noise (share of a state's spread) above which growing on the integral form leads astray.
GROWABLE = 0.003
# Clear extrema for each sample interval above which smoothing is not believed.
COARSE = 0.1
# Extrema in a window on which laws fitted to such samples are pruned.
BRIEF = 2.0
# Members whose first refit is this many times worse than the best one's are not pruned.
HOPELESS = 100.0
# Families that are tried in noise.
RICH = tuple(f for f in FAMILIES if f.in_noise and not f.real_exponents)
# The same for laws that came of an exchange or were grown in noise, after a few steps.
PROMISING, FROM_GROWN = 1.3, 10.0
# Residuals of a law, in units of what smoothing leaves, below which it is not to be improved.
ALL = 1.05
# Difference of two laws' scores below which neither is better.
GAIN = 1e-3


def search(p: Problem, settings: Settings, monitor: Monitor) -> list[Candidate]:
    """Candidate laws from every step of every member's pruning path."""
    candidates: list[Candidate] = []
    if p.exact is not None:
        whole = all_whole(p.exact.exponents)
        # Over a sample interval solutions are nearly linear in coefficients.
        candidates = prune_laws(p, [p.exact], Elimination(linear=whole), monitor, whole=whole, fitted=True)
        if settled(candidates) and not doubtful(simplest(candidates, p).law, p).any():
            return candidates
    if settings.grow and p.complete and p.noisiness <= GROWABLE:
        # The estimate of small noise is no more than that: exact laws tell that there is none.
        found, done = clean_search(p, settings, monitor)
        candidates += found
        if done:
            # Whole powers may be all that even little noise lets tell.
            return candidates + prune_laws(p, polynomials(p), Elimination(), monitor, whole=True)
        if settled(candidates) or (p.clean and candidates and monitor.stopping()):
            return candidates
    if not p.clean:
        return noisy_search(p, settings, monitor, candidates)
    grown = _grown(p, settings, monitor, settings.hidden)
    candidates += prune_laws(p, grown, Elimination(), monitor)
    stopped = bool(candidates) and monitor.stopping() is not None
    if settled(candidates) or stopped or not settings.members or p.integer_exponents:
        return candidates
    laws = trained_laws(p, settings, monitor)
    return candidates + prune_laws(p, laws, Elimination(hopeless=HOPELESS), monitor)


def confirmed(p: Problem, monitor: Monitor) -> Problem:
    """The series without noise if some law of whole powers leaves nothing between samples.

    The noise of fast changes that are sampled coarsely cannot be estimated before a law is known,
    nor that of states whose inputs bend or jump at samples; there a law of real powers will do.
    Where whole powers leave nothing of clean data, real ones would be hard to tell from them.
    """
    if not p.complete:
        return p
    taken = p.without_noise(None)
    for degree in (1, 2):
        law = library_fit(p, degree, monitor, near=NEAR if p.clean else np.inf)
        if monitor.stopping():
            break
        if law is not None and interval_squares(law, taken)[~p.constant].max() < STAGES.settled:
            return p.without_noise(law)
    if p.data.controls and not p.clean and p.noisiness <= GROWABLE:
        for law in grow(
            taken.data,
            taken.noise,
            integer=~taken.nonnegative | p.integer_exponents,
            max_monomials=QUICK,
            monitor=monitor,
        )[:1]:
            if interval_squares(law, taken)[~p.constant].max() < STAGES.settled:
                return p.without_noise(law)
    return p


def library_fit(p: Problem, degree: int, monitor: Monitor, near: float = np.inf) -> PowerSum | None:
    """All products up to a degree, fitted to the samples as they are, without smoothing.

    Args:
        near: what regression may leave between samples, for the fit to be worth its time.
    """
    taken = p.without_noise(None)
    law = library_law(taken, degree)
    if law is None or interval_squares(law, taken)[~p.constant].max() > near:
        return None
    field = members_of([law], taken.nonnegative, whole=True)
    for accuracy in (PRUNING_WINDOWS.accuracy, PRUNING_WINDOWS.accuracy_clean):
        windows = short_windows(taken).refined(field, field.theta, accuracy)
        fit = levenberg_marquardt(ShortResiduals(windows, field), field.theta, field.free, 20, monitor=monitor)
        field = field.replace(fit.unknowns)
    return laws_of(field)[0]


def again(p: Problem, laws: Sequence[PowerSum], monitor: Monitor) -> list[Candidate]:
    """What becomes of laws that were found before, in the user's units, beside new ones."""
    scaled = [law.rescaled(p.scale.state, p.scale.time) for law in laws if law.n_monomials]
    # Real powers of what is negative here are none.
    scaled = [law for law in scaled if not law.mirrored]
    found: list[Candidate] = []
    if p.clean:
        # As they were grown: on clean data pruning has nothing to take from them.
        rich = [law for law in scaled if law.features is not None]
        scaled = [law for law in scaled if law.features is None]
        found = [grown_candidate(law, p) for law in rich]
    for whole in (True, False):
        alike = [law for law in scaled if all_whole(law.exponents) is whole]
        if alike:
            found += prune_laws(p, alike, Elimination(), monitor, whole=whole)
    return found


def noisy_search(
    p: Problem, settings: Settings, monitor: Monitor, grown_clean: Sequence[Candidate] = ()
) -> list[Candidate]:
    """From simple to rich until a short law leaves noise only.

    Laws of whole powers first, which may be all that noise lets tell; then trained members with
    real powers; laws of rich families last.

    Args:
        grown_clean: what was found as if there were no noise, where there is hardly any.
    """
    long, candidates = settings.prune_long, list[Candidate]()
    if grown_clean:
        first = rank(grown_clean, p.samples)[0]
        whole = bool(first.whole.all())
        alike = [c.law for c in rank(grown_clean, p.samples) if bool(c.whole.all()) is whole]
        candidates += prune_laws(p, alike[:FEW], Elimination(), monitor, whole=whole, long=long)
        if is_convincing(p, candidates):
            return candidates
    if settings.grow:
        coarse = coarse_laws(p, monitor, long=long)
        if whole_is_enough(p, coarse, monitor, long=long, extrema=BRIEF):
            return coarse
        laws = polynomials(p) + [c.law for c in rank(coarse, p.samples)[:1]]
        candidates += prune_laws(p, laws, Elimination(), monitor, whole=True, long=long)
        if whole_is_enough(p, candidates, monitor, long=long):
            return candidates
    grown = _grown(p, settings, monitor, settings.hidden)
    if settings.members and not p.integer_exponents and not (grown and monitor.stopping()):
        grown = trained_laws(p, settings, monitor) + grown
    how = Elimination(hopeless=HOPELESS)
    candidates += prune_laws(p, grown, how, monitor, long=long)
    candidates += improved(p, candidates, monitor, long=long)
    if settings.grow and not is_convincing(p, candidates) and not monitor.stopping():
        candidates += rich_candidates(p, monitor, long=long)
        if not is_convincing(p, candidates):
            candidates += along_the_best(p, candidates, monitor, long=long)
    return candidates


def coarse_laws(p: Problem, monitor: Monitor, *, long: bool) -> list[Candidate]:
    """What pruning makes of a whole library fitted to samples that are few a turn.

    Smoothing flattens such samples, so they are taken as they are; brief windows forgive that the
    law which is pruned is still far from the true one, longer ones would be out of phase.
    """
    law = library_fit(p, 2, monitor) if p.extrema_per_interval > COARSE and p.complete else None
    if law is None:
        return []
    return prune_laws(p, [law], Elimination(), monitor, whole=True, long=long, extrema=BRIEF)


def improved(p: Problem, candidates: list[Candidate], monitor: Monitor, *, long: bool) -> list[Candidate]:
    """What an exchange of monomials leads to, unless the best law leaves noise only."""
    least = min((c.mean_square for c in candidates), default=np.inf)
    if least < ALL * p.unexplained or monitor.stopping():
        return []
    how = Elimination(hopeless=PROMISING, first_steps=12)
    return prune_laws(p, exchanged(p, candidates), how, monitor, long=long)


def rich_candidates(p: Problem, monitor: Monitor, *, long: bool) -> list[Candidate]:
    """Laws of rich families grown on the smoothed path, and what pruning makes of them."""
    found: list[Candidate] = []
    how = Elimination(hopeless=FROM_GROWN, first_steps=12)
    for family in RICH:
        if monitor.stopping():
            break
        monitor.stage(f"grow {family.name}", 1)
        laws = grow(
            p.data,
            p.noise,
            integer=~p.nonnegative | p.integer_exponents,
            family=family,
            size=p.scale.state,
            monitor=monitor,
        )[:GROWN]
        found += prune_laws(p, laws, how, monitor, whole=True, long=long)
    return found


def whole_is_enough(
    p: Problem, candidates: list[Candidate], monitor: Monitor, *, long: bool, extrema: float | None = None
) -> bool:
    """Whether a law of whole powers is enough, and real powers gain nothing.

    Adds to `candidates` what its powers became when they were free.
    """
    if not is_convincing(p, candidates) or monitor.stopping():
        return False
    if p.integer_exponents:
        return True
    best = rank(candidates, p.samples)[0]
    if not (best.law.exponents[:, p.nonnegative] != 0).any():
        return True
    freed = prune_laws(p, [best.law], Elimination(), monitor, long=long, extrema=extrema)
    candidates += freed
    # A law that came back as it was is no gain.
    least = score(best, p.samples) - GAIN
    return all(score(c, p.samples) > least for c in freed)


def clean_search(p: Problem, settings: Settings, monitor: Monitor) -> tuple[list[Candidate], bool]:
    """What is quickly found in clean data: a small sum of powers, else laws of richer families.

    Returns:
        And whether what the best sum of powers leaves is noise after all.
    """
    powers = _grown(p, settings, monitor, min(QUICK, settings.hidden))
    candidates: list[Candidate] = []
    if powers and interval_squares(powers[0], p).max() < NEAR:
        candidates = prune_laws(p, powers, Elimination(), monitor)
        # Pruning may have shown what a grown law only nearly is.
        powers = [simplest(candidates, p).law] if candidates else powers
    if not p.clean and leaves_noise(p, candidates):
        # There is noise, if little, and richer families would be fitted to it.
        return candidates, True
    for laws in climb(p, powers, monitor):
        candidates += [grown_candidate(law, p) for law in laws]
    return candidates, False


def leaves_noise(p: Problem, candidates: Sequence[Candidate]) -> bool:
    """Whether the best law is short and leaves about as much as the noise was estimated.

    And that has no memory, once the law is fitted to whole trajectories.
    """
    if not candidates:
        return False
    best = rank(candidates, p.samples)[0]
    near = followed_closely(p, best) if is_short(best.law) and is_within_noise(p, best) else None
    if near is None:
        return False
    q, law = near
    own = ~q.data.is_control
    return has_no_memory([r[:, own] for r in residuals(law.law, q.data, law.initial)])


def grown_candidate(law: PowerSum, p: Problem) -> Candidate:
    """A law of a rich family as it was grown; only rates of exponentials are no whole numbers."""
    law = apply_knowledge(p, law)
    squares = interval_squares(law, p)[~p.constant]
    return Candidate(law, p.initial, float(squares.mean()), 0, whole_inputs(law, p, True), fixed_mask(p, law))


def _grown(p: Problem, settings: Settings, monitor: Monitor, most: int) -> list[PowerSum]:
    """Laws grown on the integral form, best first."""
    if not settings.grow or p.noisiness > GROWABLE:
        return []
    monitor.stage("grow", 1)
    laws = grow(p.data, p.noise, integer=~p.nonnegative | p.integer_exponents, max_monomials=most, monitor=monitor)
    return [law for law in laws if law.n_monomials][:GROWN]


def simplest(candidates: Sequence[Candidate], p: Problem) -> Candidate:
    """The best of clean data, where what is left is the error of integration."""
    return min(candidates, key=lambda c: score(c, p.samples, STAGES.settled))


def settled(candidates: Sequence[Candidate]) -> bool:
    """Whether some law already explains clean data down to integration error."""
    return min((c.mean_square for c in candidates), default=np.inf) < STAGES.settled
