"""Known systems of differential equations: data with a known answer.

A system is its equations as text with named parameters, a usual start, a time span and the
source; everything else (numbers, simulation, noise) follows from that. Tests, benchmarks and
`odediscovery simulate` all take their systems from the registry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import LEAST_VALUES
from odediscovery.errors import FitError, InputError, unknown_name
from odediscovery.laws.equations import Equations


@dataclass(frozen=True)
class System:
    """A named system: texts over states and parameters, with usual values.

    Args:
        name: what to call it by.
        title: what it describes.
        texts: right-hand side of each state, in the order of the states.
        parameters: default value of every other name in the texts.
        initial: default start of every state.
        t_span: first and last time.
        n_samples: equally spaced samples on `t_span`, ends included.
        units: of states and the time `t`, where the system has any.
        source: where the equations and values come from.

    >>> get_system("torricelli").units
    {'h': 'm', 't': 's'}
    """

    name: str
    title: str
    texts: Mapping[str, str]
    parameters: Mapping[str, float]
    initial: Mapping[str, float]
    t_span: tuple[float, float]
    n_samples: int
    source: str
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states."""
        return tuple(self.texts)

    def equations(self, parameters: Mapping[str, float] | None = None) -> Equations:
        """The equations with numbers in place of the parameters.

        Args:
            parameters: values that replace the defaults.

        Raises:
            InputError: an unknown parameter.

        >>> print(get_system("logistic").equations({"r": 0.5}).pretty())
        N' = 0.5*N - 0.005*N^2
        """
        for name in parameters or {}:
            if name not in self.parameters:
                raise unknown_name("parameter", name, self.parameters)
        constants = {**self.parameters, **(parameters or {})}
        return Equations.parse(self.states, self.texts, time_name="t", constants=constants, units=self.units)


_ALL = (
    System(
        "fsir",
        "fractional SIR epidemic",
        {"S": "-beta*I**gamma*S**kappa + eta*R", "I": "beta*I**gamma*S**kappa - alpha*I", "R": "alpha*I - eta*R"},
        {"alpha": 0.05, "beta": 0.06, "eta": 0.01, "gamma": 0.5, "kappa": 0.5},
        {"S": 100.0, "I": 0.01, "R": 0.0},
        (0.0, 200.0),
        40,
        "Heim, Pevny, Smidl 2020, Neural Power Units; after Taghvaei et al. 2020",
    ),
    System(
        "sir",
        "SIR epidemic with a well mixed population of 100",
        {"S": "-beta*S*I", "I": "beta*S*I - gamma*I", "R": "gamma*I"},
        {"beta": 0.004, "gamma": 0.1},
        {"S": 99.0, "I": 1.0, "R": 0.0},
        (0.0, 60.0),
        60,
        "Kermack, McKendrick 1927, Proc R Soc A 115:700",
    ),
    System(
        "lotka-volterra",
        "predator and prey",
        {"prey": "a*prey - b*prey*predator", "predator": "c*prey*predator - d*predator"},
        {"a": 1.0, "b": 0.1, "c": 0.075, "d": 1.5},
        {"prey": 10.0, "predator": 5.0},
        (0.0, 15.0),
        100,
        "Lotka 1925; Volterra 1926",
    ),
    System(
        "logistic",
        "growth with a limit",
        {"N": "r*N - r/K*N**2"},
        {"r": 0.4, "K": 100.0},
        {"N": 2.0},
        (0.0, 25.0),
        50,
        "Verhulst 1838",
    ),
    System(
        "theta-logistic",
        "growth with a limit, fractional crowding",
        {"N": "r*N - r/K**theta*N**(1 + theta)"},
        {"r": 0.8, "K": 50.0, "theta": 0.35},
        {"N": 0.5},
        (0.0, 18.0),
        60,
        "Gilpin, Ayala 1973, PNAS 70:3590",
    ),
    System(
        "von-bertalanffy",
        "growth of an animal: gain by surface, loss by mass",
        {"m": "a*m**p - b*m"},
        {"a": 1.2, "b": 0.15, "p": 2.0 / 3.0},
        {"m": 1.0},
        (0.0, 60.0),
        60,
        "von Bertalanffy 1957, Q Rev Biol 32:217",
        {"m": "g", "t": "d"},
    ),
    System(
        "torricelli",
        "tank that drains through a hole, with constant inflow",
        {"h": "q - k*h**0.5"},
        {"q": 0.3, "k": 0.35},
        {"h": 9.0},
        (0.0, 14.0),
        60,
        "Torricelli 1644",
        {"h": "m", "t": "s"},
    ),
    System(
        "lorenz",
        "convection in a fluid layer, chaotic",
        {"x": "sigma*y - sigma*x", "y": "rho*x - x*z - y", "z": "x*y - beta*z"},
        {"sigma": 10.0, "rho": 28.0, "beta": 8.0 / 3.0},
        {"x": -8.0, "y": 8.0, "z": 27.0},
        (0.0, 10.0),
        500,
        "Lorenz 1963, J Atmos Sci 20:130",
    ),
    System(
        "van-der-pol",
        "oscillator with nonlinear damping",
        {"x": "y", "y": "mu*y - mu*x**2*y - x"},
        {"mu": 1.0},
        {"x": 2.0, "y": 0.0},
        (0.0, 20.0),
        200,
        "van der Pol 1926, Phil Mag 2:978",
    ),
    System(
        "toy",
        "second system of the Neural Power Units study; u1 falls to 0 at t = 1.499",
        {"u1": "u2", "u2": "-u2 - u1**(-1)"},
        {},
        {"u1": 1.0, "u2": 0.0},
        (0.0, 1.4),
        40,
        "Heim, Pevny, Smidl 2020, code of the study (there up to t = 3)",
    ),
    System(
        "damped-oscillator",
        "mass on a spring with friction",
        {"x": "v", "v": "-omega**2*x - 2*zeta*omega*v"},
        {"omega": 2.0, "zeta": 0.1},
        {"x": 1.0, "v": 0.0},
        (0.0, 10.0),
        100,
        "textbook",
        {"x": "m", "v": "m/s", "t": "s"},
    ),
    System(
        "brusselator",
        "oscillating chemical reaction",
        {"x": "A + x**2*y - B*x - x", "y": "B*x - x**2*y"},
        {"A": 1.0, "B": 3.0},
        {"x": 0.5, "y": 1.5},
        (0.0, 22.0),
        120,
        "Prigogine, Lefever 1968, J Chem Phys 48:1695",
    ),
    System(
        "fractional-drag",
        "sphere falling at intermediate Reynolds numbers",
        {"v": "g - c*v**p"},
        {"g": 9.81, "c": 0.9, "p": 1.6},
        {"v": 0.1},
        (0.0, 1.2),
        50,
        "Allen 1900, Phil Mag 50:323",
        {"v": "m/s", "t": "s"},
    ),
    System(
        "s-system",
        "branched metabolic pathway",
        {
            "X1": "12*X3**-0.8 - 10*X1**0.5",
            "X2": "8*X1**0.5 - 3*X2**0.75",
            "X3": "3*X2**0.75 - 5*X3**0.5*X4**0.2",
            "X4": "2*X1**0.5 - 6*X4**0.8",
        },
        {},
        {"X1": 1.4, "X2": 2.7, "X3": 1.2, "X4": 0.4},
        (0.0, 3.0),
        80,
        "Voit, Almeida 2004, Bioinformatics 20:1670",
    ),
    System(
        "herd",
        "predator and prey that lives in a herd",
        {"x": "r*x - r/K*x**2 - a*x**0.5*y", "y": "e*x**0.5*y - m*y"},
        {"r": 1.0, "K": 10.0, "a": 0.9, "e": 0.4, "m": 0.76},
        {"x": 5.0, "y": 1.0},
        (0.0, 35.0),
        80,
        "Ajraldi, Pittavino, Venturino 2011, Nonlinear Anal RWA 12:2319",
    ),
    System(
        "pendulum",
        "pendulum of any amplitude: no sum of powers",
        {"angle": "speed", "speed": "-g/length*sin(angle)"},
        {"g": 9.81, "length": 1.0},
        {"angle": 2.0, "speed": 0.0},
        (0.0, 10.0),
        100,
        "textbook",
        {"angle": "rad", "speed": "rad/s", "t": "s"},
    ),
)

