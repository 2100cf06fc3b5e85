"""A result that shows itself: as text, as mathematics, in notebooks, as tables and as a picture.

Pictures and pages are made by rooms below this one. They come through the package's public names,
which are loaded when they are used, so that a result costs no more than its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import odediscovery
from odediscovery.data.frames import Frame, records_frame
from odediscovery.data.series import TimeSeries
from odediscovery.judge.criterion import CRITERION
from odediscovery.judge.notes import Weight
from odediscovery.laws.equations import MAX_LINE, Equations
from odediscovery.laws.records import monomial_names, starts_text, terms
from odediscovery.result.front import FrontRow
from odediscovery.result.named import NamedConstants
from odediscovery.result.population import Population
from odediscovery.result.profiled import Profile, profiles_text
from odediscovery.result.survival import Survival
from odediscovery.result.units import constant_records, named_units, units_text
from odediscovery.runtime.arrays import Array
from odediscovery.stages.values import FoundBy

_STAGES = {
    "growing": "term by term on the integral form",
    "training": "networks trained from random starts, then pruned",
    "regression": "least squares over a library of terms",
    "textbook": "a law with a name, fitted to whole trajectories",
}


class Shown:
    """What a `Discovery` says of itself; its fields are documented there."""

    if TYPE_CHECKING:
        series: TimeSeries
        equations: Equations
        initial_values: Array
        front: tuple[FrontRow, ...]
        r2: float
        outcome: str
        messages: tuple[str, ...]
        degrees_of_freedom: int | None
        initial_value_errors: Array | None
        survival: Survival | None
        named: NamedConstants | None
        textbook: NamedConstants | None
        found_by: FoundBy
        population: Population | None
        profiles: tuple[Profile, ...]

        def equations_of(self, k: int) -> Equations: ...

    def equations_text(self, digits: int = 4) -> str:
        """The equations as lines of text with error bars, other constants to `digits` digits."""
        if self.population is not None:
            return self.population.equations_text(self.equations, digits)
        return self.equations.pretty(digits) if self.named is None else self.named.text(digits)

    @property
    def name(self) -> str:
        """What the chosen law is called: "logistic growth"; nothing where it has no name."""
        return next((row.name for row in self.front if row.selected), "")

    def name_text(self, digits: int = 4) -> str:
        """The name of the chosen law, and its constants as textbooks write them; nothing where it has none."""
        if not self.name or self.textbook is None:
            return self.name
        return f"{self.name}: {self.textbook.one_line(digits)}"

    def starts_text(self) -> str:
        """The fitted start values with their error bars, a line for each of a few trajectories."""
        return starts_text(self.series, self.initial_values, self.initial_value_errors)

    def source_text(self) -> str:
        """Which stage found the equations, in a sentence; nothing where none did, or none is known."""
        return f"found by: {self.found_by} ({_STAGES[self.found_by]})" if self.found_by else ""

    def stability_text(self) -> str:
        """How often each term came back in bootstrap fits; nothing where none were done."""
        if self.survival is None:
            return ""
        return self.survival.text(self.equations.states, monomial_names(self.equations))

    def latex(self) -> str:
        """The equations as a LaTeX `align` environment."""
        rows = [text.replace("=", "&=", 1) for text in self.equations.latex().values()]
        return "\\begin{align}\n  " + " \\\\\n  ".join(rows) + "\n\\end{align}\n"

    def summary(self) -> str:
        """Equations, start values, what to know, and the Pareto front, as text.

        >>> from odediscovery import discover, settings_for, simulate_system
        >>> print(discover(simulate_system("logistic"), settings_for(members=0)).summary())
        ... # doctest: +ELLIPSIS
        N' = ...
        """
        told = [
            self.equations_text(),
            self.name_text(),
            "" if self.population is None else self.population.table_text(),
            self.starts_text(),
            units_text(self.equations, self.series, self.named, self.textbook),
            self.stability_text(),
            profiles_text(self.profiles, monomial_names(self.equations)),
            headline(self),
        ]
        told += [f"note: {message}" for message in shown_notes(self.messages)]
        rows = ["Pareto front (* chosen):", *(_front_line(row) for row in self.front)]
        return "\n".join(text for text in [*told, *rows] if text)

    @property
    def terms(self) -> Frame:
        """One row a term: state, term, coefficient, standard_error, and stability if it was asked for."""
        names = monomial_names(self.equations)
        found = terms(self.equations, None if self.survival is None else self.survival.shares)
        columns = ["state", "term", "coefficient", "standard_error"] + ["stability"] * (self.survival is not None)
        return records_frame([{**row, "term": names[row["monomial"]]} for row in found], columns)

    @property
    def constants(self) -> Frame:
        """One row a constant: state, kind, term, of, value, standard_error, low and high (95 %), snapped.

        Of a form that was written down: name, value, standard_error, low and high. Where columns have
        units, `unit` comes last.
        """
        more = ["unit"] if self.series.units else []
        if self.named is not None:
            columns = ["name", "value", "standard_error", "low", "high"]
            own = self.named.rows(self.degrees_of_freedom)
            for row, unit in zip(own, named_units(self.named, self.series), strict=False):
                row["unit"] = unit
            return records_frame(own, columns + more)
        names = monomial_names(self.equations)
        rows = []
        for state, found in constant_records(self.equations, self.degrees_of_freedom, self.series.units).items():
            for row in found:
                low, high = row["interval"] or (None, None)
                inner = row["kind"].startswith("inner")
                term = None if inner else names[row["monomial"]]
                rows.append({**row, "state": state, "term": term, "low": low, "high": high})
        columns = ["state", "kind", "term", "of", "value", "standard_error", "low", "high", "snapped"]
        return records_frame(rows, columns + more)

    @property
    def residuals(self) -> Frame:
        """Data - curve at every sample, with the time (and the trajectory), nan where nothing was measured."""
        runs = [
            replace(run, values=run.values - self._curve(k), sigma=None, controls=None)
            for k, run in enumerate(self.series.trajectories)
        ]
        return replace(self.series, trajectories=tuple(runs), controls=()).to_frame()

    def plot(self, axes: Any = None) -> Any:
        """Data, curves and 95 % bands, one picture a state.

        Args:
            axes: matplotlib axes to draw in, one a state; None: a new figure.

        Returns:
            The axes [states]; `axes[0].figure` is the figure.
        """
        return odediscovery.plot_fit(self, axes)  # type: ignore[arg-type]

    def _curve(self, k: int) -> Array:
        """The equations through trajectory k from its fitted start [n, states]."""
        run = self.series.trajectories[k]
        return self.equations_of(k).simulate(self.initial_values[k], run.time, controls=run.controls)

    def __repr__(self) -> str:
        lines = self.equations_text().splitlines()
        short = [line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in lines]
        return "\n".join([*short, _verdict(self)])

    def _repr_html_(self) -> str:
        return odediscovery.notebook_html(self)  # type: ignore[arg-type]

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {_aligned(self.latex())}$"


# Notes that are shown; result.json has all.
MOST_NOTES = 5
HEADS = {"converged": "law found", "stopped": "stopped early", "poor-fit": "no law found"}
# Of a form that somebody wrote down, which nobody had to find.
HEADS_OF_FORMS = {**HEADS, "converged": "constants fitted", "poor-fit": "the form does not fit"}


DOUBTED, CONTESTED = ", with doubts", ", others about as good"


def doubts_of(messages: Sequence[str]) -> list[str]:
    """Those of the messages that doubt the law."""
    return [str(text) for text in messages if getattr(text, "weight", Weight.DATA) <= Weight.DOUBT]


def is_doubted(found: Shown) -> bool:
    """Whether a law is claimed that a note below doubts."""
    return found.outcome == "converged" and bool(doubts_of(found.messages))


def rows_about_as_good(found: Shown) -> list[FrontRow]:
    """Other rows of the front to which the data hardly prefer the claimed law; none where none is claimed."""
    if found.outcome == "poor-fit":
        return []
    chosen = next(row for row in found.front if row.selected)
    most = chosen.criterion + CRITERION.no_evidence
    close = [row for row in found.front if not row.selected and row.criterion < most]
    # The same law, with another count of what was fitted, is no rival.
    own = chosen.plain() if close else ""
    return [row for row in close if row.plain() != own]


def is_contested(found: Shown) -> bool:
    """Whether a law is claimed that the data hardly prefer to another row of the front."""
    return found.outcome == "converged" and bool(rows_about_as_good(found))


def state_scores(found: Shown) -> dict[str, float]:
    """R2 of every state that varies, by its name; empty where it is not known."""
    row = next(row for row in found.front if row.selected)
    each = [] if row.state_r2 is None else row.state_r2.tolist()
    return {state: r2 for state, r2 in zip(found.series.states, each, strict=False) if r2 == r2}


def is_of_a_form(found: Shown) -> bool:
    """Whether the equations are a form that somebody wrote down: constants of textbook laws that were found have
    names too."""
    return found.named is not None and found.found_by != "textbook"


def head(found: Shown) -> str:
    """How the fit ended, in a few words."""
    written = is_of_a_form(found) or (found.population is not None and found.population.written)
    heads = HEADS_OF_FORMS if written else HEADS
    return heads[found.outcome] + (DOUBTED if is_doubted(found) else CONTESTED * is_contested(found))


def headline(found: Shown) -> str:
    """How the fit ended, and R2 of all states and of each, on one line."""
    whole = f"{found.r2:z.6f}" if np.isfinite(found.r2) else "unknown"
    scores = state_scores(found)
    each = ", ".join(f"{state} {r2:z.4f}" for state, r2 in scores.items())
    return f"{head(found)}: R2 = {whole}" + f" ({each})" * (len(scores) > 1)


def describe_chain(found: Shown) -> str:
    """What a drawing of `network` is: a network only where one was trained."""
    if found.found_by == "training":
        return "What pruning left of the trained network"
    source = f": found by {found.found_by}, not by a network" if found.found_by else ""
    return f"The law as a chain of units{source}"


def shown_notes(messages: Sequence[str]) -> list[str]:
    """The notes that matter most, and how many more there are.

    >>> shown_notes(["a", "b"]), shown_notes(list("abcdefg"))[4:]
    (['a', 'b'], ['e', '2 more notes stand in result.json under "messages"'])
    """
    more = len(messages) - MOST_NOTES
    if more <= 0:
        return list(messages)
    rest = f'{more} more note{"s"[: more > 1]} stand{"s"[more > 1 :]} in result.json under "messages"'
    return [*messages[:MOST_NOTES], rest]


def _verdict(found: Shown) -> str:
    """(converged, R2 = 0.9579, 4 rows on the front)."""
    r2 = f"R2 = {found.r2:z.6f}" if np.isfinite(found.r2) else "R2 unknown"
    return f"({found.outcome}, {r2}, {len(found.front)} row{'s'[: len(found.front) != 1]} on the front)"


def _front_line(row: FrontRow) -> str:
    """One row of the front on one line, without error bars."""
    plain = row.plain().replace("\n", "; ")
    cut = plain if len(plain) <= MAX_LINE else f"{plain[: MAX_LINE - 3]}..."
    name = f"  [{row.name}]" if row.name else ""
    start = f"{'*' if row.selected else ' '} complexity {row.complexity:3d}  MSE {row.mse:.3g}  R2 {row.r2:z.6f}"
    return f"{start}  {cut}{name}"


def _aligned(latex: str) -> str:
    """An `align` environment as one that stands within a formula."""
    return latex.replace("{align}", "{aligned}").strip()
