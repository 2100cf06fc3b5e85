"""The same members, windows and steps in JAX: diffrax with jit and vmap. The only door to both.

What an experienced user would write: the right-hand side of one member, one solve of one window,
`vmap` over windows and members, `jit` around loss and gradient. The solver is the method that
training uses (Kutta's 3/8 rule) on the same step grids, as a tableau of diffrax's own explicit
Runge-Kutta solver. What diffrax offers in several ways is offered here in several ways, and the
fastest is what ours is compared with: gradients through checkpointed or through all steps, windows
by `vmap` or as one state. float64; XLA takes the threads it wants.

Optional: `pip install "odediscovery[bench]"`.

Source: Kidger, On Neural Differential Equations (2021).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from odediscovery.runtime.arrays import Array

try:
    import diffrax
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

EPSILON = float(np.finfo(np.float64).eps)
# theta [members, P] -> losses [members], gradients [members, P]; ends when both are there.
Evaluate: TypeAlias = Callable[[Array], tuple[Array, Array]]


def installed() -> bool:
    """Whether JAX and diffrax are there."""
    return jax is not None


def versions() -> dict[str, str]:
    """Versions of both, where they are there."""
    return {"jax": jax.__version__, "diffrax": diffrax.__version__} if installed() else {}


def rates(theta: Any, x: Any, nonnegative: bool = True) -> Any:
    """dx/dt = A exp(W log r) cos(W k) of one member at one state x [states], as in `plain_loop`."""
    n = x.shape[0]
    hidden = (theta.shape[0] - n) // (2 * n)
    real, weight = theta[: hidden * n].reshape(hidden, n), theta[-hidden * n :].reshape(n, hidden)
    gate = theta[hidden * n : hidden * n + n]
    gate = gate + jax.lax.stop_gradient(jnp.clip(gate, 0.0, 1.0) - gate)
    size = jnp.maximum(x, 0.0) if nonnegative else jnp.abs(x)
    y = jnp.exp(real @ jnp.log(gate * (size + EPSILON) + 1.0 - gate))
    if not nonnegative:
        y = y * jnp.cos(real @ (jnp.pi * gate * (x < 0)))
    return weight @ y


def window_gradients(
    start: Array, duration: Array, target: Array, weight: Array, grid: Array
) -> Mapping[str, Evaluate]:
    """Loss and gradient on one-interval windows, by each way that diffrax has.

    Args:
        start, target, weight: [windows, states].
        duration: [windows].
        grid: equal steps of tau in [0, 1].
    """
    _in_double()
    x0, h, goal, w = (jnp.asarray(a) for a in (start, duration, target, weight))
    count, options = int((weight > 0).sum()), _equal_steps(grid)

    def loss(ends: Any) -> Any:
        return jnp.sum(((ends - goal) * w) ** 2) / count

    def by_vmap(adjoint: Any) -> Evaluate:
        term = diffrax.ODETerm(lambda t, y, args: args[1] * rates(args[0], y))

        def one(theta: Any, x: Any, length: Any) -> Any:
            solution = diffrax.diffeqsolve(term, _solver(), y0=x, args=(theta, length), adjoint=adjoint, **options)
            return solution.ys[-1]

        each = jax.vmap(one, in_axes=(None, 0, 0))
        return _evaluated(lambda theta: loss(each(theta, x0, h)))

    def as_one_state(adjoint: Any) -> Evaluate:
        of_all = jax.vmap(rates, in_axes=(None, 0))
        term = diffrax.ODETerm(lambda t, y, args: h[:, None] * of_all(args, y))
        return _evaluated(
            lambda theta: loss(
                diffrax.diffeqsolve(term, _solver(), y0=x0, args=theta, adjoint=adjoint, **options).ys[-1]
            )
        )

    return {
        f"{how}, {name} steps": way(adjoint)
        for how, way in (("windows by vmap", by_vmap), ("windows as one state", as_one_state))
        for name, adjoint in _adjoints().items()
    }


def whole_gradients(start: Array, times: Array, values: Array, steps: Array) -> Mapping[str, Evaluate]:
    """Mean squared error and gradient on one whole trajectory, by each way that diffrax has.

    Args:
        start: [states].
        times, values: [samples], [samples, states]; the first one is the start.
        steps: where Runge-Kutta steps begin and end; contains the times.
    """
    _in_double()
    at = jnp.asarray(np.searchsorted(steps, times)[1:] - 1)
    goal, size = jnp.asarray(values[1:]), values.size

    def way(adjoint: Any) -> Evaluate:
        def loss(theta: Any) -> Any:
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, y, args: rates(args, y)),
                _solver(),
                t0=steps[0],
                t1=steps[-1],
                dt0=None,
                y0=jnp.asarray(start),
                args=theta,
                stepsize_controller=diffrax.StepTo(jnp.asarray(steps)),
                adjoint=adjoint,
                saveat=diffrax.SaveAt(steps=True),
                max_steps=len(steps) - 1,
                throw=False,
            )
            return jnp.sum((solution.ys[at] - goal) ** 2) / size

        return _evaluated(loss)

    return {f"{name} steps": way(adjoint) for name, adjoint in _adjoints().items()}


def as_run_trainings(
    theta: Array, start: Array, times: Array, values: Array, steps: Array, rate: float, l1: float
) -> Mapping[str, Callable[[int], float]]:
    """RMSProp steps of the recipe `as-run` for all members at once, by each way that diffrax has.

    Euler steps of one unit of time, solutions interpolated linearly at the times of the data. Each
    is called with the number of steps and returns the smallest loss.
    """
    _in_double()

    def way(adjoint: Any) -> Callable[[int], float]:
        def loss(p: Any) -> Any:
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, y, args: rates(args, y, False)),
                diffrax.Euler(),
                t0=steps[0],
                t1=steps[-1],
                dt0=None,
                y0=jnp.asarray(start),
                args=p,
                stepsize_controller=diffrax.StepTo(jnp.asarray(steps)),
                adjoint=adjoint,
                saveat=diffrax.SaveAt(ts=jnp.asarray(times)),
                max_steps=len(steps) - 1,
                throw=False,
            )
            return jnp.mean((solution.ys - jnp.asarray(values)) ** 2) + l1 * jnp.abs(p).sum()

        def step(p: Any, second: Any) -> Any:
            value, gradient = jax.vmap(jax.value_and_grad(loss))(p)
            second = 0.9 * second + 0.1 * gradient**2
            return p - rate * gradient / (jnp.sqrt(second) + 1e-8), second, value

        compiled = jax.jit(step)
        state = [jnp.asarray(theta), jnp.zeros_like(jnp.asarray(theta))]

        def run(count: int) -> float:
            value = jnp.zeros(())
            for _ in range(count):
                state[0], state[1], value = compiled(*state)
            return float(jnp.nanmin(value))

        return run

    return {f"members by vmap, {name} steps": way(a) for name, a in _adjoints().items()}


def _evaluated(loss: Callable[..., Any]) -> Evaluate:
    """Loss of one member -> losses and gradients of all, compiled at the first call."""
    compiled = jax.jit(jax.vmap(jax.value_and_grad(loss)))

    def evaluate(theta: Array) -> tuple[Array, Array]:
        value, gradient = compiled(theta)
        return np.asarray(value), np.asarray(gradient)

    return evaluate


def _in_double() -> None:
    jax.config.update("jax_enable_x64", True)


def _equal_steps(grid: Array) -> dict[str, Any]:
    return {
        "t0": 0.0,
        "t1": 1.0,
        "dt0": float(grid[1]),
        "max_steps": len(grid) - 1,
        "saveat": diffrax.SaveAt(t1=True),
        "throw": False,
    }


def _adjoints() -> dict[str, Any]:
    """Gradients of diffrax that follow the steps taken, as ours does."""
    return {"checkpointed": diffrax.RecursiveCheckpointAdjoint(), "direct": diffrax.DirectAdjoint()}


def _solver() -> Any:
    """Kutta's 3/8 rule, what torchdiffeq calls rk4."""

    class ThreeEighths(diffrax.AbstractERK):  # type: ignore[misc]
        tableau = diffrax.ButcherTableau(
            c=np.array([1 / 3, 2 / 3, 1.0]),
            b_sol=np.array([1.0, 3.0, 3.0, 1.0]) / 8,
            b_error=np.zeros(4),
            a_lower=(np.array([1 / 3]), np.array([-1 / 3, 1.0]), np.array([1.0, -1.0, 1.0])),
        )
        interpolation_cls = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

        def order(self, terms: Any) -> int:
            return 4

    return ThreeEighths()
