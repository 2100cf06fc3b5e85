"""discover(): measured series in, readable equations out. The stages in their order.

    prepare -> search (grow, train, prune) -> shortlist -> polish -> judge -> snap -> conclude

Every stage takes one finished value and returns a new one; this is the only file that knows
the order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from odediscovery.data.controls import drop_appended_controls
from odediscovery.data.samples import measured
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.chaos import cut_until_followed
from odediscovery.discovery.conclude import build_result, conclude, constants
from odediscovery.discovery.front import lower_noise, polish_shortlist, simplify_exponents
from odediscovery.discovery.holdout import continue_over, split
from odediscovery.errors import FitError, InputError
from odediscovery.judge.criterion import choose
from odediscovery.judge.extrapolation import check_extrapolation
from odediscovery.judge.identifiability import undetermined_exponents, unidentifiable_combinations
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.pose import imposed, told
from odediscovery.problem.prepare import Prepared, prepare
from odediscovery.problem.thinning import thinned
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.device import device_of
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.flows.contest import compete
from odediscovery.search.flows.notes import flow_notes
from odediscovery.search.published.recipes import run_published
from odediscovery.search.refinement import lengthened, on_all_samples, refined, without_excess
from odediscovery.search.strategies import again, confirmed, search, settled
from odediscovery.settings import Settings
from odediscovery.stages.values import Judged

# Members times windows are small tensors: a second thread waits longer than it works.
THREADS = 1


def discover(
    series: TimeSeries,
    settings: Settings | None = None,
    monitor: Monitor | None = None,
    *,
    before: Sequence[PowerSum] = (),
) -> Discovery:
    """The ordinary differential equations behind measured series.

    Args:
        series: what was measured, from `load_csv` or `TimeSeries.from_arrays`.
        settings: options, see `Settings`; default recipe if not given.
        monitor: hears the progress and can stop the work; the best so far comes back.
        before: laws that compete with what is found, such as those of an earlier fit (`resume`),
            in the user's units.

    Raises:
        InputError: a setting is out of range, or `holdout` leaves too few samples.
        FitError: no law could be integrated through the data.

    >>> from odediscovery import settings_for, simulate_system
    >>> found = discover(simulate_system("torricelli"), settings_for(members=0))
    >>> sorted(found.equations.power_sum.exponents.ravel().tolist())
    [0.0, 0.5]
    """
    settings = (settings or Settings()).checked()
    earlier, later = split(series, settings.holdout)
    found = _found(earlier, settings, monitor or Monitor(settings.max_seconds), before)
    return found if later is None else continue_over(found, earlier, later)


def _found(series: TimeSeries, settings: Settings, monitor: Monitor, before: Sequence[PowerSum]) -> Discovery:
    torch.set_num_threads(settings.threads or THREADS)
    device_of(settings.device)  # A device that is missing is missed at once.
    if series.controls and settings.published:
        raise InputError(
            f"inputs ({', '.join(series.controls)}) need --recipe default: the published recipes know none"
        )
    series, known = told(series, settings)
    thin = not settings.published and measured(series).all()
    few = thinned(series) if thin else series
    prepared = imposed(few, known, settings)
    every, series = series, drop_appended_controls(series)
    if settings.published:
        return _published(prepared, series, settings, monitor)
    if not prepared.measured.all():
        if series.controls:
            raise InputError(
                "unmeasured states that no conserved sum tells cannot have inputs "
                "beside them yet: leave --inputs or --hidden-states out"
            )
        return _of_flows(prepared, known, series, settings, monitor)
    if settings.grow:
        prepared = confirmed(prepared, monitor)
    candidates = again(prepared, before, monitor)
    if not (prepared.clean and settled(candidates)):
        candidates += search(prepared, settings, monitor)
    whole, (prepared, before_front) = prepared, cut_until_followed(prepared, candidates, monitor)
    rows = polish_shortlist(prepared, candidates, before_front, monitor)
    if not rows:
        raise FitError(
            "no equations could be integrated through the data; more samples, or fewer states (--states), may help"
        )
    prepared, rows = lower_noise(prepared, rows)
    monitor.note(event="chosen", **constants(prepared, rows[choose(rows)]))
    rows = simplify_exponents(prepared, rows, monitor)
    chosen = choose(rows)
    if prepared is not whole and not monitor.stopping():
        rows[chosen] = lengthened(whole, prepared, rows[chosen], monitor)
    rows = [without_excess(prepared, row) for row in rows]
    wide = [] if prepared.clean or monitor.stopping() else _open(prepared, rows[chosen])
    if few is not every:
        prepared, rows, chosen, series = _widened(every, few, prepared, rows, chosen, monitor)
    found = conclude(prepared, rows, chosen, series, settings, monitor)
    notes = [*wide, *unidentifiable_combinations(prepared, rows[chosen].polished)]
    if not series.controls:
        notes += check_extrapolation(found.equations, series, found.initial_values)
    return dataclasses.replace(found, messages=(*found.messages, *notes, *known.sentences()))


def _of_flows(p: Prepared, known: Knowledge, series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Laws of flows, where states are unmeasured."""
    won = compete(p, known, settings, monitor)
    found = conclude(won.p, won.rows, won.chosen, series, settings, monitor)
    notes = (*flow_notes(won, series.states), *known.sentences())
    return dataclasses.replace(found, messages=(*found.messages, *notes))


def _widened(
    every: TimeSeries, few: TimeSeries, p: Prepared, rows: list[Judged], chosen: int, monitor: Monitor
) -> tuple[Prepared, list[Judged], int, TimeSeries]:
    """What was found on few of the samples judged on all of them, if the chosen law follows."""
    counts = [sum(len(t.time) for t in s.trajectories) for s in (few, every)]
    note = f"equations were looked for in {counts[1]} samples thinned to {counts[0]}"
    if p.heads is None and not monitor.stopping():
        whole = prepare(every, smoothing=False)
        given = p.given and p.given.rescaled(whole.scale.state, whole.scale.time)
        of_all = f"{note}; constants, errors and scores are those of all"
        whole = dataclasses.replace(whole, knowledge=given, given=p.given, messages=(*p.messages, of_all))
        # Among all samples one may have the other sign.
        turned = (np.sign(whole.scale.state) != np.sign(p.scale.state)).any()
        moved = None if turned else on_all_samples(whole, p, rows, chosen, monitor)
        if moved is not None:
            return whole, *moved, every
    note += ": constants, errors and scores are of these only"
    return dataclasses.replace(p, messages=(*p.messages, note)), rows, chosen, few


def _open(p: Prepared, row: Judged) -> list[str]:
    """Exponents of the chosen law that the data leave open, one sentence each."""
    found = row.polished
    sigma = np.maximum(np.sqrt(found.squares / found.counts.clip(1)), p.floor)
    return undetermined_exponents(p, found, lambda law, free: refined(p, law, free, found.initial, sigma))


def _published(p: Prepared, series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Members as a published recipe trains and reads them."""
    ended = run_published(series, p, settings, monitor)
    return build_result(
        series, settings, monitor, ended.front, ended.initial, ended.noise, ended.network, ended.messages
    )
