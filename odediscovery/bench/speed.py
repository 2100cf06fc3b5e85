"""Run times of fits and of single layers.

    units    the forward pass of each unit, ours and one written by hand from its formula
    fits     default fits of fSIR, with increasing numbers of samples, clean and with 1 % noise

Each measurement has a separate process, whose peak memory includes imports; nothing else runs at the same time.

Units by hand have the same weights, and inputs of both signs in float32, the default of torch; both must agree before
the timing. They have no checks and no members axis; their gates pass the gradient through, as those of the units.
"""

from __future__ import annotations

import math
import resource
import sys
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid

from odediscovery.bench.draws import errors_of
from odediscovery.bench.rows import Row, Study, Task, fit_into
from odediscovery.bench.scores import exact_and_coef
from odediscovery.bench.summary import Told, listed, text_of, yes_if, yes_or_no
from odediscovery.bench.systems import check_names
from odediscovery.errors import FitError
from odediscovery.laws.systems import simulate_system
from odediscovery.runtime.workers import Processes
from odediscovery.settings import settings_for
from odediscovery.units import UNITS

# Batch, inputs and outputs of the layers, and how many calls are timed together: a single one is as short as reading
# the clock.
SIZES: Mapping[str, tuple[int, int, int, int]] = {"small": (40, 3, 6, 200), "wide": (1000, 100, 10, 10)}
SINGLE = torch.finfo(torch.float32).eps


