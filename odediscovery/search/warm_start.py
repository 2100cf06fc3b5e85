"""Laws of an earlier fit beside new ones."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.candidates import as_grown
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.prune.paths import NoRoomError, all_whole, prune_laws
from odediscovery.stages.values import Candidate


def warm_start(p: Problem, laws: Sequence[PowerSum], monitor: Monitor) -> list[Candidate]:
    """What becomes of laws that were found before, in the user's units."""
    scaled = [law.rescaled(p.scale.state, p.scale.time) for law in laws if law.n_monomials]
    # Real powers of what is negative here are none.
    scaled = [law for law in scaled if not law.mirrored]
    found: list[Candidate] = []
    if p.clean:
        # As they were grown: on clean data pruning has nothing to take from them.
        rich = [law for law in scaled if law.features is not None]
        scaled = [law for law in scaled if law.features is None]
        found = [as_grown(p, law) for law in rich]
    for whole in (True, False):
        alike = [law for law in scaled if all_whole(law.exponents) is whole]
        with contextlib.suppress(NoRoomError):
            found += prune_laws(p, alike, Elimination(), monitor, whole=whole)
    return found
