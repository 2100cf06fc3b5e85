"""Rates that several states limit together, as people publish them, and their exact samples."""

import numpy as np
from scipy.integrate import solve_ivp

from odediscovery import Equations, TimeSeries

UPTAKE = "X*S/(0.5 + S)*O/(0.3 + O)"
SHARED = "x*y/(1 + 0.6*x + 0.4*y)"
HALDANE = "X*s/(0.4 + s + s**2/1.5)"
DIMER = "y**3/(0.5 + y**3)"

# Equations, starts of two trajectories, and the last time.
RATES = {
    "a chain of two enzymes": (
        {"a": "0.25 - 1.2*a/(0.6 + a)", "b": "1.2*a/(0.6 + a) - 0.8*c*b/(0.3 + b)", "c": "0.5*a - 0.4*c"},
        [[2.0, 0.1, 0.2], [0.3, 1.5, 1.0]],
        10.0,
    ),
    "two substrates": (
        {"S": f"0.4 - 0.2*S - {UPTAKE}", "O": f"0.5 - 0.5*O - 0.6*{UPTAKE}", "X": f"0.7*{UPTAKE} - 0.2*X"},
        [[2.0, 1.0, 0.1], [0.5, 0.3, 0.8]],
        15.0,
    ),
    "predators in each other's way": (
        {"x": f"x - x**2/3 - 1.2*{SHARED}", "y": f"0.72*{SHARED} - 0.25*y"},
        [[2.0, 0.3], [0.5, 1.5]],
        20.0,
    ),
    "substrate inhibition": (
        {"s": f"0.6 - 0.2*s - 1.6*{HALDANE}", "X": f"0.8*{HALDANE} - 0.2*X"},
        [[3.0, 0.2], [0.2, 0.8]],
        20.0,
    ),
    "a product that inhibits": (
        {"s": "0.1 - s/(0.5 + 1.25*p + s)", "p": "s/(0.5 + 1.25*p + s) - 0.3*p"},
        [[3.0, 0.1], [1.0, 1.5]],
        8.0,
    ),
    "a cell quota": (
        {"N": "0.3 - 0.3*N - 0.9*N*X/(0.3 + N)", "Q": "0.9*N/(0.3 + N) - 0.8*Q + 0.2", "X": "0.5*X - 0.2*X/Q"},
        [[1.0, 0.3, 0.1], [0.2, 0.8, 0.5]],
        15.0,
    ),
    "cooperation": (
        {"x": f"1.2*{DIMER} - 0.5*x", "y": f"0.8 + 0.2*x - 0.3*y - 1.2*{DIMER}"},
        [[2.0, 0.3], [0.5, 1.8]],
        12.0,
    ),
    "Gompertz and his predator": (
        {"x": "-0.7*x*log(x/2.5) - x*y/(1 + 0.8*x)", "y": "0.6*x*y/(1 + 0.8*x) - 0.25*y"},
        [[2.0, 0.3], [0.5, 0.8]],
        15.0,
    ),
    "Ivlev": (
        {"x": "x - x**2/3 - 0.9*y*(1 - exp(-1.4*x))", "y": "0.63*y*(1 - exp(-1.4*x)) - 0.3*y"},
        [[2.0, 0.3], [0.5, 0.8]],
        15.0,
    ),
    "uncompetitive inhibition": (
        {"s": "0.4 - 1.2*s/(0.5 + s + 0.8*s*p)", "p": "0.9*s/(0.5 + s + 0.8*s*p) - 0.4*p"},
        [[2.0, 0.1], [0.3, 1.5]],
        10.0,
    ),
    "ratio dependence": (
        {"x": "x - x**2/3 - 0.9*x*y/(x + 0.7*y)", "y": "0.6*x*y/(x + 0.7*y) - 0.25*y"},
        [[2.0, 0.3], [0.5, 0.8]],
        15.0,
    ),
    "a steep gate": ({"x": "0.3 - 0.6*x/(1 + exp(4*(1 - y)))", "y": "0.5*x - 0.4*y"}, [[2.0, 0.3], [0.4, 1.8]], 12.0),
    "Arrhenius": (
        {"T": "2.0 + 30*exp(-12/T)*c - 0.5*T", "c": "0.8 - 0.2*c - 20*exp(-12/T)*c"},
        [[4.0, 2.0], [6.0, 0.5]],
        10.0,
    ),
    "a Hill function as measured": (
        {"m": "0.9/(1 + p**2.4) - 0.5*m", "p": "0.8*m - 0.3*p"},
        [[0.1, 2.0], [1.5, 0.3]],
        15.0,
    ),
    "quadratic drag": ({"x": "v", "v": "-x - 0.4*v*Abs(v)"}, [[2.0, 0.3], [-1.0, 1.5]], 12.0),
    "drag along the path": (
        {"u": "w - 0.3*u*(u**2 + w**2)**0.5", "w": "-1.5*u - 0.3*w*(u**2 + w**2)**0.5"},
        [[2.0, 0.3], [-0.7, 1.5]],
        8.0,
    ),
    "plates that attract each other": (
        {"l": "v", "v": "0.08/(1 - l)**2 - 0.4*v - l"},
        [[0.0, 0.2], [0.35, -0.1]],
        12.0,
    ),
    "a diode": ({"v": "0.5 + 0.3*i - 0.4*exp(1.5*v)", "i": "-0.4*i - 0.8*v"}, [[1.0, 1.3], [-1.5, 0.8]], 15.0),
}


def sampled(sides, starts, span, samples=60):
    """The true law and its exact samples."""
    law, t = Equations.parse(list(sides), sides), np.linspace(0.0, span, samples)
    runs = [
        solve_ivp(lambda _, x: law.rhs(x), (0.0, span), x0, t_eval=t, rtol=1e-11, atol=1e-12, method="LSODA").y.T
        for x0 in starts
    ]
    return law, TimeSeries.from_arrays([t] * len(runs), runs, list(sides))
