r"""Results for many groups: the law that all share, the population of its constants, and notes for the reader.

The notes report groups that do not follow the law, uncertainties, and the equilibrium of a law with one gain and one
loss of one state, such as a final size or a carrying capacity:

    dx/dt = a x^p - b x^q = 0    =>    \ln x^* = (\ln a - \ln b) / (q - p),    p < q

Constants are log-normal over groups, and so is the equilibrium. Its spread combines that of the estimates of the
groups and their uncertainty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from odediscovery.data.series import TimeSeries, pooled
from odediscovery.errors import FitError
from odediscovery.laws.equations import Equations, Form
from odediscovery.laws.expressions import constant
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import monomial_names
from odediscovery.population.choose import MOST_STRANGE, choose, choose_flows, leave_out_strangers, odd_groups
from odediscovery.population.groups import ANY, KNOWN, LOOSELY, POSITIVE, SCALED, Measured, Structure, fit_each
from odediscovery.population.mixed import (
    MixedFit,
    always_own,
    choose_varying,
    criterion,
    fit_mixed,
    refined,
    refit,
    sound,
    theta_errors,
    with_covariates,
)
from odediscovery.population.pose import asked_to_vary, factor_names, law_with_doses, pose_groups, with_factors
from odediscovery.population.written import WrittenLaw, fit_written, written_law
from odediscovery.result.front import FrontRow, better_than_simpler
from odediscovery.result.population import GroupConstant, GroupExponent, Population
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import JUDGING, Monitor
from odediscovery.settings import Settings

# Threshold of significant correlations [standard error, 1 / root of the number of pairs].
SURELY = 4.0
# Exponent of a covariate and its error, by constant and name.
Powers = dict[tuple[int, str], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Told:
    """The result for many groups, in the user's units."""

    series: TimeSeries  # with unmeasured states as columns
    front: tuple[FrontRow, ...]  # the chosen model among the alternatives, sorted by complexity
    starts: Array  # [groups, states]
    noise: Array  # standard deviation of the residuals [states]
    population: Population
    messages: tuple[str, ...]  # notes for the reader, one sentence each


def search_groups(
    series: TimeSeries, settings: Settings, monitor: Monitor, written: tuple[Form, Mapping[str, float]] | None = None
) -> Told:
    """The law that all groups share, with a population of constants.

    It is found, or `written` by the user, with initial guesses of some of its constants by name.
    """
    series, measured = pose_groups(series, settings)
    law: WrittenLaw | None = None
    if written is None:
        rows, strange = _without_strangers(measured, settings, monitor)
    else:
        law = written_law(written[0])
        rows, strange = [fit_written(law, measured, written[1])], np.zeros(measured.n_groups, bool)
    kept = tuple(run for run, out in zip(series.trajectories, strange, strict=True) if not out)
    rest = replace(series, trajectories=kept)
    best = monitor.in_time(JUDGING, lambda: refined(_varied(rows[0], rest, settings, law)), rows[0])
    best, powers = monitor.in_time(JUDGING, lambda: with_covariates(best), (best, Powers()))
    monitor.note(event="chosen", criterion=criterion(best), beta=best.estimate.beta.tolist())
    counts = best.sums.counts
    noise = np.where(counts > 0, np.sqrt(_squares(best, (0, 2)) / np.maximum(counts, 1)), np.nan)
    exponents, names = ((), {}) if law is None else (law.exponents, law.names)
    names |= factor_names(best, with_factors(series, settings), names)
    population = _population(best, rest, powers, names, exponents)
    messages = (*strange_groups(series, strange), *_notes(best, rest, population, exponents))
    return Told(rest, _front(rest, [best, *rows[1:]]), _starts(best), noise, population, messages)


def _without_strangers(measured: Measured, settings: Settings, monitor: Monitor) -> tuple[list[MixedFit], Mask]:
    """The models of all groups, or of those that follow one law, and a mask of the excluded groups [groups].

    After each exclusion the search is repeated, because other terms may be chosen and further odd groups appear.
    """
    out, rest = np.zeros(measured.n_groups, bool), measured
    while True:
        seen = np.isfinite(rest.values).any(axis=(0, 2)).all()
        rows = choose(rest, monitor, settings.integer_exponents) if seen else choose_flows(rest, monitor)
        kept = np.flatnonzero(~out)
        first, strange = leave_out_strangers(rows, monitor)
        if not strange.any() or out.sum() + strange.sum() > MOST_STRANGE * len(out):
            return rows, out
        out[kept[strange]] = True
        if monitor.stopping():
            return [first], out
        rest = measured.taken(np.flatnonzero(~out))


