"""The constants of equations as plain records, and back.

`result.json` lists every coefficient and exponent of a sum of monomials with its standard error,
for readers that do not parse expressions, and the constants of every equation with their intervals

    value +- t standard error,  t the 97.5 % point of Student's t.

The lists are derived. When a result is read the equations are the truth, and only the errors and
the order of the monomials come from the lists. Laws with functions and inner sums are also kept as
numbers, which are used if they spell the same equations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from odediscovery.data.dates import date_of_time
from odediscovery.data.series import TimeSeries
from odediscovery.families import STATE_FUNCTIONS, Function, power_is_rate
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import Features, PowerSum, Sums, signs
from odediscovery.laws.printing import constant, function_name
from odediscovery.runtime.arrays import Array

# Share of the draws of the noise in which an interval holds the true constant.
LEVEL = 0.95
# Trajectories whose start values are printed.
MAX_PRINTED_STARTS = 4
# The names of `PowerSum.constants` in the records.
_KINDS = ("coefficient", "exponent", "inner_weight", "inner_exponent")


def terms(equations: Equations, stability: Array | None = None) -> list[dict[str, Any]]:
    """One entry a coefficient: c * prod_k x_k ** w_k in the equation of one state.

    "of_minus" names the states of which -x is raised to the power, if any.

    Args:
        stability: share of bootstrap fits in which a term survives, [states, monomials].
    """
    law, errors = equations.power_sum, equations.standard_errors
    if law is None:
        return []
    return [
        {
            "state": equations.states[i],
            "coefficient": float(law.coefficients[i, j]),
            "standard_error": plain(errors.coefficients[i, j]) if errors else None,
            "snapped": bool(equations.snapped[0][i, j]) if equations.snapped else False,
            "monomial": j,
            "powers": {s: float(w) for s, w in zip(equations.variables, law.exponents[j], strict=True) if w != 0},
            **({"of_minus": of_minus} if (of_minus := _of_minus(equations, law, j)) else {}),
            **({} if stability is None else {"stability": plain(stability[i, j])}),
        }
        for i, j in zip(*np.nonzero(law.coefficients), strict=True)
        for j in (int(j),)
    ]


def _of_minus(equations: Equations, law: PowerSum, j: int) -> list[str]:
    """States of which monomial j has a power of -x."""
    turned = signs(law.exponents[[j]], law.mirrored)[0] < 0.0
    return [name for name, minus in zip(equations.variables, turned, strict=False) if minus]


def exponents(equations: Equations) -> list[dict[str, Any]]:
    """One entry a non-zero exponent; a monomial in two equations has its exponents once."""
    law, errors = equations.power_sum, equations.standard_errors
    if law is None:
        return []
    return [
        {
            "monomial": int(j),
            "state": equations.variables[k],
            "value": float(law.exponents[j, k]),
            "standard_error": plain(errors.exponents[j, k]) if errors else None,
            "snapped": bool(equations.snapped[1][j, k]) if equations.snapped else False,
        }
        for j, k in zip(*np.nonzero(law.exponents), strict=True)
    ]


def interval(value: float, error: float, freedom: float | None) -> list[float] | None:
    """value +- t error with the 97.5 % point t of Student's t.

    Args:
        error: standard error of the value.
        freedom: residual degrees of freedom.

    Returns:
        Both ends; None where the constant was held or its error is unknown.

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
    """Standard errors and intervals of start values [trajectories, states], by trajectory."""
    if errors is None:
        return {"initial_value_errors": None, "initial_value_intervals": None}
    rows = [list(zip(states, v.tolist(), e.tolist(), strict=True)) for v, e in zip(values, errors, strict=True)]
    return {
        "initial_value_errors": [{s: plain(e) for s, _, e in row} for row in rows],
        "initial_value_intervals": [{s: interval(v, e, freedom) for s, v, e in row} for row in rows],
    }


