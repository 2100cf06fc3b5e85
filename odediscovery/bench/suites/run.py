"""A suite run by one or more methods: one row for each system, kept as soon as it is done.

    training data -> method -> equations -> scores -> row

A method is a function of the noisy training series alone; the truth is used only afterwards.
Whatever goes wrong on the way is a row with its reason, since a benchmark that leaves out failures
measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from odediscovery.bench.rows import Row, Study, Task, timed
from odediscovery.bench.suites.problems import SuiteSystem, choose, load_suite
from odediscovery.bench.suites.protocol import Protocol, check_trajectories, training_data
from odediscovery.bench.suites.scores import best_recon, score
from odediscovery.bench.summary import figure
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.settings import Settings, settings_for

# Equations over the states of the series, how the search ended, and, of a method that offers several laws,
# all of them.
Answer: TypeAlias = tuple[Equations, str] | tuple[Equations, str, Sequence[Equations]]
# (series, seconds it may take, seed) -> answer.
Method: TypeAlias = Callable[[TimeSeries, float, int], Answer]

# `outcome` is how the search ended, `recon` and `gen` are None where the equations cannot be integrated,
# `recon_front` is the best `recon` of all laws that the method offers, None where it offers one;
# `complexity` counts nodes of the expression trees, `seconds` are the processor's in the method.
COLUMNS = (
    *("id", "method", "states", "representation", "failed", "outcome", "recon", "recon_front", "gen"),
    *("exact", "coef", "complexity", "seconds", "equations"),
)


def ours(series: TimeSeries, max_seconds: float, seed: int) -> Answer:
    """`discover` with its default recipe, and the rows of its front."""
    return _found(series, settings_for("default", seed=seed, max_seconds=max_seconds))


def untrained(series: TimeSeries, max_seconds: float, seed: int) -> Answer:
    """The same without networks: what trained members bring to the default is the difference."""
    return _found(series, settings_for("default", seed=seed, max_seconds=max_seconds, members=0))


def _found(series: TimeSeries, settings: Settings) -> Answer:
    found = discover(series, settings)
    return found.equations, found.outcome, [row.equations for row in found.front]


@dataclass(frozen=True)
class SystemFit(Task):
    """One system for one method.

    Args:
        suite: the suite that it belongs to.
        protocol: how the training data are made.
        max_seconds: limit of the method.
        solve: the method.
        given: the system, of a suite that has no list of them.
    """

    suite: str
    protocol: Protocol
    max_seconds: float
    solve: Method
    given: SuiteSystem | None = None

    @property
    def system(self) -> SuiteSystem:
        """The system itself."""
        return self.given or load_suite(self.suite)[self.id]

    def known(self) -> Row:
        system = self.system
        form = {"states": len(system.states), "representation": system.representation}
        return {**form, "exact": False, "coef": False}

    def fill(self, row: Row) -> None:
        system, protocol = self.system, self.protocol
        series = training_data(system, protocol)
        with timed(row):
            equations, outcome, *offered = self.solve(series, self.max_seconds, protocol.seed)
        row |= {"outcome": outcome, "equations": equations.texts()}
        scores = score(equations, system, protocol)
        best = max(best_recon(offered[0], system, protocol), scores.recon) if offered else None
        row |= asdict(scores) | {"recon_front": best}
        for key in ("recon", "recon_front", "gen"):
            if row[key] is not None and not math.isfinite(row[key]):
                row[key] = None


def study_of(
    suite: str,
    protocol: Protocol,
    max_seconds: float,
    methods: Mapping[str, Method],
    *,
    ids: Sequence[str] | None = None,
    systems: Sequence[SuiteSystem] | None = None,
) -> Study:
    """A suite by some methods.

    Args:
        suite: name of the suite.
        protocol: how the training data are made.
        max_seconds: limit of a method for one system, in seconds of the processor.
        methods: by the name that rows carry; importable functions.
        ids: of the systems, all if not given.
        systems: instead of those of the suite, where it has no list of them.

    Raises:
        InputError: an option is out of range, or there is no such suite or system.
    """
    protocol.checked()
    if not 0.0 < max_seconds < math.inf:
        raise InputError(f"--max-seconds must be positive and finite, got {max_seconds}")
    every = list(load_suite(suite).values()) if systems is None else systems
    for system in every:
        check_trajectories(system, protocol)
    chosen = choose(suite, ids) if systems is None else systems
    return Study(
        suite,
        {"suite": suite, **asdict(protocol), "max_seconds": max_seconds},
        COLUMNS,
        [
            SystemFit(system.id, name, suite, protocol, max_seconds, solve, None if systems is None else system)
            for name, solve in methods.items()
            for system in chosen
        ],
        max_seconds,
        _in_words,
        [system.id for system in every],
    )


def _in_words(row: Row) -> str:
    exact = "exact" if row["exact"] else "not exact"
    return f"{exact}, RECON {figure(row['recon'])}, GEN {figure(row['gen'])}"
