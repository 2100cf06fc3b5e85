"""What travels between stages: a candidate law, a polished one, a judged one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np

from odediscovery.laws.compiled import FilledForm
from odediscovery.laws.power_sum import Free, PowerSum, count
from odediscovery.laws.records import Covariance
from odediscovery.runtime.arrays import Array, Mask

# A law that leaves less of clean data explains them as well as any law can [relative mean square].
SETTLED = 1e-8

# The stage that proposes a law: terms added one by one on the integral form; networks trained from
# random starts; least squares over a library of terms; a law with a name; "" where nothing was sought.
FoundBy: TypeAlias = Literal["growing", "training", "regression", "textbook", ""]

# A sum of powers, or a form with named constants.
Law = TypeVar("Law", PowerSum, FilledForm)


def residual_freedom(polished: Polished) -> int:
    """Observed values - fitted constants - fitted start values, at least 1."""
    fitted = count(polished.free) + polished.initial.size
    return max(int(polished.counts.sum()) - fitted, 1)


@dataclass(frozen=True)
class Origin:
    """Where a law came from."""

    law: int  # index of the pruned law it came from, for the log
    found_by: FoundBy = ""
    # Whether it has a name, and the data tell each constant of that from nothing, whatever they say of its
    # coefficients: a growth rate and a final size may be known where their ratio is not.
    acts: bool = False

    @property
    def is_textbook(self) -> bool:
        """Whether it was fitted by a name."""
        return self.found_by == "textbook"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A law on the way to the judge, dimensionless."""

    law: PowerSum
    initial: Array  # start values to begin from, [trajectories, states]
    mean_square: float  # of its weighted training residuals
    origin: int  # index of the pruned law it came from, for the log
    whole: Mask  # inputs whose exponents are whole numbers, held and not fitted, [inputs]
    held: tuple[Mask, Mask] | None = None  # coefficients and exponents that are known and not fitted
    found_by: FoundBy = ""

    @property
    def form(self) -> frozenset[tuple[bytes, bytes]]:
        """Its terms, with their exponents where these are not fitted."""
        w = np.where(self.whole, self.law.exponents, self.law.exponents != 0)
        a = self.law.coefficients != 0
        return frozenset((a[:, j].tobytes(), w[j].tobytes()) for j in range(self.law.n_monomials))

    @property
    def free(self) -> Free:
        """What a fit may change."""
        a, w, b, v = self.law.constants
        fitted = a != 0, (w != 0) & ~self.whole, b != 0, (v != 0) & ~self.whole[: v.shape[1]]
        if self.held is None:
            return fitted
        known_a, known_w = self.held
        return fitted[0] & ~known_a, fitted[1] & ~known_w, *fitted[2:]


@dataclass(frozen=True, eq=False)
class Judged:
    """A polished law with its criterion (lower is better; inf for a law that blows up).

    `fragile`: it runs away from starts that the data allow, which the criterion charges.
    """

    polished: Polished
    criterion: float
    origin: Origin
    fragile: bool = False


@dataclass(frozen=True, eq=False)
class PolishedLaw(Generic[Law]):
    """A law with refined constants."""

    law: Law  # in the units of the data given; a form in the user's
    errors: Law  # standard errors in the same places; 0 for what was held
    initial: Array  # fitted start values [trajectories, states], without controls
    # How well the free constants, in the order of `free`, and behind them the start values, trajectory by
    # trajectory, are known together.
    joint: Covariance
    free: Free
    squares: Array  # sum of squared residuals of every state [states]; noisier samples weigh less
    counts: Array  # observed values of every state [states]
    finite: bool  # whether the law could be integrated through all trajectories
    plain_squares: Array  # the sums of squares with all samples alike

    @property
    def covariance(self) -> Array:
        """Of the free constants, [constants, constants]; huge where the data do not determine them."""
        k = count(self.free)
        return self.joint.matrix[:k, :k]

    def widened(self, factor: float) -> PolishedLaw[Law]:
        """The same with standard errors that are larger by a factor."""
        errors = self.law.with_constants(*(factor * e for e in self.errors.constants))
        return replace(self, errors=errors, joint=self.joint.widened(factor))


Polished: TypeAlias = PolishedLaw[PowerSum]
PolishedForm: TypeAlias = PolishedLaw[FilledForm]
