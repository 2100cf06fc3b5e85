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

For chaotic systems pysindy uses polynomials of degree 4, as in the benchmark of Kaptanoglu et al. (2023), and STLSQ of
the weak form, without derivatives: rows are integrals over 200 subdomains of each trajectory. Thresholds grow from 1e-6
by a constant factor. The model with the least AIC of the rates of trajectories without noise is chosen, here with one
model of all data instead of ten of halves.

All other choices use only the noisy training series. The packages are optional: `pip install
"odediscovery[bench]"`.

Sources: Brunton, Proctor, Kutz 2016, PNAS 113:3932 (pysindy 2.1, de Silva et al. 2020); choice by
an information criterion of the integrated equations: Mangan et al. 2017, Proc. R. Soc. A
473:20170009; Burlacu, Kronberger, Kommenda 2020, Operon C++ (pyoperon 0.6); share of 30 % held
out: the baselines of d'Ascoli et al., ODEFormer, ICLR 2024.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy
from scipy.interpolate import make_smoothing_spline

from odediscovery.data.series import Scale, TimeSeries, Trajectory, pooled
from odediscovery.data.signals import LEAST_VALUES
from odediscovery.errors import FitError, InputError
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import identifiers, parse
from odediscovery.laws.power_sum import PowerSum
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

# States and rates [samples, states].
Rates: TypeAlias = tuple[Array, Array]
# Coefficients [states, functions], and the starts of their equations by trajectory.
Candidate: TypeAlias = tuple[Array, list[Array]]


def is_installed(method: str) -> bool:
    """Whether the package of a method is installed."""
    return (SymbolicRegressor if method == "pyoperon" else pysindy) is not None


def check_installed(method: str) -> None:
    """Check that the package of a method is installed, or raise an `InputError` with instructions."""
    if not is_installed(method):
        package = "pyoperon" if method == "pyoperon" else "pysindy"
        raise InputError(f'--method {method} needs the package {package}: pip install "odediscovery[bench]"')


