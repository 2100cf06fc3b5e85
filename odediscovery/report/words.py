"""What a result means, in plain words: its outcome, its notes, how to get it again."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence
from itertools import count

import numpy as np
from markupsafe import Markup, escape

from odediscovery.data.controls import interpolation_by_control
from odediscovery.data.dates import date_of_time
from odediscovery.data.samples import measured
from odediscovery.data.series import group_column, sigma_columns
from odediscovery.result.discovery import Discovery
from odediscovery.result.shown import head, is_contested, is_doubted, is_of_a_form, shown_notes
from odediscovery.settings import OPTIONS, RECIPES, Settings

# What the folder keeps the fitted data under.
DATA = "data.csv"
# What a fit of the kept data must not be told again: samples that were held out are not there.
_APART = ("recipe", "hidden_states", "holdout")

# Every outcome with a word for the style sheet and what it means for somebody who wants to use the equations.
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


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of the fit.

    Args:
        kind: a word for the style sheet.
        title: a few words.
        meaning: a sentence or two.
    """

    kind: str
    title: str
    meaning: str


def outcome(found: Discovery) -> Outcome:
    """The outcome, with what it means for somebody who wants to use the equations."""
    case: str = found.outcome
    if case == "converged":
        case = "doubted" if is_doubted(found) else "contested" if is_contested(found) else case
    kind, meaning = MEANINGS[case]
    form = "of their form" if is_of_a_form(found) else "that were found"
    remarks = " Remarks stand below, under What to know." * bool(found.messages)
    return Outcome(kind, head(found).capitalize(), meaning.format(form=form, remarks=remarks))


def explained(r2: float) -> str:
    """The share of the variance that is explained, never rounded up to all of it.

    >>> explained(0.95786), explained(0.99999996), explained(1.0), explained(-0.2)
    ('95.8 %', 'more than 99.999 %', '100 %', 'none')
    """
    if not np.isfinite(r2):
        return "unknown"
    if r2 <= 0.0:
        return "none"
    if r2 > 1.0 - 1e-12:
        return "100 %"
    if r2 > 0.99999:
        return "more than 99.999 %"
    written = (f"{r2:.{digits}%}" for digits in count(1))
    return next(text for text in written if not text.startswith("100")).replace("%", " %")


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a sentence.

    >>> listed(["S", "I", "R"]), listed(list("abcdefgh"))
    ('S, I and R', 'a, b, c, d, e, f and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


def notes(found: Discovery) -> list[str]:
    """The messages as sentences that begin and end like sentences."""
    variables = (*found.equations.variables, found.series.time_name)
    sentences = []
    for message in shown_notes(found.messages):
        first = message.split(" ", 1)[0].rstrip("'")
        if first not in variables:
            message = message[:1].upper() + message[1:]
        sentences.append(message if message.endswith((".", "!", "?")) else f"{message}.")
    return sentences


def summary(found: Discovery) -> str:
    """What was fitted, in one sentence."""
    series = found.series
    first = min(float(run.time[0]) for run in series.trajectories)
    last = max(float(run.time[-1]) for run in series.trajectories)
    unit = series.units.get(series.time_name, "")
    runs = len(series.trajectories)
    several = f" of {runs} trajectories" if runs > 1 else ""
    lost = [np.isnan(run.values[:, measured(series)]).sum() for run in series.trajectories]
    missing = int(sum(lost))
    gaps = f", {missing} values missing" if missing else ""
    acting = f", with the input{'s'[: len(series.controls) > 1]} {listed(series.controls)}" if (series.controls) else ""
    if series.since:
        span = " to ".join(date_of_time(t, series.since, unit) for t in (first, last))
    else:
        span = f"{series.time_name} = {first:g} to {last:g}{' ' + unit if unit else ''}"
    return f"{series.n_samples} samples{several} from {span}{gaps}{acting}"


def command(found: Discovery) -> str | None:
    """The command that fits the kept data again with the same settings and seed.

    None where a column's name has a comma, which no list of names on a command line can have.
    """
    series, settings = found.series, found.settings
    parts = ["odediscovery", "fit", DATA]
    if series.time_name != "t":
        parts += ["--time", series.time_name]
    group = group_column(series)
    if group is not None:
        parts += ["--group", group]
    ways = interpolation_by_control(series)
    lists = {
        "--inputs": [n for n, way in ways.items() if way == "linear"],
        "--held-inputs": [n for n, way in ways.items() if way == "held"],
        "--sigma-columns": [f"{s}={c}" for s, c in sigma_columns(series).items()],
        "--hidden-states": list(settings.hidden_states),
    }
    if settings.hidden_states:
        seen = [s for s in series.states if s not in settings.hidden_states]
        lists = {"--states": seen, **lists}
    for option, names in lists.items():
        if any("," in name or name != name.strip() for name in names):
            return None
        if names:
            parts += [option, ",".join(names)]
    parts += [word for flag in _flags(settings) for word in flag]
    if found.survival is not None:
        parts += ["--bootstrap", str(found.survival.draws)]
    parts += ["--profile"] if found.profiles else []
    return " ".join(map(quoted, parts))


def quoted(word: str) -> str:
    """A word as a shell reads it, in double quotes where it has a prime and nothing that a shell would read in them.

    >>> print(quoted("S' = -b*I"), quoted("a b"), quoted("out"))
    "S' = -b*I" 'a b' out
    """
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def without_breaks(text: str) -> Markup:
    """Words as HTML in which no line breaks between the hyphens of an option.

    >>> print(without_breaks("say --conserve if S' < 1"))
    say <span class="option">--conserve</span> if S&#39; &lt; 1
    """
    return Markup(re.sub(r"--[a-z][a-z-]{1,24}", r'<span class="option">\g<0></span>', str(escape(text))))


def _of_recipe(settings: Settings) -> Settings:
    return Settings(**{"recipe": settings.recipe, **RECIPES[settings.recipe]})


def _flags(settings: Settings) -> list[list[str]]:
    """Options that differ from the recipe's own, and the seed."""
    own = _of_recipe(settings)
    found = [["--recipe", settings.recipe]] if settings.recipe != "default" else []
    for field in dataclasses.fields(Settings):
        value = getattr(settings, field.name)
        option = "--" + OPTIONS.get(field.name, field.name).replace("_", "-")
        if field.name in _APART or (value == getattr(own, field.name) and field.name != "seed"):
            continue
        if isinstance(value, bool):
            found.append([option if value else option.replace("--", "--no-", 1)])
        elif isinstance(value, tuple):
            found += [[option, str(item)] for item in value]
        elif value is not None:
            found.append([option, str(value)])
    return found


def settings_rows(settings: Settings) -> list[tuple[str, str, str, bool]]:
    """Every option, its value, what it is, and whether it was changed from the recipe's own."""
    own = _of_recipe(settings)
    rows = []
    for field in dataclasses.fields(Settings):
        value = getattr(settings, field.name)
        written = "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        written = {"True": "yes", "False": "no", "None": "", "": ""}.get(written, written)
        changed = value != getattr(own, field.name)
        rows.append((field.name.replace("_", " "), written or "\N{EN DASH}", field.metadata["help"], changed))
    return rows
