"""Other methods on the same data, set up as their authors recommend.

    pysindy    sparse regression of rates on a library: STLSQ on polynomials of degree 1 to 3,
               polynomials with sines and cosines, or powers and their products in pairs; rates
               by finite differences, Savitzky-Golay filters or smoothing splines; library, rates
               and threshold are chosen by the information criterion (BIC) of the equations
               integrated through the training data
    pyoperon   genetic programming on the derivatives of smoothing splines, one state after the
               other: Operon with its defaults and two objectives (R2 and length) on the first
               70 %, once with algebraic functions and once with all; which models of the fronts
               go together is chosen by BIC of the equations integrated over the first part and
               over the last one

Neither sees more than the noisy training series. Both are optional: `pip install
"odediscovery[bench]"`.

Sources: Brunton, Proctor, Kutz 2016, PNAS 113:3932 (pysindy 2.1, de Silva et al. 2020); choice by
an information criterion of the integrated equations: Mangan et al. 2017, Proc. R. Soc. A
473:20170009; Burlacu, Kronberger, Kommenda 2020, Operon C++ (pyoperon 0.6); share of 30 % held
out: the baselines of d'Ascoli et al., ODEFormer, ICLR 2024.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import sympy
from scipy.interpolate import make_smoothing_spline

from odediscovery.bench.peers.libraries import Library, libraries
from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.trajectories import SERIES
from odediscovery.errors import FitError, InputError
from odediscovery.ivp.steps import rk4_step
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import identifiers, parse
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import now

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
THRESHOLDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# Weights of the ridge in STLSQ: its own, and next to none for functions that are nearly alike.
RIDGES = (0.05, 1e-5)
ORDERS = (2, 4)
# Samples of a Savitzky-Golay filter of degree 3; pysindy's own window is 11, ODEFormer's 15.
WINDOWS = (7, 11, 15, 25)
# Smoothing of splines, for a time of 10; None is chosen by generalised cross-validation.
SMOOTHING = (None, 1e-4, 1e-3, 1e-2)
# Steps of Runge-Kutta through the training time, at least; more where there are more samples.
STEPS = 450
# Errors below this share of a state's variance are none: rates of clean data are off by as much.
_FLOOR = 1e-4
# A candidate that needs more evaluations to be simulated is none.
_MOST_EVALUATIONS = 20_000
ALGEBRAIC = "add,sub,mul,div,pow,sqrt,constant,variable"
SYMBOLS = (ALGEBRAIC, f"exp,log,sin,cos,{ALGEBRAIC}")
# Levenberg-Marquardt steps on the constants of every individual.
LOCAL_ITERATIONS = 5
# Misfits 1 - R2 of integrated models below this are none.
_MISFIT = 1e-5
# Share of the time for the genetic programming itself.
_SEARCH = 0.8


def check_installed(name: str) -> None:
    """Whether the package of a peer is there.

    Raises:
        InputError: it is not, with what to install.
    """
    if {"pysindy": pysindy, "pyoperon": SymbolicRegressor}[name] is None:
        raise InputError(f'--method {name} needs the package {name}: pip install "odediscovery[bench]"')


@dataclass(frozen=True)
class _Candidate:
    """Coefficients [states, functions] of a library, and where their equations start."""

    library: Library
    coefficients: Array
    starts: list[Array]


def sindy(series: TimeSeries, max_seconds: float, seed: int) -> tuple[Equations, str]:
    """dx_i/dt = sum_j C_ij m_j(x) with functions m_j of a library and few C_ij.

    Args:
        series: noisy training data.
        max_seconds: libraries that are not begun by then are left out.
        seed: not needed: nothing is random.

    Raises:
        FitError: no option gives equations that can be simulated.
    """
    ending = now() + max_seconds
    # In units in which states and rates are about 1 one grid of thresholds fits every system.
    span = max(float(t.time[-1] - t.time[0]) for t in series.trajectories)
    scale = Scale(Scale.of(series).state, span / 10.0)
    scaled = scale.apply(series)
    values = np.concatenate([t.values for t in scaled.trajectories])
    smoothed = [_smoothed(t) for t in scaled.trajectories]
    ranked: list[tuple[float, float, _Candidate]] = []
    outcome = "done"
    for library in libraries(values):
        if now() > ending:
            outcome = "out of time"
            break
        found = list(_candidates(library, smoothed, scale.state))
        errors = _mean_squares(found, scaled, scale.state)
        spread = np.maximum(values.var(axis=0), 1e-12)
        for candidate, error in zip(found, errors, strict=True):
            terms = np.count_nonzero(candidate.coefficients)
            bic = float(len(values) * np.log(np.maximum(error / spread, _FLOOR)).sum() + np.log(values.size) * terms)
            ranked.append((bic, float(error.sum()), candidate))
    # Equally many terms with errors below the floor: the closest.
    for bic, _, best in sorted(ranked, key=lambda entry: entry[:2]):
        equations = best.library.equations(series.states, best.coefficients, scale)
        # What a fixed step follows is followed by a careful solver too, but for a few walls.
        if np.isfinite(bic) and np.isfinite(_simulated_r2(equations, series)):
            return equations, outcome
    raise FitError("no threshold gives equations that can be simulated")


def _smoothed(t: Trajectory) -> dict[str, tuple[Array, Array]]:
    """States and rates [samples, states] by every way that the samples allow."""
    found = {}
    for order in ORDERS:
        if len(t.time) > order:
            rates = pysindy.FiniteDifference(order=order)._differentiate(t.values, t.time)
            found[f"differences {order}"] = t.values, rates
    steps = np.diff(t.time)
    for window in WINDOWS:
        # The filter knows no times.
        if len(t.time) >= window and np.ptp(steps) <= 1e-3 * steps[0]:
            method = pysindy.SmoothedFiniteDifference(smoother_kws={"window_length": window, "polyorder": 3})
            rates = method._differentiate(t.values, t.time)
            found[f"filter {window}"] = method.smoothed_x_, rates
    for smoothing in SMOOTHING if len(t.time) >= 5 else ():
        splines = [make_smoothing_spline(t.time, column, lam=smoothing) for column in t.values.T]
        found[f"spline {smoothing}"] = (
            np.stack([spline(t.time) for spline in splines], axis=1),
            np.stack([spline.derivative()(t.time) for spline in splines], axis=1),
        )
    return found


def _candidates(
    library: Library, smoothed: Sequence[dict[str, tuple[Array, Array]]], state: Array
) -> Iterator[_Candidate]:
    """Sequentially thresholded least squares with every threshold and ridge on all rates."""
    for way in (way for way in smoothed[0] if all(way in found for found in smoothed)):
        parts = [found[way] for found in smoothed]
        columns = library.columns(np.concatenate([x for x, _ in parts]), state)
        rates = np.concatenate([rate for _, rate in parts])
        if not (np.isfinite(columns).all() and np.isfinite(rates).all()):
            continue
        seen = set()
        for threshold, ridge in itertools.product(THRESHOLDS, RIDGES):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                # STLSQ warns of every threshold that removes all terms.
                warnings.simplefilter("ignore")
                try:
                    fitted = pysindy.STLSQ(threshold, ridge).fit(columns, rates)
                except (ValueError, np.linalg.LinAlgError):
                    continue
            c = np.array(fitted.coef_, dtype=np.float64).reshape(rates.shape[1], -1)
            # Thresholds that leave the same terms give the same constants.
            key = (c != 0).tobytes()
            if np.isfinite(c).all() and c.any() and key not in seen:
                seen.add(key)
                yield _Candidate(library, c, [x[0] for x, _ in parts])


def _mean_squares(candidates: Sequence[_Candidate], series: TimeSeries, state: Array) -> Array:
    """Errors [candidates, states] of equations of one library, integrated through all data.

    All at once, by classical Runge-Kutta steps; inf where a solution leaves the data.
    """
    if not candidates:
        return np.zeros((0, series.n_states))
    library = candidates[0].library
    c = np.stack([candidate.coefficients for candidate in candidates])

    def rhs(_: float, x: Array) -> Array:
        result: Array = np.einsum("mij,mj->mi", c, library.columns(x, state))
        return result

    squares, count = np.zeros((len(c), c.shape[1])), 0
    with np.errstate(all="ignore"):
        for k, t in enumerate(series.trajectories):
            x = np.stack([candidate.starts[k] for candidate in candidates])
            squares, count = squares + (x - t.values[0]) ** 2, count + len(t.time)
            longest = (t.time[-1] - t.time[0]) / STEPS
            for step, seen in zip(np.diff(t.time), t.values[1:], strict=True):
                parts = int(np.ceil(step / longest))
                for _ in range(parts):
                    x = rk4_step(rhs, x, step / parts)
                squares += (x - seen) ** 2
    return np.where(np.isfinite(squares), squares / count, np.inf)


def _split(series: TimeSeries) -> tuple[TimeSeries, TimeSeries]:
    """The first 70 % of every trajectory, and the rest."""
    heads, tails = [], []
    for t in series.trajectories:
        first = max(round((1.0 - VALIDATION) * len(t.time)), SERIES.least_values - 1)
        heads.append(Trajectory(t.time[:first], t.values[:first], t.label))
        tails.append(Trajectory(t.time[first:], t.values[first:], t.label))
    return TimeSeries(series.states, tuple(heads)), TimeSeries(series.states, tuple(tails))


def _simulated_r2(equations: Equations, series: TimeSeries) -> float:
    """R2 of the equations integrated over every trajectory from its first sample."""
    squares = spread = 0.0
    for t in series.trajectories:
        if len(t.time) < 2:
            continue
        values = equations.simulate(t.values[0], t.time, rtol=1e-6, atol=1e-8, most_evaluations=_MOST_EVALUATIONS)
        with np.errstate(over="ignore", invalid="ignore"):
            squares += float(np.sum((values - t.values) ** 2))
        spread += float(np.sum((t.values - t.values.mean(axis=0)) ** 2))
    return 1.0 - squares / spread if np.isfinite(squares) and spread > 0 else -np.inf


@dataclass(frozen=True)
class _OperonModel:
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
    ending = now() + max_seconds
    head, tail = _split(series)
    # The first part too: where the last one rests, hardly anything is told apart by it alone.
    parts = TimeSeries(series.states, head.trajectories + tail.trajectories)
    seen, held = _rates(series, head), _rates(series, tail)
    names = list(identifiers(series.states).values())
    seconds = max(int(_SEARCH * max_seconds / len(names) / len(SYMBOLS)), 1)
    fronts = [_front(i, seen, held, names, seed, seconds) for i in range(len(names))]
    samples = sum(t.values.size for t in series.trajectories)

    def rank(choice: Sequence[int]) -> tuple[float, float]:
        models = [front[k] for front, k in zip(fronts, choice, strict=True)]
        texts = {name: model.text for name, model in zip(series.states, models, strict=True)}
        misfit = 1.0 - _simulated_r2(Equations.parse(series.states, texts), parts)
        length = sum(model.length for model in models)
        bic = samples * np.log(max(misfit, _MISFIT)) + length * np.log(samples)
        return float(bic), misfit

    # Fronts have too many combinations to try them all: models with the best rates, then equally
    # long ones, then from the best of these one state after the other.
    starts = [[min(range(len(front)), key=lambda k: front[k].error) for front in fronts]]
    starts += [[round(q * (len(front) - 1)) for front in fronts] for q in np.linspace(1, 0, 9)]
    best, choice = min((rank(start), start) for start in starts)
    for _, i in itertools.product(range(2), range(len(fronts))):
        for k in range(len(fronts[i])):
            other = [*choice[:i], k, *choice[i + 1 :]]
            if now() < ending and (ranked := rank(other)) < best:
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


def _front(
    i: int, seen: tuple[Array, Array], held: tuple[Array, Array], names: list[str], seed: int, seconds: int
) -> list[_OperonModel]:
    """Operon's models of one rate, from short and rough to long and close."""
    models = []
    for symbols in SYMBOLS:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # Operon warns of a model without variables, which a constant rate is.
            warnings.simplefilter("ignore")
            fitted = SymbolicRegressor(
                allowed_symbols=symbols,
                objectives=["r2", "length"],
                n_threads=1,
                random_state=seed,
                optimizer_iterations=LOCAL_ITERATIONS,
                max_time=seconds,
            ).fit(seen[0], seen[1][:, i])
            for row in fitted.pareto_front_:
                text = fitted.get_model_string(row["tree"], precision=15, names=names)
                off = fitted.evaluate_model(row["tree"], held[0]) - held[1][:, i]
                models += _with_and_without(text.replace("^", "**"), int(row["length"]), off.astype(np.float64), names)
    best = sorted(models, key=lambda model: (model.length, model.error))
    return [m for k, m in enumerate(best) if all(m.error < other.error for other in best[:k])]


def _with_and_without(text: str, length: int, off: Array, names: list[str]) -> list[_OperonModel]:
    """A model, and the same without the intercept that Operon gives to every one.

    One whose constants are no floats, or whose powers nobody could compute, is none.

    Args:
        off: errors of the rates held out.
    """
    try:
        side = parse(text, {name: sympy.Symbol(name) for name in names})
    except InputError:
        return []
    intercept, rest = side.as_coeff_Add()
    found = [(text, length, off)]
    if rest != 0 and intercept != 0:
        # Two nodes less: the constant and the sum.
        found.append((f"({text}) - ({float(intercept)})", length - 2, off - float(intercept)))
    errors = [float(np.nan_to_num(np.mean(np.square(e)), nan=np.inf)) for _, _, e in found]
    return [_OperonModel(told, n, error) for (told, n, _), error in zip(found, errors, strict=True)]
