"""How often is a law claimed where there is none?

    white noise  x_k = 5 + e_k          random walk  x_k = x_{k-1} + e_k,    e_k ~ N(0, 1)
    splines      cubic through knots 5 + e_k                    rationals    p(t)/q(t) near such a spline

One state, of smooth curves three, 60 samples. A draw counts against us if its fit ends as `converged`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.interpolate import AAA, CubicSpline

from odediscovery.bench.draws.draw import Draws
from odediscovery.bench.rows import Row
from odediscovery.bench.summary import Cell, hits
from odediscovery.data.series import TimeSeries
from odediscovery.errors import unknown_name
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array

KINDS = ("white-noise", "random-walk", "splines", "rationals")
SAMPLES, LEVEL = 60, 5.0
# Smooth curves: how many, their knots, and terms of a rational function that stays near one.
CURVES, KNOTS, TERMS = 3, 8, 6


@dataclass(frozen=True, kw_only=True)
class Lawless(Draws):
    """Draws of what no differential equation explains.

    Args:
        kind: `white-noise`, `random-walk`, `splines` or `rationals`.
    """

    measure: ClassVar[str] = "lawless"
    own: ClassVar[tuple[str, ...]] = ("claimed", "r2", "messages")
    counted: ClassVar[Mapping[str, Cell]] = {"claimed as converged": hits("claimed")}

    kind: str = KINDS[0]

    def checked(self) -> Lawless:
        if self.kind not in KINDS:
            raise unknown_name("kind", self.kind, KINDS)
        return super().checked()

    def data(self, draw: int) -> TimeSeries:
        random, t = np.random.default_rng(draw), np.arange(float(SAMPLES))
        if self.kind in KINDS[:2]:
            noise = random.standard_normal((SAMPLES, 1))
            x = np.cumsum(noise, axis=0) if self.kind == "random-walk" else LEVEL + noise
            return TimeSeries.from_arrays(t, x, ["x"])
        knots = LEVEL + random.standard_normal((KNOTS, CURVES))
        curves = CubicSpline(np.linspace(0.0, t[-1], KNOTS), knots)(t)
        if self.kind == "rationals":
            curves = np.stack([rational_near(t, curve) for curve in curves.T], axis=1)
        return TimeSeries.from_arrays(t, curves, ["x", "y", "z"])

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        return {"claimed": found.outcome == "converged", "r2": found.r2, "messages": list(found.messages)}

    def in_a_word(self, row: Row) -> str:
        return "claimed" if row["claimed"] else row["outcome"]

    def told(self, row: Row) -> dict[str, str]:
        return {"outcome": row["outcome"], "R²": f"{row['r2']:.3f}"}


def rational_near(t: Array, x: Array) -> Array:
    """A rational function of t near values x [samples], without poles between the samples; x where there is none.

    Source: Nakatsukasa, Sete, Trefethen, The AAA algorithm for rational approximation (2018).
    """
    for terms in range(TERMS, 1, -1):
        with warnings.catch_warnings():
            # So few terms are meant to end before the tolerance is reached.
            warnings.simplefilter("ignore")
            found = AAA(t, x, max_terms=terms)
        poles = found.poles()
        real = poles[np.abs(poles.imag) < 1e-9].real
        if not ((real > t[0]) & (real < t[-1])).any():
            return np.asarray(found(t), float)
    return x
