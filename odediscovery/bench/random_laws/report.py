"""How often random laws are found: a line for each family, and what was printed instead of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odediscovery.bench.random_laws.systems import FAMILIES
from odediscovery.bench.rows import Row
from odediscovery.bench.suites.problems import SuiteSystem
from odediscovery.bench.summary import (
    GOOD,
    MEDIAN_AND_LATE,
    Cell,
    by,
    figure,
    grouped,
    hits,
    missed,
    number,
    options_of,
    share,
    total_seconds,
)

COLUMNS: Mapping[str, Cell] = {
    "EXACT": hits("exact"),
    "share": share("exact"),
    "COEF": number("coef"),
    "RECON > 0.9": number("recon", GOOD),
    "GEN > 0.9": number("gen", GOOD),
    "failed": number("failed"),
    **MEDIAN_AND_LATE,
    "total s": total_seconds,
}


def markdown(study: Mapping[str, Any], rows: Sequence[Row], systems: Sequence[SuiteSystem]) -> str:
    """The table of the families, then the systems that were not found with both laws.

    Args:
        study: what the rows share.
        rows: of these systems.
        systems: that were asked for.
    """
    options = options_of({name: value for name, value in study.items() if name != "drop"})
    parts = [f"# {study['suite']}\n\n`odediscovery bench {study['suite']} {options}`; seconds of the processor."]
    methods = by(rows, "method")
    for method, own in methods.items():
        title = f"## {method}\n\n" if len(methods) > 1 else ""
        families = by(own, "representation")
        groups = {family: families.get(family, []) for family in FAMILIES} | {"all": own}
        parts.append(title + grouped("family", groups, COLUMNS))
    truths = {system.id: system.equations for system in systems}
    return "\n\n".join([*parts, *missed(rows, truths, _detail)]) + "\n"


def _detail(row: Row) -> str:
    return f"{row['method']}, {row['outcome']}, RECON {figure(row['recon'])}, GEN {figure(row['gen'])}"
