"""Families of laws, from simple to rich. The only registry of them.

A new family is one file that makes a `Family`, imported and named here; every test over the
registry then finds it, and so do growing, printing, prices and the documentation.
"""

from odediscovery.families.base import Family, Function, Seen, StateFunction, Terms
from odediscovery.families.functions import FUNCTIONS
from odediscovery.families.powers import POWERS
from odediscovery.families.sums import EXPONENTIAL_SUMS, SUMS

FAMILIES: tuple[Family, ...] = (POWERS, FUNCTIONS, SUMS, EXPONENTIAL_SUMS)

# Every function of a state that some family has, by name.
STATE_FUNCTIONS: dict[str, StateFunction] = {f.name: f for family in FAMILIES for f in family.functions}


def power_is_rate(function: Function) -> bool:
    """Whether a power of this feature is a rate: exp(x)^w = exp(w x)."""
    return STATE_FUNCTIONS[function.name].power_is_rate


__all__ = [
    "FAMILIES",
    "POWERS",
    "STATE_FUNCTIONS",
    "Family",
    "Function",
    "Seen",
    "StateFunction",
    "Terms",
    "power_is_rate",
]
