"""What was measured of many groups, ready to be fitted: data, kinds of noise, what is known of the starts.

additive noise:      y = x + sigma e
proportional noise:  log y = log x + sigma e
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odediscovery.population.model.members import MEMBERS, Field, Members, solve, solve_with_slopes
from odediscovery.population.model.structures import Structure
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask

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
        for i in self.open_starts:
            kind, value, factor = self.starts[i]
            if kind == SCALED:
                rows.append(np.full(len(value), np.log(factor)))
            else:
                rows.append(value if kind == ANY else np.log(np.maximum(value, ABOVE_ZERO)))
        return np.array(rows).reshape(len(rows), self.data.n_groups)

    def start_values(self, unknown: Array) -> tuple[Array, Array]:
        """Starts [states, groups], and the derivatives of the numbers they depend on by the unknowns [open, groups].

        Such a number is the start itself, or the factor of what is known of it, see `seeds`.
        """
        values = np.stack([start.value for start in self.starts]).astype(float)
        slopes = np.ones(unknown.shape)
        for row, i in enumerate(self.open_starts):
            kind, value, _ = self.starts[i]
            if kind == ANY:
                values[i] = unknown[row]
                continue
            with np.errstate(over="ignore", invalid="ignore"):  # of a start that has run away
                slopes[row] = np.exp(unknown[row])
                values[i] = slopes[row] * (value if kind == SCALED else 1.0)
        return values, slopes

    def seeds(self) -> Array:
        """Derivatives of the starts by the numbers that they depend on [states, groups]."""
        ones = np.ones(self.data.n_groups)
        return np.stack([start.value if start.kind == SCALED else ones for start in self.starts]).astype(float)

    def jumps(self, unknown: Array) -> tuple[Array | None, Array | None]:
        """Doses in the units of their states, and their derivatives by the numbers that starts depend on.

        Both [samples, states, groups]; None where there are no doses.
        """
        if self.data.doses is None:
            return None, None
        factor, scaled = np.ones(self.data.values.shape[1:]), np.zeros((self.data.n_states, 1))
        for row, i in enumerate(self.open_starts):
            if self.starts[i].kind == SCALED:
                with np.errstate(over="ignore"):
                    factor[i], scaled[i] = np.exp(unknown[row]), 1.0
        with np.errstate(invalid="ignore"):  # of a factor that has run away
            return self.data.doses * factor, self.data.doses * scaled

    def taken(self, groups: NDArray[np.intp]) -> Measured:
        """Some of the groups, by their numbers."""
        return replace(
            self,
            data=self.data.taken(groups),
            starts=tuple(start._replace(value=start.value[groups]) for start in self.starts),
            labels=tuple(self.labels[g] for g in groups),
            covariates={name: values[groups] for name, values in self.covariates.items()},
        )

    def with_noise(self, logarithmic: Mask) -> Measured:
        """The same groups with another kind of noise."""
        return replace(self, logarithmic=logarithmic)

    def jacobian_of_logs(self) -> float:
        """What -2 log likelihood gains where logarithms are compared."""
        total = 0.0
        for i in np.flatnonzero(self.logarithmic):
            total += 2.0 * float(np.sum(np.log(self.data.values[:, i][self.seen[:, i]])))
        return total


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
    """

    def __init__(
        self,
        structure: Structure,
        measured: Measured,
        signs: Array | None = None,
        exponents: Array | None = None,
        scale: Array | None = None,
    ) -> None:
        self.scale = measured.data.scale if scale is None else scale
        self.structure, self.measured, self.signs, self.exponents = structure, measured, signs, exponents
        self.n_constants, self.n_free = structure.n_constants, len(structure.free)
        self.n_unknowns = self.n_constants + self.n_free + len(measured.open_starts)
        self.seen = measured.seen

    def _field(self, unknowns: Array) -> Field:
        w = self.exponents
        if self.n_free:
            groups = unknowns.shape[1]
            w = np.repeat(self.structure.exponents[:, :, None], groups, axis=2)
            for f, (j, k) in enumerate(self.structure.free):
                w[j, k] = unknowns[self.n_constants + f]
        return Field(self.structure, unknowns[: self.n_constants], self.scale, w, self.signs)

    def curves(self, unknowns: Array, slopes: bool = True) -> Curves:
        """Residuals at these unknowns, and the slopes of the curves."""
        data, n_before = self.measured.data, self.n_constants + self.n_free
        start, start_slopes = self.measured.start_values(unknowns[n_before:])
        jumps, pushes = self.measured.jumps(unknowns[n_before:])
        field = self._field(unknowns)
        s = None
        if slopes:
            x, wide = solve_with_slopes(data, field, start, self.measured.seeds(), jumps, pushes)
            places = [*range(n_before), *(n_before + i for i in self.measured.open_starts)]
            s = wide[:, :, places]
            # A curve without bound has slopes without bound; its fit is given up by its residuals.
            with np.errstate(over="ignore", invalid="ignore"):
                s[:, :, n_before:] *= start_slopes
        else:
            x = solve(data, field, start, jumps)
        return self._compared(x, s)

    def _compared(self, x: Array, s: Array | None) -> Curves:
        data = self.measured.data
        y = np.where(self.seen, data.values, 0.0)
        residual = np.where(self.seen, y - x, 0.0)
        for i in np.flatnonzero(self.measured.logarithmic):
            least = MEMBERS.tiny * data.scale[i]
            size = np.maximum(x[:, i], least)
            of_data = np.log(np.maximum(y[:, i], least))
            residual[:, i] = np.where(self.seen[:, i], of_data - np.log(size), 0.0)
            if s is not None:
                with np.errstate(over="ignore", invalid="ignore"):  # of a curve that has run away
                    s[:, i] = s[:, i] / size[:, None]
        residual = np.nan_to_num(residual, nan=MEMBERS.lost, posinf=MEMBERS.lost, neginf=-MEMBERS.lost)
        if s is not None:
            # Of a curve that has run away no step follows.
            lost = ~np.isfinite(x) | (np.abs(x) >= MEMBERS.leaving * MEMBERS.wild * data.scale[:, None])
            kept = self.seen & ~np.logical_or.accumulate(lost.any(axis=1), axis=0)[:, None]
            s = np.nan_to_num(np.where(kept[:, :, None], s, 0.0), nan=0.0, posinf=0.0, neginf=0.0)
        return Curves(residual, s)

    def fitted(self, unknowns: Array) -> Array:
        """Curves at the samples [samples, states, groups]."""
        own = unknowns[self.n_constants + self.n_free :]
        start, jumps = self.measured.start_values(own)[0], self.measured.jumps(own)[0]
        return solve(self.measured.data, self._field(unknowns), start, jumps)
