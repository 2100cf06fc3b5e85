"""The stability of the choice of terms: the choice is repeated on resampled data.

    data* = solution + residual*

Residuals are drawn with replacement, in blocks of neighbouring samples with all their states, which preserves
correlations; or, where there are many, trajectories are drawn. Every data set gets a member of one batch: all start
from a law that is richer than the chosen one and lose terms by the backward elimination and the criterion of the
search. Simple exponents stay fixed, and only terms of rival rows and of other equations are tried in addition.

Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993); Kuensch, Annals of Statistics 17 (1989).
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from odediscovery.data.series import TimeSeries, Trajectory, pooled
from odediscovery.errors import FitError, InputError, OdeDiscoveryError
from odediscovery.fitting.windows import LongResiduals, Windows, cut, levenberg_marquardt
from odediscovery.judge.criterion import NO_EVIDENCE
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import SIMPLE, PowerSum, constant_penalty, count, powers, snap_penalty
from odediscovery.laws.records import Estimates, monomial_names
from odediscovery.networks.chain import Chain, chain_of
from odediscovery.problem.problem import CLEAN_NOISE, Problem, apply_knowledge, fixed_mask
from odediscovery.result.discovery import Discovery, chosen_row
from odediscovery.result.survival import Survival
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import Backend, Failure
from odediscovery.stages.prune import ACCURACY, TRIALS, Elimination, Pruned, eliminate, window_length
from odediscovery.uncertainty.bands import checked_estimates, ended, posed

# Least and largest exponent of a monomial that competes.
LEAST_EXPONENT, MOST_EXPONENT = -3.0, 6.0

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
    """Count how often each term of the chosen equations survives the choice on resampled data.

    After an early stop, only the finished draws count.

    Args:
        found: a result of the default recipe, from `discover` or `Discovery.load`.
        draws: number of data sets.
        kind: "residuals", or "trajectories" where there are at least 5.
        seed: of the draws (default: that of the fit).
        monitor: receives the progress and can stop the work.
        jobs: processes that share the draws, 50 at a time; the result is the same.
        backend: another place to share them, such as a dask cluster.

    Raises:
        InputError: data without noise, too few trajectories or draws, a population, another kind, or no covariance.
        FitError: the monitor stopped before any draw was finished, or most drawn data could not be fitted.

    >>> from odediscovery import Equations, fit_constants, simulate_system
    >>> form = Equations.parse(["N"], {"N": "0.4*N - 0.004*N**2"})
    >>> found = fit_constants(simulate_system("logistic", noise=0.05), form, exponents=False)
    >>> bootstrap(found, draws=10).shares.tolist()
    [[1.0, 1.0]]
    """
    if found.population is not None:
        raise InputError("residuals of many groups are not drawn; means and spreads have errors of their own")
    if draws < 1:
        raise InputError(f"--bootstrap must be at least 1, got {draws}")
    if kind not in ("residuals", "trajectories"):
        raise InputError(f"what is drawn should be residuals or trajectories, got {kind!r}")
    # With fewer trajectories most draws omit one.
    if kind == "trajectories" and (runs := len(found.series.trajectories)) < 5:
        raise InputError(f"at least 5 trajectories are needed to draw from, got {runs}; draw residuals instead")
    estimates, monitor = checked_estimates(found), monitor or Monitor()
    _, p, noise = posed(found)
    p = dataclasses.replace(p, noise=np.maximum(noise / p.scale.size, p.floor))
    if p.noisiness <= CLEAN_NOISE:
        raise InputError(
            "the equations leave no noise that could be drawn: their terms are as certain as the data are exact"
        )
    rich = _richer(p, found, estimates.law)
    seed = found.settings.seed if seed is None else seed
    # Batches determine the rounding of sums, so they do not depend on the processes. 200 draws take 2.2 s in batches of
    # 250 and 3.0 s in these, which a hundred processes can share.
    sizes = [min(50, draws - first) for first in range(0, draws, 50)]
    parts = [_Part(p, estimates, rich, kind, (seed, number), size) for number, size in enumerate(sizes)]

    def here(part: _Part) -> list[Chosen | None] | None:
        choices = _chosen(part, monitor)
        return None if monitor.stopping() else choices  # stopped in the middle of this part

    # In this process the elimination reports the progress.
    elsewhere = backend is not None or min(jobs, len(parts)) > 1
    if elsewhere:
        monitor.stage("bootstrap", len(parts))
    results: dict[int, list[Chosen | None]] = {}
    lost = ""
    for number, result in ended(_chosen, parts, here, monitor, jobs, backend):
        if isinstance(result, Failure):
            lost = result.reason
            continue
        results[number] = result
        if elsewhere:
            monitor.step(len(results))
    choices = [choice for _, part in sorted(results.items()) for choice in part]
    if not choices:
        reason = f"was stopped ({monitor.stopping()})" if monitor.stopping() else f"could not be done: {lost}"
        raise FitError(f"the bootstrap {reason}: no stability of terms is known")
    kept = [choice for choice in choices if choice is not None]
    if len(kept) < 0.5 * len(choices):
        raise FitError(
            f"only {len(kept)} of {len(choices)} bootstrap fits could be done: no stability of terms is known"
        )
    lacking = draws - len(choices)
    why = f"{lacking} of {draws} draws are lacking ({monitor.stopping() or lost})" if lacking else ""
    return dataclasses.replace(_survival(found, estimates, rich, kept, kind), lacking=why)


class _Part(NamedTuple):
    """Draws of one batch, as a task."""

    p: Problem  # with the noise of the law's residuals
    estimates: Estimates
    rich: PowerSum  # the law that is pruned
    kind: str
    seed: tuple[int, int]  # the common seed, and the number of the part
    draws: int


def _chosen(part: _Part, monitor: Monitor | None = None) -> list[Chosen | None]:
    """Choose a law on each data set of a part; None where none could be fitted."""
    p, estimates, rich = part.p, part.estimates, part.rich
    generator, monitor = np.random.default_rng(part.seed), monitor or Monitor()
    chain = chain_of([rich], p.nonnegative, held=[_held(p, rich, estimates)])
    windows, paths = _fit_starts(p, estimates.law, monitor)
    problem = LongResiduals(windows.refined(chain, chain.theta, ACCURACY), chain, p.nonnegative)
    if part.kind == "residuals":
        fitted = count(estimates.free) + problem.n_starts
        shift = _resample_residuals(p, windows, paths, p.samples - fitted, part.draws, generator)
        factor = np.ones_like(shift)
    else:
        factor = _resample_trajectories(windows, part.draws, generator)
        shift = np.zeros_like(factor)
    drawn = _ResampledResiduals(problem, shift, factor)
    return [_choice(chain, path, p, problem.n_starts) for path in _pruned(chain, drawn, monitor)]


def with_survival(found: Discovery, draws: int, monitor: Monitor, backend: Backend | None = None) -> Discovery:
    """Add the stability of its terms to a result, or a message on why it is unknown."""
    # A requested bootstrap has no default time limit.
    monitor.spend(None)
    try:
        survival = bootstrap(found, draws, monitor=monitor, backend=backend)
        return dataclasses.replace(found, survival=survival)
    except OdeDiscoveryError as error:
        return dataclasses.replace(found, messages=(*found.messages, f"no bootstrap: {error}"))


def _richer(p: Problem, found: Discovery, law: PowerSum) -> PowerSum:
    """Extend the chosen law by its monomials in all equations that knowledge allows, and by terms of rival rows."""
    if law.features is not None or not law.n_monomials:
        return apply_knowledge(p, law)
    open_rows = ~p.constant if law.stoichiometry is None else ~p.constant & (np.diag(law.stoichiometry) != 0.0)
    rows = list(law.exponents)
    used = [open_rows.copy() for _ in rows]
    for w, in_equations in _rivals(found):
        bounded = w.min() >= LEAST_EXPONENT and w.max() <= MOST_EXPONENT
        if len(same := np.flatnonzero(_alike(np.stack(rows), w[None]))):
            used[same[0]] |= in_equations & open_rows
        elif len(rows) < 10 and bounded:  # more take long
            rows.append(w)
            used.append(in_equations & open_rows)
    a = np.zeros((law.n_states, len(rows)))
    a[:, : law.n_monomials] = law.coefficients
    # New terms start as a small part of the rates throughout the data; the first refit fits them.
    x = pooled(p.smooth)
    largest = np.abs(powers(x, np.stack(rows))).max(axis=0)
    faint = 1e-3 * np.abs(law.rhs(x)).max() / np.maximum(largest, ABOVE_ZERO)
    a = np.where((a == 0.0) & np.stack(used, axis=1), faint, a)
    return apply_knowledge(p, PowerSum(a, np.stack(rows), None, law.stoichiometry))


def _rivals(found: Discovery) -> list[tuple[Array, Mask]]:
    """List monomials of rows about as good as the chosen one, or with all its terms: exponents and equations."""
    chosen = chosen_row(found)
    rivals = [
        row
        for row in found.front
        if row.criterion < chosen.criterion + NO_EVIDENCE or _has_terms(row.equations, chosen.equations)
    ]
    rivals.sort(key=lambda row: np.nan_to_num(row.criterion, nan=np.inf))
    laws = [row.equations.power_sum for row in rivals]
    return [(w, a != 0) for law in laws if law for w, a in zip(law.exponents, law.coefficients.T, strict=True)]


def _has_terms(richer: Equations, law: Equations) -> bool:
    """Whether a sum of powers has every term of another one, with nearly the same powers."""
    one, other = richer.power_sum, law.power_sum
    if one is None or other is None:
        return False
    there = (one.coefficients != 0) @ _alike(one.exponents, other.exponents)
    return not ((other.coefficients != 0) & ~there).any()


def _alike(one: Array, other: Array, near: float = 0.25) -> Mask:
    """Mask pairs of exponents [J, inputs] and [K, inputs] with the same inputs and similar powers [J, K]."""
    one, other = one[:, None], other[None]
    return np.asarray(((one != 0) == (other != 0)).all(axis=2) & (np.abs(one - other).max(axis=2, initial=0.0) < near))


def _held(p: Problem, rich: PowerSum, estimates: Estimates) -> tuple[Mask, Mask]:
    """Mask the constants that are not fitted: known ones, and exponents that are simple or fixed in the chosen law."""
    of_a, of_w = np.zeros(rich.coefficients.shape, dtype=bool), np.isin(rich.exponents, [*SIMPLE])
    for j, k in np.argwhere((rich.exponents[:, None] == estimates.law.exponents[None]).all(axis=2)):
        of_w[j] = ~estimates.free[1][k]
    known = fixed_mask(p, rich)
    return (of_a, of_w) if known is None else (of_a | known[0], of_w | known[1])


def _pruned(chain: Chain, drawn: _ResampledResiduals, monitor: Monitor) -> list[list[Pruned]]:
    """Run backward elimination for each data set, and return the steps."""
    base = drawn.problem.pack(chain.theta)
    how = Elimination(alone=True, near=0.0, labels=1)
    draws, residuals = drawn.shift.shape
    paths: list[list[Pruned]] = [[] for _ in range(draws)]
    # The number side by side keeps Jacobians below 40 million numbers, 320 MB.
    size = max(40_000_000 // (residuals * base.shape[1] * (1 + TRIALS)), 1)
    for first in range(0, draws, size):
        own = np.arange(first, min(first + size, draws), dtype=float)
        m = len(own)
        members = chain.replace(np.tile(chain.theta, (m, 1)), np.tile(chain.free, (m, 1)))
        problem = _ResampledResiduals(dataclasses.replace(drawn.problem, chain=members), drawn.shift, drawn.factor)
        unknowns = np.concatenate([np.tile(base, (m, 1)), own[:, None]], axis=1)
        for step in eliminate(members, problem, unknowns, monitor, how):
            paths[first + step.member].append(step)
    return paths


def _choice(chain: Chain, path: list[Pruned], p: Problem, starts: int) -> Chosen | None:
    """Choose coefficients and exponents by the judge's criterion on windows; None if nothing was fitted."""
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
    """Compare the choices with the printed equations."""
    printed, law = found.equations.law, estimates.law
    rich = dataclasses.replace(rich, mirrored=estimates.mirrored)
    assert printed is not None  # estimates are those of a law
    states, follows = found.equations.states, np.zeros(law.n_states, dtype=bool)
    if law.stoichiometry is not None:
        # Terms of a tied equation are not chosen: they follow from the others.
        follows = np.diag(law.stoichiometry) == 0.0
    terms = (printed.coefficients != 0) & ~follows[:, None]
    hits, same = np.zeros(terms.shape), 0
    came = np.zeros((law.n_states, rich.n_monomials))
    for a, w in kept:
        there = _alike(printed.exponents, w, near=0.5)
        here = ((a != 0) @ there.T) & terms
        extra = (a != 0) & ~(terms @ there) & ~follows[:, None]
        hits += here
        came += extra[:, : rich.n_monomials]
        same += int(np.array_equal(here, terms) and not extra.any())
    named = found.equations
    if rich.features is None:
        named = dataclasses.replace(named, law=rich)
    names = monomial_names(named)
    often = np.argwhere(came >= 0.05 * len(kept))
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


