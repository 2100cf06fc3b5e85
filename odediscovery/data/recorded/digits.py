"""How many digits measured values were written with, and the noise that this makes.

    y = x + e,    e uniform within half a unit of the last digit:    sigma = unit / sqrt(12)

m neighbours that were written alike share one error: each counts as 1 / m of a sample, sigma sqrt(m).

Values are written with as many decimal places (3.25, 0.07) or with as many significant digits
(97.47, 0.01234) throughout. Which one shows where small values have finer digits than large ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds


@dataclass(frozen=True)
class DigitThresholds(Thresholds):
    """Which digits are looked for."""

    decimals: tuple[int, int] = (-6, 16)  # range of decimal places that are tried
    significant: int = 12  # most significant digits that are tried
    same_digit: float = 1e-14  # a number equals its rounded value to this [largest value]


DIGITS = DigitThresholds()


def resolution(values: Array) -> float:
    """The last decimal place written, as a number: 0.01 for 3.25 and 4.1; 0 where there is none.

    >>> resolution(np.array([3.25, 4.1]))
    0.01
    """
    seen = values[np.isfinite(values)]
    largest = np.max(np.abs(seen), initial=0.0)
    for digits in range(*DIGITS.decimals):
        if np.all(np.abs(np.round(seen, digits) - seen) <= DIGITS.same_digit * largest):
            return float(10.0**-digits)
    return 0.0


def significant_digits(values: Array) -> int | None:
    """With how many significant digits values are written; None if with all that a float has.

    >>> significant_digits(np.array([97.47, 0.01234]))
    4
    """
    seen = values[np.isfinite(values) & (values != 0)]
    place = np.floor(np.log10(np.abs(seen)))
    for digits in range(1, DIGITS.significant + 1):
        unit = 10.0 ** (place + 1 - digits)
        if np.all(np.abs(np.round(seen / unit) * unit - seen) <= DIGITS.same_digit * np.abs(seen)):
            return digits
    return None


def rounding_step(values: Array) -> Array:
    """The last digit written of every value, as a number: 0 where there is none.

    The likelier of decimal places and significant digits: every zero at the end of a number that had to be no
    zero is a chance of one in ten.

    >>> rounding_step(np.array([97.47, 9.013, 0.5012])).round(6).tolist()
    [0.01, 0.001, 0.0001]
    >>> rounding_step(np.array([97.47, 9.01, 0.5])).tolist()
    [0.01, 0.01, 0.01]
    """
    unit, digits = resolution(values), significant_digits(values)
    step = np.full(values.shape, unit)
    if digits is not None:
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        least = np.min(size, initial=np.inf, where=size > 0)
        of_digits = 10.0 ** (np.floor(np.log10(np.maximum(size, least))) + 1 - digits)
        finer = np.log10(of_digits[size > 0] / unit) if unit else np.ones(1)
        step = of_digits if finer.sum() > 0 else step
    return step


def rounding_sigma(values: Array) -> Array:
    """Standard deviation of what rounding to the written digits left out, of every value; 0 if of none.

    >>> (rounding_sigma(np.array([97.47, 9.01, 0.5])) * np.sqrt(12.0)).round(6).tolist()
    [0.01, 0.01, 0.01]
    """
    result: Array = rounding_step(values) / np.sqrt(12.0)
    return result


def lengths_of_runs(values: Array) -> Array:
    """How many neighbours of every value equal it, itself included; 1 where nothing was measured.

    >>> lengths_of_runs(np.array([3.2, 3.1, 3.1, 3.1, 3.2])).tolist()
    [1.0, 3.0, 3.0, 3.0, 1.0]
    """
    # nan differs from itself.
    begins = np.concatenate([[True], values[1:] != values[:-1]])
    run = np.cumsum(begins) - 1
    found: Array = np.bincount(run)[run].astype(float)
    return found
