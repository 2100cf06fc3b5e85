"""What limited the search: time, memory, and what these samples can tell."""

from __future__ import annotations

from odediscovery.judge.notes.note import Note, Weight


def stopped(reason: str, seconds: float) -> Note:
    """The search ended before it was done."""
    return Note(
        f"stopped ({reason}) after {seconds:.1f} s, before every kind of law was tried: this is the best so far; "
        "odediscovery fit --resume goes on from it",
        Weight.DOUBT,
    )


def memory_spent(gigabytes: float) -> Note:
    """That laws were not pruned for want of memory."""
    return Note(
        f"laws of so many states were not pruned: that takes more than the {gigabytes:g} GB of --max-memory; "
        "allow more, or choose fewer with --states",
        Weight.DOUBT,
    )


def same_constants() -> Note:
    """There was no time for constants of each group's own."""
    return Note("no time for constants of each group: the equations have the same for all; allow more", Weight.DOUBT)


def time_spent() -> Note:
    """The search took the time that a fit takes by default, and could have gone on."""
    return Note(
        "richer laws were not all tried: a fit takes at most 30 s of the processor, 6.6 s for fewer than 50 rows; "
        "--thorough goes on for as long as there is something to try",
        Weight.BACKGROUND,
    )


def judged_in_pieces(samples: int) -> Note:
    """Whole trajectories could not be followed, or were not expected to be where there was no time to try."""
    return Note(
        "no law was found to follow whole trajectories from one start, as in chaos: laws were judged, and mse and r2 "
        f"are, on pieces of {samples} samples; predict for about as long",
        Weight.DATA,
    )


def thinned(every: int, few: int, on_all: bool, runs: int = 0) -> Note:
    """Laws were sought in fewer samples than were measured.

    Args:
        every, few: samples.
        on_all: whether constants are those of all samples.
        runs: of neighbours that the few samples are, if they are.
    """
    then = "constants, errors and scores are those of all" if on_all else "constants, errors and scores are of these"
    these = f" ({runs} runs of neighbours, each with a start of its own)" if runs else ""
    return Note(f"laws were sought in {few} of the {every} samples{these}; {then}", Weight.BACKGROUND)


def never_changes(state: str) -> Note:
    """A state that is the same in all samples."""
    return Note(
        f"{state} never changes: its equation is zero; leave it out with --states, or name it with --inputs if it acts "
        "on the others",
        Weight.DATA,
    )


def one_orbit(period: str) -> Note:
    """The only trajectory goes round a closed orbit."""
    return Note(
        f"the only trajectory is one closed orbit, gone round in {period}: terms that are alike on it cannot be told "
        "apart; samples from another start can",
        Weight.DATA,
    )


def bound_states(relation: str) -> Note:
    """A linear relation of the states that holds in all samples."""
    return Note(
        f"{relation} in all samples: equations that differ by this relation cannot be told apart; a trajectory with "
        "another value of it can, or say --conserve if it is a law",
        Weight.DATA,
    )
