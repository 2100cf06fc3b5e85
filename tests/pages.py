"""Results of every kind that a report has to show, made by hand."""

import dataclasses

import numpy as np
from faces import awkward, cascade, discovery

from odediscovery import Discovery, Equations, Settings, TimeSeries, fit_constants, with_controls
from odediscovery.data.series import Scale
from odediscovery.laws.power_sum import Features, Function, PowerSum, Sums
from odediscovery.networks.chain import Layer, Network
from odediscovery.result.front import FrontRow
from odediscovery.result.survival import Survival

HOSTILE = ("<script>alert(1)</script>", "a&b\"'</style>", "$x_{1}$ %s {{ 7*7 }}", "x\u2028y")


def told(series, equations, initial, **more):
    """A finished result of given equations, with one row in its front."""
    row = FrontRow(equations, equations.complexity, 0.01, 0.99, -1.0, True)
    found = Discovery(
        series=series,
        equations=equations,
        initial_values=np.array(initial),
        front=(row,),
        mse=0.01,
        r2=0.99,
        r2_heldout=None,
        noise=np.full(len(equations.states), 0.1),
        outcome="converged",
        messages=(),
        settings=Settings(),
        seconds=1.0,
    )
    return dataclasses.replace(found, **more)


def hostile():
    n = len(HOSTILE)
    law = PowerSum(-np.eye(n) + np.eye(n, k=1), np.eye(n))
    found = discovery(law, HOSTILE, until=4.0, initial=(1.0, 2.0, 3.0, 4.0), time_name="</svg>", runs=2)
    series = dataclasses.replace(found.series, units={"</svg>": "<b>s", HOSTILE[0]: "&amp;"})
    return dataclasses.replace(found, series=series, messages=("a <b>message</b> of a column",))


def fitted():
    """Growth with its covariance, from real least squares, and a bootstrap."""
    t = np.linspace(0.0, 20.0, 40)
    clean = 660.0 / (1.0 + 65.0 * np.exp(-0.55 * t))
    noisy = clean + 8.0 * np.random.default_rng(0).normal(size=len(t))
    series = TimeSeries.from_arrays(t, noisy, ["biomass"], units={"t": "h", "biomass": "g"})
    start = Equations.parse(["biomass"], {"biomass": "0.5*biomass - 0.001*biomass**2"})
    found = fit_constants(series, start, exponents=False)
    survival = Survival("residuals", 50, np.array([[1.0, 0.98]]), 0.96, (("biomass", "biomass^0.5", 0.04),))
    return dataclasses.replace(found, survival=survival)


def driven():
    t = np.linspace(0.0, 6.0, 30)
    u = np.where(t > 3.0, 2.0, 0.5)
    columns = np.column_stack([1.0 + 0.1 * t, u])
    series = with_controls(TimeSeries.from_arrays(t, columns, ["x", "u"]), linear=["t"], held=["u"])
    law = Equations.parse(["x"], {"x": "u*t**0.5 - 0.5*x"}, controls=["t", "u"])
    return told(series, law, [[1.0]])


def gaps():
    """Missing values, and a state that was never measured."""
    found = discovery(runs=2)
    runs = []
    for run in found.series.trajectories:
        values = run.values.copy()
        values[::3, 0], values[:, 2] = np.nan, np.nan
        runs.append(dataclasses.replace(run, values=values))
    series = dataclasses.replace(found.series, trajectories=tuple(runs))
    settings = Settings(hidden_states=("R",), conserve=("S + I + R = 100",))
    return dataclasses.replace(found, series=series, settings=settings)


def functions():
    """-k sin(2 x) v^2 / (1 + 0.3 x^2), exp(-0.5 x), with errors: a law with inner sums."""
    inputs = Features(
        2, (Function("sin", 0, 2.0), Function("exp", 0, 1.0)), Sums(np.array([[0.3]]), np.array([[2.0, 0.0, 0.0, 0.0]]))
    )
    a = np.array([[1.0, 0.0, 0.0], [0.0, -9.81, 0.2]])
    w = np.array([[0.0, 1.0, 0, 0, 0], [0.0, 2.0, 1, 0, -1], [0.0, 0.0, 0, -0.5, 0]])
    law = PowerSum(a, w, inputs)
    errors = law.with_constants(
        np.where(a != 0, 1e-3, 0.0), np.where(w == -0.5, 0.01, 0.0), np.array([[0.02]]), np.zeros((1, 4))
    )
    equations = Equations.from_power_sum(["x", "v"], law, standard_errors=errors)
    t = np.linspace(0.0, 2.0, 30)
    series = TimeSeries.from_arrays(t, equations.simulate([1.0, 0.1], t), ["x", "v"])
    return told(series, equations, [[1.0, 0.1]], degrees_of_freedom=50)


def expressions():
    """What only expressions tell, as in a front that was read from a file."""
    texts = {"x": "tanh(x)*y**y - sin(2*x + 1)/(1 + x**2)**0.5", "y": "0"}
    equations = Equations.parse(["x", "y"], texts)
    t = np.linspace(0.0, 2.0, 20)
    series = TimeSeries.from_arrays(t, equations.simulate([1.0, 0.5], t), ["x", "y"])
    return told(series, equations, [[1.0, 0.5]])


def dense():
    random = np.random.default_rng(0)
    wide, narrow = random.normal(size=(30, 3)), random.normal(size=(3, 30))
    layers = (
        Layer("Dense", 30, 3, {"weight": wide, "bias": np.ones(30)}),
        Layer("Dense", 3, 30, {"weight": narrow, "bias": np.ones(3)}),
    )
    network = Network(layers, Scale(np.ones(3), 1.0))
    return dataclasses.replace(discovery(), network=network, settings=Settings(recipe="paper"))


def complex_units():
    """A network with imaginary exponents and gates between 0 and 1, as NPUs have."""
    real = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.2]])
    npu = Layer("NPU", 2, 3, {"real": real, "imaginary": 0.1 * real, "gate": np.array([1, 0.4, 0])})
    nau = Layer("NAU", 3, 2, {"weight": np.array([[-1.0, 0.0], [1.0, -0.5], [0.0, 0.5]])})
    network = Network((npu, nau), Scale(np.ones(3), 1.0))
    return dataclasses.replace(discovery(), network=network)


def refused():
    """A poor fit whose equations blow up, without network, with a row that could not be run."""
    t = np.linspace(0.0, 5.0, 20)
    series = TimeSeries.from_arrays(t, np.sin(t), ["x"])
    equations = Equations.parse(["x"], {"x": "3*x**2"})
    found = told(
        series,
        equations,
        [[1.0]],
        outcome="poor-fit",
        r2=float("nan"),
        network=None,
        messages=("x explains nothing", "the data lack everything"),
    )
    lost = dataclasses.replace(found.front[0], selected=False, mse=float("nan"), complexity=99)
    return dataclasses.replace(found, front=(found.front[0], lost), mse=float("inf"))


def long():
    return discovery(samples=40_000, noise=0.05)


def wide():
    """More states and trajectories than can be drawn."""
    return cascade(tuple(f"state{k}" for k in range(24)), samples=12, runs=9)


PAGES = {
    "fsir": lambda: discovery(hidden=6),
    "runs": lambda: discovery(runs=9),
    "awkward": awkward,
    "hostile": hostile,
    "fitted": fitted,
    "driven": driven,
    "gaps": gaps,
    "functions": functions,
    "expressions": expressions,
    "dense": dense,
    "complex": complex_units,
    "refused": refused,
    "long": long,
    "wide": wide,
}
