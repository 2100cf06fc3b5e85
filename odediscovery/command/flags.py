"""Options of commands: their help, groups shared by commands, and the parsing of their values.

A group is a dataclass whose fields are options; `with_groups` expands it for typer.

    @app.command()
    @with_groups
    def measure(name: str, run: RunOptions = RunOptions(max_seconds=600.0)) -> None: ...
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from odediscovery.errors import InputError, unknown_name
from odediscovery.settings import Settings


def flag(text: str, default: object = None, *names: str) -> Any:
    """An option with this help and its displayed default; named after its argument without `names`."""
    shown = text if default is None or default is False or default == () else f"{text} (default: {default})"
    return typer.Option(*names, help=shown, show_default=False)


def argument(name: str, text: str) -> Any:
    """An argument with this help."""
    return typer.Argument(metavar=name, help=text, show_default=False)


def option(default: Any, text: str) -> Any:
    """A field of a group of options."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Where:
    """Where tasks run, and how many in parallel."""

    jobs: int = option(1, "tasks side by side, each in a process with one thread")
    backend: str = option("processes", "where: processes of this machine or dask")
    scheduler: str | None = option(None, "address of a dask scheduler: tcp://node1:8786")


_CONTINUED = "folder to write; one begun before is continued (default: bench-NAME-... named by the options)"


@dataclass(frozen=True)
class RunOptions:
    """Options of every measurement of many fits."""

    max_seconds: float = option(180.0, "time limit of a fit")
    seed: int = option(0, "random seed; of draws, the number of the first")
    out: Path | None = field(default=None, metadata={"help": _CONTINUED})
    quiet: bool = option(False, "no progress on standard error")


@dataclass(frozen=True)
class TaskOptions(RunOptions, Where):
    """Options of measurements whose fits run in parallel."""


@dataclass(frozen=True)
class Columns:
    """Options for the meaning of the columns of a table."""

    time: str | None = option(None, "column of times (default: t, time or the first)")
    states: str | None = option(None, "columns to model: S,I,R (default: all other numbers)")
    group: str | None = option(None, "columns that tell trajectories apart: a,b")
    sigma_columns: str | None = option(None, "columns of error bars: S=S_sd,I=I_sd")
    noise_level: str | None = option(None, "known noise, in the states' units: S=2")
    units: str | None = option(None, "units of states and time: S=g/L,t=h")
    inputs: str | None = option(None, "columns that act on the states: T,force; or t")
    held_inputs: str | None = option(None, "inputs that jump at samples: feed")
    column: str | None = option(None, "columns computed from others: R=recovered+deaths")


class GivenSettings(dict[str, Any]):
    """Fields of `Settings` by name; None for options that were not given."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command so that every field of its group arguments becomes an option."""
    groups: dict[str, Any] = {}
    parameters = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.annotation is GivenSettings:
            options = list(_settings())
        elif dataclasses.is_dataclass(parameter.annotation):
            # The default of the argument holds those of its fields.
            hints, own = get_type_hints(parameter.annotation), parameter.default
            options = [_option(one, hints[one.name], getattr(own, one.name)) for one in dataclasses.fields(own)]
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = parameter.annotation
        parameters += options

    def grouped(**given: Any) -> None:
        for name, group in groups.items():
            own = _settings() if group is GivenSettings else dataclasses.fields(group)
            given[name] = group(**{one.name: given.pop(one.name) for one in own})
        command(**given)

    grouped.__name__, grouped.__doc__ = command.__name__, command.__doc__
    grouped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return grouped


def _settings() -> Iterator[inspect.Parameter]:
    """The options that both a new and a continued fit accept; None keeps the value of the recipe."""
    hints = get_type_hints(Settings)
    for one in dataclasses.fields(Settings):
        if one.name not in ("recipe", "holdout", "hidden_states"):
            several = get_origin(hints[one.name]) is tuple
            yield _option(one, (list[str] if several else hints[one.name]) | None, None)


def _option(one: dataclasses.Field[Any], kind: Any, default: Any) -> inspect.Parameter:
    shown, named = one.default if default is None else default, one.metadata.get("flag")
    annotation = Annotated[kind, flag(one.metadata["help"], shown, *([named] if named else []))]
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def setting(name: str) -> Any:
    """The flag of one field of `Settings`, with its help and default."""
    one = Settings.__dataclass_fields__[name]
    return flag(one.metadata["help"], one.default)


def names_in(text: str | None, option: str) -> list[str] | None:
    """Split "a, b" into names; None without a text."""
    if text is None:
        return None
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    if not chosen:
        raise InputError(f"{option} expects names with commas between, got none")
    return chosen


def kinds_in(text: str | None) -> tuple[str, ...]:
    """Parse the kinds of pictures in --figures."""
    kinds = tuple(names_in(text, "--figures") or ())
    for kind in kinds:
        if kind not in (known := ("png", "pdf", "svg")):
            raise unknown_name("kind of picture", kind, known)
    return kinds


def assignments(texts: Sequence[str], option: str) -> dict[str, float]:
    """Parse ["S=100", ...] as numbers by name."""
    values = {}
    for text in texts:
        name, sign, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not sign or not math.isfinite(value):
            raise InputError(f"{option} expects NAME=NUMBER, got {text.strip()!r}")
        values[name.strip()] = value
    return values
