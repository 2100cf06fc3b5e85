"""The commands of `bench` that draw data again and again: see `draws`."""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odediscovery.command.console import measure
from odediscovery.command.flags import RunOptions, Where, argument, flag, names_in

if TYPE_CHECKING:
    from odediscovery.bench.draws.draw import Draws

RUN, WHERE = RunOptions(), Where()
Noise = Annotated[
    float, flag("noise: a share of each state's standard deviation (default: 0.05; fsir-gaps and coverage: 0.02)")
]
Count = Annotated[int, flag("draws of the noise (default: 20; fsir-gaps: 10)")]


def fsir_noise(
    sigma: Noise = 0.05,
    trajectories: Annotated[int, flag("measured from different starts, 1 to 5", 1)] = 1,
    draws: Count = 20,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Count the draws of noise in which exactly the terms of fSIR are found."""
    from odediscovery.bench.draws.noise import FsirNoise

    about = FsirNoise(sigma=sigma, trajectories=trajectories, seed=run.seed, max_seconds=run.max_seconds)
    _draw(about, draws, where, run, f"sigma{sigma:g}-trajectories{trajectories}")


def fsir_gaps(
    sigma: Noise = 0.02,
    missing: Annotated[float, flag("share of missing values", 0.2)] = 0.2,
    trajectories: Annotated[int, flag("number of short runs", 8)] = 8,
    draws: Count = 10,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Count the draws in which short, irregular runs with gaps give exactly the terms of fSIR."""
    from odediscovery.bench.draws.gaps import FsirGaps

    about = FsirGaps(
        sigma=sigma, missing=missing, trajectories=trajectories, seed=run.seed, max_seconds=run.max_seconds
    )
    _draw(about, draws, where, run, f"sigma{sigma:g}-missing{missing:g}-trajectories{trajectories}")


def coverage(
    system: Annotated[str, argument("SYSTEM", "name of a known system, see `simulate`")] = "fsir",
    sigma: Noise = 0.02,
    draws: Count = 20,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Count the draws of noise in which 95 % intervals contain the true constants."""
    from odediscovery.bench.draws.coverage import Coverage

    about = Coverage(system=system, sigma=sigma, seed=run.seed, max_seconds=run.max_seconds)
    _draw(about, draws, where, run, f"{system}-sigma{sigma:g}")


def lawless(
    kind: Annotated[str, flag("white-noise, random-walk, splines or rationals", "white-noise")] = "white-noise",
    draws: Count = 20,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Count the draws of white noise or random walks for which a law is claimed."""
    from odediscovery.bench.draws.lawless import Lawless

    about = Lawless(kind=kind, seed=run.seed, max_seconds=run.max_seconds)
    _draw(about, draws, where, run, kind)


def textbook(
    draws: Annotated[
        int, flag("draws: twelve laws one after the other, with five faults in turn (default: 120)")
    ] = 120,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Give made-up series of textbook laws with realistic faults a verdict, and count constants in their intervals."""
    from odediscovery.bench.series.textbook import TextbookDraws

    _draw(TextbookDraws(seed=run.seed, max_seconds=run.max_seconds), draws, where, run, "laws")


def populations(
    designs: Annotated[Path | None, argument("DESIGNS.json", "file of designs (default: those of the package)")] = None,
    draws: Count = 10,
    only: Annotated[str | None, flag("designs, with commas between (default: all)")] = None,
    peers: Annotated[bool, flag("pysindy and separate fits of each group on the same draws, instead of ours")] = False,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Count the draws of simulated populations in which law, varying constants and spreads are found."""
    from odediscovery.bench.draws import population_peers, populations

    chosen = names_in(only, "--only") or ()
    folder = run.out or Path("bench-populations-peers" if peers else "bench-populations")
    measured = population_peers.peers if peers else populations.populations
    file = populations.DESIGNS if designs is None else designs
    work = partial(measured, file, draws, folder, chosen, seed=run.seed, max_seconds=run.max_seconds)
    measure(work, population_peers.summary if peers else populations.summary, folder, run.quiet, where)


def _draw(about: Draws, count: int, where: Where, run: RunOptions, name: str) -> None:
    """Run the draws, print and keep their tables; `name` names the folder."""
    from odediscovery.bench.draws.draw import run_draws

    folder = run.out or Path(f"bench-{about.checked().measure}-{name}-seed{about.seed}")
    measure(partial(run_draws, about, count, folder), about.markdown, folder, run.quiet, where)


COMMANDS: dict[str, Callable[..., None]] = {
    command.__name__.replace("_", "-"): command
    for command in (fsir_noise, fsir_gaps, coverage, lawless, textbook, populations)
}
