"""Published rate laws, drawn as fluxes between one to five states in the units of measurements.

    reactions    x_s' = ... - v(x),    x_t' = ... + y v(x)        v a rate of enzymes, reactions or an outflow
    food chains  prey' = growth - v,   predator' = y v - loss     v a functional response
    cells        Q' = uptake - mu (Q - q),   X' = mu (1 - q/Q) X - loss      growth on a quota (Droop)
    reactors     T' = heat k c exp(-E/T) - cooling,    c' = feed - k c exp(-E/T)      (Arrhenius)
    bodies       T' = heating - k (T^4 - Te^4) - cooling
    motion       x' = v,   v' = spring + gravity - friction
    circuits     v' = current - i(v),   i' = drive - resistance       i of a diode or an electrode

A flux has the same shape in every equation that it enters. A rate law is a row of a table, and the rows of all tables
take turns in an order that the seed shuffles: system i is built around the row whose turn it is, with others of
its table beside it. So rate laws that samples seldom identify are as frequent as others.

Sources: Cornish-Bowden, Fundamentals of Enzyme Kinetics (2012); Murray, Mathematical Biology I (2002);
Turchin, Complex Population Dynamics (2003); Bequette, Process Dynamics (1998).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from odediscovery.bench.random_families import OUTSIDE, Builder, Draft, Range, case_of
from odediscovery.bench.systems import rounded

# Powers of ten of the units of states, and how many samples there may be.
DECADES, SAMPLES = (-6.0, 6.0), (30, 40, 60, 80, 100, 150, 200, 300)
# Chances of one to five states, and the sizes of half-saturations, rates and slow losses in units of order 1.
STATES, HALF, RATE, LOSS = (0.34, 0.32, 0.22, 0.08, 0.04), (0.4, 2.0), (0.4, 2.0), (0.1, 0.6)


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


def _builder(r: np.random.Generator, states: int, units: str = "own") -> Builder:
    return Builder(r, states, units, DECADES)


def _states(r: np.random.Generator, least: int = 1, most: int = 5) -> int:
    chances = np.array(STATES[least - 1 : most])
    return least + case_of(r, *(chances / chances.sum()))


def _half(b: Builder, tag: str, state: int, between: Range = HALF) -> str:
    """A constant in the unit of a state, such as a half-saturation."""
    return b.constant_of(state, f"k{tag}", b.size(*between))


def _per(b: Builder, name: str, above: int, below: int, between: Range = HALF) -> str:
    """A constant in the unit of one state per unit of another."""
    return b.inner(name, rounded(b.size(*between) * float(b.units[above] / b.units[below]), 3))


def _add(b: Builder, state: int, k: float, rate: Rate) -> None:
    b.add(state, k * rate.size, rate.powers, rate.factor)


# Rates of reactions: s is used up, o is the partner.


def _mass_action(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1, o: 1})


def _michaelis_menten(b: Builder, tag: str, s: int, o: int) -> Rate:
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
    inhibition = b.constant_of(s, f"i{tag}", b.size(0.5, 2.0))
    return Rate({}, f"x{s}/({_half(b, tag, s)} + x{s} + x{s}**2/{inhibition})")


def _hill(b: Builder, tag: str, s: int, o: int) -> Rate:
    power = float(b.random.choice((2.0, 3.0, 4.0))) if b.chance(0.6) else round(float(b.random.uniform(1.5, 4.0)), 1)
    n = b.inner(f"n{tag}", power)
    half = b.constant_of(s, f"h{tag}", b.size(0.5, 2.0), power)
    return Rate({}, f"x{s}**{n}/({half} + x{s}**{n})")


def _gate(b: Builder, tag: str, s: int, o: int) -> Rate:
    width = b.constant_of(o, f"s{tag}", b.size(0.3, 1.0))
    return Rate({s: 1}, f"(1 + tanh((x{o} - {_half(b, tag, o)})/{width}))")


def _root(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 0.5})


REACTIONS = (
    RateLaw("mass action", _mass_action, "reactant"),
    RateLaw("Michaelis-Menten", _michaelis_menten),
    RateLaw("two substrates", _two_substrates, "reactant"),
    RateLaw("reversible Michaelis-Menten", _reversible, "product"),
    RateLaw("competitive inhibition", _competitive, "other"),
    RateLaw("uncompetitive inhibition", _uncompetitive, "other"),
    RateLaw("substrate inhibition", _haldane),
    RateLaw("Hill", _hill),
    RateLaw("tanh gate", _gate, "other"),
    RateLaw("outflow of a tank", _root),
)


def reactions(r: np.random.Generator, law: RateLaw) -> Draft:
    """A chain of fluxes from one state to the next and out, or back, with inflows and slow losses."""
    n = _states(r, 2 if law.partner else 1)
    conserved = n > 1 and r.random() < 0.15
    b = _builder(r, n, "common" if conserved or r.random() < 0.5 else "own")
    chain = r.permutation(n).tolist()
    laws = [law if k == 0 else _next_reaction(b, k, n) for k in range(n)]
    ends = [*chain[1:], chain[0] if conserved else OUTSIDE]
    for k, (source, target) in enumerate(zip(chain, ends, strict=True)):
        _flux(b, laws[k], str(k), source, target)
    if not conserved:
        b.add(chain[0], b.size(0.2, 1.0))
        if b.chance(0.3):
            last = chain[-1]
            b.add(last, -b.size(*LOSS), {last: 1})
    return b.draft(b.positive_starts(0.15, 5.0), b.size(3.0, 20.0), samples=SAMPLES)


LINEAR = RateLaw("first order", lambda b, tag, s, o: Rate({s: 1}))


def _next_reaction(b: Builder, k: int, n: int) -> RateLaw:
    """The law of a further flux: of first order in most, so that samples can tell all constants."""
    if b.chance(0.65):
        return LINEAR
    fitting = [law for law in REACTIONS if n > 1 and (law.partner != "product" or k < n - 1)]
    return fitting[int(b.random.integers(len(fitting)))] if fitting else LINEAR


def _flux(b: Builder, law: RateLaw, tag: str, source: int, target: int) -> None:
    """A flux with a yield; two reactants are used up alike."""
    others = [k for k in range(b.states) if k != source]
    free = [k for k in others if k != target] or others
    partner = target if law.partner == "product" else int(b.random.choice(free)) if free else OUTSIDE
    rate, k = law.rate(b, tag, source, partner), b.size(*RATE)
    _add(b, source, -k, rate)
    if law.partner == "reactant" and partner != target:
        _add(b, partner, -k * _yield(b, source, partner), rate)
        b.add(partner, b.size(0.2, 1.0))
    if target != OUTSIDE:
        _add(b, target, k * _yield(b, source, target), rate)


def _yield(b: Builder, source: int, target: int) -> float:
    """What a flux makes: as much as it takes, in the same unit."""
    return 1.0 if b.units[source] == b.units[target] else b.size(0.3, 1.5)


# Functional responses: s is eaten by o.


def _holling_1(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1, o: 1})


def _holling_2(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"x{s}/({_half(b, tag, s)} + x{s})")


def _holling_3(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"x{s}**2/({b.constant_of(s, f'h{tag}', b.size(*HALF), 2.0)} + x{s}**2)")


def _holling_4(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, _haldane(b, tag, s, o).factor)


def _ratio(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"x{s}/(x{s} + {_per(b, f'a{tag}', s, o)}*x{o})")


def _interference(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"x{s}/({_half(b, tag, s)} + x{s} + {_per(b, f'a{tag}', s, o)}*x{o})")


def _ivlev(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"(1 - exp(-x{s}/{_half(b, tag, s)}))")


FEEDING = (
    RateLaw("Holling I", _holling_1),
    RateLaw("Holling II", _holling_2),
    RateLaw("Holling III", _holling_3),
    RateLaw("Holling IV", _holling_4),
    RateLaw("ratio dependence", _ratio),
    RateLaw("Beddington-DeAngelis", _interference),
    RateLaw("Ivlev", _ivlev),
)


def _gompertz(b: Builder, tag: str, s: int, o: int) -> Rate:
    # As -log(x/K): a state in a logarithm then needs no power, which would only repeat the coefficient.
    return Rate({s: 1}, f"(-log(x{s}/{_half(b, tag, s, (2.0, 5.0))}))")


def _allee(b: Builder, tag: str, s: int, o: int) -> Rate:
    least = b.size(0.2, 0.6)
    factor = f"(x{s}/{_half(b, tag, s, (2.0, 4.0))} - 1)*(x{s}/{b.constant_of(s, f'a{tag}', least)} - 1)"
    return Rate({s: 1}, factor, -least)


def _logistic(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({s: 1}, f"(1 - x{s}/{_half(b, tag, s, (2.0, 6.0))})")


GROWTH = (RateLaw("Gompertz", _gompertz), RateLaw("Allee", _allee))
LOGISTIC = RateLaw("logistic", _logistic)


def food_chain(r: np.random.Generator, law: RateLaw) -> Draft:
    """A growing species, eaten by the next one with a yield, and so on; eaters die."""
    n = _states(r, 1 if law in GROWTH else 2, 4)
    b = _builder(r, n)
    growth = law if law in GROWTH else LOGISTIC if b.chance(0.6) else GROWTH[int(r.integers(len(GROWTH)))]
    first = int(r.integers(n - 1)) if n > 1 and law in FEEDING and b.chance(0.3) else 0
    _add(b, 0, b.size(*RATE), growth.rate(b, "g", 0, OUTSIDE))
    for k in range(n - 1):
        feeding = law if law in FEEDING and k == first else FEEDING[int(r.integers(3))]
        rate, v = feeding.rate(b, str(k), k, k + 1), b.size(0.6, 2.5)
        _add(b, k, -v, rate)
        _add(b, k + 1, v * b.size(0.4, 1.0), rate)
        b.add(k + 1, -b.size(0.2, 0.8), {k + 1: 1})
    if n == 1:
        b.add(0, -b.size(*LOSS), {0: 1} if b.chance(0.5) else {0: 2})
    # Above the least population that grows, where there is one.
    low = 0.6 if growth.rate is _allee else 0.2
    return b.draft(b.positive_starts(low, 4.0), b.size(6.0, 30.0), samples=SAMPLES)


def _droop(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({o: 1}, f"(1 - {_half(b, tag, s, (0.3, 0.6))}/x{s})")


QUOTA = (RateLaw("Droop", _droop),)


def cells(r: np.random.Generator, law: RateLaw) -> Draft:
    """Cells X that grow on a quota Q of a nutrient, which they take up at a constant rate or from a supply S."""
    n = 2 if r.random() < 0.6 else 3
    b = _builder(r, n)
    rate, v, mu = law.rate(b, "q", 0, 1), b.size(0.4, 1.2), b.size(0.5, 1.5)
    b.add(0, -mu, {0: 1}, rate.factor)
    _add(b, 1, mu, rate)
    b.add(1, -b.size(0.1, 0.5), {1: 1})
    if n == 2:
        b.add(0, v)
        return b.draft(b.positive_starts(0.7, 3.0), b.size(3.0, 12.0), samples=SAMPLES)
    uptake = _michaelis_menten(b, "s", 2, OUTSIDE).factor
    b.add(0, v, factor=uptake)
    b.add(2, -v * b.size(0.3, 1.0), {1: 1}, uptake)
    b.add(2, b.size(0.2, 0.8))
    b.add(2, -b.size(*LOSS), {2: 1})
    return b.draft(b.positive_starts(0.7, 3.0), b.size(3.0, 12.0), samples=SAMPLES)


def _arrhenius(b: Builder, tag: str, s: int, o: int) -> Rate:
    barrier = b.size(2.0, 8.0)
    factor = f"exp(-{b.constant_of(s, f'e{tag}', barrier)}/x{s})"
    return Rate({} if o == OUTSIDE else {o: 1}, factor, float(np.exp(barrier)))


REACTOR = (RateLaw("Arrhenius", _arrhenius),)
KELVIN = (2.0, 3.0)  # powers of ten of the unit of a temperature


def reactors(r: np.random.Generator, law: RateLaw) -> Draft:
    """A temperature, cooled in proportion to it, and reactants that are fed and react to each other and out."""
    n = 1 + case_of(r, 0.2, 0.6, 0.2)
    b = _builder(r, n)
    b.units[0] = 10.0 ** r.uniform(*KELVIN)
    for k in range(1, max(n, 2)):
        reactant = k if n > 1 else OUTSIDE
        rate, v = law.rate(b, str(k), 0, reactant), b.size(0.2, 1.0)
        _add(b, 0, v * b.size(0.2, 0.6), rate)
        if n == 1:
            continue
        _add(b, k, -v, rate)
        if k + 1 < n:
            _add(b, k + 1, v * _yield(b, k, k + 1), rate)
        if k == 1:
            b.add(k, b.size(0.2, 1.0))
        if b.chance(0.5):
            b.add(k, -b.size(*LOSS), {k: 1})
    b.add(0, b.size(0.2, 0.8))
    b.add(0, -b.size(0.4, 1.2), {0: 1})
    return b.draft(b.positive_starts(0.4, 2.5), b.size(2.0, 12.0), samples=SAMPLES)


def _radiation(b: Builder, tag: str, s: int, o: int) -> Rate:
    around = _half(b, tag, s, (0.4, 1.0)) if o == OUTSIDE else f"x{o}"
    return Rate({}, f"(x{s}**4 - {around}**4)", float(b.units[s]) ** -4.0)


BODIES = (RateLaw("radiation", _radiation),)


def bodies(r: np.random.Generator, law: RateLaw) -> Draft:
    """Bodies that are heated or cooled by contact, and radiate to each other and to what is around them."""
    n = _states(r, 1, 3)
    b = _builder(r, n, "common")
    b.units[:] = 10.0 ** r.uniform(*KELVIN)
    for k in range(n):
        rate, v = law.rate(b, str(k), k, k + 1 if k + 1 < n else OUTSIDE), b.size(0.1, 0.8)
        _add(b, k, -v, rate)
        if k + 1 < n:
            _add(b, k + 1, v * b.size(0.4, 1.5), rate)
        if k == 0 or b.chance(0.3):
            b.add(k, -b.size(0.2, 1.0), {k: 1})
            if b.chance(0.5):
                b.add(k, b.size(0.3, 1.5))
    return b.draft(b.positive_starts(0.5, 2.5), b.size(1.5, 8.0), samples=SAMPLES)


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


def motion(r: np.random.Generator, law: RateLaw) -> Draft:
    """Velocities with friction and gravity, turned into each other or held by springs, and positions."""
    across = bool(law.partner)
    axes = 2 if across else 1 + case_of(r, 0.8, 0.2)
    placed = r.random() < (0.3 if across else 0.65) or (axes == 2 and not across)
    b = _builder(r, axes * (1 + placed), "common")
    first = axes * placed  # the first velocity; a position has the unit of a velocity times that of time
    b.units[:first] *= b.time
    turn, gravity = b.signed_size(0.5, 2.0), b.signed_size(0.3, 1.0) if b.chance(0.5) else 0.0
    for k in range(axes):
        v = first + k
        rate = law.rate(b, str(k), v, first + 1 - k if across else OUTSIDE)
        if not across or k == 0:
            friction = b.size(0.2, 1.0)
        _add(b, v, -friction, rate)
        if placed:
            b.add(k, 1.0, {v: 1})
            b.add(v, -b.size(0.8, 4.0), {k: 1})
            if axes == 2 and not across:
                b.add(v, b.size(0.4, 1.5), {1 - k: 1})
        elif across:
            b.add(v, turn if k else -turn, {first + 1 - k: 1})
        if k + 1 == axes and (gravity or b.states == 1):
            b.add(v, gravity or b.signed_size(0.3, 1.0))
        if b.states == 1 and b.chance(0.5):
            b.add(v, -b.size(*LOSS), {v: 1})
    return b.draft(b.signed_starts(-3.0, 3.0), b.size(3.0, 15.0), positive=False, samples=SAMPLES)


# Currents that a voltage s drives.


def _diode(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate({}, f"(exp(x{s}/{_half(b, tag, s, (0.5, 1.5))}) - 1)")


def _butler_volmer(b: Builder, tag: str, s: int, o: int) -> Rate:
    return Rate(
        {}, f"(exp(x{s}/{_half(b, tag + 'a', s, (0.5, 1.5))}) - exp(-x{s}/{_half(b, tag + 'c', s, (0.5, 1.5))}))"
    )


CURRENTS = (RateLaw("diode", _diode), RateLaw("Butler-Volmer", _butler_volmer))


def circuits(r: np.random.Generator, law: RateLaw) -> Draft:
    """A voltage with a leak, a drive or a coil, and in some a further capacitor behind a resistor."""
    n = 1 + case_of(r, 0.4, 0.4, 0.2)
    b = _builder(r, n)
    _add(b, 0, -b.size(0.15, 0.8), law.rate(b, "d", 0, OUTSIDE))
    if b.chance(0.5 if n == 1 else 0.3):
        b.add(0, b.signed_size(0.2, 1.0))
    elif n == 1:
        b.add(0, -b.size(0.2, 1.0), {0: 1})
    if n > 1:
        b.add(0, b.size(0.6, 2.0), {1: 1})
        b.add(1, -b.size(0.6, 2.0), {0: 1})
        b.add(1, -b.size(*LOSS), {1: 1})
    if n == 3:
        b.units[2] = b.units[0]
        contact = b.size(0.3, 1.0)
        b.add(0, contact, {2: 1})
        b.add(0, -contact, {0: 1})
        b.add(2, -b.size(0.4, 1.5), {2: 1})
        b.add(2, b.size(0.4, 1.5), {0: 1})
    return b.draft(b.signed_starts(-2.0, 2.0), b.size(3.0, 15.0), positive=False, samples=SAMPLES)


# What is drawn around the rows of each table.
SYSTEMS: tuple[tuple[Callable[[np.random.Generator, RateLaw], Draft], tuple[RateLaw, ...]], ...] = (
    (reactions, REACTIONS),
    (food_chain, FEEDING),
    (food_chain, GROWTH),
    (cells, QUOTA),
    (reactors, REACTOR),
    (bodies, BODIES),
    (motion, FRICTION),
    (circuits, CURRENTS),
)
DRAWS = tuple((law.name, partial(draw, law=law)) for draw, laws in SYSTEMS for law in laws)


def turn_of(seed: int, i: int) -> tuple[str, Callable[[np.random.Generator], Draft]]:
    """The rate law whose turn it is in system i, and what draws systems around it."""
    turns = np.random.default_rng(seed).permutation(len(DRAWS))
    return DRAWS[turns[i % len(DRAWS)]]