def _varied(fit: MixedFit, series: TimeSeries, settings: Settings, law: WrittenLaw | None) -> MixedFit:
    """The model in which the requested constants vary, or those that the criterion selects."""
    assert settings.vary is not None
    if law is not None and (named := law.places_of(settings.vary)) is not None:
        return _with_named(fit, named, settings.vary)
    typical, terms, unknowns = law_with_doses(fit, series.controls)
    names = monomial_names(Equations.from_power_sum(series.states, typical, controls=series.controls))
    asked = asked_to_vary(settings.vary, series.states, [(i, names[j]) for i, j in terms])
    if asked is None:
        return choose_varying(fit)
    random = always_own(fit.model)
    random[[unknown for place in asked if (unknown := unknowns[place]) is not None]] = True
    return refit(fit, random)


def _with_named(fit: MixedFit, places: Sequence[int], vary: str) -> MixedFit:
    """The model in which these unknowns vary, fitted from the current values and from means of the shared ones."""
    random, shared = always_own(fit.model), fit.unknowns.copy()
    random[places] = True
    shared[~random] = shared[~random].mean(axis=1, keepdims=True)
    found = [one for begin in (fit.unknowns, shared) for one in sound(partial(fit_mixed, fit.model, begin, random))]
    if not found:
        raise FitError(f"the law could not be fitted to all groups where {vary} varies; let other constants vary")
    return min(found, key=criterion)


def _equations(fit: MixedFit, series: TimeSeries) -> Equations:
    """The law of the typical group, with standard errors."""
    (law, *terms), errors = law_with_doses(fit, series.controls), fit.estimate.errors
    a, w = np.zeros(law.coefficients.shape), np.zeros(law.exponents.shape)
    for place, unknown in zip(*terms, strict=True):
        a[place] = 0.0 if unknown is None else abs(law.coefficients[place]) * errors[unknown]
    for f, place in enumerate(fit.model.structure.free, start=fit.model.n_constants):
        w[place] = errors[f]
    return Equations.from_power_sum(
        series.states,
        law,
        time_name=series.time_name,
        standard_errors=PowerSum(a, w),
        units=series.units,
        controls=series.controls,
    )


def _squares(fit: MixedFit, axis: tuple[int, int]) -> Array:
    """Sums of squared residuals, which are [samples, states, groups], over two axes."""
    return np.asarray(np.nansum((fit.model.measured.values - fit.model.fitted(fit.unknowns)) ** 2, axis=axis))


def _front(series: TimeSeries, rows: Sequence[MixedFit]) -> tuple[FrontRow, ...]:
    """The chosen model and those that fit better than every simpler one."""
    values = pooled(series)
    seen = values[:, np.isfinite(values).any(axis=0)]
    spread = float(np.nansum((seen - np.nanmean(seen, axis=0)) ** 2)) if seen.size else 0.0
    found = []
    for fit in rows:
        squares, equations = float(_squares(fit, (0, 2)).sum()), _equations(fit, series)
        mse = squares / int(np.isfinite(fit.model.measured.values).sum())
        r2 = 1.0 - squares / spread if spread > 0 else 1.0
        found.append(FrontRow(equations, equations.complexity, mse, r2, criterion(fit), fit is rows[0], _starts(fit)))
    return better_than_simpler(found)


def _starts(fit: MixedFit) -> Array:
    """Start values of every group [groups, states]."""
    return fit.model.measured.begun(fit.unknowns[fit.model.first_start :])[0].T


