"""A result in a notebook: its equations, what to know and the front, as a piece of HTML.

It loads nothing and has no script or style sheet; the colours are those of the notebook.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from odediscovery.report.mathml import equation_rows
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.shown import MOST_NOTES, headline
from odediscovery.result.units import units_text
from odediscovery.runtime.texts import HELD

# Rows of the front that a notebook shows.
MAX_ROWS = 30
MAX_LETTERS = 200


def notebook_html(found: Discovery) -> str:
    """Equations as mathematics, the outcome, notes, and the front, folded.

    Args:
        found: a result.

    >>> from odediscovery import discover, settings_for, simulate_system
    >>> html = notebook_html(discover(simulate_system("logistic"), settings_for(members=0)))
    >>> html.startswith("<div"), "<math>" in html, "<script" in html
    (True, True, False)
    """
    rows = [
        Markup('<div style="margin:.3em 0;font-size:115%">{} {}</div>').format(
            left, Markup(" ").join(map(_whole, terms))
        )
        for left, terms in equation_rows(found.equations)
    ]
    # A name and its value stay on one line.
    told = Markup("").join(Markup("<div>{}</div>").format(text.replace(" = ", HELD)) for text in _facts(found))
    front = Markup("").join(_front_row(row) for row in found.front[:MAX_ROWS])
    page = Markup(
        '<div class="odediscovery">{}<div style="opacity:.75">{}</div>{}{}'
        "<details><summary>Pareto front</summary><table><thead><tr><th></th><th>complexity</th><th>MSE</th>"
        "<th>R\N{SUPERSCRIPT TWO}</th><th>equations</th></tr></thead><tbody>{}</tbody></table></details></div>"
    ).format(Markup("").join(rows), told, _notes(found.messages), _groups(found), front)
    return str(page)


def _whole(term: Markup) -> Markup:
    """A term that goes to the next line as a whole; Firefox breaks within formulas."""
    return Markup('<span style="display:inline-block">{}</span>').format(term)


def _facts(found: Discovery) -> list[str]:
    """What stands below the mathematics: how the fit ended, names, groups, starts, units, stability."""
    named = found.name_text() if found.named is None else found.named.one_line()
    # The mathematics shows the typical group; which constants differ, and how much, takes words.
    apart = "" if found.population is None else f"over groups:\n{found.equations_text()}"
    units = units_text(found.equations, found.series, found.named, found.textbook)
    told = (headline(found), named, apart, found.starts_text(), units, found.stability_text())
    return [line for text in told for line in text.splitlines()]


def _notes(messages: Sequence[str]) -> Markup:
    """The notes as a list, those that matter less folded."""
    items = [Markup("<li>{}</li>").format(text) for text in messages]
    first, rest = (Markup("").join(part) for part in (items[:MOST_NOTES], items[MOST_NOTES:]))
    shown = Markup("<ul>{}</ul>").format(first) if first else Markup("")
    more = len(items) - MOST_NOTES
    said = f"{more} more note{'s'[: more > 1]}"
    return shown + (Markup("<details><summary>{}</summary><ul>{}</ul></details>").format(said, rest) if rest else "")


def _groups(found: Discovery) -> Markup:
    """The constants of every group, folded; nothing where none differ."""
    if found.population is None or not found.population.table_text():
        return Markup("")
    header, rows = found.population.table()
    head = Markup("").join(Markup("<th>{}</th>").format(cell) for cell in header)
    cells = (Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row) for row in rows)
    body = Markup("").join(Markup("<tr>{}</tr>").format(row) for row in cells)
    more = len(found.population.labels) - len(rows)
    rest = Markup("<div>{} more groups stand in result.json</div>").format(more) if more > 0 else ""
    return Markup(
        "<details><summary>Groups</summary><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}</details>"
    ).format(head, body, rest)


def _front_row(row: FrontRow) -> Markup:
    lines = row.plain().splitlines()
    short = [line if len(line) <= MAX_LETTERS else f"{line[: MAX_LETTERS - 3]}..." for line in lines]
    cells = ("\N{BLACK STAR}" if row.selected else "", row.complexity, f"{row.mse:.3g}", f"{row.r2:z.6f}")
    plain = Markup("").join(Markup("<td>{}</td>").format(cell) for cell in cells)
    equations = Markup("<br/>").join(escape(line) for line in [*short, *([f"[{row.name}]"] if row.name else [])])
    return Markup('<tr>{}<td style="text-align:left">{}</td></tr>').format(plain, equations)
