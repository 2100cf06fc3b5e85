"""Equations from data with scikit-learn's interface, for grid search, cross-validation and joblib.

X and t are arrays, DataFrames, or lists of them; `data.frames` explains where the times of a frame are. A fitted
estimator is pickled as the files of `Discovery.save`.

Source: scikit-learn, "Developing scikit-learn estimators"; methods are called as in pysindy.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from odediscovery.data.dates import Clock, as_moments, counted_times
from odediscovery.data.frames import index_times, is_dataset, plain_frame
from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import Trajectory, real_numbers, without_turns
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError, unknown_name
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import OPTIONS, RECIPES, Settings

# Score of solutions that diverge: finite, because a grid search cannot rank means over folds with -inf or nan, and so
# low that one divergent fold rules out a candidate.
LOWEST_SCORE = -1e6

# X has a column for every state, and scikit-learn itself holds out samples.
_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Settings) if f.name not in ("hidden_states", "holdout")}
_SIGNATURE = inspect.Signature(
    [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in {"states": None, **_DEFAULTS}.items()
        ),
    ]
)


class ODEDiscovery(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator of the equations dx/dt = f(x) behind samples of x(t).

    Parameters are checked in `fit`; before it, the other methods raise scikit-learn's NotFittedError.
    All parameters except `states` are options of `Settings`, with the same defaults: recipe, seed, members, hidden,
    max_seconds, max_memory, threads, device, unit, gradients, grow, l1, adam_steps, learning_rate, lbfgs_steps,
    prune_long, known, conserve, forbid, bounds, integer_exponents, sources, nonnegative_flows, library, template,
    tries, thorough, vary (X is then a list with one entry per group), covariate, starts, censored, cumulative, doses
    and breaks. A parameter that equals its default takes the value of the recipe.

    Args:
        states: names of the states; for a DataFrame, the columns to use. Default: the column names, or x0, x1, ...

    Attributes:
        discovery_: the `Discovery`, with the Pareto front, messages and outcome.
        equations_: its `Equations`.
        feature_names_in_: names of the states [states].
        n_features_in_: number of states.
        interval_: sample interval, the default of `score`; None if `fit` was given times.
        time_unit_: unit in which dates or durations were counted; None if `fit` was given numbers.

    Source: scikit-learn's estimator API.

    >>> import numpy as np
    >>> t = np.linspace(0, 5, 30)
    >>> X = 3 * np.exp(-0.5 * t)[:, None]
    >>> model = ODEDiscovery(states=["mass"], members=0).fit(X, t=t)
    >>> model.print()  # doctest: +ELLIPSIS
    mass' = -0.5...*mass
    >>> model.predict([[2.0]]).round(4).tolist()
    [[-1.0]]
    >>> model.simulate([2.0], [0.0, 10.0]).round(4).tolist()
    [[2.0], [0.0135]]
    >>> round(model.score(2 * X, t=t), 6)
    1.0
    """

    def __init__(self, *, states: Sequence[str] | None = None, **options: Any) -> None:
        given = _SIGNATURE.bind(self, states=states, **options)
        given.apply_defaults()
        for name in ("states", *_DEFAULTS):  # scikit-learn reads them back unchanged
            setattr(self, name, given.arguments[name])

    def fit(
        self, X: Any, y: object = None, t: Any = None, sigma: Any = None, groups: Sequence[str] | None = None
    ) -> ODEDiscovery:
        """Find the equations dx/dt = f(x) behind X, set the attributes ending in "_", and return self.

        Args:
            X: values of the states, nan where missing: [samples, states], a DataFrame, an xarray Dataset, or a list of
                these. The times of a frame are its column named t or time, else an index with such a name or with
                dates or durations.
            y: ignored; scikit-learn passes it.
            t: times of the samples [samples], increasing, numbers or dates, or the interval between samples; for a list
                of trajectories one interval for all or a list with one entry each. None: those of the frame, otherwise
                an interval of 1.
            sigma: standard deviations of the values, shaped like X (a list for a list; columns in the order of the
                states), nan for a state with unknown noise; None: estimated.
            groups: labels of the trajectories in a list, used with `vary`; None: 1, 2, ...

        Raises:
            InputError: a parameter is out of range, X or t is invalid, or a frame has an unnamed index that may hold
                its times.
            FitError: no law could be integrated through the data.
        """
        settings, names = self._settings(), self.states
        if names is not None:
            if isinstance(names, str) or not np.iterable(names):
                raise InputError(f"states: expected a list of names, got {names!r}; give a list")
            names = list(names)
        runs, names, clock = read_runs(X, t, names, 1.0)
        times: list[Any] = [run.time for run in runs]
        values: list[Any] = [run.values for run in runs]
        if not is_list(X):
            times, values = times[0], values[0]
        column = next((run.column for run in runs if run.column), None)
        name = column or "t"
        units = {name: clock.unit} if clock else None
        labels = None if groups is None else [str(label) for label in groups]
        series = TimeSeries.from_arrays(times, values, names, labels=labels, time_name=name, sigma=sigma, units=units)
        told = "No times were given: rows count as one apart, and rates are per row; give t, or name an index of times."
        if clock:
            told = clock.sentence(f"The time {name!r}")
        if clock or (t is None and column is None):
            series = dataclasses.replace(series, messages=(told, *series.messages))
        self._keep(discover(series, settings, Monitor(settings.max_seconds)))
        self.time_unit_ = clock.unit if clock else None
        self.interval_ = None
        if not isinstance(t, list | tuple) and np.ndim(t) == 0 and column is None:
            self.interval_ = 1.0 if t is None else float(t)
        return self

    def predict(self, X: Any) -> Array:
        """Compute dx/dt = f(x) at given states, [samples, states], in units of the state per time; nan or infinite
        where f is undefined.

        Args:
            X: states [samples, states]; the columns of a DataFrame are selected by name.

        Raises:
            InputError: X is invalid.
        """
        check_is_fitted(self)
        return self.equations_.rhs(self._checked(read_values(_plain(X), list(self.feature_names_in_))))

    def simulate(self, u0: ArrayLike, t: ArrayLike) -> Array:
        """Integrate dx/dt = f(x) from x(t_0) = u0, [times, states]; nan after divergence.

        Args:
            u0: the states at the first time [states], in the data's units.
            t: increasing times [times], in the data's unit, or dates if the data had dates.

        Raises:
            InputError: u0 or t is invalid.
        """
        check_is_fitted(self)
        start = real_numbers(u0, "u0")
        if start.shape != (self.n_features_in_,) or not np.isfinite(start).all():
            raise InputError(
                f"u0: expected {self.n_features_in_} finite numbers, one a state, got {start.tolist()}; give these"
            )
        (times,), clock = counted_times([t], self.time_unit_)
        if clock and self.time_unit_ is None:
            raise InputError("t: expected numbers, as the fit had, got dates or durations; give numbers")
        return self.discovery_.simulate(start, real_numbers(times, "t"))

    def score(self, X: Any, y: object = None, t: Any = None) -> float:
        """R2 = 1 - sum |x - x_sim|^2 / sum |x - mean x|^2 of X simulated from its first sample.

        It is the variance-weighted `sklearn.metrics.r2_score` over all observed values of all trajectories; each starts
        at its first sample in which no state is missing. Divergent solutions score -1e6, which a grid search can rank.

        Args:
            X: one trajectory or a list of them, as in `fit`.
            y: ignored; scikit-learn passes it.
            t: as in `fit`. None: the times of the frame, otherwise the interval that `fit` used.

        Raises:
            InputError: X or t is invalid, or times are missing after a fit with times (in a grid search use DataFrames
                with a column t, or route t by `set_fit_request` and `set_score_request`).
        """
        check_is_fitted(self)
        observed, simulated = [], []
        runs, _, clock = read_runs(X, t, list(self.feature_names_in_), self.interval_, self.time_unit_)
        if clock and self.time_unit_ is None:
            raise InputError("X: expected times that are numbers, as the fit had, got dates or durations; convert them")
        given = [Trajectory(run.time, self._checked(run.values)) for run in runs]
        for run in without_turns(given, self.discovery_.series.states)[0]:
            complete = np.flatnonzero(np.isfinite(run.values).all(axis=1))
            if not complete.size:
                raise InputError(
                    "X: expected a sample with all states to start from, every one lacks a value; fill some in"
                )
            first = complete[0]
            observed.append(run.values[first:])
            simulated.append(self.discovery_.simulate(run.values[first], run.time[first:]))
        return _r2(np.concatenate(observed), np.concatenate(simulated))

    def equations(self, digits: int = 4) -> list[str]:
        """Write x' = f(x) as text, one line per state, with standard errors in parentheses.

        Args:
            digits: significant digits of constants with unknown errors.
        """
        check_is_fitted(self)
        return self.equations_.pretty(digits).splitlines()

    def print(self, digits: int = 4) -> None:
        """Print x' = f(x), the lines of `equations` with these `digits`."""
        print("\n".join(self.equations(digits)))

    def latex(self) -> str:
        """Write x' = f(x) as a LaTeX `align` environment."""
        check_is_fitted(self)
        return self.discovery_.latex()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.pop("equations_", None) is not None:
            with tempfile.TemporaryDirectory() as folder:
                state["discovery_"].save(folder)
                files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
            state["discovery_"] = files
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__({name: v for name, v in state.items() if name != "discovery_"})
        if "discovery_" in state:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in state["discovery_"].items():
                    (Path(folder) / Path(name).name).write_bytes(content)
                self._keep(Discovery.load(folder))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _keep(self, found: Discovery) -> None:
        self.discovery_ = found
        self.equations_ = found.equations
        self.feature_names_in_ = np.array(found.equations.states, dtype=object)
        self.n_features_in_ = len(found.equations.states)

    def _settings(self) -> Settings:
        """The parameters, with numpy scalars of a grid, as settings; messages use their Python names."""
        given = {name: getattr(self, name) for name in _DEFAULTS}
        try:
            plain = {n: v.item() if isinstance(v, np.generic) else v for n, v in given.items()}
            plain |= {n: tuple(v) for n, v in plain.items() if isinstance(_DEFAULTS[n], tuple)}
            changed = {n: v for n, v in plain.items() if v != _DEFAULTS[n]}
            recipe = RECIPES.get(plain["recipe"], {})
            return Settings(**{**recipe, **changed}).checked()
        except InputError as error:
            fields = {option: name for name, option in OPTIONS.items()}
            text = re.sub(r"--([a-z][a-z0-9-]*)", lambda m: fields.get(m[1], m[1].replace("-", "_")), str(error))
            raise InputError(text) from None
        except (TypeError, ValueError) as error:
            raise InputError(
                f"expected parameters of the types that Settings documents, got one that is not ({error}); mend it"
            ) from None

    def _checked(self, values: Array) -> Array:
        if values.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {values.shape[1]} features, but ODEDiscovery is expecting "
                f"{self.n_features_in_} features as input; give those"
            )
        return values


