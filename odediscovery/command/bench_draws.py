"""The commands of `bench` that draw data again and again: see `draws`."""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odediscovery.command.console import BackendName, Scheduler
from odediscovery.command.flags import Folder, Quiet, flag, run_shown, tell

if TYPE_CHECKING:
    from odediscovery.bench.draws.draw import Draws

Noise = Annotated[
    float, flag("noise: a share of each state's standard deviation (default: 0.05; fsir-gaps and coverage: 0.02)")
]
Count = Annotated[int, flag("draws of the noise (default: 20; fsir-gaps: 10)")]
DrawJobs = Annotated[int, flag("draws fitted side by side, one thread each (default: 1)")]
DrawSeconds = Annotated[float, flag("time limit of a draw (default: 180)")]
FirstDraw = Annotated[int, flag("number of the first draw (default: 0)")]


def fsir_noise(
    sigma: Noise = 0.05,
    trajectories: Annotated[int, flag("measured from different starts, 1 to 5 (default: 1)")] = 1,
    draws: Count = 20,
    jobs: DrawJobs = 1,
    backend: BackendName = "processes",
    scheduler: Scheduler = None,
    max_seconds: DrawSeconds = 180.0,
    seed: FirstDraw = 0,
    out: Folder = None,
    quiet: Quiet = False,
) -> None:
    """Count the draws of noise in which exactly the terms of fSIR are found."""
    from odediscovery.bench.draws.noise import FsirNoise

    about = FsirNoise(sigma=sigma, trajectories=trajectories, seed=seed, max_seconds=max_seconds)
    what = f"sigma{sigma:g}-trajectories{trajectories}"
    _draw(about, draws, out, (backend, scheduler, jobs), quiet, what)


def fsir_gaps(
    sigma: Noise = 0.02,
    missing: Annotated[float, flag("share of missing values (default: 0.2)")] = 0.2,
    trajectories: Annotated[int, flag("number of short runs (default: 8)")] = 8,
    draws: Count = 10,
    jobs: DrawJobs = 1,
    backend: BackendName = "processes",
    scheduler: Scheduler = None,
    max_seconds: DrawSeconds = 180.0,
    seed: FirstDraw = 0,
    out: Folder = None,
    quiet: Quiet = False,
) -> None:
    """Count the draws in which short, irregular runs with gaps tell exactly the terms of fSIR."""
    from odediscovery.bench.draws.gaps import FsirGaps

    about = FsirGaps(sigma=sigma, missing=missing, trajectories=trajectories, seed=seed, max_seconds=max_seconds)
    what = f"sigma{sigma:g}-missing{missing:g}-trajectories{trajectories}"
    _draw(about, draws, out, (backend, scheduler, jobs), quiet, what)


def coverage(
    system: Annotated[str, typer.Argument(help="name of a known system, see `simulate`")] = "fsir",
    sigma: Noise = 0.02,
    draws: Count = 20,
    jobs: DrawJobs = 1,
    backend: BackendName = "processes",
    scheduler: Scheduler = None,
    max_seconds: DrawSeconds = 180.0,
    seed: FirstDraw = 0,
    out: Folder = None,
    quiet: Quiet = False,
) -> None:
    """Count the draws of noise in which 95 % intervals contain the true constants."""
    from odediscovery.bench.draws.coverage import Coverage

    about = Coverage(system=system, sigma=sigma, seed=seed, max_seconds=max_seconds)
    _draw(about, draws, out, (backend, scheduler, jobs), quiet, f"{system}-sigma{sigma:g}")


def lawless(
    kind: Annotated[str, flag("white-noise or random-walk (default: white-noise)")] = "white-noise",
    draws: Count = 20,
    jobs: DrawJobs = 1,
    backend: BackendName = "processes",
    scheduler: Scheduler = None,
    max_seconds: DrawSeconds = 180.0,
    seed: FirstDraw = 0,
    out: Folder = None,
    quiet: Quiet = False,
) -> None:
    """Count the draws of white noise or random walks for which a law is claimed."""
    from odediscovery.bench.draws.lawless import Lawless

    about = Lawless(kind=kind, seed=seed, max_seconds=max_seconds)
    _draw(about, draws, out, (backend, scheduler, jobs), quiet, kind)


def _draw(
    about: Draws, count: int, out: Path | None, where: tuple[str, str | None, int], quiet: bool, what: str
) -> None:
    """Run the draws, say and keep their tables; `what` names the folder."""
    from odediscovery.bench.draws.draw import run_draws

    folder = out or Path(f"bench-{about.checked().measure}-{what}-seed{about.seed}")
    rows, stopped = run_shown(partial(run_draws, about, count, folder), quiet, where)
    if rows:
        tell(about.markdown(rows), folder, stopped)


COMMANDS: dict[str, Callable[..., None]] = {
    "fsir-noise": fsir_noise,
    "fsir-gaps": fsir_gaps,
    "coverage": coverage,
    "lawless": lawless,
}
