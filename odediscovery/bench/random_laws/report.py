"""How often random laws are found: a line for each family, and what was printed instead of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odediscovery.bench.random_laws.systems import FAMILIES
from odediscovery.bench.rows import Row
from odediscovery.bench.suites.problems import SuiteSystem
from odediscovery.bench.summary import (
    GOOD,
    count_above,
    figure,
    in_short,
    late_seconds,
    median_seconds,
    options_of,
    table,
)
from odediscovery.errors import InputError

HEADER = ("family", "EXACT", "share", "COEF", "RECON > 0.9", "GEN > 0.9", "failed", "median s", "95 % s", "total s")


def markdown(study: Mapping[str, Any], rows: Sequence[Row], systems: Sequence[SuiteSystem]) -> str:
    """The table of the families, then the systems that were not found with both laws.

    Args:
        study: what the rows share.
        rows: of these systems.
        systems: that were asked for.
    """
    methods = list(dict.fromkeys(row["method"] for row in rows))
    options = options_of({name: value for name, value in study.items() if name != "drop"})
    parts = [f"# {study['suite']}\n\n`odediscovery bench {study['suite']} {options}`; seconds of the processor."]
    for method in methods:
        own = [row for row in rows if row["method"] == method]
        title = f"## {method}\n\n" if len(methods) > 1 else ""
        parts.append(title + by_family(own))
    truths = {system.id: system for system in systems}
    missed = [_missed(row, truths[row["id"]]) for row in rows if not row["exact"]]
    if missed:
        parts.append("## Not exact\n\n" + "\n\n".join(missed))
    return "\n\n".join(parts) + "\n"


def by_family(rows: Sequence[Row]) -> str:
    """A line for each family, and one for all."""
    groups = [(family, [row for row in rows if row["representation"] == family]) for family in FAMILIES]
    return table(HEADER, [_line(name, own) for name, own in [*groups, ("all", rows)] if own])


def _line(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    n = len(rows)
    exact, coef, failed = (sum(bool(row[key]) for row in rows) for key in ("exact", "coef", "failed"))
    above = [str(count_above(rows, key, GOOD)) for key in ("recon", "gen")]
    return (
        name,
        f"{exact} of {n}",
        f"{exact / n:.0%}",
        str(coef),
        *above,
        str(failed),
        median_seconds(rows),
        f"{late_seconds(rows):.1f}",
        f"{sum(row['seconds'] for row in rows):.0f}",
    )


def _missed(row: Row, system: SuiteSystem) -> str:
    """Both laws of a system that was not found."""
    ended = row["failed"] or f"{row['outcome']}, RECON {figure(row['recon'])}, GEN {figure(row['gen'])}"
    shape = f"{system.n_samples} samples to t = {system.t_span[1]:g}"
    found = "-" if row["equations"] is None else _printed(row["equations"])
    return (
        f"**{row['id']}** {row['method']}, {shape}, {row['seconds']:.1f} s: {ended}\n\n"
        f"    true:  {in_short(system.equations.texts())}\n    found: {found}"
    )


def _printed(texts: Mapping[str, str]) -> str:
    try:
        return in_short(texts)
    except InputError:
        return "; ".join(texts.values())
