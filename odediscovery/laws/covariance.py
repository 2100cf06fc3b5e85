"""The covariance of least squares estimates, where what the data do not tell stays unknown.

    C = (J^T J)^-1 = V diag(s)^-2 V^T,    J = U diag(s) V^T with columns scaled to length 1

for residuals of unit variance. Where two numbers act on the data as one (only their sum or
product is seen), a singular value s vanishes but for rounding: leaving that direction out, as a
pseudo-inverse does, would call both numbers known. Here it is kept with the least s that a
Jacobian can tell from 0, so that variances are huge, and marked, so that they are not printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from odediscovery.runtime.arrays import Array

# Singular values below this share of the largest are no more than the error of the sensitivities.
CONFUSED = 1e-6
# What is not known may add this share to a variance, by the errors of sensitivities.
LOST = 0.1
# Standard deviations are not larger, so that their squares are numbers still.
HUGE = 1e100


@dataclass(frozen=True, eq=False)
class Covariance:
    """How well some estimated numbers are known together.

    Args:
        known: covariance without what the data do not tell, [numbers, numbers].
        unknown: directions that they say nothing of, as long as deviations along them are at
            least, [directions, numbers].

    >>> confused = Covariance.of(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0]]))
    >>> confused.deviations().tolist()
    [nan, nan, 0.5]
    >>> confused.transformed(np.array([[1.0, 1.0, 0.0]])).deviations().round(6).tolist()
    [0.447214]
    """

    known: Array
    unknown: Array

    @property
    def matrix(self) -> Array:
        """The covariance, [numbers, numbers]; huge along unknown directions, a lower bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            matrix: Array = self.known + self.unknown.T @ self.unknown
        return matrix

    @classmethod
    def of(cls, jacobian: Array) -> Covariance:
        """From the Jacobian of residuals of unit variance, [residuals, numbers]."""
        size = jacobian.shape[1]
        norms = np.linalg.norm(jacobian, axis=0)
        norms = np.where(norms > 0.0, norms, 1.0)
        short = np.zeros((max(size - len(jacobian), 0), size))
        _, s, directions = np.linalg.svd(np.vstack([jacobian / norms, short]), full_matrices=False)
        least = CONFUSED * (s.max(initial=0.0) or 1.0)
        root = np.clip(directions / np.maximum(s, least)[:, None] / norms, -HUGE, HUGE)
        told = s >= least
        return cls(root[told].T @ root[told], root[~told])

    @classmethod
    def nothing_known(cls, size: int) -> Covariance:
        """Of numbers that could not be estimated."""
        return cls(np.full((size, size), np.nan), np.zeros((0, size)))

    def part(self, places: Any) -> Covariance:
        """Of some of the numbers: a slice, indices or a mask."""
        return Covariance(self.known[places][:, places], self.unknown[:, places])

    def transformed(self, jacobian: Array) -> Covariance:
        """Of functions of the numbers, by the delta method, [functions, numbers]."""
        return Covariance(jacobian @ self.known @ jacobian.T, self.unknown @ jacobian.T)

    def widened(self, factor: float) -> Covariance:
        """Of the same numbers with standard deviations that are larger by a factor."""
        return Covariance(factor**2 * self.known, factor * self.unknown)

    def given(self, g: Array) -> Covariance:
        """Of the numbers theta under the linear constraint g . theta = value."""
        gain = self.matrix @ g
        gain /= g @ gain
        return self.transformed(np.eye(len(g)) - np.outer(gain, g))

    def with_first(self, first: Covariance) -> Covariance:
        """The same dependence of the others on the first numbers, which are known from elsewhere.

        The others are M first + rest, with M and the covariance of the rest as they are here.
        """
        k = len(first.matrix)
        own, across, others = self.matrix[:k, :k], self.matrix[k:, :k], self.matrix[k:, k:]
        m = np.linalg.lstsq(own, across.T, rcond=None)[0].T
        found = first.transformed(np.vstack([np.eye(k), m]))
        found.known[k:, k:] += others - m @ across.T
        return found

    def deviations(self) -> Array:
        """Standard deviations [numbers], nan for what the data do not tell."""
        with np.errstate(over="ignore"):
            known, lost = np.diag(self.known), np.sum(self.unknown**2, axis=0)
        told = (known > 0.0) & (lost <= LOST * known)
        found: Array = np.sqrt(np.where(told, known + lost, np.nan))
        return found