def fitted(optimiser: Any, columns: Array, rates: Array) -> Array | None:
    """Fit coefficients [states, functions]; None if no term remains."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # It warns if a threshold removes all terms of a state, or columns are nearly collinear.
        warnings.simplefilter("ignore")
        try:
            c: Array = np.array(optimiser.fit(columns, rates).coef_, dtype=np.float64)
        except (ValueError, np.linalg.LinAlgError):
            return None
    c = c.reshape(rates.shape[1], -1)
    return c if c.any() and np.isfinite(c).all() else None


def differences(x: Array, times: Array, order: int = 2) -> Array:
    """Estimate rates by finite differences."""
    rates: Array = np.asarray(pysindy.FiniteDifference(order=order)._differentiate(x, times))
    return rates


def splined(t: Trajectory, at: Array, smoothing: float | None = None) -> Rates:
    """Estimate states and rates by smoothing splines; with None, smoothing is chosen by generalised
    cross-validation."""
    splines = [make_smoothing_spline(t.time, column, lam=smoothing) for column in t.values.T]
    return (
        np.stack([spline(at) for spline in splines], axis=1),
        np.stack([spline.derivative()(at) for spline in splines], axis=1),
    )


def polynomials(states: int, degree: int) -> Array:
    """Exponents [functions, states] of all monomials up to a degree."""
    every = itertools.product(range(degree + 1), repeat=states)
    return np.array([w for w in every if sum(w) <= degree], dtype=np.float64)


# pysindy on suites

# Powers of single states (1), or also their products in pairs (2). Small libraries find terms that
# are lost among nearly collinear functions in a large one.
POWERS = (
    ((0.5, 1.0, 2.0), 1),
    ((-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 3.0), 1),
    ((0.5, 1.0), 2),
    ((-1.0, -0.5, 0.5, 1.0, 1.5, 2.0), 2),
)
THRESHOLDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Library:
    """Products of powers [n, states], then sines and cosines of x, 2 x, ... in user units."""

    exponents: Array
    waves: int = 0

    def columns(self, x: Array, state: Array | float = 1.0) -> Array:
        """The functions at x [samples, states] in units of `state`; nan for fractional powers of negative values."""
        values = np.ones((len(x), len(self.exponents)))
        with np.errstate(all="ignore"):
            for k, w in enumerate(self.exponents.T):
                for power in np.unique(w[w != 0]):
                    values[:, w == power] *= x[:, k : k + 1] ** power
            angles = [f * x * state for f in range(1, self.waves + 1)]
            result: Array = np.hstack([values, *(g(a) for a in angles for g in (np.sin, np.cos))])
        return result

    def equations(self, states: Sequence[str], c: Array, scale: Scale) -> Equations:
        """The equations with these coefficients [states, functions]."""
        n = len(self.exponents)
        law = PowerSum(c[:, :n], self.exponents).unscaled(scale.state, scale.time)
        names = list(identifiers(states).values())
        shapes = [
            "*".join(["1", *(f"{x}**({p})" for x, p in zip(names, w, strict=True) if p)])
            for w in law.exponents.tolist()
        ]
        shapes += [f"{g}({f}*{x})" for f in range(1, self.waves + 1) for g in ("sin", "cos") for x in names]
        numbers = np.hstack([law.coefficients, c[:, n:] * scale.state[:, None] / scale.time])
        texts = [
            " + ".join(["0", *(f"({a})*{m}" for a, m in zip(row, shapes, strict=True) if a)])
            for row in numbers.tolist()
        ]
        return Equations.parse(states, dict(zip(states, texts, strict=True)))


def libraries(values: Array) -> Iterator[Library]:
    """Yield polynomials, then with sines and cosines, then powers defined for the values."""
    n = values.shape[1]

    def products_of(powers: Sequence[float], most: int) -> Array:
        every = itertools.product((0.0, *powers), repeat=n)
        exponents = np.array([w for w in every if np.count_nonzero(w) <= most])
        real = (exponents >= 0) & (exponents == np.round(exponents))
        kept: Array = exponents[(real | (values > 0).all(axis=0)).all(axis=1)]
        return kept

    # Waves: sines and cosines of x, or of x and 2 x.
    for degree, waves in ((1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2), (2, 2)):
        yield Library(polynomials(n, degree), waves)
    yield from (Library(products_of(powers, most)) for powers, most in POWERS)


def sindy(series: TimeSeries, max_seconds: float, _seed: int) -> tuple[Equations, str]:
    """Fit dx_i/dt = sum_j C_ij m_j(x) with functions m_j of a library and sparse C, without randomness."""
    ending, outcome = now() + max_seconds, "done"
    # If states and rates are about 1, one grid of thresholds suits every system.
    span = max(float(t.time[-1] - t.time[0]) for t in series.trajectories)
    scale = Scale(Scale.of(series).state, span / 10.0)
    scaled = scale.apply(series)
    values, smoothed = pooled(scaled), [_smoothed(t) for t in scaled.trajectories]
    spread = np.maximum(values.var(axis=0), 1e-12)
    ranked: list[tuple[float, float, Library, Array]] = []
    for library in libraries(values):
        if now() > ending:
            outcome = "out of time"
            break
        found = list(_candidates(library, smoothed, scale.state))
        for (c, _), error in zip(found, _mean_squares(library, found, scaled, scale.state), strict=True):
            # Smaller errors are irrelevant: rates of clean data are equally inaccurate.
            misfit = len(values) * np.log(np.maximum(error / spread, 1e-4)).sum()
            bic = float(misfit + np.log(values.size) * np.count_nonzero(c))
            ranked.append((bic, float(error.sum()), library, c))
    # Among equal numbers of terms with errors below the floor, choose the closest.
    for bic, _, library, c in sorted(ranked, key=lambda entry: entry[:2]):
        equations = library.equations(series.states, c, scale)
        # A careful solver follows all fixed-step solutions except near a few singularities.
        if np.isfinite(bic) and np.isfinite(_simulated_r2(equations, series)):
            return equations, outcome
    raise FitError("no threshold gives equations that can be simulated")


def _smoothed(t: Trajectory) -> dict[str, Rates]:
    """Estimate states and rates by every method that the samples allow."""
    found = {f"differences {n}": (t.values, differences(t.values, t.time, n)) for n in (2, 4) if len(t.time) > n}
    steps = np.diff(t.time)
    # Of degree 3; pysindy's own window is 11, ODEFormer's 15.
    for window in (7, 11, 15, 25):
        # The filter assumes even times.
        if len(t.time) >= window and np.ptp(steps) <= 1e-3 * steps[0]:
            method = pysindy.SmoothedFiniteDifference(smoother_kws={"window_length": window, "polyorder": 3})
            rates = method._differentiate(t.values, t.time)
            found[f"filter {window}"] = method.smoothed_x_, rates
    for smoothing in (None, 1e-4, 1e-3, 1e-2) if len(t.time) >= 5 else ():
        found[f"spline {smoothing}"] = splined(t, t.time, smoothing)
    return found


def _candidates(library: Library, smoothed: Sequence[dict[str, Rates]], state: Array) -> Iterator[Candidate]:
    """Yield models by sequentially thresholded least squares with every threshold and ridge on all rates."""
    for way in (way for way in smoothed[0] if all(way in found for found in smoothed)):
        parts = [found[way] for found in smoothed]
        columns = library.columns(np.concatenate([x for x, _ in parts]), state)
        rates = np.concatenate([rate for _, rate in parts])
        if not (np.isfinite(columns).all() and np.isfinite(rates).all()):
            continue
        seen = set()
        # The default ridge of STLSQ, and a very small one for nearly collinear functions.
        for threshold, ridge in itertools.product(THRESHOLDS, (0.05, 1e-5)):
            c = fitted(pysindy.STLSQ(threshold, ridge), columns, rates)
            # Thresholds with the same remaining terms give the same constants.
            if c is not None and (key := (c != 0).tobytes()) not in seen:
                seen.add(key)
                yield c, [x[0] for x, _ in parts]


def _mean_squares(library: Library, candidates: Sequence[Candidate], series: TimeSeries, state: Array) -> Array:
    """Errors [candidates, states] of their equations, integrated together through all data by Runge-Kutta steps; inf
    if a solution leaves the range of the data."""
    c = np.array([c for c, _ in candidates])

    def rhs(_: float, x: Array) -> Array:
        result: Array = np.einsum("mij,mj->mi", c, library.columns(x, state))
        return result

    squares, count = np.zeros((len(candidates), series.n_states)), 0
    with np.errstate(all="ignore"):
        for k, t in enumerate(series.trajectories if candidates else ()):
            x = np.stack([starts[k] for _, starts in candidates])
            squares, count = squares + (x - t.values[0]) ** 2, count + len(t.time)
            longest = (t.time[-1] - t.time[0]) / 450
            for step, seen in zip(np.diff(t.time), t.values[1:], strict=True):
                parts = int(np.ceil(step / longest))
                for _ in range(parts):
                    x = rk4_step(rhs, x, step / parts)
                squares += (x - seen) ** 2
        return np.where(np.isfinite(squares), squares / count, np.inf)


def _simulated_r2(equations: Equations, series: TimeSeries) -> float:
    """R2 of the equations integrated over all trajectories from first samples; -inf after too many evaluations."""
    squares = spread = 0.0
    for t in (t for t in series.trajectories if len(t.time) > 1):
        values = equations.simulate(t.values[0], t.time, rtol=1e-6, atol=1e-8, most_evaluations=20_000)
        with np.errstate(over="ignore", invalid="ignore"):
            squares += float(np.sum((values - t.values) ** 2))
        spread += float(np.sum((t.values - t.values.mean(axis=0)) ** 2))
    return 1.0 - squares / spread if np.isfinite(squares) and spread > 0 else -np.inf


# Operon

ALGEBRAIC = "add,sub,mul,div,pow,sqrt,constant,variable"
SYMBOLS = (ALGEBRAIC, f"exp,log,sin,cos,{ALGEBRAIC}")


class _OperonModel(NamedTuple):
    """One model of Operon's front: its text, length, and error of the held-out rates."""

    text: str
    length: int
    error: float


