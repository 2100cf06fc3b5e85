"""What is left of measured series on windows, and its derivatives: what pruning minimises.

On one-interval windows starts are given, on long ones they are fitted too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from odediscovery.fitting.levenberg_marquardt import compact
from odediscovery.fitting.windows import WINDOWS, Windows
from odediscovery.networks.chain import AnyChain
from odediscovery.runtime.arrays import Array, Indices
from odediscovery.solve.array_shapes import Ends, Jacobian, Residual, States, Theta, Unknowns
from odediscovery.solve.grids import GRIDS, LinearControls, rk4_nodes, sensitivities
from odediscovery.solve.plain_steps import plain_nodes

# A law that runs away leaves more than any other, and nothing to warn of.
_QUIET = np.errstate(all="ignore")


@dataclass(frozen=True, eq=False)
class ShortResiduals:
    """Residuals of one-interval windows from given starts, and their Jacobian.

    The unknowns of a member are theta alone: `unknowns` is [members, P].
    """

    windows: Windows
    chain: AnyChain

    @_QUIET
    def solve(self, unknowns: Unknowns) -> Ends:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        return self.windows.predict(self.chain, unknowns)

    @_QUIET
    def residuals(self, unknowns: Unknowns, solved: Array | None = None) -> Residual:
        """Weighted residuals [members, R]."""
        ends = self.solve(unknowns) if solved is None else solved
        left: Array = (ends - self.windows.target) * self.windows.weight
        return left.reshape(len(ends), -1)

    @_QUIET
    def linearised(
        self, unknowns: Unknowns, free: Bool[np.ndarray, "members unknowns"], solved: Array | None = None
    ) -> tuple[Residual, Jacobian]:
        """Residuals [members, R] and Jacobian [members, R, P], right in the free columns.

        The ends come with their sensitivities; what is `solved` already does not help.
        """
        w, n, members = self.windows, self.chain.n_states, len(unknowns)
        start = np.broadcast_to(w.start, (members, *w.start.shape))
        columns = compact(free)
        end, s = sensitivities(
            self.chain, unknowns, start, w.duration[:, 0], w.grid[:, 0], columns, w.controls and w.controls.flat()
        )
        residual = (end - w.target[:, 0]) * w.weight[:, 0]
        jacobian = (s[..., n:] * w.weight[:, 0, :, None]).reshape(members, residual[0].size, -1)
        return residual.reshape(members, -1), spread(jacobian, columns, free.shape[1])


@dataclass(frozen=True, eq=False)
class LongResiduals:
    """Residuals of long windows whose start states are fitted too, and their Jacobian.

    The unknowns of a member are theta and, behind it, one number a window and state: the start
    itself, or its square root for nonnegative states (near zero the influence of a start under
    sqrt(I) is unbounded, that of its root is not). The Jacobian is parallel in time: after one
    sequential solve, the sensitivities of all intervals are one batch from the states found,
    and the chain rule multiplies them up.

        dx_{j+1} = Phi_j dx_j + Theta_j dtheta
    """

    windows: Windows
    chain: AnyChain
    nonnegative: Bool[np.ndarray, " states"]

    @property
    def n_starts(self) -> int:
        """How many unknowns stand behind theta."""
        b, _, n = self.windows.size
        return b * n

    def pack(self, theta: Theta) -> Unknowns:
        """Unknowns [members, P + starts] that begin at the windows' own starts."""
        s, weight = self.windows.start, self.windows.first_weight.max(axis=0)
        # A root of exactly 0 has no gradient and would never leave.
        least = WINDOWS.waking_start * np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0.0)
        s = np.where(self.nonnegative, np.sqrt(np.maximum(s, least).clip(0.0)), s)
        return np.concatenate([theta, np.tile(s.reshape(1, -1), (len(theta), 1))], axis=1)

    def starts(self, unknowns: Unknowns) -> States:
        """Start states [members, windows, states]."""
        b, _, n = self.windows.size
        q = unknowns[:, unknowns.shape[1] - b * n :].reshape(-1, b, n)
        return np.where(self.nonnegative, q * q, q)

    def _rows(self, start: Array, ends: Array) -> Array:
        """Weighted residuals window by window, those of its start first [members, windows, rows]."""
        w = self.windows
        first, later = (start - w.first) * w.first_weight, (ends - w.target) * w.weight
        return np.concatenate([first[:, :, None], later], axis=2).reshape(*start.shape[:2], -1)

    @cached_property
    def _starts_first(self) -> Indices:
        """Places of these rows with the starts of all windows first."""
        b, length, n = self.windows.size
        return np.argsort(np.tile(np.arange((1 + length) * n) >= n, b), kind="stable")

    @_QUIET
    def residuals(self, unknowns: Unknowns, solved: Array | None = None) -> Residual:
        """Weighted residuals [members, R], those of the starts first."""
        rows = self._rows(self.starts(unknowns), self.solve(unknowns) if solved is None else solved)
        return rows.reshape(len(rows), -1)[:, self._starts_first]

    @cached_property
    def _steps(self) -> tuple[Array, Indices, LinearControls | None]:
        """Lengths of all steps [windows, K], how many lead to the end of each interval [windows, L], and controls.

        Every window goes its own way, on the grids of its intervals; those that are through first wait.
        """
        w = self.windows
        b, length, _ = w.size
        last = np.cumsum(np.array([len(grid) - 1 for grid in GRIDS])[w.grid], axis=1)
        interval = np.full((b, last[:, -1].max()), length - 1)
        begin, step = np.ones(interval.shape), np.zeros(interval.shape)
        for i, (grids, upto) in enumerate(zip(w.grid, last, strict=True)):
            interval[i, : upto[-1]] = np.repeat(np.arange(length), np.diff(upto, prepend=0))
            begin[i, : upto[-1]] = np.concatenate([GRIDS[g][:-1] for g in grids])
            step[i, : upto[-1]] = np.concatenate([np.diff(GRIDS[g]) for g in grids])
        duration, controls = np.take_along_axis(w.duration, interval, axis=1), None
        if w.controls is not None:
            own = w.controls.at((np.arange(b)[:, None], interval))
            controls = LinearControls(own.entry + (begin * duration)[..., None] * own.slope, own.slope)
        return step * duration, last, controls

    @_QUIET
    def solve(self, unknowns: Unknowns) -> Ends:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        theta, start, (steps, last, controls) = unknowns[:, : -self.n_starts], self.starts(unknowns), self._steps
        nodes = plain_nodes(self.chain, theta, start, steps) if controls is None else None
        if nodes is None:
            nodes = rk4_nodes(self.chain.rhs(theta), start, steps, controls)
        return nodes[:, np.arange(len(last))[:, None], last]

    @_QUIET
    def blocks(
        self, unknowns: Unknowns, free: Bool[np.ndarray, "members unknowns"], solved: Array | None = None
    ) -> tuple[
        Float[np.ndarray, "members windows rows"],
        Float[np.ndarray, "members windows rows columns"],
        Int[np.ndarray, "members windows columns"],
    ]:
        """Residuals and Jacobian window by window, whose columns are the free parameters and its own start."""
        w = self.windows
        b, length, n = w.size
        theta, start = unknowns[:, : -self.n_starts], self.starts(unknowns)
        columns = compact(free[:, : -self.n_starts])
        members, p = columns.shape
        ends = self.solve(unknowns) if solved is None else solved
        begin = np.concatenate([start[:, :, None], ends[:, :, :-1]], axis=2).reshape(members, -1, n)
        duration, grid, controls = w.duration.reshape(-1), w.grid.reshape(-1), w.controls and w.controls.flat()
        _, s = sensitivities(self.chain, theta, begin, duration, grid, columns, controls)
        s = s.reshape(members, b, length, n, n + p)
        q = unknowns[:, -self.n_starts :].reshape(members, b, n)
        jacobian = np.zeros((members, b, 1 + length, n, p + n))
        jacobian[:, :, 0, :, p:] = np.where(self.nonnegative, 2.0 * q, 1.0)[..., None] * np.eye(n)
        for j in range(length):
            np.matmul(s[:, :, j, :, :n], jacobian[:, :, j], out=jacobian[:, :, j + 1])
            jacobian[:, :, j + 1, :, :p] += s[:, :, j, :, n:]
        jacobian *= np.concatenate([w.first_weight[:, None], w.weight], axis=1)[..., None]
        of_theta = np.broadcast_to(columns[:, None], (members, b, p))
        of_starts = theta.shape[1] + np.arange(b * n).reshape(b, n)
        places = np.concatenate([of_theta, np.broadcast_to(of_starts, (members, b, n))], axis=2)
        return self._rows(start, ends), jacobian.reshape(members, b, -1, p + n), places

    @_QUIET
    def linearised(
        self, unknowns: Unknowns, free: Bool[np.ndarray, "members unknowns"], solved: Array | None = None
    ) -> tuple[Residual, Jacobian]:
        """Residuals [members, R] and Jacobian [members, R, P + starts], right in free columns."""
        (b, length, n), (members, size) = self.windows.size, unknowns.shape
        residual, jacobian, places = self.blocks(unknowns, free, solved)
        full = np.zeros((members, b, (1 + length) * n, size))
        np.put_along_axis(full, places[:, :, None], jacobian, axis=3)
        order = self._starts_first
        return residual.reshape(members, -1)[:, order], full.reshape(members, -1, size)[:, order]


def spread(
    jacobian: Float[np.ndarray, "members residuals columns"], columns: Int[np.ndarray, "members columns"], count: int
) -> Float[np.ndarray, "members residuals parameters"]:
    """Columns [members, R, F] at their places among `count` parameters, 0 elsewhere."""
    full = np.zeros((*jacobian.shape[:2], count))
    np.put_along_axis(full, columns[:, None], jacobian, axis=2)
    return full
