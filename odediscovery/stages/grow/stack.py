"""Many laws as stacks of arrays: their monomials, their best coefficients, the slopes of what they leave.

    rate_i = sum_j A[i, j] prod_k y_k ** W[j, k],   y = (x, f(x), u),   u_l = 1 + sum_j B[l, j] prod_k x_k ** V[j, k]

A law of three monomials is so small that calling NumPy takes ten times longer than its arithmetic. Laws
on one path make a stack: what has fewer monomials or sums than others has empty ones behind its own,
monomials that no equation uses and sums that are 1. Nodes and samples are the last axis throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from odediscovery.laws.power_sum import Sums
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import check_time
from odediscovery.stages.grow.coefficients import COEFFICIENTS
from odediscovery.stages.grow.integral_form import INTEGRAL, Path
from odediscovery.stages.grow.variable_projection import Draft, Fit, Projected

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Constants:
    """Of laws side by side.

    Args:
        w, b, v: W [laws, monomials, features], sums last, B [laws, sums, monomials inside] and
            V [laws, monomials inside, states and functions].
        used: which coefficients are free, [laws, equations, monomials].
    """

    w: Array
    b: Array
    v: Array
    used: Mask

    @classmethod
    def of(cls, laws: Sequence[Draft], first: int) -> Constants:
        """Those of some laws of `first` states and functions."""
        m, sums = max(len(d.exponents) for d in laws), max(len(d.sums) for d in laws)
        inside = max(len(d.sums.exponents) for d in laws)
        w, b = np.zeros((len(laws), m, first + sums)), np.zeros((len(laws), sums, inside))
        v, used = np.zeros((len(laws), inside, first)), np.zeros((len(laws), len(laws[0].used), m), dtype=bool)
        for k, d in enumerate(laws):
            w[k, : len(d.exponents), : d.exponents.shape[1]] = d.exponents
            used[k, :, : len(d.exponents)] = d.used
            if len(d.sums):
                b[k, : len(d.sums), : len(d.sums.exponents)] = d.sums.weights
                v[k, : len(d.sums.exponents)] = d.sums.exponents
        return cls(w, b, v, used)


@dataclass(frozen=True, eq=False)
class Stack(Constants):
    """Laws with the best coefficients.

    Args:
        inside: monomials inside sums at the nodes, [laws, monomials inside, nodes].
        u: sums, [laws, sums, nodes].
        values: monomials, [laws, monomials, nodes].
        q: orthonormal columns that span their integrals, [laws, equations, samples, monomials].
        coefficients: A, [laws, equations, monomials].
        residual: [laws, equations, samples].
        squares: mean square residual of every equation, [laws, equations].
        score: the minimised likelihood, [laws].
    """

    inside: Array
    u: Array
    values: Array
    q: Array
    coefficients: Array
    residual: Array
    squares: Array
    score: Array

    def constants(self, laws: Index) -> Constants:
        """Those of some of the laws."""
        return Constants(self.w[laws], self.b[laws], self.v[laws], self.used[laws])

    def take(self, laws: Index) -> Stack:
        """Some of the laws."""
        return Stack(*(getattr(self, f.name)[laws] for f in fields(self)))

    def put(self, laws: Index, others: Stack) -> None:
        """Others in the place of some of the laws."""
        for f in fields(self):
            getattr(self, f.name)[laws] = getattr(others, f.name)

    def model(self, k: int, law: Draft) -> Projected:
        """Law k, which began as `law`."""
        m, sums, inside = len(law.exponents), len(law.sums), len(law.sums.exponents)
        own = Sums(self.b[k, :sums, :inside], self.v[k, :inside]) if sums else law.sums
        return Projected(
            self.w[k, :m, : law.exponents.shape[1]],
            law.used,
            law.powers,
            own,
            law.path,
            self.coefficients[k, :, :m],
            self.squares[k],
            float(self.score[k]),
        )


def _products(path: Path, exponents: Array, more: Array | None = None) -> Array:
    """prod_k x_k ** W[l, j, k], times exp(more), at the nodes, [laws, monomials, nodes]."""
    log = exponents @ path.log_rows
    if more is not None:
        log += more
    values: Array = np.exp(np.minimum(log, INTEGRAL.most_log, out=log), out=log)
    if path.negative.any():
        odd = np.round(exponents) % 2
        values *= 1.0 - 2.0 * ((odd @ path.negative.reshape(-1, exponents.shape[2]).T) % 2)
    return values


def evaluated(fit: Fit, path: Path, at: Constants, inside: Array | None = None) -> Stack:
    """Laws with the best coefficients, as `solve` has them.

    Args:
        inside: monomials inside the sums, where they are known.
    """
    check_time()
    first = at.v.shape[2]
    with np.errstate(all="ignore"):  # trial exponents may be anything
        if inside is None:
            inside = _products(path, at.v)
        u = np.maximum(1.0 + at.b @ inside, INTEGRAL.least_state)
        values = _products(path, at.w[:, :, :first], at.w[:, :, first:] @ np.log(u) if u.shape[1] else None)
        columns = np.where(at.used[..., None], fit.problem.rows(values[:, None], fit.equations), 0.0)
        size = np.sqrt(np.einsum("lemt,lemt->lem", columns, columns))
        size[~(size > 0)] = 1.0
        columns /= size[..., None]
        laws, n, m, samples = columns.shape
        ridge = np.broadcast_to(COEFFICIENTS.ridge * np.eye(m), (laws, n, m, m))
        q, r = np.linalg.qr(np.concatenate([columns, ridge], axis=3).swapaxes(2, 3))
        q, target = q[:, :, :samples], fit.target
        scaled = np.linalg.solve(r, (target[:, None] @ q).swapaxes(2, 3))[..., 0]
        scaled = np.where(at.used, scaled, 0.0)
        residual = target - (scaled[:, :, None] @ columns)[:, :, 0]
        squares = np.sum(residual**2, axis=2) / fit.counts
        score = np.sum(fit.counts * np.log(squares + fit.floor), axis=1)
    return Stack(at.w, at.b, at.v, at.used, inside, u, values, q, scaled / size, residual, squares, score)


@dataclass(frozen=True, eq=False)
class Places:
    """Constants of one kind in every law; places beyond a law's own count as nothing.

    Args:
        row, of: where they stand, [laws, places].
        own: which places are a law's own, [laws, places].
    """

    row: Index
    of: Index
    own: Mask

    @classmethod
    def of_each(cls, places: Sequence[Index]) -> Places:
        """From rows and columns of every law, [places, 2]."""
        most = max(map(len, places))
        own = np.arange(most) < np.array([[len(p)] for p in places])
        index = np.zeros((len(places), most, 2), dtype=np.int64)
        index[own] = np.concatenate(places)
        return cls(index[..., 0], index[..., 1], own)

    def take(self, laws: Index) -> Places:
        """Those of some laws."""
        return Places(self.row[laws], self.of[laws], self.own[laws])

    @property
    def index(self) -> tuple[Index, Index, Index]:
        """Law, row and column of every place, one law after the other."""
        law, place = np.nonzero(self.own)
        return law, self.row[law, place], self.of[law, place]


def jacobian(fit: Fit, path: Path, now: Stack, free: Sequence[Places]) -> Array:
    """d residual / d (W, B, V) with A held, [laws, equations, places, samples]; 0 in places that are not own."""
    first, law = now.v.shape[2], np.arange(len(now.w))[:, None]
    of_w, of_b, of_v = free
    # A law of constant rates has no places at all.
    found = [np.zeros((*now.residual.shape[:2], 0, now.residual.shape[2]))]
    with np.errstate(all="ignore"):  # trial exponents may be anything
        if of_w.own.size:
            y = path.log_rows[np.minimum(of_w.of, first - 1)]
            summed = of_w.of >= first
            if summed.any():
                y[summed] = np.log(now.u[np.nonzero(summed)[0], of_w.of[summed] - first])
            nodes = (now.values[law, of_w.row] * y)[:, None]
            slope = now.coefficients[law, :, of_w.row].swapaxes(1, 2)
            found.append(fit.problem.rows(nodes, fit.equations) * slope[..., None])
        if of_b.own.size or of_v.own.size:
            # d rate_i / d ln u_l = sum_j A[i, j] W[j, l] monomial_j
            weights = now.coefficients[:, :, None] * now.w[:, None, :, first:].swapaxes(2, 3)
            slope = (weights @ now.values[:, None]) / now.u[:, None]
            nodes = slope[law, :, of_b.row].swapaxes(1, 2) * now.inside[law, of_b.of][:, None]
            if of_v.own.size:
                through = (now.b.swapaxes(1, 2)[:, None] @ slope) * now.inside[:, None]
                of_each = through[law, :, of_v.row].swapaxes(1, 2) * path.log_rows[of_v.of][:, None]
                nodes = np.concatenate([nodes, of_each], axis=2)
            found.append(fit.problem.rows(nodes, fit.equations))
    own = np.concatenate([p.own for p in free], axis=1)
    result: Array = np.where(own[:, None, :, None], -np.concatenate(found, axis=2), 0.0)
    return result


def normal_equations(fit: Fit, path: Path, now: Stack, free: Sequence[Places]) -> tuple[Array, Array]:
    """Normal matrices [laws, places, places] and gradients [laws, places] of the weighted residuals."""
    jac = jacobian(fit, path, now, free)
    with np.errstate(all="ignore"):
        jac -= (jac @ now.q) @ now.q.swapaxes(2, 3)
        weight = 1.0 / np.sqrt(now.squares + fit.floor)
        laws, _, size, _ = jac.shape
        flat = (jac * weight[..., None, None]).swapaxes(1, 2).reshape(laws, size, now.residual[0].size)
        left = (now.residual * weight[..., None]).reshape(laws, -1, 1)
        return flat @ flat.swapaxes(1, 2), (flat @ left)[..., 0]
