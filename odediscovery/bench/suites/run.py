"""A suite run by one or more methods: one row for each system, kept as soon as it is done.

    training data -> method -> equations -> scores -> row

A method is a function of the noisy training series alone; the truth is used only afterwards.
Whatever goes wrong on the way is a row with its reason, since a benchmark that leaves out failures
measures nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from odediscovery.bench.rows import COLUMNS, Row, Rows, processor_seconds, reason_of
from odediscovery.bench.suites.problems import SuiteSystem, choose, load_suite
from odediscovery.bench.suites.protocol import Protocol, check_trajectories, training_data
from odediscovery.bench.suites.scores import best_recon, score
from odediscovery.bench.summary import in_a_line
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import IN_TURN, Backend
from odediscovery.settings import Settings, settings_for

# Equations over the states of the series, how the search ended, and, of a method that offers several laws,
# all of them.
Answer: TypeAlias = tuple[Equations, str] | tuple[Equations, str, Sequence[Equations]]
# (series, seconds it may take, seed) -> answer.
Method: TypeAlias = Callable[[TimeSeries, float, int], Answer]


@dataclass(frozen=True)
class Study:
    """What one folder of rows is about.

    Args:
        suite: name of the suite.
        protocol: how the training data are made.
        max_seconds: limit of a method for one system, in seconds of the processor.
    """

    suite: str
    protocol: Protocol
    max_seconds: float = 180.0

    def checked(self, systems: Sequence[SuiteSystem] | None = None) -> Study:
        """This study, or an `InputError` that names the option that is out of range.

        Args:
            systems: those of the suite, if it has no list of them.
        """
        self.protocol.checked()
        if not 0.0 < self.max_seconds < math.inf:
            raise InputError(f"--max-seconds must be positive and finite, got {self.max_seconds}")
        for system in load_suite(self.suite).values() if systems is None else systems:
            check_trajectories(system, self.protocol)
        return self

    def as_dict(self) -> dict[str, Any]:
        """The settings that rows of one folder share."""
        return {"suite": self.suite, **asdict(self.protocol), "max_seconds": self.max_seconds}


@dataclass(frozen=True)
class SystemFit:
    """One system for one method.

    Args:
        given: the system, of a suite that has no list of them.
    """

    study: Study
    id: str
    name: str
    method: Method
    given: SuiteSystem | None = None

    @property
    def system(self) -> SuiteSystem:
        """The system itself."""
        return self.given or load_suite(self.study.suite)[self.id]


def ours(series: TimeSeries, max_seconds: float, seed: int) -> Answer:
    """`discover` with its default recipe, and the rows of its front."""
    return _found(series, settings_for("default", seed=seed, max_seconds=max_seconds))


def untrained(series: TimeSeries, max_seconds: float, seed: int) -> Answer:
    """The same without networks: what trained members bring to the default is the difference."""
    return _found(series, settings_for("default", seed=seed, max_seconds=max_seconds, members=0))


def _found(series: TimeSeries, settings: Settings) -> Answer:
    found = discover(series, settings)
    return found.equations, found.outcome, [row.equations for row in found.front]


def solve(task: SystemFit) -> Row:
    """The row of one system: scores, or the reason why there are none. Its seconds are the processor's."""
    study, began = task.study, time.process_time()
    row = _blank(task)
    try:
        system = task.system
        series = training_data(system, study.protocol)
        began = time.process_time()
        equations, outcome, *offered = task.method(series, study.max_seconds, study.protocol.seed)
        row |= {"seconds": processor_seconds(began), "outcome": outcome, "equations": equations.texts()}
        scores = score(equations, system, study.protocol)
        best = best_recon(offered[0], system, study.protocol) if offered else None
    except Exception as error:
        seconds = row["seconds"] or processor_seconds(began)
        return row | {"failed": reason_of(error), "seconds": seconds}
    return row | {
        "recon": _finite(scores.recon),
        "recon_front": None if best is None else _finite(max(best, scores.recon)),
        "gen": _finite(scores.gen),
        "exact": scores.exact,
        "coef": scores.coef,
        "complexity": scores.complexity,
    }


def run_suite(
    study: Study,
    methods: Mapping[str, Method],
    folder: Path,
    *,
    ids: Sequence[str] | None = None,
    systems: Sequence[SuiteSystem] | None = None,
    backend: Backend = IN_TURN,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Run what is not yet in `folder`; all its rows, in the order of the suite.

    Args:
        methods: by the name that rows carry; importable functions.
        folder: to begin, or to go on with.
        ids: of the systems, all if not given.
        systems: instead of those of the suite, where it has no list of them.
        backend: where the systems are run.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line for each finished system.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: nobody can run the systems.
    """
    study.checked(systems)
    problems = choose(study.suite, ids) if systems is None else systems
    rows = Rows.claim(folder, study.as_dict())
    tasks = [
        SystemFit(study, system.id, name, method, None if systems is None else system)
        for name, method in methods.items()
        for system in problems
        if not rows.has(system.id, name)
    ]
    rows.run(
        study.suite,
        solve,
        tasks,
        blank=_blank,
        in_words=in_a_line,
        limit=study.max_seconds,
        backend=backend,
        monitor=monitor,
        say=say,
    )
    every = load_suite(study.suite) if systems is None else [system.id for system in systems]
    order = {id: place for place, id in enumerate(every)}
    known = [row for row in rows.all if row["id"] in order]
    return sorted(known, key=lambda row: (order[row["id"]], row["method"]))


def _blank(task: SystemFit) -> Row:
    """The row of a system with no equations."""
    system = task.system
    return dict.fromkeys(COLUMNS) | {
        "id": task.id,
        "method": task.name,
        "states": len(system.states),
        "representation": system.representation,
        "exact": False,
        "coef": False,
    }


def _finite(r2: float) -> float | None:
    return r2 if math.isfinite(r2) else None
