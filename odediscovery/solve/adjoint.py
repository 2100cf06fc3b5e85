"""Runge-Kutta steps of sums of powers, and gradients of their end states by the discrete adjoint.

For RealNPU -> NAU, f and its transposed derivative are a few products,

    f = A y,    y = exp(W log r) cos(W k),    r and k as in the unit's formula
    (df/dx)^T m = s * W^T (y * A^T m),        s = g sign(x) / r

(and a sine where k is not 0). Thus a solve is a plain loop that keeps r, log r and y of every stage, its reverse a
plain loop over the stages backwards, and the gradient by A and W one product over all stages at the end. The result
equals that of backpropagation through the solver up to rounding, but no graph is built. The states precede the
windows, [members, states, windows], so that the last axis of the products is long.

Source: Griewank and Walther, Evaluating Derivatives (2008), Ch. 3.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
from torch import Tensor

from odediscovery.ivp.solvers import three_eighths_step
from odediscovery.networks.vector_field import VectorField
from odediscovery.solve.fixed_step import (
    Durations,
    GridIndex,
    LinearControls,
    Nodes,
    States,
    Steps,
    Theta,
    advance,
    by_grid,
)
from odediscovery.units import NAU, RealNPU
from odediscovery.units.npu import EPSILON

STAGES = 4  # evaluations of the right-hand side in a step

# Buffers in which an evaluation stores r, log r, y, k and the sine part of y; None where it stores nothing.
_Place: TypeAlias = tuple[Tensor | None, ...]


def applies(field: VectorField) -> bool:
    """Whether the closed-form adjoint applies: the field is RealNPU -> NAU without clipping."""
    power, *rest = field.units
    plain = len(rest) == 1 and isinstance(rest[0], NAU) and not rest[0].clip
    own = plain and isinstance(power, RealNPU) and type(power).compute is RealNPU.compute
    return own and type(rest[0]).compute is NAU.compute


def interval_ends(
    field: VectorField,
    theta: Theta,
    start: States,
    duration: Durations,
    grid_index: GridIndex,
    controls: LinearControls | None = None,
    gradients: str = "closed-form",
) -> States:
    """States at the ends of intervals, each on its own grid, differentiable by theta and start.

    Gradients are closed-form if that is requested and `applies`. Those of torchdiffeq are "odeint", by backpropagation
    through its steps, and "odeint-adjoint", by its continuous adjoint, which differs by the error of the steps.
    """
    rhs = None if gradients == "closed-form" and applies(field) else field.rhs(theta)
    of = theta if gradients == "odeint-adjoint" and torch.is_grad_enabled() else None

    def part(index: Tensor | slice, grid: Tensor) -> Tensor:
        x, h, own = start[:, index], duration[index], controls and controls.at(index)
        if rhs is not None:
            return advance(rhs, x, h, grid, own, of)
        x, drift = (x, None) if own is None else (own.enter(x), own.slope)
        return _solved(field, theta, x, h[:, None] * grid.diff(), drift, False)

    return by_grid(part, grid_index)


def nodes(field: VectorField, theta: Theta, start: States, steps: Steps) -> Nodes:
    """The start and the states after every step, differentiable by theta and start."""
    return _solved(field, theta, start, steps, None, True).transpose(1, 2)


def _solved(
    field: VectorField, theta: Tensor, start: Tensor, steps: Tensor, drift: Tensor | None, every: bool
) -> Tensor:
    """The last state of each window [members, windows, states]; all [members, 1 + K, windows, states] if `every`."""
    members, first = len(theta), start.transpose(1, 2)
    if torch.is_grad_enabled() and (theta.requires_grad or start.requires_grad):
        each = STAGES * steps.numel() * field.units[0].n_out
        # 4 MiB fit the processor's cache, and beyond 32 MiB glibc allocates memory anew each time; 256 MiB keep a GPU
        # busy.
        largest = 2**19 if theta.device.type == "cpu" else 2**25
        blocks = min(math.ceil(members * each / largest), members)
        if blocks > 1:
            parts = zip(theta.tensor_split(blocks), start.tensor_split(blocks), strict=True)
            return torch.cat([_solved(field, t, x, steps, drift, every) for t, x in parts])
        solution: Tensor = _Solve.apply(field, theta, first, steps, drift, every)  # type: ignore[no-untyped-call]
    else:
        solution = _nodes_or_end(_PowerSumRhs(field, theta, drift), first, steps, every)
    return solution.transpose(-1, -2)


def _nodes_or_end(rhs: _PowerSumRhs, x: Tensor, steps: Tensor, every: bool) -> Tensor:
    """The last state [members, states, windows], or all nodes [members, 1 + K, states, windows]."""
    found = [x]
    for h in steps.T:
        x = three_eighths_step(rhs, x, h)
        found.append(x)
    return torch.stack(found, dim=1) if every else x


class _Solve(torch.autograd.Function):
    """All steps as one differentiable operation."""

    @staticmethod
    def forward(
        ctx: Any, field: VectorField, theta: Tensor, start: Tensor, steps: Tensor, drift: Tensor | None, every: bool
    ) -> Tensor:
        windows, count = steps.shape
        ctx.rhs, ctx.steps = _PowerSumRhs(field, theta, drift, STAGES * count, windows), steps
        ctx.every = every
        return _nodes_or_end(ctx.rhs, start, steps, every)

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """Cotangents of theta and of the start from those of the solution.

        Each stage contributes to the state at the beginning of its step, and to dx/dt of earlier stages with their
        weights in its own state.
        """
        reverse, of_start = _Reverse(ctx.rhs), ctx.needs_input_grad[2]
        x = given[:, -1] if ctx.every else given
        for i, h in reversed(list(enumerate(ctx.steps.T))):
            k1 = h / 8.0 * x
            k3 = 3.0 * k1
            x4 = reverse.pull(k1)
            back = h * x4
            x3 = reverse.pull(k3 + back)
            x2 = reverse.pull(torch.addcmul(k3 - back, h, x3))
            k1 = torch.addcmul(k1 + back, h / 3.0, x2 - x3)
            x = x + x4 + x3 + x2
            if ctx.every:
                x = x + given[:, i]
            if i or of_start:
                x = x + reverse.pull(k1)
            else:
                reverse.note(k1)
        return None, reverse.gradient(), x if of_start else None, None, None, None


class _PowerSumRhs:
    """x [members, states, windows] -> dx/dt for fixed parameters; stores the first `stages` evaluations."""

    def __init__(
        self, field: VectorField, theta: Tensor, drift: Tensor | None, stages: int = 0, windows: int = 0
    ) -> None:
        self.field, self.theta = field, theta.detach()
        self.power: RealNPU = field.units[0]  # type: ignore[assignment]
        power, total = field.unpack(self.theta)
        self.w, self.a = power["real"].contiguous(), total["weight"].contiguous()
        if field.stoichiometry is not None:
            self.a = field.stoichiometry @ self.a
        self.gate = power["gate"].clamp(0.0, 1.0)[..., None]
        self.signed = ~self.power.positive[:, None]
        self._base = 1.0 - self.gate + self.gate * EPSILON
        self._turn = None if self.power.all_positive else torch.pi * self.gate * self.signed
        self._drift = None if drift is None else drift.T
        self.x: list[Tensor] = []
        # r, log r and y of all stages; where states change sign also k and the sine part of y.
        hidden, n = self.w.shape[1:]
        rows = (n, n, hidden) if self._turn is None else (n, n, hidden, n, hidden)
        self.rooms = [theta.new_empty(len(theta), wide, stages, windows) for wide in rows]
        views = [room.unbind(2) for room in self.rooms]
        self._places: list[_Place] = [(*place, None, None) for place in zip(*views, strict=True)]

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate dx/dt at x."""
        places: _Place = (None,) * 5
        if self._places:
            places = self._places[len(self.x)]
            self.x.append(x)
        r_place, log_place, y_place, k_place, half_place, *_ = places
        r = torch.addcmul(self._base, self.size(x), self.gate, out=r_place)
        power = torch.bmm(self.w, torch.log(r, out=log_place))
        if self._turn is None:
            y = torch.exp(power, out=y_place)
        else:
            angle = torch.bmm(self.w, torch.mul(self._turn, x < 0, out=k_place))
            power.exp_()
            torch.mul(power, torch.sin(angle), out=half_place)
            y = torch.mul(power, torch.cos(angle), out=y_place)
        dx_dt = torch.bmm(self.a, y)
        return dx_dt if self._drift is None else dx_dt + self._drift

    def size(self, x: Tensor) -> Tensor:
        """|x|, or 0 where a positive state is negative because of noise."""
        if self._turn is None:
            return x.clamp_min(0.0)
        return torch.where(self.signed, x.abs(), x.clamp_min(0.0))


