"""How fast is the engine, next to what a user would take instead? Ratios first.

Every ratio is made of rows of one run on one machine, each the best of several turns. Which rows
are asked for, and what is asked of their ratios, stands here; how they are measured stands in
`gradients`, `races` and `sizes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from odediscovery.bench.peers.plain_loop import NAME as LOOP
from odediscovery.bench.rows import Row
from odediscovery.bench.speed.pace import peers, run_tasks, time_in_words
from odediscovery.bench.speed.races import POLYNOMIAL
from odediscovery.bench.speed.sizes import states_of
from odediscovery.bench.speed.task import Measurement
from odediscovery.bench.speed.units import cases
from odediscovery.bench.summary import table
from odediscovery.errors import unknown_name
from odediscovery.runtime.monitor import Monitor

# Parts that can be chosen, with their cases or sizes; those of a quick look.
PARTS = {
    "units": "forward pass of a layer beside one written by hand",
    "members": "losses and gradients a second of 100 to 100 000 members, by processor and GPU",
    "gradients": "gradient of 100 members: diffrax with jit and vmap, a plain torchdiffeq loop",
    "fsir": "from a CSV of fSIR to its equations, against runs of the published recipe",
    "polynomials": "clean polynomial systems against pysindy",
    "sizes": "100 000 samples; 20 states",
    "profile": "share of each stage: fSIR, 10 states, 40 000 samples",
}
THROUGHPUT, QUICK_THROUGHPUT = (100, 1_000, 10_000, 100_000), (100, 1_000)
SIZES = (("samples", 100_000), ("noisy samples", 100_000), ("states", 20))
QUICK_SIZES = (("samples", 2_000), ("noisy samples", 400), ("states", 4))
PROFILE = (("samples", 40), ("states", 10), ("samples", 40_000))
QUICK_PROFILE = (("samples", 40),)
# What is asked of the ratios. Seconds of a gradient: of ours at most so many times those of diffrax,
# of the plain loop at least so many times ours. Of a near miss of fSIR by a peer: at least so many
# times ours. On polynomials ours takes at most so many times the seconds of pysindy, or so few.
GRADIENTS = {"windows": ("one-interval windows", 1.0), "whole": ("whole trajectory", 2.0)}
GRADIENT_BY_LOOP = 25.0
# Of a forward pass ours takes at most so many times one by hand.
FORWARD = 1.1
NEAR_MISS = {LOOP: 300.0, "diffrax": 5.0}
BY_PYSINDY, BRIEF = 10.0, 2.0


@dataclass(frozen=True)
class Asked:
    """What is asked of a fit of some size.

    Args:
        seconds: that it takes at most.
        exact: share of the equations with exactly the true terms.
        megabytes: of memory at most; None for any.
    """

    seconds: float
    exact: float
    megabytes: float | None = None


OF_NETWORK, OF_SAMPLES = Asked(600.0, 0.9), Asked(120.0, 1.0, megabytes=2000.0)


@dataclass(frozen=True)
class Ratio:
    """A line of the table.

    Args:
        what: is compared.
        value: the ratio in words.
        asked: what is asked of it.
        holds: whether that is so.
        rests: on these figures.
    """

    what: str
    value: str
    asked: str
    holds: bool
    rests: str


def tasks_of(parts: Sequence[str], seed: int = 0, max_seconds: float = 600.0, quick: bool = False) -> list[Measurement]:
    """The measurements of some parts, cheap ones first.

    Raises:
        InputError: an unknown part.
    """
    for part in parts:
        if part not in PARTS:
            raise unknown_name("part", part, PARTS)
    of_part: dict[str, list[tuple[str, str, int]]] = {
        "units": [("units", case, 0) for case in cases()],
        "members": [("throughput", "", n) for n in (QUICK_THROUGHPUT if quick else THROUGHPUT)],
        "gradients": [("gradients", case, 0) for case in ("windows", "whole")],
        "fsir": [("fsir", "", 0)],
        "polynomials": [("polynomials", system, 0) for system in POLYNOMIAL],
        "sizes": [(what, "", n) for what, n in (QUICK_SIZES if quick else SIZES)],
        "profile": [(what, "", n) for what, n in (QUICK_PROFILE if quick else PROFILE)],
    }
    kinds = dict.fromkeys(kind for name in PARTS if name in parts for kind in of_part[name])
    return [Measurement(*kind, seed, max_seconds, quick) for kind in kinds]


def run_speed(
    parts: Sequence[str],
    folder: Path,
    *,
    seed: int = 0,
    max_seconds: float = 600.0,
    quick: bool = False,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """The rows of all measurements of some parts; see `pace.run_tasks`."""
    study = {"measure": "speed", "seed": seed, "max_seconds": max_seconds, "quick": quick, "peers": peers()}
    tasks = tasks_of(parts, seed, max_seconds, quick)
    return run_tasks(study, tasks, folder, monitor=monitor, say=say)


def ratios(rows: Sequence[Row]) -> list[Ratio]:
    """What the rows say of ours beside peers, as far as both are there."""
    by_id: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["failed"] is None:
            by_id.setdefault(row["id"], {})[row["method"]] = row
    found: list[Ratio] = []
    for id, methods in by_id.items():
        ours = methods.get("ours")
        if ours is None:
            continue
        part, _, case = id.partition(" ")
        if part == "units":
            found.append(_at_most(f"forward pass of {case}: ours / by hand", ours, methods["by hand"], FORWARD))
        elif part == "gradients":
            found += _gradients(case, ours, methods)
        elif part == "fsir":
            found += _fsir(ours, methods)
        elif part == "polynomials":
            found += _polynomials(case, ours, methods)
        elif part in ("samples", "noisy", "states"):
            found.append(_size(id, ours))
    return found


def _best(methods: dict[str, Row], peer: str) -> Row | None:
    """The fastest way of a peer."""
    ways = [row for name, row in methods.items() if name.startswith(peer)]
    return min(ways, key=lambda row: float(row["seconds"])) if ways else None


def _rests(ours: Row, peer: Row) -> str:
    return f"{time_in_words(ours['seconds'])}; {peer['method']} {time_in_words(peer['seconds'])}"


def _at_most(what: str, ours: Row, peer: Row, most: float) -> Ratio:
    """Ours takes at most so many times what a peer takes."""
    ratio = ours["seconds"] / peer["seconds"]
    return Ratio(what, f"{ratio:.2f}", f"at most {most:g}", ratio <= most, _rests(ours, peer))


def _at_least(what: str, ours: Row, peer: Row, least: float) -> Ratio:
    """A peer takes at least so many times what ours takes, and ours is exact where that is known."""
    ratio, exact = peer["seconds"] / ours["seconds"], ours["figures"].get("exact", True)
    rests = _rests(ours, peer) + ("" if exact else "; NOT exact")
    return Ratio(what, f"{ratio:.0f}", f"at least {least:g}", ratio >= least and exact, rests)


def _gradients(case: str, ours: Row, methods: dict[str, Row]) -> list[Ratio]:
    words, most = GRADIENTS[case]
    what, found = f"gradient of {ours['figures']['members']} members, {words}:", []
    if (peer := _best(methods, "diffrax")) is not None:
        found.append(_at_most(f"{what} ours / diffrax", ours, peer, most))
    if (peer := _best(methods, LOOP)) is not None:
        found.append(_at_least(f"{what} plain loop / ours", ours, peer, GRADIENT_BY_LOOP))
    return found


def _fsir(ours: Row, methods: dict[str, Row]) -> list[Ratio]:
    found = []
    for name, least in NEAR_MISS.items():
        if (peer := _best(methods, name)) is not None:
            told = "a plain loop" if name == LOOP else f"diffrax, {peer['figures']['members']} at once"
            what = f"exact fSIR from its CSV: a near miss of as-run by {told} / ours"
            found.append(_at_least(what, ours, peer, least))
    return found


def _polynomials(case: str, ours: Row, methods: dict[str, Row]) -> list[Ratio]:
    found = []
    for name in ("pysindy, one library", "pysindy, all libraries"):
        if (peer := methods.get(name)) is not None:
            ratio, seconds = ours["seconds"] / peer["seconds"], ours["seconds"]
            exact = ours["figures"]["exact"]
            missed = [row["method"] for row in (ours, peer) if not row["figures"]["exact"]]
            found.append(
                Ratio(
                    f"{case}: ours / {name}",
                    f"{ratio:.2f}",
                    f"at most {BY_PYSINDY:g}, or under {BRIEF:g} s",
                    exact and (ratio <= BY_PYSINDY or seconds < BRIEF),
                    _rests(ours, peer) + "".join(f"; {method} not exact" for method in missed),
                )
            )
    return found


def _size(id: str, ours: Row) -> Ratio:
    figures, seconds = ours["figures"], ours["seconds"]
    what, _, size = id.rpartition(" ")
    states, asked = states_of(what, int(size)), OF_NETWORK if what == "states" else OF_SAMPLES
    exact, least, room = figures["exact_equations"], math.ceil(asked.exact * states), asked.megabytes
    holds = seconds < asked.seconds and exact >= least and (room is None or figures["megabytes"] < room)
    return Ratio(
        f"fit, {id}",
        f"{exact} of {states} exact",
        f"under {asked.seconds:g} s" + (f" and {room:g} MB" if room else "") + f", {least} exact",
        holds,
        f"{time_in_words(seconds)}, of the processor "
        f"{time_in_words(figures['processor_seconds'])}; "
        f"{figures['megabytes']:.0f} MB",
    )


def throughput(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """What the rows say of many members, as rows of text; dashes where there was no GPU."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        if row["id"].startswith("throughput") and row["failed"] is None:
            found.setdefault(row["figures"]["members"], {})[row["method"]] = row["seconds"]
    told: list[tuple[str, ...]] = []
    for members, seconds in sorted(found.items()):
        ours, gpu = seconds["ours"], seconds.get("ours, GPU")
        told.append(
            (
                f"{members:,}".replace(",", " "),
                time_in_words(ours),
                f"{members / ours:.3g}",
                *((time_in_words(gpu), f"{members / gpu:.3g}", f"{ours / gpu:.3g}") if gpu else ("-", "-", "-")),
            )
        )
    return told


