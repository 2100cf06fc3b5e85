r"""Groups that share the terms of a law but not its constants: data, solution curves and separate fits.

    dx_i/dt = \sum_e s_e exp(c_{k(e)}) \prod_k x_k ** W[j(e), k],    dS/dt = (df/dx) S + df/dc,    S = dx/dc

Every entry e belongs to one equation i, one product of powers j and one constant k, which is positive and kept as a
logarithm. Two entries with the same constant are a flow from one state to another. Groups are the last axis of
every array and are solved in parallel, by Runge-Kutta 4 with steps that are fixed beforehand; only the final
model is solved with more steps (`Measured.refined`). The noise of each state is of one of two kinds:

    additive:      y = x + sigma e
    proportional:  log y = log x + sigma e
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odediscovery.fitting.windows import descend
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask

# Smallest size of a state in a power, which keeps 0 ** p differentiable, and the size at which solutions are clipped
# [largest sample].
TINY, WILD = 1e-9, 1e6
# Standard deviation of unknowns about their expected values [logarithm]: a factor of 20.
LOOSELY = 3.0


class Entry(NamedTuple):
    """One term of one equation: sign * constant * monomial."""

    state: int
    monomial: int
    constant: int
    sign: int


@dataclass(frozen=True, eq=False)
class Structure:
    """Terms of a law whose constants differ between groups.

    >>> decay = Structure(np.array([[1.0]]), (Entry(0, 0, 0, -1),))
    >>> decay.n_constants, decay.law(np.log([0.5])).rhs(np.array([[2.0]])).tolist()
    (1, [[-1.0]])
    """

    exponents: Array  # W, [monomials, states]
    entries: tuple[Entry, ...]  # equation by equation
    free: tuple[tuple[int, int], ...] = ()  # places (monomial, state) of exponents that are fitted

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.exponents.shape[1])

    @property
    def n_constants(self) -> int:
        """Number of distinct constants."""
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

    def without(self, constant: int) -> Structure:
        """The structure without the entries of one constant, and without unused monomials."""
        return self._of([e for e in self.entries if e.constant != constant])

    def tied(self, first: int, second: int) -> Structure:
        """The structure with two constants merged into the first, which has the smaller number.

        >>> two = structure_of([[(-1, [1.0, 0.0])], [(1, [1.0, 0.0])]])
        >>> two.tied(0, 1).n_constants
        1
        """
        return self._of([e._replace(constant=first) if e.constant == second else e for e in self.entries])

    def _of(self, entries: Sequence[Entry]) -> Structure:
        """The structure of these entries, whose monomials and constants are numbered anew."""
        used, kept = (sorted({e[at] for e in entries}) for at in (1, 2))
        anew = (e._replace(monomial=used.index(e.monomial), constant=kept.index(e.constant)) for e in entries)
        free = tuple((used.index(j), k) for j, k in self.free if j in used)
        return Structure(self.exponents[used], tuple(anew), free)

    def kind(self) -> tuple[object, ...]:
        """Key that identifies the structure: state, sign and exponents of entries; number of constants; free places."""
        terms = frozenset((e.state, e.sign, tuple(self.exponents[e.monomial])) for e in self.entries)
        return terms, self.n_constants, self.free

    def price(self) -> float:
        """Complexity besides the constants: each exponent other than 1 counts half, each free one half more."""
        w = self.exponents[self.exponents != 0]
        return float(0.5 * np.count_nonzero(w != 1.0)) + 0.5 * len(self.free)


def structure_of(terms: Sequence[Sequence[tuple[int, Sequence[float]]]]) -> Structure:
    """A structure from the terms of each equation, (sign, exponents), each with its own constant.

    >>> logistic = structure_of([[(1, [1.0]), (-1, [2.0])]])
    >>> logistic.n_constants, logistic.exponents.ravel().tolist()
    (2, [1.0, 2.0])
    """
    flat = [(i, sign, tuple(map(float, powers))) for i, equation in enumerate(terms) for sign, powers in equation]
    rows = list(dict.fromkeys(row for *_, row in flat))
    entries = tuple(Entry(i, rows.index(row), k, sign) for k, (i, sign, row) in enumerate(flat))
    return Structure(np.array(rows).reshape(len(rows), len(terms)), entries)


def padded(runs: Sequence[tuple[Array, Array]], doses: Sequence[Array] = ()) -> tuple[Array, Array, Array]:
    """Times, values and doses of groups of any length, as `Measured` holds them.

    Takes the times [samples] and values [samples, states] of every group, and doses of the shape of the values.

    >>> padded([(np.arange(3.0), np.ones((3, 1))), (np.arange(2.0), np.ones((2, 1)))])[1][2, 0].tolist()
    [1.0, nan]
    """
    longest = max(len(t) for t, _ in runs)

    def filled(arrays: Sequence[Array], value: float) -> Array:
        rows = [np.pad(x, ((0, longest - len(x)), (0, 0)), constant_values=value) for x in arrays]
        return np.stack(rows, axis=2)

    times = np.stack([np.pad(t, (0, longest - len(t)), mode="edge") for t, _ in runs], axis=1)
    values = filled([x for _, x in runs], np.nan)
    return times, values, filled(doses, 0.0) if doses else np.zeros(values.shape)


# Knowledge of a start value: its sign or nothing (it is fitted); its value, given or equal to the first sample (then
# not part of the likelihood); its value up to a fitted factor, which multiplies doses to this state, too.
POSITIVE, ANY, KNOWN, EXACT, SCALED = "positive", "any", "known", "exact", "scaled"


class Start(NamedTuple):
    """Start values of one state in all groups."""

    kind: str
    value: Array  # [groups], known or initial guesses
    factor: float = 1.0  # initial guess of the factor of a scaled start


@dataclass(frozen=True, eq=False)
class Measured:
    """Groups with the same states: samples, doses, starts, kinds of noise, labels and covariates."""

    times: Array  # [samples, groups], padded with the last time
    values: Array  # [samples, states, groups], nan where nothing was measured
    doses: Array  # added immediately after each sample [samples, states, groups]
    starts: tuple[Start, ...]  # one per state
    logarithmic: Mask  # states whose noise is proportional [states]
    labels: tuple[str, ...]
    covariates: Mapping[str, Array] = field(default_factory=dict)  # centred logarithms by name [groups]
    dosed: tuple[tuple[int, str], ...] = ()  # dosed states and the columns of their doses, included in `doses`
    steps: int = 48  # minimum number of solver steps over the span of a group; see `refined`

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.times.shape[1])

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.values.shape[1])

    @cached_property
    def scale(self) -> Array:
        """Largest absolute value of every state [states], 1 where nothing was measured."""
        seen = np.nan_to_num(np.abs(self.values)).max(axis=(0, 2))
        return np.where(seen > 0, seen, 1.0)

    def refined(self) -> Measured:
        """The same groups, solved with twice as many steps."""
        return replace(self, steps=2 * self.steps)

    def given(self) -> Array:
        """Sums of the doses to each state before each sample [samples, states, groups]."""
        return np.pad(np.cumsum(self.doses[:-1], axis=0), ((1, 0), (0, 0), (0, 0)))

    def grid(self) -> list[tuple[int, Array]]:
        """Number and size [groups] of the steps from each sample to the next."""
        longest = (self.times[-1] - self.times[0]) / self.steps
        gaps = np.diff(self.times, axis=0)
        # 1e-9 absorbs rounding; at least two steps, because early samples are close where rates are high.
        counts = np.ceil((gaps / np.where(longest > 0, longest, 1.0)).max(axis=1) - 1e-9)
        return [(most, gap / most) for most, gap in zip(np.maximum(counts, 2).astype(int).tolist(), gaps, strict=True)]

    @property
    def open_starts(self) -> list[int]:
        """States whose starts are fitted."""
        return [i for i, start in enumerate(self.starts) if start.kind not in (KNOWN, EXACT)]

    @cached_property
    def seen(self) -> Mask:
        """Mask of the values that enter the likelihood, [samples, states, groups]."""
        seen = np.isfinite(self.values)
        seen[0, [start.kind == EXACT for start in self.starts]] = False
        return seen

    def counts(self) -> Array:
        """Number of values of each state in the likelihood [states]."""
        return np.asarray(self.seen.sum(axis=(0, 2)), float)

    def spread(self) -> Array:
        """Standard deviation of the values of each state on the scale of its noise, 1 where there is none [states]."""
        values = np.where(self.seen, self.values, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = np.where(self.logarithmic[None, :, None], np.log(np.maximum(values, ABOVE_ZERO)), values)
        found = np.array([np.nanstd(x) if np.isfinite(x).any() else 1.0 for x in scaled.transpose(1, 0, 2)])
        return np.where(found > 0, found, 1.0)

    def first_starts(self) -> Array:
        """Initial guesses of the unknowns of the starts [open starts, groups]."""
        found: list[Array] = [np.zeros((0, self.n_groups))]
        for kind, value, factor in (self.starts[i] for i in self.open_starts):
            guess = np.full(len(value), factor) if kind == SCALED else value
            found.append(guess if kind == ANY else np.log(np.maximum(guess, ABOVE_ZERO)))
        return np.vstack(found)

    def begun(self, unknown: Array) -> tuple[Array, Array, Array]:
        """Starts [states, groups], their slopes by the unknowns [open, groups], and doses in the units of their states.

        An unknown is a start value, its logarithm, or the logarithm of the factor of a scaled one.
        """
        starts = np.stack([start.value for start in self.starts]).astype(float)
        slopes, factors = np.ones(unknown.shape), np.ones(starts.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # diverging starts or factors
            for row, i in enumerate(self.open_starts):
                kind = self.starts[i].kind
                size = unknown[row] if kind == ANY else np.exp(unknown[row])
                if kind == SCALED:
                    factors[i] = size
                starts[i] = size * starts[i] if kind == SCALED else size
                slopes[row] = 1.0 if kind == ANY else starts[i]
            return starts, slopes, self.doses * factors

    def taken(self, groups: Sequence[int] | NDArray[np.intp]) -> Measured:
        """The selected groups, in this order and possibly repeated."""
        return replace(
            self,
            times=self.times[:, groups],
            values=self.values[:, :, groups],
            doses=self.doses[:, :, groups],
            starts=tuple(start._replace(value=start.value[groups]) for start in self.starts),
            labels=tuple(self.labels[g] for g in groups),
            covariates={name: values[groups] for name, values in self.covariates.items()},
        )

    def repeated(self, times: int) -> Measured:
        """All groups repeated `times` times, set after set."""
        return self.taken(np.tile(np.arange(self.n_groups), times))

    def jacobian_of_logs(self) -> float:
        """Change of -2 log likelihood from logarithms to the values of states with proportional noise."""
        logs = (np.log(self.values[:, i][self.seen[:, i]]) for i in np.flatnonzero(self.logarithmic))
        return 2.0 * sum(float(np.sum(own)) for own in logs)


class GroupModel:
    """A structure on measured groups, which maps unknowns [unknowns, groups] to residuals.

    The unknowns are logarithms of constants, free exponents, and the open starts. Signs of entries [entries, groups],
    0 for a missing term, and exponents [monomials, states, groups] may differ between groups; `scale` has the sizes of
    the states [states] (default: those of the samples).
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
        self.scale = measured.scale if scale is None else scale
        self.n_constants, self.n_free = structure.n_constants, len(structure.free)
        self.first_start = self.n_constants + self.n_free
        self.n_unknowns = self.first_start + len(measured.open_starts)
        self.signs = np.array([[e.sign] for e in structure.entries], float) if signs is None else signs
        self.exponents = structure.exponents[:, :, None] if exponents is None else exponents

    def _rates(self, unknowns: Array) -> Callable[[float, Array], Array]:
        """The function for dx/dt and dS/dt, of x and S in y [states, 1 + unknowns, groups]; S may be absent."""
        i, j, k = (np.array([e[at] for e in self.structure.entries], int) for at in range(3))
        w, first_free, groups = self.exponents, self.n_constants, unknowns.shape[1]
        if self.n_free:
            w = np.broadcast_to(w, (*w.shape[:2], groups)).copy()
            for f, place in enumerate(self.structure.free, start=first_free):
                w[place] = unknowns[f]
        with np.errstate(over="ignore"):
            sizes = self.signs * np.exp(unknowns[k])
        a, tiny = np.zeros((w.shape[1], len(w), groups)), (TINY * self.scale)[:, None]
        np.add.at(a, (i, j), sizes)
        # A power of a negative state is that of its absolute value, with the sign of a whole power; 0 if fractional.
        turns = np.where(np.mod(w, 2) == 1, -1.0, np.where(np.mod(w, 2) == 0, 1.0, 0.0))

        def rates(_: float, y: Array) -> Array:
            x = y[:, 0]
            size, below = np.maximum(np.abs(x), tiny), x < 0
            logs = np.log(size)
            # Multiplied by the largest constant, it is still a float.
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
        """Curves at the samples, followed by their slopes [samples, states, 1 or 1 + unknowns, groups]."""
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
            for jump, (count, h) in zip(jumps, measured.grid(), strict=False):
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
        return np.asarray(self._solved(unknowns)[:, :, 0])

    @np.errstate(over="ignore", invalid="ignore")  # diverging curves
    def curves(self, unknowns: Array, slopes: bool = True) -> tuple[Array, Array]:
        """Residuals [samples, states, groups] on the scale of the noise, 0 where nothing was measured, and slopes.

        Slopes are the derivatives of the curves on that scale [samples, states, unknowns, groups].
        """
        measured, found = self.measured, self._solved(unknowns, slopes)
        x, s = found[:, :, 0], found[:, :, 1:]
        y = np.where(self.seen, measured.values, 0.0)
        residual = np.where(self.seen, y - x, 0.0)
        for i in np.flatnonzero(measured.logarithmic):
            least = TINY * measured.scale[i]
            size = np.maximum(x[:, i], least)
            residual[:, i] = np.where(self.seen[:, i], np.log(np.maximum(y[:, i], least)) - np.log(size), 0.0)
            s[:, i] /= size[:, None]
        residual = np.nan_to_num(residual, nan=1e30, posinf=1e30, neginf=-1e30)  # squares must not overflow
        # A diverging curve gives no useful step.
        lost = ~np.isfinite(x) | (np.abs(x) >= 0.1 * WILD * measured.scale[:, None])
        kept = self.seen & ~np.logical_or.accumulate(lost.any(axis=1), axis=0)[:, None]
        return residual, np.nan_to_num(np.where(kept[:, :, None], s, 0.0), nan=0.0, posinf=0.0, neginf=0.0)

    def residual(self, unknowns: Array) -> Array:
        """Residuals as in `curves`, without the slopes."""
        return self.curves(unknowns, slopes=False)[0]


