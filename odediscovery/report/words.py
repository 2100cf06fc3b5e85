"""A result in plain words: outcome, notes, constants, and the command that reproduces it."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from odediscovery.data.dates import date_of_time
from odediscovery.data.series import group_column, interpolation_by_control, measured, pooled, sigma_columns
from odediscovery.judge.notes import listed
from odediscovery.laws.expressions import ONE, Bracket, Term, constant, law_constant
from odediscovery.laws.records import interval
from odediscovery.report.mathml import DIGITS, name_text, sides, split_number, term_mathml
from odediscovery.result.discovery import Discovery, head, is_of_a_form, shown_notes, verdict
from odediscovery.result.named import constant_records, named_rows
from odediscovery.result.survival import shares_of
from odediscovery.settings import Settings, flag_of, settings_for

# Every verdict with a word for the style sheet and its meaning for users of the equations.
MEANINGS = {
    "poor-fit": (
        "poor",
        "The equations below are the best {form}, but the data do not support them as a law; the reasons stand below, "
        "under What to know. Do not conclude or predict from them.",
    ),
    "stopped": (
        "stopped",
        "The search was ended before it was done: these are the best equations so far; odediscovery fit --resume goes "
        "on from them.",
    ),
    "doubted": (
        "stopped",
        "The equations explain the data, but something speaks against them: it stands first under What to know.",
    ),
    "contested": (
        "stopped",
        "The equations explain the data, but other rows of the front do so about as well: read all of them before you "
        "believe one.",
    ),
    "converged": ("good", "The equations explain the data.{remarks}"),
}


class Outcome(NamedTuple):
    """Outcome of a fit: a word for the style sheet, a title, and one or two sentences."""

    kind: str
    title: str
    meaning: str


def outcome(found: Discovery) -> Outcome:
    """Describe the outcome and its meaning for users of the equations."""
    kind, meaning = MEANINGS[verdict(found)]
    form = "of their form" if is_of_a_form(found) else "that were found"
    remarks = " Remarks stand below, under What to know." * bool(found.messages)
    return Outcome(kind, head(found).capitalize(), meaning.format(form=form, remarks=remarks))


def explained(r2: float) -> str:
    """Write the explained share of the variance, never rounded up to 100 %."""
    if not np.isfinite(r2):
        return "unknown"
    if r2 <= 0.0:
        return "none"
    if r2 > 0.99999:
        return "100 %" if r2 > 1.0 - 1e-12 else "more than 99.999 %"
    written = (f"{r2:.{digits}%}" for digits in count(1))
    return next(text for text in written if not text.startswith("100")).replace("%", " %")


def notes(found: Discovery) -> list[str]:
    """Turn messages into sentences with capital letter and full stop."""
    variables = (*found.equations.variables, found.series.time_name)
    sentences = []
    for message in shown_notes(found.messages):
        first = message.split(" ", 1)[0].rstrip("'")
        if first not in variables:
            message = message[:1].upper() + message[1:]
        sentences.append(message if message.endswith((".", "!", "?")) else f"{message}.")
    return sentences


def summary(found: Discovery) -> str:
    """Describe the fitted data in one line."""
    series = found.series
    first = min(float(run.time[0]) for run in series.trajectories)
    last = max(float(run.time[-1]) for run in series.trajectories)
    unit = series.units.get(series.time_name, "")
    runs = len(series.trajectories)
    several = f" of {runs} trajectories" if runs > 1 else ""
    missing = int(np.isnan(pooled(series)[:, measured(series)]).sum())
    gaps = f", {missing} values missing" if missing else ""
    inputs = series.controls
    acting = f", with the input{'s'[: len(inputs) > 1]} {listed(inputs, most=6)}" if inputs else ""
    if series.since:
        span = " to ".join(date_of_time(t, series.since, unit) for t in (first, last))
    else:
        span = f"{series.time_name} = {first:g} to {last:g}{' ' + unit if unit else ''}"
    return f"{series.n_samples} samples{several} from {span}{gaps}{acting}"


def command(found: Discovery) -> str | None:
    """The command that repeats the fit of the saved data; None if a name has a comma, which lists cannot contain."""
    series, settings = found.series, found.settings
    parts = ["odediscovery", "fit", "data.csv"]
    if series.time_name != "t":
        parts += ["--time", series.time_name]
    group = group_column(series)
    if group is not None:
        parts += ["--group", group]
    ways = interpolation_by_control(series)
    hidden = list(settings.hidden_states)
    lists = {
        "--states": [s for s in series.states if hidden and s not in hidden],
        "--inputs": [n for n, way in ways.items() if way == "linear"],
        "--held-inputs": [n for n, way in ways.items() if way == "held"],
        "--sigma-columns": [f"{s}={c}" for s, c in sigma_columns(series).items()],
        "--hidden-states": hidden,
    }
    for option, names in lists.items():
        if any("," in name or name != name.strip() for name in names):
            return None
        if names:
            parts += [option, ",".join(names)]
    parts += _flags(settings)
    parts += [] if found.survival is None else ["--bootstrap", str(found.survival.draws)]
    parts += ["--profile"] * bool(found.profiles)
    return " ".join(map(quoted, parts))


def quoted(word: str) -> str:
    """Quote a word for a shell, in double quotes if it has a prime but no character special within them."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def without_breaks(text: str) -> Markup:
    """Convert text to HTML in which lines do not break within an option."""
    return Markup(re.sub(r"--[a-z][a-z-]{1,24}", r'<span class="option">\g<0></span>', str(escape(text))))


