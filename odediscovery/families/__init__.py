"""Registry of the families of laws, from simple to rich.

A new family is one file that makes a `Family`, and one line here that imports it; growing,
printing, penalties, documentation and every test over the registry then find it.
"""

# Importing a family registers it.
from odediscovery.families.base import POWERS, Family, Function, Inner, Seen, Shape, StateFunction, Terms
from odediscovery.families.functions import ABS, EXP, EXP_INVERSE, TRIGONOMETRIC
from odediscovery.families.sums import SUMS

# The families imported above, from simple to rich.
FAMILIES: tuple[Family, ...] = tuple(
    sorted((value for value in tuple(globals().values()) if isinstance(value, Family)), key=lambda f: f.richness)
)

# Every function of a state that some family has, by name.
STATE_FUNCTIONS: dict[str, StateFunction] = {f.name: f for family in FAMILIES for f in family.functions}


def power_is_rate(function: Function) -> bool:
    """Whether a power of this feature is a rate: exp(x)^w = exp(w x)."""
    return STATE_FUNCTIONS[function.name].power_is_rate


def rate_of_power(function: Function) -> float:
    """The factor c by which a power of this feature is a rate: exp(r x)^w = exp(c w x), exp(1/(r x))^w = exp(c w/x)."""
    return 1.0 / function.rate if STATE_FUNCTIONS[function.name].of_inverse else function.rate


__all__ = [
    "ABS",
    "EXP",
    "EXP_INVERSE",
    "FAMILIES",
    "POWERS",
    "STATE_FUNCTIONS",
    "SUMS",
    "TRIGONOMETRIC",
    "Family",
    "Function",
    "Inner",
    "Seen",
    "Shape",
    "StateFunction",
    "Terms",
    "power_is_rate",
    "rate_of_power",
]
