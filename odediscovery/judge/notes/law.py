"""Whether what was found is a law, what speaks against it, and how it goes on beyond the data."""

from __future__ import annotations

from collections.abc import Sequence

from odediscovery.judge.notes.note import Note, Weight, listed, percent


def poor_fit(explained: float, least: float) -> Note:
    """Too little of all variance is explained.

    >>> poor_fit(-3.33, 0.5)
    'the best equations are no nearer to the data than the mean of each state: they are no law of these data'
    """
    if not explained > 0.0:
        seen = "the best equations are no nearer to the data than the mean of each state"
    else:
        seen = (
            f"the best equations explain only {percent(explained)} of the variance, and at least {percent(least)} "
            "was wanted"
        )
    return Note(f"{seen}: they are no law of these data", Weight.REFUSAL)


def unexplained_states(states: Sequence[str], shares: Sequence[float]) -> Note:
    """States of which the equations explain too little, whatever they explain of the others.

    >>> print(unexplained_states(["deaths"], [0.0]))  # doctest: +NORMALIZE_WHITESPACE
    deaths is not explained (R2 = 0.000), whatever the equations explain of the other states: they are no law of
    these data; leave it out with --states, or name what drives it with --inputs
    """
    each = listed([f"{state} (R2 = {share:z.3f})" for state, share in zip(states, shares, strict=True)])
    if len(states) == 1:
        said = f"{states[0]} is not explained (R2 = {shares[0]:z.3f})"
        it = "it"
    else:
        said, it = f"{each} are not explained", "them"
    return Note(
        f"{said}, whatever the equations explain of the other states: they are no law of these data; leave {it} out "
        f"with --states, or name what drives {it} with --inputs",
        Weight.REFUSAL,
    )


def turns_back(state: str) -> Note:
    """The only state both rises and falls, which no equation of it alone can do."""
    return Note(
        f"{state} both rises and falls, which no equation of {state} alone can do: something else acts on it, or its "
        "own past; name what was measured with --states or --inputs, what was not with --hidden-states",
        Weight.REFUSAL,
    )


def walk_as_good() -> Note:
    """A random walk explains the data as well."""
    return Note(
        "a random walk, which knows no law, explains the data as well as the best equations do: nothing here can be "
        "told from drift; more samples of the same course would help",
        Weight.REFUSAL,
    )


def idle_terms_left(names: Sequence[str]) -> Note:
    """Terms that the data do not tell from nothing, and that the law cannot do without either."""
    if len(names) == 1:
        seen = f"the 95 % interval of the coefficient of {names[0]} contains 0, and without it"
    else:
        among = f"{len(names)} terms, among them {listed(names[:3])}," if len(names) > 3 else listed(names)
        seen = f"the 95 % intervals of the coefficients of {among} contain 0, and without them"
    return Note(
        f"{seen} the equations fit clearly worse: "
        "what acts here cannot be told from these data, so no law is claimed; prefer a simpler row of the front, or "
        "measure more",
        Weight.REFUSAL,
    )


def cannot_be_continued(count: int) -> Note:
    """The equations have no solution at the times that were kept back."""
    return Note(
        f"{count} samples were kept back: the equations cannot be continued over them, they blow up on the way: no law "
        "of later times",
        Weight.REFUSAL,
    )


def structured_residuals(states: Sequence[str], seen: Sequence[str]) -> Note:
    """States whose residuals are clearly no noise, and how that was seen.

    >>> print(structured_residuals(["x"], ["3 runs of one sign where about 20 are expected"]))
    ... # doctest: +NORMALIZE_WHITESPACE
    what the equations leave of x is no noise (3 runs of one sign where about 20 are expected): they miss something
    slow, so their form may be wrong; look at the residuals in report.html, and add what may act on the states
    (--inputs, --hidden-states)
    """
    return Note(
        f"what the equations leave of {listed(states)} is no noise ({'; '.join(seen)}): they miss something slow, so "
        "their form may be wrong; look at the residuals in report.html, and add what may act on the states (--inputs, "
        "--hidden-states)",
        Weight.DOUBT,
    )


def runs_from_its_starts() -> Note:
    """The law leaves the data from starts that are as likely as the fitted one."""
    return Note(
        "the equations run away from starts that are as likely as the fitted one: the system that was measured did "
        "not, so their form is doubtful; do not predict with them",
        Weight.DOUBT,
    )


def may_be_any_curve(states: Sequence[str]) -> Note:
    """Equations of exact data that leave nothing do not look like a law."""
    rates = listed([f"{state}'" for state in states])
    return Note(
        f"exact data are met, but what stands for {rates} does not look like a law (many terms, unusual powers, or "
        "terms that cancel): enough of these meet any smooth curve; do not trust the form, and measure from other "
        "starts or say what you know (--known)",
        Weight.DOUBT,
    )


def blows_up(of: str, when: str) -> Note:
    """The equations have no solution for as long again as the data last."""
    return Note(
        f"continued for as long again{of} the equations blow up, at {when}: use them within the measured time only",
        Weight.DOUBT,
    )


def leaves_the_data(of: str, state: str, value: float, low: float, high: float) -> Note:
    """The equations leave the data far behind when they are continued for as long again."""
    return Note(
        f"continued for as long again{of} {state} reaches {value:.3g}, far from the data, {low:.3g} to {high:.3g}: "
        "nothing measured says whether it would; use the equations within the measured range only",
        Weight.CHOICE,
    )


def comes_to_rest(point: str, *, known: bool = True) -> Note:
    """Where the solution ends; whether with an error."""
    error = "; the error is that of their constants" if known else ""
    return Note(f"comes to rest at {point}: continued for long, the equations stay there{error}", Weight.CHOICE)


def continued(count: int, whole: str, each: str, off: float, still: float, refused: bool) -> Note:
    """How well the equations hold at the times that were kept back.

    Args:
        count: samples that were kept back.
        whole, each: R2 of all states, and of each, as text.
        off: error over the spread of the fitted values.
        still: the same, had nothing changed any more.
        refused: whether that makes them no law.
    """
    said = (
        f"{count} samples were kept back: there the equations have R2 = {whole}{each} and an error of {off:.0%} of the "
        f"spread of the fitted samples; had the last fitted values simply stayed, it would be {still:.0%}"
    )
    if refused:
        return Note(f"{said}: no law of later times, do not predict with it", Weight.REFUSAL)
    return Note(said, Weight.CHOICE)
