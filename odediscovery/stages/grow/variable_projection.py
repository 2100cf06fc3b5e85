"""Variable projection: fits of a power-sum law on the integral form.

    minimise  sum_i N_i ln(|y_i - sum_j A[i, j] G_i,j(W)|^2 / N_i + floor_i^2)

over the exponents W alone: the coefficients A are linear and solved for at every W. That is the
likelihood of residuals whose size is unknown and differs from state to state; the floor is what
no law can explain (digits of the data, noise of a start).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import power_is_rate
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import check_time
from odediscovery.stages.grow.coefficients import Linear, solve
from odediscovery.stages.grow.integral_form import Integral, Path


@dataclass(frozen=True)
class ProjectionThresholds:
    """Where exponents may go, and when a fit of them has converged."""

    least_exponent: float = -3.0  # least exponent
    most_exponent: float = 6.0  # largest exponent
    most_inside: float = 12.0  # largest exponent inside a sum
    fastest_rate: float = 30.0  # largest rate of an exponential [1 / rms of its state]
    likely: float = 3.0  # distance of the mean square of mere noise above its expected value [standard deviations]
    # correlation of neighbours up to which it counts as none [standard deviations]; the usual 95 % of a normal
    # distribution
    unlikely: float = 2.0
    gain: float = 1e-3  # gain below which a fit has converged [of the score]
    longest: float = 0.5  # longest step of an exponent
    round_gain: float = 0.5  # gain below which a new path needs no next round [of the score]
    first_damping: float = 1e-3  # damping that a fit begins with
    singular: float = 1e-13  # added to every diagonal element [the largest one]
    damping_factor: float = 10.0  # by which damping rises and falls
    least_damping: float = 1e-9  # least damping
    most_damping: float = 1e4  # damping beyond which no step helps


PROJECTION = ProjectionThresholds()
# Stands for an exponent that is no whole number, whatever it is.
REAL = 0.25

# Row and column of constants, [places, 2].
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Draft:
    """A law of some equations before its coefficients are solved for, on its own path.

    Args:
        exponents: W, [monomials, features], sums last.
        used: which coefficients are free, [equations, monomials]; the others are 0.
        powers: which exponents are not 0, [monomials, features].
        sums: the sums among the features.
        path: the states between the samples.
    """

    exponents: Array
    used: Mask
    powers: Mask
    sums: Sums
    path: Path


@dataclass(frozen=True, eq=False)
class Projected(Draft):
    """A law with the best coefficients.

    Args:
        coefficients: A, [equations, monomials].
        squares: mean square residual of every equation, [equations].
        score: the minimised sum above.
    """

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


def exp_features(problem: Integral) -> NDArray[np.int64]:
    """Features that are exponential functions."""
    return len(problem.row) + np.flatnonzero([power_is_rate(f) for f in problem.features.functions])


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

    def criterion(self, model: Projected) -> float:
        """Bayes' information criterion: less is better."""
        return model.score + model.size * float(np.log(self.counts.sum()))

    def exact(self, model: Projected) -> bool:
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
        r = (e[:, 1:] * e[:, :-1]).sum(axis=1) / np.maximum((e**2).sum(axis=1), ABOVE_ZERO)
        return bool((r < PROJECTION.unlikely / np.sqrt(rows.sum(axis=1)))[open_].all())

    def linear(self, model: Projected) -> Linear:
        """The least squares problem of a model."""
        columns = self.problem.columns(model.seen, model.exponents, self.equations)
        return solve(columns, self.target, model.used)

    def model(self, exponents: Array, used: Mask, powers: Mask, path: Path, sums: Sums = NO_SUMS) -> Projected:
        """The model with these exponents and the best coefficients."""
        check_time()
        columns = self.problem.columns(path.with_sums(sums), exponents, self.equations)
        linear = solve(columns, self.target, used)
        squares = np.sum(linear.residual**2, axis=1) / self.counts
        score = self.score(squares)
        return Projected(exponents, used, powers, sums, path, linear.coefficients, squares, score)

    def rates_of(self, model: Projected) -> Array:
        """Rates of all states at the nodes of the model's path; other equations are zero."""
        coefficients = np.zeros((len(self.problem.row), len(model.exponents)))
        coefficients[self.equations] = model.coefficients
        result: Array = model.seen.monomials(model.exponents) @ coefficients.T
        return result

    def law(self, model: Projected) -> PowerSum:
        """The model as a law of all states; other equations are zero."""
        n = len(self.problem.row)
        coefficients = np.zeros((n, len(model.exponents)))
        coefficients[self.equations] = model.coefficients
        features = Features(n, self.problem.features.functions, model.sums)
        return PowerSum(coefficients, model.exponents, features).compact()

    def places(self, model: Draft) -> tuple[Places, Places, Places]:
        """Where W, B and V are free: whole exponents stay."""
        inside = np.array(np.nonzero(model.sums.exponents)).T
        of_v = inside[self.problem.real_inside[inside[:, 1]]]
        whole = np.concatenate([self.problem.integer, np.ones(len(model.sums), dtype=bool)])
        return np.argwhere(model.powers & ~whole), np.argwhere(model.sums.weights), of_v
