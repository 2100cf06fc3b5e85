"""Records of a law for stages and results: candidates, fits with their covariance, lists of constants.

`result.json` lists every coefficient and exponent of a sum of monomials with its standard error, for readers that do
not parse expressions, and the constants of every equation with their intervals (`interval`).

When a result is read, the equations take precedence; only the errors and the order of the monomials come from the
lists. Laws with functions and inner sums are also kept as numbers, which are used if they give the same equations.

Quantities that depend on several constants, a band around a curve or the error of a ratio, need their covariance. It
is kept in an npz file that is read without pickle. For least squares estimates it is

    C = (J^T J)^-1 = V diag(s)^-2 V^T,    J = U diag(s) V^T with columns scaled to length 1

for residuals of unit variance. If the data cannot distinguish two numbers, a singular value s vanishes up to rounding.
Omitting that direction, as a pseudo-inverse does, would make both numbers appear known. Here it is kept with the
smallest s that is significant for a Jacobian, so that variances are huge, and marked, so that they are not printed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from odediscovery.data.dates import date_of_time
from odediscovery.data.series import Scale, TimeSeries
from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.laws.compiled import FilledForm
from odediscovery.laws.equations import Equations, Form
from odediscovery.laws.expressions import constant, function_name
from odediscovery.laws.power_sum import NO_SUMS, Features, Free, PowerSum, Sums, count, signs
from odediscovery.runtime.archives import pack, unpack
from odediscovery.runtime.arrays import Array, Mask, column_norms

# Confidence level of the intervals.
LEVEL = 0.95
# The names of `PowerSum.constants` in the records.
_KINDS = ("coefficient", "exponent", "inner_weight", "inner_exponent")


def terms(equations: Equations, stability: Array | None = None) -> list[dict[str, Any]]:
    """One entry per coefficient: c * prod_k x_k ** w_k in the equation of one state.

    "of_minus" names the states whose powers are those of -x, if any; "stability" [states, monomials] is the share of
    bootstrap fits in which a term survives.
    """
    law, errors = equations.power_sum, equations.standard_errors
    if law is None:
        return []
    turned, entries = signs(law.exponents, law.mirrored) < 0.0, []
    for i, j in np.argwhere(law.coefficients).tolist():
        of_minus = [name for name, minus in zip(equations.variables, turned[j], strict=False) if minus]
        powers = zip(equations.variables, law.exponents[j], strict=True)
        entry = {
            "state": equations.states[i],
            "coefficient": float(law.coefficients[i, j]),
            **_told_error(errors, 0, (i, j)),
            "monomial": j,
            "powers": {state: float(w) for state, w in powers if w != 0},
        }
        entry |= {"of_minus": of_minus} if of_minus else {}
        entry |= {} if stability is None else {"stability": plain(stability[i, j])}
        entries.append(entry)
    return entries


def exponents(equations: Equations) -> list[dict[str, Any]]:
    """One entry per non-zero exponent; exponents of a monomial in two equations are listed once."""
    law, errors = equations.power_sum, equations.standard_errors
    if law is None:
        return []
    return [
        {
            "monomial": j,
            "state": equations.variables[k],
            "value": float(law.exponents[j, k]),
            **_told_error(errors, 1, (j, k)),
        }
        for j, k in np.argwhere(law.exponents).tolist()
    ]


def _told_error(errors: PowerSum | None, kind: int, at: tuple[int, int]) -> dict[str, Any]:
    error = np.nan if errors is None else errors.constants[kind][at]
    return {"standard_error": plain(error), "snapped": bool(error == 0.0)}


def interval(value: float, error: float, freedom: float | None) -> list[float] | None:
    """Confidence interval value +- t error, t the 97.5 % point of Student's t; None if held fixed or unknown.

    >>> [round(end, 3) for end in interval(2.0, 0.1, 10)], interval(0.5, 0.0, 10)
    ([1.777, 2.223], None)
    """
    if freedom is None or not np.isfinite(error) or error <= 0.0:
        return None
    half = float(stdtrit(freedom, 0.5 + LEVEL / 2.0)) * error
    return [value - half, value + half] if np.isfinite(half) else None


def start_intervals(
    states: Sequence[str], values: Array, errors: Array | None, freedom: float | None
) -> dict[str, list[dict[str, Any]] | None]:
    """Standard errors and confidence intervals of start values [trajectories, states], by trajectory."""
    if errors is None:
        return {"initial_value_errors": None, "initial_value_intervals": None}
    rows = [list(zip(states, v.tolist(), e.tolist(), strict=True)) for v, e in zip(values, errors, strict=True)]
    return {
        "initial_value_errors": [{s: plain(e) for s, _, e in row} for row in rows],
        "initial_value_intervals": [{s: interval(v, e, freedom) for s, v, e in row} for row in rows],
    }


def starts_text(series: TimeSeries, values: Array, errors: Array | None) -> str:
    """Start values with standard errors, a line per trajectory: `at t = 0: S = 99.8(3), I = 0.0102(4)`."""
    if errors is None:
        return ""
    lines = []
    printed = 4
    for run, row, error in zip(series.trajectories[:printed], values, errors, strict=False):
        told = ", ".join(
            f"{s} = {constant(float(x), float(e))}" for s, x, e in zip(series.states, row, error, strict=True)
        )
        name = f"{run.label}, " if len(values) > 1 and run.label else ""
        date = ""
        if series.since:
            date = f" ({date_of_time(float(run.time[0]), series.since, series.units[series.time_name])})"
        lines.append(f"{name}at {series.time_name} = {run.time[0]:g}{date}: {told}")
    if len(values) > printed:
        lines.append(f"(start values of {len(values) - printed} more trajectories in result.json)")
    return "\n".join(lines)


def constants(equations: Equations, freedom: float | None) -> dict[str, list[dict[str, Any]]]:
    """One entry per constant of the equation of each state, by state; shared exponents appear in each equation.

    An entry has "kind" (`inner_...` for those of the sums 1 + sum_j b_j m_j), the index of its "monomial" or inner
    monomial, for an inner weight the index of its "sum", for exponents the feature that they are "of" (a column, a
    function of one, an inner sum), and "value", "standard_error", "interval" and "snapped". The exponent of exp(x) is
    the factor of x.
    """
    law, errors = equations.law, equations.standard_errors
    if law is None:
        return {state: [] for state in equations.states}
    names, rates = _feature_names(equations.variables, law.inputs)

    def entry(kind: int, at: tuple[int, int]) -> dict[str, Any]:
        place = {"monomial": at[0], "of": names[at[1]]} if kind in (1, 3) else {"monomial": at[1]}
        rate = rates[at[1]] if kind in (1, 3) else 1.0
        error = float(errors.constants[kind][at]) * abs(rate) if errors else float("nan")
        value = float(law.constants[kind][at]) * rate
        return {
            "kind": _KINDS[kind],
            **({"sum": at[0]} if kind == 2 else {}),
            **place,
            "value": value,
            "standard_error": plain(error),
            "interval": interval(value, error, freedom),
            "snapped": error == 0.0,
        }

    return {state: [entry(*one) for one in places(law, i)] for i, state in enumerate(equations.states)}


def places(law: PowerSum, state: int) -> list[tuple[int, tuple[int, int]]]:
    """The constants in the equation of a state: the index in `PowerSum.constants` and the place in that array."""
    a, w, b, v = law.constants
    own = np.flatnonzero(a[state]).tolist()
    sums = np.flatnonzero(np.any(w[own][:, w.shape[1] - len(b) :] != 0, axis=0)).tolist()
    inner = [(u, j) for u in sums for j in np.flatnonzero(b[u]).tolist()]
    return [
        *((0, (state, j)) for j in own),
        *((1, (j, k)) for j in own for k in np.flatnonzero(w[j]).tolist()),
        *((2, at) for at in inner),
        *((3, (j, k)) for j in sorted({j for _, j in inner}) for k in np.flatnonzero(v[j]).tolist()),
    ]


def monomial_names(equations: Equations) -> list[str]:
    """Names of the monomials of the law: "S^0.5*I^0.5", "1" for the constant term."""
    law = equations.law
    if law is None:
        return []
    names, rates = _feature_names(equations.variables, law.inputs)
    turned = signs(law.exponents, law.mirrored) < 0.0
    rows = []
    for w, of_minus in zip(law.exponents * rates, turned, strict=True):
        powers = [
            (f"(-{name})" if minus else name, constant(float(p), digits=3))
            for name, p, minus in zip(names, w, of_minus, strict=True)
            if p
        ]
        rows.append("*".join(n if p == "1" else f"{n}^{p}" for n, p in powers) or "1")
    return rows


def _feature_names(states: Sequence[str], features: Features) -> tuple[list[str], list[float]]:
    """Names of the features, and factors by which their exponents are multiplied for printing."""
    names, rates = list(states), [1.0] * features.size
    for k, f in enumerate(features.functions, start=len(states)):
        if f.kind.power_is_rate:  # exp(r x) ** w is exp(x) ** (w r)
            rates[k], f = f.rate_of_power, dataclasses.replace(f, rate=1.0)
        names.append(function_name(states, f))
    return names + [f"sum {u}" for u in range(len(features.sums))], rates


def extended(equations: Equations) -> dict[str, Any] | None:
    """A law with functions or inner sums as numbers; None for other equations."""
    law, errors = equations.law, equations.standard_errors
    if law is None or law.features is None:
        return None
    names = equations.variables

    def arrays(of: PowerSum) -> dict[str, Any]:
        named = zip(_KINDS, of.constants, strict=True)
        return {f"{kind}s": [[plain(x) for x in row] for row in values.tolist()] for kind, values in named}

    return {
        "functions": [{"name": f.name, "state": names[f.state], "rate": f.rate} for f in law.features.functions],
        "mirrored": [names[k] for k in law.mirrored],
        **arrays(law),
        "standard_errors": None if errors is None else arrays(errors),
    }


def with_law(equations: Equations, record: Mapping[str, Any] | None) -> Equations:
    """The equations with the numbers and standard errors that `extended` recorded.

    Numbers that give other equations are ignored. A record that `extended` did not write raises KeyError, TypeError or
    ValueError.
    """
    if record is None or equations.power_sum is not None:
        return equations
    variables = equations.variables
    functions = tuple(Function(f["name"], variables.index(f["state"]), number(f["rate"])) for f in record["functions"])
    if not all(f.name in STATE_FUNCTIONS for f in functions):
        raise ValueError("unknown functions")

    def arrays(of: Mapping[str, Any]) -> list[Array]:
        return [np.array([[number(x) for x in row] for row in of[f"{kind}s"]], dtype=np.float64) for kind in _KINDS]

    a, w, b, v = arrays(record)
    if b.size and v.shape != (b.shape[1], len(variables) + len(functions)):
        raise ValueError(f"inner exponents of shape {v.shape} do not fit")
    features = Features(len(variables), functions, Sums(b, v) if b.size else NO_SUMS)
    # Results of earlier versions have no mirrored states.
    mirrored = tuple(variables.index(name) for name in record.get("mirrored", ()))
    law, held = PowerSum(a, w, features, mirrored=mirrored), record["standard_errors"]
    errors = None
    if held is not None:
        errors = law.with_constants(*(e.reshape(c.shape) for e, c in zip(arrays(held), law.constants, strict=True)))
    read = _of_same_names(equations, law, errors)
    return read if read.texts() == equations.texts() else equations


def with_errors(
    equations: Equations, terms: Sequence[Mapping[str, Any]], exponents: Sequence[Mapping[str, Any]]
) -> Equations:
    """The equations with the order of monomials and the standard errors of `terms` and `exponents`."""
    parsed = equations.power_sum
    if parsed is None:
        return equations
    place = {name: i for i, name in enumerate(equations.variables)}
    found: list[tuple[int, int]] = []
    for term in sorted(terms, key=lambda entry: int(entry["monomial"])):
        powers = np.zeros(len(place))
        for name, power in term["powers"].items():
            powers[place[name]] = power
        same = np.isclose(parsed.exponents, powers, 1e-12, 0.0).all(axis=1)
        found += [(int(term["monomial"]), j) for j in np.flatnonzero(same).tolist()]
    order = list(dict.fromkeys([*(j for _, j in found), *range(parsed.n_monomials)]))
    row_of = {monomial: order.index(j) for monomial, j in found}
    law = PowerSum(parsed.coefficients[:, order], parsed.exponents[order], mirrored=parsed.mirrored)
    errors = PowerSum(np.where(law.coefficients != 0, np.nan, 0.0), np.where(law.exponents != 0, np.nan, 0.0))
    for entry in (*terms, *exponents):
        if int(entry["monomial"]) in row_of:
            row, state = row_of[int(entry["monomial"])], place[entry["state"]]
            kind, at = (0, (state, row)) if "coefficient" in entry else (1, (row, state))
            errors.constants[kind][at] = number(entry["standard_error"])
    return _of_same_names(equations, law, errors)


def _of_same_names(equations: Equations, law: PowerSum, errors: PowerSum | None) -> Equations:
    names: dict[str, Any] = {"time_name": equations.time_name, "units": equations.units, "controls": equations.controls}
    return Equations.from_power_sum(equations.states, law, standard_errors=errors, **names)


def plain(value: float) -> float | None:
    """The number for JSON, which has neither nan nor infinity: None if unknown."""
    return float(value) if np.isfinite(value) else None


def number(value: Any) -> float:
    """The inverse of `plain`."""
    return float("nan") if value is None else float(value)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Joint covariance of estimated numbers.

    >>> confused = Covariance.of(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0]]))
    >>> confused.deviations().tolist()
    [nan, nan, 0.5]
    >>> confused.transformed(np.array([[1.0, 1.0, 0.0]])).deviations().round(6).tolist()
    [0.447214]
    """

    known: Array  # covariance along the directions that the data determine, [numbers, numbers]
    # Undetermined directions, each scaled to a lower bound of the standard deviation along it, [directions, numbers].
    unknown: Array

    @property
    def matrix(self) -> Array:
        """The covariance, [numbers, numbers]; along unknown directions a huge lower bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.known + self.unknown.T @ self.unknown)

    @classmethod
    def of(cls, jacobian: Array) -> Covariance:
        """The covariance from the Jacobian of residuals of unit variance, [residuals, numbers]."""
        size = jacobian.shape[1]
        # Where a residual has no finite slope, the data say nothing about the number.
        jacobian = np.where(np.isfinite(jacobian).all(axis=0), jacobian, 0.0)
        norms = column_norms(jacobian)
        norms = np.where(norms > 0.0, norms, 1.0)
        short = np.zeros((max(size - len(jacobian), 0), size))
        _, s, directions = np.linalg.svd(np.vstack([jacobian / norms, short]), full_matrices=False)
        # Singular values below this share of the largest are within the error of the Jacobian.
        least = 1e-6 * (s.max(initial=0.0) or 1.0)
        root = np.clip(directions / np.maximum(s, least)[:, None] / norms, -1e100, 1e100)
        told = s >= least
        return cls(root[told].T @ root[told], root[~told])

    @classmethod
    def nothing_known(cls, size: int) -> Covariance:
        """The covariance of numbers that could not be estimated: nan throughout."""
        return cls(np.full((size, size), np.nan), np.zeros((0, size)))

    def part(self, places: Any) -> Covariance:
        """The covariance of some of the numbers, given by a slice, indices or a mask."""
        return Covariance(self.known[places][:, places], self.unknown[:, places])

    def transformed(self, jacobian: Array) -> Covariance:
        """The covariance of functions of the numbers with a Jacobian [functions, numbers], by the delta method."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Covariance(jacobian @ self.known @ jacobian.T, self.unknown @ jacobian.T)

    def widened(self, factor: float) -> Covariance:
        """The covariance with standard deviations multiplied by a factor."""
        return Covariance(factor**2 * self.known, factor * self.unknown)

    def given(self, g: Array) -> Covariance:
        """The covariance of the numbers theta under the linear constraint g . theta = value."""
        gain = self.matrix @ g
        gain /= g @ gain
        return self.transformed(np.eye(len(g)) - np.outer(gain, g))

    def with_first(self, first: Covariance) -> Covariance:
        """The covariance if the first numbers are known independently and the others depend on them as before."""
        k = len(first.matrix)
        own, across, others = self.matrix[:k, :k], self.matrix[k:, :k], self.matrix[k:, k:]
        m = np.linalg.lstsq(own, across.T, rcond=None)[0].T
        found = first.transformed(np.vstack([np.eye(k), m]))
        found.known[k:, k:] += others - m @ across.T
        return found

    def deviations(self) -> Array:
        """Standard deviations [numbers], nan for numbers that the data do not determine."""
        with np.errstate(over="ignore", invalid="ignore"):
            known, lost = np.diag(self.known), np.sum(self.unknown**2, axis=0)
            # Unknown directions may contribute a tenth of a variance.
            told = (known > 0.0) & (lost <= 0.1 * known)
            return np.asarray(np.sqrt(np.where(told, known + lost, np.nan)))