@dataclass(frozen=True, eq=False)
class _ResampledResiduals:
    """Residuals of members with a data set each, whose number is the last unknown.

    Data enter by a shift alone, (x - data*) w = (x - data) w - (data* - data) w: windows and Jacobians are shared.
    """

    problem: LongResiduals  # of the original data
    shift: Array  # (data* - data) w of every data set, [draws, R]
    factor: Array  # root of the number of times each residual was drawn, [draws, R]

    def solve(self, unknowns: Array) -> Array:
        return self.problem.solve(unknowns[:, :-1])

    def residuals(self, unknowns: Array, solved: Array | None = None) -> Array:
        return self._drawn(self.problem.residuals(unknowns[:, :-1], solved), unknowns[:, -1].astype(int))

    def linearised(self, unknowns: Array, free: Mask, solved: Array | None = None) -> tuple[Array, Array]:
        own = unknowns[:, -1].astype(int)
        found, jacobian = self.problem.linearised(unknowns[:, :-1], free[:, :-1], solved)
        jacobian = np.pad(jacobian, ((0, 0), (0, 0), (0, 1))) * self.factor[own][..., None]
        return self._drawn(found, own), jacobian

    def _drawn(self, found: Array, own: NDArray[np.int_]) -> Array:
        return np.asarray((found - self.shift[own]) * self.factor[own])