def operon(series: TimeSeries, max_seconds: float, seed: int) -> tuple[Equations, str]:
    """Find dx_i/dt as expression trees over + - * / powers, roots, exp, log, sin and cos."""
    ending = now() + max_seconds
    head, tail = _split(series)
    # Score on the first part too, since a last part near equilibrium hardly distinguishes models.
    parts = TimeSeries(series.states, head.trajectories + tail.trajectories)
    seen, held = _rates(series, head), _rates(series, tail)
    names = list(identifiers(series.states).values())
    # The states share most of the time; the rest is for the choice.
    seconds = max(int(0.8 * max_seconds / len(names) / len(SYMBOLS)), 1)
    fronts = [_front(i, seen, held, names, seed, seconds) for i in range(len(names))]
    samples = sum(t.values.size for t in series.trajectories)

    def law_of(choice: Sequence[int]) -> Equations:
        texts = [front[k].text for front, k in zip(fronts, choice, strict=True)]
        return Equations.parse(series.states, dict(zip(series.states, texts, strict=True)))

    def rank(choice: Sequence[int]) -> tuple[float, float]:
        misfit = 1.0 - _simulated_r2(law_of(choice), parts)
        length = sum(front[k].length for front, k in zip(fronts, choice, strict=True))
        bic = samples * np.log(max(misfit, 1e-5)) + length * np.log(samples)
        return float(bic), misfit

    # Fronts have too many combinations: try models with the best rates, then equally long ones,
    # then vary one state after the other from the best of these.
    starts = [[min(range(len(front)), key=lambda k: front[k].error) for front in fronts]]
    starts += [[round(q * (len(front) - 1)) for front in fronts] for q in np.linspace(1, 0, 9)]
    best, choice = min((rank(start), start) for start in starts)
    for _, i in itertools.product(range(2), range(len(fronts))):
        for k in range(len(fronts[i])):
            other = [*choice[:i], k, *choice[i + 1 :]]
            if now() < ending and (ranked := rank(other)) < best:
                best, choice = ranked, other
    return law_of(choice), "done"