class _Reverse:
    """The stored evaluations in reverse order."""

    def __init__(self, rhs: _PowerSumRhs) -> None:
        self._rhs = rhs
        self._r, self._log_r, self._y, *self._turned = rhs.rooms
        x = torch.stack(rhs.x, dim=2).flatten(2)
        per_r = self._r.flatten(2).reciprocal()
        if self._turned:
            sign = torch.where(rhs.signed, torch.sign(x), (x > 0).to(x))
            s = sign.mul_(rhs.gate).mul_(per_r)
        else:
            s = torch.where(x > 0, per_r, 0.0).mul_(rhs.gate)
        self._x, self._per_r, self._s = x, per_r, s.reshape(self._r.shape).unbind(2)
        self._m, self._g = torch.empty_like(self._r), torch.empty_like(self._y)
        self._turns = torch.empty_like(self._y) if self._turned else None
        self._stages = list(zip(self._m.unbind(2), self._g.unbind(2), self._y.unbind(2), strict=True))
        self._a, self._w = (p.transpose(1, 2).contiguous() for p in (rhs.a, rhs.w))

    def note(self, m: Tensor) -> Tensor:
        """Store the cotangent m of dx/dt of one evaluation, and return that of its log y."""
        here, g, y = self._stages.pop()
        through = torch.bmm(self._a, here.copy_(m))
        if self._turns is not None:
            at = len(self._stages)
            torch.mul(through, self._turned[1][:, :, at], out=self._turns[:, :, at]).neg_()
        return torch.mul(through, y, out=g)

    def pull(self, m: Tensor) -> Tensor:
        """(df/dx)^T m of one evaluation."""
        g = self.note(m)
        return torch.bmm(self._w, g).mul_(self._s[len(self._stages)])

    def gradient(self) -> Tensor:
        """Cotangents of theta, after all evaluations were reversed."""
        rhs, field = self._rhs, self._rhs.field
        m, g, y, log_r = (z.flatten(2) for z in (self._m, self._g, self._y, self._log_r))
        of_a, of_w = torch.bmm(m, y.transpose(1, 2)), torch.bmm(g, log_r.transpose(1, 2))
        of_r = torch.bmm(self._w, g).mul_(self._per_r)
        of_gate = of_r.mul_(rhs.size(self._x).add_(EPSILON - 1.0)).sum(dim=2)
        if self._turns is not None:
            turns, negative = self._turns.flatten(2), (self._x < 0) & rhs.signed
            of_w = of_w + torch.bmm(turns, self._turned[0].flatten(2).transpose(1, 2))
            of_gate = of_gate + (torch.bmm(self._w, turns) * negative).sum(dim=2) * torch.pi
        if rhs.power.gate_gradient == "zero":
            raw = field.unpack(rhs.theta)[0]["gate"]
            of_gate = of_gate * ((raw >= 0.0) & (raw <= 1.0))
        if field.stoichiometry is not None:
            of_a = field.stoichiometry.T @ of_a
        parts = {"real": of_w, "gate": of_gate, "weight": of_a}
        return torch.cat([parts[name].flatten(1) for _, name, _, _ in field.slices()], dim=1)
