"""What is known of the constants: whether the data determine them, and what their errors mean."""

from __future__ import annotations

from collections.abc import Sequence

from odediscovery.judge.notes.note import Note, Weight, listed


def undetermined_constants(names: Sequence[str]) -> Note:
    """Constants whose standard errors are as large as they are, printed with (?)."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    said = ", ".join(names[:3]) + more if more else listed(names)
    return Note(
        f"the data do not determine {said}: marked (?) in the equations, each could as well be 0; do not read anything "
        "into these terms, prefer a row of the front without them",
        Weight.DOUBT,
    )


def widened_errors(factor: float, at_most: bool) -> Note:
    """Standard errors that were widened for residuals with memory, and what they do not include.

    Args:
        factor: by which they were.
        at_most: whether it is the largest that the test can tell.
    """
    if at_most:
        return Note(
            f"the residuals drift so slowly that standard errors were widened by {factor:.1f}, the most that "
            "neighbours can show; even that may be too little: do not rely on the error bars",
            Weight.DOUBT,
        )
    return Note(
        f"neighbouring residuals are alike: standard errors are {factor:.1f} times as large as they would be in noise "
        "without memory; they hold if the form of the law is right, and do not include that it may be another",
        Weight.CONSTANTS,
    )


def not_determined(names: Sequence[str]) -> Note:
    """Constants of which the data tell nothing, or a combination only."""
    told = f"tell nothing of {names[0]}: its value means nothing; hold it (--known, --bounds), or measure where it acts"
    if len(names) > 1:
        told = f"do not tell {' and '.join(names)} apart: only a combination of them is known; hold one of them "
        told += "(--known), or measure from another start"
    return Note(f"the data {told}", Weight.CONSTANTS)


def held_and_fitted() -> Note:
    """The equations hold an exponent that the law with a name fits."""
    return Note(
        "the equations hold an exponent at a round number that the data allow, the law with a name fits it: so the "
        "errors behind the name are larger; rely on them unless you know that number",
        Weight.CONSTANTS,
    )


def open_exponent(state: str, term: str, of: str, low: float, high: float) -> Note:
    """An exponent whose interval holds several whole numbers."""
    return Note(
        f"the exponent of {state} in the term {term} of {of} is known only to lie between {low:.2g} and {high:.2g}: "
        f"measure over a wider range of {state}, or hold it with --integer-exponents",
        Weight.CONSTANTS,
    )