def _split(series: TimeSeries) -> tuple[TimeSeries, TimeSeries]:
    """Split every trajectory into the first 70 % and the rest."""
    heads, tails = [], []
    for t in series.trajectories:
        first = max(round(0.7 * len(t.time)), LEAST_VALUES - 1)
        heads.append(Trajectory(t.time[:first], t.values[:first], t.label))
        tails.append(Trajectory(t.time[first:], t.values[first:], t.label))
    return TimeSeries(series.states, tuple(heads)), TimeSeries(series.states, tuple(tails))


def _rates(series: TimeSeries, part: TimeSeries) -> Rates:
    """Estimate states and rates at the times of a part, by smoothing splines of the whole series."""
    found = [splined(whole, t.time) for whole, t in zip(series.trajectories, part.trajectories, strict=True)]
    return np.concatenate([states for states, _ in found]), np.concatenate([rates for _, rates in found])


def _front(i: int, seen: Rates, held: Rates, names: list[str], seed: int, seconds: int) -> list[_OperonModel]:
    """Operon's models of one rate, from short and inaccurate to long and accurate."""
    models = []
    for symbols in SYMBOLS:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # Operon warns about models without variables, such as constant rates.
            warnings.simplefilter("ignore")
            regressor = SymbolicRegressor(
                allowed_symbols=symbols,
                objectives=["r2", "length"],
                n_threads=1,
                random_state=seed,
                optimizer_iterations=5,
                max_time=seconds,
            ).fit(seen[0], seen[1][:, i])
            for row in regressor.pareto_front_:
                text = regressor.get_model_string(row["tree"], precision=15, names=names)
                off = regressor.evaluate_model(row["tree"], held[0]) - held[1][:, i]
                models += _with_and_without(text.replace("^", "**"), int(row["length"]), off.astype(np.float64), names)
    best = sorted(models, key=lambda model: (model.length, model.error))
    return [m for k, m in enumerate(best) if all(m.error < other.error for other in best[:k])]


def _with_and_without(text: str, length: int, off: Array, names: list[str]) -> list[_OperonModel]:
    """A model with these errors of the held-out rates, and the same without the intercept that Operon adds."""
    try:
        side = parse(text, {name: sympy.Symbol(name) for name in names})
    except InputError:  # constants that are not floats, or powers that cannot be computed
        return []
    intercept, rest = side.as_coeff_Add()
    found = [(text, length, off)]
    if rest != 0 and intercept != 0:
        # Two nodes fewer, the constant and the sum.
        found.append((f"({text}) - ({float(intercept)})", length - 2, off - float(intercept)))
    errors = [float(np.nan_to_num(np.mean(np.square(e)), nan=np.inf)) for _, _, e in found]
    return [_OperonModel(told, n, error) for (told, n, _), error in zip(found, errors, strict=True)]


# pysindy on chaotic systems

DEGREE = 4
RIDGE = 1e-5


