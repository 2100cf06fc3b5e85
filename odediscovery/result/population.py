"""What groups share and how they differ, as a value that is kept: means, spreads, every group's constants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from odediscovery.data.table import check_letters
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.printing import constant
from odediscovery.laws.records import monomial_names, number, plain
from odediscovery.runtime.arrays import Array

# Groups whose constants are printed.
MAX_PRINTED_GROUPS = 12


@dataclass(frozen=True, eq=False)
class GroupConstant:
    """One constant of the law in all groups.

    Args:
        name: that it is printed with.
        terms: places of the terms that hold it, as in `terms` of `result.json`.
        mean: of the typical group (the median: exp of the mean logarithm), without its sign.
        mean_error: standard error of the mean.
        sd_log: standard deviation of the logarithm, 0 for a constant that all groups share.
        sd_log_error: its standard error, nan where unknown.
        values: of the groups [groups].
        errors: standard errors of these.
        two_stage: mean and sd_log of the constants of separate fits, a check of the others.
        covariates: power of each covariate, with its standard error, by name.
        apart: of separate fits of each group [groups], empty where they were not kept.
    """

    name: str
    terms: tuple[int, ...]
    mean: float
    mean_error: float
    sd_log: float
    sd_log_error: float
    values: Array
    errors: Array
    two_stage: tuple[float, float] = (float("nan"), float("nan"))
    covariates: Mapping[str, tuple[float, float]] | None = None
    apart: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def varies(self) -> bool:
        """Whether groups have constants of their own."""
        return self.sd_log > 0

    def interval(self, g: int) -> list[float | None]:
        """95 % interval of one group's constant, log-normal."""
        ratio = np.exp(1.96 * self.errors[g] / self.values[g]) if self.values[g] > 0 else np.nan
        return [plain(self.values[g] / ratio), plain(self.values[g] * ratio)]


@dataclass(frozen=True, eq=False)
class GroupExponent:
    """One exponent that groups have of their own.

    Args:
        name: that it is printed with.
        place: monomial and state of the law.
        mean: over groups.
        mean_error: its standard error.
        sd: standard deviation over groups.
        sd_error: its standard error, nan where unknown.
        values: of the groups [groups].
        errors: standard errors of these.
    """

    name: str
    place: tuple[int, int]
    mean: float
    mean_error: float
    sd: float
    sd_error: float
    values: Array
    errors: Array


