"""The recipes `paper` and `as-run`: training as the fSIR study describes it, and as its code ran it.

    loss = MSE + l1 |theta|_1    over all parameters
    MSE = mean over trajectories, samples and states of (x(t; theta, x0) - data)^2

Both reproduce the study without changes: whole trajectories from one start, the user's raw units,
a constant rate, gates penalised like any weight, no pruning and no refit, so reported constants
carry the bias of the penalty. The paper names Adam and no solver; the Julia code used RMSProp with
decay 0.9 and Euler steps of one time unit, with which the true law has an error of 1.08 on the
study's own data: no run could have found it. Both serve as the baseline for `default`.

Source: Heim, Pevny, Smidl, Neural Power Units (2020), Sec. 4.1, and the code of its authors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import sympy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from odediscovery.data.series import Scale, TimeSeries, pooled
from odediscovery.errors import FitError, InputError
from odediscovery.fitting.training import FirstOrder, lbfgs
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import Layer, Network
from odediscovery.networks.vector_field import VectorField
from odediscovery.problem.problem import Problem
from odediscovery.result.front import FrontRow, better_than_simpler
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.device import device_of, moved, use_threads
from odediscovery.runtime.monitor import Monitor, keep_freed_memory
from odediscovery.search.published.hager_zhang import lbfgs_to_first_rise
from odediscovery.settings import Settings
from odediscovery.solve.adjoint import applies, nodes
from odediscovery.solve.fixed_step import GRIDS, advance_together
from odediscovery.units import NAU, NPU, AbstractUnit, Dense, RealNPU, glorot

MOST_STEPS = 10_000  # all stay in memory for the gradient
# Runge-Kutta steps of an interval, and of the first one, where a state may start near 0. With
# them, the true law has an error of 7e-7 on the study's data.
INTERVAL, FIRST = GRIDS[1], GRIDS[5]
# Parameters up to this size count as zero, in figures and reported results; Heim et al. (2020), Sec. 4.1.
ZERO = 1e-3


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Whole trajectories for training, each as one initial value problem."""

    # (times [n], steps, start [1, 1, states], values [n, states] with nan where missing) of each trajectory; the grid
    # of `steps` need not contain the times: the solution is interpolated linearly, as by Julia's solver for Euler.
    parts: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]
    solver: str  # fixed-grid method of torchdiffeq
    count: int  # number of measured values, those at the starts included

    @classmethod
    def of(cls, series: TimeSeries, start: Array, solver: str) -> Trajectories:
        """Build the trajectories of a series from given starts [trajectories, states]."""
        parts = []
        for run, x in zip(series.trajectories, start, strict=True):
            times = torch.as_tensor(run.time - run.time[0])
            parts.append((times, _steps(times, solver), torch.as_tensor(x)[None, None], torch.as_tensor(run.values)))
        return cls(tuple(parts), solver, int(np.isfinite(pooled(series)).sum()))

    def solutions(self, field: VectorField, theta: Tensor) -> list[Tensor]:
        """Integrate to all times of each trajectory, [members, n, states]."""
        found = []
        for times, steps, start, _ in self.parts:
            start = start.expand(theta.shape[0], -1, -1)
            if self.solver == "rk4" and applies(field):
                at = torch.searchsorted(steps, times)
                found.append(nodes(field, theta, start, steps.diff()[None])[:, 0, at])
            else:
                later = advance_together(field.rhs(theta), start, times, steps, self.solver)[:, 0]
                found.append(torch.cat([start, later], dim=1))
        return found

    def mse(self, field: VectorField, theta: Tensor) -> Tensor:
        """Compute the mean squared error over all values of all trajectories, [members]."""
        total = torch.zeros_like(theta[:, 0])
        for (*_, values), solution in zip(self.parts, self.solutions(field, theta), strict=True):
            total = total + _errors(solution, values).square().sum(dim=(1, 2))
        return total / self.count

    def adjoint_mse(self, field: VectorField, theta: Tensor) -> Tensor:
        """Compute the mean squared error, [members], with the inexact gradient of the Julia code.

            lambda' = -(df/dx)^T lambda,    lambda jumps by dMSE/dx(t_i) at each time of the data
            dMSE/dtheta = integral of lambda^T df/dtheta

        Both use Euler steps of one time unit, backwards and restarted at each time of the data, along
        the solution interpolated between its own Euler nodes. The error of 1 % affects LBFGS.

        Source: DiffEqSensitivity.jl 6.14, InterpolatingAdjoint (Zygote), as chosen by NeuralODE.
        """
        if not torch.is_grad_enabled():
            return self.mse(field, theta)
        total, gradient = torch.zeros_like(theta[:, 0]), torch.zeros_like(theta)
        for times, steps, start, values in self.parts:
            nodes = _back_nodes(times)
            start = start.expand(theta.shape[0], -1, -1)
            with torch.no_grad():
                later = advance_together(field.rhs(theta), start, nodes, steps, self.solver)[:, 0]
            x = torch.cat([start, later], dim=1).requires_grad_()
            at = torch.searchsorted(nodes, times)
            error = _errors(x.detach()[:, at], values)
            total = total + error.square().sum(dim=(1, 2)) / self.count
            own = theta.detach().requires_grad_()
            f = field.rhs(own)(x)
            # df/dx, one row a state: [members, nodes, states, states]
            slopes = torch.stack(
                [torch.autograd.grad(row.sum(), x, retain_graph=True)[0] for row in f.unbind(dim=-1)], dim=2
            )
            jumps = torch.zeros_like(f).index_copy(1, at, 2.0 / self.count * error)
            weight, adjoint = torch.zeros_like(f), torch.zeros_like(f[:, 0])
            for k in range(len(nodes) - 1, 0, -1):
                adjoint = adjoint + jumps[:, k]
                weight[:, k] = (nodes[k] - nodes[k - 1]) * adjoint
                adjoint = adjoint + (weight[:, k, :, None] * slopes[:, k]).sum(dim=1)
            gradient += torch.autograd.grad(f, own, weight)[0]
        return total + ((theta - theta.detach()) * gradient).sum(dim=1)