@dataclass(frozen=True, eq=False)
class Estimates:
    """Fitted constants and start values, dimensionless."""

    law: PowerSum  # the fitted law, in units of `scale`
    free: Free  # which of its constants were fitted
    initial: Array  # fitted start values [trajectories, states], without controls, in units of `scale`
    # Of the free constants, in the order of `free`, followed by the start values, trajectory by trajectory.
    covariance: Covariance
    nonnegative: Mask  # states whose start value is at least 0, bool [states]
    scale: Scale  # divisors of the data

    def start_errors(self) -> Array:
        """Standard errors of the start values [trajectories, states], in the user's units.

        They are nan where the data do not determine them, and for a start at its bound 0, where
        a symmetric error has no meaning.
        """
        k = count(self.free)
        found = self.covariance.deviations()[k:].reshape(self.initial.shape)
        resting = self.nonnegative & (self.initial < 0.1 * found)
        return np.where(resting, np.nan, found) * self.scale.size[: self.initial.shape[1]]

    @property
    def mirrored(self) -> tuple[int, ...]:
        """States that are negative throughout."""
        return tuple(np.flatnonzero(self.scale.state < 0.0).tolist())

    def within(self, k: int) -> tuple[float, float]:
        """Lower and upper bound of state k: one of them is 0 if its sign never changes."""
        if k >= len(self.nonnegative) or not self.nonnegative[k]:
            return -np.inf, np.inf
        return (-np.inf, 0.0) if k in self.mirrored else (0.0, np.inf)

    @staticmethod
    def to_bytes(estimates: Estimates | None) -> bytes:
        """The content of `covariance.npz`; only an empty head if there are no estimates."""
        if estimates is None:
            return pack("head", None, {})
        law, known = estimates.law, estimates.covariance
        functions = [dataclasses.astuple(f) for f in law.inputs.functions]
        head = {"functions": functions, "inputs": law.features is not None}
        arrays: dict[str, NDArray[np.float64] | Mask] = {}
        for kind, values, free in zip(_KINDS, law.constants, estimates.free, strict=True):
            arrays |= {f"{kind}s": values, f"free_{kind}s": free}
        arrays |= {} if law.stoichiometry is None else {"mix": law.stoichiometry}
        arrays |= {"initial": estimates.initial, "covariance": known.known, "unknown": known.unknown}
        arrays |= {"nonnegative": estimates.nonnegative, "scale_state": estimates.scale.state}
        return pack("head", head, arrays | {"scale_time": np.array(estimates.scale.time)})

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Estimates | None:
        """The estimates that `to_bytes` wrote; rejects anything but the expected arrays."""
        return unpack(content, path, "head", _assembled)


