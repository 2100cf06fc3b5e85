"""The commands of `bench` that ask for laws nobody tuned the search to: see `random_laws`."""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odediscovery.command.console import measure, sayer
from odediscovery.command.flags import RunOptions, Where, flag, names_in, numbers_in
from odediscovery.errors import unknown_name

if TYPE_CHECKING:
    from odediscovery.bench.suites.run import Method

RUN, WHERE = RunOptions(max_seconds=60.0), Where()
METHODS = ("ours", "pysindy", "pyoperon")


def random(
    family: Annotated[
        list[str] | None,
        flag(
            "power-sums, mass-action, lotka-volterra, oscillators, saturating, trigonometric or compartments; "
            "may be given several times (default: all)"
        ),
    ] = None,
    each: Annotated[int, flag("systems of each family", 20)] = 20,
    sigma: Annotated[float, flag("noise: a share of each state's standard deviation (default: 0)")] = 0.0,
    digits: Annotated[int | None, flag("round the values to so many significant digits (default: all)")] = None,
    trajectories: Annotated[int, flag("how many starts to train on, 1 or 2", 2)] = 2,
    method: Annotated[str, flag("ours, untrained (without networks), pysindy, pyoperon or all", "ours")] = "ours",
    ids: Annotated[str | None, flag("systems as FAMILY-NUMBER, with commas between, instead of --each")] = None,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Count the random laws that are found: seven families, each accepted only if its samples identify it."""
    chosen = names_in(ids, "--ids")
    from odediscovery.bench.random_laws.report import markdown
    from odediscovery.bench.random_laws.systems import SUITE, random_systems
    from odediscovery.bench.suites.protocol import Protocol
    from odediscovery.bench.suites.run import Study, run_suite

    protocol = Protocol(sigma, 0.0, trajectories, run.seed, digits).checked()
    methods = methods_named(method)
    sayer(run.quiet)("drawing the laws")
    systems = random_systems(run.seed, names_in(",".join(family or []) or None, "--family"), each, chosen)
    study = Study(SUITE, protocol, run.max_seconds).checked(systems)
    rough = "" if digits is None else f"-digits{digits}"
    folder = run.out or Path(f"bench-{SUITE}-sigma{sigma:g}{rough}-trajectories{trajectories}-seed{run.seed}")
    work = partial(run_suite, study, methods, folder, systems=systems)
    measure(work, lambda rows: markdown(study.as_dict(), rows, systems), folder, run.quiet, where)


def chaos(
    noise: Annotated[
        str | None, flag("levels as shares of the root mean square, with commas between (default: 0,0.001,0.01)")
    ] = None,
    method: Annotated[
        str | None, flag("ours, weak-stlsq, stlsq, miosr, with commas between (default: all that are installed)")
    ] = None,
    tolerance: Annotated[
        float | None, flag("of the solver that makes the data, 1e-3 in the published benchmark (default: exact data)")
    ] = None,
    ids: Annotated[str | None, flag("systems, with commas between (default: all 46)")] = None,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Find chaotic systems from five trajectories each, beside sparse regression by pysindy."""
    chosen, levels, asked = names_in(ids, "--ids"), names_in(noise, "--noise"), names_in(method, "--method")
    from odediscovery.bench.chaos import study as of
    from odediscovery.bench.peers import sparse_regression as peers

    for name in asked or ():
        if name not in (of.OURS, *peers.METHODS):
            raise unknown_name("method", name, (of.OURS, *peers.METHODS))
    peers.check_sparse_methods([name for name in asked or () if name != of.OURS])
    methods = asked or [of.OURS, *peers.sparse_methods()]
    sigmas = of.NOISE if levels is None else tuple(numbers_in(levels, "--noise"))
    rough = "" if tolerance is None else f"-tolerance{tolerance:g}"
    folder = run.out or Path(f"bench-chaos{rough}-seed{run.seed}")
    work = partial(
        of.run_chaos,
        methods,
        folder,
        noise=sigmas,
        ids=chosen,
        seed=run.seed,
        max_seconds=run.max_seconds,
        tolerance=tolerance,
    )
    command = " ".join(["odediscovery", *sys.argv[1:]])
    measure(work, lambda rows: of.markdown(rows, command), folder, run.quiet, where)


def methods_named(name: str) -> dict[str, Method]:
    """The functions of a method, or of "all" programs; those of peers need their packages.

    Raises:
        InputError: there is no such method, or its package is not installed.
    """
    names = (*METHODS, "untrained", "all")
    if name not in names:
        raise unknown_name("method", name, names)
    from odediscovery.bench.suites.run import ours, untrained

    methods: dict[str, Method] = {}
    for one in METHODS if name == "all" else (name,):
        if one in ("ours", "untrained"):
            methods[one] = ours if one == "ours" else untrained
            continue
        from odediscovery.bench.peers import fits as peers

        peers.check_installed(one)
        methods[one] = peers.sindy if one == "pysindy" else peers.operon
    return methods


COMMANDS: dict[str, Callable[..., None]] = {command.__name__: command for command in (random, chaos)}