def _chosen_settings(settings: Settings) -> Iterator[tuple[dataclasses.Field[Any], Any, bool]]:
    """Every option, its value, and whether it differs from the recipe."""
    own = settings_for(settings.recipe)
    for field in dataclasses.fields(Settings):
        value = getattr(settings, field.name)
        yield field, value, value != getattr(own, field.name)


def _flags(settings: Settings) -> list[str]:
    """Flags of the options that differ from the recipe, and the seed."""
    words = ["--recipe", settings.recipe] if settings.recipe != "default" else []
    for field, value, changed in _chosen_settings(settings):
        # Hidden states are among the columns, and held-out samples are not saved.
        if field.name in ("recipe", "hidden_states", "holdout") or not (changed or field.name == "seed"):
            continue
        option = flag_of(field.name)
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif value is not None:
            items = value if isinstance(value, tuple) else (value,)
            words += [word for item in items for word in (option, str(item))]
    return words


def settings_rows(settings: Settings) -> list[tuple[str, str, str, bool]]:
    """Rows of all options: name, value, help, and whether the value differs from the recipe."""
    rows = []
    for field, value, changed in _chosen_settings(settings):
        written = "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        written = {"True": "yes", "False": "no", "None": "", "": ""}.get(written, written)
        rows.append((field.name.replace("_", " "), written or "\N{EN DASH}", field.metadata["help"], changed))
    return rows


class Row(NamedTuple):
    """One constant: description, value rounded to its error, error and interval."""

    what: Markup
    value: Markup
    error: Markup
    interval: Markup
    unit: str = ""


def constant_rows(found: Discovery) -> dict[str, list[Row]]:
    """Rows of the constants by state, or of the named constants under ""; empty if no constants are known."""
    if found.named is not None:
        rows = []
        for one in named_rows(found.named, found.series, found.degrees_of_freedom):
            ends = None if one["low"] is None else (one["low"], one["high"])
            rows.append(_estimate(name_text(one["name"]), one["value"], one["standard_error"], ends, one["unit"] or ""))
        return {"": rows}
    products = _products(found)
    records = constant_records(found.equations, found.degrees_of_freedom, found.series.units)
    return {
        state: [_row(entry, products, found.equations.spare) for entry in entries if not _plain(entry)]
        for state, entries in records.items()
        if entries
    }