def _gated(p: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of the size of gated inputs, and their angle."""
    gate = p.gate + (p.gate.clamp(0.0, 1.0) - p.gate).detach()
    log_r = torch.log(gate * (x.abs() + SINGLE) + (1.0 - gate))
    return log_r, torch.where(x < 0, math.pi * gate, torch.zeros(()))


def _real_npu(p: Any, x: Tensor) -> Tensor:
    log_r, k = _gated(p, x)
    return torch.exp(linear(log_r, p.real)) * torch.cos(linear(k, p.real))


def _npu(p: Any, x: Tensor) -> Tensor:
    log_r, k = _gated(p, x)
    size = torch.exp(linear(log_r, p.real) - linear(k, p.imaginary))
    return size * torch.cos(linear(log_r, p.imaginary) + linear(k, p.real))


def _nmu(p: Any, x: Tensor) -> Tensor:
    m = p.weight.clamp(0.0, 1.0)
    return torch.prod(m * x[..., None, :] + (1.0 - m), dim=-1)


def _nac_weights(p: Any) -> Tensor:
    return torch.tanh(p.weight) * torch.sigmoid(p.mask)


def _nalu(p: Any, x: Tensor) -> Tensor:
    w, z = _nac_weights(p), linear(x, p.gate, p.bias)
    return torch.sigmoid(z) * linear(x, w) + torch.exp(logsigmoid(-z) + linear(torch.log(x.abs() + 1e-8), w))


BY_HAND: Mapping[str, Callable[[Any, Tensor], Tensor]] = {
    "RealNPU": _real_npu,
    "NPU": _npu,
    "NAU": lambda p, x: linear(x, p.weight),
    "NMU": _nmu,
    "NAC": lambda p, x: linear(x, _nac_weights(p)),
    "NALU": _nalu,
    "Linear": lambda p, x: linear(x, p.weight),
    "Dense": lambda p, x: linear(x, p.weight, p.bias),
}


class ByHand(nn.Module):
    """The plain formula of a unit, with the parameters of the unit."""

    def __init__(self, unit: nn.Module, formula: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.formula, self.unit = formula, unit

    def forward(self, x: Tensor) -> Tensor:
        """The formula at x [batch, n_in]."""
        return self.formula(self.unit, x)


def measure_unit(case: str, seed: int = 0, seconds: float = 2.0) -> dict[str, float]:
    """Wall-clock seconds of a forward pass of a unit and a size, as in "NAU small", ours and by hand, each the best of
    several turns. They take turns, so that other load affects both."""
    name, _, size = case.partition(" ")
    batch, n_in, n_out, times = SIZES[size]
    threads, source = torch.get_num_threads(), torch.Generator().manual_seed(seed)
    torch.set_num_threads(1)
    try:
        unit, x = UNITS[name](n_in, n_out, generator=source), torch.randn(batch, n_in, generator=source)
        own = ByHand(unit, BY_HAND[name])
        if not torch.allclose(unit(x), own(x), rtol=1e-3, atol=1e-5):
            raise FitError(f"{name} by hand computes something else")
        timers = {"ours": timeit.Timer(lambda: unit(x)), "by hand": timeit.Timer(lambda: own(x))}
        turns: list[dict[str, float]] = []
        ending = time.perf_counter() + 2.0 * seconds
        while len(turns) < 3 or time.perf_counter() < ending:
            turns.append({method: timer.timeit(times) / times for method, timer in timers.items()})
    finally:
        torch.set_num_threads(threads)
    return {method: min(turn[method] for turn in turns) for method in timers}


PARTS = ("units", "fits")
# Samples and noise of the fits; a quick run makes only the first one.
FITS = ((40, 0.0), (4_000, 0.0), (100_000, 0.0), (400, 0.01), (100_000, 0.01))
# Largest acceptable ratio of our forward pass to that by hand.
FORWARD = 1.1
# `seconds` are wall-clock time for a unit and processor time for a fit, whose wall-clock time is `clock`.
COLUMNS = ("id", "method", "failed", "seconds", "by_hand", "clock", "megabytes", "exact", "outcome", "equations")


def forward(seed: int, seconds: float, row: Row) -> None:
    """Time the forward pass of a unit."""
    found = measure_unit(row["id"], seed, seconds)
    row |= {"seconds": found["ours"], "by_hand": found["by hand"]}


def timed_fit(samples: int, noise: float, seed: int, max_seconds: float, row: Row) -> None:
    """Time a default fit of fSIR."""
    series = simulate_system("fsir", samples=samples, noise=noise, seed=seed)
    began = time.perf_counter()
    found = fit_into(row, series, settings_for(seed=seed, max_seconds=max_seconds))
    row |= {"clock": round(time.perf_counter() - began, 3), "megabytes": round(peak_megabytes())}
    row["exact"] = exact_and_coef(errors_of(found.equations, "fsir", series), is_clean=not noise)[0]


def run_speed(
    folder: Path, parts: Sequence[str], *, seed: int = 0, max_seconds: float = 600.0, quick: bool = False, **where: Any
) -> list[Row]:
    """Run the measurements of some parts, cheap ones first, and return all rows."""
    check_names("part", parts, PARTS)
    tasks: list[Task] = []
    if "units" in parts:
        measured = partial(forward, seed, 0.2 if quick else 2.0)
        tasks += [Task(f"{name} {size}", "ours", measured) for size in SIZES for name in BY_HAND]
    if "fits" in parts:
        tasks += [
            Task(f"{samples} samples, {noise:.0%} noise", "ours", partial(timed_fit, samples, noise, seed, max_seconds))
            for samples, noise in FITS[: 1 if quick else None]
        ]
    shared = {"measure": "speed", "seed": seed, "max_seconds": max_seconds, "quick": quick}

    def in_words(row: Row) -> str:
        return f"{row['seconds'] / row['by_hand']:.2f} of by hand" if row["by_hand"] else f"{row['megabytes']} MB"

    study = Study("speed", shared, COLUMNS, tasks, max_seconds, in_words)
    return study.run(folder, backend=Processes(fresh=True), **where)


_UNITS: Mapping[str, Told] = {
    "forward pass": text_of("id"),
    "ours": lambda row: f"{1e6 * row['seconds']:.3g} us",
    "by hand": lambda row: f"{1e6 * row['by_hand']:.3g} us",
    "ratio": lambda row: f"{row['seconds'] / row['by_hand']:.2f}",
    f"at most {FORWARD:g}": lambda row: yes_or_no(row["seconds"] / row["by_hand"] <= FORWARD),
}
_FITS: Mapping[str, Told] = {
    "fit of fSIR": text_of("id"),
    "s of the processor": lambda row: f"{row['seconds']:.1f}",
    "of the clock": lambda row: f"{row['clock']:.1f}",
    "MB": text_of("megabytes"),
    "exact": yes_if("exact"),
    "ended": text_of("outcome"),
}


def markdown(rows: Sequence[Row], command: str) -> str:
    """Write the table of forward passes, ours and by hand, then that of fits."""
    parts = [f"# speed\n\n`{command}`"]
    done = [row for row in rows if row["failed"] is None]
    if units := [row for row in done if row["by_hand"]]:
        parts.append(listed(_UNITS, units))
    if fits := [row for row in done if row["clock"] is not None]:
        parts.append(listed(_FITS, fits))
    parts += [f"{row['id']}: {row['failed']}" for row in rows if row["failed"]]
    return "\n\n".join(parts) + "\n"


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.is_file():
        # On Linux getrusage never reports less than the peak of the parent process.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
