"""Which thresholds decide anything? A battery of systems, fitted once with each of them watched.

    one row:          a system, its noise, and for each threshold that its fit read a `Tally`
    without effect:   all uses were followed, and no decision would have come out otherwise at half or at twice
    not followed:     no decision would have come out otherwise, but some uses could not be followed
    one way:          some would have, but as it is all come out true or all false: a rule that always or never acts
    decides:          the others

So one pass proves of many thresholds what `study` finds by hundreds of fits: with one of them alone at
half or at twice, the battery is fitted as it is. What decides, or is not followed, is for refits to
tell. A fit that its time limit ended proves nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from odediscovery.bench.rows import Row, Rows
from odediscovery.bench.summary import table
from odediscovery.bench.thresholds.perturb import HALF, TWICE, forget, scaled, values
from odediscovery.bench.thresholds.study import Battery, fitted_within
from odediscovery.bench.thresholds.tally import Tallies, Tally
from odediscovery.bench.thresholds.threefold import Threefold
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.thresholds import Thresholds
from odediscovery.runtime.workers import IN_TURN, Backend

# `method` is the sigma of the noise, `seconds` are the processor's with the watch, `held` is how many thresholds the
# engine has that can be halved and doubled, `tallies` the numbers of a `Tally` in their order, by threshold.
COLUMNS = ("id", "method", "failed", "exact", "seconds", "equations", "held", "tallies")
HEADER = ("threshold", "reads", "decisions", "otherwise at half", "otherwise at twice", "comes out", "not followed")
WITHOUT_EFFECT, ONE_WAY, DECIDES, NOT_FOLLOWED = "without effect", "one way", "decides", "not followed"


@contextmanager
def watched_decisions() -> Iterator[Tallies]:
    """The tallies, as "Owner.field", of all thresholds that are read within the block."""
    tallies: Tallies = defaultdict(Tally)
    known: dict[str, tuple[Any, Any]] = {}

    def read(self: Thresholds, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name not in type(self).__dataclass_fields__:
            return value
        key = f"{type(self).__name__}.{name}"
        tallies[key].reads += 1
        if key not in known or known[key][0] is not value:
            known[key] = value, watched(value, scaled(value, HALF), scaled(value, TWICE), key, tallies)
        return known[key][1]

    # What caches hold was computed from numbers that tell nothing, and afterwards from those that tell it here.
    forget()
    Thresholds.__getattribute__ = read  # type: ignore[method-assign, assignment]
    try:
        yield tallies
    finally:
        del Thresholds.__getattribute__
        forget()


def watched(value: Any, half: Any, twice: Any, name: str, tallies: Tallies) -> Any:
    """The value of a threshold with its others; what cannot be halved and doubled stays as it is."""
    if half is None or twice is None:
        return value
    if isinstance(value, tuple):
        return tuple(watched(*three, name, tallies) for three in zip(value, half, twice, strict=True))
    return Threefold(value, {name: (half, twice)}, tallies)


@dataclass(frozen=True)
class WatchedFit:
    """A row to be made: a system of a battery with one noise."""

    battery: Battery
    id: str
    sigma: float


def run_decisions(
    battery: Battery,
    folder: Path,
    *,
    backend: Backend = IN_TURN,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Make the rows that are not yet in `folder`; all of them, in the battery's order, clean before noisy.

    Systems that the rule of `Battery` chooses are fitted with noise if their clean fit was quick, with the watch.

    Args:
        folder, backend, monitor, say: see `study.run_changes`.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
    """
    ids = list(battery.candidates())
    rows = Rows.claim(folder, {"measure": "decisions", **asdict(battery), "ids": list(battery.ids)}, COLUMNS)
    monitor = monitor or Monitor()

    def run(of: Sequence[str], sigma: float) -> None:
        todo = [WatchedFit(battery, id, sigma) for id in of if not rows.has(id, f"{sigma:g}")]
        rows.run(
            f"sigma {sigma:g}",
            measured,
            todo,
            blank=_blank,
            in_words=_in_a_line,
            limit=battery.max_seconds,
            backend=backend,
            monitor=monitor,
            say=say,
        )

    run(ids, 0.0)
    chosen = battery.ids or battery.each
    kept = [row["id"] for row in rows.all if row["method"] == "0" and (chosen or row["seconds"] <= battery.quick)]
    run([id for id in ids if id in kept], battery.sigma)
    of_battery = [row for row in rows.all if row["id"] in kept]
    return sorted(of_battery, key=lambda row: (ids.index(row["id"]), float(row["method"])))


