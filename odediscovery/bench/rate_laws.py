"""Published rate laws, one in a row: a further law is a function that writes it, and a row of the table it belongs to.

A rate is of order 1 where all states are 1 in their units. Its constants have the units of measurements.

Sources: Cornish-Bowden, Fundamentals of Enzyme Kinetics (2012), for reactions; Turchin, Complex Population Dynamics
(2003), for functional responses and growth; Droop, J. Mar. Biol. Assoc. UK 48 (1968); Bequette, Process Dynamics
(1998), for tanks and reactors; Bard and Faulkner, Electrochemical Methods (2001), for electrodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from odediscovery.bench.random_families import OUTSIDE, Builder, Range
from odediscovery.bench.systems import rounded

# Sizes of half-saturations in units of order 1.
HALF = (0.4, 2.0)


class Rate(NamedTuple):
    """A rate of order 1: powers of states times a factor without a unit."""

    powers: Mapping[int, float | str]
    factor: str = ""
    size: float = 1.0  # of its coefficient, where the factor is far from 1


@dataclass(frozen=True)
class RateLaw:
    """A published rate law: `rate` writes it for a state and a partner, with constants named by a tag."""

    name: str
    rate: Callable[[Builder, str, int, int], Rate]
    # The partner, if there is one: "other" (any state), "product" (made) or "reactant" (used up as well).
    partner: str = ""


def _half(b: Builder, tag: str, state: int, between: Range = HALF) -> str:
    """A constant in the unit of a state, such as a half-saturation."""
    return b.constant_of(state, f"k{tag}", b.size(*between))


def _per(b: Builder, name: str, above: int, below: int, between: Range = HALF) -> str:
    """A constant in the unit of one state per unit of another."""
    return b.inner(name, rounded(b.size(*between) * float(b.units[above] / b.units[below]), 3))


# Rates of reactions: s is used up, o is the partner.


def _mass_action(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1, o: 1})


def michaelis_menten(b: Builder, tag: str, s: int, o: int) -> Rate:
    """Saturation in s, of Michaelis-Menten or Monod."""
    return Rate({}, f"x{s}/({_half(b, tag, s)} + x{s})")


def _two_substrates(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({}, f"x{s}*x{o}/(({_half(b, tag, s)} + x{s})*({_half(b, tag + 'b', o)} + x{o}))")


def _reversible(b: Builder, tag: str, s: int, o: int) -> Rate:
    balance, weight = _per(b, f"q{tag}", s, o, (0.2, 1.0)), _per(b, f"w{tag}", s, o)
    return Rate({}, f"(x{s} - {balance}*x{o})/({_half(b, tag, s)} + x{s} + {weight}*x{o})")


def _competitive(b: Builder, tag: str, s: int, o: int) -> Rate:
    inhibition = b.constant_of(o, f"i{tag}", b.size(0.3, 1.0))
    return Rate({}, f"x{s}/({_half(b, tag, s)}*(1 + x{o}/{inhibition}) + x{s})")


def _uncompetitive(b: Builder, tag: str, s: int, o: int) -> Rate:
    inhibition = b.constant_of(o, f"i{tag}", b.size(0.3, 1.0))
    return Rate({}, f"x{s}/({_half(b, tag, s)} + x{s}*(1 + x{o}/{inhibition}))")


def _haldane(b: Builder, tag: str, s: int, o: int) -> Rate:
    inhibition = b.constant_of(s, f"i{tag}", b.size(0.3, 1.5))
    return Rate({}, f"x{s}/({_half(b, tag, s)} + x{s} + x{s}**2/{inhibition})")


def _hill(b: Builder, tag: str, s: int, o: int) -> Rate:
    power = float(b.random.choice((2.0, 3.0, 4.0))) if b.chance(0.6) else round(float(b.random.uniform(1.5, 4.0)), 1)
    n = b.inner(f"n{tag}", power)
    half = _half(b, tag, s)
    return Rate({}, f"x{s}**{n}/({half}**{n} + x{s}**{n})")


def _gate(b: Builder, tag: str, s: int, o: int) -> Rate:
    width = b.constant_of(o, f"s{tag}", b.size(0.3, 1.0))
    return Rate({s: 1}, f"(1 + tanh((x{o} - {_half(b, tag, o)})/{width}))")


def _root(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 0.5})


REACTIONS = (
    RateLaw("mass action", _mass_action, "reactant"),
    RateLaw("Michaelis-Menten", michaelis_menten),
    RateLaw("two substrates", _two_substrates, "reactant"),
    RateLaw("reversible Michaelis-Menten", _reversible, "product"),
    RateLaw("competitive inhibition", _competitive, "other"),
    RateLaw("uncompetitive inhibition", _uncompetitive, "other"),
    RateLaw("substrate inhibition", _haldane),
    RateLaw("Hill", _hill),
    RateLaw("tanh gate", _gate, "other"),
    RateLaw("outflow of a tank", _root),
)


LINEAR = RateLaw("first order", lambda b, tag, s, o: Rate({s: 1}))


# Functional responses: s is eaten by o, or by a constant number of eaters.


def _eaters(o: int) -> dict[int, float | str]:
    return {} if o == OUTSIDE else {o: 1}


def _holling_1(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1, o: 1})


def _holling_2(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate(_eaters(o), f"x{s}/({_half(b, tag, s)} + x{s})")


def _holling_3(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate(_eaters(o), f"x{s}**2/({_half(b, tag, s)}**2 + x{s}**2)")


def _holling_4(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate(_eaters(o), _haldane(b, tag, s, o).factor)


def _ratio(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"x{s}/(x{s} + {_per(b, f'a{tag}', s, o)}*x{o})")


def _interference(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"x{s}/({_half(b, tag, s)} + x{s} + {_per(b, f'a{tag}', s, o)}*x{o})")


def _ivlev(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate(_eaters(o), f"(1 - exp(-x{s}/{_half(b, tag, s)}))")


FEEDING = (
    RateLaw("Holling I", _holling_1, "other"),
    RateLaw("Holling II", _holling_2),
    RateLaw("Holling III", _holling_3),
    RateLaw("Holling IV", _holling_4, "other"),
    RateLaw("ratio dependence", _ratio, "other"),
    RateLaw("Beddington-DeAngelis", _interference, "other"),
    RateLaw("Ivlev", _ivlev),
)


def _gompertz(b: Builder, tag: str, s: int, o: int) -> Rate:
    # As -log(x/K): a state in a logarithm then needs no power, which would only repeat the coefficient.
    return Rate({s: 1}, f"(-log(x{s}/{_half(b, tag, s, (2.0, 5.0))}))")


def _allee(b: Builder, tag: str, s: int, o: int) -> Rate:
    least = b.size(0.2, 0.6)
    factor = f"(x{s}/{_half(b, tag, s, (2.5, 5.0))} - 1)*(x{s}/{b.constant_of(s, f'a{tag}', least)} - 1)"
    return Rate({s: 1}, factor, -least)


def _logistic(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1}, f"(1 - x{s}/{_half(b, tag, s, (2.0, 6.0))})")


GROWTH = (RateLaw("Gompertz", _gompertz), RateLaw("Allee", _allee))


LOGISTIC, STOCKING = RateLaw("logistic", _logistic), RateLaw("stocking", lambda b, tag, s, o: Rate({}))


def _droop(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"(1 - {_half(b, tag, s, (0.3, 0.6))}/x{s})")


QUOTA = (RateLaw("Droop", _droop),)


def _arrhenius(b: Builder, tag: str, s: int, o: int) -> Rate:
    barrier = b.size(2.0, 8.0)
    factor = f"exp(-{b.constant_of(s, f'e{tag}', barrier)}/x{s})"
    return Rate({} if o == OUTSIDE else {o: 1}, factor, float(np.exp(barrier)))


REACTOR = (RateLaw("Arrhenius", _arrhenius),)


def _radiation(b: Builder, tag: str, s: int, o: int) -> Rate:
    around = _half(b, tag, s, (0.4, 1.0)) if o == OUTSIDE else f"x{o}"
    return Rate({}, f"(x{s}**4 - {around}**4)", float(b.units[s]) ** -4.0)


BODIES = (RateLaw("radiation", _radiation),)


# Friction of a velocity s; o is the velocity across.


def _quadratic(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1}, f"Abs(x{s})", 1.0 / float(b.units[s]))


def _norm(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1}, f"sqrt(x{s}**2 + x{o}**2)", 1.0 / float(b.units[s]))


def _dry(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({}, f"tanh(x{s}/{_half(b, tag, s, (0.2, 0.7))})")


FRICTION = (
    RateLaw("quadratic drag", _quadratic),
    RateLaw("drag along the path", _norm, "other"),
    RateLaw("dry friction", _dry),
)


# Currents that a voltage s drives.


def _diode(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({}, f"(exp(x{s}/{_half(b, tag, s, (0.5, 1.5))}) - 1)")


def _butler_volmer(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate(
        {}, f"(exp(x{s}/{_half(b, tag + 'a', s, (0.5, 1.5))}) - exp(-x{s}/{_half(b, tag + 'c', s, (0.5, 1.5))}))"
    )


CURRENTS = (RateLaw("diode", _diode), RateLaw("Butler-Volmer", _butler_volmer))
