"""A result in a notebook: its equations, what to know and the front, as a piece of HTML.

It loads nothing and has no script or style sheet; the colours are those of the notebook.
"""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup, escape

from odediscovery.report.mathml import equation_rows
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.shown import headline, shown_notes
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
        Markup('<div style="margin:.3em 0;font-size:115%">{} {}</div>').format(left, Markup(" ").join(terms))
        for left, terms in equation_rows(found.equations)
    ]
    named = found.name_text() if found.named is None else found.named.one_line()
    facts = [text for text in (headline(found), named, *found.starts_text().splitlines()) if text]
    # A name and its value stay on one line.
    told = Markup("").join(Markup("<div>{}</div>").format(text.replace(" = ", HELD)) for text in facts)
    notes = Markup("").join(Markup("<li>{}</li>").format(text) for text in shown_notes(found.messages))
    front = Markup("").join(_front_row(row) for row in found.front[:MAX_ROWS])
    page = Markup(
        '<div class="odediscovery">{}<div style="opacity:.75">{}</div>{}'
        "<details><summary>Pareto front</summary><table><thead><tr><th></th><th>complexity</th><th>MSE</th>"
        "<th>R\N{SUPERSCRIPT TWO}</th><th>equations</th></tr></thead><tbody>{}</tbody></table></details></div>"
    ).format(Markup("").join(rows), told, Markup("<ul>{}</ul>").format(notes) if notes else "", front)
    return str(page)


def _front_row(row: FrontRow) -> Markup:
    lines = replace(row.equations, standard_errors=None).pretty(3).splitlines()
    short = [line if len(line) <= MAX_LETTERS else f"{line[: MAX_LETTERS - 3]}..." for line in lines]
    cells = ("\N{BLACK STAR}" if row.selected else "", row.complexity, f"{row.mse:.3g}", f"{row.r2:.6f}")
    plain = Markup("").join(Markup("<td>{}</td>").format(cell) for cell in cells)
    equations = Markup("<br/>").join(escape(line) for line in short)
    return Markup('<tr>{}<td style="text-align:left">{}</td></tr>').format(plain, equations)
