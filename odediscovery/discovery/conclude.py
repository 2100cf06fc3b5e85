"""The judged laws as a result: equations in the user's units, front, outcome, messages.

`prepare` makes numbers dimensionless; here they regain their units, with standard errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from odediscovery.data.series import TimeSeries, explain_two_values, pooled, sampling_errors
from odediscovery.judge.claim import (
    EXPLAINED,
    EXPLAINED_STRUCTURED,
    Claim,
    ResidualTests,
    examine_residuals,
    has_idle_terms,
    idle_terms,
    is_walk_as_good,
    least_shares,
    residuals_of,
    share_in_pieces,
    shares_explained,
    unlike_a_law,
)
from odediscovery.judge.criterion import Verdict, find_ties, non_dominated, penalty
from odediscovery.judge.notes import (
    bound_states,
    close_rivals,
    idle_input,
    in_order,
    judged_in_pieces,
    may_be_any_curve,
    never_changes,
    sampled_input,
    two_complexities,
    unresolved,
)
from odediscovery.judge.remarks import name_undetermined, with_enough_digits
from odediscovery.laws.equations import Equations, Form
from odediscovery.laws.power_sum import PowerSum, count, expanded
from odediscovery.laws.records import Estimates, FoundBy, Judged, Polished, monomial_names, residual_freedom
from odediscovery.networks.chain import Network, network_of
from odediscovery.problem.problem import Problem, in_user_units, linear_relations
from odediscovery.result.discovery import Discovery, rows_about_as_good
from odediscovery.result.front import FrontRow
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import DRAWING, TELLING, Monitor
from odediscovery.search.refinement import leaves_nothing
from odediscovery.settings import Settings
from odediscovery.stages.polish import unscaled_errors, without_rounding
from odediscovery.textbook.fit import price_of_name

UNRESOLVED = 0.4  # Least movement between two samples that no interpolation follows [range of the state]
MOSTLY = 0.7  # Least part of an error by sampling that is worth a note [standard error]


def constants(p: Problem, row: Judged) -> dict[str, object]:
    """The constants of a law in the user's units before snapping, for the log."""
    law = row.polished.law.unscaled(p.scale.state, p.scale.time)
    return {
        "coefficients": law.coefficients.tolist(),
        "exponents": law.exponents.tolist(),
        "exponent_errors": row.polished.errors.exponents.tolist(),
    }


def equations_of(p: Problem, row: Judged, series: TimeSeries) -> Equations:
    """A polished law as equations in the user's units, with standard errors."""
    polished = row.polished
    law = expanded(in_user_units(p, polished.law))
    errors = _with_sampling_errors(p, polished, law, unscaled_errors(polished, p.scale), series)
    # A fixed constant keeps its exact value despite rounding in the change of units.
    held = zip(law.constants, errors.constants, strict=True)
    law = law.with_constants(*(np.where(error == 0.0, without_rounding(values), values) for values, error in held))
    return Equations.from_power_sum(
        series.states, law, time_name=series.time_name, standard_errors=errors, controls=series.controls
    )


def _with_sampling_errors(p: Problem, found: Polished, law: PowerSum, errors: PowerSum, series: TimeSeries) -> PowerSum:
    """Errors that include what straight lines between the samples of controls miss; see `sampling_errors`.

    A law that leaves rounding errors only proves that the controls are straight.
    """
    missed = sampling_errors(series)
    if not missed.any() or _leaves_errors_of_solvers(p, found):
        return errors
    a, *others = errors.constants
    shares = np.linalg.norm((law.exponents[:, : len(missed)] != 0.0) * missed, axis=1)
    return errors.with_constants(np.where(a == 0.0, a, np.hypot(a, shares * law.coefficients)), *others)


def estimates(p: Problem, polished: Polished) -> Estimates:
    """The fitted constants and the start values of whole trajectories, not of their pieces."""
    heads = np.arange(len(polished.initial)) if p.heads is None else np.array(p.heads)
    k, n = count(polished.free), polished.initial.shape[1]
    starts = k + heads[:, None] * n + np.arange(n)
    kept = np.concatenate([np.arange(k), starts.ravel()])
    return Estimates(
        polished.law,
        polished.free,
        polished.initial[heads],
        polished.joint.part(kept),
        p.nonnegative[~p.data.is_control],
        p.scale,
    )


