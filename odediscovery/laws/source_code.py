"""Equations as source code of other programs: Python and Julia.

A column may have the name of a word of the language or of an argument of the printed function. Its
variable then gets underscores until the name is free.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from odediscovery.laws.expressions import identifiers, render
from odediscovery.laws.printing import Printable

# Words of the language, and names that the printed function itself uses.
_JULIA_WORDS = (
    "abstract baremodule begin catch const do else elseif end export false function let local macro module "
    "mutable primitive quote struct true try type using where outer in isa ccall Base du u p t"
)
_PYTHON_WORDS = "np rates"
# Categories of letters, marks and digits that both languages take in names.
_JULIA_LETTERS = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Nd")


def python_source(equations: Printable) -> str:
    """See `Equations.python`."""
    names, given, (time, state, controls) = _local_names(equations, _PYTHON_WORDS, ("t", "y", "u"))
    sides = [
        render(side, name=names.__getitem__, function=lambda f: f"np.{f.lower()}")
        for side in equations.right_hand_sides
    ]
    own, acting = _split(equations, names)
    time = given or time
    lines = [
        "import numpy as np",
        "",
        "",
        f"def rates({time}, {state}{f', {controls}' if acting else ''}):",
        *([f"    {_unpacked(acting)} = {controls}({time})  # inputs at this time"] * bool(acting)),
        f"    {_unpacked(own)} = {state}",
        "    return np.array([",
        *(f"        {side},  # d/dt of {name}" for side, name in zip(sides, equations.states, strict=True)),
        "    ])",
    ]
    return "\n".join(lines) + "\n"


def _julia_name(name: str) -> str:
    """An identifier of Python as one of Julia: some letters are operators or other letters there, and
    what consists of underscores cannot be read.

    >>> _julia_name("heart_rate"), _julia_name("__"), _julia_name("a\u00b7b")
    ('heart_rate', 'x__', 'a_b')
    """
    kept = "".join(
        c if c == "_" or (unicodedata.category(c) in _JULIA_LETTERS and c != "\u025b") else "_" for c in name
    )
    return kept if kept.strip("_") and not kept[0].isdigit() else f"x{kept}"


def julia_source(equations: Printable) -> str:
    """See `Equations.julia`."""
    names, given, _ = _local_names(equations, _JULIA_WORDS, (), _julia_name)
    sides = [
        render(side, name=names.__getitem__, function=lambda f: f"Base.{f.lower()}", power="^")
        for side in equations.right_hand_sides
    ]
    own, acting = _split(equations, names)
    lines = [
        "function rates!(du, u, p, t)",
        *([f"    {given} = t"] * bool(given)),
        *([f"    {_unpacked(acting)} = p(t)  # the inputs at this time"] * bool(acting)),
        f"    {_unpacked(own)} = u",
        *(
            f"    du[{i + 1}] = {side}  # d/dt of {name}"
            for i, (side, name) in enumerate(zip(sides, equations.states, strict=True))
        ),
        "    return nothing",
        "end",
    ]
    return "\n".join(lines) + "\n"


def _unpacked(names: Sequence[str]) -> str:
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _split(equations: Printable, names: dict[str, str]) -> tuple[list[str], list[str]]:
    """Variable names of the states, and of the inputs but for time."""
    local, count = list(names.values()), len(equations.states)
    acting = zip(equations.controls, local[count:], strict=True)
    return local[:count], [name for column, name in acting if column != equations.time_name]


def _local_names(
    equations: Printable, words: str, arguments: tuple[str, ...], spelled: Callable[[str], str] = str
) -> tuple[dict[str, str], str, list[str]]:
    """Variable names by symbol that avoid reserved words, that of time if it is an input ("" if
    not), and argument names that avoid all of them; `spelled` is how the language writes a name."""
    reserved = set(words.split())
    taken = set(identifiers(equations.variables).values()) | reserved
    names = {}
    for symbol in equations.symbols:
        name = spelled(symbol.name)
        while (name != symbol.name and name in taken) or name in reserved:
            name += "_"
        taken.add(name)
        names[symbol.name] = name
    given = []
    for argument in arguments:
        while argument in taken:
            argument += "_"
        given.append(argument)
    of_column = dict(zip(equations.variables, names.values(), strict=True))
    time = equations.time_name
    return names, of_column[time] if time in equations.controls else "", given
