"""fit_constants(): measured series and equations of a known form in, their constants out.

`discover` asks which law; this asks how large the constants of a given law are, and how sure.
"""

from __future__ import annotations

from dataclasses import dataclass

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.conclude import add_messages, conclude
from odediscovery.errors import FitError, InputError
from odediscovery.judge.criterion import judge
from odediscovery.judge.identifiability import split_known, undetermined_exponents
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import Free, all_free
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.impose import apply_knowledge_to_fit
from odediscovery.problem.pose import pose
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.search.refinement import residual_sigma, sigma_of
from odediscovery.settings import Settings
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Polished


@dataclass(frozen=True)
class ConstantThresholds(Thresholds):
    """How long the constants of a given form are refined."""

    rounds: int = threshold(
        3,
        "fits one after another, each with the noise that the last one leaves",
        origin="reweighting converges in two; one more for safety",
    )
    steps: int = threshold(50, "most evaluations of the Jacobian in each", origin="cost: bounds the time")


CONSTANTS = ConstantThresholds()


def fit_constants(
    series: TimeSeries, form: Equations, settings: Settings | None = None, *, exponents: bool = True
) -> Discovery:
    """The most likely constants of equations whose form is given, with standard errors.

        min over constants c and starts x_0   sum (x(t; c, x_0) - data)^2 / sigma^2

    on whole trajectories; sigma of every state from what the fit itself leaves.

    Args:
        series: what was measured.
        form: sums of products of powers of the same states; the fit starts from their constants.
            What is not in them stays out.
        settings: of these only what is known counts (`known`, `conserve`, `bounds`, ...), which
            is not fitted.
        exponents: whether exponents are fitted too; those of states that change sign are whole
            numbers and stay.

    Raises:
        InputError: the form has other states, or is no sum of products of powers.
        FitError: it cannot be integrated through the data from these constants.

    >>> import numpy as np
    >>> t = np.linspace(0.0, 2.0, 20)
    >>> series = TimeSeries.from_arrays(t, 4.0 * np.exp(-0.5 * t), ["x"])
    >>> bool(fit_constants(series, Equations.parse(["x"], {"x": "-x**1.2"})).mse < 1e-12)
    True
    """
    settings = (settings or Settings()).checked()
    law = _checked_law(form, series)
    series, p, known = pose(series, settings)
    monitor = Monitor()
    law = law.rescaled(p.scale.state, p.scale.time)
    a, w, b, v = all_free(law)
    law, free = apply_knowledge_to_fit(p, law, (a, w & p.nonnegative & exponents, b, v))
    law, free = split_known(p, law, free, fit=True) if exponents else (law, free)
    sigma, initial = sigma_of(p), p.initial

    def refit(law: PowerSum, free: Free) -> Polished:
        return polish(
            law,
            p.data,
            initial,
            sigma,
            floor=p.floor,
            nonnegative=p.nonnegative,
            free=free,
            most=CONSTANTS.steps,
            relative_sigma=p.relative_sigma,
        )

    for _ in range(CONSTANTS.rounds):
        found = refit(law, free)
        if not found.finite:
            raise FitError(
                "equations of this form could not be integrated through the data from "
                "these constants; start from nearer ones"
            )
        law, initial = found.law, found.initial
        sigma = residual_sigma(p, found)
    row = judge(found, sigma_of(p), 0)
    result = conclude(Verdict.of(p, [row]), series, settings, monitor)
    wide = undetermined_exponents(p, found, refit) if exponents else []
    return add_messages(result, *wide, *known.sentences())


def _checked_law(form: Equations, series: TimeSeries) -> PowerSum:
    if tuple(form.states) != tuple(series.states) or form.power_sum is None:
        raise InputError(
            f"expected equations of {', '.join(series.states)} that are sums of products of "
            f"powers, got {form.texts()}; write one for each state"
        )
    return form.power_sum