def measured(task: WatchedFit) -> Row:
    """The row of a task."""
    told, tallies = fitted_within(task.battery, f"{task.id} {task.sigma:g}", watched_decisions())
    held = values()
    noted = {name: list(astuple(tallies[name])) for name in sorted(tallies) if name in held}
    return _blank(task) | told | {"held": len(held), "tallies": noted}


def _blank(task: WatchedFit) -> Row:
    return dict.fromkeys(COLUMNS) | {"id": task.id, "method": f"{task.sigma:g}", "held": 0, "tallies": {}}


def _in_a_line(row: Row) -> str:
    told = row["failed"] or f"{'' if row['exact'] else 'not '}exact, {row['seconds']:.0f} s"
    return f"{row['id']}, sigma {row['method']}: {told}"


def tallied(rows: Sequence[Row]) -> dict[str, Tally]:
    """What each threshold did in all fits."""
    found: dict[str, Tally] = {}
    for row in rows:
        for name, numbers in row["tallies"].items():
            before = astuple(found.get(name, Tally()))
            found[name] = Tally(*(a + b for a, b in zip(before, numbers, strict=True)))
    return dict(sorted(found.items()))


def verdict(tally: Tally) -> str:
    """Which of the four kinds above a threshold is."""
    if not tally.half and not tally.twice:
        return NOT_FOLLOWED if tally.lost else WITHOUT_EFFECT
    return DECIDES if tally.lost or (tally.true and tally.false) else ONE_WAY


def markdown(battery: Battery, rows: Sequence[Row]) -> str:
    """How many thresholds are of each kind, and a line for each that is read."""
    tallies = tallied(rows)
    kinds, held = Counter(map(verdict, tallies.values())), max(row["held"] for row in rows)
    exact, seconds = sum(bool(row["exact"]) for row in rows), sum(row["seconds"] or 0.0 for row in rows)
    failed = sum(row["failed"] is not None for row in rows)
    return (
        f"# decisions of thresholds\n\n{len(rows)} fits of {len({row['id'] for row in rows})} systems, each clean and "
        f"with sigma {battery.sigma:g}, seed {battery.seed}; {exact} exact, {failed} failed, {seconds:.0f} s of the "
        f"processor with the watch. Of {held} thresholds that can be halved and doubled {len(tallies)} are read.\n\n"
        f"- {kinds[WITHOUT_EFFECT]} are without effect: no decision comes out otherwise at half or at twice, and "
        "every use was followed.\n"
        f"- {kinds[ONE_WAY]} come out one way: a rule that never or always acts, but might at half or at twice.\n"
        f"- {kinds[DECIDES]} decide.\n"
        f"- {kinds[NOT_FOLLOWED]} cannot be followed: what comes of them is not seen by comparisons.\n\n"
        f"Otherwise: share of the decisions that would come out otherwise.\n\n"
        f"{table(HEADER, [_line(name, tally) for name, tally in tallies.items()])}\n\n"
        f"Systems: {', '.join(dict.fromkeys(row['id'] for row in rows))}.\n"
    )


def _line(name: str, tally: Tally) -> tuple[str, ...]:
    lost = str(tally.lost) if tally.lost else ""
    if not tally.decisions:
        return name, str(tally.reads), "0", "-", "-", "-", lost
    otherwise = [_share(number, tally.decisions) for number in (tally.half, tally.twice)]
    comes_out = "both" if tally.true and tally.false else "always" if tally.true else "never"
    return name, str(tally.reads), str(tally.decisions), *otherwise, comes_out, lost


def _share(number: int, of: int) -> str:
    """A share in per cent, with two digits.

    >>> _share(1, 3), _share(7, 7), _share(1, 70_000)
    ('33 %', '100 %', '0.0014 %')
    """
    return f"{float(f'{100 * number / of:.2g}'):g} %"