SYSTEMS: Mapping[str, System] = {system.name: system for system in _ALL}


def get_system(name: str) -> System:
    """The system of that name.

    Raises:
        InputError: there is none, with the nearest name.

    >>> get_system("lotka-volterra").states
    ('prey', 'predator')
    """
    if name not in SYSTEMS:
        raise unknown_name("system", name, SYSTEMS)
    return SYSTEMS[name]


def simulate_system(
    name: str,
    set: Mapping[str, float] | None = None,
    *,
    samples: int | None = None,
    until: float | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> TimeSeries:
    """Synthetic data of a known system, solved to a relative tolerance of 1e-10.

    Args:
        name: of the system.
        set: values of parameters, or of states for where to start.
        samples: number of equally spaced samples, ends included.
        until: last time.
        noise: standard deviation of added normal noise, as a share of each state's standard
            deviation over the samples.
        seed: of the noise.

    Raises:
        InputError: an unknown name or a value out of range.
        FitError: the solution does not exist up to the last time.

    >>> simulate_system("logistic", {"N": 5}, samples=10).trajectories[0].values[0].tolist()
    [5.0]
    """
    system = get_system(name)
    given = {key: _finite(key, value) for key, value in (set or {}).items()}
    for key in given:
        if key not in system.parameters and key not in system.states:
            raise unknown_name("parameter or state", key, [*system.parameters, *system.states])
    samples = system.n_samples if samples is None else samples
    first, last = system.t_span[0], system.t_span[1] if until is None else _finite("until", until)
    if samples < LEAST_VALUES:
        raise InputError(f"--samples should be at least {LEAST_VALUES}, got {samples}")
    if not last > first:
        raise InputError(f"--until should be after the start at {first:g}, got {last:g}")
    if not noise >= 0 or not np.isfinite(noise):
        raise InputError(f"--noise should be 0 or a positive share, got {noise}")
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    parameters = {key: value for key, value in given.items() if key in system.parameters}
    initial = [given.get(state, system.initial[state]) for state in system.states]
    times = np.linspace(first, last, samples)
    equations = system.equations(parameters)
    values = equations.simulate(initial, times, rtol=1e-10, most_evaluations=2_000_000)
    if not np.isfinite(values).all():
        end = times[np.isfinite(values).all(axis=1)].max(initial=first)
        raise FitError(
            f"the solution of {name} cannot be followed beyond t = {end:g}; choose other values or an earlier end"
        )
    if noise > 0:
        random = np.random.default_rng(seed)
        values = values + noise * values.std(axis=0) * random.standard_normal(values.shape)
    return TimeSeries.from_arrays(times, values, system.states, time_name="t", units=system.units)


def _finite(name: str, value: float) -> float:
    if not np.isfinite(value):
        raise InputError(f"{name} should be a finite number, got {value}")
    return float(value)
