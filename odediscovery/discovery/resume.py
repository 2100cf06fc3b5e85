"""A fit continued from an earlier result: on the same data, with the laws found before as rivals."""

from __future__ import annotations

import dataclasses
from typing import Any

from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.judge.criterion import NO_EVIDENCE
from odediscovery.result.compare import criterion
from odediscovery.result.discovery import Discovery, is_of_a_form
from odediscovery.runtime.monitor import Monitor


def resume(found: Discovery, monitor: Monitor | None = None, **changed: Any) -> Discovery:
    """Continue a fit with other random members, and with the laws of the front, if they are sums of powers.

    The claimed equations do not become clearly worse by the judge's criterion: `found` itself is returned if they
    would, as after a very short time, or if fewer samples were used.

    Args:
        found: a result of the default recipe, from `discover` or `Discovery.load`.
        monitor: as in `discover`.
        changed: settings that differ from before; None keeps the earlier value. By default the seed
            increases by 1, so that new members are drawn, and the time is not limited.

    Raises:
        InputError: a result that cannot be continued, or as in `discover`.
        FitError: as in `discover`.
    """
    before = found.settings
    if before.published:
        raise InputError(
            f"a fit by the recipe {before.recipe!r} cannot be resumed: what it trains "
            "is the end of it; fit the data again with another seed"
        )
    if before.holdout:
        raise InputError(
            "a fit with --holdout cannot be resumed: the folder holds no samples that were held out; fit the data again"
        )
    given = {name: value for name, value in changed.items() if value is not None}
    given = {"seed": before.seed + 1, "max_seconds": None, **given}
    settings = dataclasses.replace(before, **given).checked()
    # Unmeasured states are columns of the stored series already.
    asked = dataclasses.replace(settings, hidden_states=())
    laws = [row.equations.law for row in found.front]
    found_anew = discover(found.series, asked, monitor, before=[law for law in laws if law is not None])
    if _is_behind(found_anew, found):
        return found
    # If an earlier law wins again, the stage that found it first is kept.
    return dataclasses.replace(found_anew, settings=settings, found_by=found_anew.found_by or found.found_by)


def _is_behind(anew: Discovery, found: Discovery) -> bool:
    """Whether a result is worse than an earlier one, or used fewer samples, which makes them incomparable.

    A completed fit compared all laws, so its law may be about as good; that of a stopped fit must be as good or better.
    """
    if anew.series.n_samples < found.series.n_samples:
        return True
    if is_of_a_form(found):  # its criterion is in the user's units, that of the search dimensionless
        after, before = criterion(anew)[0], criterion(found)[0]
    else:
        after, before = (next(row.criterion for row in one.front if row.selected) for one in (anew, found))
    return after > before + (0.0 if anew.outcome == "stopped" else NO_EVIDENCE)
