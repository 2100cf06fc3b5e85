"""What a fit estimated, as numbers with their covariance: the constants of a law and its starts.

Printed equations show standard errors one by one. What follows from several constants together,
a band around a curve or the error of a ratio, needs their covariance. It is kept in an npz file
that is read without pickle. The covariance of least squares estimates is

    C = (J^T J)^-1 = V diag(s)^-2 V^T,    J = U diag(s) V^T with columns scaled to length 1

for residuals of unit variance. Where two numbers act on the data as one (only their sum or
product is seen), a singular value s vanishes but for rounding: leaving that direction out, as a
pseudo-inverse does, would call both numbers known. Here it is kept with the least s that a
Jacobian can tell from 0, so that variances are huge, and marked, so that they are not printed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odediscovery.data.scale import Scale
from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.laws.power_sum import Features, Free, PowerSum, Sums, count
from odediscovery.runtime.archives import pack, unpack
from odediscovery.runtime.arrays import Array, Mask, column_norms

_NAMES = ("coefficients", "exponents", "inner_weights", "inner_exponents")


@dataclass(frozen=True)
class EstimateThresholds:
    """What counts as known."""

    # Singular values of the Jacobian below this share of the largest are no more than its error [share of the
    # largest singular value]
    unresolved: float = 1e-6
    unknown_share: float = 0.1  # what is not known may add this to a variance [share of the variance]
    max_deviation: float = 1e100  # standard deviations are not larger
    at_bound: float = 0.1  # a start value below this rests on its bound 0 [standard errors]


KNOWN = EstimateThresholds()


@dataclass(frozen=True, eq=False)
class Covariance:
    """How well some estimated numbers are known together.

    Args:
        known: covariance of what the data determine, [numbers, numbers].
        unknown: directions that the data leave open, each as long as the least deviation along
            it, [directions, numbers].

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
        norms = column_norms(jacobian)
        norms = np.where(norms > 0.0, norms, 1.0)
        short = np.zeros((max(size - len(jacobian), 0), size))
        _, s, directions = np.linalg.svd(np.vstack([jacobian / norms, short]), full_matrices=False)
        least = KNOWN.unresolved * (s.max(initial=0.0) or 1.0)
        root = np.clip(directions / np.maximum(s, least)[:, None] / norms, -KNOWN.max_deviation, KNOWN.max_deviation)
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
        with np.errstate(over="ignore", invalid="ignore"):
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
        """Standard deviations [numbers], nan for what the data do not determine."""
        with np.errstate(over="ignore", invalid="ignore"):
            known, lost = np.diag(self.known), np.sum(self.unknown**2, axis=0)
            told = (known > 0.0) & (lost <= KNOWN.unknown_share * known)
            found: Array = np.sqrt(np.where(told, known + lost, np.nan))
        return found


