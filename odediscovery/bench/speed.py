"""How fast is `discover`, next to one training as the study's code ran it?

One run on one machine measures both, so that only their ratio matters: (a) the default fit of
clean fSIR, from the series to the finished result, after all imports; (b) one RealNPU member of
recipe `as-run`: 3000 RMSProp steps, then LBFGS, on the same data.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from odediscovery.discovery import THREADS, discover
from odediscovery.monitor import Monitor
from odediscovery.prepare import prepare
from odediscovery.published import RECIPES, random_members, train
from odediscovery.series import TimeSeries
from odediscovery.settings import Settings, settings_for
from odediscovery.systems import simulate_system
from odediscovery.trajectories import Trajectories

# The quick mode runs this share of the as-run steps.
QUICK = 0.1


@dataclass(frozen=True)
class Speed:
    """What was measured.

    Args:
        ratio: as_run_seconds / default_seconds.
        default_seconds: wall time of the default `discover` on clean fSIR.
        default_mse: error of the equations that it chose.
        default_complexity: their constants and states.
        as_run_seconds: wall time of one `as-run` training of one member.
        gradient_seconds, lbfgs_seconds: its two parts.
        extrapolated: whether only a tenth of its steps ran and the time is ten times theirs.
        peak_megabytes: largest memory of the process during the default fit, imports included.
    """

    ratio: float
    default_seconds: float
    default_mse: float
    default_complexity: int
    as_run_seconds: float
    gradient_seconds: float
    lbfgs_seconds: float
    extrapolated: bool
    peak_megabytes: float


class _Clock(Monitor):
    """Remembers when each stage began."""

    def __init__(self) -> None:
        super().__init__()
        self.began: dict[str, float] = {}

    def stage(self, name: str, steps: int) -> None:
        self.began[name] = self.seconds()


def measure_speed(
    seed: int = 0, quick: bool = False, say: Callable[[str], None] = print,
    default: Settings | None = None, as_run: Settings | None = None,
) -> Speed:  # fmt: skip
    """Both measurements, the default fit first.

    Args:
        seed: of both.
        quick: run a tenth of the as-run steps and extrapolate.
        say: hears one line a measurement.
        default, as_run: other settings for the two than the recipes' own.
    """
    series = simulate_system("fsir")
    torch.set_num_threads(THREADS)
    clock = Monitor()
    found = discover(series, default or settings_for("default", seed=seed))
    default_seconds, peak = clock.seconds(), peak_megabytes()
    say(f"default: {default_seconds:.1f} s, MSE {found.mse:.2g}, {peak:.0f} MB")

    as_run = as_run or settings_for("as-run", seed=seed, members=1)
    if quick:
        as_run = dataclasses.replace(as_run, adam_steps=int(QUICK * as_run.adam_steps),
                                     lbfgs_steps=int(QUICK * as_run.lbfgs_steps))  # fmt: skip
    gradient, whole = _train_as_run(series, as_run)
    if quick:
        gradient, whole = gradient / QUICK, whole / QUICK
    say(f"as-run:  {whole:.1f} s{' (extrapolated)' if quick else ''}")
    return Speed(
        whole / default_seconds, default_seconds, found.mse, found.equations.complexity,
        whole, gradient, whole - gradient, quick, peak,
    )  # fmt: skip


def _train_as_run(series: TimeSeries, settings: Settings) -> tuple[float, float]:
    """Seconds of the gradient steps and of the whole training of random RealNPU members."""
    recipe, p = RECIPES["as-run"], prepare(series)
    hidden = [settings.hidden] * settings.members
    field = random_members("RealNPU", series.n_states, hidden, settings.seed, recipe)
    data = Trajectories.of(series, p.initial * p.scale.state, recipe.solver)
    clock = _Clock()
    train(field, data, recipe, settings, clock)
    return clock.began["LBFGS"] - clock.began["RMSProp"], clock.seconds()


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
