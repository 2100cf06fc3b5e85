"""The population of a fit to groups: means, spreads, and the constants of every group."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import constant, join_terms
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import monomial_names, number, plain
from odediscovery.result.front import checked_text, jsonable, numbers
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True, eq=False)
class GroupConstant:
    """One constant of the law in all groups, with standard errors."""

    name: str  # as printed
    terms: tuple[int, ...]  # places of the terms that contain it, as in `terms` of `result.json`
    mean: float  # of the typical group (the median: exp of the mean logarithm), without its sign
    mean_error: float
    sd_log: float  # standard deviation of the logarithm, 0 for a constant that all groups share
    sd_log_error: float  # nan where unknown
    values: Array  # of the groups [groups]
    errors: Array
    two_stage: tuple[float, float] = (float("nan"), float("nan"))  # mean and sd_log of separate fits, a check
    covariates: Mapping[str, tuple[float, float]] | None = None  # power of each by name, with its standard error
    apart: Array = field(default_factory=lambda: np.zeros(0))  # from separate fits [groups], empty if not kept

    @property
    def varies(self) -> bool:
        """Whether the constant differs between groups."""
        return self.sd_log > 0

    def interval(self, g: int) -> list[float | None]:
        """Log-normal 95 % interval of one group's constant."""
        ratio = np.exp(1.96 * self.errors[g] / self.values[g]) if self.values[g] > 0 else np.nan
        return [plain(self.values[g] / ratio), plain(self.values[g] * ratio)]


@dataclass(frozen=True, eq=False)
class GroupExponent:
    """One exponent that differs between groups, normally distributed, with standard errors."""

    name: str  # as printed
    place: tuple[int, int]  # monomial and state of the law
    mean: float
    mean_error: float
    sd: float
    sd_error: float  # nan where unknown
    values: Array  # of the groups [groups]
    errors: Array


