"""What differs between two rows of the golden file, in words.

Equal are the same terms, constants to three digits, the same outcome and the same notes. Right-hand sides
are compared as text, a sum term by term in any order; nothing evaluates them.
"""

from __future__ import annotations

import math
import re
from typing import Any

# Three digits.
TOLERANCE = 1e-3
_NUMBER = re.compile(r"(?<![A-Za-z_\d])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# Wall-clock and processor seconds differ in every run, and so do hashes of files that hold them.
_SECONDS = re.compile(r"\d+(\.\d+)? ?(s|seconds?)\b|\"seconds\": [\d.e+-]+|sha256:[0-9a-f]{64}")

Row = dict[str, Any]


def differences(was: Row, now: Row) -> list[str]:
    """Everything of a row that is another, one line each; nothing where the rows are equal.

    What a search finds that its limit ended depends on the pace of the processor: of such rows failures count alone.
    """
    if was.get("input") != now.get("input"):
        return [f"another input: {was.get('input')} -> {now.get('input')}"]
    if was.get("limited") or now.get("limited"):
        return (
            [f"failed: {was.get('failed')} -> {now['failed']}"] if now.get("failed") and not was.get("failed") else []
        )
    found = [
        f"{key}: {was.get(key)} -> {now.get(key)}" for key in ("failed", "outcome") if was.get(key) != now.get(key)
    ]
    old, new = was.get("equations") or {}, now.get("equations") or {}
    for state in {**old, **new}:
        if not same_sum(old.get(state, ""), new.get(state, "")):
            found.append(f"{state}' = {old.get(state)} -> {new.get(state)}")
    notes, own = ([pattern(note) for note in row.get("messages", ())] for row in (was, now))
    found += [f"note gone: {note}" for note in notes if note not in own]
    found += [f"note new: {note}" for note in own if note not in notes]
    if not same_text(was.get("printed", ""), now.get("printed", "")):
        found.append(f"printed: {_first_difference(was.get('printed', ''), now.get('printed', ''))}")
    if was.get("keys") != now.get("keys"):
        found.append(f"keys: {sorted(set(was.get('keys') or ()) ^ set(now.get('keys') or ()))}")
    return found


def pattern(text: str) -> str:
    """A text without its numbers.

    >>> pattern("K = 1.47(21) after 2.5 s")
    'K = #(#) after # s'
    """
    return _NUMBER.sub("#", text)


def same_sum(a: str, b: str) -> bool:
    """Whether two sums have the same terms in any order, with numbers equal to three digits.

    >>> same_sum("0.5*x - 2*y**1.5", "-2.0001*y**1.5 + 0.5*x")
    True
    >>> same_sum("0.5*x", "0.5*x + 1e-9*y")
    False
    """
    ours, theirs = terms(a), terms(b)
    if len(ours) != len(theirs):
        return False
    for term in ours:
        partner = next((other for other in theirs if same_text(term, other)), None)
        if partner is None:
            return False
        theirs.remove(partner)
    return True


def terms(text: str) -> list[str]:
    """The terms of a sum with their signs.

    >>> terms("-a*x + (b - c)*y - 1e-3")
    ['-1*a*x', '+1*(b - c)*y', '-1e-3']
    """
    found, depth, begin = [], 0, 0
    for place in range(len(text)):
        depth += (text[place] in "([") - (text[place] in ")]")
        if depth == 0 and text[place : place + 3] in (" + ", " - "):
            found.append(text[begin:place])
            begin = place + 1
    found.append(text[begin:])
    stripped = [term.strip() for term in found if term.strip()]
    signed = [term[0] + term[1:].lstrip() if term[0] in "+-" else "+" + term for term in stripped]
    # A coefficient that is 1 to the last digit is not printed.
    return [term if term[1].isdigit() else f"{term[0]}1*{term[1:]}" for term in signed]


def same_text(a: str, b: str) -> bool:
    """Whether two texts are the same but for numbers that are equal to three digits."""
    a, b = _SECONDS.sub("", a), _SECONDS.sub("", b)
    if pattern(a) != pattern(b):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(math.isclose(float(x), float(y), rel_tol=TOLERANCE, abs_tol=1e-300) for x, y in pairs)


def _first_difference(a: str, b: str) -> str:
    for x, y in zip(a.splitlines(), b.splitlines(), strict=False):
        if not same_text(x, y):
            return f"{x!r} -> {y!r}"
    return f"{len(a.splitlines())} lines -> {len(b.splitlines())} lines"


def keys_of(value: Any, path: str = "") -> set[str]:
    """The paths of all keys of a JSON document; entries of a list share one.

    >>> sorted(keys_of({"a": [{"b": 1}, {"c": 2}]}))
    ['a', 'a[].b', 'a[].c']
    """
    if isinstance(value, dict):
        own = {f"{path}.{key}" if path else str(key) for key in value}
        return own.union(*(keys_of(part, f"{path}.{key}" if path else str(key)) for key, part in value.items()))
    if isinstance(value, list):
        return set[str]().union(*(keys_of(part, f"{path}[]") for part in value))
    return set()