def _fit_starts(p: Problem, law: PowerSum, monitor: Monitor) -> tuple[Windows, list[Array]]:
    """Fit the starts of windows to a law; return windows and states at each trajectory's samples [samples, states]."""
    chain = chain_of([law], p.nonnegative)
    weight = np.where(p.constant, 0.0, 1.0 / p.noise)
    windows = cut(p.data, p.smooth, weight, window_length(p), relative_sigma=p.relative_sigma)
    windows = windows.refined(chain, chain.theta, ACCURACY)
    problem = LongResiduals(windows, chain, p.nonnegative)
    unknowns = problem.pack(chain.theta)
    starts = np.zeros(unknowns.shape, dtype=bool)
    starts[:, chain.theta.shape[1] :] = True
    fit = levenberg_marquardt(problem, unknowns, starts, 40, monitor=monitor)
    windows = dataclasses.replace(windows, start=problem.starts(fit.unknowns)[0])
    ends = windows.predict(chain, chain.theta)[0]
    paths, heads = [], [*windows.heads.tolist(), len(ends)]
    for first, stop in itertools.pairwise(heads):
        inside = windows.duration[first:stop] > 0
        paths.append(np.concatenate([windows.start[first, None], ends[first:stop][inside]]))
    return windows, paths


def _resample_residuals(
    p: Problem, windows: Windows, paths: list[Array], freedom: int, draws: int, generator: np.random.Generator
) -> Array:
    """Compute (data* - data) w [draws, R] for a solution plus its residuals, drawn in blocks of neighbours."""
    scaled = [(t.values - x) / s for t, x, s in zip(p.data.trajectories, paths, p.relative_sigma, strict=True)]
    together = np.concatenate(scaled)
    # Residuals are smaller than the noise, because the constants were fitted to them.
    larger = np.sqrt(p.samples / max(freedom, 1))
    left = [larger * (_without_gaps(e, together, generator) - np.nanmean(together, axis=0)) for e in scaled]
    length = windows.size[1]
    weight = np.where(p.constant, 0.0, 1.0 / p.noise)
    shifts = []
    for _ in range(draws):
        runs = tuple(
            Trajectory(t.time, np.where(np.isfinite(t.values), x + s * e, np.nan))
            for t, x, s, e in zip(p.data.trajectories, paths, p.relative_sigma, _blocks(left, generator), strict=True)
        )
        drawn = cut(TimeSeries(p.data.states, runs), p.smooth, weight, length, relative_sigma=p.relative_sigma)
        first = (drawn.first - windows.first) * windows.first_weight
        ends = (drawn.target - windows.target) * windows.weight
        shifts.append(np.concatenate([first.ravel(), ends.ravel()]))
    return np.stack(shifts)