@dataclass(frozen=True, eq=False)
class Estimates:
    """Constants and start values as they were fitted, dimensionless.

    Args:
        law: the fitted law, in units of `scale`.
        free: which of its constants were fitted.
        initial: fitted start values [trajectories, states], without inputs, in units of `scale`.
        covariance: of the free constants, in the order of `free`, and behind them the start
            values, trajectory by trajectory.
        nonnegative: states whose start value is at least 0, bool [states].
        scale: what the data were divided by.
    """

    law: PowerSum
    free: Free
    initial: Array
    covariance: Covariance
    nonnegative: Mask
    scale: Scale

    def start_errors(self) -> Array:
        """Standard errors of the start values [trajectories, states], in the user's units.

        nan where the data do not determine them, and for a start that rests on its bound 0, where
        an error to both sides has no meaning.
        """
        k = count(self.free)
        found = self.covariance.deviations()[k:].reshape(self.initial.shape)
        resting = self.nonnegative & (self.initial < KNOWN.at_bound * found)
        return np.where(resting, np.nan, found) * self.scale.size[: self.initial.shape[1]]

    @property
    def mirrored(self) -> tuple[int, ...]:
        """States that are negative throughout."""
        return tuple(np.flatnonzero(self.scale.state < 0.0).tolist())

    def within(self, k: int) -> tuple[float, float]:
        """Least and greatest value of state k: one end is 0 where it does not change its sign."""
        if k >= len(self.nonnegative) or not self.nonnegative[k]:
            return -np.inf, np.inf
        return (-np.inf, 0.0) if k in self.mirrored else (0.0, np.inf)

    @staticmethod
    def to_bytes(estimates: Estimates | None) -> bytes:
        """The content of `covariance.npz`; no arrays but an empty head where nothing is known."""
        arrays: dict[str, NDArray[np.float64] | Mask] = {}
        head: dict[str, Any] | None = None
        if estimates is not None:
            law, features = estimates.law, estimates.law.features
            functions = () if features is None else features.functions
            head = {"functions": [dataclasses.astuple(f) for f in functions], "inputs": features is not None}
            for name, values, free in zip(_NAMES, law.constants, estimates.free, strict=True):
                arrays |= {name: values, f"free_{name}": free}
            if law.stoichiometry is not None:
                arrays["mix"] = law.stoichiometry
            arrays |= {
                "initial": estimates.initial,
                "covariance": estimates.covariance.known,
                "unknown": estimates.covariance.unknown,
                "nonnegative": estimates.nonnegative,
                "scale_state": estimates.scale.state,
                "scale_time": np.array(estimates.scale.time),
            }
        return pack("head", head, arrays)

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Estimates | None:
        """What `to_bytes` kept.

        Args:
            content: of the file.
            path: of the file, for messages.

        Raises:
            InputError: cut short, or anything but the expected arrays.
        """
        return unpack(content, path, "head", _assembled)


def _assembled(head: Any, arrays: Mapping[str, NDArray[np.float64]]) -> Estimates | None:
    if head is None:
        return None
    a, w, b, v = (np.asarray(arrays[name], dtype=np.float64) for name in _NAMES)
    mix = arrays.get("mix")
    if mix is not None and (mix.ndim != 2 or mix.shape[1] != len(a) or not np.isfinite(mix).all()):
        raise ValueError("flows that do not fit")
    law = PowerSum(a, w, _features(head, len(a if mix is None else mix), b, v), mix)
    masks = [np.asarray(arrays[f"free_{name}"], dtype=bool) for name in _NAMES]
    free: Free = (masks[0], masks[1], masks[2], masks[3])
    initial, scale = (
        np.asarray(arrays["initial"], float),
        Scale.from_arrays(arrays["scale_state"], arrays["scale_time"]),
    )
    known, unknown = np.asarray(arrays["covariance"], float), np.asarray(arrays["unknown"], float)
    nonnegative = np.asarray(arrays["nonnegative"], dtype=bool)
    size = count(free) + initial.size
    shapes = [mask.shape == c.shape for mask, c in zip(free, law.constants, strict=True)]
    fits = (
        initial.ndim == 2
        and initial.shape[1] <= law.n_states
        and scale.state.shape == (law.n_states,)
        and nonnegative.shape in ((law.n_states,), initial.shape[1:])
        and known.shape == (size, size)
        and unknown.shape[1:] == (size,)
        and all(shapes)
    )
    # Where nothing is known of the numbers, their covariance is nan throughout.
    numbers = (*law.constants, initial, unknown, *([] if np.isnan(known).all() else [known]))
    if not (fits and all(np.isfinite(values).all() for values in numbers)):
        raise ValueError("its arrays do not fit each other")
    return Estimates(law, free, initial, Covariance(known, unknown), nonnegative, scale)


def _features(head: Mapping[str, Any], states: int, b: Array, v: Array) -> Features | None:
    if not head["inputs"]:
        return None
    functions = [Function(str(f), int(state), float(rate)) for f, state, rate in head["functions"]]
    if not all(f.name in STATE_FUNCTIONS and 0 <= f.state < states for f in functions):
        raise ValueError("unknown functions")
    return Features(states, tuple(functions), Sums(b, v))
