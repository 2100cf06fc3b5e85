"""fit_constants(): measured series and equations of a known form in, their constants out.

`discover` asks which law; this asks how large the constants of a given law are, and how sure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odediscovery.data.samples import check_series
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.conclude import add_messages, conclude, groups_result
from odediscovery.discovery.fit_form import fit_form
from odediscovery.errors import FitError, InputError
from odediscovery.judge.criterion import judge_on
from odediscovery.judge.identifiability import Refit, split_known, undetermined_exponents
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import Free, all_free
from odediscovery.laws.equations import Equations
from odediscovery.laws.forms import Written, read_form
from odediscovery.laws.power_sum import PowerSum
from odediscovery.population.told import WrittenForm
from odediscovery.problem.impose import apply_knowledge_to_fit
from odediscovery.problem.pose import pose
from odediscovery.problem.problem import Problem
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import residual_sigma, sigma_of
from odediscovery.settings import Settings
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Origin, Polished


@dataclass(frozen=True)
class ConstantThresholds:
    """How long the constants of a given form are refined."""

    # fits one after another, each with the noise that the last one leaves; reweighting converges in two; one more for
    # safety
    rounds: int = 3
    steps: int = 50  # most evaluations of the Jacobian in each; cost: bounds the time


CONSTANTS = ConstantThresholds()

NOT_INTEGRATED = (
    "equations of this form could not be integrated through the data from these constants; start from nearer ones"
)


def fit_constants(
    series: TimeSeries,
    form: Equations | Written,
    settings: Settings | None = None,
    *,
    exponents: bool = True,
    start: Mapping[str, float] | None = None,
) -> Discovery:
    """The most likely constants of equations whose form is given, with standard errors.

        min over constants c and starts x_0   sum (x(t; c, x_0) - data)^2 / sigma^2

    on whole trajectories; sigma of every state from what the fit itself leaves.

    Args:
        series: what was measured.
        form: sums of products of powers of the same states; the fit starts from their constants.
            What is not in them stays out. Or text such as "N' = r*N*(1 - N/K)", a line a state, of any
            law that can be written: names that are no states are its constants, other numbers stay. In
            text without names the numbers with a decimal point or an error bar are the constants.
        settings: of these only what is known counts (`known`, `conserve`, `bounds`, ...), which
            is not fitted; of a form in text, the seed alone, or what is said of groups: `vary`, `starts`,
            `covariate`, `hidden_states`.
        exponents: whether exponents are fitted too; those of states that change sign are whole
            numbers and stay. Those of a form in text are fitted where they have names.
        start: of a form in text, where the fit of a constant begins, by its name; others are sought.

    Raises:
        InputError: no TimeSeries, or the form has other states, cannot be read, or comes with something known that has
            to be written into it.
        FitError: it cannot be integrated through the data from these constants.

    >>> import numpy as np
    >>> t = np.linspace(0.0, 2.0, 20)
    >>> series = TimeSeries.from_arrays(t, 4.0 * np.exp(-0.5 * t), ["x"])
    >>> bool(fit_constants(series, Equations.parse(["x"], {"x": "-x**1.2"})).mse < 1e-12)
    True
    >>> found = fit_constants(series, "x' = -rate*x")
    >>> found.equations_text().splitlines()[0], float(found.constants["value"][0].round(6))
    ("x' = -rate*x", 0.5)
    """
    check_series(series, "fit_constants")
    settings = (settings or Settings()).checked()
    if settings.vary is not None:
        return _fit_groups(series, form, settings, start or {})
    if not isinstance(form, Equations) or form.power_sum is None:
        return _fit_written(series, form, settings, start)
    if start is not None:
        raise InputError("start: expected only beside a form in text; these equations have their own constants")
    law = _checked_law(form, series)
    series, p, known = pose(series, settings)
    law, free = _fitted_constants(p, law.rescaled(p.scale.state, p.scale.time), exponents)
    refit = _refit_from(p, p.initial, sigma_of(p))
    for _ in range(CONSTANTS.rounds):
        found = refit(law, free)
        if not found.finite:
            raise FitError(NOT_INTEGRATED)
        law, refit = found.law, _refit_from(p, found.initial, residual_sigma(p, found))
    row = judge_on(p, found, Origin(0))
    result = conclude(Verdict.of(p, [row]), series, settings, Monitor())
    wide = undetermined_exponents(p, found, refit) if exponents else []
    return add_messages(result, *wide, *known.sentences())


def _fitted_constants(p: Problem, law: PowerSum, exponents: bool) -> tuple[PowerSum, Free]:
    """The law with what is known written into it, and which of its constants are fitted."""
    a, w, b, v = all_free(law)
    law, free = apply_knowledge_to_fit(p, law, (a, w & p.nonnegative & exponents, b, v))
    return split_known(p, law, free, fit=True) if exponents else (law, free)


def _refit_from(p: Problem, initial: Array, sigma: Array) -> Refit:
    """What polishes laws from these start values, with this standard deviation of the residuals."""

    def refit(law: PowerSum, free: Free, most: int | None = None) -> Polished:
        return polish(
            law,
            p.data,
            initial,
            sigma,
            floor=p.floor,
            nonnegative=p.nonnegative,
            free=free,
            most=CONSTANTS.steps if most is None else most,
            relative_sigma=p.relative_sigma,
        )

    return refit


def _fit_groups(
    series: TimeSeries, form: Equations | Written, settings: Settings, start: Mapping[str, float]
) -> Discovery:
    """Constants of each group's own, as those of a mixed model."""
    written = form.texts() if isinstance(form, Equations) else form
    states = (*series.states, *settings.hidden_states)
    read = read_form(written, states, controls=series.controls, time_name=series.time_name, start=start)
    return groups_result(series, settings, Monitor(), WrittenForm(read, start))


def _fit_written(
    series: TimeSeries, form: Equations | Written, settings: Settings, start: Mapping[str, float] | None
) -> Discovery:
    """Any form: its constants have names, or are those of its numbers that are no whole ones."""
    known = [name for name in ("known", "conserve", "forbid", "bounds", "hidden_states") if getattr(settings, name)]
    if known:
        raise InputError(f"{known[0]}: write what is known into the form; expected no such setting beside it")
    if isinstance(form, Equations) and tuple(form.states) != tuple(series.states):
        raise InputError(f"expected equations of {', '.join(series.states)}, got those of {', '.join(form.states)}")
    written = form.texts() if isinstance(form, Equations) else form
    try:
        read = read_form(written, series.states, controls=series.controls, time_name=series.time_name, start=start)
    except InputError as error:
        if not isinstance(form, Equations):
            raise
        raise InputError(f"expected sums of products of powers, or constants in other equations: {error}") from None
    return fit_form(series, read, settings, Monitor())


def _checked_law(form: Equations, series: TimeSeries) -> PowerSum:
    if tuple(form.states) != tuple(series.states) or form.power_sum is None:
        raise InputError(
            f"expected equations of {', '.join(series.states)} that are sums of products of "
            f"powers, got {form.texts()}; write one for each state"
        )
    return form.power_sum
