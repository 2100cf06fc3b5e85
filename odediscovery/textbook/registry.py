"""The registry of textbook laws by name, one entry per law.

    logistic growth:    x' = r*x*(1 - x/K)

x, y, z and v stand for states, all other names for constants. A law is linear in most of its constants;
for the others the registry gives a kind, which determines the range of initial guesses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from odediscovery.errors import InputError, unknown_name
from odediscovery.laws.equations import NAME, Form, renamed
from odediscovery.laws.expressions import FUNCTIONS, identifiers

PLACES = ("x", "y", "z", "v")

# Kinds of nonlinear constants, each followed by the state that sets its scale.
SIZE, RESTING, BELOW, ABOVE, INVERSE, POWER = "size", "resting value", "below", "above", "1/size", "power"
ANYTHING = "anything"


@dataclass(frozen=True)
class TextbookLaw:
    """A law with a name.

    >>> law = TextbookLaw("decay", "exponential decay", ("-k*x",))
    >>> law.form(["mass"])[0].lines()
    ["mass' = -k*mass"]
    """

    name: str  # short, as options take it
    says: str  # in words
    # Right-hand sides in x, y, z, v and named constants; a single one in x alone serves any number of
    # uncoupled states.
    sides: tuple[str, ...]
    sought: Mapping[str, str] = field(default_factory=dict)  # kind of each nonlinear constant, "kind state"
    swapped: bool = False  # whether another order of the states is another law
    backwards: str = ""  # name of the law if its constants are negative
    signed: tuple[str, ...] = ()  # constants of either sign; for the others the sign decides which law it is
    way: int = 0  # 1 for laws of growing states, -1 for vanishing ones, 0 for others

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.sides)

    @property
    def constants(self) -> tuple[str, ...]:
        """Names of the constants, in order of appearance."""
        found = [name for side in self.sides for name in NAME.findall(side)]
        return tuple(dict.fromkeys(name for name in found if name not in (*PLACES, *FUNCTIONS)))

    def called(self, names: Sequence[str], values: Sequence[float]) -> str:
        """Name of the law with these constants; empty if their signs make it another law.

        >>> find("exponential").called(["r"], [-0.1])
        'exponential decay'
        """
        own = [max((c for c in self.constants if name.startswith(c)), key=len, default="") for name in names]
        above = {value > 0.0 for name, value in zip(own, values, strict=True) if name not in self.signed}
        if above <= {True}:
            return self.says
        return self.backwards if above == {False} else ""

    def lines(self) -> list[str]:
        """The equations as printed in a list of laws."""
        return [f"{x}' = {side.replace('**', '^')}" for x, side in zip(PLACES, self.sides, strict=False)]

    def form(
        self, states: Sequence[str], order: Sequence[str] = (), time_name: str = "t"
    ) -> tuple[Form, dict[str, str]]:
        """The law for given states, and the kinds of its nonlinear constants as "kind identifier".

        `order` gives the states for x, y, z and v; constants named like a state are renamed.
        """
        safe, alone = identifiers(states), len(self.sides) < len(states)
        taken = {*safe.values(), time_name, *FUNCTIONS}
        sides: dict[str, str] = {}
        sought: dict[str, str] = {}
        for k, state in enumerate(order or states):
            place = dict(zip(PLACES, [safe[s] for s in ([state] if alone else order or states)], strict=False))
            place |= {name: _free(f"{name}{k + 1}" if alone else name, taken) for name in self.constants}
            sides[state] = renamed(self.sides[0 if alone else k], place)
            for name, what in self.sought.items():
                kind, _, of = what.rpartition(" ")
                sought[place[name]] = f"{kind} {place[of]}"
        texts = tuple(sides[state] for state in states)
        names = tuple(dict.fromkeys(name for text in texts for name in NAME.findall(text) if name not in taken))
        return Form(tuple(states), (), texts, names, (None,) * len(names), time_name), sought


_SQUARE = "constant acceleration with drag of the square"


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _law(
    name: str,
    says: str,
    *sides: str,
    swapped: bool = False,
    backwards: str = "",
    signed: str = "",
    way: int = 0,
    **sought: str,
) -> TextbookLaw:
    return TextbookLaw(name, says, sides, sought, swapped, backwards, tuple(signed.split()), way)


_PREDATION = "predator and prey (Lotka-Volterra)"

TEXTBOOK: tuple[TextbookLaw, ...] = (
    # One state, or several uncoupled ones.
    _law("constant", "a constant rate", "c", signed="c"),
    _law("exponential", "exponential growth", "r*x", backwards="exponential decay"),
    _law("linear", "approach to a resting value", "k*(L - x)",
         L=f"{RESTING} x", signed="L", backwards="growth away from a resting value"),
    _law("logistic", "logistic growth", "r*x*(1 - x/K)", K=f"{SIZE} x", way=1),
    # One state.
    _law("power", "a power law", "k*x**b", b=f"{POWER} x", signed="k b"),
    _law("gompertz", "Gompertz growth", "r*x*log(K/x)", K=f"{SIZE} x", way=1),
    _law("theta-logistic", "theta-logistic growth", "r*x*(1 - (x/K)**b)", K=f"{SIZE} x", b=f"{POWER} x", way=1),
    _law("bertalanffy", "von Bertalanffy growth", "a*x**(2/3) - b*x", way=1),
    _law("allee", "logistic growth with an Allee effect", "r*x*(1 - x/K)*(x/A - 1)",
         K=f"{SIZE} x", A=f"{SIZE} x", way=1),
    _law("torricelli", "outflow through an opening (Torricelli)", "-k*x**0.5", way=-1),
    _law("outflow", "outflow through an opening above the zero (Torricelli)", "-k*(x - x0)**0.5",
         x0=f"{BELOW} x", signed="x0", way=-1),
    _law("power-offset", "a power law above an offset", "-k*(x - x0)**b",
         x0=f"{BELOW} x", b=f"{POWER} x", signed="k x0 b"),
    _law("power-rest", "a power law below a resting value", "k*(L - x)**b",
         L=f"{ABOVE} x", b=f"{POWER} x", signed="L", way=1),
    _law("michaelis-menten", "saturating elimination (Michaelis-Menten, Monod)", "-V*x/(K + x)", K=f"{SIZE} x", way=-1),
    _law("uptake", "saturating growth (Monod, Holling type II)", "V*x/(K + x)", K=f"{SIZE} x", way=1),
    _law("hill", "production by a Hill function, and decay", "b + V/(1 + (x/K)**n) - d*x",
         K=f"{SIZE} x", n=f"{POWER} x", signed="b V"),
    _law("source-power", "inflow, and outflow by a power law", "c - k*x**b", b=f"{POWER} x"),
    _law("adler", "locking of phases (Adler)", "w - a*sin(x)", signed="w a"),
    _law("holling-3", "sigmoid uptake (Holling type III)", "-V*x**2/(K**2 + x**2)", K=f"{SIZE} x", way=-1),
    # Two states.
    _law("linear-2", "a linear system", "a*x + b*y", "c*x + d*y", signed="a b c d"),
    _law("linear-2-rest", "a linear system about a resting point", "a*x + b*y + e", "c*x + d*y + f",
         signed="a b c d e f"),
    _law("chain", "first-order passage from one compartment to the next", "-a*x", "b*x - c*y", swapped=True),
    _law("conversion", "first-order conversion of one state into the other", "-k*x", "k*x", swapped=True),
    _law("exchange", "exchange between two compartments", "-a*x + b*y", "a*x - b*y"),
    _law("enzyme", "an enzyme reaction and its product (Michaelis-Menten)", "-V*x/(K + x)", "V*x/(K + x)",
         swapped=True, K=f"{SIZE} x"),
    _law("lotka-volterra", _PREDATION, "a*x - b*x*y", "c*x*y - d*y", backwards=_PREDATION),
    _law("competition", "competition (Lotka-Volterra)", "x*(r - a*x - b*y)", "y*(s - c*x - d*y)"),
    _law("rosenzweig-macarthur", "predator and prey with saturation (Rosenzweig-MacArthur)",
         "r*x*(1 - x/K) - a*x*y/(1 + h*x)", "e*x*y/(1 + h*x) - m*y",
         swapped=True, K=f"{SIZE} x", h=f"{INVERSE} x"),
    _law("monod", "growth on a substrate (Monod)", "-q*x*y/(K + x)", "m*x*y/(K + x) - d*y",
         swapped=True, K=f"{SIZE} x"),
    _law("chemostat", "a chemostat (Monod)", "D*(S - x) - q*x*y/(K + x)", "m*x*y/(K + x) - D*y",
         swapped=True, K=f"{SIZE} x", S=f"{SIZE} x"),
    _law("infection", "infection by contact (mass action)", "-b*x*y", "b*x*y - g*y", swapped=True),
    _law("fall", "constant acceleration", "y", "g", swapped=True, signed="g"),
    _law("fall-drag", "constant acceleration with drag", "y", "g - c*y", swapped=True, signed="g"),
    _law("fall-square", _SQUARE, "y", "g - c*y**2", swapped=True, backwards=_SQUARE),
    _law("duffing", "a Duffing oscillator", "y", "-k*x - b*x**3 - c*y", swapped=True, signed="k b c"),
    _law("van-der-pol", "a van der Pol oscillator", "y", "m*(1 - (x/A)**2)*y - k*x", swapped=True, A=f"{SIZE} x"),
    _law("oscillator", "a harmonic oscillator", "y", "-k*x", swapped=True),
    _law("damped-oscillator", "a damped oscillator", "y", "-k*x - c*y", swapped=True),
    _law("oscillator-rest", "a harmonic oscillator about a resting value", "y", "-k*(x - x0)",
         swapped=True, x0=f"{RESTING} x", signed="x0"),
    _law("damped-oscillator-rest", "a damped oscillator about a resting value", "y", "-k*(x - x0) - c*y",
         swapped=True, x0=f"{RESTING} x", signed="x0"),
    _law("pendulum", "a pendulum", "y", "-k*sin(x)", swapped=True),
    _law("damped-pendulum", "a damped pendulum", "y", "-k*sin(x) - c*y", swapped=True),
    # Three states.
    _law("linear-3", "a linear system", "a*x + b*y + c*z", "d*x + e*y + f*z", "g*x + h*y + i*z",
         signed="a b c d e f g h i"),
    _law("epidemic", "an epidemic (SIR)", "-b*x*y", "b*x*y - g*y", "g*y", swapped=True),
    _law("epidemic-waning", "an epidemic with waning immunity (SIRS)",
         "w*z - b*x*y", "b*x*y - g*y", "g*y - w*z", swapped=True),
    _law("chain-3", "first-order passage through three compartments", "-a*x", "b*x - c*y", "d*y - e*z", swapped=True),
    # Four states.
    _law("epidemic-latent", "an epidemic with latency (SEIR)",
         "-b*x*z", "b*x*z - a*y", "a*y - g*z", "g*z", swapped=True),
)  # fmt: skip


def find(name: str) -> TextbookLaw:
    """The law with this name.

    >>> find("gompertz").says
    'Gompertz growth'
    """
    laws = {law.name: law for law in TEXTBOOK}
    if name not in laws:
        raise unknown_name("template", name, laws)
    return laws[name]


def orders(law: TextbookLaw, states: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The orders of the states that give different laws; none if their number does not fit.

    >>> [order for order in orders(find("chain"), ["gut", "blood"])]
    [('gut', 'blood'), ('blood', 'gut')]
    """
    if law.n_states == len(states):
        yield from itertools.permutations(states) if law.swapped else [tuple(states)]
    elif law.name in FOR_EACH:
        yield tuple(states)


def table() -> str:
    """All textbook laws as a table in Markdown, as in the documentation.

    >>> print(table().splitlines()[3])
    | `exponential` | exponential growth, exponential decay | `x' = r*x` |
    """
    rows = ["| name | what it is called | equations |", "|---|---|---|"]
    for law in TEXTBOOK:
        called = ", ".join(dict.fromkeys(text for text in (law.says, law.backwards) if text))
        rows.append(f"| `{law.name}` | {called} | {', '.join(f'`{line}`' for line in law.lines())} |")
    return "\n".join(rows)


# Laws of one state that also serve several uncoupled ones.
FOR_EACH = ("constant", "exponential", "linear", "logistic")


def template(name: str, states: Sequence[str], time_name: str = "t") -> list[tuple[TextbookLaw, Form, dict[str, str]]]:
    """The forms of a named law for these states."""
    law = find(name)
    found = [(law, *law.form(states, order, time_name)) for order in orders(law, states)]
    if not found:
        raise InputError(
            f"the template {name!r} is of {law.n_states} states, got {len(states)}: {', '.join(states)}; "
            "choose states with --states"
        )
    return found
