"""The messages of a result, each with a weight that decides which are shown first.

A note says what was observed, what follows from it, and what to do, in one or two sentences. Notes concern whether the
equations are a law, which law was chosen, what limited the search, and how well the constants are known. A result
shows the weightiest first. Notes from reading tables, on columns, are in `data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Weight(IntEnum):
    """Importance of a note: the smaller, the sooner the reader should know it."""

    REFUSAL = 0
    DOUBT = 1
    CONSTANTS = 2
    CHOICE = 3
    DATA = 4
    BACKGROUND = 5


class Note(str):
    """A message of a result, with its weight.

    >>> Note("read me", Weight.DOUBT), in_order(["columns", Note("refused", Weight.REFUSAL)])
    ('read me', ('refused', 'columns'))
    """

    weight: Weight

    def __new__(cls, text: str, weight: Weight) -> Note:
        made = super().__new__(cls, text)
        made.weight = weight
        return made

    def __getnewargs__(self) -> tuple[str, Weight]:  # type: ignore[override]
        # Results are pickled between processes.
        return str(self), self.weight


def in_order(messages: Iterable[str]) -> tuple[str, ...]:
    """The messages without repetition, the most important first.

    Those without a weight count as remarks on the data.
    """
    unique = dict.fromkeys(messages)
    return tuple(sorted(unique, key=lambda text: getattr(text, "weight", Weight.DATA)))


def percent(share: float) -> str:
    """A share of the variance in percent, rounded down: 0.9996 is 99.9 %.

    >>> percent(0.9996), percent(0.5), percent(-3.3)
    ('99.9 %', '50 %', 'nothing')
    """
    if share <= 0.0:
        return "nothing"
    return f"{int(1000.0 * share + 1e-9) / 10.0:g} %"


def listed(names: Sequence[object], most: int = 1000) -> str:
    """Names as a phrase: a, b and c; of more than `most` the first and the number of the others."""
    shown = [*map(str, names[:most]), *[f"{len(names) - most} more"] * (len(names) > most)]
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)


@dataclass(frozen=True)
class Message:
    """A note whose text has places for values; lists of names are written as phrases."""

    weight: Weight
    text: str

    def __call__(self, *values: Any) -> Note:
        """The note with these values."""
        written = (listed(value) if isinstance(value, list) else value for value in values)
        return Note(self.text.format(*written), self.weight)


turns_back = Message(
    Weight.REFUSAL,
    "{0} both rises and falls, which no autonomous equation of {0} alone allows: it depends on something else, or on "
    "its own past; add what was measured with --states or --inputs, what was not with --hidden-states",
)
walk_as_good = Message(
    Weight.REFUSAL,
    "a random walk fits as well as the best equations: the data cannot be distinguished from drift; sample the same "
    "course more densely",
)
cannot_be_continued = Message(
    Weight.REFUSAL,
    "{} samples were held out: the equations diverge before the last of them, so they do not hold at later times",
)
# Values: trajectory, and time of divergence.
blows_up = Message(
    Weight.DOUBT,
    "integrated for twice the measured time{}, the equations diverge at {}: use them within the measured time only",
)
# Values: reason, and seconds until the stop.
stopped = Message(
    Weight.DOUBT,
    "stopped ({}) after {:.1f} s, before every kind of law was tried: this is the best so far; continue with "
    "odediscovery fit --resume",
)
# Values: states, and the evidence.
structured_residuals = Message(
    Weight.DOUBT,
    "the residuals of {} are not noise ({}): the equations miss something slow, so their form may be wrong; look at "
    "the residuals in report.html, and add what may act on the states (--inputs, --hidden-states)",
)
# Value: rates.
may_be_any_curve = Message(
    Weight.DOUBT,
    "the equations fit exact data, but the right-hand side of {} does not look like a law (many terms, unusual powers, "
    "or terms that cancel): enough such terms fit any smooth curve; do not trust the form; measure from other starts, "
    "or state what you know (--known)",
)
# Value: constants that are not larger than their standard errors.
undetermined_constants = Message(
    Weight.DOUBT,
    "the data do not determine {}: marked (?) in the equations, not significantly different from 0; do not interpret "
    "these terms; prefer a row of the front without them",
)
# Value: the equations of the other flows.
rival_flows = Message(
    Weight.DOUBT,
    "other flows fit about as well: {}; measure another state, or state what you know of them (--known, --conserve)",
)
memory_spent = Message(
    Weight.DOUBT,
    "laws of so many states were not pruned: that needs more than the {:g} GB of --max-memory; allow more, or choose "
    "fewer with --states",
)
same_constants = Message(
    Weight.DOUBT, "there was no time to fit constants for each group, so all groups share them; allow more time"
)
held_and_fitted = Message(
    Weight.CONSTANTS,
    "the equations fix an exponent at a simple number, while the named law fits it: the errors given with the name "
    "are larger; use those unless you know the exponent",
)
# Values: state, term, equations, and the ends of the interval.
open_exponent = Message(
    Weight.CONSTANTS,
    "the exponent of {0} in the term {1} of {2} is known only to lie between {3:.2g} and {4:.2g}: measure over a "
    "wider range of {0}, or fix it with --integer-exponents",
)
# Values: trajectory, the state and its value, and the range of its data.
leaves_the_data = Message(
    Weight.CHOICE,
    "integrated for twice the measured time{}, {} reaches {:.3g}, far outside the data ({:.3g} to {:.3g}): no "
    "measurement supports this; use the equations within the measured range only",
)
# Values: the best time, and the name of the time.
no_break = Message(
    Weight.CHOICE,
    "no constant clearly changes: even at the best time, {1} = {0:g}, no textbook law becomes clearly likelier; these"
    ' laws have no change (--breaks "t=..." sets a time that you know)',
)
# Values: the point, and how its error was found.
comes_to_rest = Message(Weight.CHOICE, "equilibrium at {}: the equations approach it and stay{}")
# Values: complexity of a row of the front, and why it was not chosen.
simpler_and_nearer = Message(
    Weight.CHOICE,
    "the equations of complexity {} are simpler and fit all states together better; they were not chosen because {}",
)
weaker_between = Message(
    Weight.CHOICE,
    "equations of complexity {} fit these samples better, but predict held-out blocks of time worse than the simpler "
    "ones above: they were not chosen",
)
# Value: complexities of other rows of the front.
close_rivals = Message(
    Weight.CHOICE,
    "the preference over the equations of complexity {} is not significant: compare them all; samples from another "
    "start, or of later times, would decide",
)
# Value: samples per piece.
judged_in_pieces = Message(
    Weight.DATA,
    "no law was found that follows whole trajectories from one start, as in chaos: laws, mse and r2 are evaluated on "
    "pieces of {} samples; predict over similar times only",
)
never_changes = Message(
    Weight.DATA,
    "{} never changes: its equation is zero; leave it out with --states, or name it with --inputs if it acts on the "
    "others",
)
idle_input = Message(
    Weight.CHOICE, "the input {} is in no equation: as far as these data show, the states do not depend on it"
)
# Values: the input, and the share of its variation.
sampled_input = Message(
    Weight.CONSTANTS,
    "between samples {} is taken as straight, which misses {:.1%} of its variation: the errors of its terms include "
    "this; sample it more densely, or name it with --held-inputs if it keeps its values",
)
# Values: the state, and the share of its range.
unresolved = Message(
    Weight.DOUBT,
    "{} moves by {:.0%} of its range between two neighbouring samples: what happens there is not resolved; sample it "
    "more densely there",
)
# Value: the period.
one_orbit = Message(
    Weight.DATA,
    "the only trajectory is one closed orbit of period {}: terms that agree on it cannot be distinguished; samples "
    "from another start would distinguish them",
)
# Value: the relation.
bound_states = Message(
    Weight.DATA,
    "{} in all samples: equations that differ by this relation cannot be distinguished; a trajectory with another "
    "value would distinguish them; state it with --conserve if it is a law",
)
two_complexities = Message(
    Weight.BACKGROUND,
    "complexity counts constants and states where the equations are sums of powers, and more where they are not: "
    "compare rows of the two kinds by R2 only",
)
time_spent = Message(
    Weight.BACKGROUND,
    "richer laws were not all tried: a fit takes about 30 s of processor time; --thorough continues as long as there "
    "is something to try",
)


def poor_fit(explained: float, least: float) -> Note:
    """Refuse equations that explain too little of the total variance."""
    seen = "fit no better than the mean of each state"
    if explained > 0.0:
        seen = f"explain only {percent(explained)} of the variance (at least {percent(least)} is required)"
    return Note(f"the best equations {seen}: this is not a law of these data", Weight.REFUSAL)


def unexplained_states(states: Sequence[str], shares: Sequence[float]) -> Note:
    """Refuse equations that explain too little of some states, even if they explain the others."""
    said, it = f"{states[0]} is not explained (R2 = {shares[0]:z.3f})", "it"
    if len(states) > 1:
        each = [f"{state} (R2 = {share:z.3f})" for state, share in zip(states, shares, strict=True)]
        said, it = f"{listed(each)} are not explained", "them"
    return Note(
        f"{said}, although other states may be: this is not a law of these data; leave {it} out with --states, or name "
        f"what drives {it} with --inputs",
        Weight.REFUSAL,
    )


def idle_terms_left(names: Sequence[str]) -> Note:
    """Refuse equations with terms that are not significant but that the fit needs."""
    if len(names) == 1:
        seen = f"the 95 % interval of the coefficient of {names[0]} contains 0, but without this term"
        which = "it is"
    else:
        among = f"{len(names)} terms, among them {listed(names[:3])}," if len(names) > 3 else listed(names)
        seen = f"the 95 % intervals of the coefficients of {among} contain 0, but without these terms"
        which = "they are"
    return Note(
        f"{seen} the equations fit clearly worse: {which} not identifiable from these data, so no law is claimed; "
        "prefer a simpler row of the front, or measure more",
        Weight.REFUSAL,
    )


def continued(count: int, whole: str, each: str, off: float, still: float, refused: bool) -> Note:
    """Note how well the equations hold at held-out samples: R2 of all states and of each as text, the errors of the
    equations and of constant last values over the spread of the fitted values, and whether the law is refused."""
    said = (
        f"{count} samples were held out: there the equations have R2 = {whole}{each} and an error of {off:.0%} of the "
        f"spread of the fitted samples; constant last fitted values would give {still:.0%}"
    )
    if refused:
        return Note(f"{said}: the law does not hold at later times; do not predict with it", Weight.REFUSAL)
    return Note(said, Weight.CHOICE)


def tried(law: str, r2: float, behind: float) -> Note:
    """Note how a law requested by the user compares with the chosen one."""
    words = "the chosen equations" if behind == 0.0 else "as good as the chosen equations"
    if abs(behind) > 4.0:
        words = f"{'clearly worse' if behind > 0 else 'closer to the data'} than the chosen equations"
    return Note(f"tried {law}: R2 = {r2:.4f}, {words}", Weight.CHOICE)


def changing_constant(name: str, before: str, later: Sequence[str], behind: float) -> Note:
    """Note a constant that changes at known times, and how the law compares without the change."""
    worth = "is clearly worse" if behind > 4.0 else "would be about as good: the data do not require a change"
    return Note(f"{name} changes: {before} before, {', '.join(later)}; a law with one value {worth}", Weight.CHOICE)


def found_break(time: float, first: float, last: float, time_name: str) -> Note:
    """Note the time of a change that was sought, and the range of times about as good."""
    within = f", between {first:g} and {last:g}" if first < last else ""
    return Note(
        f"a change was sought at all sample times and found at {time_name} = {time:g}{within}; the errors of the "
        "constants are conditional on this time",
        Weight.CHOICE,
    )


def thinned(every: int, few: int, on_all: bool, runs: int = 0) -> Note:
    """Note that the search saw only `few` of `every` samples, perhaps in runs, and whether the fit used all."""
    then = "constants, errors and scores are those of all" if on_all else "constants, errors and scores are of these"
    these = f" ({runs} runs of neighbours, each with a start of its own)" if runs else ""
    return Note(f"laws were sought in {few} of the {every} samples{these}; {then}", Weight.BACKGROUND)


def widened_errors(factor: float, at_most: bool) -> Note:
    """Note the factor that widens standard errors for autocorrelated residuals, and whether it is the largest."""
    if at_most:
        return Note(
            f"the residuals drift so slowly that standard errors were widened {factor:.1f} times, the most that "
            "neighbouring residuals can show; even that may be too little: do not rely on the error bars",
            Weight.DOUBT,
        )
    return Note(
        f"residuals are autocorrelated, so standard errors were widened {factor:.1f} times; they assume that the form "
        "of the law is right",
        Weight.CONSTANTS,
    )


def not_determined(names: Sequence[str]) -> Note:
    """Note constants that the data do not determine, or only in combination."""
    text = "its value is arbitrary; fix it (--known, --bounds), or measure where it acts"
    if len(names) > 1:
        text = "only a combination of them is identifiable; fix one of them (--known), or measure from another start"
    together = " separately" * (len(names) > 1)
    return Note(f"the data do not determine {' and '.join(names)}{together}: {text}", Weight.CONSTANTS)