def _errors(solution: Tensor, values: Tensor) -> Tensor:
    return (solution - values.nan_to_num()) * values.isfinite()


def _back_nodes(times: Tensor) -> Tensor:
    """Ends of Euler steps of one time unit, backwards from each time to the previous one, the last cut."""
    nodes = [times[:1]]
    for end, gap in zip(times[1:], times.diff().tolist(), strict=True):
        count = max(math.ceil(gap - 1e-9), 1)  # rounding of times must not add a step
        nodes.append(end - torch.arange(count - 1, -1, -1).to(times))
    return torch.cat(nodes)


def _steps(times: Tensor, solver: str) -> Tensor:
    """Return the nodes of a fixed-step solver; InputError for too many Euler steps."""
    if solver == "euler":
        count = math.ceil(float(times[-1]))
        if count > MOST_STEPS:
            raise InputError(
                f"recipe as-run takes Euler steps of one unit of time, {count} for these data, at "
                f"most {MOST_STEPS}: give the times in a larger unit, or use --recipe paper"
            )
        return torch.cat([torch.arange(count, dtype=times.dtype), times[-1:]])
    inner = [times[j] + (FIRST if j == 0 else INTERVAL)[:-1] * gap for j, gap in enumerate(times.diff())]
    return torch.cat([*inner, times[-1:]])


class Recipe(NamedTuple):
    """How members are trained: the first-order method, the solver and the gradients."""

    method: str
    solver: str
    adjoint: bool  # gradients by the continuous adjoint, and Optim.jl's LBFGS, as in the Julia code


RECIPES = {"paper": Recipe("adam", "rk4", False), "as-run": Recipe("rmsprop", "euler", True)}


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a published recipe, in the user's units."""

    front: tuple[FrontRow, ...]  # members better than every smaller one
    initial: Array  # start of each trajectory, [trajectories, states]
    noise: Array  # root mean square of the chosen equations' residuals, [states]
    network: Network  # of the chosen member
    messages: tuple[str, ...]  # notes for the reader