@dataclass(frozen=True, eq=False)
class Population:
    """A law that groups share, with constants of their own.

    Args:
        labels: of the groups.
        constants: of the law.
        starts: mean and standard deviation of the (logarithms of the) starts of every state, by name:
            ("log-normal" or "normal" or "known", mean, sd).
        residual_sd: of every measured state, by name.
        proportional: states whose residual_sd is one of logarithms.
        minus_2_log_likelihood: by model: "mixed".
        parameters: fitted numbers, by model.
        group_by: columns that tell the groups apart.
        r2: share of the variance that each group's own curve explains.
        written: whether somebody wrote the law down, so that nobody had to find it.
        correlation: of the logarithms of the constants that vary, over groups [varying, varying]; None where fewer
            than two do.
        exponents: those that groups have of their own.

    >>> k = GroupConstant("k1", (0,), 0.5, 0.1, 0.2, 0.05, np.array([0.4, 0.6]), np.array([0.01, 0.01]))
    >>> found = Population(("a", "b"), (k,), {}, {"x": 0.1}, (), {"mixed": 3.0}, {"mixed": 3})
    >>> found.record()["groups"]["a"]["k1"]
    0.4
    """

    labels: tuple[str, ...]
    constants: tuple[GroupConstant, ...]
    starts: Mapping[str, tuple[str, float, float]]
    residual_sd: Mapping[str, float]
    proportional: tuple[str, ...]
    minus_2_log_likelihood: Mapping[str, float]
    parameters: Mapping[str, int]
    group_by: tuple[str, ...] = ()
    r2: Array | None = None
    written: bool = False
    correlation: Array | None = None
    exponents: tuple[GroupExponent, ...] = ()

    def place(self, label: str) -> int:
        """The place of a group.

        Raises:
            InputError: no group of this name.
        """
        if label not in self.labels:
            shown = ", ".join(self.labels[:10]) + (", ..." if len(self.labels) > 10 else "")
            raise InputError(f"no group {label!r}; there are {shown}")
        return self.labels.index(label)

    def checked(self, law: PowerSum | None, groups: int) -> Population:
        """The population itself, if it is one of this law and of so many groups.

        Raises:
            ValueError: a term or an exponent that the law does not have, or another number of groups.
        """
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
        own = self.with_values([float(k.values[g]) for k in self.constants], law)
        w = own.exponents.copy()
        for one in self.exponents:
            w[one.place] = one.values[g]
        return replace(own, exponents=w)

    def with_values(self, values: Sequence[float], law: PowerSum) -> PowerSum:
        """The law with these constants, without their signs."""
        a, places = law.coefficients.copy(), list(zip(*np.nonzero(law.coefficients), strict=True))
        for one, value in zip(self.constants, values, strict=True):
            for term in one.terms:
                a[places[term]] = np.sign(a[places[term]]) * value
        return replace(law, coefficients=a)

    def equations_text(self, equations: Equations, digits: int = 4) -> str:
        """The equations with the names of the constants that vary, then a line for each of these."""
        law, errors = equations.law, equations.standard_errors
        if law is None:
            return equations.pretty(digits)
        named = {term: one.name for one in self.constants if one.varies for term in one.terms}
        monomials, lines = monomial_names(equations), {state: "" for state in equations.states}
        for own in self.exponents:
            j, state = own.place[0], equations.variables[own.place[1]]
            monomials[j] = re.sub(rf"(?<![^*]){re.escape(state)}(\^[^*]+)?", f"{state}^{own.name}", monomials[j])
        for term, (i, j) in enumerate(zip(*np.nonzero(law.coefficients), strict=True)):
            a, state = float(law.coefficients[i, j]), equations.states[i]
            error = float("nan") if errors is None else float(errors.coefficients[i, j])
            size = named.get(term) or constant(abs(a), error, digits)
            sign = " - " if a < 0 else " + "
            held = size == "1" and error == 0.0  # what enters as it is, a dose
            product = size if monomials[j] == "1" else monomials[j] if held else f"{size}*{monomials[j]}"
            lines[state] += sign + product
        told = []
        for state, text in lines.items():
            first = text.removeprefix(" + ") if not text.startswith(" - ") else f"-{text[3:]}"
            told.append(f"{state}' = {first or '0'}")
        told += [self._line(one, digits) for one in self.constants if one.varies]
        for own in self.exponents:
            mean, spread = constant(own.mean, own.mean_error, digits), constant(own.sd, own.sd_error, digits)
            told.append(f"{own.name} = {mean}, normal over groups with sd {spread}")
        return "\n".join(told)

    def _line(self, one: GroupConstant, digits: int) -> str:
        spread = constant(one.sd_log, one.sd_log_error, digits)
        told = f"{one.name} = {constant(one.mean, one.mean_error, digits)}, log-normal over groups with sd_log {spread}"
        powers = [f"{name}^{constant(*power)}" for name, power in (one.covariates or {}).items()]
        return told + (f", times {' * '.join(powers)}" if powers else "")

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows: a group, its constants that vary, R2 of its curve."""
        vary: list[GroupConstant | GroupExponent] = [one for one in self.constants if one.varies]
        vary += self.exponents
        header = ["group", *(one.name for one in vary)]
        rows = [
            [label, *(constant(float(one.values[g]), float(one.errors[g])) for one in vary)]
            for g, label in enumerate(self.labels[:MAX_PRINTED_GROUPS])
        ]
        if self.r2 is not None:
            header.append("R2")
            rows = [[*row, f"{value:.4f}"] for row, value in zip(rows, self.r2, strict=False)]
        return header, rows

    def table_text(self) -> str:
        """The table as lines of text, columns flush left."""
        header, rows = self.table()
        if len(header) == 1 + (self.r2 is not None):
            return ""
        wide = [max(len(row[c]) for row in [header, *rows]) for c in range(len(header))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)).rstrip() for row in [header, *rows]
        ]
        more = len(self.labels) - len(rows)
        return "\n".join(lines + [f"({more} more groups in result.json)"] * (more > 0))

    def record(self, terms: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Plain values for `result.json`.

        Args:
            terms: of the equations, as they stand there.
        """
        groups: dict[str, Any] = {}
        for g, label in enumerate(self.labels):
            vary = [one for one in self.constants if one.varies]
            groups[label] = {
                **{one.name: plain(one.values[g]) for one in vary},
                "interval": {one.name: one.interval(g) for one in vary},
                "constants": {str(t): plain(one.values[g]) for one in vary for t in one.terms},
                "standard_errors": {str(t): plain(one.errors[g]) for one in vary for t in one.terms},
                "separate": {
                    str(t): plain(one.apart[g]) for one in self.constants if one.apart.size for t in one.terms
                },
                "r2": None if self.r2 is None else plain(self.r2[g]),
                **({"exponents": {one.name: plain(one.values[g]) for one in self.exponents}} if self.exponents else {}),
            }
        mixed = self.minus_2_log_likelihood["mixed"]
        return {
            "group_by": list(self.group_by),
            "distribution": "log-normal",
            "varying": [_entry(one, terms) for one in self.constants if one.varies],
            "constant": [_entry(one, terms) for one in self.constants if not one.varies],
            "shared": [t for one in self.constants if not one.varies for t in one.terms],
            "undecided": [],
            "tied": [list(one.terms) for one in self.constants if len(one.terms) > 1],
            "correlation": None if self.correlation is None else [list(map(plain, row)) for row in self.correlation],
            "starts": {
                s: {"distribution": d, "mean": plain(m), "sd": plain(sd)} for s, (d, m, sd) in self.starts.items()
            },
            "residual_sd": {state: plain(sd) for state, sd in self.residual_sd.items()},
            "proportional": list(self.proportional),
            "log_likelihood": plain(-0.5 * mixed),
            "minus_2_log_likelihood": {name: plain(x) for name, x in self.minus_2_log_likelihood.items()},
            "parameters": dict(self.parameters),
            "groups": groups,
            **({"written": True} if self.written else {}),
            **({"exponents": [_exponent_entry(one) for one in self.exponents]} if self.exponents else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Population | None:
        """Inverse of `record()`; None for none."""
        if record is None:
            return None
        groups = record["groups"]
        labels = tuple(str(label) for label in groups)
        for name in (*labels, *record["residual_sd"], *record["starts"], *record["group_by"]):
            check_letters(name)
        found = []
        for entry in [*record["varying"], *record["constant"]]:
            terms = tuple(int(t) for t in entry["terms"])
            own = float(entry["sd_log"] or 0) > 0
            values = [number(groups[x]["constants"][str(terms[0])]) if own else number(entry["mean"]) for x in labels]
            errors = [number(groups[x]["standard_errors"][str(terms[0])]) if own else np.nan for x in labels]
            apart = np.array([number(groups[x].get("separate", {}).get(str(terms[0]))) for x in labels])
            found.append(replace(_constant(entry, terms, np.array(values), np.array(errors)), apart=_kept(apart)))
        r2 = np.array([number(groups[x].get("r2")) for x in labels])
        return cls(
            labels,
            tuple(sorted(found, key=lambda one: one.terms)),
            {s: (str(x["distribution"]), number(x["mean"]), number(x["sd"])) for s, x in record["starts"].items()},
            {s: number(x) for s, x in record["residual_sd"].items()},
            tuple(str(x) for x in record["proportional"]),
            {str(k): number(x) for k, x in record["minus_2_log_likelihood"].items()},
            {str(k): int(x) for k, x in record["parameters"].items()},
            tuple(str(x) for x in record["group_by"]),
            r2 if np.isfinite(r2).any() else None,
            record.get("written") is True,
            _matrix(record.get("correlation"), sum(one.varies for one in found)),
            tuple(_exponent(entry, groups, labels) for entry in record.get("exponents", ())),
        )


def _exponent_entry(one: GroupExponent) -> dict[str, Any]:
    return {
        "name": one.name,
        "monomial": one.place[0],
        "state": one.place[1],
        "mean": plain(one.mean),
        "standard_error": plain(one.mean_error),
        "sd": plain(one.sd),
        "sd_standard_error": plain(one.sd_error),
        "standard_errors": [plain(error) for error in one.errors],
    }


def _exponent(entry: Mapping[str, Any], groups: Mapping[str, Any], labels: Sequence[str]) -> GroupExponent:
    """Inverse of `_exponent_entry`, with the values of the groups."""
    name = str(entry["name"])
    check_letters(name)
    return GroupExponent(
        name,
        (int(entry["monomial"]), int(entry["state"])),
        number(entry["mean"]),
        number(entry["standard_error"]),
        number(entry["sd"]),
        number(entry["sd_standard_error"]),
        np.array([number(groups[label]["exponents"][name]) for label in labels]),
        np.array([number(error) for error in entry["standard_errors"]]),
    )


def _matrix(kept: Any, size: int) -> Array | None:
    """Correlations as they were kept.

    Raises:
        ValueError: they are of another size.
    """
    if kept is None:
        return None
    found = np.array([[number(x) for x in row] for row in kept])
    if found.shape != (size, size):
        raise ValueError("correlation")
    return found


def _kept(apart: Array) -> Array:
    """Constants of separate fits; none where the result was written before they were kept."""
    return apart if np.isfinite(apart).any() else np.zeros(0)


def _entry(one: GroupConstant, terms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    of = {key: terms[one.terms[0]][key] for key in ("state", "powers")} if terms else {}
    return {
        "term": one.terms[0],
        "terms": list(one.terms),
        **of,
        "name": one.name,
        "mean": plain(one.mean),
        "standard_error": plain(one.mean_error),
        "mean_standard_error": plain(one.mean_error),
        "sd_log": plain(one.sd_log),
        "sd_log_standard_error": plain(one.sd_log_error),
        "two_stage": {"mean": plain(one.two_stage[0]), "sd_log": plain(one.two_stage[1])},
        "covariates": {
            k: {"power": plain(p), "standard_error": plain(e)} for k, (p, e) in (one.covariates or {}).items()
        },
    }


def _constant(entry: Mapping[str, Any], terms: tuple[int, ...], values: Array, errors: Array) -> GroupConstant:
    check_letters(entry["name"])
    return GroupConstant(
        str(entry["name"]),
        terms,
        number(entry["mean"]),
        number(entry["standard_error"]),
        number(entry["sd_log"]),
        number(entry["sd_log_standard_error"]),
        values,
        errors,
        (number(entry["two_stage"]["mean"]), number(entry["two_stage"]["sd_log"])),
        {k: (number(x["power"]), number(x["standard_error"])) for k, x in entry["covariates"].items()},
    )
