"""Which law was chosen: what was passed over, what is about as good, what was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from odediscovery.judge.notes.note import Note, Weight, listed


def tried(law: str, r2: float, behind: float) -> Note:
    """A law that the user asked for, and how it does beside the chosen one."""
    words = "the chosen equations" if behind == 0.0 else "as good as the chosen equations"
    if abs(behind) > 4.0:
        words = f"{'clearly worse' if behind > 0 else 'nearer to the data'} than the chosen equations"
    return Note(f"tried {law}: R2 = {r2:.4f}, {words}", Weight.CHOICE)


def changing_constant(name: str, before: str, later: Sequence[str], behind: float) -> Note:
    """A constant that changes at known times, and what the law is worth without."""
    worth = "is clearly worse" if behind > 4.0 else "would be about as good: nothing here asks for a change"
    return Note(f"{name} changes: {before} before, {', '.join(later)}; a law with one value {worth}", Weight.CHOICE)


def found_break(time: float, first: float, last: float, time_name: str) -> Note:
    """Where a change was found, and where it might be as well."""
    within = f", between {first:g} and {last:g}" if first < last else ""
    return Note(
        f"the change was looked for among all sample times and found at {time_name} = {time:g}{within}; the errors of "
        "the constants are those for this time, and do not include that it might be another",
        Weight.CHOICE,
    )


def no_break(time: float, time_name: str) -> Note:
    """No change of a constant is clear."""
    return Note(
        f"no constant clearly changes: even the best time for it, {time_name} = {time:g}, makes no textbook law "
        'clearly likelier; the laws are those without a change (--breaks "t=..." takes a time that you know)',
        Weight.CHOICE,
    )


def simpler_and_nearer(complexity: int, reason: str) -> Note:
    """A row of the front that is simpler and nearer to the data than the chosen one, and why it was not taken."""
    return Note(
        f"the equations of complexity {complexity} are simpler and nearer to all the data taken together; they were "
        f"passed over because {reason}",
        Weight.CHOICE,
    )


def weaker_between(complexity: int) -> Note:
    """A closer law was passed over: it predicts samples worse that it was not fitted to."""
    return Note(
        f"equations of complexity {complexity} are closer to these samples, but predicted blocks of time that were "
        "left out worse than the simpler ones above: they were passed over",
        Weight.CHOICE,
    )


def weaker_ahead(complexity: int) -> Note:
    """A closer law was passed over: it leaves the data absurdly when it is continued."""
    return Note(
        f"equations of complexity {complexity} fit about as well, but run far away from everything measured as soon as "
        "they are continued: they were passed over",
        Weight.CHOICE,
    )


def close_rivals(complexities: Sequence[int]) -> Note:
    """Other rows of the front that the data hardly tell from the chosen one.

    >>> print(close_rivals([4, 7]))  # doctest: +NORMALIZE_WHITESPACE
    the data hardly prefer these equations to those of complexity 4 and 7: read all of them before you believe
    one; samples of another start, or of later times, would decide
    """
    return Note(
        f"the data hardly prefer these equations to those of complexity {listed([str(c) for c in complexities])}: read "
        "all of them before you believe one; samples of another start, or of later times, would decide",
        Weight.CHOICE,
    )


def two_complexities() -> Note:
    """Complexity counts other things for other kinds of laws."""
    return Note(
        "complexity counts constants and states where the equations are sums of powers, and every symbol where they "
        "are not: compare rows of the two kinds by R2 only",
        Weight.BACKGROUND,
    )