def run_published(series: TimeSeries, prepared: Problem, settings: Settings, monitor: Monitor) -> Outcome:
    """Train members by a published recipe, read them as equations, and choose from their Pareto front."""
    use_threads(settings.threads)
    recipe = RECIPES[settings.recipe]
    field = random_members(settings.unit, series.n_states, [settings.hidden] * settings.members, settings.seed)
    start = prepared.initial * prepared.scale.state
    field = train(field, Trajectories.of(series, start, recipe.solver), recipe, settings, monitor)
    # The recipes use the data as they are, not mirrored.
    positive = prepared.nonnegative & (prepared.scale.state > 0.0)
    members = [read_member(field, i, series, start, positive) for i in range(field.members)]
    front = better_than_simpler(members)
    if not front:
        raise FitError(
            f"none of the {len(members)} members of recipe {settings.recipe} could be integrated "
            "through the data; try more --members or --recipe default"
        )
    chosen = min(front, key=lambda row: row.criterion)
    residuals = np.where(np.isfinite(pooled(series)), _residuals(chosen.equations, series, start), np.nan)
    steps = " and by Euler steps of one time unit" if recipe.solver == "euler" else ""
    messages = [
        f"recipe {settings.recipe}: the constants are as trained, biased by the L1 penalty{steps}; "
        "recipe default refits them without",
        f"complexity is the study's count here: parameters above {ZERO:g}, gates included",
    ]
    if failed := sum(not np.isfinite(row.mse) for row in members):
        messages.append(f"{failed} of {settings.members} members could not be integrated")
    return Outcome(
        tuple(replace(row, selected=row is chosen) for row in front),
        start,
        np.sqrt(np.nanmean(residuals**2, axis=0)),
        network(field, members.index(chosen)),
        tuple(messages),
    )


def build_chain(unit: str, states: int, width: int) -> tuple[AbstractUnit, ...]:
    """Build the study's network: a power unit and a sum, or a dense net with two tanh layers."""
    if unit == "Dense":
        return (Dense(states, width, activation="tanh"), Dense(width, width, activation="tanh"), Dense(width, states))
    power = NPU if unit == "NPU" else RealNPU
    begin = glorot(0.2)
    return power(states, width, init_re=begin, gate_gradient="zero"), NAU(width, states, init_weight=begin)


def random_members(unit: str, states: int, widths: Sequence[int], seed: int) -> VectorField:
    """Draw one random member for each width, side by side in one batch.

    Each is drawn at its own size. It fills the upper left corner of each parameter of the largest
    member; entries outside are zero and not free.
    """
    generator = torch.Generator().manual_seed(seed)
    largest = build_chain(unit, states, max(widths))
    rows, free = [], []
    for width in widths:
        own = build_chain(unit, states, width)
        theta, mask = [], []
        for layer, wide in zip(own, largest, strict=True):
            for name, value in layer.initial(1, generator).items():
                shape = wide.shapes()[name]
                room = [k for a, b in zip(shape[::-1], value.shape[:0:-1], strict=True) for k in (0, a - b)]
                theta.append(pad(value, room).flatten())
                mask.append(pad(torch.ones_like(value), room).flatten() > 0)
        rows.append(torch.cat(theta))
        free.append(torch.cat(mask))
    return VectorField(largest, torch.stack(rows), torch.stack(free))


def count_parameters(field: VectorField) -> NDArray[np.int_]:
    """Count parameters as the study does: those with |theta| > 0.001, gates included, [members]."""
    return np.asarray((field.theta.abs() > ZERO).sum(dim=1))


def train(
    field: VectorField,
    data: Trajectories,
    recipe: Recipe,
    settings: Settings,
    monitor: Monitor,
    l1: Tensor | None = None,
) -> VectorField:
    """Train members on the penalised loss by first-order steps and LBFGS; set small parameters to zero."""
    keep_freed_memory()
    given, device = field, device_of(settings.device)
    field, data = moved(field, device), moved(data, device)
    weight = settings.l1 if l1 is None else l1.to(device)

    def loss(theta: Tensor, progress: float) -> Tensor:
        mse = data.adjoint_mse(field, theta) if recipe.adjoint else data.mse(field, theta)
        return mse + weight * (theta * field.free).abs().sum(dim=1)

    monitor.stage({"adam": "Adam", "rmsprop": "RMSProp"}[recipe.method], settings.adam_steps)
    first = FirstOrder(settings.adam_steps, settings.learning_rate, recipe.method, "constant")
    theta = first.run(loss, field.theta, field.free, monitor)
    if not monitor.stopping():
        monitor.stage("LBFGS", settings.lbfgs_steps)
        second = lbfgs_to_first_rise if recipe.adjoint else lbfgs
        theta = second(loss, theta, field.free, settings.lbfgs_steps, monitor)
    return given.replace(theta.masked_fill(theta.abs() <= ZERO, 0.0).cpu())


