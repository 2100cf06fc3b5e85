"""Known systems of differential equations, for data with a known answer.

Tests, benchmarks and `odediscovery simulate` all take their systems from this registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import LEAST_VALUES
from odediscovery.errors import FitError, InputError, unknown_name
from odediscovery.laws.equations import Equations


@dataclass(frozen=True)
class System:
    """A named system: equations in states and parameters, with default values.

    Args:
        name: key in the registry.
        title: what it describes.
        texts: right-hand side of each state, in the order of the states.
        parameters: default value of every other name in the texts.
        initial: default start value of every state.
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
            InputError: a parameter is unknown.

        >>> print(get_system("logistic").equations({"r": 0.5}).pretty())
        N' = 0.5*N - 0.005*N^2
        """
        for name in parameters or {}:
            if name not in self.parameters:
                raise unknown_name("parameter", name, self.parameters)
        constants = {**self.parameters, **(parameters or {})}
        return Equations.parse(self.states, self.texts, time_name="t", constants=constants, units=self.units)


# Every system: its name and title, the source, one equation per line, then the numbers of `System`: parameters; start
# values; first and last time and samples; units.
_TABLE = """
fsir: fractional SIR epidemic
Heim, Pevny, Smidl 2020, Neural Power Units; after Taghvaei et al. 2020
S' = -beta*I**gamma*S**kappa + eta*R
I' = beta*I**gamma*S**kappa - alpha*I
R' = alpha*I - eta*R
alpha=0.05 beta=0.06 eta=0.01 gamma=0.5 kappa=0.5; S=100 I=0.01 R=0; 0 200 40;

sir: SIR epidemic with a well mixed population of 100
Kermack, McKendrick 1927, Proc R Soc A 115:700
S' = -beta*S*I
I' = beta*S*I - gamma*I
R' = gamma*I
beta=0.004 gamma=0.1; S=99 I=1 R=0; 0 60 60;

lotka-volterra: predator and prey
Lotka 1925; Volterra 1926
prey' = a*prey - b*prey*predator
predator' = c*prey*predator - d*predator
a=1 b=0.1 c=0.075 d=1.5; prey=10 predator=5; 0 15 100;

logistic: growth with a limit
Verhulst 1838
N' = r*N - r/K*N**2
r=0.4 K=100; N=2; 0 25 50;

theta-logistic: growth with a limit, fractional crowding
Gilpin, Ayala 1973, PNAS 70:3590
N' = r*N - r/K**theta*N**(1 + theta)
r=0.8 K=50 theta=0.35; N=0.5; 0 18 60;

von-bertalanffy: growth of an animal: gain by surface, loss by mass
von Bertalanffy 1957, Q Rev Biol 32:217
m' = a*m**p - b*m
a=1.2 b=0.15 p=2/3; m=1; 0 60 60; m=g t=d

torricelli: tank that drains through a hole, with constant inflow
Torricelli 1644
h' = q - k*h**0.5
q=0.3 k=0.35; h=9; 0 14 60; h=m t=s

lorenz: convection in a fluid layer, chaotic
Lorenz 1963, J Atmos Sci 20:130
x' = sigma*y - sigma*x
y' = rho*x - x*z - y
z' = x*y - beta*z
sigma=10 rho=28 beta=8/3; x=-8 y=8 z=27; 0 10 500;

van-der-pol: oscillator with nonlinear damping
van der Pol 1926, Phil Mag 2:978
x' = y
y' = mu*y - mu*x**2*y - x
mu=1; x=2 y=0; 0 20 200;

toy: second system of the Neural Power Units study; u1 falls to 0 at t = 1.499
Heim, Pevny, Smidl 2020, code of the study (there up to t = 3)
u1' = u2
u2' = -u2 - u1**(-1)
; u1=1 u2=0; 0 1.4 40;

damped-oscillator: mass on a spring with friction
textbook
x' = v
v' = -omega**2*x - 2*zeta*omega*v
omega=2 zeta=0.1; x=1 v=0; 0 10 100; x=m v=m/s t=s

brusselator: oscillating chemical reaction
Prigogine, Lefever 1968, J Chem Phys 48:1695
x' = A + x**2*y - B*x - x
y' = B*x - x**2*y
A=1 B=3; x=0.5 y=1.5; 0 22 120;

fractional-drag: sphere falling at intermediate Reynolds numbers
Allen 1900, Phil Mag 50:323
v' = g - c*v**p
g=9.81 c=0.9 p=1.6; v=0.1; 0 1.2 50; v=m/s t=s

s-system: branched metabolic pathway
Voit, Almeida 2004, Bioinformatics 20:1670
X1' = 12*X3**-0.8 - 10*X1**0.5
X2' = 8*X1**0.5 - 3*X2**0.75
X3' = 3*X2**0.75 - 5*X3**0.5*X4**0.2
X4' = 2*X1**0.5 - 6*X4**0.8
; X1=1.4 X2=2.7 X3=1.2 X4=0.4; 0 3 80;

herd: predator and prey that lives in a herd
Ajraldi, Pittavino, Venturino 2011, Nonlinear Anal RWA 12:2319
x' = r*x - r/K*x**2 - a*x**0.5*y
y' = e*x**0.5*y - m*y
r=1 K=10 a=0.9 e=0.4 m=0.76; x=5 y=1; 0 35 80;

pendulum: pendulum of any amplitude: no sum of powers
textbook
angle' = speed
speed' = -g/length*sin(angle)
g=9.81 length=1; angle=2 speed=0; 0 10 100; angle=rad speed=rad/s t=s
"""


def _systems(table: str) -> dict[str, System]:
    """The systems of a table, by name."""
    found = {}
    for block in table.strip().split("\n\n"):
        head, source, *equations, numbers = block.splitlines()
        name, _, title = head.partition(": ")
        texts = {state: side for state, _, side in (line.partition("' = ") for line in equations)}
        pairs = [[part.partition("=")[::2] for part in of.split()] for of in numbers.split(";")]
        parameters, initial = ({key: float(Fraction(value)) for key, value in of} for of in pairs[:2])
        first, last, samples = (float(number) for number, _ in pairs[2])
        found[name] = System(
            name, title, texts, parameters, initial, (first, last), int(samples), source, dict(pairs[3])
        )
    return found


SYSTEMS: Mapping[str, System] = _systems(_TABLE)


def get_system(name: str) -> System:
    """The system with this name.

    Raises:
        InputError: the name is unknown; the message has the nearest one.

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
        set: values of parameters, or start values of states.
        samples: number of equally spaced samples, ends included.
        until: last time.
        noise: standard deviation of added normal noise, as a share of that of each state over the samples.
        seed: of the noise.

    Raises:
        InputError: a name is unknown or a value out of range.
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
