"""Knowledge that contradicts the data, refused before the fit."""

from __future__ import annotations

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.expressions import identifiers


def check_signs(given: Knowledge, scaled: Knowledge) -> None:
    """Refuses fractional powers, in known terms, of what is negative in the data."""
    names = list(identifiers(given.states).values())
    for i, side in enumerate(scaled.known):
        for k in () if side is None else side.mirrored:
            own = given.known[i]
            minus = own is not None and k in own.mirrored
            what, is_ = (f"-{names[k]}", "") if minus else (names[k], "-")
            raise InputError(
                f"{given.states[i]}' is known with a fractional power of {what}, which is negative "
                f"in the data; expected one of {is_}{names[k]}, or a whole power"
            )


def check_known(known: Knowledge, series: TimeSeries) -> None:
    """Refuses statements about equations of controls, which have none."""
    for i in np.flatnonzero(series.is_control):
        name = series.states[i]
        if known.known[i] is not None:
            raise InputError(f"{name}' is given, but {name} is an input: it has no equation; leave it out")
        if any(one.weights[i] != 0 for one in known.conserved):
            raise InputError(
                f"a conserved sum contains {name}, but {name} is an input, which changes by itself; leave it out"
            )
