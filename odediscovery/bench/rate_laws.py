"""Published rate laws, one in a row: a further law is a row of the table it belongs to.

A rate is of order 1 where all states are 1 in their units. Its constants have the units of measurements. In the
formulas x is the state and y the partner.

Sources: Cornish-Bowden, Fundamentals of Enzyme Kinetics (2012), for reactions; Turchin, Complex Population Dynamics
(2003), for functional responses and growth; Droop, J. Mar. Biol. Assoc. UK 48 (1968); Bequette, Process Dynamics
(1998), for tanks and reactors; Bard and Faulkner, Electrochemical Methods (2001), for electrodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from odediscovery.bench.random_families import OUTSIDE, Builder
from odediscovery.bench.systems import rounded


class Rate(NamedTuple):
    """A rate of order 1: powers of states times a factor without a unit."""

    powers: Mapping[int, float | str]
    factor: str = ""
    size: float = 1.0  # of its coefficient, where the factor is far from 1


# (builder, tag of the constants, state, partner) -> rate.
Writes: TypeAlias = Callable[[Builder, str, int, int], Rate]
# (builder, name, state, partner) -> the name, after its value was drawn.
Constant: TypeAlias = Callable[[Builder, str, int, int], str]


@dataclass(frozen=True)
class RateLaw:
    """A published rate law: `rate` writes it for a state and a partner, with constants named by a tag."""

    name: str
    rate: Writes
    # The partner, if there is one: "other" (any state), "product" (made) or "reactant" (used up as well).
    partner: str = ""


def rate(
    factor: str = "", powers: Mapping[str, float] | None = None, degree: float = 0.0, **constants: Constant
) -> Writes:
    """A rate by its formula; constants are drawn in their order.

    `degree` is that of the factor in the unit of x. Powers of y are left out where there is no partner.
    """

    def write(b: Builder, tag: str, x: int, y: int) -> Rate:
        names = {"x": f"x{x}", "y": f"x{y}"}
        for name, draw in constants.items():
            names[name] = draw(b, f"{name[0]}{tag}{name[1:]}", x, y)
        places = {"x": x, "y": y}
        raised = {places[name]: power for name, power in (powers or {}).items() if places[name] != OUTSIDE}
        text = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), factor)
        return Rate(raised, text, float(b.units[x]) ** -degree)

    return write


def of_x(low: float = 0.4, high: float = 2.0) -> Constant:
    """A constant in the unit of x, such as a half-saturation."""
    return lambda b, name, x, y: b.constant_of(x, name, b.size(low, high))


def of_y(low: float = 0.4, high: float = 2.0) -> Constant:
    """A constant in the unit of y."""
    return lambda b, name, x, y: b.constant_of(y, name, b.size(low, high))


def x_per_y(low: float = 0.4, high: float = 2.0) -> Constant:
    """A constant in the unit of x per unit of y."""
    return lambda b, name, x, y: b.inner(name, rounded(b.size(low, high) * float(b.units[x] / b.units[y]), 3))


def _hill_exponent(b: Builder, name: str, x: int, y: int) -> str:
    power = float(b.random.choice((2.0, 3.0, 4.0))) if b.chance(0.6) else round(float(b.random.uniform(1.5, 4.0)), 1)
    return b.inner(name, power)


# Rates of reactions: x is used up.
MICHAELIS_MENTEN = rate("x/(k + x)", k=of_x())
REACTIONS = (
    RateLaw("mass action", rate(powers={"x": 1, "y": 1}), "reactant"),
    RateLaw("Michaelis-Menten", MICHAELIS_MENTEN),
    RateLaw("two substrates", rate("x*y/((k + x)*(kb + y))", k=of_x(), kb=of_y()), "reactant"),
    RateLaw(
        "reversible Michaelis-Menten",
        rate("(x - q*y)/(k + x + w*y)", q=x_per_y(0.2, 1.0), w=x_per_y(), k=of_x()),
        "product",
    ),
    RateLaw("competitive inhibition", rate("x/(k*(1 + y/i) + x)", i=of_y(0.3, 1.0), k=of_x()), "other"),
    RateLaw("uncompetitive inhibition", rate("x/(k + x*(1 + y/i))", i=of_y(0.3, 1.0), k=of_x()), "other"),
    RateLaw("substrate inhibition", rate("x/(k + x + x**2/i)", i=of_x(0.3, 1.5), k=of_x())),
    RateLaw("Hill", rate("x**n/(k**n + x**n)", n=_hill_exponent, k=of_x())),
    RateLaw("tanh gate", rate("(1 + tanh((y - k)/s))", {"x": 1}, s=of_y(0.3, 1.0), k=of_y()), "other"),
    RateLaw("outflow of a tank", rate(powers={"x": 0.5})),
)
LINEAR = RateLaw("first order", rate(powers={"x": 1}))

# Functional responses: x is eaten by y, or by a constant number of eaters.
FEEDING = (
    RateLaw("Holling I", rate(powers={"x": 1, "y": 1}), "other"),
    RateLaw("Holling II", rate("x/(k + x)", {"y": 1}, k=of_x())),
    RateLaw("Holling III", rate("x**2/(k**2 + x**2)", {"y": 1}, k=of_x())),
    RateLaw("Holling IV", rate("x/(k + x + x**2/i)", {"y": 1}, i=of_x(0.3, 1.5), k=of_x()), "other"),
    RateLaw("ratio dependence", rate("x/(x + a*y)", {"y": 1}, a=x_per_y()), "other"),
    RateLaw("Beddington-DeAngelis", rate("x/(k + x + a*y)", {"y": 1}, k=of_x(), a=x_per_y()), "other"),
    RateLaw("Ivlev", rate("(1 - exp(-x/k))", {"y": 1}, k=of_x())),
)


def _allee(b: Builder, tag: str, x: int, y: int) -> Rate:
    least = b.size(0.2, 0.6)
    capacity, threshold = of_x(2.5, 5.0)(b, f"k{tag}", x, y), b.constant_of(x, f"a{tag}", least)
    return Rate({x: 1}, f"(x{x}/{capacity} - 1)*(x{x}/{threshold} - 1)", -least)


GROWTH = (
    # As -log(x/K): a state in a logarithm then needs no power, which would only repeat the coefficient.
    RateLaw("Gompertz", rate("(-log(x/k))", {"x": 1}, k=of_x(2.0, 5.0))),
    RateLaw("Allee", _allee),
)
LOGISTIC, STOCKING = RateLaw("logistic", rate("(1 - x/k)", {"x": 1}, k=of_x(2.0, 6.0))), RateLaw("stocking", rate())
QUOTA = (RateLaw("Droop", rate("(1 - k/x)", {"y": 1}, k=of_x(0.3, 0.6))),)


def _arrhenius(b: Builder, tag: str, x: int, y: int) -> Rate:
    barrier = b.size(2.0, 8.0)
    factor = f"exp(-{b.constant_of(x, f'e{tag}', barrier)}/x{x})"
    return Rate({} if y == OUTSIDE else {y: 1}, factor, float(np.exp(barrier)))


def _radiation(b: Builder, tag: str, x: int, y: int) -> Rate:
    around = of_x(0.4, 1.0)(b, f"k{tag}", x, y) if y == OUTSIDE else f"x{y}"
    return Rate({}, f"(x{x}**4 - {around}**4)", float(b.units[x]) ** -4.0)


REACTOR = (RateLaw("Arrhenius", _arrhenius),)
BODIES = (RateLaw("radiation", _radiation),)

# Friction of a velocity x; y is the velocity across.
FRICTION = (
    RateLaw("quadratic drag", rate("Abs(x)", {"x": 1}, degree=1.0)),
    RateLaw("drag along the path", rate("sqrt(x**2 + y**2)", {"x": 1}, degree=1.0), "other"),
    RateLaw("dry friction", rate("tanh(x/k)", k=of_x(0.2, 0.7))),
)

# Currents that a voltage x drives.
CURRENTS = (
    RateLaw("diode", rate("(exp(x/k) - 1)", k=of_x(0.5, 1.5))),
    RateLaw("Butler-Volmer", rate("(exp(x/ka) - exp(-x/kc))", ka=of_x(0.5, 1.5), kc=of_x(0.5, 1.5))),
)