def starts_text(series: TimeSeries, values: Array, errors: Array | None) -> str:
    """Start values with error bars, a line a trajectory: `at t = 0: S = 99.8(3), I = 0.0102(4)`; dates beside times.

    Nothing where no errors are known; of many trajectories the first few.
    """
    if errors is None:
        return ""
    lines = []
    for run, row, error in zip(series.trajectories[:MAX_PRINTED_STARTS], values, errors, strict=False):
        told = ", ".join(
            f"{s} = {constant(float(x), float(e))}" for s, x, e in zip(series.states, row, error, strict=True)
        )
        name = f"{run.label}, " if len(values) > 1 and run.label else ""
        date = f" ({_date(series, float(run.time[0]))})" if series.since else ""
        lines.append(f"{name}at {series.time_name} = {run.time[0]:g}{date}: {told}")
    if len(values) > MAX_PRINTED_STARTS:
        lines.append(f"(start values of {len(values) - MAX_PRINTED_STARTS} more trajectories in result.json)")
    return "\n".join(lines)


def _date(series: TimeSeries, time: float) -> str:
    return date_of_time(time, series.since, series.units[series.time_name])


def constants(equations: Equations, freedom: float | None) -> dict[str, list[dict[str, Any]]]:
    """By state, one entry a constant of its equation; a shared exponent is in each of them.

    An entry has "kind" (`coefficient` and `exponent` of the terms, `inner_weight` and
    `inner_exponent` of the sums 1 + sum_j b_j m_j), the index of its "monomial" or inner monomial,
    for a weight the index of its "sum", for exponents the feature that they are "of" (a column, a
    function of one, an inner sum), and "value", "standard_error", "interval" and "snapped". The
    exponent of exp(x) is what x is multiplied with.

    Args:
        freedom: residual degrees of freedom of the fit, None where unknown.
    """
    law, errors = equations.law, equations.standard_errors
    if law is None:
        return {state: [] for state in equations.states}
    names, rates = _feature_names(equations.variables, law.features)

    def entry(kind: int, at: tuple[int, int], **place: Any) -> dict[str, Any]:
        rate = rates[at[1]] if kind in (1, 3) else 1.0
        value = float(law.constants[kind][at]) * rate
        error = float(errors.constants[kind][at]) * abs(rate) if errors else float("nan")
        held = error == 0.0
        if equations.snapped is not None:
            held = bool(equations.snapped[kind][at])
        return {
            "kind": _KINDS[kind],
            **place,
            "value": value,
            "standard_error": plain(error),
            "interval": None if held else interval(value, error, freedom),
            "snapped": held,
        }

    def of_state(i: int) -> list[dict[str, Any]]:
        _, w, b, v = law.constants
        own = [int(j) for j in np.flatnonzero(law.coefficients[i])]
        found = [entry(0, (i, j), monomial=j) for j in own]
        found += [entry(1, (j, int(k)), monomial=j, of=names[k]) for j in own for k in np.flatnonzero(w[j])]
        sums = np.flatnonzero(np.any(w[own][:, len(names) - len(b) :] != 0, axis=0))
        inner = [(int(u), int(j)) for u in sums for j in np.flatnonzero(b[u])]
        found += [entry(2, (u, j), sum=u, monomial=j) for u, j in inner]
        return found + [
            entry(3, (j, int(k)), monomial=j, of=names[k])
            for j in sorted({j for _, j in inner})
            for k in np.flatnonzero(v[j])
        ]

    return {state: of_state(i) for i, state in enumerate(equations.states)}


def monomial_names(equations: Equations) -> list[str]:
    """What the monomials of the law are called: "S^0.5*I^0.5", "1" for the constant term."""
    law = equations.law
    if law is None:
        return []
    names, rates = _feature_names(equations.variables, law.features)
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


def _feature_names(states: Sequence[str], features: Features | None) -> tuple[list[str], list[float]]:
    """What features are called, and the factors of their exponents where they are printed."""
    if features is None:
        return list(states), [1.0] * len(states)
    names, rates = list(states), [1.0] * features.size
    for k, f in enumerate(features.functions, start=len(states)):
        if power_is_rate(f):  # exp(r x) ** w is exp(x) ** (w r)
            rates[k], f = f.rate, dataclasses.replace(f, rate=1.0)
        names.append(function_name(states, f))
    return names + [f"sum {u}" for u in range(len(features.sums))], rates


def extended(equations: Equations) -> dict[str, Any] | None:
    """A law with functions or inner sums as numbers; None for other equations."""
    law, errors = equations.extended, equations.standard_errors
    if law is None or law.features is None:
        return None
    functions = [
        {"name": f.name, "state": equations.variables[f.state], "rate": f.rate} for f in law.features.functions
    ]
    mirrored = [equations.variables[k] for k in law.mirrored]
    return {
        "functions": functions,
        "mirrored": mirrored,
        **_arrays(law),
        "standard_errors": None if errors is None else _arrays(errors),
    }


