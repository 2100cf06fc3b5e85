"""What the reader of a result with unmeasured states should know.

Fitted starts with their standard errors, scales that are a convention, states that nothing
distinguishes, and other laws that are about as good.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odediscovery.judge.criterion import CRITERION
from odediscovery.laws.cost import count
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import expanded
from odediscovery.runtime.arrays import Array
from odediscovery.search.flows.contest import Competed, is_determined
from odediscovery.search.flows.flows import Compartments, Flow
from odediscovery.stages.values import Judged

# Other laws that are shown, of each kind.
SHOWN = 2


def flow_notes(won: Competed, names: Sequence[str]) -> list[str]:
    """What the reader of a result with unmeasured states should know, one sentence each."""
    row, latent = won.verdict.best, np.flatnonzero(won.problem.latent)
    notes = [_start(won, names, int(i)) for i in latent]
    partner = _partners(won.problem, won.structures[won.verdict.chosen])
    notes += [
        f"nothing tells the scale of {names[i]}: what passes between it and {names[j]} "
        f"leaves one and enters the other in equal amounts, which puts {names[i]} in units "
        f"of {names[j]}"
        for i, j in partner.items()
    ]
    alike = won.problem.indistinguishable
    if len(alike) > 1:
        notes.append(
            f"nothing tells {' and '.join(names[i] for i in alike)} apart: the flows take "
            "the first named as the one upstream"
        )
    size = np.count_nonzero(row.polished.free[0])
    others = [
        r
        for i, r in enumerate(won.verdict.rows)
        if i != won.verdict.chosen
        and is_determined(r)
        and np.count_nonzero(r.polished.free[0]) == size
        and r.criterion < row.criterion + CRITERION.no_evidence
    ]
    notes += [
        f"the same flows with other constants, and more of what was not measured, fit as well: {_text(won, names, r)}"
        for r in won.twins[:SHOWN]
    ]
    notes += [
        f"other flows fit about as well: {_text(won, names, r)}"
        for r in sorted(others, key=lambda r: r.criterion)[:SHOWN]
    ]
    return notes


def _text(won: Competed, names: Sequence[str], row: Judged) -> str:
    user = expanded(row.polished.law.unscaled(won.verdict.p.scale.state, won.verdict.p.scale.time))
    controls = won.verdict.p.data.controls
    return Equations.from_power_sum(tuple(names), user, controls=controls).pretty(3).replace("\n", "; ")


def _start(won: Competed, names: Sequence[str], i: int) -> str:
    """How well the data determine the start of an unmeasured state."""
    scale, found = won.verdict.p.scale.state[i], won.verdict.best.polished
    value, error = found.initial[:, i] * scale, _start_errors(won)[:, i] * scale
    first, known = f"{names[i]} was not measured: ", None if won.starts.known is None else won.starts.known[:, i]
    if known is not None and np.isfinite(known).all():
        return f"{first}its start is the one that was given"
    if not np.isfinite(error).any():
        return first + "the data do not determine its start"
    if len(value) == 1:
        return f"{first}its start is fitted, {value[0]:.4g} with a standard error of {error[0]:.2g}"
    return first + (
        f"its {len(value)} starts are fitted, {value.min():.4g} to {value.max():.4g} "
        f"with standard errors of up to {np.nanmax(error):.2g}"
    )


def _start_errors(won: Competed) -> Array:
    """Standard errors of the starts [trajectories, states]; nan where the data do not determine them."""
    found = won.verdict.best.polished
    known = found.joint.deviations()[count(found.free) :]
    errors: Array = known.reshape(found.initial.shape)
    return errors


def _partners(problem: Compartments, structure: Sequence[Flow]) -> dict[int, int]:
    """Unmeasured states whose scale is another state's by convention only, and that state."""
    tied = ~problem.latent | problem.summed | problem.anchored
    found: dict[int, int] = {}
    for _ in range(problem.n):
        for flow in sorted(structure, key=lambda f: f.factors):
            for i in flow.touched:
                near = [j for j in flow.touched if tied[j]]
                if not tied[i] and near:
                    found[i], tied[i] = near[0], True
    return found
