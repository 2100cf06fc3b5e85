"""Published rate laws, drawn as fluxes between one to five states in the units of measurements.

    reactions    x_s' = ... - v(x),    x_t' = ... + y v(x)        v a rate of enzymes, reactions or an outflow
    food chains  prey' = growth - v,   predator' = y v - loss     v a functional response
    cells        Q' = uptake - mu (Q - q),   X' = mu (1 - q/Q) X - loss      growth on a quota (Droop)
    reactors     T' = heat k c exp(-E/T) - cooling,    c' = feed - k c exp(-E/T)      (Arrhenius)
    bodies       T' = heating - k (T^4 - Te^4) - cooling
    motion       x' = v,   v' = spring + gravity - friction
    circuits     v' = current - i(v),   i' = drive - resistance       i of a diode or an electrode

A flux has the same shape in every equation that it enters. A further law is a row of the table it belongs to: a rate
of order 1 where all states are 1 in their units, whose constants have the units of measurements; in the formulas x is
the state and y the partner. The rows of all tables take turns in an order that the seed shuffles: system i is built
around the row whose turn it is, with others of its table beside it. So rate laws that samples seldom identify are as
frequent as others.

Sources: Cornish-Bowden, Fundamentals of Enzyme Kinetics (2012), for reactions; Turchin, Complex Population Dynamics
(2003), for functional responses and growth; Droop, J. Mar. Biol. Assoc. UK 48 (1968); Bequette, Process Dynamics
(1998), for tanks and reactors; Bard and Faulkner, Electrochemical Methods (2001), for electrodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from odediscovery.bench.random_families import OUTSIDE, Builder, Draft, case_of, hill_exponent, one_of
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
    return b.inner(name, hill_exponent(b, 1.5))


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


# Systems around rate laws

# Chances of one to five states, and the sizes of rates and slow losses in units of order 1.
STATES, RATE, LOSS = (0.36, 0.3, 0.2, 0.08, 0.06), (0.5, 2.5), (0.1, 0.6)


def _states(r: np.random.Generator, least: int = 1, most: int = 5) -> int:
    chances = np.array(STATES[least - 1 : most])
    return least + case_of(r, *(chances / chances.sum()))


def _add(b: Builder, state: int, k: float, rate: Rate) -> None:
    b.add(state, k * rate.size, rate.powers, rate.factor)


def reactions(law: RateLaw, r: np.random.Generator) -> Draft:
    """A chain of fluxes from one state to the next and out, or back, with inflows and slow losses."""
    n = _states(r, 2 if law.partner else 1)
    conserved = n > 1 and r.random() < 0.15
    b = Builder(r, n, "common" if conserved or r.random() < 0.5 else "own", apart=True)
    chain = r.permutation(n).tolist()
    laws = [law if k == 0 else _next_reaction(b, k, n) for k in range(n)]
    ends = [*chain[1:], chain[0] if conserved else OUTSIDE]
    for k, (source, target) in enumerate(zip(chain, ends, strict=True)):
        _flux(b, laws[k], str(k), source, target, fed=not conserved)
    if n > 2 and b.chance(0.3):
        _flux(b, _next_reaction(b, n, n), str(n), *r.choice(n, 2, replace=False).tolist(), fed=not conserved)
    if not conserved:
        b.add(chain[0], b.size(0.2, 1.0))
        if n > 1 and b.chance(0.3):
            last = chain[-1]
            b.add(last, -b.size(*LOSS), {last: 1})
    return b.draft((0.15, 5.0), (4.0, 25.0))


def _next_reaction(b: Builder, k: int, n: int) -> RateLaw:
    """The law of a further flux: of first order in most, so that samples can tell all constants."""
    if b.chance(0.65):
        return LINEAR
    fitting = [law for law in REACTIONS if n > 1 and (law.partner != "product" or k != n - 1)]
    return one_of(b.random, fitting) if fitting else LINEAR


def _flux(b: Builder, law: RateLaw, tag: str, source: int, target: int, *, fed: bool) -> None:
    """A flux with a yield; a second reactant is used up alike, and fed from outside."""
    others = [k for k in range(b.states) if k != source]
    free = [k for k in others if k != target] or others
    partner = target if law.partner == "product" else int(b.random.choice(free)) if free else OUTSIDE
    rate, k = law.rate(b, tag, source, partner), b.size(*RATE)
    _add(b, source, -k, rate)
    if law.partner == "reactant" and partner != target:
        _add(b, partner, -k * _yield(b, source, partner), rate)
        if fed:
            b.add(partner, b.size(0.2, 1.0))
    if target != OUTSIDE:
        _add(b, target, k * _yield(b, source, target), rate)


def _yield(b: Builder, source: int, target: int) -> float:
    """What a flux makes: as much as it takes, in the same unit."""
    return 1.0 if b.units[source] == b.units[target] else b.size(0.3, 1.5)


def food_chain(law: RateLaw, r: np.random.Generator) -> Draft:
    """A growing species, eaten by the next one with a yield, and so on, or by two; eaters die. A single species
    grows or is stocked, and is harvested."""
    n = _states(r, 2 if law.partner else 1, 4)
    b = Builder(r, n, apart=True)
    growth = law if law in GROWTH else LOGISTIC if b.chance(0.6) else one_of(r, GROWTH)
    if n == 1 and law in FEEDING and b.chance(0.7):
        growth = STOCKING
    first = int(r.integers(n - 1)) if n > 1 and b.chance(0.3) else 0
    _add(b, 0, b.size(*RATE), growth.rate(b, "g", 0, OUTSIDE))
    for k in range(n - 1):
        feeding = law if law in FEEDING and k == first else one_of(r, FEEDING[:3])
        prey = 0 if b.chance(0.25) else k
        rate, v = feeding.rate(b, str(k), prey, k + 1), b.size(0.6, 2.5)
        _add(b, prey, -v, rate)
        _add(b, k + 1, v * b.size(0.4, 1.0), rate)
        b.add(k + 1, -b.size(0.2, 0.8), {k + 1: 1})
    if n == 1:
        harvest = law if law in FEEDING else LINEAR
        _add(b, 0, -b.size(*(RATE if law in FEEDING else LOSS)), harvest.rate(b, "h", 0, OUTSIDE))
    # Above the least population that grows, where there is one.
    return b.draft((0.7, 2.5) if growth.name == "Allee" else (0.2, 4.0), (3.0, 30.0))


def cells(law: RateLaw, r: np.random.Generator) -> Draft:
    """Cells X that grow on a quota Q of a nutrient, which they take up at a constant rate or from a supply S."""
    n = 2 if r.random() < 0.6 else 3
    b = Builder(r, n, apart=True)
    rate, v, mu = law.rate(b, "q", 0, 1), b.size(0.4, 1.2), b.size(0.5, 1.5)
    b.add(0, -mu, {0: 1}, rate.factor)
    _add(b, 1, mu, rate)
    b.add(1, -b.size(0.1, 0.5), {1: 1})
    if n == 2:
        b.add(0, v)
        return b.draft((0.7, 3.0), (3.0, 12.0))
    uptake = MICHAELIS_MENTEN(b, "s", 2, OUTSIDE).factor
    b.add(0, v, factor=uptake)
    b.add(2, -v * b.size(0.3, 1.0), {1: 1}, uptake)
    b.add(2, b.size(0.2, 0.8))
    b.add(2, -b.size(*LOSS), {2: 1})
    return b.draft((0.7, 3.0), (3.0, 12.0))


# Powers of ten of the unit of a temperature, which is counted from absolute zero: nobody's unit is 1e-6 K.
KELVIN = (2.0, 3.0)


def reactors(law: RateLaw, r: np.random.Generator) -> Draft:
    """A temperature, cooled in proportion to it, and reactants that are fed and react to each other and out."""
    n = 1 + case_of(r, 0.2, 0.6, 0.2)
    b = Builder(r, n, apart=True)
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
    return b.draft((0.4, 2.5), (2.0, 12.0))


def bodies(law: RateLaw, r: np.random.Generator) -> Draft:
    """Bodies that are heated or cooled by contact, and radiate to each other and to what is around them."""
    n = _states(r, 1, 3)
    b = Builder(r, n, "common", apart=True)
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
    return b.draft((0.5, 2.5), (1.5, 8.0))


def motion(law: RateLaw, r: np.random.Generator) -> Draft:
    """Velocities with friction and gravity, turned into each other or held by springs, and positions."""
    across = bool(law.partner)
    axes = 2 if across else 1 + case_of(r, 0.8, 0.2)
    placed = r.random() < (0.3 if across else 0.65) or (axes == 2 and not across)
    b = Builder(r, axes * (1 + placed), "common", apart=True)
    first = axes * placed  # the first velocity; a position has the unit of a velocity times that of time
    b.units[:first] *= b.time
    friction, turn = b.size(0.2, 1.0), b.signed_size(0.5, 2.0)
    gravity = b.signed_size(0.3, 1.0) if b.chance(0.5) else 0.0
    for k in range(axes):
        v = first + k
        rate = law.rate(b, str(k), v, first + 1 - k if across else OUTSIDE)
        _add(b, v, -friction if across else -b.size(0.2, 1.0), rate)
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
    return b.draft((-3.0, 3.0), (3.0, 15.0))


def circuits(law: RateLaw, r: np.random.Generator) -> Draft:
    """A voltage with a leak, a drive or a coil, and in some a further capacitor behind a resistor."""
    n = 1 + case_of(r, 0.4, 0.4, 0.2)
    b = Builder(r, n, apart=True)
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
    return b.draft((-2.0, 2.0), (3.0, 15.0))


# What is drawn around the rows of each table.
SYSTEMS: tuple[tuple[Callable[[RateLaw, np.random.Generator], Draft], tuple[RateLaw, ...]], ...] = (
    (reactions, REACTIONS),
    (food_chain, FEEDING),
    (food_chain, GROWTH),
    (cells, QUOTA),
    (reactors, REACTOR),
    (bodies, BODIES),
    (motion, FRICTION),
    (circuits, CURRENTS),
)
DRAWS = tuple((law.name, partial(draw, law)) for draw, laws in SYSTEMS for law in laws)


def turn_of(seed: int, i: int) -> tuple[str, Callable[[np.random.Generator], Draft]]:
    """The rate law whose turn it is in system i, and what draws systems around it."""
    turns = np.random.default_rng(seed).permutation(len(DRAWS))
    return DRAWS[turns[i % len(DRAWS)]]