def _arrays(law: PowerSum) -> dict[str, Any]:
    return {
        f"{kind}s": [[plain(x) for x in row] for row in values.tolist()]
        for kind, values in zip(_KINDS, law.constants, strict=True)
    }


def with_law(equations: Equations, record: Mapping[str, Any] | None) -> Equations:
    """The equations with the numbers and standard errors that `extended` kept of them.

    The equations are the truth: numbers that spell other ones are passed over.

    Raises:
        KeyError, TypeError, ValueError: a record that `extended` did not write.
    """
    if record is None or equations.power_sum is not None:
        return equations
    variables, functions = equations.variables, []
    for f in record["functions"]:
        if f["name"] not in STATE_FUNCTIONS:
            raise ValueError(f"unknown function {f['name']!r}")
        functions.append(Function(f["name"], variables.index(f["state"]), number(f["rate"])))
    features = Features(len(variables), tuple(functions))
    held = record["standard_errors"]
    # Results of earlier versions have no mirrored states.
    mirrored = tuple(variables.index(name) for name in record.get("mirrored", ()))
    law = dataclasses.replace(_law(features, record), mirrored=mirrored)
    read = Equations.from_power_sum(
        equations.states,
        law,
        time_name=equations.time_name,
        units=equations.units,
        controls=equations.controls,
        standard_errors=None if held is None else _law(features, held),
    )
    return read if read.texts() == equations.texts() else equations


def _law(features: Features, record: Mapping[str, Any]) -> PowerSum:
    def array(kind: str) -> Array:
        return np.array([[number(x) for x in row] for row in record[f"{kind}s"]], dtype=np.float64)

    a, w, b, v = map(array, _KINDS)
    if not b.size:
        return PowerSum(a, w, features)
    if v.shape != (b.shape[1], features.simple):
        raise ValueError(f"inner exponents of shape {v.shape} do not fit")
    return PowerSum(a, w, dataclasses.replace(features, sums=Sums(b, v)))


def with_errors(
    equations: Equations, terms: Sequence[Mapping[str, Any]], exponents: Sequence[Mapping[str, Any]]
) -> Equations:
    """The equations with the order of monomials and the standard errors of `terms`.

    The equations are the truth and `terms` derived from them, so terms are found by their powers
    and one that is in no equation is passed over.
    """
    parsed = equations.power_sum
    if parsed is None:
        return equations
    place = {name: i for i, name in enumerate(equations.variables)}
    order: list[int] = []
    row_of: dict[int, int] = {}
    for term in sorted(terms, key=lambda entry: int(entry["monomial"])):
        powers = np.zeros(len(place))
        for name, power in term["powers"].items():
            powers[place[name]] = power
        for j in np.flatnonzero(np.isclose(parsed.exponents, powers, 1e-12, 0.0).all(axis=1)):
            if j not in order:
                order.append(int(j))
            row_of[int(term["monomial"])] = order.index(int(j))
    order += [j for j in range(parsed.n_monomials) if j not in order]
    law = PowerSum(parsed.coefficients[:, order], parsed.exponents[order], mirrored=parsed.mirrored)
    errors = PowerSum(np.where(law.coefficients != 0, np.nan, 0.0), np.where(law.exponents != 0, np.nan, 0.0))
    snapped = (np.zeros(law.coefficients.shape, bool), np.zeros(law.exponents.shape, bool))
    for entry in (*terms, *exponents):
        if int(entry["monomial"]) in row_of:
            row, state = row_of[int(entry["monomial"])], place[entry["state"]]
            of_term = "coefficient" in entry
            at = (state, row) if of_term else (row, state)
            held = errors.coefficients if of_term else errors.exponents
            held[at] = number(entry["standard_error"])
            snapped[0 if of_term else 1][at] = bool(entry["snapped"])
    return Equations.from_power_sum(
        equations.states,
        law,
        time_name=equations.time_name,
        standard_errors=errors,
        snapped=snapped,
        units=equations.units,
        controls=equations.controls,
    )


def plain(value: float) -> float | None:
    """JSON has no nan and no infinity: None says unknown."""
    return float(value) if np.isfinite(value) else None


def number(value: Any) -> float:
    """The inverse of `plain`."""
    return float("nan") if value is None else float(value)
