"""Variable projection: fits of a power-sum law on the integral form.

    minimise  sum_i N_i ln(|y_i - sum_j A[i, j] G_i,j(W)|^2 / N_i + floor_i^2)

over the exponents W alone: the coefficients A are linear and solved for at every W. That is the
likelihood of residuals whose size is unknown and differs from state to state; the floor is what
no law can explain (digits of the data, noise of a start). Steps are Levenberg-Marquardt with
Kaufman's Jacobian (BIT 15, 1975): columns of dG/dW A projected off the columns of G.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odediscovery.integral import Integral, Path
from odediscovery.powersum import Array, PowerSum

Mask = NDArray[np.bool_]

# Bounds of exponents.
LEAST, MOST = -3.0, 4.0
# Keeps the columns of coinciding monomials solvable; columns have norm 1.
RIDGE = 1e-11
# A gain in the score below this is none; a change of path below the other needs no next round.
GAIN, ROUND_GAIN = 1e-3, 0.5
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Model:
    """A law of some equations, on its own path.

    Args:
        exponents: W, [monomials, states].
        used: which coefficients are free, [equations, monomials]; the others are 0.
        powers: which exponents are not 0, [monomials, states].
        path: the states between the samples.
        coefficients: A, [equations, monomials].
        squares: mean square residual of every equation, [equations].
        score: the minimised sum above.
    """

    exponents: Array
    used: Mask
    powers: Mask
    path: Path
    coefficients: Array
    squares: Array
    score: float

    @property
    def size(self) -> int:
        """Number of constants."""
        return int(self.used.sum() + self.powers.sum())

    @property
    def structure(self) -> frozenset[tuple[bytes, bytes]]:
        """Which monomials stand in which equations, and of which states they are made."""
        return frozenset(
            (self.used[:, j].tobytes(), self.powers[j].tobytes()) for j in range(len(self.powers))
        )


@dataclass(frozen=True, eq=False)
class Linear:
    """Least squares for the coefficients of all equations at once.

    Args:
        q, r: of the scaled columns, [equations, samples, m] and [equations, m, m].
        scale: norms of the columns, [equations, m].
        coefficients: [equations, m].
        residual: target - columns @ coefficients, [equations, samples].
    """

    q: Array
    r: Array
    scale: Array
    coefficients: Array
    residual: Array

    def projected(self, columns: Array) -> Array:
        """What of columns [equations, samples, c] the monomials cannot express."""
        result: Array = columns - self.q @ (self.q.transpose(0, 2, 1) @ columns)
        return result


def solve(columns: Array, target: Array, used: Mask) -> Linear:
    """min |target_i - columns_i a_i|^2 over the used coefficients of every equation i.

    >>> t = np.arange(4.0)
    >>> columns = np.stack([t, t**2], axis=1)[None]
    >>> fit = solve(columns, 3 * t[None] - t[None] ** 2, np.array([[True, True]]))
    >>> fit.coefficients.round(6).tolist()
    [[3.0, -1.0]]
    """
    n, samples, m = columns.shape
    scale = np.sqrt(np.einsum("itm,itm->im", columns, columns))
    scale = np.where(used & (scale > 0), scale, 1.0)
    stacked = np.zeros((n, samples + m, m))
    stacked[:, :samples] = np.where(used[:, None, :], columns / scale[:, None, :], 0.0)
    diagonal = np.arange(m)
    # Unused columns are unit vectors of their own rows: their coefficient becomes 0.
    stacked[:, samples + diagonal, diagonal] = np.where(used, RIDGE, 1.0)
    q, r = np.linalg.qr(stacked)
    q = q[:, :samples]
    a = np.linalg.solve(r, np.einsum("itm,it->im", q, target)[:, :, None])[:, :, 0]
    residual = target - np.einsum("itm,im->it", stacked[:, :samples], a)
    return Linear(q, r, scale, np.where(used, a / scale, 0.0), residual)


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

    def path_error(self, model: Model) -> Array:
        """Mean squares of what the interpolation of the path adds to residuals, [equations]."""
        coarse = model.path.coarse
        if coarse is None:
            return np.zeros(len(self.equations))
        fine = self.problem.columns(model.path, model.exponents, self.equations)
        change = self.problem.columns(coarse, model.exponents, self.equations) - fine
        rows = np.einsum("itm,im->it", change, model.coefficients)
        return np.asarray(np.sum(rows**2, axis=1) / self.counts)

    def exact(self, model: Model) -> bool:
        """Whether the residuals of every equation are below the floor."""
        return bool(np.all(model.squares < self.floor))

    def linear(self, model: Model) -> Linear:
        """The least squares problem of a model."""
        columns = self.problem.columns(model.path, model.exponents, self.equations)
        return solve(columns, self.target, model.used)

    def model(self, exponents: Array, used: Mask, powers: Mask, path: Path) -> Model:
        """The model with these exponents and the best coefficients."""
        columns = self.problem.columns(path, exponents, self.equations)
        linear = solve(columns, self.target, used)
        squares = np.sum(linear.residual**2, axis=1) / self.counts
        score = self.score(squares)
        return Model(exponents, used, powers, path, linear.coefficients, squares, score)

    def law(self, model: Model) -> PowerSum:
        """The model as a law of all states; other equations are zero."""
        n = len(self.problem.row)
        coefficients = np.zeros((n, len(model.exponents)))
        coefficients[self.equations] = model.coefficients
        return PowerSum(coefficients, model.exponents)

    def jacobian(self, model: Model, linear: Linear, places: NDArray[np.int64]) -> Array:
        """d residual / d W at (monomial, state) with A held, [equations, samples, places]."""
        monomials = model.path.monomials(model.exponents)
        nodes = monomials[:, :, places[:, 0]] * model.path.log[:, :, places[:, 1]]
        columns = self.problem.reduced(self.problem.cumulative(nodes), self.equations)
        result: Array = -columns * linear.coefficients[:, None, places[:, 0]]
        return result

    def optimised(self, model: Model, steps: int = 20) -> Model:
        """All free exponents by Levenberg-Marquardt; whole exponents stay."""
        places = np.argwhere(model.powers & ~self.problem.integer)
        if not len(places):
            return model
        damping = 1e-3
        equations: tuple[Array, Array] | None = None
        for _ in range(steps):
            if equations is None:
                equations = self._normal(model, places)
            after = self._stepped(model, places, equations, damping)
            gain = model.score - after.score
            if gain > 0:
                model, damping, equations = after, max(damping / 10, 1e-9), None
                if gain < GAIN:
                    break
            else:
                damping *= 10
                if damping > 1e4:
                    break
        return model

    def _normal(self, model: Model, places: NDArray[np.int64]) -> tuple[Array, Array]:
        """Normal matrix and gradient of the weighted residuals."""
        linear = self.linear(model)
        weight = 1.0 / np.sqrt(model.squares + self.floor)
        jac = linear.projected(self.jacobian(model, linear, places)) * weight[:, None, None]
        flat = jac.reshape(-1, len(places))
        return flat.T @ flat, flat.T @ (linear.residual * weight[:, None]).ravel()

    def _stepped(
        self, model: Model, places: NDArray[np.int64], equations: tuple[Array, Array],
        damping: float,
    ) -> Model:  # fmt: skip
        normal, gradient = equations
        diagonal = np.diag(normal)
        ridge = damping * diagonal + 1e-13 * diagonal.max() + TINY
        shift = np.clip(-np.linalg.solve(normal + np.diag(ridge), gradient), -0.5, 0.5)
        w = model.exponents.copy()
        w[tuple(places.T)] = np.clip(w[tuple(places.T)] + shift, LEAST, MOST)
        return self.model(w, model.used, model.powers, model.path)

    def settled(self, model: Model, rounds: int = 12) -> Model:
        """Exponents optimised and the path refined in turn, until neither helps."""
        best, worse = model, 0
        for _ in range(rounds):
            path = self.problem.refined(model.path, self.law(model))
            model = self.optimised(self.model(model.exponents, model.used, model.powers, path))
            if not np.isfinite(model.score):
                break
            gain = best.score - model.score
            # The error of a path may rise for a round before it falls.
            worse = 0 if gain > 0 else worse + 1
            best = model if gain > 0 else best
            if abs(gain) < ROUND_GAIN or worse == 2 or self.exact(best):
                break
        return best

    def wald(self, model: Model) -> tuple[Array, Array]:
        """(constant / standard error)^2 of A [equations, m] and W [m, states]; inf if 0.

        A whole exponent is judged with all others held.
        """
        linear = self.linear(model)
        sigma = np.sqrt(model.squares + self.floor)
        places = np.argwhere(model.powers)
        jac = self.jacobian(model, linear, places)
        inside = linear.q.transpose(0, 2, 1) @ jac
        weighted = (jac - linear.q @ inside) / sigma[:, None, None]
        flat = weighted.reshape(linear.residual.size, len(places))
        free = ~self.problem.integer[places[:, 1]]
        covariance = np.zeros((len(places), len(places)))
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
        of_w = np.full(model.powers.shape, np.inf)
        of_w[tuple(places.T)] = model.exponents[tuple(places.T)] ** 2 / np.maximum(spread, TINY)
        return of_a, of_w