@dataclass(frozen=True, eq=False)
class Population:
    """A law that groups share, with the constants that differ between them.

    >>> k = GroupConstant("k1", (0,), 0.5, 0.1, 0.2, 0.05, np.array([0.4, 0.6]), np.array([0.01, 0.01]))
    >>> found = Population(("a", "b"), (k,), {}, {"x": 0.1}, (), {"mixed": 3.0}, {"mixed": 3})
    >>> found.record()["groups"]["a"]["k1"]
    0.4
    """

    labels: tuple[str, ...]
    constants: tuple[GroupConstant, ...]
    # Of every state: "log-normal", "normal", "scaled" or "known", mean and standard deviation (of logarithms).
    starts: Mapping[str, tuple[str, float, float]]
    residual_sd: Mapping[str, float]  # of every measured state
    proportional: tuple[str, ...]  # states whose residual_sd is that of logarithms
    minus_2_log_likelihood: Mapping[str, float]  # by model: "mixed"
    parameters: Mapping[str, int]  # fitted numbers, by model
    group_by: tuple[str, ...] = ()  # columns that identify the groups
    r2: Array | None = None  # share of the variance that each group's own curve explains
    written: bool = False  # whether the user wrote the law down
    # Correlation of the logarithms of varying constants over groups [varying, varying]; None for fewer than two.
    correlation: Array | None = None
    exponents: tuple[GroupExponent, ...] = ()

    @property
    def varying(self) -> list[GroupConstant]:
        """The constants that differ between groups."""
        return [one for one in self.constants if one.varies]

    def place(self, label: str) -> int:
        """The index of the group with this label."""
        if label not in self.labels:
            shown = ", ".join(self.labels[:10]) + (", ..." if len(self.labels) > 10 else "")
            raise InputError(f"no group {label!r}; there are {shown}")
        return self.labels.index(label)

    def checked(self, law: PowerSum | None, groups: int) -> Population:
        """The population itself, if it matches the law and the number of groups; otherwise raise a ValueError."""
        if law is None or len(self.labels) != groups:
            raise ValueError("population")
        terms, (rows, states) = int(np.count_nonzero(law.coefficients)), law.exponents.shape
        if not all(0 <= term < terms for one in self.constants for term in one.terms):
            raise ValueError("population: terms")
        for one in self.exponents:
            inside = 0 <= one.place[0] < rows and 0 <= one.place[1] < states
            if not (inside and one.values.shape == one.errors.shape == (groups,)):
                raise ValueError("population: exponents")
        return self

    def law_of(self, g: int, law: PowerSum) -> PowerSum:
        """The law with the constants of one group."""
        a, w = law.coefficients.copy(), law.exponents.copy()
        places = list(zip(*np.nonzero(a), strict=True))
        for one in self.constants:
            for term in one.terms:
                a[places[term]] = np.sign(a[places[term]]) * one.values[g]
        for own in self.exponents:
            w[own.place] = own.values[g]
        return replace(law, coefficients=a, exponents=w)

    def equations_text(self, equations: Equations, digits: int = 4) -> str:
        """The equations with the names of varying constants, then a line for each of these."""
        law, errors = equations.law, equations.standard_errors
        if law is None:
            return equations.pretty(digits)
        named = {term: one.name for one in self.varying for term in one.terms}
        monomials = monomial_names(equations)
        lines: dict[str, list[tuple[bool, str]]] = {state: [] for state in equations.states}
        for own in self.exponents:
            j, state = own.place[0], equations.variables[own.place[1]]
            monomials[j] = re.sub(rf"(?<![^*]){re.escape(state)}(\^[^*]+)?", f"{state}^{own.name}", monomials[j])
        for term, (i, j) in enumerate(zip(*np.nonzero(law.coefficients), strict=True)):
            a, state = float(law.coefficients[i, j]), equations.states[i]
            error = float("nan") if errors is None else float(errors.coefficients[i, j])
            size = named.get(term) or constant(abs(a), error, digits)
            held = size == "1" and error == 0.0  # a dose enters without a factor
            product = size if monomials[j] == "1" else monomials[j] if held else f"{size}*{monomials[j]}"
            lines[state].append((a < 0, product))
        told = [f"{state}' = {join_terms(of_state)}" for state, of_state in lines.items()]
        for one in self.varying:
            mean, spread = constant(one.mean, one.mean_error, digits), constant(one.sd_log, one.sd_log_error, digits)
            powers = [f"{name}^{constant(*power)}" for name, power in (one.covariates or {}).items()]
            times = f", times {' * '.join(powers)}" if powers else ""
            told.append(f"{one.name} = {mean}, log-normal over groups with sd_log {spread}{times}")
        for own in self.exponents:
            mean, spread = constant(own.mean, own.mean_error, digits), constant(own.sd, own.sd_error, digits)
            told.append(f"{own.name} = {mean}, normal over groups with sd {spread}")
        return "\n".join(told)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of a table: group, its varying constants, R2 of its curve; at most twelve groups."""
        vary: list[GroupConstant | GroupExponent] = [*self.varying, *self.exponents]
        header = ["group", *(one.name for one in vary)]
        rows = [
            [label, *(constant(float(one.values[g]), float(one.errors[g])) for one in vary)]
            for g, label in enumerate(self.labels[:12])
        ]
        if self.r2 is not None:
            header.append("R2")
            rows = [[*row, f"{value:.4f}"] for row, value in zip(rows, self.r2, strict=False)]
        return header, rows

    def table_text(self) -> str:
        """The table as left-aligned lines of text; empty without varying constants."""
        header, rows = self.table()
        if len(header) == 1 + (self.r2 is not None):
            return ""
        wide = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in [header, *rows]]
        more = len(self.labels) - len(rows)
        return "\n".join(lines + [f"({more} more groups in result.json)"] * (more > 0))

    def record(self, terms: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Plain values for `result.json`, which refer to the `terms` of the equations."""
        vary, shared = self.varying, [one for one in self.constants if not one.varies]
        apart = [one for one in self.constants if one.apart.size]
        groups = {
            label: {
                **{one.name: one.values[g] for one in vary},
                "interval": {one.name: one.interval(g) for one in vary},
                "constants": {t: one.values[g] for one in vary for t in one.terms},
                "standard_errors": {t: one.errors[g] for one in vary for t in one.terms},
                "separate": {t: one.apart[g] for one in apart for t in one.terms},
                "r2": None if self.r2 is None else self.r2[g],
                **({"exponents": {one.name: one.values[g] for one in self.exponents}} if self.exponents else {}),
            }
            for g, label in enumerate(self.labels)
        }
        values: dict[str, Any] = jsonable(
            {
                "group_by": self.group_by,
                "distribution": "log-normal",
                "varying": [_entry(one, terms) for one in vary],
                "constant": [_entry(one, terms) for one in shared],
                "shared": [t for one in shared for t in one.terms],
                "undecided": [],
                "tied": [one.terms for one in self.constants if len(one.terms) > 1],
                "correlation": self.correlation,
                "starts": {
                    state: dict(zip(("distribution", "mean", "sd"), start, strict=True))
                    for state, start in self.starts.items()
                },
                "residual_sd": self.residual_sd,
                "proportional": self.proportional,
                "log_likelihood": -0.5 * self.minus_2_log_likelihood["mixed"],
                "minus_2_log_likelihood": self.minus_2_log_likelihood,
                "parameters": self.parameters,
                "groups": groups,
                **({"written": True} if self.written else {}),
                **({"exponents": [_exponent_entry(one) for one in self.exponents]} if self.exponents else {}),
            }
        )
        return values

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Population:
        """Inverse of `record()`."""
        groups: Mapping[str, Any] = record["groups"]
        for name in (*groups, *record["residual_sd"], *record["starts"], *record["group_by"]):
            checked_text(name)
        found = [_constant(entry, groups) for entry in (*record["varying"], *record["constant"])]
        r2, correlation = _of_groups(groups, lambda group: group.get("r2")), record.get("correlation")
        if correlation is not None:
            correlation, varying = numbers(correlation, 2), sum(one.varies for one in found)
            if correlation.shape != (varying, varying):
                raise ValueError("correlation")
        return cls(
            tuple(groups),
            tuple(sorted(found, key=lambda one: one.terms)),
            {s: (str(x["distribution"]), number(x["mean"]), number(x["sd"])) for s, x in record["starts"].items()},
            {s: number(x) for s, x in record["residual_sd"].items()},
            tuple(map(str, record["proportional"])),
            {k: number(x) for k, x in record["minus_2_log_likelihood"].items()},
            {k: int(x) for k, x in record["parameters"].items()},
            tuple(map(str, record["group_by"])),
            r2 if np.isfinite(r2).any() else None,
            record.get("written") is True,
            correlation,
            tuple(_exponent(entry, groups) for entry in record.get("exponents", ())),
        )