# scikit-learn reads the names of the parameters from this.
ODEDiscovery.__init__.__signature__ = _SIGNATURE  # type: ignore[attr-defined]


def _r2(observed: Array, simulated: Array) -> float:
    """Variance-weighted R2 over all observed values; see `ODEDiscovery.score`."""
    if len(observed) < 2:
        raise InputError(f"X: expected at least 2 samples to score, got {len(observed)}")
    if not np.isfinite(simulated).all():
        return LOWEST_SCORE
    # A missing value replaced by the mean in data and simulation contributes to neither sum.
    missing, mean = np.isnan(observed), np.nanmean(observed, axis=0)
    truth, law = np.where(missing, mean, observed), np.where(missing, mean, simulated)
    size = np.abs(truth).max() or 1.0  # otherwise squares exceed the range of floats
    with np.errstate(over="ignore"):
        law = np.clip(law / size, -1e99, 1e99)
    r2 = r2_score(truth / size, law, multioutput="variance_weighted")
    return max(float(r2), LOWEST_SCORE)


class Run(NamedTuple):
    """A trajectory: times [n], values [n, states], and the column or index of the times."""

    time: Array
    values: Array
    column: str | None


def read_runs(
    x: Any, t: Any, states: list[str] | None, interval: float | None, unit: str | None = None
) -> tuple[list[Run], list[str] | None, Clock | None]:
    """The trajectories of X, the names of their states if X has names, and the clock of dates."""
    blocks, given = paired(x, t)
    if is_frame(blocks[0]):
        states, _ = columns_of(blocks[0], states)
    found = [_times_of(block, at, states) for block, at in zip(blocks, given, strict=True)]
    times, clock = counted_times([at for at, _ in found], unit)
    runs = []
    for block, at, (_, column) in zip(blocks, times, found, strict=True):
        values = read_values(block, states)
        runs.append(Run(_times(at, len(values), interval), values, column))
    return runs, states, clock


