"""Success rate of single, randomly initialised RealNPU members on the fractional SIR model.

In the paper 3 of 100 RealNPU runs came close. Here 100 members, 20 of each width of the paper, start
from the Julia code's random initialisation. They are trained in one batch and pruned separately:
no growing, no swapping, no choice among members. A member succeeds if the row that its own
information criterion chooses from its own path has exactly the true monomials.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from odediscovery.bench.scores import same_terms
from odediscovery.data.series import pooled
from odediscovery.judge.criterion import penalty
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import SETTLED, Candidate
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.networks.vector_field import trained_laws_of
from odediscovery.neural.train import random_members, train_members
from odediscovery.problem.problem import Problem, prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings
from odediscovery.stages.prune import Elimination, prune_laws

# Widths of the paper's grid.
WIDTHS = (6, 9, 12, 15, 20)


def success_rate(
    each: int = 20,
    seed: int = 0,
    say: Callable[[str], None] = print,
    *,
    unit: str = "RealNPU",
    sizes: Sequence[int] = WIDTHS,
    adam_steps: int = 3000,
    monitor: Monitor | None = None,
    device: str = "cpu",
) -> list[dict[str, Any]]:
    """Train and prune `each` members of every width; return a row for each: its width and number of parameters, the
    error of its solution, whether it is exact, and its exponents."""
    # The samples are known to be exact: members are scored from each of them.
    p = prepare(simulate_system("fsir")).without_noise(None)
    hidden = [h for h in sizes for _ in range(each)]
    monitor = monitor or Monitor()
    settings = Settings(seed=seed, members=len(hidden), adam_steps=adam_steps, device=device)
    field = train_members(p, random_members(p, hidden, seed, unit), settings, monitor, keep=len(hidden))
    say(f"trained {len(hidden)} members in {monitor.seconds():.0f} s")
    laws, rows = trained_laws_of(field), dict[int, dict[str, Any]]()
    order = sorted(range(len(laws)), key=lambda i: laws[i].n_monomials)
    # Members with similar numbers of monomials are pruned together, so that few rows are empty.
    for first in range(0, len(order), 20):
        part = order[first : first + 20]
        paths: dict[int, list[Candidate]] = defaultdict(list)
        for candidate in prune_laws(p, [laws[i] for i in part], Elimination(alone=True), monitor):
            paths[candidate.origin].append(candidate)
        rows |= {i: {"hidden": hidden[i], **_outcome(p, paths[place])} for place, i in enumerate(part)}
        exact = sum(row["exact"] for row in rows.values())
        say(f"pruned {len(rows)} of {len(order)}: {exact} exact, {monitor.seconds():.0f} s")
    return [rows[i] for i in sorted(rows)]


def _outcome(p: Problem, path: list[Candidate]) -> dict[str, Any]:
    """The outcome of one member, chosen from its own path by its own criterion."""
    if not path:
        return {"parameters": 0, "mse": math.inf, "exact": 0, "exponents": "[]"}
    samples = int(np.isfinite(pooled(p.data)).sum())
    best = min(path, key=lambda c: samples * np.log(c.mean_square + SETTLED * 0.1) + penalty(c.law, c.free, samples, 0))
    law = best.law.unscaled(p.scale.state, p.scale.time)
    system, (run,) = get_system("fsir"), simulate_system("fsir").trajectories
    truth = system.equations().power_sum
    assert truth is not None  # a sum of powers by definition
    solution = Equations.from_power_sum(system.states, law).simulate(run.values[0], run.time)
    return {
        "parameters": law.complexity,
        "mse": float(np.nan_to_num(np.mean((solution - run.values) ** 2), nan=np.inf)),
        "exact": int(same_terms(law, truth, 0.005)),
        "exponents": repr(law.exponents.round(6).tolist()),
    }
