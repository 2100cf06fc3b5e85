"""Variable projection: fits of a power-sum law on the integral form.

    minimise  sum_i N_i ln(|y_i - sum_j A[i, j] G_i,j(W)|^2 / N_i + floor_i^2)

over the exponents W alone: the coefficients A are linear and solved for at every W. That is the
likelihood of residuals whose size is unknown and differs from state to state; the floor is what
no law can explain (digits of the data, noise of a start). Steps are Levenberg-Marquardt with
Kaufman's Jacobian (BIT 15, 1975): columns of dG/dW A projected off the columns of G.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import power_is_rate
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import check_time
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.stages.grow.coefficients import Linear, solve
from odediscovery.stages.grow.integral_form import Integral, Path


@dataclass(frozen=True)
class ProjectionThresholds(Thresholds):
    """Where exponents may go, and when a fit of them has converged."""

    least_exponent: float = threshold(-3.0, "least exponent")
    most_exponent: float = threshold(6.0, "largest exponent")
    most_inside: float = threshold(12.0, "largest exponent inside a sum")
    fastest_rate: float = threshold(30.0, "largest rate of an exponential", unit="1 / rms of its state")
    likely: float = threshold(
        3.0,
        "distance of the mean square of mere noise above its expected value",
        unit="standard deviations",
        origin="99.9 % of a normal distribution",
    )
    unlikely: float = threshold(
        2.0,
        "correlation of neighbours up to which it counts as none",
        unit="standard deviations",
        origin="the usual 95 % of a normal distribution",
    )
    gain: float = threshold(1e-3, "gain below which a fit has converged", unit="of the score")
    longest: float = threshold(0.5, "longest step of an exponent", origin="chosen: between two simple powers")
    round_gain: float = threshold(0.5, "gain below which a new path needs no next round", unit="of the score")
    first_damping: float = threshold(1e-3, "damping that a fit begins with", origin="usual")
    singular: float = threshold(
        1e-13, "added to every diagonal element", unit="the largest one", origin="float64: solves a singular matrix"
    )
    damping_factor: float = threshold(10.0, "by which damping rises and falls", origin="usual: Marquardt")
    least_damping: float = threshold(1e-9, "least damping", origin="float64")
    most_damping: float = threshold(1e4, "damping beyond which no step helps", origin="usual")


PROJECTION = ProjectionThresholds()
# Stands for 0 where something is divided by it.
TINY = 1e-300


# Stands for an exponent that is no whole number, whatever it is.
REAL = 0.25

# Row and column of constants, [places, 2].
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Model:
    """A law of some equations, on its own path.

    Args:
        exponents: W, [monomials, features], sums last.
        used: which coefficients are free, [equations, monomials]; the others are 0.
        powers: which exponents are not 0, [monomials, features].
        sums: the sums among the features.
        path: the states between the samples.
        coefficients: A, [equations, monomials].
        squares: mean square residual of every equation, [equations].
        score: the minimised sum above.
    """

    exponents: Array
    used: Mask
    powers: Mask
    sums: Sums
    path: Path
    coefficients: Array
    squares: Array
    score: float

    @property
    def size(self) -> int:
        """Number of constants."""
        inner = np.count_nonzero(self.sums.weights) + np.count_nonzero(self.sums.exponents)
        return int(self.used.sum() + self.powers.sum() + inner)

    @cached_property
    def seen(self) -> Path:
        """The path with the sums as further features."""
        return self.path.with_sums(self.sums)

    @property
    def structure(self) -> tuple[frozenset[tuple[bytes, bytes]], bytes]:
        """Which monomials stand in which equations, with which features and whole exponents."""
        whole = self.exponents == np.round(self.exponents)
        kinds = np.where(whole, self.exponents, REAL)
        terms = ((used.tobytes(), kind.tobytes()) for used, kind in zip(self.used.T, kinds, strict=True))
        return frozenset(terms), np.round(self.sums.exponents).tobytes()


def exponent_bounds(problem: Integral, features: NDArray[np.int64]) -> tuple[Array, Array]:
    """Least and largest exponents of features."""
    rates = np.isin(features, exp_features(problem))
    most = np.where(rates, PROJECTION.fastest_rate, PROJECTION.most_exponent)
    return np.where(rates, -most, PROJECTION.least_exponent), most


def exp_features(problem: Integral) -> NDArray[np.int64]:
    """Features that are exponential functions."""
    return len(problem.row) + np.flatnonzero([power_is_rate(f) for f in problem.features.functions])


def damped_steps(normal: Array, gradient: Array, damping: Array) -> Array:
    """Steps -(J'J + lambda diag J'J)^-1 J'r, each with its own lambda, [laws, unknowns].

    Args:
        normal: J'J, [laws, unknowns, unknowns].
        gradient: J'r, [laws, unknowns].
        damping: lambda, [laws].

    >>> damped_steps(np.array([[[4.0]]]), np.array([[6.0]]), np.array([0.5])).round(6).tolist()
    [[-1.0]]
    """
    diagonal = np.diagonal(normal, axis1=1, axis2=2)
    added = damping[:, None] * diagonal + PROJECTION.singular * diagonal.max(axis=1, keepdims=True) + TINY
    step: Array = np.linalg.solve(normal + added[:, :, None] * np.eye(normal.shape[1]), gradient[:, :, None])
    return -step[:, :, 0]


@dataclass(frozen=True, eq=False)
class Fit:
    """The likelihood of laws for some equations.

    Args:
        problem: the integral form.
        equations: the states whose equations are sought, [equations].
        counts: residuals of every equation, [equations].
        floor: mean squares that no law explains, [equations].
    """

    problem: Integral
    equations: NDArray[np.int64]
    counts: Array
    floor: Array

    @property
    def target(self) -> Array:
        """Left-hand sides, [equations, samples]."""
        return self.problem.target[self.equations]

    def score(self, squares: Array) -> float:
        """N ln(squares + floor), summed."""
        return float(np.sum(self.counts * np.log(squares + self.floor)))

    def criterion(self, model: Model) -> float:
        """Bayes' information criterion: less is better."""
        return model.score + model.size * float(np.log(self.counts.sum()))

    def exact(self, model: Model) -> bool:
        """Whether what every equation leaves is below the floor, or explained by noise.

        Noise is believed where it is most of what is expected of the residuals: they are no larger then,
        and neighbours are not alike.
        """
        below, noisy = model.squares < self.floor, self.problem.noisy[self.equations]
        open_ = ~below
        if not open_.any():
            return True
        expected = 1.0 + PROJECTION.likely * np.sqrt(2.0 / self.counts)
        if (~noisy | (model.squares > expected))[open_].any():
            return False
        e = self.linear(model).residual
        rows = self.problem.row[self.equations]
        r = (e[:, 1:] * e[:, :-1]).sum(axis=1) / np.maximum((e**2).sum(axis=1), TINY)
        return bool((r < PROJECTION.unlikely / np.sqrt(rows.sum(axis=1)))[open_].all())

    def linear(self, model: Model) -> Linear:
        """The least squares problem of a model."""
        columns = self.problem.columns(model.seen, model.exponents, self.equations)
        return solve(columns, self.target, model.used)

    def model(self, exponents: Array, used: Mask, powers: Mask, path: Path, sums: Sums = NO_SUMS) -> Model:
        """The model with these exponents and the best coefficients."""
        check_time()
        columns = self.problem.columns(path.with_sums(sums), exponents, self.equations)
        linear = solve(columns, self.target, used)
        squares = np.sum(linear.residual**2, axis=1) / self.counts
        score = self.score(squares)
        return Model(exponents, used, powers, sums, path, linear.coefficients, squares, score)

    def _rates_of(self, model: Model) -> Array:
        """Rates of all states at the nodes of the model's path; other equations are zero."""
        coefficients = np.zeros((len(self.problem.row), len(model.exponents)))
        coefficients[self.equations] = model.coefficients
        result: Array = model.seen.monomials(model.exponents) @ coefficients.T
        return result

    def law(self, model: Model) -> PowerSum:
        """The model as a law of all states; other equations are zero."""
        n = len(self.problem.row)
        coefficients = np.zeros((n, len(model.exponents)))
        coefficients[self.equations] = model.coefficients
        features = Features(n, self.problem.features.functions, model.sums)
        return PowerSum(coefficients, model.exponents, features).compact()

    def _places(self, model: Model) -> tuple[Places, Places, Places]:
        """Where W, B and V are free: whole exponents stay."""
        inside = np.array(np.nonzero(model.sums.exponents)).T
        of_v = inside[self.problem.real_inside[inside[:, 1]]]
        return self.free_powers(model), np.argwhere(model.sums.weights), of_v

    def free_powers(self, model: Model) -> Places:
        """Where W is free."""
        whole = np.concatenate([self.problem.integer, np.ones(len(model.sums), dtype=bool)])
        return np.argwhere(model.powers & ~whole)

    def _jacobian(self, model: Model, linear: Linear, places: tuple[Places, ...]) -> Array:
        """d residual / d (W, B, V) with A held, [equations, samples, places]."""
        (w_row, w_of), *inner = (p.T for p in places)
        monomials = model.seen.monomials(model.exponents)
        nodes = monomials[:, :, w_row] * model.seen.log[:, :, w_of]
        columns = self.problem.integrals(nodes, self.equations)
        of_w: Array = -columns * linear.coefficients[:, None, w_row]
        if not sum(p.size for p in inner):
            return of_w
        nodes = self._of_sums(model, linear, monomials, *inner)
        return np.concatenate([of_w, -self.problem.integrals_of_each(nodes, self.equations)], axis=2)

    def _of_sums(self, model: Model, linear: Linear, monomials: Array, of_b: Places, of_v: Places) -> Array:
        """d rates / d (B, V) at the nodes, [intervals, nodes, equations, places]."""
        sums, first = model.sums, self.problem.features.size
        z = model.path.monomials(sums.exponents)
        u = np.exp(model.seen.log[:, :, first:])
        # d rate_i / d ln u_l = sum_j A[i, j] W[j, l] monomial_j
        slope = np.einsum("ij,jl,pqj->pqil", linear.coefficients, model.exponents[:, first:], monomials)
        slope = slope / u[:, :, None, :]
        b = slope[..., of_b[0]] * z[:, :, None, of_b[1]]
        through = np.einsum("pqil,lj->pqij", slope, sums.weights) * z[:, :, None, :]
        v = through[..., of_v[0]] * model.path.log[:, :, None, of_v[1]]
        return np.concatenate([b, v], axis=-1)

    def optimised(self, model: Model, steps: int = 20) -> Model:
        """All free exponents by Levenberg-Marquardt; whole exponents stay.

        Not `fitting.levenberg_marquardt`: what falls is a likelihood whose variances change with every
        step, no sum of squares; exponents have bounds; and one small law at a time is slower in tensors.
        """
        places = self._places(model)
        if not sum(map(len, places)):
            return model
        damping, bounds = PROJECTION.first_damping, exponent_bounds(self.problem, places[0][:, 1])
        equations: tuple[Array, Array] | None = None
        for _ in range(steps):
            if equations is None:
                equations = self._normal(model, places)
            after = self._stepped(model, places, equations, damping, bounds)
            gain = model.score - after.score
            if gain > 0:
                damping = max(damping / PROJECTION.damping_factor, PROJECTION.least_damping)
                model, equations = after, None
                if gain < PROJECTION.gain:
                    break
            else:
                damping *= PROJECTION.damping_factor
                if damping > PROJECTION.most_damping:
                    break
        return model

    def _normal(self, model: Model, places: tuple[Places, ...]) -> tuple[Array, Array]:
        """Normal matrix and gradient of the weighted residuals."""
        linear = self.linear(model)
        weight = 1.0 / np.sqrt(model.squares + self.floor)
        jac = linear.projected(self._jacobian(model, linear, places)) * weight[:, None, None]
        flat = jac.reshape(-1, jac.shape[2])
        return flat.T @ flat, flat.T @ (linear.residual * weight[:, None]).ravel()

    def _stepped(
        self,
        model: Model,
        places: tuple[Places, ...],
        equations: tuple[Array, Array],
        damping: float,
        bounds: tuple[Array, Array],
    ) -> Model:
        normal, gradient = equations
        shift = damped_steps(normal[None], gradient[None], np.array([damping]))[0]
        at, at_b, at_v = (tuple(p.T) for p in places)
        first, second = len(places[0]), len(places[0]) + len(places[1])
        w, sums = model.exponents.copy(), model.sums
        longest = PROJECTION.longest
        w[at] = (w[at] + shift[:first].clip(-longest, longest)).clip(*bounds)
        if first < len(shift):
            b, v = sums.weights.copy(), sums.exponents.copy()
            most = 0.5 * np.abs(b[at_b])
            b[at_b] += shift[first:second].clip(-most, most)
            most = np.where(
                np.isin(at_v[1], exp_features(self.problem)), PROJECTION.fastest_rate, PROJECTION.most_inside
            )
            v[at_v] = (v[at_v] + shift[second:].clip(-longest, longest)).clip(-most, most)
            sums = Sums(b, v)
        return self.model(w, model.used, model.powers, model.path, sums)

    def settled(self, model: Model, rounds: int = 12) -> Model:
        """Exponents optimised and the path refined in turn, until neither helps."""
        best, worse = model, 0
        for _ in range(rounds):
            path = self.problem.refined(self._rates_of(model))
            model = self.optimised(self.model(model.exponents, model.used, model.powers, path, model.sums))
            if not np.isfinite(model.score):
                break
            gain = best.score - model.score
            # The error of a path may rise for a round before it falls.
            worse = 0 if gain > 0 else worse + 1
            best = model if gain > 0 else best
            if abs(gain) < PROJECTION.round_gain or worse == 2 or self.exact(best):
                break
        return best

    def wald(self, model: Model) -> tuple[Array, Array, Array]:
        """(constant / standard error)^2 of A [equations, m], W [m, features] and B; inf if 0.

        A whole exponent is judged with all others held.
        """
        linear = self.linear(model)
        sigma = np.sqrt(model.squares + self.floor)
        of_free, of_b, of_v = self._places(model)
        places = np.argwhere(model.powers)
        jac = self._jacobian(model, linear, (places, of_b, of_v))
        inside = linear.q.transpose(0, 2, 1) @ jac
        weighted = (jac - linear.q @ inside) / sigma[:, None, None]
        flat = weighted.reshape(linear.residual.size, jac.shape[2])
        free = np.ones(jac.shape[2], dtype=bool)
        free[: len(places)] = (places[:, None] == of_free[None]).all(axis=2).any(axis=1)
        covariance = np.zeros((len(free), len(free)))
        normal = flat[:, free].T @ flat[:, free]
        covariance[np.ix_(free, free)] = np.linalg.pinv(normal, rcond=1e-14, hermitian=True)
        inverse = np.linalg.inv(linear.r)
        change = inverse @ inside
        variance = np.einsum("imk,imk->im", inverse, inverse) * sigma[:, None] ** 2
        variance = variance + np.einsum("imp,pr,imr->im", change, covariance, change)
        scaled = linear.coefficients * linear.scale
        of_a = np.where(model.used, scaled**2 / np.maximum(variance, TINY), np.inf)
        held = 1.0 / np.maximum(np.einsum("tp,tp->p", flat, flat), TINY)
        spread = np.where(free, np.diag(covariance), held)
        found = [of_a]
        for values, at in ((model.exponents, places), (model.sums.weights, of_b)):
            own, spread = np.split(spread, [len(at)])
            statistic = np.full(values.shape, np.inf)
            with np.errstate(over="ignore"):  # inf where there is no variance at all
                statistic[tuple(at.T)] = values[tuple(at.T)] ** 2 / np.maximum(own, TINY)
            found.append(statistic)
        return found[0], found[1], found[2]