def _front_row(p: Problem, row: Judged, series: TimeSeries, selected: bool) -> FrontRow:
    squares = row.polished.plain_squares * p.scale.state**2
    values = pooled(series)[:, p.measured[: series.n_states]]
    spread = np.nansum((values - np.nanmean(values, axis=0)) ** 2)
    equations, own = equations_of(p, row, series), ~p.data.is_control
    heads = range(len(row.polished.initial)) if p.heads is None else p.heads
    return FrontRow(
        equations,
        equations.complexity,
        float(squares.sum() / row.polished.counts.sum()),
        float(1.0 - squares.sum() / spread) if spread > 0 else 1.0,
        row.criterion,
        selected,
        row.polished.initial[list(heads)] * p.scale.state[own],
        state_r2=shares_explained(series, squares[own]) if p.heads is None else share_in_pieces(p, row.polished)[1],
    )


def _front(verdict: Verdict, series: TimeSeries) -> tuple[FrontRow, ...]:
    """Rows that fit better than all simpler ones, and the chosen row, alone of its complexity."""
    p, rows, chosen = verdict.p, verdict.rows, verdict.chosen
    best = non_dominated(rows, chosen, p.scale.state)
    listed = sorted(
        (_front_row(p, rows[i], series, i == chosen) for i in best), key=lambda row: (row.complexity, row.mse)
    )
    taken = next(row.complexity for row in listed if row.selected)
    return tuple(
        row
        for i, row in enumerate(listed)
        if row.selected or (row.complexity != taken and all(row.mse < other.mse for other in listed[:i]))
    )