def _estimate(
    what: Markup, value: float, error: float | None, ends: Sequence[float] | None, unit: str = "", spare: int = 0
) -> Row:
    """Row of a fitted value, with the same digits as in its equation."""
    if error is None or not math.isfinite(error):
        return Row(what, typeset(constant(value)), Markup("not known"), Markup(""), unit)
    shown = typeset(law_constant(value, error, DIGITS, spare))
    return Row(what, shown, typeset(constant(error, error)), between(ends, error), unit)


def _products(found: Discovery) -> dict[tuple[bool, int | None], Markup]:
    """Monomials of a law (False) and in its brackets (True) by their positions, as MathML."""
    dotted, written = any(len(name) > 1 for name in found.equations.variables), {}
    for side in sides(found.equations):
        brackets = [p.base.inside for term in side for p in term.factors if isinstance(p.base, Bracket)]
        for inner, of in ((False, side), *((True, inside) for inside in brackets)):
            for term in of:
                product = term_mathml(Term(ONE, term.factors), dotted)
                written[inner, term.monomial] = Markup("<math>{}</math>").format(product)
    return written


def _plain(entry: dict[str, Any]) -> bool:
    """Whether an entry is an exponent of 1, which is not written."""
    return "exponent" in entry["kind"] and bool(entry["snapped"]) and entry["value"] == 1.0


def _row(entry: dict[str, Any], products: dict[tuple[bool, int | None], Markup], spare: int) -> Row:
    kind = entry["kind"]
    product = products[kind.startswith("inner"), entry["monomial"]]
    if kind == "coefficient":
        what = Markup("factor of {}").format(product)
    elif kind == "inner_weight":
        what = Markup("weight of {} in brackets").format(product)
    else:
        # `terms` calls the sum in brackets "sum 0".
        of = Markup("the bracket") if entry["of"].startswith("sum ") else name_text(entry["of"])
        what = Markup("exponent of {} in {}").format(of, product)
    value, unit = entry["value"], entry.get("unit") or ""
    if entry["snapped"]:
        return Row(what, typeset(constant(value, 0.0)), Markup("held"), Markup(""), unit)
    return _estimate(what, value, entry["standard_error"], entry["interval"], unit, spare)


def between(ends: Sequence[float] | None, error: float) -> Markup:
    """Write an interval, "" if unknown."""
    return Markup("") if ends is None else Markup("{} to {}").format(*(typeset(constant(end, error)) for end in ends))


def typeset(written: str) -> Markup:
    """Typeset a number without its error, with a minus sign instead of a hyphen and a raised power of ten."""
    digits, _, power = split_number(written)
    if not power:
        return Markup(digits)
    power = power.replace("+", "").replace("\N{MINUS SIGN}0", "\N{MINUS SIGN}").lstrip("0")
    return Markup("{}\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}10<sup>{}</sup>").format(digits, power)


def start_rows(found: Discovery) -> list[tuple[str, str, list[Row]]]:
    """Start values of the first trajectories: label, time, one row per state."""
    rows, series, values = [], found.series, found.initial_values
    errors = np.full_like(values, np.nan) if found.initial_value_errors is None else found.initial_value_errors
    most = max(60 // len(found.equations.states), 1)
    for j, run in enumerate(series.trajectories[:most]):
        own = [
            _estimate(name_text(state), value, error, interval(value, error, found.degrees_of_freedom))
            for state, value, error in zip(found.equations.states, values[j].tolist(), errors[j].tolist(), strict=True)
        ]
        date = f" ({date_of_time(run.time[0], series.since, series.units[series.time_name])})" if series.since else ""
        rows.append((run.label, f"{run.time[0]:g}{date}", own))
    return rows


class Share(NamedTuple):
    """Share of bootstrap fits with a term; `printed` if it is in the equations."""

    term: Markup
    share: float
    printed: bool


def stability_rows(found: Discovery) -> dict[str, list[Share]]:
    """Shares of the terms of every equation, by state; empty without a bootstrap."""
    survival = found.survival
    if survival is None:
        return {}
    products = _products(found)
    return {
        state: [Share(products[False, j], share, True) for j, share in kept]
        + [Share(Markup("{}").format(term), share, False) for term, share in came]
        for state, kept, came in shares_of(survival, found.equations.states)
    }