def _population(
    fit: MixedFit, series: TimeSeries, powers: Powers, names: Mapping[int, str], exponents: Sequence[object]
) -> Population:
    """The population of constants: shared values, spreads and values of the groups."""
    model, m, e = fit.model, fit.model.measured, fit.estimate
    # Standard errors of the means and of each group's unknowns, and relative ones of the spreads.
    means, groups = e.errors, np.sqrt(np.maximum(np.einsum("gpp->pg", e.spread), 0.0))
    spreads = np.full(len(fit.random), np.nan)
    spreads[fit.random] = theta_errors(fit.sums, fit.design, fit.random, e)
    width = np.full(len(fit.unknowns), LOOSELY)
    width[model.n_constants : model.first_start] = 1e-6  # exponents stay fixed
    # Separate fits of the same structure, for the two-stage estimates.
    apart = fit_each(model, fit.unknowns, e.sigma, fit.unknowns, width)[0]
    constants, number = list[GroupConstant](), 0
    unknowns = law_with_doses(fit, series.controls)[2]
    varied = [unknown for unknown in dict.fromkeys(unknowns) if unknown is not None]
    for k in varied:
        number += k < model.n_constants
        values, mean, sd = np.exp(fit.unknowns[k]), float(np.exp(e.beta[k])), float(e.deviations[k])
        sd_error = sd * float(spreads[k]) if sd > 0 else float("nan")
        places = tuple(place for place, unknown in enumerate(unknowns) if unknown == k)
        two_stage = float(np.exp(apart[k].mean())), float(apart[k].std(ddof=1))
        own_powers = {name: power for (which, name), power in powers.items() if which == k}
        constants.append(
            GroupConstant(
                *(names.get(k, f"k{number}"), places, mean, mean * float(means[k]), sd, sd_error),
                *(values, values * groups[k], two_stage, own_powers, np.exp(apart[k])),
            )
        )
    own = []
    for p, (name, power) in enumerate(zip(exponents, model.structure.free, strict=False), start=model.n_constants):
        if (sd := float(e.deviations[p])) > 0:
            mean, error, sd_error = float(e.beta[p]), float(means[p]), sd * float(spreads[p])
            own.append(GroupExponent(str(name), power, mean, error, sd, sd_error, fit.unknowns[p], groups[p]))
    seen = [i for i in range(len(series.states)) if fit.sums.counts[i] > 0]
    return Population(
        m.labels,
        tuple(constants),
        _start_population(fit, series),
        {series.states[i]: float(e.sigma[i]) for i in seen},
        tuple(series.states[i] for i in seen if m.logarithmic[i]),
        {"mixed": fit.minus_2_log_likelihood},
        {"mixed": fit.parameters},
        (),
        _r2_of_groups(fit),
        correlation=_correlation(fit, varied),
        exponents=tuple(own),
    )


def _r2_of_groups(fit: MixedFit) -> Array:
    """Share of the variance explained by the curve of each group [groups]."""
    values = fit.model.measured.values
    count = np.isfinite(values).sum(axis=(0, 2), keepdims=True).clip(1)
    centre = np.nansum(values, axis=(0, 2), keepdims=True) / count
    total = np.nansum((values - centre) ** 2, axis=(0, 1))
    return np.asarray(1.0 - _squares(fit, (0, 1)) / np.where(total > 0, total, np.nan))


def _correlation(fit: MixedFit, order: Sequence[int]) -> Array | None:
    """Correlation of the logarithms of the varying constants over groups, including their uncertainty."""
    varying = [k for k in order if fit.estimate.deviations[k] > 0]
    if len(varying) < 2:
        return None
    spread = np.cov(fit.unknowns[varying]) + fit.estimate.spread[:, varying][:, :, varying].mean(axis=0)
    size = np.sqrt(np.diag(spread))
    return np.asarray(spread / np.outer(size, size))


def _start_population(fit: MixedFit, series: TimeSeries) -> dict[str, tuple[str, float, float]]:
    """Distribution of the start values of every state: kind, mean (median if log-normal) and spread."""
    found, m = {state: ("known", float("nan"), 0.0) for state in series.states}, fit.model.measured
    for row, i in enumerate(m.open_starts, start=fit.model.first_start):
        beta, sd = float(fit.estimate.beta[row]), float(fit.estimate.deviations[row])
        kind = {ANY: "normal", SCALED: "scaled", POSITIVE: "log-normal"}[m.starts[i].kind]
        found[series.states[i]] = (kind, beta if kind == "normal" else float(np.exp(beta)), sd)
    return found


