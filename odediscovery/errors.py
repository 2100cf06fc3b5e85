"""The exceptions a person can meet, and the words for a name that does not exist.

Everything raised on purpose is an `OdeDiscoveryError`. `InputError` is a mistake in the call
or the data (the command exits with 2), `FitError` a fit that could not be done (exit 1).
Every message says what was expected, what came and what to do, in one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Letters of a name in a message, which is one line.
MAX_LETTERS = 60


class OdeDiscoveryError(Exception):
    """Base of all errors this package raises on purpose.

    >>> issubclass(InputError, OdeDiscoveryError) and issubclass(FitError, OdeDiscoveryError)
    True
    """


class InputError(OdeDiscoveryError, ValueError):
    """The data or the call is wrong; the person who called can mend it. Also a ValueError.

    >>> from odediscovery import settings_for
    >>> try:
    ...     settings_for(members=-1)
    ... except InputError as error:
    ...     print(error)
    --members must be at least 0, got -1
    """


class InputTypeError(InputError, TypeError):
    """The same where something is of another kind altogether, such as a dict among numbers. Also a TypeError.

    >>> issubclass(InputTypeError, InputError)
    True
    """


class FitError(OdeDiscoveryError, RuntimeError):
    """The input was right, but no equations could be found; the message says why. Also a
    RuntimeError.

    >>> from odediscovery import simulate_system
    >>> try:
    ...     simulate_system("toy", until=2.0)
    ... except FitError as error:
    ...     print(str(error)[:47])
    the solution of toy cannot be followed beyond t
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a `name` that is not among the `known` ones, with the nearest of them.

    >>> str(unknown_name("state", "Suceptible", ["Susceptible", "Infected"]))
    "unknown state 'Suceptible': did you mean 'Susceptible'? Known: Susceptible, Infected"
    """
    names = list(known)
    # Upper and lower case are the likeliest slip, and the only one of a name with one letter.
    near = [known for known in names if known.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name[:MAX_LETTERS], [n for n in names if len(n) <= MAX_LETTERS], 1, 0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    shown = [known if len(known) <= MAX_LETTERS else f"{known[:MAX_LETTERS]}..." for known in names[:30]]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return InputError(f"unknown {kind} {name[:MAX_LETTERS]!r}: {hint}Known: {', '.join(shown) or 'none'}{more}")