def read_values(block: Any, states: list[str] | None) -> Array:
    """The states [samples, states] of an array or a frame, finite or nan."""
    if is_frame(block):
        names, _ = columns_of(block, states)
        values = np.empty((len(block), len(names)))
        for k, name in enumerate(names):
            values[:, k] = real_numbers(block[name], f"column {name!r}")
    else:
        values = real_numbers(block, "X")
    if values.ndim != 2:
        raise InputError(
            f"X: expected an array [samples, states], got shape {values.shape}. Reshape your data, X.reshape(-1, 1) "
            "for one state; give trajectories as a list"
        )
    if not values.shape[1]:
        raise InputError(
            f"X has 0 feature(s) (shape={values.shape}) while a minimum of 1 is required: give a column for every state"
        )
    if np.isinf(values).any():
        raise InputError("X: expected finite values, got infinity; use nan if missing")
    return values


def _times_of(block: Any, t: Any, states: list[str] | None) -> tuple[Any, str | None]:
    """Times of a trajectory as given by the user, and their column or index."""
    if not is_frame(block):
        return t, None
    kind, (_, name) = "column", columns_of(block, states)
    if name is not None:
        if t is not None:
            raise InputError(f"expected times once, got t and column {name!r}; drop one of them")
        held = block[name]
    elif np.ndim(t) > 0 or (told := index_times(block)) is None:
        return t, None
    else:
        kind, (name, held) = "index", told
        if t is not None:
            raise InputError(
                f"expected times once, got the interval t={t!r} and the index {name!r}; leave t out, or drop the "
                "index, X.reset_index(drop=True)"
            )
    return held if as_moments(held) is not None else real_numbers(held, f"{kind} {name!r}"), name


