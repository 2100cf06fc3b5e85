"""What depends on a threshold, or on a rung? A battery of systems, fitted with one of them changed.

Thresholds are halved and doubled (see `perturb`), rungs of the search are left out (see `left_out`).

The battery takes every n-th system of each suite, in the suite's order, or the first random laws of each
family; those whose clean fit is quick are fitted clean and with noise. The first row fits it with the
engine as it is and notes which thresholds each fit reads, and which rungs it climbs. A fit that does not
read a threshold cannot change with it, so only the others are repeated. All other rows stand for one
threshold and one factor, or for one rung. (`decisions` tells beforehand, in one pass, which cannot matter.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from odediscovery.bench.random_laws.systems import SUITE, random_systems
from odediscovery.bench.rows import Row, Rows, processor_seconds, reason_of
from odediscovery.bench.suites.problems import SUITES, SuiteSystem, load_suite
from odediscovery.bench.suites.protocol import Protocol, training_data
from odediscovery.bench.suites.scores import score
from odediscovery.bench.summary import in_short, table
from odediscovery.bench.thresholds.left_out import left_out, rungs, watched_rungs
from odediscovery.bench.thresholds.perturb import HALF, TWICE, changed, instances, values, watched_reads
from odediscovery.discovery.discover import discover
from odediscovery.errors import FitError, InputError, unknown_name
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.thresholds import Described, described
from odediscovery.runtime.workers import IN_TURN, Backend
from odediscovery.settings import settings_for

# Equations count as changed where they differ in so many digits.
DIGITS = 3
# The row of the battery with the engine as it is.
BASE = ("battery", "1")
# A row's `fits` are by system and sigma: failed, exact, processor seconds, equations, and in the first
# row the thresholds that were read, or the rungs that were climbed; `value` is the changed threshold,
# `seconds` are the processor's.
COLUMNS = ("id", "method", "failed", "value", "seconds", "fits")
# What a watch over a fit notes.
Watch = TypeVar("Watch")


@dataclass(frozen=True)
class Kind:
    """What is changed, one after the other.

    Args:
        one: of them, in a word.
        all: those that there are, by name.
        factors: of each; 0 leaves it out.
        changed: the engine with one of them times a factor, within a block that gives the changed value.
        watched: notes the names of those that are used within a block.
        mark: between owner and member in a name.
        unused: why a fit says nothing of one, in words.
        header: of the table.
        lines: of the table, from the rows of a study.
    """

    one: str
    all: Callable[[], Collection[str]]
    factors: tuple[float, ...]
    changed: Callable[[str, float], AbstractContextManager[Any]]
    watched: Callable[[], AbstractContextManager[set[str]]]
    mark: str
    unused: str
    header: tuple[str, ...]
    lines: Callable[[Sequence[Row]], list[tuple[str, ...]]]


@dataclass(frozen=True)
class Battery:
    """Which systems are fitted, and how.

    Args:
        sigma: noise of the noisy fits, see `Protocol`.
        every: one of so many systems of each suite is a candidate.
        quick: processor seconds that the clean fit of a candidate may take.
        seed: of noise and search.
        max_seconds: limit of a fit, in seconds of the processor.
        ids: systems, as "suite/id", or "random/family-i" of this seed, instead of those that the rule chooses.
        each: so many random laws of each family instead, of this seed; 0 for none.
    """

    sigma: float = 0.02
    every: int = 5
    quick: float = 3.0
    seed: int = 0
    max_seconds: float = 60.0
    ids: tuple[str, ...] = ()
    each: int = 0

    def candidates(self) -> dict[str, SuiteSystem]:
        """The systems by "suite/id", those included whose fit turns out not to be quick.

        Raises:
            InputError: an option is out of range, or a system does not exist.
        """
        Protocol(self.sigma, seed=self.seed).checked()
        settings_for(seed=self.seed, max_seconds=self.max_seconds)
        if self.every < 1 or not self.quick > 0:
            raise InputError(f"--every and --quick must be positive, got {self.every} and {self.quick}")
        if self.each < 0 or (self.each and self.ids):
            raise InputError(f"--each must be at least 0 and stand without --ids, got {self.each}")
        if self.each:
            return {f"{SUITE}/{p.id}": p for p in random_systems(self.seed, each=self.each)}
        known = {f"{suite}/{p.id}": p for suite in SUITES for p in load_suite(suite).values()}
        drawn = [id for id in self.ids if id.startswith(f"{SUITE}/")]
        if drawn:
            laws = random_systems(self.seed, ids=[id.removeprefix(f"{SUITE}/") for id in drawn])
            known |= dict(zip(drawn, laws, strict=True))
        for id in self.ids:
            if id not in known:
                raise unknown_name("system", id, known)
        ruled = [f"{suite}/{id}" for suite in SUITES for id in list(load_suite(suite))[:: self.every]]
        return {id: known[id] for id in self.ids or ruled}

    def fits(self, id: str) -> tuple[str, str]:
        """Names of the clean and the noisy fit of a system."""
        return f"{id} 0", f"{id} {self.sigma:g}"


@dataclass(frozen=True)
class ChangedFits:
    """A row to be made: the whole battery, or those of its fits that use what is changed."""

    battery: Battery
    name: str
    factor: float
    fits: tuple[str, ...] = ()
    kind: str = "thresholds"


def run_changes(
    battery: Battery,
    folder: Path,
    *,
    kind: str = "thresholds",
    names: Sequence[str] | None = None,
    backend: Backend = IN_TURN,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Make the rows that are not yet in `folder`; all of them, the battery's own first.

    Args:
        kind: what is changed, one of `KINDS`.
        names: thresholds, as "Owner.field", or owners; rungs, as "strategy: rung", or strategies (default: all).
        folder: to begin, or to go on with.
        backend: where the rows are made.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line for each finished row.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: the battery itself could not be fitted.
    """
    names = _chosen(kind, names)
    limit = len(battery.candidates()) * battery.max_seconds
    rows = Rows.claim(folder, {"measure": kind, **asdict(battery), "ids": list(battery.ids)}, COLUMNS)
    monitor = monitor or Monitor()

    def run(tasks: Sequence[ChangedFits]) -> None:
        rows.run(
            kind,
            measured,
            tasks,
            blank=_blank,
            in_words=_in_a_line,
            limit=limit,
            backend=backend,
            monitor=monitor,
            say=say,
        )

    if not rows.has(*BASE):
        run([ChangedFits(battery, BASE[0], 1.0, kind=kind)])
    base = next((row for row in rows.all if row["id"] == BASE[0]), None)
    if base is None:
        return []
    if base["failed"] or not base["fits"]:
        raise FitError(f"the battery could not be fitted ({base['failed'] or 'no system is quick'}); use another --out")
    readers = {name: tuple(fit for fit, told in base["fits"].items() if name in told["reads"]) for name in names}
    todo = [(name, factor) for name in names for factor in KINDS[kind].factors if not rows.has(name, f"{factor:g}")]
    run([ChangedFits(battery, name, factor, readers[name], kind) for name, factor in todo])
    order = {name: place for place, name in enumerate((BASE[0], *names))}
    kept = [row for row in rows.all if row["id"] in order]
    return sorted(kept, key=lambda row: (order[row["id"]], float(row["method"])))


