"""What is told of many groups: the law that all share, and its population of constants."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.errors import FitError
from odediscovery.laws.equations import Equations, Form
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import monomial_names
from odediscovery.population.choose import choose
from odediscovery.population.doses import dose_rows, factor_names, unknown_of_terms, with_doses, with_factors
from odediscovery.population.hidden import choose_flows
from odediscovery.population.model.linear_mixed import theta_errors
from odediscovery.population.model.measured import ANY, EXACT, KNOWN, SCALED, Measured
from odediscovery.population.model.mixed import MixedFit, fit_mixed
from odediscovery.population.model.separate import SEPARATE, fit_each
from odediscovery.population.model.vary import always_own, choose_varying, criterion, refit, with_covariates
from odediscovery.population.notes import notes, strange_groups
from odediscovery.population.pose import asked_to_vary, pose_groups
from odediscovery.population.sound import is_sound, refined
from odediscovery.population.strangers import STRANGERS, leave_out_strangers
from odediscovery.population.written import WrittenLaw, fit_written, written_law
from odediscovery.result.front import FrontRow
from odediscovery.result.population import GroupConstant, GroupExponent, Population
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import JUDGING, Monitor
from odediscovery.settings import Settings

# Exponent of a covariate and its error, by constant and name.
Powers = dict[tuple[int, str], tuple[float, float]]


class WrittenForm(NamedTuple):
    """A law that somebody wrote down.

    Args:
        form: with named constants.
        starts: where the fit of some of them begins, by name.
    """

    form: Form
    starts: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Told:
    """A law of many groups in the user's units.

    Args:
        series: with unmeasured states as columns.
        front: the chosen model first among those beside it, sorted by complexity.
        starts: start values [groups, states].
        noise: standard deviation of the residuals [states].
        population: means, spreads, every group's constants.
        messages: what the reader should know, one sentence each.
    """

    series: TimeSeries
    front: tuple[FrontRow, ...]
    starts: Array
    noise: Array
    population: Population
    messages: tuple[str, ...]


def search_groups(series: TimeSeries, settings: Settings, monitor: Monitor, written: WrittenForm | None = None) -> Told:
    """The law that all groups share, with a population of constants.

    Args:
        written: the law, where somebody wrote it down, and where its constants begin.

    Raises:
        InputError: the series has one group only, or what is known does not fit it.
        FitError: no law could be fitted to all groups.
    """
    series, measured = pose_groups(series, settings)
    law = None if written is None else written_law(written.form)
    if law is not None and written is not None:
        rows, strange = [fit_written(law, measured, written.starts)], np.zeros(measured.data.n_groups, bool)
    else:
        rows, strange = _without_strangers(measured, settings, monitor)
    messages = strange_groups(series, strange)
    kept = tuple(run for run, out in zip(series.trajectories, strange, strict=True) if not out)
    series = replace(series, trajectories=kept)
    best = monitor.in_time(JUDGING, lambda: refined(_varied(rows[0], series, settings, law)), rows[0])
    powers: Powers = {}
    best, powers = monitor.in_time(JUDGING, lambda: with_covariates(best), (best, powers))
    monitor.note(event="chosen", criterion=criterion(best), beta=best.estimate.beta.tolist())
    front = _front(series, [best, *(row for row in rows[1:])])
    noise = np.sqrt(_squares_in_units(best) / np.maximum(best.sums.counts, 1))
    noise = np.where(best.sums.counts > 0, noise, np.nan)
    exponents = [] if law is None else law.exponents
    names = {} if law is None else law.names
    names |= factor_names(best, with_factors(series, settings), names)
    population = _population(best, series, powers, names, exponents)
    messages += notes(best, series, population, exponents)
    return Told(series, front, _starts(best), noise, population, tuple(messages))


def _without_strangers(measured: Measured, settings: Settings, monitor: Monitor) -> tuple[list[MixedFit], Mask]:
    """The laws of all groups, or of those that follow one law, and the groups that are left out [groups].

    Terms that only a strange group needed are not sought in the others; one may show another.
    """
    kept = np.arange(measured.data.n_groups)
    out = np.zeros(len(kept), bool)
    rows = _chosen(measured, settings, monitor)
    while True:
        first, strange = leave_out_strangers(rows, monitor)
        if not strange.any() or out.sum() + strange.sum() > STRANGERS.share * len(out):
            return rows, out
        out[kept[strange]] = True
        kept = kept[~strange]
        if monitor.stopping():
            return [first], out
        rows = _chosen(measured.taken(kept), settings, monitor)


def _chosen(measured: Measured, settings: Settings, monitor: Monitor) -> list[MixedFit]:
    """Mixed models of the groups, the best first."""
    if not np.isfinite(measured.data.values).any(axis=(0, 2)).all():
        return choose_flows(measured, monitor)[0]
    return choose(measured, monitor, settings.integer_exponents)[0]


def _varied(fit: MixedFit, series: TimeSeries, settings: Settings, law: WrittenLaw | None) -> MixedFit:
    """The model in which the constants vary that should."""
    assert settings.vary is not None
    named = None if law is None else law.places_of(settings.vary)
    if named is not None:
        return _with_named(fit, named, settings.vary)
    law_of_all = _law(fit, series.controls)
    terms, unknowns = unknown_of_terms(fit, law_of_all)
    names = monomial_names(Equations.from_power_sum(series.states, law_of_all, controls=series.controls))
    asked = asked_to_vary(settings.vary, series.states, [(i, names[j]) for i, j in terms])
    if asked is None:
        return choose_varying(fit)
    random = always_own(fit.model)
    for place, varies in asked.items():
        if (unknown := unknowns[place]) is not None:
            random[unknown] |= varies
    return refit(fit, random)


def _with_named(fit: MixedFit, places: Sequence[int], vary: str) -> MixedFit:
    """The model in which these unknowns vary, begun from where it is and where all groups share the others.

    Raises:
        FitError: it cannot be fitted to all groups.
    """
    random, shared, found = always_own(fit.model), fit.unknowns.copy(), list[MixedFit]()
    random[places] = True
    shared[~random] = shared[~random].mean(axis=1, keepdims=True)
    for begin in (fit.unknowns, shared):
        with contextlib.suppress(np.linalg.LinAlgError):
            found.append(fit_mixed(fit.model, begin, random))
    sound = [one for one in found if is_sound(one)]
    if not sound:
        raise FitError(f"the law could not be fitted to all groups where {vary} varies; let other constants vary")
    return min(sound, key=criterion)


def _law(fit: MixedFit, controls: Sequence[str]) -> PowerSum:
    """The law of the typical group, with its doses."""
    k, model, beta = fit.model.n_constants, fit.model, fit.estimate.beta
    law = model.structure.with_exponents(beta[k : k + model.n_free].tolist()).law(beta[:k])
    factors = {unknown: 1.0 if unknown is None else float(np.exp(beta[unknown])) for *_, unknown in dose_rows(fit)}
    return with_doses(law, fit, controls, factors)


def _equations(fit: MixedFit, series: TimeSeries) -> Equations:
    """The law of the typical group, with standard errors."""
    law, k = _law(fit, series.controls), fit.model.n_constants
    errors = np.sqrt(np.maximum(np.diag(fit.estimate.covariance), 0.0))
    a, w = np.zeros(law.coefficients.shape), np.zeros(law.exponents.shape)
    for place, unknown in zip(*unknown_of_terms(fit, law), strict=True):
        a[place] = 0.0 if unknown is None else abs(law.coefficients[place]) * errors[unknown]
    for f, place in enumerate(fit.model.structure.free):
        w[place] = errors[k + f]
    held = PowerSum(a, w)
    return Equations.from_power_sum(
        series.states,
        law,
        time_name=series.time_name,
        standard_errors=held,
        snapped=((law.coefficients != 0) & (held.coefficients == 0), (law.exponents != 0) & (held.exponents == 0)),
        units=series.units,
        controls=series.controls,
    )


def _left(fit: MixedFit) -> Array:
    """Data - curve of each group [samples, states, groups], nan where nothing was measured."""
    found: Array = fit.model.measured.data.values - fit.model.fitted(fit.unknowns)
    return found


def _squares_in_units(fit: MixedFit) -> Array:
    found: Array = np.nansum(_left(fit) ** 2, axis=(0, 2))
    return found


def _front(series: TimeSeries, rows: Sequence[MixedFit]) -> tuple[FrontRow, ...]:
    """The chosen model and the simpler or better ones beside it."""
    values = pooled(series)
    seen = values[:, np.isfinite(values).any(axis=0)]
    spread = float(np.nansum((seen - np.nanmean(seen, axis=0)) ** 2)) if seen.size else 0.0
    found = []
    for place, fit in enumerate(rows):
        squares = float(_squares_in_units(fit).sum())
        equations = _equations(fit, series)
        count = int(np.isfinite(fit.model.measured.data.values).sum())
        r2 = 1.0 - squares / spread if spread > 0 else 1.0
        starts = _starts(fit)
        found.append(FrontRow(equations, equations.complexity, squares / count, r2, criterion(fit), place == 0, starts))
    chosen = found[0]
    listed = sorted(found, key=lambda row: (row.complexity, not row.selected, row.mse))
    kept: list[FrontRow] = []
    for row in listed:
        other = row.complexity != chosen.complexity and all(row.mse < one.mse for one in kept)
        if row.selected or (other and np.isfinite(row.mse)):
            kept.append(row)
    return tuple(kept)


def _starts(fit: MixedFit) -> Array:
    """Start values of every group [groups, states]."""
    k = fit.model.n_constants + fit.model.n_free
    values: Array = fit.model.measured.start_values(fit.unknowns[k:])[0].T
    return values


def _population(
    fit: MixedFit, series: TimeSeries, powers: Powers, names: Mapping[int, str], exponents: Sequence[object]
) -> Population:
    """What groups share and how they differ."""
    errors, terms_of = _Errors.of(fit), _terms_of(fit, series)
    m = fit.model.measured
    seen = [i for i in range(len(series.states)) if fit.sums.counts[i] > 0]
    return Population(
        m.labels,
        _constants(fit, errors, terms_of, names, powers),
        _start_population(fit, series),
        {series.states[i]: float(fit.estimate.sigma[i]) for i in seen},
        tuple(series.states[i] for i in seen if m.logarithmic[i]),
        {"mixed": fit.minus_2_log_likelihood},
        {"mixed": fit.parameters},
        (),
        _r2_of_groups(fit),
        correlation=_correlation(fit, list(terms_of)),
        exponents=_exponents(fit, errors, exponents),
    )


@dataclass(frozen=True, eq=False)
class _Errors:
    """Standard errors of a mixed model.

    Args:
        means: of the unknowns of the typical group [unknowns].
        deviations: of the standard deviations between groups, as shares of these [unknowns], nan where none varies.
        groups: of each group's own unknowns [groups, unknowns].
    """

    means: Array
    deviations: Array
    groups: Array

    @classmethod
    def of(cls, fit: MixedFit) -> _Errors:
        e, deviations = fit.estimate, np.full(len(fit.random), np.nan)
        deviations[fit.random] = theta_errors(fit.sums, fit.design, fit.random, e)
        means = np.sqrt(np.maximum(np.diag(e.covariance), 0.0))
        return cls(means, deviations, np.sqrt(np.maximum(np.einsum("gpp->gp", e.spread), 0.0)))


def _terms_of(fit: MixedFit, series: TimeSeries) -> dict[int, list[int]]:
    """The terms of the law that each unknown stands in, in the order of the terms."""
    found: dict[int, list[int]] = {}
    for place, unknown in enumerate(unknown_of_terms(fit, _law(fit, series.controls))[1]):
        if unknown is not None:
            found.setdefault(unknown, []).append(place)
    return found


def _constants(
    fit: MixedFit, errors: _Errors, terms_of: Mapping[int, Sequence[int]], names: Mapping[int, str], powers: Powers
) -> tuple[GroupConstant, ...]:
    """Constants that groups share or have of their own, by the terms that they stand in."""
    e, apart = fit.estimate, _apart(fit)
    found, number = [], 0
    for k, places in terms_of.items():
        number += k < fit.model.n_constants
        values, mean, sd = np.exp(fit.unknowns[k]), float(np.exp(e.beta[k])), float(e.deviations[k])
        two_stage = float(np.exp(apart[k].mean())), float(apart[k].std(ddof=1))
        own = {name: power for (which, name), power in powers.items() if which == k}
        found.append(
            GroupConstant(
                names.get(k, f"k{number}"),
                tuple(places),
                mean,
                mean * float(errors.means[k]),
                sd,
                sd * float(errors.deviations[k]) if sd > 0 else float("nan"),
                values,
                values * errors.groups[:, k],
                two_stage,
                own,
                np.exp(apart[k]),
            )
        )
    return tuple(found)


def _r2_of_groups(fit: MixedFit) -> Array:
    """Share of the variance that each group's own curve explains [groups]."""
    left, values = _left(fit), fit.model.measured.data.values
    count = np.isfinite(values).sum(axis=(0, 2), keepdims=True).clip(1)
    centre = np.nansum(values, axis=(0, 2), keepdims=True) / count
    total = np.nansum((values - centre) ** 2, axis=(0, 1))
    found: Array = 1.0 - np.nansum(left**2, axis=(0, 1)) / np.where(total > 0, total, np.nan)
    return found