def side_by_side(structures: Sequence[Structure], measured: Measured) -> tuple[GroupModel, list[list[int]]]:
    """One model of all structures on all groups, one after the other, and the constants of the entries of each.

    Every equation has places for the terms of the longest structure. Others use the last of these, so that all
    structures have the free exponents of the first, and the signs of the rest are 0.
    """
    many, n = len(structures), measured.n_states
    longest = [max(sum(e.state == i for e in one.entries) for one in structures) for i in range(n)]
    pattern = tuple(Entry(i, q, q, 1) for q, i in enumerate(np.repeat(np.arange(n), longest).tolist()))
    signs, w, places = np.zeros((len(pattern), many)), np.zeros((len(pattern), n, many)), list[list[int]]()
    for s, one in enumerate(structures):
        counts = [sum(e.state == i for e in one.entries) for i in range(n)]
        own = [q for end, count in zip(np.cumsum(longest), counts, strict=True) for q in range(end - count, end)]
        signs[own, s] = [e.sign for e in one.entries]
        w[own, :, s] = one.exponents[[e.monomial for e in one.entries]]
        places.append(own)
    first = structures[0]
    free = tuple(
        (q, k) for e, q in zip(first.entries, places[0], strict=True) for j, k in first.free if e.monomial == j
    )
    whole = Structure(np.ones((len(pattern), n)), pattern, free)
    signs, w = (np.repeat(x, measured.n_groups, axis=-1) for x in (signs, w))
    return GroupModel(whole, measured.repeated(many), signs, w), places


