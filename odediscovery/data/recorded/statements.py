"""What users say of their samples: known starts, limits of detection, cumulative counts."""

from __future__ import annotations

import math

from odediscovery.errors import InputError

# The word for a start whose sample is exact.
OF_SAMPLE = "measured"


def known_start(text: str) -> tuple[str, str | float]:
    """State and start of "conc = 0", "gut = dose" (a column) or "gut = measured".

    Raises:
        InputError: no such pair.

    >>> known_start("gut = dose"), known_start("conc=0")
    (('gut', 'dose'), ('conc', 0.0))
    """
    state, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not state or not value:
        raise InputError(f"--starts expects STATE = NUMBER, COLUMN or {OF_SAMPLE}, got {text!r}")
    number = _number(value)
    return state, value if number is None else number


def detection_limit(text: str) -> tuple[str, float]:
    """State and limit of "virus = 50".

    Raises:
        InputError: no such pair, or a limit that is not above 0.

    >>> detection_limit("virus = 50")
    ('virus', 50.0)
    """
    state, sign, value = (part.strip() for part in text.partition("="))
    limit = _number(value)
    if not sign or not state or limit is None or not limit > 0.0:
        raise InputError(f'--censored expects STATE = LIMIT above 0, such as "virus = 50", got {text!r}')
    return state, limit


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
