r"""Where groups come to rest whose law is a gain and a loss of one state: final sizes, carrying capacities.

    dx/dt = a x^p - b x^q = 0    =>    \ln x^* = (\ln a - \ln b) / (q - p),    p < q

Constants are log-normal over groups, and so is the resting point. Its spread is that of the groups' own points and
of what is not known of each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odediscovery.laws.printing import constant
from odediscovery.population.model.mixed import MixedFit
from odediscovery.runtime.arrays import ABOVE_ZERO


class Rest(NamedTuple):
    """Where the typical group comes to rest, and how groups differ.

    Args:
        median: over groups.
        error: its standard error.
        sd_log: standard deviation of the logarithm over groups, 0 where no constant differs.
        sd_log_error: its standard error, nan where unknown.
    """

    median: float
    error: float
    sd_log: float
    sd_log_error: float

    def sentence(self, state: str) -> str:
        """The point in words.

        >>> Rest(194.0, 12.0, 0.127, 0.041).sentence("size")
        'comes to rest at size = 194(12) in the typical group, with sd_log 0.127(41) over groups'
        """
        told = f"comes to rest at {state} = {constant(self.median, self.error, 3)}"
        spread = f", with sd_log {constant(self.sd_log, self.sd_log_error, 3)} over groups" if self.sd_log else ""
        return f"{told} in {'the typical' if self.sd_log else 'every'} group{spread}"


def resting_point(fit: MixedFit) -> Rest | None:
    """Where groups come to rest; None unless the law is a gain and a loss of one state that grows faster.

    None too where groups have exponents of their own.
    """
    structure, e, k = fit.model.structure, fit.estimate, fit.model.n_constants
    own_exponents = e.deviations[k : k + fit.model.n_free].any()
    if own_exponents or structure.n_states != 1 or sorted(entry.sign for entry in structure.entries) != [-1, 1]:
        return None
    loss, gain = sorted(structure.entries, key=lambda entry: entry.sign)
    w = structure.with_exponents(e.beta[k : k + fit.model.n_free].tolist()).exponents[:, 0]
    apart = float(w[loss.monomial] - w[gain.monomial])
    if apart <= 0.0:
        return None
    slope = np.zeros(len(e.beta))
    slope[gain.constant], slope[loss.constant] = 1.0 / apart, -1.0 / apart
    at = float(slope @ e.beta)
    for place, (j, _) in enumerate(structure.free, start=k):
        slope[place] = at / apart * ((j == gain.monomial) - (j == loss.monomial))
    median = float(np.exp(at))
    error = median * float(slope @ e.covariance @ slope) ** 0.5
    varies = fit.random[:k] & (e.deviations[:k] > 0.0)
    if not varies.any():
        return Rest(median, error, 0.0, float("nan"))
    # What groups are like themselves, since constants that go together spread the point less than each of them.
    own = slope[:k] @ fit.unknowns[:k]
    unsure = np.einsum("p,gpq,q->g", slope[:k], e.spread[:, :k, :k], slope[:k])
    sd_log = float(np.sqrt(own.var(ddof=1) + np.maximum(unsure, 0.0).mean()))
    groups = len(own)
    return Rest(median, max(median * sd_log / groups**0.5, ABOVE_ZERO), sd_log, sd_log / (2.0 * (groups - 1)) ** 0.5)