def measured(task: ChangedFits) -> Row:
    """The row of a task."""
    battery, kind, fits = task.battery, KINDS[task.kind], dict[str, Any]()
    problems = battery.candidates()
    if task.name == BASE[0]:
        # The first fit of a process also pays for what is loaded on first use; this one is not counted.
        fitted(battery, battery.fits(next(iter(problems)))[0], kind)
        for id in problems:
            clean, noisy = battery.fits(id)
            first = fitted(battery, clean, kind)
            if battery.ids or first["seconds"] <= battery.quick:
                fits |= {clean: first, noisy: fitted(battery, noisy, kind)}
        value = None
    else:
        with kind.changed(task.name, task.factor) as value:
            for fit in task.fits:
                fits[fit] = fitted(battery, fit, kind)
                del fits[fit]["reads"]
    seconds = round(sum(told["seconds"] for told in fits.values()), 3)
    return _blank(task) | {"value": value, "seconds": seconds, "fits": fits}


def fitted(battery: Battery, fit: str, kind: Kind) -> Row:
    """One fit: what `fitted_within` says of it, and what of a kind it used."""
    told, used = fitted_within(battery, fit, kind.watched())
    return told | {"reads": sorted(used & set(kind.all()))}


def fitted_within(battery: Battery, fit: str, watch: AbstractContextManager[Watch]) -> tuple[Row, Watch]:
    """One fit: why it failed, whether it is exact, its processor seconds and equations; and what a watch noted."""
    id, _, sigma = fit.rpartition(" ")
    system, protocol = battery.candidates()[id], Protocol(float(sigma), seed=battery.seed)
    series = training_data(system, protocol)
    told: Row = {"failed": None, "exact": False, "equations": None}
    began = time.process_time()
    with watch as noted:
        try:
            found = discover(series, settings_for(seed=battery.seed, max_seconds=battery.max_seconds)).equations
            told["equations"] = found.texts()
        except Exception as error:
            told["failed"] = reason_of(error)
    told["seconds"] = processor_seconds(began)
    if told["failed"] is None:
        told["exact"] = score(found, system, protocol).exact
    return told, noted