def conclude(verdict: Verdict, series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """The verdict as a result with its notes.

    Args:
        verdict: judged laws, dimensionless, and the index of the claimed one.
        series: the fitted data, in the user's units.
        settings: options of the fit.
        monitor: has the log and the time, and whether the fit was stopped.
    """
    p, found = verdict.p, verdict.best.polished
    tests = _residual_tests(p, found)
    if tests.inflation > 1.0:
        # Autocorrelated residuals carry less information than independent ones.
        found = found.widened(tests.inflation)
        verdict = verdict.with_best(dataclasses.replace(verdict.best, polished=found))
    front, fitted, own = _front(verdict, series), estimates(p, found), ~p.data.is_control
    # A law that was not refined for lack of time has no covariance.
    known = fitted if np.isfinite(found.joint.known).all() else None
    noise = np.sqrt(found.plain_squares / found.counts.clip(1)) * p.scale.size
    starts = fitted.initial * p.scale.state[own]
    if not p.clean:
        front = tuple(
            with_digits(row, series, starts, noise[own] * max(tests.inflation, 1.0), monitor) if row.selected else row
            for row in front
        )
    chosen = next(row for row in front if row.selected)
    # What a law leaves of exact samples is no noise, if there was time to refine it.
    structured = p.clean and not (monitor.stopping() or _leaves_errors_of_solvers(p, found))
    explained, each = share_in_pieces(p, found) if p.heads is not None else (chosen.r2, chosen.state_r2)
    return build_result(
        series,
        settings,
        monitor,
        front,
        starts,
        np.where(p.measured, noise, np.nan)[own],
        network_of(found.law, p.scale, series.n_states),
        [*_notes(verdict, front, series, tests), *tests.sentences(series.states, p.samples_a_step > 0.0)],
        claim=Claim(
            explained,
            EXPLAINED_STRUCTURED if structured or not tests.is_noise else EXPLAINED,
            each,
            least_shares(p, series, tests),
            walk=not p.clean and monitor.in_time(TELLING, lambda: _is_walk_as_good(verdict), False),
            idle=_idle_names(front, found) if not p.clean and has_idle_terms(verdict.best) else [],
        ),
        freedom=residual_freedom(found),
        fitted=known,
        found_by=verdict.best.origin.found_by,
    )


def _residual_tests(p: Problem, found: Polished) -> ResidualTests:
    """The tests of a law's residuals; none without noise."""
    # The errors of solvers are neither noise nor physics.
    if p.clean or _leaves_errors_of_solvers(p, found):
        return ResidualTests()
    return examine_residuals(residuals_of(p, found))


def _leaves_errors_of_solvers(p: Problem, found: Polished) -> bool:
    return bool((found.squares <= found.counts * p.floor**2)[~p.data.is_control].all())


def _is_walk_as_good(verdict: Verdict) -> bool:
    """Whether a random walk explains the data better than the claimed law, at the charge by which it was chosen."""
    p, row = verdict.p, verdict.best
    found = row.polished
    samples, starts = float(found.counts.sum()), found.initial.size
    ties = find_ties(found, p.scale.state)
    price = penalty(found.law, found.free, samples, starts, ties.number) + ties.loss
    if row.origin.is_textbook:
        price = min(price, price_of_name(count(found.free), samples, starts))
    return is_walk_as_good(p, found.squares, found.counts, price, starts)


def _idle_names(front: tuple[FrontRow, ...], found: Polished) -> list[str]:
    """Names of the claimed law's terms that are not significant with its widened errors."""
    equations = next(row.equations for row in front if row.selected)
    terms = monomial_names(equations)
    return [f"{terms[j]} in {equations.variables[i]}'" for i, j in idle_terms(found, 1.0)]


def with_digits(row: FrontRow, series: TimeSeries, starts: Array, noise: Array, monitor: Monitor) -> FrontRow:
    """The row with enough digits for the printed equations to match the fitted ones; unchanged if there is no time."""
    enough = monitor.in_time(
        DRAWING, lambda: with_enough_digits(row.equations, series, starts, noise, monitor), row.equations
    )
    return dataclasses.replace(row, equations=enough)


def _notes(verdict: Verdict, front: tuple[FrontRow, ...], series: TimeSeries, tests: ResidualTests) -> list[str]:
    """Notes on the data and the laws, one sentence each."""
    p, chosen = verdict.p, next(row.equations for row in front if row.selected)
    still = np.flatnonzero(p.constant & ~p.data.is_control)
    notes: list[str] = [never_changes(p.data.states[i]) for i in still]
    notes += [*p.messages, *verdict.reasons, *explain_two_values(p.data), *_relations(p)]
    notes += [*name_undetermined(chosen), *_on_controls(chosen, series), *_unresolved(verdict, tests)]
    if any(row.equations.power_sum is None for row in front):
        notes.append(two_complexities())
    unlike = _unlike_a_law(verdict)
    if unlike:
        notes.append(may_be_any_curve([f"{state}'" for state in unlike]))
    if p.heads is not None:
        notes.append(judged_in_pieces(len(p.data.trajectories[0].time)))
    return notes


def _unlike_a_law(verdict: Verdict) -> list[str]:
    """States of exact data whose equations fit but do not look like a law, if nobody wrote or named them."""
    p, row = verdict.p, verdict.best
    law = row.polished.law
    given = p.knowledge is not None or law.stoichiometry is not None or row.origin.is_textbook
    if not p.clean or p.heads is not None or given or not leaves_nothing(p, row.polished):
        return []
    unlike = unlike_a_law(law, p) & ~p.constant
    return [state for state, is_unlike in zip(p.data.states, unlike, strict=True) if is_unlike]


def rivals(found: Discovery) -> list[str]:
    """A note on other rows of the finished front that are about as good, if a law is claimed."""
    close = rows_about_as_good(found)
    return [close_rivals([row.complexity for row in close])] if close else []


def _on_controls(equations: Equations, series: TimeSeries) -> Iterator[str]:
    """Notes on controls that are in no equation, and on those whose samples limit the accuracy of their terms."""
    used = {symbol for side in equations.right_hand_sides for symbol in side.free_symbols}
    law, errors, missed = equations.law, equations.standard_errors, sampling_errors(series)
    for k, name in enumerate(equations.variables):
        if name in series.controls and equations.symbols[k] not in used:
            yield idle_input(name)
        elif missed[k] and law is not None and errors is not None:
            least = missed[k] * np.abs(law.coefficients[:, law.exponents[:, k] != 0.0])
            known = errors.coefficients[:, law.exponents[:, k] != 0.0]
            # Errors without it are those of a control that is known to be straight.
            if ((known >= least) & (MOSTLY * known < least)).any():
                yield sampled_input(name, missed[k])


def _unresolved(verdict: Verdict, tests: ResidualTests) -> list[str]:
    """A note on the state that moves farthest between two samples, if a law does not follow it there.

    What is less than six standard deviations may be noise.
    """
    p = verdict.p
    if leaves_nothing(p, verdict.best.polished) if p.clean else tests.is_noise:
        return []
    far = np.zeros(len(p.noise))
    for t in p.data.trajectories:
        steps = np.abs(np.diff(t.values, axis=0))
        far = np.maximum(far, np.max(steps, axis=0, initial=0.0, where=steps > 6.0 * p.noise))
    values, own = pooled(p.data), p.measured & ~p.constant
    ranges = np.array([np.ptp(x[np.isfinite(x)]) if of else np.inf for x, of in zip(values.T, own, strict=True)])
    share = far / ranges
    k = int(np.argmax(share))
    return [unresolved(p.data.states[k], share[k])] if share[k] > UNRESOLVED else []


def _relations(p: Problem) -> list[str]:
    """Notes on linear relations of the states that hold in all samples."""
    notes = list[str]()
    for weights, value in linear_relations(p):
        terms = [(c, f"{abs(c):.4g}*{state}") for state, c in zip(p.data.states, weights, strict=True) if c]
        text = " ".join(f"{'-' if c < 0 else '+'} {term.removeprefix('1*')}" for c, term in terms)
        notes.append(bound_states(f"{text.removeprefix('+ ')} = {value:.4g}"))
    return notes


def build_result(
    series: TimeSeries,
    settings: Settings,
    monitor: Monitor,
    front: tuple[FrontRow, ...],
    initial: Array,
    noise: Array,
    network: Network | None,
    notes: Sequence[str],
    claim: Claim | None = None,
    freedom: int | None = None,
    fitted: Estimates | None = None,
    found_by: FoundBy = "",
) -> Discovery:
    """Build the result, with its outcome and messages in order.

    Args:
        front: the Pareto front, with one selected row.
        initial: start values [trajectories, states], in the user's units.
        noise: standard deviation of the residuals [states], in the user's units.
        network: of the chosen equations, if they have one.
        notes: for the reader, one sentence each.
        claim: what the equations explain and must explain (default: R2 of the chosen row, and half).
        freedom: residual degrees of freedom, if standard errors are known.
        fitted: constants and starts with their covariance, if known.
        found_by: the stage that proposed the chosen equations.
    """
    top = next(row for row in front if row.selected)
    outcome, messages = (claim or Claim(top.r2)).outcome(monitor, series.states)
    return Discovery(
        series=series,
        equations=top.equations,
        initial_values=initial,
        front=front,
        mse=top.mse,
        r2=top.r2,
        r2_heldout=None,
        noise=noise,
        outcome=outcome,
        messages=in_order((*series.messages, *messages, *notes)),
        settings=settings,
        seconds=round(monitor.seconds(), 3),
        network=network,
        log=tuple(monitor.log),
        degrees_of_freedom=freedom,
        estimates=fitted,
        found_by=found_by,
        initial_value_errors=None if fitted is None else fitted.start_errors(),
    )


def add_messages(found: Discovery, *messages: str) -> Discovery:
    """The result with more messages, in order."""
    return dataclasses.replace(found, messages=in_order((*found.messages, *messages)))


def groups_result(
    series: TimeSeries, settings: Settings, monitor: Monitor, written: tuple[Form, Mapping[str, float]] | None = None
) -> Discovery:
    """The law that all groups share, with its population: found, or a form of the user with starts of its constants.

    Raises:
        InputError: there is only one group, or the knowledge does not fit the series.
        FitError: no law, or not the written one, could be fitted to all groups.
    """
    from odediscovery.population.told import search_groups  # noqa: PLC0415 (many modules for few fits)

    told = search_groups(series, settings, monitor, written)
    found = build_result(told.series, settings, monitor, told.front, told.starts, told.noise, None, told.messages)
    return dataclasses.replace(found, population=dataclasses.replace(told.population, written=written is not None))
