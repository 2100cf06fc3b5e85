"""What does each stage of `discover` contribute? The fractional suite with one of them changed.

    random only     no law from the integral form, neither grown nor regressed
    warm only       no network trained: only what the integral form finds, pruned and judged
    short windows   pruning uses one-interval windows from smoothed starts, in noise too
    no L1           networks are trained without the L1 norm

Each on one clean trajectory and on two with 2 % noise. A variant is the default recipe with
other settings. For the runner of suites it is a method of its own, with one row for each system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from odediscovery.bench.rows import Row
from odediscovery.bench.suites.protocol import Protocol
from odediscovery.bench.suites.run import Method, Study, run_suite
from odediscovery.bench.summary import GOOD, count_above, hits_of, median_seconds, table
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.laws.equations import Equations
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import IN_TURN, Backend
from odediscovery.settings import settings_for

SUITE = "fractional"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "random only": {"grow": False},
    "warm only": {"members": 0},
    "short windows": {"prune_long": False},
    "no L1": {"l1": 0.0},
}
# Sigma, number of trajectories and variants; on clean data all pruning is on short windows.
CONDITIONS: Mapping[str, tuple[float, int, Sequence[str]]] = {
    "clean": (0.0, 1, [name for name in VARIANTS if name != "short windows"]),
    "noisy": (0.02, 2, list(VARIANTS)),
}


def changed(series: TimeSeries, max_seconds: float, seed: int, *, variant: str) -> tuple[Equations, str]:
    """`discover` as this variant: equations, and how the search ended."""
    settings = settings_for("default", seed=seed, max_seconds=max_seconds, **VARIANTS[variant])
    found = discover(series, settings)
    return found.equations, found.outcome


def run_ablation(
    folder: Path,
    *,
    seed: int = 0,
    max_seconds: float = 180.0,
    ids: Sequence[str] | None = None,
    backend: Backend = IN_TURN,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, list[Row]]:
    """Run what is not yet in `folder`; all rows of each condition that has any.

    Args:
        folder: to begin, or to go on with; each condition has a folder of rows in it.
        seed: of noise and search.
        max_seconds: limit of one system, in seconds of the processor.
        ids: of the systems, all if not given.
        backend: where the systems are run.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line for each finished system.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: nobody can run the systems.
    """
    monitor = monitor or Monitor()
    rows: dict[str, list[Row]] = {}
    for condition, (sigma, trajectories, variants) in CONDITIONS.items():
        study = Study(SUITE, Protocol(sigma, 0.0, trajectories, seed), max_seconds)
        methods: dict[str, Method] = {name: partial(changed, variant=name) for name in variants}
        done = run_suite(study, methods, folder / condition, ids=ids, backend=backend, monitor=monitor, say=say)
        if done:
            rows[condition] = done
    return rows


def markdown(rows: Mapping[str, Sequence[Row]]) -> str:
    """A line for each condition and variant.

    Args:
        rows: of each condition.
    """
    lines = []
    for condition, (sigma, trajectories, variants) in CONDITIONS.items():
        data = f"sigma {sigma:g}, trajectories {trajectories}"
        for variant in variants:
            own = [row for row in rows.get(condition, ()) if row["method"] == variant]
            if own:
                lines.append((variant, data, *_figures(own)))
    header = ("variant", "data", "EXACT", "RECON > 0.9", "GEN > 0.9", "median s")
    return f"# Ablation: {SUITE}\n\n{table(header, lines)}\n\n{__doc__}"


def _figures(rows: Sequence[Row]) -> tuple[str, ...]:
    """How often one variant was right, and its median time."""
    good = (str(count_above(rows, key, GOOD)) for key in ("recon", "gen"))
    return (hits_of(rows, "exact"), *good, median_seconds(rows))
