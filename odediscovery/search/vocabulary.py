"""Which families of laws are tried, in the words of an option: powers,functions or no-sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odediscovery.errors import InputError, unknown_name
from odediscovery.families import FAMILIES, Family

# The laws with a name, beside the families.
TEXTBOOK_LAWS = "textbook"


@dataclass(frozen=True)
class Vocabulary:
    """What a search may write laws with.

    Args:
        families: from simple to rich; none for textbook laws alone.
        textbook: whether laws with a name are tried.
    """

    families: tuple[Family, ...] = FAMILIES
    textbook: bool = True

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions of a state that may stand in a law."""
        return frozenset(f.name for family in self.families for f in family.functions)

    @property
    def has_sums(self) -> bool:
        """Whether quotients by sums may stand in a law."""
        return any("sums" in family.name or family.real_inside for family in self.families)


def vocabulary(names: Sequence[str], families: Sequence[Family] = FAMILIES) -> Vocabulary:
    """What the option --library says.

    Args:
        names: "powers,sums" for these alone, "no-functions" for all but these; spaces may be written -.
            Powers are part of every family, and textbook laws stay unless "no-textbook" is said.
        families: all that there are.

    Raises:
        InputError: a name that is none of a family, or nothing is left.

    >>> [family.name for family in vocabulary(["sums,powers"]).families]
    ['powers', 'sums']
    >>> "sums" in [family.name for family in vocabulary(["no-sums"]).families]
    False
    >>> vocabulary(["textbook"]).families
    ()
    """
    known = {family.name: family for family in families}
    words = [word.strip().replace("-", " ") for text in names for word in text.split(",") if word.strip()]
    for word in words:
        if word.removeprefix("no ") not in (*known, TEXTBOOK_LAWS):
            raise unknown_name("library", word, [*known, TEXTBOOK_LAWS])
    wanted = [word for word in words if not word.startswith("no ")] or [*known, TEXTBOOK_LAWS]
    chosen = tuple(known[word] for word in known if word in wanted and f"no {word}" not in words)
    textbook = f"no {TEXTBOOK_LAWS}" not in words
    if not chosen and not (textbook and TEXTBOOK_LAWS in wanted):
        raise InputError("--library leaves nothing to try: name a family, or textbook")
    return Vocabulary(chosen, textbook)
