"""Untrusted text: which characters names may have, and how to show text on a terminal.

Control characters move a cursor, hide text and end lines of code; marks of direction change how text appears.
"""

from __future__ import annotations

import re

from odediscovery.errors import InputError

# C0, DEL and C1; embeddings, overrides and isolates of direction; half of a pair.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# An equals sign between no-break spaces.
HELD = "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
# Longer names are an error, such as a whole row in one cell.
MAX_NAME_LETTERS = 1000


def printable(text: str) -> str:
    """Escape control characters and marks of direction, except line ends and tabs."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" else f"\\u{ord(found[0]):04x}", text)


def cut(text: str, most: int) -> str:
    """Cut the middle out of a text that is longer than `most` letters.

    >>> cut("abcdefghij", 7)
    'ab...ij'
    """
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]}...{text[len(text) - half :]}"


def shortened(cell: object) -> str:
    """Quote a cell, cut if it is long."""
    cell = cell if isinstance(cell, str) else repr(cell)
    return repr(cell if len(cell) <= 40 else f"{cell[:37]}...")


def check_letters(name: str) -> None:
    """Check that a name can be shown: neither too long nor with invisible characters."""
    if len(name) > MAX_NAME_LETTERS:
        raise InputError(
            f"the name {shortened(name)} has {len(name)} letters, at most {MAX_NAME_LETTERS} are possible; shorten it"
        )
    if _UNSEEN.search(name):
        raise InputError(
            f"the name {shortened(name)} has control characters or marks of direction, which nobody sees; take them out"
        )
