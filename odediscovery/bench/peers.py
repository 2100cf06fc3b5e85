"""Other methods on the same data, set up as their authors recommend.

    pysindy    sparse regression of derivatives on polynomials: STLSQ, degree 1 to 3, finite
               differences of order 2 or 4, smoothed or not; these and the threshold are chosen
               on the last 30 % of the training data by the R2 of the simulated equations
    pyoperon   genetic programming on the derivatives of smoothing splines, one state after the
               other: Operon with its defaults and two objectives (R2 and length) on the first
               70 %; which models of the fronts go together is chosen by the R2 of the simulated
               equations over the first part and over the last one

Neither sees more than the noisy training series. Both are optional: `pip install
"odediscovery[bench]"`.

Sources: Brunton, Proctor, Kutz 2016, PNAS 113:3932 (pysindy 2.1, de Silva et al. 2020); Burlacu,
Kronberger, Kommenda 2020, Operon C++ (pyoperon 0.6). The grid and the share of 30 % follow the
baselines of d'Ascoli et al., ODEFormer, ICLR 2024.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import make_smoothing_spline

from odediscovery.equations import Equations
from odediscovery.errors import FitError, InputError
from odediscovery.expressions import identifiers
from odediscovery.powersum import Array, PowerSum
from odediscovery.series import LEAST_VALUES, Scale, TimeSeries, Trajectory

try:
    import pysindy
except ImportError:
    pysindy = None
try:
    from pyoperon.sklearn import SymbolicRegressor
except ImportError:
    SymbolicRegressor = None

# Share of every trajectory, at its end, on which is chosen.
VALIDATION = 0.3
DEGREES = (1, 2, 3)
THRESHOLDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ORDERS = (2, 4)
# pysindy's own window and the one of ODEFormer's baseline; 0 for no smoothing.
WINDOWS = (0, 11, 15)
# A candidate that needs more evaluations to be simulated is none.
_MOST_EVALUATIONS = 20_000
SYMBOLS = "add,sub,mul,div,pow,sqrt,exp,log,sin,cos,constant,variable"
# Levenberg-Marquardt steps on the constants of every individual.
LOCAL_ITERATIONS = 5
# Share of the time for the genetic programming itself.
_SEARCH = 0.8


def check_installed(name: str) -> None:
    """Whether the package of a peer is there.

    Raises:
        InputError: it is not, with what to install.
    """
    if {"pysindy": pysindy, "pyoperon": SymbolicRegressor}[name] is None:
        raise InputError(f'--method {name} needs the package {name}: pip install '
                         f'"odediscovery[bench]"')  # fmt: skip


@dataclass(frozen=True)
class _Options:
    degree: int
    order: int
    window: int
    threshold: float


def sindy(series: TimeSeries, max_seconds: float, seed: int) -> tuple[Equations, str]:
    """dx_i/dt = sum_j C_ij m_j(x) with polynomials m_j and few C_ij.

    Args:
        series: noisy training data.
        max_seconds: not needed: the grid takes seconds.
        seed: not needed: nothing is random.

    Raises:
        FitError: no option gives equations that can be simulated.
    """
    # In units in which states and rates are about 1 one grid of thresholds fits every system.
    span = max(float(t.time[-1] - t.time[0]) for t in series.trajectories)
    scale = Scale(Scale.of(series).state, span / 10.0)
    scaled = scale.apply(series)
    head, tail = _split(scaled)
    best: tuple[tuple[float, int], _Options] | None = None
    seen = set()
    grid = itertools.product(DEGREES, ORDERS, WINDOWS, THRESHOLDS)
    for options in itertools.starmap(_Options, grid):
        law = _stlsq(head, options)
        # Thresholds that leave the same terms give the same constants.
        key = None if law is None else law.coefficients.tobytes()
        if law is None or key in seen:
            continue
        seen.add(key)
        r2 = _simulated_r2(Equations.from_power_sum(series.states, law), tail)
        # What validation cannot tell apart in three digits is told apart by simplicity.
        rank = (-round(r2, 3), int(np.count_nonzero(law.coefficients)))
        if np.isfinite(r2) and (best is None or rank < best[0]):
            best = rank, options
    law = None if best is None else _stlsq(scaled, best[1])
    if law is None:
        raise FitError("no threshold gives equations that can be simulated")
    return Equations.from_power_sum(series.states, law.unscaled(scale.state, scale.time)), "done"


def _split(series: TimeSeries) -> tuple[TimeSeries, TimeSeries]:
    """The first 70 % of every trajectory, and the rest."""
    heads, tails = [], []
    for t in series.trajectories:
        first = max(round((1.0 - VALIDATION) * len(t.time)), LEAST_VALUES - 1)
        heads.append(Trajectory(t.time[:first], t.values[:first], t.label))
        tails.append(Trajectory(t.time[first:], t.values[first:], t.label))
    return TimeSeries(series.states, tuple(heads)), TimeSeries(series.states, tuple(tails))


def _stlsq(series: TimeSeries, options: _Options) -> PowerSum | None:
    """Sequentially thresholded least squares, or None where nothing is left or it fails."""
    derivative = pysindy.FiniteDifference(order=options.order)
    if options.window:
        if min(len(t.time) for t in series.trajectories) < options.window:
            return None
        derivative = pysindy.SmoothedFiniteDifference(
            smoother_kws={"window_length": options.window, "polyorder": 3}, order=options.order
        )
    library = pysindy.PolynomialLibrary(degree=options.degree)
    model = pysindy.SINDy(optimizer=pysindy.STLSQ(threshold=options.threshold),
                          feature_library=library, differentiation_method=derivative)  # fmt: skip
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # STLSQ warns of every threshold that removes all terms.
            warnings.simplefilter("ignore")
            model.fit([t.values for t in series.trajectories],
                      t=[t.time for t in series.trajectories])  # fmt: skip
    except (ValueError, np.linalg.LinAlgError):
        return None
    law = PowerSum(np.array(model.coefficients(), dtype=np.float64),
                   np.array(library.powers_, dtype=np.float64)).merged()  # fmt: skip
    return law if np.isfinite(law.coefficients).all() and law.n_monomials else None


def _simulated_r2(equations: Equations, series: TimeSeries) -> float:
    """R2 of the equations integrated over every trajectory from its first sample."""
    squares = spread = 0.0
    for t in series.trajectories:
        if len(t.time) < 2:
            continue
        values = equations.simulate(t.values[0], t.time, rtol=1e-6, atol=1e-8,
                                    most_evaluations=_MOST_EVALUATIONS)  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            squares += float(np.sum((values - t.values) ** 2))
        spread += float(np.sum((t.values - t.values.mean(axis=0)) ** 2))
    return 1.0 - squares / spread if np.isfinite(squares) and spread > 0 else -np.inf


@dataclass(frozen=True)
class _Model:
    """One model of Operon's front: its text, length, and error of the rates held out."""

    text: str
    length: int
    error: float