def _assembled(head: Any, arrays: Mapping[str, NDArray[np.float64]]) -> Estimates | None:
    if head is None:
        return None

    def of(name: str) -> Array:
        return np.asarray(arrays[name], dtype=np.float64)

    a, w, b, v = (of(f"{kind}s") for kind in _KINDS)
    mix = arrays.get("mix")
    if mix is not None and (mix.ndim != 2 or mix.shape[1] != len(a) or not np.isfinite(mix).all()):
        raise ValueError("flows that do not fit")
    law = PowerSum(a, w, _features(head, len(a if mix is None else mix), b, v), mix)
    masks = [np.asarray(arrays[f"free_{kind}s"], dtype=bool) for kind in _KINDS]
    free: Free = (masks[0], masks[1], masks[2], masks[3])
    initial, known, unknown = map(of, ("initial", "covariance", "unknown"))
    scale = Scale.from_arrays(arrays["scale_state"], arrays["scale_time"])
    nonnegative = np.asarray(arrays["nonnegative"], dtype=bool)
    size = count(free) + initial.size
    fits = (
        initial.ndim == 2
        and initial.shape[1] <= law.n_states
        and scale.state.shape == (law.n_states,)
        and nonnegative.shape in ((law.n_states,), initial.shape[1:])
        and known.shape == (size, size)
        and unknown.shape[1:] == (size,)
        and all(mask.shape == c.shape for mask, c in zip(free, law.constants, strict=True))
    )
    # The covariance of numbers that could not be estimated is nan throughout.
    numbers = (*law.constants, initial, unknown, *([] if np.isnan(known).all() else [known]))
    if not (fits and all(np.isfinite(values).all() for values in numbers)):
        raise ValueError("its arrays do not fit each other")
    return Estimates(law, free, initial, Covariance(known, unknown), nonnegative, scale)