def _of_groups(groups: Mapping[str, Any], pick: Callable[[Any], Any]) -> Array:
    return numbers(map(pick, groups.values()))


# Keys in the entries of constants and exponents, and the fields that they hold.
_OF_CONSTANT = {"mean": "mean", "standard_error": "mean_error", "mean_standard_error": "mean_error"}
_OF_CONSTANT |= {"sd_log": "sd_log", "sd_log_standard_error": "sd_log_error"}
_OF_EXPONENT = {"mean": "mean", "standard_error": "mean_error", "sd": "sd", "sd_standard_error": "sd_error"}


def _exponent_entry(one: GroupExponent) -> dict[str, Any]:
    place = {"name": one.name, "monomial": one.place[0], "state": one.place[1]}
    numbers_of = {key: getattr(one, own) for key, own in _OF_EXPONENT.items()}
    return place | numbers_of | {"standard_errors": one.errors}


def _exponent(entry: Mapping[str, Any], groups: Mapping[str, Any]) -> GroupExponent:
    """Inverse of `_exponent_entry`, with the values of the groups."""
    name, place = checked_text(entry["name"]), (int(entry["monomial"]), int(entry["state"]))
    return GroupExponent(
        name,
        place,
        **{own: number(entry[key]) for key, own in _OF_EXPONENT.items()},
        values=_of_groups(groups, lambda group: group["exponents"][name]),
        errors=numbers(entry["standard_errors"]),
    )


def _entry(one: GroupConstant, terms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    powers = (one.covariates or {}).items()
    return {
        "term": one.terms[0],
        "terms": one.terms,
        **({key: terms[one.terms[0]][key] for key in ("state", "powers")} if terms else {}),
        "name": one.name,
        **{key: getattr(one, own) for key, own in _OF_CONSTANT.items()},
        "two_stage": {"mean": one.two_stage[0], "sd_log": one.two_stage[1]},
        "covariates": {name: {"power": power, "standard_error": error} for name, (power, error) in powers},
    }


def _constant(entry: Mapping[str, Any], groups: Mapping[str, Any]) -> GroupConstant:
    """Inverse of `_entry`, with the values of the groups."""
    terms = tuple(map(int, entry["terms"]))
    own, first = float(entry["sd_log"] or 0) > 0, str(terms[0])
    # Constants of separate fits are missing in older results.
    apart = _of_groups(groups, lambda group: group.get("separate", {}).get(first))
    return GroupConstant(
        checked_text(entry["name"]),
        terms,
        **{own: number(entry[key]) for key, own in _OF_CONSTANT.items()},
        values=_of_groups(groups, lambda group: group["constants"][first] if own else entry["mean"]),
        errors=_of_groups(groups, lambda group: group["standard_errors"][first] if own else None),
        two_stage=(number(entry["two_stage"]["mean"]), number(entry["two_stage"]["sd_log"])),
        covariates={k: (number(x["power"]), number(x["standard_error"])) for k, x in entry["covariates"].items()},
        apart=apart if np.isfinite(apart).any() else np.zeros(0),
    )
