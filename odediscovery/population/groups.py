r"""Groups that share the terms of a law and have constants of their own: what was measured, curves, separate fits.

    dx_i/dt = \sum_e s_e exp(c_{k(e)}) \prod_k x_k ** W[j(e), k],    dS/dt = (df/dx) S + df/dc,    S = dx/dc

Every entry e belongs to one equation i, one product of powers j and one constant k, positive and kept as a
logarithm. Two entries with one constant are what leaves one state and enters another. Groups are the last axis of
every array and are solved side by side, by Runge-Kutta 4 with steps that are fixed beforehand: a multiple of the
accuracy is asked for once, at the end (`Members.refined`). Noise is one of two kinds of each state:

    additive:      y = x + sigma e
    proportional:  log y = log x + sigma e
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask

# Least size of a state in a power, which keeps 0 ** p differentiable, and that beyond which a solution has run away
# [largest sample].
TINY, WILD = 1e-9, 1e6
# How far unknowns are looked for from where they are expected [logarithm]: a factor of 20.
LOOSELY = 3.0


class Entry(NamedTuple):
    """One term of one equation: sign * constant * monomial."""

    state: int
    monomial: int
    constant: int
    sign: int


@dataclass(frozen=True, eq=False)
class Structure:
    """Terms of a law whose constants groups have of their own.

    Args:
        exponents: W, [monomials, states].
        entries: the terms, equation by equation.
        free: places (monomial, state) of exponents that are fitted, one number for all groups.

    >>> decay = Structure(np.array([[1.0]]), (Entry(0, 0, 0, -1),))
    >>> decay.n_constants, decay.law(np.log([0.5])).rhs(np.array([[2.0]])).tolist()
    (1, [[-1.0]])
    """

    exponents: Array
    entries: tuple[Entry, ...]
    free: tuple[tuple[int, int], ...] = ()

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.exponents.shape[1])

    @property
    def n_constants(self) -> int:
        """Number of constants, entries that hold the same one counted once."""
        return len({entry.constant for entry in self.entries})

    def law(self, logs: Array) -> PowerSum:
        """The law with these logarithms of its constants [constants]."""
        a = np.zeros((self.n_states, len(self.exponents)))
        for i, j, k, sign in self.entries:
            a[i, j] += sign * np.exp(logs[k])
        return PowerSum(a, self.exponents.copy())

    def with_exponents(self, values: Sequence[float]) -> Structure:
        """The same terms with other values of the free exponents."""
        w = self.exponents.copy()
        for place, value in zip(self.free, values, strict=True):
            w[place] = value
        return replace(self, exponents=w)

    def terms(self) -> frozenset[object]:
        """What tells it from others: state, sign and exponents of every entry."""
        return frozenset((e.state, e.sign, tuple(self.exponents[e.monomial])) for e in self.entries)

    def price(self) -> float:
        """How many numbers besides the constants have to be told: exponents that are not 1 count half."""
        w = self.exponents[self.exponents != 0]
        return float(0.5 * np.count_nonzero(w != 1.0)) + 0.5 * len(self.free)


def structure_of(terms: Sequence[Sequence[tuple[int, Sequence[float]]]]) -> Structure:
    """A structure from the terms of each equation, (sign, exponents); each with a constant of its own.

    >>> logistic = structure_of([[(1, [1.0]), (-1, [2.0])]])
    >>> logistic.n_constants, logistic.exponents.ravel().tolist()
    (2, [1.0, 2.0])
    """
    flat = [(i, sign, tuple(map(float, powers))) for i, equation in enumerate(terms) for sign, powers in equation]
    rows = list(dict.fromkeys(row for *_, row in flat))
    entries = tuple(Entry(i, rows.index(row), k, sign) for k, (i, sign, row) in enumerate(flat))
    return Structure(np.array(rows).reshape(len(rows), len(terms)), entries)


def tied(structure: Structure, first: int, second: int) -> Structure:
    """The structure in which two constants are one.

    >>> two = structure_of([[(-1, [1.0, 0.0])], [(1, [1.0, 0.0])]])
    >>> tied(two, 0, 1).n_constants
    1
    """
    kept = [k for k in range(structure.n_constants) if k != second]
    return replace(
        structure,
        entries=tuple(
            e._replace(constant=kept.index(first if e.constant == second else e.constant)) for e in structure.entries
        ),
    )


def without(structure: Structure, constant: int) -> Structure:
    """The structure without the entries of one constant, and without monomials that nothing needs."""
    kept = [e for e in structure.entries if e.constant != constant]
    used = sorted({e.monomial for e in kept})
    entries = tuple(
        e._replace(monomial=used.index(e.monomial), constant=e.constant - (e.constant > constant)) for e in kept
    )
    free = tuple((used.index(j), k) for j, k in structure.free if j in used)
    return Structure(structure.exponents[used], entries, free)


@dataclass(frozen=True, eq=False)
class Members:
    """Measured groups of the same states, padded to one length.

    Args:
        times: [samples, groups], the last one repeated behind the end.
        values: [samples, states, groups], nan where nothing was measured.
        steps: steps of the solver over the longest span, at least; doubled until that changes nothing.
        doses: amounts that are added right after each sample [samples, states, groups]; None for none.

    >>> data = Members(np.array([[0.0], [1.0]]), np.array([[[1.0]], [[0.5]]]))
    >>> data.n_groups, data.n_states
    (1, 1)
    """

    times: Array
    values: Array
    steps: int = 48
    doses: Array | None = None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.times.shape[1])

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.values.shape[1])

    @property
    def scale(self) -> Array:
        """Largest size of every state [states], 1 where nothing was measured."""
        seen = np.nan_to_num(np.abs(self.values)).max(axis=(0, 2))
        return np.where(seen > 0, seen, 1.0)

    @property
    def added(self) -> Array:
        """The doses [samples, states, groups], 0 where there are none."""
        return np.zeros(self.values.shape) if self.doses is None else self.doses

    def refined(self) -> Members:
        """The same groups, solved with twice as many steps."""
        return replace(self, steps=2 * self.steps)

    def taken(self, groups: Sequence[int] | NDArray[np.intp]) -> Members:
        """Some of the groups, in this order; one may come more than once."""
        doses = None if self.doses is None else self.doses[:, :, groups]
        return replace(self, times=self.times[:, groups], values=self.values[:, :, groups], doses=doses)

    def given(self) -> Array:
        """What doses added to each state before each sample [samples, states, groups]."""
        return np.pad(np.cumsum(self.added[:-1], axis=0), ((1, 0), (0, 0), (0, 0)))

    def grid(self) -> list[tuple[int, Array]]:
        """Number and size [groups] of the steps from each sample to the next."""
        longest = (self.times[-1] - self.times[0]) / self.steps
        longest = np.where(longest > 0, longest, 1.0)
        found = []
        for gap in np.diff(self.times, axis=0):
            # Samples that miss a grid by rounding lie on it; early ones stand close where rates are high.
            most = max(int(np.ceil(np.max(gap / longest) - 1e-9)), 2)
            found.append((most, gap / most))
        return found


def members_of(runs: Sequence[tuple[Array, Array]], doses: Sequence[Array] = ()) -> Members:
    """Groups from their times [samples] and values [samples, states].

    Args:
        runs: of the groups.
        doses: amounts right after the samples of each group [samples, states]; nothing for none.

    >>> members_of([(np.arange(3.0), np.ones((3, 1))), (np.arange(2.0), np.ones((2, 1)))]).values[2, 0].tolist()
    [1.0, nan]
    """
    longest = max(len(t) for t, _ in runs)

    def padded(arrays: Sequence[Array], value: float) -> Array:
        fill = [np.full((longest - len(x), x.shape[1]), value) for x in arrays]
        return np.stack([np.vstack(pair) for pair in zip(arrays, fill, strict=True)], axis=2)

    times = np.stack([np.pad(t, (0, longest - len(t)), mode="edge") for t, _ in runs], axis=1)
    return Members(times, padded([x for _, x in runs], np.nan), doses=padded(doses, 0.0) if doses else None)


# What is known of a start: nothing but its sign, nothing, its value, that its sample is exact, or its
# value but for a factor.
POSITIVE, ANY, KNOWN, EXACT, SCALED = "positive", "any", "known", "exact", "scaled"


class Start(NamedTuple):
    """The starts of one state in all groups.

    Args:
        kind: "positive" or "any" (fitted), "known", "exact" (known, its sample is no evidence), or
            "scaled" (a fitted factor times `value`, by which doses of this state are multiplied too).
        value: [groups], known or a first guess.
        factor: a first guess of that of a scaled start.
    """

    kind: str
    value: Array
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class Measured:
    """Groups with what is known of them.

    Args:
        data: samples of all groups.
        starts: one a state.
        logarithmic: states whose noise is proportional [states].
        labels: of the groups.
        covariates: logarithms of what is known of each group, less their mean [groups], by name.
        dosed: place of a state and column of its doses, which `data` has.
    """

    data: Members
    starts: tuple[Start, ...]
    logarithmic: Mask
    labels: tuple[str, ...]
    covariates: Mapping[str, Array]
    dosed: tuple[tuple[int, str], ...] = ()

    @property
    def open_starts(self) -> list[int]:
        """States whose starts are fitted."""
        return [i for i, start in enumerate(self.starts) if start.kind not in (KNOWN, EXACT)]

    @property
    def seen(self) -> Mask:
        """Which values count, [samples, states, groups]."""
        seen = np.isfinite(self.data.values)
        for i, start in enumerate(self.starts):
            seen[0, i] &= start.kind != EXACT
        return seen

    def counts(self) -> Array:
        """Number of values of each state [states]."""
        found: Array = self.seen.sum(axis=(0, 2)).astype(float)
        return found

    def spread(self) -> Array:
        """Standard deviation of the values of each state in the scale of its noise, 1 where there is none [states]."""
        values = np.where(self.seen, self.data.values, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = np.where(self.logarithmic[None, :, None], np.log(np.maximum(values, ABOVE_ZERO)), values)
        found = np.array([np.nanstd(x) if np.isfinite(x).any() else 1.0 for x in scaled.transpose(1, 0, 2)])
        return np.where(found > 0, found, 1.0)

    def first_starts(self) -> Array:
        """A first guess of the unknowns of the starts [open starts, groups]."""
        rows = []
        for kind, value, factor in (self.starts[i] for i in self.open_starts):
            guess = np.full(len(value), factor) if kind == SCALED else value
            rows.append(guess if kind == ANY else np.log(np.maximum(guess, ABOVE_ZERO)))
        return np.array(rows).reshape(len(rows), self.data.n_groups)

    def begun(self, unknown: Array) -> tuple[Array, Array, Array]:
        """Starts [states, groups], their slopes by the unknowns [open, groups], and doses in the units of their states.

        Args:
            unknown: a start, its logarithm, or that of a factor of what is known of it and of doses [open, groups].
        """
        starts = np.stack([start.value for start in self.starts]).astype(float)
        slopes, factors = np.ones(unknown.shape), np.ones(starts.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # of a start or a factor that has run away
            for row, i in enumerate(self.open_starts):
                kind = self.starts[i].kind
                size = unknown[row] if kind == ANY else np.exp(unknown[row])
                if kind == SCALED:
                    factors[i] = size
                starts[i] = size * starts[i] if kind == SCALED else size
                slopes[row] = 1.0 if kind == ANY else starts[i]
            return starts, slopes, self.data.added * factors

    def taken(self, groups: NDArray[np.intp]) -> Measured:
        """Some of the groups, by their numbers; one may come more than once."""
        return replace(
            self,
            data=self.data.taken(groups),
            starts=tuple(start._replace(value=start.value[groups]) for start in self.starts),
            labels=tuple(self.labels[g] for g in groups),
            covariates={name: values[groups] for name, values in self.covariates.items()},
        )

    def repeated(self, times: int) -> Measured:
        """All groups so many times, one set behind the other."""
        return self.taken(np.tile(np.arange(self.data.n_groups), times))

    def jacobian_of_logs(self) -> float:
        """What -2 log likelihood gains where logarithms are compared."""
        logs = (np.log(self.data.values[:, i][self.seen[:, i]]) for i in np.flatnonzero(self.logarithmic))
        return 2.0 * sum(float(np.sum(own)) for own in logs)


class Curves(NamedTuple):
    """Residuals of all groups, 0 where nothing was measured.

    Args:
        residual: [samples, states, groups], in the scale of the noise.
        slopes: derivatives of the curve in that scale [samples, states, unknowns, groups]; None where
            they were not asked for.
    """

    residual: Array
    slopes: Array | None


class GroupModel:
    """A structure on measured groups: unknowns [unknowns, groups] to residuals.

    The unknowns are logarithms of constants, free exponents, and the open starts.

    Args:
        structure: the terms.
        measured: the groups.
        signs: of the entries [entries, groups], 0 for a term that a group lacks.
        exponents: [monomials, states, groups], where they differ from group to group.
        scale: sizes of the states [states], by default those of the samples.
    """

    def __init__(
        self,
        structure: Structure,
        measured: Measured,
        signs: Array | None = None,
        exponents: Array | None = None,
        scale: Array | None = None,
    ) -> None:
        self.structure, self.measured, self.seen = structure, measured, measured.seen
        self.scale = measured.data.scale if scale is None else scale
        self.n_constants, self.n_free = structure.n_constants, len(structure.free)
        self.first_start = self.n_constants + self.n_free
        self.n_unknowns = self.first_start + len(measured.open_starts)
        self._signs = np.array([[e.sign] for e in structure.entries], float) if signs is None else signs
        self._exponents = structure.exponents[:, :, None] if exponents is None else exponents

    def _rates(self, unknowns: Array) -> Callable[[float, Array], Array]:
        """dx/dt and dS/dt side by side, of x and S in y [states, 1 + unknowns, groups]; S may be left out."""
        i, j, k = (np.array([e[at] for e in self.structure.entries], int) for at in range(3))
        w, first_free, groups = self._exponents, self.n_constants, unknowns.shape[1]
        if self.n_free:
            w = np.broadcast_to(w, (*w.shape[:2], groups)).copy()
            for f, place in enumerate(self.structure.free, start=first_free):
                w[place] = unknowns[f]
        with np.errstate(over="ignore"):
            sizes = self._signs * np.exp(unknowns[k])
        a, tiny = np.zeros((w.shape[1], len(w), groups)), (TINY * self.scale)[:, None]
        np.add.at(a, (i, j), sizes)
        # A power of a state below 0 is that of its size, with the sign of a whole power, or nothing.
        turns = np.where(np.mod(w, 2) == 1, -1.0, np.where(np.mod(w, 2) == 0, 1.0, 0.0))

        def rates(_: float, y: Array) -> Array:
            x = y[:, 0]
            size, below = np.maximum(np.abs(x), tiny), x < 0
            logs = np.log(size)
            # Times the largest constant it is still a float.
            products = np.exp(np.minimum(np.einsum("jkg,kg->jg", w, logs), 600.0))
            if below.any():
                products = products * np.where(below, turns, 1.0).prod(axis=1)
                size = np.where(below, -size, size)
            terms, change = a * products, np.empty(y.shape)
            change[:, 0] = terms.sum(axis=1)
            if y.shape[1] > 1:
                moved = change[:, 1:]
                np.einsum("ikg,kpg->ipg", np.einsum("ijg,jkg->ikg", terms, w) / size, y[:, 1:], out=moved)
                moved[i, k] += sizes * products[j]
                for f, (row, state) in enumerate(self.structure.free, start=first_free):
                    moved[:, f] += terms[:, row] * logs[state]
            return change

        return rates

    def _solved(self, unknowns: Array, slopes: bool = False) -> Array:
        """Curves at the samples, and their slopes behind them [samples, states, 1 or 1 + unknowns, groups]."""
        measured, rates = self.measured, self._rates(unknowns)
        start, moved, jumps = measured.begun(unknowns[self.first_start :])
        y = np.zeros((len(start), 1 + self.n_unknowns * slopes, unknowns.shape[1]))
        y[:, 0] = start
        rows, most = measured.open_starts, (WILD * self.scale)[:, None]
        own = rows, np.arange(1 + self.first_start, 1 + self.n_unknowns)
        scaled = np.array([[measured.starts[i].kind == SCALED] for i in rows], bool).reshape(-1, 1)
        if slopes:
            y[own] = moved
        found = [y]
        with np.errstate(all="ignore"):
            for jump, (count, h) in zip(jumps, measured.data.grid(), strict=False):
                if jump.any():
                    y = y.copy()
                    y[:, 0] += jump
                    if slopes:
                        y[own] += np.where(scaled, jump[rows], 0.0)
                for _ in range(count):
                    y = rk4_step(rates, y, h)
                    y[:, 0] = np.clip(y[:, 0], -most, most)
                found.append(y)
        return np.stack(found)

    def fitted(self, unknowns: Array) -> Array:
        """Curves at the samples [samples, states, groups]."""
        found: Array = self._solved(unknowns)[:, :, 0]
        return found

    @np.errstate(over="ignore", invalid="ignore")  # of a curve that has run away
    def curves(self, unknowns: Array, slopes: bool = True) -> Curves:
        """Residuals at these unknowns, and the slopes of the curves."""
        data, found = self.measured.data, self._solved(unknowns, slopes)
        x, s = found[:, :, 0], found[:, :, 1:]
        y = np.where(self.seen, data.values, 0.0)
        residual = np.where(self.seen, y - x, 0.0)
        for i in np.flatnonzero(self.measured.logarithmic):
            least = TINY * data.scale[i]
            size = np.maximum(x[:, i], least)
            residual[:, i] = np.where(self.seen[:, i], np.log(np.maximum(y[:, i], least)) - np.log(size), 0.0)
            s[:, i] /= size[:, None]
        residual = np.nan_to_num(residual, nan=1e30, posinf=1e30, neginf=-1e30)  # whose squares are floats
        if not slopes:
            return Curves(residual, None)
        # Of a curve that runs away no step follows.
        lost = ~np.isfinite(x) | (np.abs(x) >= 0.1 * WILD * data.scale[:, None])
        kept = self.seen & ~np.logical_or.accumulate(lost.any(axis=1), axis=0)[:, None]
        return Curves(residual, np.nan_to_num(np.where(kept[:, :, None], s, 0.0), nan=0.0, posinf=0.0, neginf=0.0))


class SeparateFit(NamedTuple):
    """Unknowns of every group with what they leave.

    Args:
        unknowns: [unknowns, groups].
        squares: of the residuals, [states, groups], unweighted.
        objective: that was minimised [groups].
    """

    unknowns: Array
    squares: Array
    objective: Array


def fit_each(
    model: GroupModel,
    begin: Array,
    sigma: Array,
    centre: Array | None = None,
    width: Array | None = None,
    steps: int = 25,
) -> SeparateFit:
    r"""The most likely unknowns of every group, all groups at once, held together loosely:

        minimise  \sum_j ((y_j - x(t_j; c)) / sigma)^2 + \sum_k ((c_k - centre_k) / width_k)^2   for each group

    by Levenberg-Marquardt with a damping of each group's own. Not `levenberg_marquardt`: a `GroupModel` solves all
    its groups or none, so that none leaves the batch; logarithms change by a factor of 4.5 at most; and curves come
    with their slopes, so that a step costs one solution.

    Args:
        begin: [unknowns, groups].
        sigma: of the noise [states].
        centre: [unknowns] or [unknowns, groups], where the unknowns are expected.
        width: [unknowns], how sure that is; inf for not at all.
    """
    x, weight = begin, 1.0 / sigma**2
    precision = np.zeros(len(x)) if width is None else 1.0 / width**2
    expected = x if centre is None else centre.reshape(len(x), -1)

    def value(residual: Array, x: Array) -> Array:
        with np.errstate(over="ignore"):
            found: Array = np.einsum("tig,tig,i->g", residual, residual, weight) + precision @ (x - expected) ** 2
        return found

    def step(residual: Array, slopes: Array, x: Array) -> Array:
        weighted = slopes * weight[:, None, None]
        normal = np.einsum("tipg,tiqg->gpq", weighted, slopes, optimize=True) + np.diag(precision)
        gradient = np.einsum("tipg,tig->gp", weighted, residual) + (precision[:, None] * (expected - x)).T
        size = np.einsum("gpp->gp", normal)
        added = damping[:, None] * np.maximum(size, 1e-9 * size.max(axis=1, keepdims=True))
        normal += np.maximum(added, ABOVE_ZERO)[:, :, None] * np.eye(len(x))
        found = np.linalg.solve(normal, gradient[:, :, None])[:, :, 0].T
        longest = np.maximum(np.abs(found).max(axis=0), ABOVE_ZERO)
        return np.asarray(np.nan_to_num(found * np.minimum(1.0, 1.5 / longest)))

    residual, slopes = model.curves(x)
    best, damping = value(residual, x), np.full(x.shape[1], 1e-2)
    for _ in range(steps):
        assert slopes is not None
        tried = x + step(residual, slopes, x)
        trial = model.curves(tried)
        reached = value(trial.residual, tried)
        better = reached < best
        gain = np.where(better, (best - reached) / np.maximum(best, ABOVE_ZERO), 0.0)
        assert trial.slopes is not None
        x, best = np.where(better, tried, x), np.where(better, reached, best)
        residual, slopes = np.where(better, trial.residual, residual), np.where(better, trial.slopes, slopes)
        damping = np.clip(np.where(better, damping / 4.0, damping * 4.0), 1e-9, 1e9)
        # Those that have settled, and those that no small step makes better.
        if np.all(np.where(better, gain < 1e-4, damping > 1e2)):
            break
    return SeparateFit(x, np.einsum("tig,tig->ig", residual, residual), best)
