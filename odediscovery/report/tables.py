"""The numbers of a result as rows of tables: constants, start values, stability, a forecast."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from odediscovery.data.dates import date_of_time
from odediscovery.laws.printing import constant, law_constant
from odediscovery.laws.records import interval
from odediscovery.report.mathml import DIGITS, term_mathml
from odediscovery.report.parts import ONE, Bracket, Power, Side, Term, sides
from odediscovery.result.discovery import Discovery
from odediscovery.result.units import constant_records, named_units

MAX_STARTS = 60


@dataclass(frozen=True)
class Row:
    """One constant: what it is, its value to the place of its error, error and interval."""

    what: Markup
    value: Markup
    error: Markup
    interval: Markup
    unit: str = ""


def constant_rows(found: Discovery) -> dict[str, list[Row]]:
    """The constants of every equation, by state; of a form those with names, of no state; empty where none is known."""
    if found.named is not None:
        return {"": list(_named_rows(found))}
    products = _Products(found)
    return {
        state: [
            _row(entry, products.of(entry["kind"], entry["monomial"]), found.equations.spare)
            for entry in entries
            if not _plain(entry)
        ]
        for state, entries in constant_records(found.equations, found.degrees_of_freedom, found.series.units).items()
        if entries
    }


def _named_rows(found: Discovery) -> Iterator[Row]:
    """Every constant of a form, with its unit."""
    assert found.named is not None
    entries = found.named.rows(found.degrees_of_freedom)
    units = named_units(found.named, found.series) or [""] * len(entries)
    for entry, unit in zip(entries, units, strict=False):
        ends = None if entry["low"] is None or entry["high"] is None else (entry["low"], entry["high"])
        yield _estimate(_var(entry["name"]), entry["value"], entry["standard_error"], ends, unit or "")


def _estimate(
    what: Markup, value: float, error: float | None, ends: Sequence[float] | None, unit: str = "", spare: int = 0
) -> Row:
    """The row of a fitted value, with as many digits as its equation shows."""
    if error is None or not math.isfinite(error):
        return Row(what, typeset(constant(value)), Markup("not known"), Markup(""), unit)
    written = re.sub(r"\((\d+|\?)\)", "", law_constant(value, error, DIGITS, spare))
    return Row(what, typeset(written), rounded(error, error), between(ends, error), unit)


def _var(name: str) -> Markup:
    return Markup("<var>{}</var>").format(name)


class _Products:
    """The monomials of a law, and those in its brackets, as MathML."""

    def __init__(self, found: Discovery) -> None:
        self.dotted = any(len(name) > 1 for name in found.equations.variables)
        self.outer: dict[int | None, tuple[Power, ...]] = {}
        self.inner: dict[int | None, tuple[Power, ...]] = {}
        for side in sides(found.equations):
            self.outer |= {term.monomial: term.factors for term in side}
            for bracket in _brackets(side):
                self.inner |= {term.monomial: term.factors for term in bracket}

    def of(self, kind: str, monomial: int) -> Markup:
        factors = (self.inner if kind.startswith("inner") else self.outer)[monomial]
        if not factors:
            return Markup("<math><mn>1</mn></math>")
        return Markup("<math>{}</math>").format(term_mathml(Term(ONE, factors), self.dotted))


def _plain(entry: dict[str, Any]) -> bool:
    """Whether it is an exponent that nobody writes."""
    return "exponent" in entry["kind"] and bool(entry["snapped"]) and entry["value"] == 1.0


def _brackets(side: Side) -> Iterator[Side]:
    for term in side:
        for p in term.factors:
            if isinstance(p.base, Bracket):
                yield p.base.inside


def _row(entry: dict[str, Any], product: Markup, spare: int) -> Row:
    kind = entry["kind"]
    if kind == "coefficient":
        what = Markup("factor of {}").format(product)
    elif kind == "inner_weight":
        what = Markup("weight of {} in brackets").format(product)
    else:
        # `terms` calls the sum in brackets "sum 0".
        of = Markup("the bracket") if entry["of"].startswith("sum ") else _var(entry["of"])
        what = Markup("exponent of {} in {}").format(of, product)
    value, unit = entry["value"], entry.get("unit") or ""
    if entry["snapped"]:
        return Row(what, typeset(constant(value, 0.0)), Markup("held"), Markup(""), unit)
    return _estimate(what, value, entry["standard_error"], entry["interval"], unit, spare)


def rounded(value: float, error: float) -> Markup:
    """A value to the place of the second digit of its error, without the error.

    >>> rounded(0.0600312, 0.000118)
    Markup('0.06003')
    """
    return typeset(re.sub(r"\(\d+\)", "", constant(value, error)))


def between(ends: Sequence[float] | None, error: float) -> Markup:
    """An interval."""
    if ends is None:
        return Markup("")
    return Markup("{} to {}").format(*(rounded(end, error) for end in ends))


def typeset(written: str) -> Markup:
    """A number with a minus sign instead of a hyphen and its power of ten raised.

    >>> typeset("-1.5e-7")
    Markup('−1.5\xa0×\xa010<sup>−7</sup>')
    """
    digits, _, power = written.replace("-", "\N{MINUS SIGN}").partition("e")
    if not power:
        return Markup("{}").format(digits)
    power = power.replace("+", "").replace("\N{MINUS SIGN}0", "\N{MINUS SIGN}").lstrip("0")
    return Markup("{}\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}10<sup>{}</sup>").format(digits, power)


def start_rows(found: Discovery) -> list[tuple[str, str, list[Row]]]:
    """Start values of the first trajectories: label, time, a row a state."""
    rows = []
    errors = found.initial_value_errors
    most = max(MAX_STARTS // len(found.equations.states), 1)
    runs = found.series.trajectories[:most]
    for j, run in enumerate(runs):
        own = []
        for k, state in enumerate(found.equations.states):
            value = float(found.initial_values[j, k])
            error = math.nan if errors is None else float(errors[j, k])
            ends = interval(value, error, found.degrees_of_freedom) if math.isfinite(error) else None
            own.append(_estimate(_var(state), value, error, ends))
        series = found.series
        date = f" ({date_of_time(run.time[0], series.since, series.units[series.time_name])})" if series.since else ""
        rows.append((run.label, f"{run.time[0]:g}{date}", own))
    return rows


@dataclass(frozen=True)
class Share:
    """In what share of bootstrap fits a term came back; `printed` if it is in the equations."""

    term: Markup
    share: float
    printed: bool


def stability_rows(found: Discovery) -> dict[str, list[Share]]:
    """Shares of the terms of every equation, by state; empty without a bootstrap."""
    survival = found.survival
    if survival is None:
        return {}
    products, rows = _Products(found), {}
    for state, row in zip(found.equations.states, survival.shares.tolist(), strict=True):
        own = [
            Share(products.of("coefficient", j), share, True) for j, share in enumerate(row) if not math.isnan(share)
        ]
        own += [
            Share(Markup("{}").format(term), share, False) for owner, term, share in survival.others if owner == state
        ]
        rows[state] = own
    return rows
