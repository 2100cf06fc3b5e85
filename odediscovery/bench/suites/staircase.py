"""How often is a suite found as noise grows? One study for each step, from exact values to 10 % noise.

    noise-0 ... noise-0.1       normal noise, a share of each state's standard deviation
    digits-8 ... digits-3       values rounded to so many significant digits
    rk45-1e-06, euler-0.001 ... values with the error of a rougher solver (see `protocol`)

DIR/STEP/rows.jsonl holds the rows of a step, as those of a suite; DIR/staircase.png is the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from odediscovery.bench.rows import Row
from odediscovery.bench.suites.problems import SUITES, SuiteSystem, load_suite
from odediscovery.bench.suites.protocol import Protocol
from odediscovery.bench.suites.run import Method, Study, run_suite
from odediscovery.bench.summary import hits_of, in_short, late_seconds, median_seconds, table
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import IN_TURN, Backend

NOISE = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1)
DIGITS = (8, 6, 4, 3)
SOLVERS = (("rk45", 1e-6), ("euler", 1e-6), ("rk45", 1e-3), ("euler", 1e-3))
# The known systems, whose samples draws may take at other times.
CLASSICS = "classics"
# Share by which the time span of a draw is longer or shorter, at most.
STRETCH = 0.05
# The kinds of steps, by what their names begin with.
KINDS = {"noise": ("noise",), "digits": ("digits",), "solver": ("rk45", "euler")}

STEPS: Mapping[str, Protocol] = {
    **{f"noise-{sigma:g}": Protocol(sigma) for sigma in NOISE},
    **{f"digits-{digits}": Protocol(digits=digits) for digits in DIGITS},
    **{f"{name}-{size:g}": Protocol(solver=name, tolerance=size) for name, size in SOLVERS},
}


@dataclass(frozen=True)
class Staircase:
    """What all steps share.

    Args:
        suite: name of the suite, or of one system.
        systems: to be found on every step.
        steps: some of `STEPS`, or kinds of them ("noise", "digits", "solver"); all if not given.
        trajectories: how many starts are trained on; two, or one where there are no more, if not given.
        seed: of noise and search.
        max_seconds: limit of a fit, in seconds of the processor.
    """

    suite: str
    systems: tuple[SuiteSystem, ...]
    steps: tuple[str, ...] = ()
    trajectories: int | None = None
    seed: int = 0
    max_seconds: float = 60.0

    def studies(self) -> dict[str, Study]:
        """The study of every step.

        Raises:
            InputError: an option is out of range, or there is no such step.
        """
        for step in self.steps:
            if step not in STEPS and step not in KINDS:
                raise unknown_name("step", step, [*KINDS, *STEPS])
        most = min(2, *(system.trainable for system in self.systems))
        trained = most if self.trajectories is None else self.trajectories
        return {
            name: Study(self.suite, replace(step, trajectories=trained, seed=self.seed), self.max_seconds).checked(
                self.systems
            )
            for name, step in STEPS.items()
            if not self.steps or {name, kind_of(name)} & set(self.steps)
        }


def kind_of(step: str) -> str:
    """The kind of a step.

    >>> kind_of("rk45-0.001")
    'solver'
    """
    return next(kind for kind, begins in KINDS.items() if step.partition("-")[0] in begins)


def systems_named(name: str, draws: int = 20) -> tuple[SuiteSystem, ...]:
    """The systems of a suite, or draws of one known system.

    Each draw has its own noise, and samples at other times: its time span is up to 5 % longer or
    shorter, the first one's is the usual one.

    Raises:
        InputError: there is no such suite or system.
    """
    if name in SUITES:
        return tuple(load_suite(name).values())
    known = load_suite(CLASSICS)
    if name not in known:
        raise unknown_name("suite or system", name, [*SUITES, *known])
    if draws < 1:
        raise InputError(f"--draws must be at least 1, got {draws}")
    first, last = known[name].t_span
    share = STRETCH * (2.0 * np.random.default_rng(0).random(draws) - 1.0)
    share[0] = 0.0
    return tuple(
        replace(known[name], id=f"{name}-{k}", t_span=(first, first + (1.0 + float(s)) * (last - first)))
        for k, s in enumerate(share)
    )


def run_staircase(
    stairs: Staircase,
    methods: Mapping[str, Method],
    folder: Path,
    *,
    backend: Backend = IN_TURN,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, list[Row]]:
    """Run what is not yet in `folder`; all rows of each step that has any.

    Args:
        stairs: what to run.
        methods: by the name that rows carry; importable functions.
        folder: to begin, or to go on with; each step has a folder of rows in it.
        backend: where the systems are run.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line for each finished system.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: nobody can run the systems.
    """
    monitor = monitor or Monitor()
    rows: dict[str, list[Row]] = {}
    for step, study in stairs.studies().items():
        say(step)
        done = run_suite(
            study, methods, folder / step, systems=stairs.systems, backend=backend, monitor=monitor, say=say
        )
        if done:
            rows[step] = done
    return rows


def markdown(stairs: Staircase, rows: Mapping[str, Sequence[Row]], command: str) -> str:
    """A line for each step, methods side by side; then the systems that were not found everywhere.

    Args:
        stairs: what was run.
        rows: of each step.
        command: that made them.
    """
    methods = list(dict.fromkeys(row["method"] for of_step in rows.values() for row in of_step))
    header = ["step"]
    for method in methods:
        header += [f"{method}: EXACT", "share", "median s", "95 % s"]
    lines = [(step, *(cell for method in methods for cell in _figures(own, method))) for step, own in rows.items()]
    about = f"# Staircase: {stairs.suite}\n\n`{command}`; seconds of the processor."
    parts = [about, table(header, lines), "![share exact and seconds against noise, digits and solver](staircase.png)"]
    if missed := _missed(rows):
        parts.append("## Not exact everywhere\n\n" + missed)
    return "\n\n".join(parts) + "\n"


def _figures(rows: Sequence[Row], method: str) -> tuple[str, ...]:
    own = [row for row in rows if row["method"] == method]
    if not own:
        return ("-", "-", "-", "-")
    return (hits_of(own, "exact"), f"{share_exact(own):.0%}", median_seconds(own), f"{late_seconds(own):.1f}")


def share_exact(rows: Sequence[Row]) -> float:
    """In what share of the rows the equations are exact."""
    return sum(bool(row["exact"]) for row in rows) / len(rows)


def _missed(rows: Mapping[str, Sequence[Row]]) -> str:
    """For each system that ours missed: at which steps, and what was printed at the first of them."""
    missed: dict[str, dict[str, Row]] = {}
    for step, own in rows.items():
        for row in own:
            if row["method"] == "ours" and not row["exact"]:
                missed.setdefault(row["id"], {})[step] = row
    lines = []
    for id, by_step in missed.items():
        first = next(iter(by_step.values()))
        told = first["failed"] or in_short(first["equations"])
        lines.append((id, ", ".join(by_step), told.replace("|", "\\|")))
    return table(("system", "steps", "equations at the first of them"), lines) if lines else ""