def _notes(fit: MixedFit, series: TimeSeries, population: Population, exponents: Sequence[object]) -> Iterator[str]:
    """Notes on the groups for the reader, one sentence each."""
    m = fit.model.measured
    for row, i in enumerate(m.open_starts, start=fit.model.first_start):
        start = m.starts[i]
        if start.kind == SCALED and not m.seen[:, i].any():
            factor, sd = float(np.exp(fit.estimate.beta[row])), float(fit.estimate.deviations[row])
            dosed = i in dict(m.dosed)
            what = "starts at" if start.value.any() else "is given"
            of = "every dose" if dosed and not start.value.any() else "what is known of it" + ", and of doses" * dosed
            yield (
                f"{series.states[i]} was not measured: it is in units of the state that it flows into and {what} "
                f"{factor:.4g} times {of} (sd_log {sd:.2g} over groups)"
            )
            if rates := exchangeable_rates(fit.model.structure, i):
                (j, first, second), each = rates, np.exp(fit.estimate.beta)
                is_empty = m.starts[j].kind == KNOWN and not m.starts[j].value.any()
                # A state that is dosed, or was measured as something else than 0 at first, tells the rates apart.
                if j in dict(m.dosed) or not (is_empty or not np.nan_to_num(m.values[0, j]).any()):
                    continue
                yield (
                    f"the rates of {series.states[i]}, {each[first]:.4g}, and {series.states[j]}, {each[second]:.4g}, "
                    f"may be exchanged: with {factor * each[first] / each[second]:.4g} in place of {factor:.4g} the "
                    f"curves are the same; a dose given into {series.states[j]}, or what is known of a rate, decides"
                )
    if m.logarithmic.any():
        names = ", ".join(series.states[i] for i in np.flatnonzero(m.logarithmic))
        yield f"the noise of {names} grows with its size: logarithms were compared, residual_sd is theirs"
    if not m.dosed and (rest := resting_point(fit)):
        yield f"equilibrium at {series.states[0]} = {rest}"
    k, e = fit.model.n_constants, fit.estimate
    for name, value, error, spread in zip(exponents, e.beta[k:], e.errors[k:], e.deviations[k:], strict=False):
        if not spread:
            yield f"the exponent {name} = {constant(float(value), float(error))} is one for all groups"
    if pairs := _together(population):
        yield f"constants that go together over groups (correlation of their logarithms): {', '.join(pairs)}"
    left = fit.model.residual(fit.unknowns)
    for i, state in enumerate(series.states):
        # r = sum e_t e_(t+1) / sum e_t^2 over all groups
        both = fit.model.seen[1:, i] & fit.model.seen[:-1, i]
        squares = float(np.sum(left[:, i] ** 2))
        r = float(np.sum((left[1:, i] * left[:-1, i])[both])) / max(squares, ABOVE_ZERO)
        larger = np.sqrt((1 + r) / max(1 - r, 1e-2))
        # At 0.3, errors are larger by a third.
        if r > 0.3 and r * np.sqrt(both.sum()) > SURELY:
            yield (
                f"residuals of {state} follow each other (autocorrelation {r:.2f}): the law lacks something, its terms "
                f"are less sure than they look, and errors are about {larger:.1f} times as large as said"
            )
    for g in np.flatnonzero(odd_groups(fit))[:5]:
        yield (
            f"group {m.labels[g]} does not follow the law as the others do: its residuals are over three times as large"
        )
    if few := [m.labels[g] for g in np.flatnonzero(m.seen.sum(axis=(0, 1)) <= k)]:
        yield (
            f"{len(few)} groups have no more samples than the law has constants ({', '.join(few[:5])}): "
            "their own constants lean on those of the others"
        )


def strange_groups(series: TimeSeries, strange: Mask) -> list[str]:
    """Notes on excluded groups, and on groups whose values are far larger or smaller than those of the others."""
    labels, told = [repr(run.label) for run in series.trajectories], list[str]()
    if out := [labels[g] for g in np.flatnonzero(strange)]:
        which = f"group {out[0]} follows" if len(out) == 1 else f"groups {', '.join(out[:5])} follow"
        rest = len(labels) - len(out)
        told.append(f"{which} another law: left out, the law is that of the other {rest}; fit them alone")
    for i, state in enumerate(series.states):
        sizes = [np.nanmax(np.abs(run.values[:, i]), initial=0.0) for run in series.trajectories]
        if not np.median(sizes):
            continue  # absent in most groups
        ratio = np.array(sizes) / float(np.median(sizes))
        # A wrong unit is likely if the ratio exceeds 50 and the other groups are of similar size.
        far = np.flatnonzero((ratio > 50.0) | ((ratio < 1.0 / 50.0) & (ratio > 0.0)))
        usual = np.delete(ratio, far)
        if len(far) and len(far) <= MOST_STRANGE * len(ratio) and usual.max() < 20.0 * usual[usual > 0].min():
            names = ", ".join(labels[g] for g in far[:5])
            told.append(
                f"{state} of group {names} is about {ratio[far[0]]:.2g} times that of the others: another unit?"
            )
    return told


