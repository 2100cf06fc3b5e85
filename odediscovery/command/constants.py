"""`odediscovery fit-constants`: a law that somebody wrote down goes in, its constants come out."""

# Imports inside the functions are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from odediscovery.command.console import print_discovery
from odediscovery.command.fit import COLUMNS, Columns, measured_series
from odediscovery.command.flags import argument, assignments, flag
from odediscovery.command.streams import note, say
from odediscovery.errors import InputError


def fit_constants(
    data: Annotated[Path, argument("DATA.csv", "table, one row a sample")],
    law: Annotated[Path | None, flag("text file of the law, a line a state: N' = r*N*(1 - N/K)")] = None,
    start: Annotated[list[str] | None, flag("where the fit of a constant begins: r=0.5", "sought")] = None,
    columns: Columns = COLUMNS,
    beside: Annotated[Path | None, flag("folder of a fit of the same table, to compare with")] = None,
    out: Annotated[Path | None, flag("folder to write", "none")] = None,
) -> None:
    """Fit the named constants of a law of your own, with error bars."""
    if law is None:
        raise InputError("expected a law, --law FILE: a text file with a line such as N' = r*N*(1 - N/K)")
    text = _text(law)
    given = assignments(start or [], "--start")
    series = measured_series(data, columns)
    from odediscovery.discovery.fit_constants import fit_constants as fitted

    found = fitted(series, text, start=given or None)
    print_discovery(found)
    if beside is not None:
        from odediscovery.result.compare import compare
        from odediscovery.result.discovery import Discovery

        say()
        say(repr(compare(found, Discovery.load(beside), names=[law.stem, str(beside)])))
    if out is not None:
        found.save(out)
        note(f"written to {out}; `odediscovery report {out}` makes its page")


def _text(path: Path) -> str:
    """The text of a law."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text in UTF-8"
        raise InputError(f"--law {path}: cannot be read ({reason})") from None
