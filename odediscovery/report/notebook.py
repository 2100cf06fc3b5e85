"""A result in a notebook: its equations, what to know and the front, as a piece of HTML.

It loads nothing and has no script or style sheet; the colours are those of the notebook.
"""

from __future__ import annotations

from odediscovery.report import TEMPLATES
from odediscovery.report.mathml import equation_rows
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.shown import MOST_NOTES, headline
from odediscovery.result.units import units_text
from odediscovery.runtime.texts import HELD

# Rows of the front that a notebook shows, and letters of an equation.
MAX_ROWS, MAX_LETTERS = 30, 200


def notebook_html(found: Discovery) -> str:
    """Equations as mathematics, the outcome, notes, and the front, folded.

    Args:
        found: a result.

    >>> from odediscovery import discover, settings_for, simulate_system
    >>> html = notebook_html(discover(simulate_system("logistic"), settings_for(members=0)))
    >>> html.startswith("<div"), "<math>" in html, "<script" in html
    (True, True, False)
    """
    population = found.population
    groups = population.table() if population is not None and population.table_text() else None
    return TEMPLATES.get_template("notebook.html.j2").render(
        equations=equation_rows(found.equations),
        # A name and its value stay on one line.
        facts=[line.replace(" = ", HELD) for line in _facts(found)],
        notes=list(found.messages),
        most_notes=MOST_NOTES,
        groups=groups,
        more_groups=0 if groups is None or population is None else len(population.labels) - len(groups[1]),
        front=[(row, _lines(row)) for row in found.front[:MAX_ROWS]],
    )


def _facts(found: Discovery) -> list[str]:
    """What stands below the mathematics: how the fit ended, names, groups, starts, units, stability."""
    named = found.name_text() if found.named is None else found.named.one_line()
    # The mathematics shows the typical group; which constants differ, and how much, takes words.
    apart = "" if found.population is None else f"over groups:\n{found.equations_text()}"
    units = units_text(found.equations, found.series, found.named, found.textbook)
    told = (headline(found), named, apart, found.starts_text(), units, found.stability_text())
    return [line for text in told for line in text.splitlines()]


def _lines(row: FrontRow) -> list[str]:
    """The equations of a row, and its name."""
    lines = [line if len(line) <= MAX_LETTERS else f"{line[: MAX_LETTERS - 3]}..." for line in row.plain().splitlines()]
    return [*lines, f"[{row.name}]"] if row.name else lines