def _without_gaps(left: Array, together: Array, generator: np.random.Generator) -> Array:
    """Fill gaps in residuals by other residuals of the same state."""
    filled = left.copy()
    for i, column in enumerate(filled.T):
        gaps = ~np.isfinite(column)
        seen = together[np.isfinite(together[:, i]), i]
        column[gaps] = generator.choice(seen, gaps.sum()) if len(seen) else 0.0
    return filled


def _blocks(left: list[Array], generator: np.random.Generator) -> list[Array]:
    """Resample residuals of each trajectory, in blocks of neighbours from any trajectory."""
    sizes = np.array([len(e) for e in left])
    drawn = []
    for samples in sizes:
        length = int(np.ceil(samples ** (1.0 / 3.0)))
        blocks, have = [], 0
        while have < samples:
            source = left[generator.choice(len(left), p=sizes / sizes.sum())]
            first = int(generator.integers(max(len(source) - length, 0) + 1))
            blocks.append(source[first : first + length])
            have += len(blocks[-1])
        drawn.append(np.concatenate(blocks)[:samples])
    return drawn


def _resample_trajectories(windows: Windows, draws: int, generator: np.random.Generator) -> Array:
    """Draw trajectories with replacement; return the root of the count of each residual's trajectory [draws, R]."""
    b, length, n = windows.size
    runs = len(windows.heads)
    counts = generator.multinomial(runs, np.full(runs, 1.0 / runs), size=draws)
    owner = np.searchsorted(windows.heads, np.arange(b), side="right") - 1
    root = np.sqrt(counts[:, owner].astype(np.float64))
    return np.hstack([root.repeat(n, axis=1), root.repeat(length * n, axis=1)])
