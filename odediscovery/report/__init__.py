"""A result as one page: `report.html`, a single file that loads nothing.

The modules beside this one make words, formulas and drawings; here they fill the template.
Jinja escapes every column name, and the security policy of the page allows only its own
script, identified by its hash, and no connections.

>>> from odediscovery import Equations
>>> readings(Equations.parse(["x"], {"x": "0.3*x"}), np.array([[2.0]]))[0][0].striptags()
'x grows in proportion to itself: alone, this would double it in 2.31 units of t.'
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from odediscovery.errors import InputError
from odediscovery.judge.notes import listed
from odediscovery.laws.expressions import constant
from odediscovery.laws.records import monomial_names
from odediscovery.plots.fit import MAX_BANDS
from odediscovery.plots.heatmaps import mixed_inputs
from odediscovery.plots.portraits import resting_points
from odediscovery.report import drawings, words
from odediscovery.report.forecast import Forecast, forecast_of, forecast_panels, forecast_rows
from odediscovery.report.mathml import equation_rows
from odediscovery.report.readings import FEW, readings
from odediscovery.result.discovery import MOST_NOTES, Discovery, describe_chain, headline, row_lines, state_scores
from odediscovery.result.named import units_text
from odediscovery.runtime.files import write_whole
from odediscovery.runtime.texts import HELD
from odediscovery.runtime.versions import versions

__all__ = ["Forecast", "forecast_of", "notebook_html", "readings", "report_html", "write_report"]


TEMPLATES = Environment(
    loader=PackageLoader("odediscovery.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
TEMPLATES.filters["number"] = lambda x: words.typeset(constant(x, digits=FEW)) if np.isfinite(x) else "unknown"
TEMPLATES.filters["difference"] = lambda x: f"+{x:.1f}" if np.isfinite(x) else ""
TEMPLATES.filters["without_breaks"] = words.without_breaks


def report_html(found: Discovery, forecast: Forecast | None = None, made_with: Mapping[str, str] | None = None) -> str:
    """Build the page of a result, with a forecast, if any, and the versions of the fit (default: current ones)."""
    script = TEMPLATES.loader.get_source(TEMPLATES, "report.js")[0]  # type: ignore[union-attr]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return TEMPLATES.get_template("report.html.j2").render(
        **_shown(found),
        forecast=forecast,
        forecast_panels=forecast and forecast_panels(found, forecast),
        forecast_rows=forecast and forecast_rows(found, forecast),
        script=Markup(script),
        script_hash=digest,
        versions=dict(made_with or versions()),
    )


def write_report(
    found: Discovery,
    path: str | os.PathLike[str],
    forecast: Forecast | None = None,
    made_with: Mapping[str, str] | None = None,
) -> None:
    """Write the page to a file, completely or not at all."""
    page = report_html(found, forecast, made_with).encode()
    try:
        write_whole(Path(path), page)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _shown(found: Discovery) -> dict[str, Any]:
    """What the page tells and draws of a result."""
    series, equations, runs = found.series, found.equations, drawings.drawn_runs(found)
    layers = () if found.network is None else found.network.layers
    front, rest = drawings.front(found, runs[0]), resting_points(found)
    visited = np.concatenate([one.visited for one in runs])
    told = readings(dataclasses.replace(equations, units=series.units), visited)
    return {
        "found": found,
        "words": words,
        "series": series,
        "states": equations.states,
        # For every equation both sides as MathML, and a sentence for each term.
        "equations": [(left, terms, own) for (left, terms), own in zip(equation_rows(equations), told, strict=True)],
        "title": listed(equations.states, most=6),
        "outcome": words.outcome(found),
        "notes": words.notes(found),
        "scores": state_scores(found),
        "named": "" if found.named is None else found.named.one_line(),
        "constants": words.constant_rows(found),
        "starts": words.start_rows(found),
        "stability": words.stability_rows(found),
        "profiles": [one.text(monomial_names(equations)) for one in found.profiles],
        "command": words.command(found),
        "noise": [(s, x) for s, x in zip(series.states, found.noise.tolist(), strict=True) if np.isfinite(x)],
        "fits": drawings.fits(found, runs),
        "left_out": drawings.left_out(series, runs),
        "bands_most": MAX_BANDS,
        "legend": [(i, one.label) for i, one in enumerate(runs)] if len(runs) > 1 else [],
        "front": front,
        "front_equations": [equation_rows(row.equations, errors=False) for row in front["rows"]],
        "portraits": drawings.portraits(found, runs, rest),
        "rest": [([words.typeset(constant(float(x))) for x in one.point], one.kind) for one in rest],
        "checks": drawings.state_checks(found),
        "correlations": drawings.correlation_drawing(found),
        "groups": drawings.groups(found),
        "pairs": math.comb(len(equations.states), 2),
        "network": drawings.network(found),
        "chain": describe_chain(found),
        "dense": any(layer.unit == "Dense" for layer in layers),
        "mixed": any(map(mixed_inputs, layers)),
    }


def notebook_html(found: Discovery) -> str:
    """Build the notebook view: equations as mathematics, the outcome, notes, and the folded front.

    Args:
        found: a result.

    >>> from odediscovery import discover, settings_for, simulate_system
    >>> html = notebook_html(discover(simulate_system("logistic"), settings_for(members=0)))
    >>> html.startswith("<div"), "<math>" in html, "<script" in html
    (True, True, False)
    """
    named = found.name_text() if found.named is None else found.named.one_line()
    # The mathematics shows the typical group; differences between groups need words.
    apart = "" if found.population is None else f"over groups:\n{found.equations_text()}"
    units = units_text(found.equations, found.series, found.named, found.textbook)
    told = (headline(found), named, apart, found.starts_text(), units, found.stability_text())
    return TEMPLATES.get_template("notebook.html.j2").render(
        equations=equation_rows(found.equations),
        # Keep a name and its value on one line.
        facts=[line.replace(" = ", HELD) for text in told for line in text.splitlines()],
        notes=list(found.messages),
        most_notes=MOST_NOTES,
        population=found.population,
        front=[(row, row_lines(row, 200)) for row in found.front[:30]],
    )