def _together(population: Population) -> list[str]:
    """Pairs of constants with a significant correlation over groups."""
    if population.correlation is None:
        return []
    names = [one.name for one in population.constants if one.varies]
    # Fisher's transformation has the standard error 1 / sqrt(groups - 3) and is infinite at 1.
    root = max(len(population.labels) - 3, 0) ** 0.5
    far = np.arctanh(np.clip(population.correlation, -0.9999, 0.9999)) * root
    return [
        f"{names[a]} and {names[b]} {population.correlation[a, b]:.2f}"
        for a, b in itertools.combinations(range(len(names)), 2)
        if abs(far[a, b]) > SURELY
    ]


def exchangeable_rates(structure: Structure, hidden: int) -> tuple[int, int, int] | None:
    """The state that an unmeasured one flows into, and the constants of both, if these may change places; else None.

        h' = -a h,  x' = a h - c x,  x(0) = 0:    x(t) = f h_0 a (exp(-a t) - exp(-c t)) / (c - a)

    is the same for a and c exchanged and f a / c in place of f.

    Source: the flip-flop of pharmacokinetics, Byron and Notari, Journal of Pharmaceutical Sciences 65 (1976).

    >>> from odediscovery.population.groups import Entry
    >>> flow = np.eye(2), (Entry(0, 0, 0, -1), Entry(1, 0, 0, 1), Entry(1, 1, 1, -1))
    >>> exchangeable_rates(Structure(*flow), 0), exchangeable_rates(Structure(*flow), 1)
    ((1, 0, 1), None)
    """
    if structure.n_states != 2 or len(structure.entries) != 3 or structure.free:
        return None
    other, single = 1 - hidden, np.eye(2)
    terms = {(e.state, e.sign, tuple(structure.exponents[e.monomial])): e.constant for e in structure.entries}
    out, into = terms.get((hidden, -1, tuple(single[hidden]))), terms.get((other, 1, tuple(single[hidden])))
    loss = terms.get((other, -1, tuple(single[other])))
    return (other, out, loss) if out is not None and out == into and loss is not None else None


def resting_point(fit: MixedFit) -> str:
    """The equilibrium in words; "" unless the law is a gain and a loss of one state, where the loss grows faster.

    Also "" if exponents differ between groups.
    """
    structure, e, k = fit.model.structure, fit.estimate, fit.model.n_constants
    own_exponents = e.deviations[k : fit.model.first_start].any()
    if own_exponents or structure.n_states != 1 or sorted(entry.sign for entry in structure.entries) != [-1, 1]:
        return ""
    loss, gain = sorted(structure.entries, key=lambda entry: entry.sign)
    w = structure.with_exponents(e.beta[k : fit.model.first_start].tolist()).exponents[:, 0]
    apart = float(w[loss.monomial] - w[gain.monomial])
    if apart <= 0.0:
        return ""
    slope = np.zeros(len(e.beta))
    slope[gain.constant], slope[loss.constant] = 1.0 / apart, -1.0 / apart
    at = float(slope @ e.beta)
    for place, (j, _) in enumerate(structure.free, start=k):
        slope[place] = at / apart * ((j == gain.monomial) - (j == loss.monomial))
    median = float(np.exp(at))
    if not np.any(fit.random[:k] & (e.deviations[:k] > 0.0)):
        return f"{constant(median, median * float(slope @ e.covariance @ slope) ** 0.5, 3)} in every group"
    # From the values of the groups, since correlated constants spread the equilibrium less than each of them.
    own = slope[:k] @ fit.unknowns[:k]
    unsure = np.einsum("p,gpq,q->g", slope[:k], e.spread[:, :k, :k], slope[:k])
    sd_log, groups = float(np.sqrt(own.var(ddof=1) + np.maximum(unsure, 0.0).mean())), len(own)
    error = max(median * sd_log / groups**0.5, ABOVE_ZERO)
    spread = constant(sd_log, sd_log / (2.0 * (groups - 1)) ** 0.5, 3)
    return f"{constant(median, error, 3)} in the typical group, with sd_log {spread} over groups"