MEMBERS_HEADER = ("members", "processor", "members a second", "GPU", "members a second", "ratio")
NO_GPU = "torch finds no GPU here: throughput is that of the processor alone"
HEADER = ("what", "ratio", "asked", "holds", "figures")


def lines(found: Sequence[Ratio]) -> list[tuple[str, ...]]:
    """The ratios as rows of text."""
    return [(r.what, r.value, r.asked, "yes" if r.holds else "no", r.rests) for r in found]


def markdown(rows: Sequence[Row], command: str) -> str:
    """Ratios first, then the rows, then what the stages of fits took."""
    parts = [f"# speed\n\n`{command}`"]
    if found := ratios(rows):
        parts.append(table(HEADER, lines(found)))
    if many := throughput(rows):
        parts.append(table(MEMBERS_HEADER, many))
        if all(line[-1] == "-" for line in many):
            parts.append(f"({NO_GPU}.)")
    header = ("measured", "method", "seconds", "middle", "first call", "processor", "MB", "")
    body = []
    for row in rows:
        f = row["figures"]
        cells = [
            time_in_words(f[k]) if k in f else "-" for k in ("median_seconds", "first_seconds", "processor_seconds")
        ]
        best = "-" if row["seconds"] is None else time_in_words(row["seconds"])
        memory = f"{f['megabytes']:.0f}" if "megabytes" in f else "-"
        body.append((row["id"], row["method"], best, *cells, memory, row["failed"] or ""))
    parts += [table(header, body), _ABOUT]
    staged = [row for row in rows if "stages" in row["figures"]]
    if staged:
        names = list(dict.fromkeys(n for row in staged for n in row["figures"]["stages"]))
        body = [(row["id"], time_in_words(row["seconds"]), *(_share(row, name) for name in names)) for row in staged]
        parts.append(table(("fit", "seconds", *names), body))
    return "\n\n".join(parts) + "\n"


def _share(row: Row, name: str) -> str:
    stages = row["figures"]["stages"]
    return f"{stages.get(name, 0.0) / max(sum(stages.values()), 1e-9):.0%}"


_ABOUT = (
    "Seconds are the best of several turns, taken in turn with the others of the same "
    "measurement; `middle` is the middle turn, `processor` the time of all threads together. First "
    "calls compile, and do not count. Ours runs on one thread, its default; JAX on all cores, its "
    "default; the plain loop on one thread, which suits its small tensors. The rows of `fsir` by "
    "peers are what one near miss (MSE below 0.05) costs: 3000 gradient steps over the share of "
    "runs that come so near, 3 in 100, LBFGS left out. Fits are in a process of their own, whose "
    "peak memory includes what it imports."
)
