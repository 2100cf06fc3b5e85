"""An equation made of the monomials that the other equations have.

    f_i(x)  ~  sum_{m in S} a_m m(x)    at the samples,    S among the monomials of the other equations

What leaves one state often enters another, so that equations share their monomials. One that was grown alone has
its own, and in noise several of those may meet the data together although they are far from the true ones: farther
than the parabola reaches by which simple exponents are tried. The slopes of a law that follows the data tell which
monomials of the others may do as well. A refit says whether they do, and there are no exponents of its own to pay
for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import Free
from odediscovery.laws.mirror import fractional
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.stages.polish.snap import without_unused


@dataclass(frozen=True)
class SharingThresholds:
    """Which monomials of other equations are tried."""

    # monomials whose best sum differs by more from an equation are not refitted [rms of its slopes]; chosen: the
    # refit decides, this only bounds the tries
    apart: float = 0.2
    sets: int = 1000  # sets of one size that are compared for an equation, the first; cost
    tries: int = 8  # laws that are refitted, the nearest; cost: each is a polish


SHARING = SharingThresholds()


def share_monomials(law: PowerSum, free: Free, x: Array) -> list[tuple[PowerSum, Free]]:
    """The law with one equation made of monomials that others have, of each number of them the nearest set.

    Equations that have no monomial of their own stay, and none gets more terms than it has. The nearest laws first.

    Args:
        law: dimensionless.
        free: which of its constants are fitted.
        x: states along the data [samples, states].

    Returns:
        Laws, and what is fitted of each; exponents are fitted or held as before.
    """
    used, found = law.coefficients != 0, list[tuple[float, PowerSum, Free]]()
    w = law.exponents[:, : x.shape[1]]
    rooted = (fractional(w) | (w < 0.0)).any(axis=0)
    # Elsewhere roots and negative powers are no numbers.
    x = x[(np.isfinite(x) & ((x > 0.0) | ~rooted)).all(axis=1)]
    with np.errstate(all="ignore"):
        values, slopes = law.monomials(x), law.rhs(x)
        usable = np.isfinite(values**2).all(axis=1) & np.isfinite(slopes**2).all(axis=1)
    values, slopes = values[usable], slopes[usable]
    if not len(values):
        return []
    for i in np.flatnonzero(used.any(axis=1)):
        others = np.delete(used, i, axis=0).any(axis=0)
        most = min(int(used[i].sum()), int(others.sum())) if (used[i] & ~others).any() else 0
        for terms in range(1, most + 1):
            sets = itertools.islice(itertools.combinations(np.flatnonzero(others).tolist(), terms), SHARING.sets)
            misfit, few, a = min((_fitted(values, slopes[:, i], s) for s in sets), key=lambda fit: fit[0])
            if misfit > SHARING.apart**2:
                continue
            coefficients = law.coefficients.copy()
            coefficients[i] = 0.0
            coefficients[i, few] = a
            shared = law.with_constants(coefficients, *law.constants[1:])
            found.append((misfit, *without_unused(shared, (coefficients != 0, *free[1:]))))
    nearest = sorted(found, key=lambda one: one[0])[: SHARING.tries]
    return [(shared, fitted) for _, shared, fitted in nearest]


def _fitted(values: Array, slopes: Array, few: tuple[int, ...]) -> tuple[float, list[int], Array]:
    """What some monomials leave of the squares of slopes, as a share of these; the monomials; their coefficients."""
    chosen = values[:, few]
    a = np.asarray(np.linalg.lstsq(chosen, slopes, rcond=None)[0], dtype=np.float64)
    left = float(np.sum((chosen @ a - slopes) ** 2) / max(np.sum(slopes**2), ABOVE_ZERO))
    return left, list(few), a
