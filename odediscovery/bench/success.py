"""Success rate of single, randomly initialised RealNPU members on the fractional SIR model.

In the paper 3 of 100 RealNPU runs came close. Here 100 members, 20 of each width of the paper, start
from the Julia code's random initialisation. They are trained in one batch and pruned separately:
no growing, no swapping, no choice among members. A member succeeds if the row that its own
information criterion chooses from its own path has exactly the true monomials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.bench.scores import same_terms
from odediscovery.data.series import pooled
from odediscovery.judge.criterion import penalty
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import SETTLED, Candidate
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.networks.vector_field import trained_laws_of
from odediscovery.neural.members import random_members
from odediscovery.neural.train import train_members
from odediscovery.problem.problem import Problem, prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings
from odediscovery.stages.prune import Elimination, prune_laws

# Widths of the paper's grid.
WIDTHS = (6, 9, 12, 15, 20)


@dataclass(frozen=True)
class MemberOutcome:
    """Outcome of one member, a row of the table."""

    hidden: int
    exact: bool
    complexity: int
    mean_square: float
    mse: float
    exponents: list[list[float]]


def success_rate(
    each: int = 20,
    seed: int = 0,
    say: Callable[[str], None] = print,
    *,
    unit: str = "RealNPU",
    sizes: Sequence[int] | None = None,
    adam_steps: int | None = None,
    monitor: Monitor | None = None,
    device: str = "cpu",
) -> list[MemberOutcome]:
    """Train and prune `each` members of every width; return one row for each member."""
    # The samples are known to be exact: members are scored from each of them.
    p = prepare(simulate_system("fsir")).without_noise(None)
    hidden = [h for h in sizes or WIDTHS for _ in range(each)]
    monitor = monitor or Monitor()
    settings = Settings(seed=seed, members=len(hidden), adam_steps=adam_steps or 3000, device=device)
    field = train_members(p, random_members(p, hidden, seed, unit), settings, monitor, keep=len(hidden))
    say(f"trained {len(hidden)} members in {monitor.seconds():.0f} s")
    laws = trained_laws_of(field)
    rows: list[MemberOutcome | None] = [None] * len(hidden)
    order = sorted(range(len(laws)), key=lambda i: laws[i].n_monomials)
    # Members with similar numbers of monomials are pruned together, so that few rows are empty.
    for first in range(0, len(order), 20):
        part = order[first : first + 20]
        paths: dict[int, list[Candidate]] = defaultdict(list)
        for candidate in prune_laws(p, [laws[i] for i in part], Elimination(alone=True), monitor):
            paths[candidate.origin].append(candidate)
        for place, i in enumerate(part):
            rows[i] = _row(p, hidden[i], paths[place])
        say(
            f"pruned {first + len(part)} of {len(order)}: "
            f"{sum(r.exact for r in rows if r)} exact, {monitor.seconds():.0f} s"
        )
    return [row for row in rows if row is not None]


def _row(p: Problem, hidden: int, path: list[Candidate]) -> MemberOutcome:
    """The row of one member, chosen from its own path by its own criterion."""
    if not path:
        return MemberOutcome(hidden, False, 0, float("inf"), float("inf"), [])
    samples = int(np.isfinite(pooled(p.data)).sum())
    best = min(path, key=lambda c: samples * np.log(c.mean_square + SETTLED * 0.1) + penalty(c.law, c.free, samples, 0))
    law = best.law.unscaled(p.scale.state, p.scale.time)
    truth = get_system("fsir").equations().power_sum
    assert truth is not None  # a sum of powers by definition
    run = simulate_system("fsir").trajectories[0]
    solution = Equations.from_power_sum(("S", "I", "R"), law).simulate(run.values[0], run.time)
    mse = float(np.nan_to_num(np.mean((solution - run.values) ** 2), nan=np.inf))
    return MemberOutcome(
        hidden, same_terms(law, truth, 0.005), law.complexity, best.mean_square, mse, law.exponents.round(6).tolist()
    )
