"""Registry of the families of laws, from simple to rich.

A new family is one file that makes a `Family`, and one line here that imports it; searching,
printing, penalties, documentation and every test over the registry then find it.
"""

# Importing a family registers it.
from odediscovery.families.base import (
    ABS,
    EXP,
    EXP_INVERSE,
    LOG,
    POWERS,
    STATE_FUNCTIONS,
    TRIGONOMETRIC,
    Family,
    Function,
    Seen,
    Shape,
    StateFunction,
)
from odediscovery.families.sums import SUMS

# The families imported above, from simple to rich.
FAMILIES: tuple[Family, ...] = tuple(
    sorted((value for value in tuple(globals().values()) if isinstance(value, Family)), key=lambda f: f.richness)
)

STATE_FUNCTIONS.update({f.name: f for family in FAMILIES for f in family.functions})

__all__ = [
    "ABS",
    "EXP",
    "EXP_INVERSE",
    "FAMILIES",
    "LOG",
    "POWERS",
    "STATE_FUNCTIONS",
    "SUMS",
    "TRIGONOMETRIC",
    "Family",
    "Function",
    "Seen",
    "Shape",
    "StateFunction",
]