def weak_stlsq(train: TimeSeries, test: Sequence[Array], max_seconds: float, seed: int) -> Equations:
    """STLSQ of the weak form with the threshold that suits exact trajectories best [samples, states]."""
    ending, times, columns, rates = now() + max_seconds, train.trajectories[0].time, *_weak_form(train, seed)
    # In pysindy's order, the constant first.
    exponents = np.asarray(pysindy.PolynomialLibrary(degree=DEGREE).fit(np.zeros((2, train.n_states))).powers_, float)
    exact = [(Library(exponents).columns(x), differences(x, times)) for x in test]

    def candidates() -> Iterator[Array]:
        for threshold in (1e-6 * 1.3 ** np.arange(100)).tolist():
            c = fitted(pysindy.STLSQ(threshold=threshold, alpha=RIDGE, max_iter=100), columns, rates)
            if c is None or now() > ending:
                return
            yield c

    def aic(c: Array) -> float:
        terms, samples = np.count_nonzero(c), len(times)
        misfits = [np.linalg.norm(rate - phi @ c.T, ord=2) ** 2 for phi, rate in exact]
        correction = 2 * terms + 2 * terms * (terms + 1) / (samples - terms - 1)
        return float(np.mean(samples * np.log(np.maximum(misfits, 1e-300)))) + correction

    return Equations.from_power_sum(train.states, _best(candidates(), aic, exponents))


def _weak_form(train: TimeSeries, seed: int) -> tuple[Array, Array]:
    """Integrals of the polynomials, and of the rates, over random subdomains."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        library = pysindy.WeakPDELibrary(
            function_library=pysindy.PolynomialLibrary(degree=DEGREE, include_bias=False),
            spatiotemporal_grid=train.trajectories[0].time,
            include_bias=True,
            K=200,
        )
    finally:
        np.random.set_state(state)
    axes = {"ax_time": 0, "ax_coord": 1}
    seen = [pysindy.AxesArray(t.values, axes=axes) for t in train.trajectories]
    with warnings.catch_warnings():
        # It warns about the axes of its own arrays.
        warnings.simplefilter("ignore")
        library.fit(seen)
        columns = np.concatenate([np.asarray(one) for one in library.transform(seen)])
        return columns, np.concatenate([np.asarray(library.convert_u_dot_integral(one)) for one in seen])


def _best(candidates: Iterable[Array], criterion: Callable[[Array], float], exponents: Array) -> PowerSum:
    """The law of the terms that the best coefficients leave."""
    c = min(candidates, key=criterion, default=None)
    if c is None or criterion(c) == np.inf:
        raise FitError("no threshold leaves a term")
    used = (c != 0).any(axis=0)
    return PowerSum(c[:, used], exponents[used])


# pysindy on groups


def group_library(states: int, powers: Sequence[Sequence[float]]) -> Array:
    """Polynomials of degree 2 and the powers of the true law, an unfair advantage [functions, states]."""
    return np.array(sorted({tuple(map(float, w)) for w in [*polynomials(states, 2), *powers]}))


def group_law(runs: Sequence[tuple[Array, Array]], exponents: Array) -> PowerSum:
    """The law of runs, (times, values [samples, states]), by STLSQ; the threshold by BIC of the rates."""
    if pysindy is None:
        raise FitError("pysindy is not installed: pip install odediscovery[bench]")
    columns = Library(exponents).columns(np.concatenate([x for _, x in runs]))
    # Noise makes small values negative.
    columns = np.where(np.isnan(columns), 0.0, columns)
    rates = np.concatenate([differences(x, t) for t, x in runs])

    def bic(c: Array) -> float:
        error = np.mean((columns @ c.T - rates) ** 2, axis=0) / np.maximum(rates.var(axis=0), 1e-300)
        score = len(rates) * np.log(np.maximum(error, 1e-12)).sum() + np.log(rates.size) * np.count_nonzero(c)
        return float(score) if np.isfinite(score) else np.inf

    # Thresholds of coefficients of columns of length 1: from far below to far above the rates.
    optimisers = (pysindy.STLSQ(threshold=10.0 ** (0.25 * k), normalize_columns=True) for k in range(-16, 9))
    found = [c for optimiser in optimisers if (c := fitted(optimiser, columns, rates)) is not None]
    return _best(found, bic, exponents)
