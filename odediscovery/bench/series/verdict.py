"""What a found law is worth beside the experts' one, by a rule that was written before it was used.

With the sum of squared residuals S_i of state i over n_i samples, and k constants without start values,

    B = sum_i n_i ln(S_i / n_i) + k ln(sum_i n_i)

of both laws on the same fitted samples:

1. failed             no equations, or an error
2. refused            the outcome is poor-fit; honest where the experts' law leaves more than 5 % of a state, too
3. right              the experts' terms: the same monomials with the same signs in every equation
4. as good            B at most 6 above the experts' with at most 1.5 times their constants
5. too complex        B at most 6 above the experts' with more constants than that
6. wrong, stopped     B more than 6 above the experts', and the time was up
7. wrong but confident  the same, claimed as a law
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odediscovery.bench.suites.scoring import same_terms
from odediscovery.laws.equations import Equations

VERDICTS = (
    "right",
    "as good",
    "too complex",
    "wrong, stopped",
    "wrong but confident",
    "honest refusal",
    "refused, the experts' law fits",
    "failed",
)
# Difference of B from which on a law is clearly worse, and how many more constants it may have.
CLEAR, MORE = 6.0, 1.5
# Share of a state's variance that a law explains which fits.
FITS = 0.95
# Exponents that differ by less are the same.
SAME = 0.05


@dataclass(frozen=True)
class Scored:
    """A law beside the samples that it was fitted to.

    Args:
        each: R2 of every state.
        misfit: sum over states of n ln(S / n).
        samples: all of them.
        constants: fitted numbers without start values; None where they cannot be counted.
        outcome: of a fit.
        failed: why there are no equations, if there are none.
    """

    each: Mapping[str, float | None]
    misfit: float
    samples: int
    constants: int | None
    outcome: str = ""
    failed: str | None = None

    @property
    def criterion(self) -> float:
        """B above; inf where nothing is known of a law."""
        if self.constants is None or not math.isfinite(self.misfit):
            return math.inf
        return self.misfit + self.constants * math.log(max(self.samples, 2))

    @property
    def fits(self) -> bool:
        """Whether every state is explained."""
        return all(r2 is not None and r2 >= FITS for r2 in self.each.values())


def verdict(ours: Scored, expert: Scored, same_terms: bool) -> str:
    """The rule above.

    >>> expert = Scored({"x": 0.99}, -100.0, 20, 2, "12 of 12 starts")
    >>> verdict(Scored({"x": 0.99}, -101.0, 20, 3, "converged"), expert, False)
    'as good'
    >>> verdict(Scored({"x": 0.7}, -50.0, 20, 2, "converged"), expert, False)
    'wrong but confident'
    """
    if ours.failed is not None:
        return "failed"
    if ours.outcome == "poor-fit":
        return "refused, the experts' law fits" if expert.fits else "honest refusal"
    if same_terms:
        return "right"
    if ours.criterion > expert.criterion + CLEAR:
        return "wrong, stopped" if ours.outcome == "stopped" else "wrong but confident"
    few = ours.constants is not None and ours.constants <= MORE * max(expert.constants or 1, 1)
    return "as good" if few else "too complex"


def has_same_terms(ours: Equations, texts: Mapping[str, str], constants: Sequence[str]) -> bool:
    """Whether equations have the terms of a written law, whatever its positive constants are.

    Args:
        texts: right-hand side of every state of the law, with names of constants.
        constants: these names.

    >>> grown = Equations.parse(["x"], {"x": "0.5*x - 0.01*x**2"})
    >>> has_same_terms(grown, {"x": "r*x*(1 - x/K)"}, ["r", "K"])
    True
    """
    if set(texts) != set(ours.states):
        return False
    # Values without a relation of their own, so that no two terms cancel.
    values = {name: 0.7 + 0.1234567 * k for k, name in enumerate(constants)}
    law = Equations.parse(list(ours.states), {s: texts[s].replace("^", "**") for s in ours.states}, constants=values)
    a, b = law.power_sum, ours.power_sum
    return a is not None and b is not None and same_terms(b, a, SAME)
