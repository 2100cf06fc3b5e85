"""How stable the choice of terms is: the choice made anew on data that could have been measured.

    data* = solution + residual*

Residuals of the chosen law are drawn with replacement, in blocks of neighbours so that what
memory they have stays, and of whole samples so that states keep what they have in common; or,
where there are many trajectories, these are drawn. Every data set gets a member of one batch: all
begin at a law that is richer than the chosen one and lose one term after another, by the
backward elimination and the criterion of the search, and what is left is compared.

It is the choice among these terms that is repeated, not the search for them: exponents that were
set to simple values stay, and terms that no richer row of the front and no other equation has are not tried.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993); Kuensch, Annals of Statistics 17 (1989).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.errors import FitError, InputError, OdeDiscoveryError
from odediscovery.fitting.windows import LongResiduals
from odediscovery.judge.criterion import CRITERION
from odediscovery.laws.equations import Equations
from odediscovery.laws.estimates import Estimates
from odediscovery.laws.power_sum import SIMPLE, PowerSum, constant_penalty, count, powers, snap_penalty
from odediscovery.laws.records import monomial_names
from odediscovery.networks.chain import Chain
from odediscovery.networks.translate import chain_of
from odediscovery.problem.prepare import pose
from odediscovery.problem.problem import PROBLEMS, Problem, apply_knowledge, fixed_mask
from odediscovery.result.discovery import Discovery
from odediscovery.result.survival import Survival
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.runtime.workers import Backend, Failure, Processes, results_of_tasks
from odediscovery.stages.grow.integral_form import PROJECTION
from odediscovery.stages.prune.eliminate import Elimination, Pruned, eliminate
from odediscovery.stages.prune.paths import PRUNING_WINDOWS
from odediscovery.uncertainty.bands import checked_estimates
from odediscovery.uncertainty.resampled import ResampledResiduals, fit_starts, resample_residuals, resample_trajectories


@dataclass(frozen=True)
class BootstrapThresholds(Thresholds):
    """What is drawn, how much at once, and what is reported."""

    trajectories: int = threshold(
        5, "fewest trajectories that can be drawn", origin="of fewer, most draws leave one out"
    )
    same_left: float = threshold(
        0.5, "exponents nearer than this belong to the same monomial, in what is left", origin="half a whole power"
    )
    same_tried: float = threshold(0.25, "the same in what is tried", origin="half of that")
    monomials: int = threshold(10, "most monomials of the law that is pruned", origin="cost: bounds the time")
    faint: float = threshold(
        1e-3,
        "size of a term in it that is not fitted yet",
        unit="share of the largest rate",
        origin="any small size: the first refit fits it",
    )
    batch: int = threshold(40_000_000, "numbers in the Jacobians of one batch", origin="cost: 320 MB of memory")
    part: int = threshold(
        50,
        "most members of one batch, which is one task",
        origin="200 of them take 2.2 s in batches of 250 and 3.0 s in these, which a hundred draws can share; a batch "
        "decides how sums are rounded, so it does not depend on the processes",
    )
    start_steps: int = threshold(40, "most steps of the fit of starts alone", origin="cost: bounds the time")
    fitted: float = threshold(
        0.5,
        "least share of the draws that has to be fitted",
        unit="share",
        origin="half: fewer say nothing of the others",
    )
    told: float = threshold(
        0.05,
        "a term that the equations lack is reported from this share of the draws on",
        unit="share",
        origin="the usual 5 %",
    )


BOOTSTRAP = BootstrapThresholds()

# Coefficients [states, monomials] and exponents [monomials, inputs].
Chosen: TypeAlias = tuple[Array, Array]


def bootstrap(
    found: Discovery,
    draws: int = 100,
    *,
    kind: str = "residuals",
    seed: int | None = None,
    monitor: Monitor | None = None,
    jobs: int = 1,
    backend: Backend | None = None,
) -> Survival:
    """How often each term of the chosen equations survives the choice on drawn data.

    Stopped early, it is that of the draws that were finished.

    Args:
        found: a result of the default recipe, from `discover` or `Discovery.load`.
        draws: number of data sets.
        kind: "residuals", or "trajectories" where there are at least 5.
        seed: of the draws (default: that of the fit).
        monitor: hears the progress and can stop the work.
        jobs: processes that share the draws, 50 at a time; the result is the same.
        backend: where they are shared instead, such as a dask cluster.

    Raises:
        InputError: nothing to draw: data without noise, too few trajectories, no covariance.
        FitError: the monitor asked to stop before any draw was finished, or the drawn data could not be fitted.

    >>> from odediscovery import Equations, fit_constants, simulate_system
    >>> form = Equations.parse(["N"], {"N": "0.4*N - 0.004*N**2"})
    >>> found = fit_constants(simulate_system("logistic", noise=0.05), form, exponents=False)
    >>> bootstrap(found, draws=10).shares.tolist()
    [[1.0, 1.0]]
    """
    _check(found, draws, kind)
    estimates, monitor = checked_estimates(found), monitor or Monitor()
    p = _prepared(found)
    rich = richer(p, found, estimates.law)
    seed = found.settings.seed if seed is None else seed
    sizes = [min(BOOTSTRAP.part, draws - first) for first in range(0, draws, BOOTSTRAP.part)]
    parts = [_Part(p, estimates, rich, kind, (seed, number), size) for number, size in enumerate(sizes)]
    place = backend or Processes(jobs)
    here = backend is None and min(jobs, len(parts)) == 1
    choices, lost = _chosen_here(parts, monitor) if here else _chosen_there(parts, place, monitor)
    if not choices:
        reason = f"was stopped ({monitor.stopping()})" if monitor.stopping() else f"could not be done: {lost}"
        raise FitError(f"the bootstrap {reason}: no stability of terms is known")
    kept = [choice for choice in choices if choice is not None]
    if len(kept) < BOOTSTRAP.fitted * len(choices):
        raise FitError(
            f"only {len(kept)} of {len(choices)} bootstrap fits could be done: no stability of terms is known"
        )
    lacking = draws - len(choices)
    why = f"{lacking} of {draws} draws are lacking ({monitor.stopping() or lost})" if lacking else ""
    return dataclasses.replace(_survival(found, estimates, rich, kept, kind), lacking=why)


@dataclass(frozen=True, eq=False)
class _Part:
    """Draws that are one batch, a task.

    Args:
        p: the data, with the noise that the law leaves.
        estimates: of the chosen law.
        rich: the law that is pruned.
        kind: what is drawn.
        seed: of these draws: that of all, and the number of the part.
        draws: how many.
    """

    p: Problem
    estimates: Estimates
    rich: PowerSum
    kind: str
    seed: tuple[int, int]
    draws: int


def _chosen_here(parts: Sequence[_Part], monitor: Monitor) -> tuple[list[Chosen | None], str]:
    """What is chosen on all parts that this process finishes, and why others were lost."""
    choices: list[Chosen | None] = []
    for part in parts:
        found = _chosen(part, monitor)
        if monitor.stopping():  # in the middle of this part
            break
        choices += found
    return choices, ""


def _chosen_there(parts: Sequence[_Part], backend: Backend, monitor: Monitor) -> tuple[list[Chosen | None], str]:
    """The same of processes elsewhere."""
    monitor.stage("bootstrap", len(parts))
    found: dict[int, list[Chosen | None]] = {}
    lost = ""
    for number, part in results_of_tasks(backend, _chosen, parts, stopping=monitor.stopping):
        if isinstance(part, Failure):
            lost = part.reason
            continue
        found[number] = part
        monitor.step(len(found))
    return [choice for _, part in sorted(found.items()) for choice in part], lost


def _chosen(part: _Part, monitor: Monitor | None = None) -> list[Chosen | None]:
    """What is chosen on the data sets of a part; None where nothing could be fitted."""
    p, estimates, rich = part.p, part.estimates, part.rich
    generator, monitor = np.random.default_rng(part.seed), monitor or Monitor()
    chain = chain_of([rich], p.nonnegative, held=[_held(p, rich, estimates)])
    windows, paths = fit_starts(p, estimates.law, BOOTSTRAP.start_steps, monitor)
    problem = LongResiduals(windows.refined(chain, chain.theta, PRUNING_WINDOWS.accuracy), chain, p.nonnegative)
    if part.kind == "residuals":
        fitted = count(estimates.free) + problem.n_starts
        shift = resample_residuals(p, windows, paths, p.samples - fitted, part.draws, generator)
        factor = np.ones_like(shift)
    else:
        factor = resample_trajectories(windows, part.draws, generator)
        shift = np.zeros_like(factor)
    drawn = ResampledResiduals(problem, shift, factor)
    return [_choice(chain, path, p, problem.n_starts) for path in _pruned(chain, drawn, range(part.draws), monitor)]


def with_survival(found: Discovery, draws: int, monitor: Monitor, backend: Backend | None = None) -> Discovery:
    """The result with the stability of its terms, or with a message why it has none."""
    # What somebody asks for is not ended by the time that a fit takes by default.
    monitor.spend(None)
    try:
        survival = bootstrap(found, draws, monitor=monitor, backend=backend)
        return dataclasses.replace(found, survival=survival)
    except OdeDiscoveryError as error:
        return dataclasses.replace(found, messages=(*found.messages, f"no bootstrap: {error}"))


def _check(found: Discovery, draws: int, kind: str) -> None:
    if found.population is not None:
        raise InputError("residuals of many groups are not drawn; means and spreads have errors of their own")
    if draws < 1:
        raise InputError(f"--bootstrap must be at least 1, got {draws}")
    if kind not in ("residuals", "trajectories"):
        raise InputError(f"what is drawn should be residuals or trajectories, got {kind!r}")
    runs, least = len(found.series.trajectories), BOOTSTRAP.trajectories
    if kind == "trajectories" and runs < least:
        raise InputError(f"at least {least} trajectories are needed to draw from, got {runs}; draw residuals instead")


def _prepared(found: Discovery) -> Problem:
    """The series as the search saw it, with the noise that the chosen equations leave."""
    # States without a column are in the series already.
    settings = dataclasses.replace(found.settings, hidden_states=())
    _, p, _ = pose(found.series, settings)
    noise = np.append(found.noise, np.zeros(len(found.series.controls)))
    p = dataclasses.replace(p, noise=np.maximum(noise / p.scale.size, p.floor))
    if p.noisiness <= PROBLEMS.clean:
        raise InputError(
            "the equations leave no noise that could be drawn: their terms are as certain as the data are exact"
        )
    return p


def richer(p: Problem, found: Discovery, law: PowerSum) -> PowerSum:
    """The chosen law with each of its monomials in all equations, and the front's other terms.

    What the user knows still holds. Laws with functions or sums stay as they are.

    Args:
        law: the chosen law, dimensionless.
    """
    if law.features is not None or not law.n_monomials:
        return apply_knowledge(p, law)
    open_rows = ~p.constant if law.stoichiometry is None else ~p.constant & (np.diag(law.stoichiometry) != 0.0)
    rows = list(law.exponents)
    used = [open_rows.copy() for _ in rows]
    for w, in_equations in _rivals(found):
        place = next((k for k, own in enumerate(rows) if _same(own, w, BOOTSTRAP.same_tried)), None)
        bounded = w.min() >= PROJECTION.least_exponent and w.max() <= PROJECTION.most_exponent
        if place is None and len(rows) < BOOTSTRAP.monomials and bounded:
            place = len(rows)
            rows.append(w)
            used.append(np.zeros_like(open_rows))
        if place is not None:
            used[place] |= in_equations & open_rows
    a = np.zeros((law.n_states, len(rows)))
    a[:, : law.n_monomials] = law.coefficients
    # New terms are a faint part of the rates wherever the data are.
    x = pooled(p.smooth)
    largest = np.abs(powers(x, np.stack(rows))).max(axis=0)
    faint = BOOTSTRAP.faint * np.abs(law.rhs(x)).max() / np.maximum(largest, ABOVE_ZERO)
    a = np.where((a == 0.0) & np.stack(used, axis=1), faint, a)
    return apply_knowledge(p, PowerSum(a, np.stack(rows), None, law.stoichiometry))


def _rivals(found: Discovery) -> list[tuple[Array, Mask]]:
    """Monomials of rows about as good as the chosen one, or with all of its terms: exponents, and their equations."""
    chosen = next(row for row in found.front if row.selected)
    rivals = [
        row
        for row in found.front
        if row.criterion < chosen.criterion + CRITERION.no_evidence or _has_terms(row.equations, chosen.equations)
    ]
    rivals.sort(key=lambda row: np.nan_to_num(row.criterion, nan=np.inf))
    laws = [row.equations.power_sum for row in rivals]
    return [(w, a != 0) for law in laws if law for w, a in zip(law.exponents, law.coefficients.T, strict=True)]


def _has_terms(richer: Equations, law: Equations) -> bool:
    """Whether a sum of powers has every term of another one, to nearly the same powers."""
    one, other = richer.power_sum, law.power_sum
    if one is None or other is None:
        return False
    alike = np.array([_same(w, v, BOOTSTRAP.same_tried) for w in one.exponents for v in other.exponents], dtype=bool)
    alike = alike.reshape(one.n_monomials, other.n_monomials)
    return not ((other.coefficients != 0) & ~((one.coefficients != 0) @ alike)).any()


def _same(one: Array, other: Array, near: float) -> bool:
    """Whether exponents belong to the same monomial: the same inputs, to nearly the same powers."""
    alike = ((one != 0) == (other != 0)).all()
    return bool(alike and np.abs(one - other).max(initial=0.0) < near)


def _held(p: Problem, rich: PowerSum, estimates: Estimates) -> tuple[Mask, Mask]:
    """What is not fitted: known constants, and exponents that have simple values."""
    of_a, of_w = np.zeros(rich.coefficients.shape, dtype=bool), np.isin(rich.exponents, [*SIMPLE])
    for j, w in enumerate(rich.exponents):
        for own, free in zip(estimates.law.exponents, estimates.free[1], strict=True):
            if (own == w).all():
                of_w[j] = ~free
    known = fixed_mask(p, rich)
    return (of_a, of_w) if known is None else (of_a | known[0], of_w | known[1])


def _pruned(chain: Chain, drawn: ResampledResiduals, part: range, monitor: Monitor) -> list[list[Pruned]]:
    """What backward elimination leaves step by step, for each data set of these numbers."""
    base = drawn.problem.pack(chain.theta)
    how = Elimination(alone=True, near=0.0, labels=1)
    each = drawn.shift.shape[1] * base.shape[1] * (1 + how.trials)
    paths: list[list[Pruned]] = [[] for _ in part]
    size = max(BOOTSTRAP.batch // each, 1)
    for first in range(0, len(part), size):
        own = np.array(part[first : first + size], dtype=float)
        m = len(own)
        members = chain.replace(np.tile(chain.theta, (m, 1)), np.tile(chain.free, (m, 1)))
        problem = ResampledResiduals(dataclasses.replace(drawn.problem, chain=members), drawn.shift, drawn.factor)
        unknowns = np.concatenate([np.tile(base, (m, 1)), own[:, None]], axis=1)
        for step in eliminate(members, problem, unknowns, monitor, how):
            paths[first + step.member].append(step)
    return paths


def _choice(chain: Chain, path: list[Pruned], p: Problem, starts: int) -> Chosen | None:
    """Coefficients and exponents where the criterion is least; None where nothing could be fitted.

    The criterion is that of the judge, on the windows.
    """
    shape, (real, weight) = chain.pairs[-1].real, chain.places()[-1]
    best, least = None, np.inf
    for step in path:
        a: Array = step.unknowns[weight].reshape(-1, shape[0])
        w: Array = step.unknowns[real].reshape(shape)
        fitted: Mask = step.free[real].reshape(shape)
        simple = w[(w != 0) & ~fitted & np.any(a != 0, axis=0)[:, None]]
        cost = step.size * constant_penalty(len(a), p.samples) + sum(snap_penalty(float(e)) for e in simple)
        spare = max(p.samples - step.size - starts - 2.0, 1.0)
        score = p.samples * np.log(step.sum_of_squares / p.samples + 1.0) + cost * p.samples / spare
        if score < least:
            best, least = (a, w), score
    return best


def _survival(found: Discovery, estimates: Estimates, rich: PowerSum, kept: list[Chosen], kind: str) -> Survival:
    """The choices compared with the printed equations."""
    printed, law = found.equations.law, estimates.law
    rich = dataclasses.replace(rich, mirrored=estimates.mirrored)
    assert printed is not None  # estimates are those of a law
    states, follows = found.equations.states, np.zeros(law.n_states, dtype=bool)
    if law.stoichiometry is not None:
        # What stands in a tied equation is not chosen: it follows from the others.
        follows = np.diag(law.stoichiometry) == 0.0
    terms = (printed.coefficients != 0) & ~follows[:, None]
    hits, same = np.zeros(terms.shape), 0
    came = np.zeros((law.n_states, rich.n_monomials))
    for a, w in kept:
        there = np.array([[_same(own, row, BOOTSTRAP.same_left) for row in w] for own in printed.exponents])
        there = there.reshape(len(printed.exponents), len(w)).astype(float)
        here = ((a != 0).astype(float) @ there.T > 0) & terms
        extra = (a != 0) & ~(terms.astype(float) @ there > 0) & ~follows[:, None]
        hits += here
        came += extra[:, : rich.n_monomials]
        same += int(np.array_equal(here, terms) and not extra.any())
    names = monomial_names(
        dataclasses.replace(found.equations, power_sum=rich, extended=None)
        if rich.features is None
        else found.equations
    )
    often = np.argwhere(came >= BOOTSTRAP.told * len(kept))
    others = [(states[i], names[j], float(came[i, j] / len(kept))) for i, j in often]
    return Survival(
        kind,
        len(kept),
        np.where(terms, hits / len(kept), np.nan),
        same / len(kept),
        tuple(sorted(others, key=lambda o: -o[2])),
        tuple(states),
        tuple(monomial_names(found.equations)),
    )