def read_member(
    field: VectorField, index: int, series: TimeSeries, initial: Array, nonnegative: NDArray[np.bool_]
) -> FrontRow:
    """Read one member as equations in the user's units, scored on the data; mse is inf if they cannot be integrated.

    The complexity is the number of parameters above 0.001, gates included, and the criterion is BIC,
    N ln(mse) + parameters ln(N).
    """
    law, values = equations(field, index, series, nonnegative), pooled(series)
    squares = float(np.nan_to_num((_residuals(law, series, initial) ** 2).sum(), nan=np.inf, posinf=np.inf))
    spread = float(np.nansum((values - np.nanmean(values, axis=0)) ** 2))
    count, size = int(np.isfinite(values).sum()), int(count_parameters(field)[index])
    mse = squares / count
    r2 = 1.0 - squares / spread if spread > 0 else 1.0
    criterion = count * math.log(max(mse, ABOVE_ZERO)) + size * math.log(count)
    return FrontRow(law, size, mse, r2, criterion, selected=False)


def _residuals(law: Equations, series: TimeSeries, initial: Array) -> Array:
    """Curve - data of all trajectories, one below the other [samples, states], 0 for missing values."""
    runs = zip(series.trajectories, initial, strict=True)
    each = [np.where(np.isfinite(run.values), law.simulate(x, run.time) - run.values, 0.0) for run, x in runs]
    return np.concatenate(each)


def equations(field: VectorField, index: int, series: TimeSeries, nonnegative: NDArray[np.bool_]) -> Equations:
    """Read one member as equations, exact for its weights, with gates between 0 and 1 unchanged.

    For a nonnegative state, the power unit's sign is omitted.
    """
    law = _power_sum(field, index, np.nanmin(pooled(series), axis=0) > 0)
    if law is not None and nonnegative.all():
        return Equations.from_power_sum(series.states, law, time_name=series.time_name, units=dict(series.units))
    symbols = Equations(series.states, ()).symbols
    signless = {s for s, known in zip(symbols, nonnegative, strict=True) if known}

    def is_negative(minus_x: sympy.Expr, _at_zero: sympy.Expr) -> sympy.Expr:
        """Express 1 for x < 0, else 0, in functions that can be printed and parsed."""
        x = -minus_x
        return sympy.S.Zero if x in signless else sympy.sign(x) * (sympy.sign(x) - 1) / 2

    sides = [
        side.replace(sympy.Heaviside, is_negative).xreplace({sympy.pi: sympy.Float(math.pi)})
        for side in field.symbolic(index, symbols)
    ]
    return Equations(series.states, tuple(sides), series.time_name, units=dict(series.units))


def _power_sum(field: VectorField, index: int, positive: NDArray[np.bool_]) -> PowerSum | None:
    """Return the power sum of a member whose gates are all 0 or 1, else None.

    At 0 the power unit adds the machine epsilon, but a power sum does not: a state that is not
    always positive must have no negative exponent.
    """
    first, *rest = field.arrays(index)
    gates = np.clip(first.get("gate", np.full(1, 0.5)), 0.0, 1.0)
    if "imaginary" in first or not np.isin(gates, (0.0, 1.0)).all():
        return None
    exponents = first["real"] * gates
    if np.any(exponents[:, ~positive] < 0):
        return None
    return PowerSum(rest[0]["weight"], exponents).merged()


def network(field: VectorField, index: int) -> Network:
    """Return one member's layers as arrays, including hidden rows that are all zero."""
    layers = tuple(
        Layer(unit.name, unit.n_out, unit.n_in, arrays)
        for unit, arrays in zip(field.units, field.arrays(index), strict=True)
    )
    return Network(layers, Scale(np.ones(field.n_states), 1.0))
