"""The constants of equations as plain records, and back.

`result.json` lists every coefficient and every exponent of a sum of monomials with its standard
error, for readers that have no use for expressions. The list is derived: on the way back the
equations are the truth, and only the errors and the order of the monomials are taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odediscovery.equations import Equations
from odediscovery.powersum import PowerSum


def terms(equations: Equations) -> list[dict[str, Any]]:
    """One entry a coefficient: c * prod_k x_k ** w_k in the equation of one state."""
    law, errors = equations.power_sum, equations.standard_errors
    if law is None:
        return []
    return [
        {"state": equations.states[i], "coefficient": float(law.coefficients[i, j]),
         "standard_error": plain(errors.coefficients[i, j]) if errors else None,
         "snapped": bool(equations.snapped[0][i, j]) if equations.snapped else False,
         "monomial": j,
         "powers": {s: float(w) for s, w in zip(equations.states, law.exponents[j], strict=True)
                    if w != 0}}
        for i, j in zip(*np.nonzero(law.coefficients), strict=True)
        for j in (int(j),)
    ]  # fmt: skip


def exponents(equations: Equations) -> list[dict[str, Any]]:
    """One entry a non-zero exponent; a monomial in two equations has its exponents once."""
    law, errors = equations.power_sum, equations.standard_errors
    if law is None:
        return []
    return [
        {"monomial": int(j), "state": equations.states[k], "value": float(law.exponents[j, k]),
         "standard_error": plain(errors.exponents[j, k]) if errors else None,
         "snapped": bool(equations.snapped[1][j, k]) if equations.snapped else False}
        for j, k in zip(*np.nonzero(law.exponents), strict=True)
    ]  # fmt: skip


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
    place = {name: i for i, name in enumerate(equations.states)}
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
    law = PowerSum(parsed.coefficients[:, order], parsed.exponents[order])
    errors = PowerSum(np.where(law.coefficients != 0, np.nan, 0.0),
                      np.where(law.exponents != 0, np.nan, 0.0))  # fmt: skip
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
        equations.states, law, time_name=equations.time_name, standard_errors=errors,
        snapped=snapped, units=equations.units,
    )  # fmt: skip


def plain(value: float) -> float | None:
    """JSON has no nan and no infinity: None says unknown."""
    return float(value) if np.isfinite(value) else None


def number(value: Any) -> float:
    """The inverse of `plain`."""
    return float("nan") if value is None else float(value)