def _chosen(kind: str, names: Sequence[str] | None) -> list[str]:
    known = list(KINDS[kind].all())
    owners = {name: name.partition(KINDS[kind].mark)[0] for name in known}
    for asked in names or ():
        if asked not in known and asked not in owners.values():
            raise unknown_name(KINDS[kind].one, asked, [*dict.fromkeys(owners.values()), *known])
    return [name for name in known if names is None or {name, owners[name]} & set(names)]


def _blank(task: ChangedFits) -> Row:
    return dict.fromkeys(COLUMNS) | {"id": task.name, "method": f"{task.factor:g}", "fits": {}}


def _in_a_line(row: Row) -> str:
    exact = sum(told["exact"] for told in row["fits"].values())
    told = row["failed"] or f"{exact} of {len(row['fits'])} exact, {row['seconds']:.0f} s"
    changed = f"without {row['id']}" if row["method"] == "0" else f"{row['id']} x {row['method']}"
    return f"{changed}: {told}"


def markdown(battery: Battery, rows: Sequence[Row], kind: str = "thresholds") -> str:
    """A line for each threshold, what half and twice its value change in the battery; for each rung, what it gives."""
    base, what = rows[0], KINDS[kind]
    exact, fits = sum(told["exact"] for told in base["fits"].values()), list(base["fits"])
    return (
        f"# {kind}\n\n{len(fits)} fits of {len(fits) // 2} systems, each clean and with sigma {battery.sigma:g}, "
        f"seed {battery.seed}; {exact} exact, {base['seconds']:.0f} s of the processor. Changed: equations that "
        f"differ within {DIGITS} digits. A dash: {what.unused}.\n\n{table(what.header, what.lines(rows))}\n\n"
        f"Systems: {', '.join(dict.fromkeys(fit.rpartition(' ')[0] for fit in fits))}.\n"
    )


def _lines_of_rungs(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    base, known = rows[0], rungs()
    return [
        (row["id"], str(len(row["fits"])), _cell(base, row), known[row["id"]].proposes.says)
        for row in rows[1:]
        if row["id"] in known
    ]


def _lines_of_thresholds(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    base, by = rows[0], {(row["id"], row["method"]): row for row in rows}
    about = {f"{d.owner}.{d.name}": d for own in instances().values() for d in described(type(own[0]))}
    lines = []
    for name in dict.fromkeys(row["id"] for row in rows[1:]):
        if name in about:
            d = about[name]
            cells = [_cell(base, by.get((name, f"{factor:g}"))) for factor in (HALF, TWICE)]
            lines.append((name, in_digits(d.value), _unit(d), *cells, d.origin.replace("|", "\\|")))
    return lines


def in_digits(value: Any) -> str:
    """The value of a threshold for people."""
    return ", ".join(map(in_digits, value)) if isinstance(value, tuple) else f"{value:g}"


def _unit(about: Described) -> str:
    return about.unit or "1"


def _cell(base: Row, row: Row | None) -> str:
    if row is None or row["failed"]:
        return "not done" if row is None else str(row["failed"])
    if not row["fits"]:
        return "-"
    before, after = base["fits"], base["fits"] | row["fits"]
    exact = sum(told["exact"] for told in after.values())
    other = sum(_law(before[fit]) != _law(after[fit]) for fit in after)
    ratio = sum(told["seconds"] for told in after.values()) / max(base["seconds"], 1e-9)
    return f"{exact}, {other}, {ratio:.2f}"


def _law(told: Row) -> str:
    return str(told["failed"]) if told["equations"] is None else in_short(told["equations"], DIGITS)


KINDS: Mapping[str, Kind] = {
    "thresholds": Kind(
        "threshold",
        values,
        (HALF, TWICE),
        changed,
        watched_reads,
        mark=".",
        unused="no fit reads the threshold",
        header=("threshold", "value", "unit", "half: exact, changed, time", "twice: exact, changed, time", "origin"),
        lines=_lines_of_thresholds,
    ),
    "rungs": Kind(
        "rung",
        rungs,
        (0.0,),
        left_out,
        watched_rungs,
        mark=":",
        unused="no fit climbs it",
        header=("rung", "fits that climb it", "without it: exact, changed, time", "what it proposes"),
        lines=_lines_of_rungs,
    ),
}