def operon(series: TimeSeries, max_seconds: float, seed: int) -> tuple[Equations, str]:
    """dx_i/dt = an expression tree over + - * / powers, roots, exp, log, sin and cos.

    Args:
        series: noisy training data.
        max_seconds: most of it is shared by the states, the rest is for the choice.
        seed: of the genetic programming.
    """
    ending = time.monotonic() + max_seconds
    head, tail = _split(series)
    # The first part too: where the last one rests, hardly anything is told apart by it alone.
    parts = TimeSeries(series.states, head.trajectories + tail.trajectories)
    seen, held = _rates(series, head), _rates(series, tail)
    names = list(identifiers(series.states).values())
    seconds = max(int(_SEARCH * max_seconds / len(names)), 1)
    fronts = [_front(i, seen, held, names, seed, seconds) for i in range(len(names))]

    def rank(choice: Sequence[int]) -> tuple[float, int]:
        models = [front[k] for front, k in zip(fronts, choice, strict=True)]
        texts = {name: model.text for name, model in zip(series.states, models, strict=True)}
        r2 = _simulated_r2(Equations.parse(series.states, texts), parts)
        return -round(r2, 3), sum(model.length for model in models)

    # Fronts have too many combinations to try them all: models with the best rates, then equally
    # long ones, then from the best of these one state after the other.
    starts = [[min(range(len(front)), key=lambda k: front[k].error) for front in fronts]]
    starts += [[round(q * (len(front) - 1)) for front in fronts] for q in np.linspace(1, 0, 9)]
    best, choice = min((rank(start), start) for start in starts)
    for _, i in itertools.product(range(2), range(len(fronts))):
        for k in range(len(fronts[i])):
            other = [*choice[:i], k, *choice[i + 1 :]]
            if time.monotonic() < ending and (ranked := rank(other)) < best:
                best, choice = ranked, other
    texts = [front[k].text for front, k in zip(fronts, choice, strict=True)]
    found = Equations.parse(series.states, dict(zip(series.states, texts, strict=True)))
    return found, "done"


def _rates(series: TimeSeries, part: TimeSeries) -> tuple[Array, Array]:
    """States and rates [samples, states] at the times of a part, by smoothing splines of all.

    The smoothing is chosen by generalised cross-validation: clean data are interpolated.
    """
    states, rates = [], []
    for whole, t in zip(series.trajectories, part.trajectories, strict=True):
        splines = [make_smoothing_spline(whole.time, column) for column in whole.values.T]
        states.append(np.stack([spline(t.time) for spline in splines], axis=1))
        rates.append(np.stack([spline.derivative()(t.time) for spline in splines], axis=1))
    return np.concatenate(states), np.concatenate(rates)


def _front(i: int, seen: tuple[Array, Array], held: tuple[Array, Array], names: list[str],
           seed: int, seconds: int) -> list[_Model]:  # fmt: skip
    """Operon's models of one rate, from short and rough to long and close."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Operon warns of a model without variables, which a constant rate is.
        warnings.simplefilter("ignore")
        fitted = SymbolicRegressor(
            allowed_symbols=SYMBOLS, objectives=["r2", "length"], n_threads=1, random_state=seed,
            optimizer_iterations=LOCAL_ITERATIONS, max_time=seconds,
        ).fit(seen[0], seen[1][:, i])  # fmt: skip
        models = []
        for row in fitted.pareto_front_:
            text = fitted.get_model_string(row["tree"], precision=15, names=names)
            off = fitted.evaluate_model(row["tree"], held[0]) - held[1][:, i]
            error = float(np.mean(np.square(off, dtype=np.float64)))
            models.append(_Model(text.replace("^", "**"), int(row["length"]),
                                 error if np.isfinite(error) else np.inf))  # fmt: skip
    return sorted(models, key=lambda model: model.length)
