"""What a fit is asked to do: the series, what the user knows, the options and the monitor."""

from __future__ import annotations

from dataclasses import dataclass, replace

from odediscovery.data.controls import drop_appended_controls
from odediscovery.data.samples import complete, measured
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.problem.pose import pose_known, with_known_states
from odediscovery.problem.problem import Problem
from odediscovery.problem.thinning import thin_series
from odediscovery.runtime.monitor import SEARCHING, Monitor
from odediscovery.runtime.resources import GIGABYTE
from odediscovery.settings import Settings

# Copies of the samples, and matrices of all states, that a fit has at a time.
SAMPLES_HELD, MATRICES_HELD = 20, 60


@dataclass(frozen=True, eq=False)
class Task:
    """One fit before its first stage.

    Args:
        every: all samples, unmeasured states and controls as columns.
        few: those that the search sees: fewer, if the series is long or trajectories lack a state.
        known: what the user knows, in the user's units.
        p: `few` and `known`, dimensionless.
        settings: options of the fit.
        monitor: hears the progress and can stop the work.
    """

    every: TimeSeries
    few: TimeSeries
    known: Knowledge
    p: Problem
    settings: Settings
    monitor: Monitor

    @property
    def series(self) -> TimeSeries:
        """All samples, controls apart from the states."""
        return drop_appended_controls(self.every)


def check_size(series: TimeSeries, settings: Settings) -> None:
    """Whether there is memory for the least that a fit holds: its samples, and matrices of all states.

    Raises:
        InputError: it takes more than --max-memory.
    """
    n, samples = series.n_states, sum(len(t.time) for t in series.trajectories)
    needed = (SAMPLES_HELD * samples * n + MATRICES_HELD * n**2) * 8 / GIGABYTE
    if needed > settings.max_memory:
        raise InputError(
            f"{n} states in {samples} samples need about {needed:.0f} GB of memory, and --max-memory is "
            f"{settings.max_memory:g}: name fewer columns with --states, or allow more"
        )


def pose_task(series: TimeSeries, settings: Settings, monitor: Monitor) -> Task:
    """The task, its data dimensionless.

    Raises:
        InputError: the device is missing, controls are asked of a published recipe, or a statement of the user
            does not fit the series.
    """
    if settings.device != "cpu":
        from odediscovery.runtime.device import device_of  # noqa: PLC0415 (torch waits until it is needed)

        device_of(settings.device)  # A missing device is reported before any work is done.
    if series.controls and settings.published:
        raise InputError(
            f"inputs ({', '.join(series.controls)}) need --recipe default: the published recipes know none"
        )
    every, known = with_known_states(series, settings)
    if settings.recipe == "neural" and not measured(every).all():
        raise InputError("unmeasured states need --recipe default: recipe neural trains on what was measured")
    # Without time noise is estimated from neighbours alone.
    with monitor.patient(SEARCHING):
        whole = every if settings.published else complete(every)
        few = every if settings.published else thin_series(whole)
        every = every if whole is every else replace(every, messages=whole.messages)
        p = pose_known(few, known, settings)
    return Task(every, few, known, p, settings, monitor)
