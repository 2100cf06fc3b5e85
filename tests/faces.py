"""Discoveries made by hand from known equations, for the tests of the faces."""

import numpy as np
from problems import FSIR

from odediscovery import Discovery, Equations, Settings, TimeSeries
from odediscovery.data.series import Scale
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import Layer, Network
from odediscovery.result.front import FrontRow

AWKWARD = ("S", "I", "R", "E", "N", "Q", "beta", "gamma", "lambda", "sin", "I0", "x y", "β")


def discovery(
    law=FSIR,
    states=("S", "I", "R"),
    *,
    runs=1,
    hidden=0,
    time_name="t",
    noise=0.01,
    samples=40,
    until=200.0,
    initial=(100.0, 0.01, 0.0),
):
    """A finished result whose data come from `law` with a little noise.

    Args:
        runs: trajectories, each from half the initial values of the one before.
        hidden: rows of the network (at least the monomials; the rest is pruned).
    """
    generator = np.random.default_rng(0)
    fitted = (law.exponents != 0) & (law.exponents != 1.0)
    error = PowerSum(np.where(law.coefficients != 0, 1e-4, 0.0), np.where(fitted, 2e-4, 0.0))
    equations = Equations.from_power_sum(states, law, time_name=time_name, standard_errors=error)
    times = np.linspace(0.0, until, samples)
    starts = np.array([np.array(initial) / 2.0**k for k in range(runs)])
    clean = [equations.simulate(start, times) for start in starts]
    spread = noise * clean[0].std(axis=0)
    values = [x + spread * generator.normal(size=x.shape) for x in clean]
    labels = [f"run {k + 1}" for k in range(runs)] if runs > 1 else None
    times, values = ([times] * runs, values) if runs > 1 else (times, values[0])
    series = TimeSeries.from_arrays(times, values, states, labels=labels, time_name=time_name)
    constant = PowerSum(law.coefficients[:, :1] * 0.5, law.exponents[:1])
    simpler = Equations.from_power_sum(states, constant, time_name=time_name)
    mse = float(np.mean(spread**2))
    return Discovery(
        series=series,
        equations=equations,
        initial_values=starts,
        front=(
            FrontRow(simpler, simpler.complexity, 80.0, 0.3, 500.0, False),
            FrontRow(equations, equations.complexity, mse, 0.9999, -900.0, True),
        ),
        mse=mse,
        r2=0.9999,
        r2_heldout=None,
        noise=spread,
        outcome="converged",
        messages=("made by hand",),
        settings=Settings(seed=3),
        seconds=1.5,
        network=network(law, series, hidden),
        log=({"event": "start", "loss": 0.5},),
    )


def network(law, series, hidden=0):
    """RealNPU -> NAU with the law in its first rows and the rest pruned."""
    scale = Scale.of(series)
    scaled = law.rescaled(scale.state, scale.time)
    n, m = law.n_states, max(hidden, law.n_monomials)
    real, weight = np.zeros((m, n)), np.zeros((n, m))
    real[: law.n_monomials], weight[:, : law.n_monomials] = scaled.exponents, scaled.coefficients
    return Network(
        (Layer("RealNPU", m, n, {"real": real, "gate": np.ones(n)}), Layer("NAU", n, m, {"weight": weight})), scale
    )


def cascade(states, start=1.0, **more):
    """States that each decay into the next."""
    n = len(states)
    law = PowerSum(np.diag(np.full(n, -0.3)) + np.diag(np.full(n - 1, 0.3), -1), np.eye(n))
    return discovery(law, states, until=10.0, initial=(start,) * n, **more)


def awkward():
    """Thirteen states whose names are no ordinary ones."""
    return cascade(AWKWARD, samples=12, noise=0.001)