def _exponents(fit: MixedFit, errors: _Errors, names: Sequence[object]) -> tuple[GroupExponent, ...]:
    """Exponents that groups have of their own."""
    first, e, found = fit.model.n_constants, fit.estimate, []
    for f, (name, place) in enumerate(zip(names, fit.model.structure.free, strict=False)):
        p = first + f
        if e.deviations[p] > 0:
            sd = float(e.deviations[p])
            mean = float(e.beta[p]), float(errors.means[p])
            own = fit.unknowns[p], errors.groups[:, p]
            found.append(GroupExponent(str(name), place, *mean, sd, sd * float(errors.deviations[p]), *own))
    return tuple(found)


def _correlation(fit: MixedFit, order: Sequence[int]) -> Array | None:
    """Of the logarithms of the constants that vary: those of the groups, and what is unsure of each."""
    varying = [k for k in order if fit.estimate.deviations[k] > 0]
    if len(varying) < 2:
        return None
    spread = np.cov(fit.unknowns[varying]) + fit.estimate.spread[:, varying][:, :, varying].mean(axis=0)
    size = np.sqrt(np.diag(spread))
    return np.asarray(spread / np.outer(size, size))


def _apart(fit: MixedFit) -> Array:
    """Unknowns of separate fits of the same structure, the first of two stages [unknowns, groups]."""
    width = np.full(len(fit.unknowns), SEPARATE.loosely)
    k = fit.model.n_constants
    width[k : k + fit.model.n_free] = SEPARATE.held
    return fit_each(fit.model, fit.unknowns, fit.estimate.sigma, fit.unknowns, width).unknowns


def _start_population(fit: MixedFit, series: TimeSeries) -> dict[str, tuple[str, float, float]]:
    """How the starts of every state are distributed."""
    found, k = {}, fit.model.n_constants + fit.model.n_free
    for i, start in enumerate(fit.model.measured.starts):
        if start.kind in (KNOWN, EXACT):
            found[series.states[i]] = ("known", float("nan"), 0.0)
            continue
        row = k + fit.model.measured.open_starts.index(i)
        beta, sd = float(fit.estimate.beta[row]), float(fit.estimate.deviations[row])
        kind = "normal" if start.kind == ANY else "scaled" if start.kind == SCALED else "log-normal"
        found[series.states[i]] = (kind, beta if start.kind == ANY else float(np.exp(beta)), sd)
    return found