def _features(head: Mapping[str, Any], states: int, b: Array, v: Array) -> Features | None:
    if not head["inputs"]:
        return None
    functions = [Function(str(f), int(state), float(rate)) for f, state, rate in head["functions"]]
    if not all(f.name in STATE_FUNCTIONS and 0 <= f.state < states for f in functions):
        raise ValueError("unknown functions")
    return Features(states, tuple(functions), Sums(b, v))


# Relative mean square of residuals below which a law fits clean data as well as any law can.
SETTLED = 1e-8

# The stage that proposes a law: networks trained from random starts; least squares over a vocabulary of terms; a
# textbook law; "" if there was no search.
FoundBy: TypeAlias = Literal["training", "regression", "textbook", ""]

# A sum of powers, or a form with named constants.
Law = TypeVar("Law", PowerSum, FilledForm)


def residual_freedom(polished: Polished) -> int:
    """Degrees of freedom: observed values - fitted constants - fitted start values, at least 1."""
    fitted = count(polished.free) + polished.initial.size
    return max(int(polished.counts.sum()) - fitted, 1)


@dataclass(frozen=True)
class Origin:
    """Origin of a law in the search."""

    law: int  # index of the pruned law it came from, for the log
    found_by: FoundBy = ""
    # Whether it is a textbook law whose named constants are all significant although some of its coefficients are not:
    # a growth rate and a final size may be known where their ratio is not.
    acts: bool = False

    @property
    def is_textbook(self) -> bool:
        """Whether it was fitted as a textbook law."""
        return self.found_by == "textbook"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A dimensionless law to be judged."""

    law: PowerSum
    initial: Array  # initial guesses of the start values, [trajectories, states]
    mean_square: float  # of its weighted residuals on the windows of pruning, or over intervals
    origin: int  # index of the pruned law it came from, for the log
    whole: Mask  # inputs whose exponents are whole numbers and held fixed, [inputs]
    held: tuple[Mask, Mask] | None = None  # coefficients and exponents that are known and held fixed
    found_by: FoundBy = ""

    @property
    def form(self) -> frozenset[tuple[bytes, bytes]]:
        """Its terms, with their exponents where these are not fitted."""
        w = np.where(self.whole, self.law.exponents, self.law.exponents != 0)
        a = self.law.coefficients != 0
        return frozenset((a[:, j].tobytes(), w[j].tobytes()) for j in range(self.law.n_monomials))

    @property
    def free(self) -> Free:
        """Masks of the constants that a fit may change."""
        a, w, b, v = self.law.constants
        fitted = a != 0, (w != 0) & ~self.whole, b != 0, (v != 0) & ~self.whole[: v.shape[1]]
        if self.held is None:
            return fitted
        known_a, known_w = self.held
        return fitted[0] & ~known_a, fitted[1] & ~known_w, *fitted[2:]


@dataclass(frozen=True, eq=False)
class Judged:
    """A polished law with its criterion (lower is better; inf for a law that blows up)."""

    polished: Polished
    criterion: float
    origin: Origin


@dataclass(frozen=True, eq=False)
class PolishedLaw(Generic[Law]):
    """A law with refined constants."""

    law: Law  # in the units of the data given; a form in the user's
    errors: Law  # standard errors in the same places; 0 for constants held fixed
    initial: Array  # fitted start values [trajectories, states], without controls
    # Covariance of the free constants, in the order of `free`, followed by the start values, trajectory by
    # trajectory.
    joint: Covariance
    free: Free
    squares: Array  # sum of squared residuals of every state [states]; noisier samples weigh less
    counts: Array  # observed values of every state [states]
    finite: bool  # whether the law could be integrated through all trajectories
    plain_squares: Array  # the sums of squares with all samples weighted equally

    @property
    def covariance(self) -> Array:
        """Covariance of the free constants, [constants, constants]; huge where the data do not determine them."""
        k = count(self.free)
        return self.joint.matrix[:k, :k]

    def widened(self, factor: float) -> PolishedLaw[Law]:
        """The same law with standard errors multiplied by a factor."""
        errors = self.law.with_constants(*(factor * e for e in self.errors.constants))
        return replace(self, errors=errors, joint=self.joint.widened(factor))


Polished: TypeAlias = PolishedLaw[PowerSum]
PolishedForm: TypeAlias = PolishedLaw[FilledForm]


@dataclass(frozen=True, eq=False)
class FittedForm:
    """A form with constants at the maximum of the likelihood."""

    says: str  # its name; empty for a form without one
    form: Form
    found: PolishedForm  # its constants in the user's units; starts and squares are dimensionless
    scale: Scale  # by which the states were divided

    @property
    def constants(self) -> Array:
        """Constants in the user's units and the order of the form."""
        return self.found.law.values

    @property
    def starts(self) -> Array:
        """First states in the user's units [trajectories, states]."""
        return np.asarray(self.found.initial * self.scale.state[: self.found.initial.shape[1]])

    @property
    def equations(self) -> Equations:
        """The equations with numbers in place of the constants."""
        return self.form.with_constants(self.constants.tolist())

    @property
    def squares(self) -> Array:
        """Sum of squared residuals of every state in the user's units [states]."""
        return np.asarray((self.found.plain_squares * self.scale.state**2)[: self.found.initial.shape[1]])

    @property
    def counts(self) -> Array:
        """Observed values of every state [states]."""
        return self.found.counts[: self.found.initial.shape[1]]