def is_list(x: Any) -> bool:
    """Whether X is a list of trajectories, not one array as a list of rows."""
    if not isinstance(x, list | tuple):
        return False
    return not x or is_frame(x[0]) or is_dataset(x[0]) or real_numbers(x[0], "X").ndim == 2


def is_frame(x: Any) -> bool:
    """Whether X has columns, as a DataFrame."""
    return hasattr(x, "columns") and hasattr(x, "__getitem__")


def paired(x: Any, t: Any) -> tuple[list[Any], list[Any]]:
    """Pair each trajectory with its times, its sample interval, or None."""
    if not is_list(x):
        return [_plain(x)], [t]
    blocks = [_plain(block) for block in x]
    if not blocks:
        raise InputError("X: expected at least one trajectory, got an empty list")
    if not isinstance(t, list | tuple) and np.ndim(t) == 0:
        return blocks, [t] * len(blocks)
    if not isinstance(t, list | tuple) or len(t) != len(blocks):
        got = len(t) if isinstance(t, list | tuple) else type(t).__name__
        raise InputError(
            "t: expected one sample interval, or a list with one entry for each of "
            f"{len(blocks)} trajectories, got {got}; give that"
        )
    return blocks, list(t)


def _plain(block: Any) -> Any:
    return plain_frame(block)[0] if is_dataset(block) else block


def _times(t: Any, count: int, interval: float | None) -> Array:
    """Times of `count` samples, from times or the interval between them."""
    step = interval if t is None else t
    if step is None:
        raise InputError(
            "t: expected the times of X, as fit was given times, got None; give t or DataFrames with a column t"
        )
    times = real_numbers(step, "t")
    if times.ndim == 0:
        if not 0.0 < times < math.inf:
            raise InputError(f"t: expected a positive sample interval, got {step!r}; give that or all times")
        return times * np.arange(count, dtype=np.float64)
    if times.shape != (count,):
        raise InputError(
            f"t: expected {count} times, one a sample, got shape {times.shape}; give those or the sample interval"
        )
    return times


def columns_of(frame: Any, states: list[str] | None) -> tuple[list[str], str | None]:
    """Columns of the states, by default all except the times, and the column of the times, if any."""
    columns = list(frame.columns)
    if not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
        raise InputError(
            f"X: expected columns with different names that are text, got {columns}; rename them or give X.to_numpy()"
        )
    for name in states or ():
        if name not in columns:
            raise unknown_name("column", name, columns)
    time = next((n for n in ("t", "time") if n in columns and n not in (states or ())), None)
    return states if states is not None else [name for name in columns if name != time], time
