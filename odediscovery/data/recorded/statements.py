"""What users say of their samples: known starts, limits of detection, cumulative counts, doses, breaks."""

from __future__ import annotations

import math

from odediscovery.errors import InputError

# The word for a start whose sample is exact, and for breaks that are to be found.
OF_SAMPLE, FOUND = "measured", "found"


def known_start(text: str) -> tuple[str, str | float]:
    """State and start of "conc = 0", "gut = dose" (a column) or "gut = measured".

    >>> known_start("gut = dose"), known_start("conc=0")
    (('gut', 'dose'), ('conc', 0.0))
    """
    state, value = _sides(text)
    if not state or not value:
        raise InputError(f"--starts expects STATE = NUMBER, COLUMN or {OF_SAMPLE}, got {text!r}")
    number = _number(value)
    return state, value if number is None else number


def detection_limit(text: str) -> tuple[str, float]:
    """State and limit of "virus = 50".

    >>> detection_limit("virus = 50")
    ('virus', 50.0)
    """
    state, value = _sides(text)
    limit = _number(value)
    if not state or limit is None or not limit > 0.0:
        raise InputError(f'--censored expects STATE = LIMIT above 0, such as "virus = 50", got {text!r}')
    return state, limit


def dose_column(text: str) -> tuple[str, str]:
    """State and column of "gut = dose", or of "conc = f*dose".

    >>> dose_column("gut = dose"), dose_column("conc = f*dose")
    (('gut', 'dose'), ('conc', 'dose'))
    """
    state, amount = _sides(text)
    factor, times, column = (part.strip() for part in amount.rpartition("*"))
    if not state or not column or (times and not factor.isidentifier()):
        raise InputError(
            f'--doses expects STATE = COLUMN of amounts, such as "gut = dose", or with a factor that is fitted, '
            f'"conc = f*dose", got {text!r}'
        )
    return state, column


def dose_factor(text: str) -> str:
    """Name of the factor of "conc = f*dose", by which amounts are in the unit of their state; nothing for none.

    >>> dose_factor("conc = f*dose"), dose_factor("gut = dose")
    ('f', '')
    """
    return _sides(text)[1].rpartition("*")[0].strip()


def break_times(text: str, time_name: str) -> list[float]:
    """The times in "t = 23, 41", increasing.

    >>> break_times("t = 23, 41", "t")
    [23.0, 41.0]
    """
    name, rest = _sides(text)
    times = [_number(part) for part in rest.split(",")]
    if name != time_name or None in times:
        raise InputError(f'--breaks expects times, such as "{time_name}=23,41", or "{FOUND}", got {text!r}')
    return sorted({time for time in times if time is not None})


def _sides(text: str) -> tuple[str, str]:
    """What stands before the first equals sign and behind it, nothing behind where there is none."""
    left, _, right = text.partition("=")
    return left.strip(), right.strip()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