def fit_each(
    model: GroupModel, begin: Array, sigma: Array, centre: Array, width: Array, steps: int = 25
) -> tuple[Array, Array]:
    r"""The most likely unknowns of every group, all groups at once, with a weak prior:

        minimise  \sum_j ((y_j - x(t_j; c)) / sigma)^2 + \sum_k ((c_k - centre_k) / width_k)^2   for each group

    Returns them with the sums of squared residuals [states, groups]. `sigma` is the noise [states]; `begin` and
    `centre` are [unknowns, groups], and `width` [unknowns] is inf for unknowns without a prior.
    """
    weight, precision = 1.0 / sigma**2, 1.0 / width**2

    def equations(x: Array) -> tuple[Array, Array, Array]:
        residual, slopes = model.curves(x.T)
        weighted, off = slopes * weight[:, None, None], x.T - centre
        value = np.einsum("tig,tig,i->g", residual, residual, weight) + precision @ off**2
        gradient = (precision[:, None] * off).T - np.einsum("tipg,tig->gp", weighted, residual)
        normal = np.einsum("tipg,tiqg->gpq", weighted, slopes, optimize=True) + np.diag(precision)
        return value, gradient, normal

    # A step changes a constant by at most a factor of 4.5.
    x = descend(equations, begin.T, steps, 1.5, np.full(begin.shape[1], 1e-2))[0].T
    residual = model.residual(x)
    return x, np.einsum("tig,tig->ig", residual, residual)
