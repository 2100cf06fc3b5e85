"""The family in which a rate saturates: Michaelis-Menten, Monod, Hill, Holling II and III, in one or two states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odediscovery.bench.random_laws.builder import Builder
from odediscovery.bench.random_laws.draft import Draft
from odediscovery.bench.random_laws.ranges import PositiveRanges, Range, Ranges, drawn


@dataclass(frozen=True)
class ShapeRanges(Ranges):
    """What saturates in all laws below: x^n/(K^n + x^n), or the repression K^n/(K^n + x^n)."""

    half: Range = drawn((0.3, 2.0), "half-saturation K")
    whole_hill: float = drawn(0.6, "a Hill exponent n is one of the whole ones")
    whole_hills: tuple[float, ...] = drawn((2.0, 3.0, 4.0), "whole Hill exponents")
    hill: Range = drawn((1.4, 4.0), "other Hill exponents, to one decimal")


@dataclass(frozen=True)
class SaturatingRanges(PositiveRanges):
    """Laws in which a rate saturates; n = 1 unless they say otherwise."""

    most: Range = drawn((0.6, 2.0), "greatest rate V")


@dataclass(frozen=True)
class MichaelisMentenRanges(SaturatingRanges):
    """x' = s - V x/(K + x) - d x, without s or without d."""

    has_inflow: float = drawn(0.6, "there is s")
    inflow: Range = drawn((0.1, 0.8), "inflow s")
    has_decay: float = drawn(0.5, "there is d, where there is no s")
    decay: Range = drawn((0.1, 0.5), "decay d")
    starts: Range = drawn((0.1, 6.0), "starts, even on the logarithm")
    span: Range = drawn((3.0, 15.0), "last time")


@dataclass(frozen=True)
class HarvestRanges(SaturatingRanges):
    """x' = r x - c x^2 - V x^n/(K^n + x^n), n = 1 or 2."""

    growth: Range = drawn((0.4, 2.0), "growth r")
    crowding: Range = drawn((0.1, 0.5), "crowding c")
    most: Range = drawn((0.4, 2.0), "greatest rate V")
    squared: float = drawn(0.7, "n = 2")
    starts: Range = drawn((0.1, 6.0), "starts, even on the logarithm")
    span: Range = drawn((3.0, 15.0), "last time")


@dataclass(frozen=True)
class AutoregulationRanges(SaturatingRanges):
    """x' = s + V x^n/(K^n + x^n) - d x, or V K^n/(K^n + x^n) - d x, n a Hill exponent."""

    activated: float = drawn(0.5, "x activates itself, and there is s")
    inflow: Range = drawn((0.1, 0.5), "inflow s")
    most: Range = drawn((0.6, 3.0), "greatest rate V")
    decay: Range = drawn((0.4, 1.5), "decay d")
    starts: Range = drawn((0.05, 5.0), "starts, even on the logarithm")
    span: Range = drawn((2.0, 8.0), "last time")


@dataclass(frozen=True)
class PredatorRanges(SaturatingRanges):
    """x' = r x - c x^2 - V y x^n/(K^n + x^n), y' = e V y x^n/(K^n + x^n) - d y, n = 1 or 2."""

    squared: float = drawn(0.35, "n = 2")
    most: Range = drawn((0.6, 2.5), "greatest rate V")
    growth: Range = drawn((0.5, 2.0), "growth r of the prey")
    crowding: Range = drawn((0.1, 0.6), "crowding c of the prey")
    efficiency: Range = drawn((0.3, 1.0), "predators e from one prey")
    death: Range = drawn((0.2, 0.8), "death d of the predators")
    starts: Range = drawn((0.3, 4.0), "starts, even on the logarithm")
    span: Range = drawn((8.0, 40.0), "last time")


@dataclass(frozen=True)
class ChemostatRanges(SaturatingRanges):
    """S' = D (S0 - S) - V/Y X S/(K + S), X' = V X S/(K + S) - D X."""

    batch: float = drawn(0.3, "nothing flows in or out, D = 0, and X dies")
    dilution: Range = drawn((0.1, 0.6), "dilution D")
    feed: Range = drawn((1.0, 4.0), "substrate S0 in the inflow")
    death: Range = drawn((0.05, 0.3), "death of X in a batch")
    output: Range = drawn((0.3, 1.0), "yield Y")
    span: Range = drawn((4.0, 20.0), "last time")


@dataclass(frozen=True)
class EnzymeRanges(SaturatingRanges):
    """x' = s - V x/(K + x), y' = V x/(K + x) - d y, or y saturates too."""

    has_inflow: float = drawn(0.6, "there is s")
    inflow: Range = drawn((0.1, 0.8), "inflow s")
    decays: float = drawn(0.5, "y decays instead of saturating")
    decay: Range = drawn((0.2, 1.0), "decay d of y")
    starts: Range = drawn((0.2, 5.0), "starts, even on the logarithm")
    span: Range = drawn((4.0, 20.0), "last time")


@dataclass(frozen=True)
class GeneRanges(SaturatingRanges):
    """x' = k y - d x, y' = V K^n/(K^n + x^n) - e y, or V x^n/(K^n + x^n) - e y, n a Hill exponent."""

    repressed: float = drawn(0.6, "x represses y instead of activating it")
    making: Range = drawn((0.5, 2.0), "rate k at which y makes x")
    decay: Range = drawn((0.3, 1.5), "decay d of x and e of y")
    most: Range = drawn((0.8, 4.0), "greatest rate V")
    starts: Range = drawn((0.1, 4.0), "starts, even on the logarithm")
    span: Range = drawn((4.0, 15.0), "last time")


SHAPES = ShapeRanges()
MICHAELIS_MENTEN, HARVEST, AUTOREGULATION = MichaelisMentenRanges(), HarvestRanges(), AutoregulationRanges()
PREDATOR, CHEMOSTAT, ENZYMES, GENES = PredatorRanges(), ChemostatRanges(), EnzymeRanges(), GeneRanges()


def saturating(r: np.random.Generator) -> Draft:
    """One of the common laws in which a rate saturates."""
    build = SATURATING[int(r.integers(len(SATURATING)))]
    return build(r)


def _saturation(b: Builder, state: int, name: str, power: float | None = None) -> str:
    """x^n/(h + x^n) as text, h = K^n, where n = 1 unless given."""
    size, x = b.size(SHAPES.half), f"x{state}"
    if power is None:
        return f"{x}/({b.constant_of(state, f'h{name}', size)} + {x})"
    n = b.inner(f"n{name}", power)
    return f"{x}**{n}/({b.constant_of(state, f'h{name}', size, power)} + {x}**{n})"


def _repression(b: Builder, state: int, name: str, power: float) -> str:
    """h/(h + x^n) as text, h = K^n."""
    h = b.constant_of(state, f"h{name}", b.size(SHAPES.half), power)
    return f"{h}/({h} + x{state}**{b.inner(f'n{name}', power)})"


def _hill(b: Builder) -> float:
    if b.chance(SHAPES.whole_hill):
        return float(b.random.choice(SHAPES.whole_hills))
    return round(float(b.random.uniform(*SHAPES.hill)), 1)


def _michaelis_menten(r: np.random.Generator) -> Draft:
    b = Builder(r, 1)
    if b.chance(MICHAELIS_MENTEN.has_inflow):
        b.add(0, b.size(MICHAELIS_MENTEN.inflow))
    elif b.chance(MICHAELIS_MENTEN.has_decay):
        b.add(0, -b.size(MICHAELIS_MENTEN.decay), {0: 1})
    b.add(0, -b.size(MICHAELIS_MENTEN.most), factor=_saturation(b, 0, "m"))
    return b.draft(b.positive_starts(MICHAELIS_MENTEN.starts), b.size(MICHAELIS_MENTEN.span))


def _harvest(r: np.random.Generator) -> Draft:
    b = Builder(r, 1)
    b.add(0, b.size(HARVEST.growth), {0: 1})
    b.add(0, -b.size(HARVEST.crowding), {0: 2})
    b.add(0, -b.size(HARVEST.most), factor=_saturation(b, 0, "h", 2.0 if b.chance(HARVEST.squared) else None))
    return b.draft(b.positive_starts(HARVEST.starts), b.size(HARVEST.span))


def _autoregulation(r: np.random.Generator) -> Draft:
    b = Builder(r, 1)
    if b.chance(AUTOREGULATION.activated):
        b.add(0, b.size(AUTOREGULATION.inflow))
        b.add(0, b.size(AUTOREGULATION.most), factor=_saturation(b, 0, "a", _hill(b)))
    else:
        b.add(0, b.size(AUTOREGULATION.most), factor=_repression(b, 0, "r", _hill(b)))
    b.add(0, -b.size(AUTOREGULATION.decay), {0: 1})
    return b.draft(b.positive_starts(AUTOREGULATION.starts), b.size(AUTOREGULATION.span))


def _predator(r: np.random.Generator) -> Draft:
    """Rosenzweig and MacArthur: logistic prey, predators that saturate (Holling II or III)."""
    b = Builder(r, 2, "own")
    factor = _saturation(b, 0, "p", 2.0 if b.chance(PREDATOR.squared) else None)
    v = b.size(PREDATOR.most)
    b.add(0, b.size(PREDATOR.growth), {0: 1})
    b.add(0, -b.size(PREDATOR.crowding), {0: 2})
    b.add(0, -v, {1: 1}, factor)
    b.add(1, v * b.size(PREDATOR.efficiency), {1: 1}, factor)
    b.add(1, -b.size(PREDATOR.death), {1: 1})
    return b.draft(b.positive_starts(PREDATOR.starts), b.size(PREDATOR.span))


def _chemostat(r: np.random.Generator) -> Draft:
    """Monod."""
    b = Builder(r, 2, "own")
    factor, v = _saturation(b, 0, "s"), b.size(CHEMOSTAT.most)
    dilution = 0.0 if b.chance(CHEMOSTAT.batch) else b.size(CHEMOSTAT.dilution)
    b.add(0, dilution * b.size(CHEMOSTAT.feed))
    b.add(0, -dilution, {0: 1})
    b.add(1, -(dilution or b.size(CHEMOSTAT.death)), {1: 1})
    b.add(0, -v / b.size(CHEMOSTAT.output), {1: 1}, factor)
    b.add(1, v, {1: 1}, factor)
    return b.draft(b.positive_starts(CHEMOSTAT.starts), b.size(CHEMOSTAT.span))


def _enzymes(r: np.random.Generator) -> Draft:
    """Two steps: what saturates leaves x for y."""
    b = Builder(r, 2)
    factor, v = _saturation(b, 0, "1"), b.size(ENZYMES.most)
    if b.chance(ENZYMES.has_inflow):
        b.add(0, b.size(ENZYMES.inflow))
    b.add(0, -v, factor=factor)
    b.add(1, v, factor=factor)
    if b.chance(ENZYMES.decays):
        b.add(1, -b.size(ENZYMES.decay), {1: 1})
    else:
        b.add(1, -b.size(ENZYMES.most), factor=_saturation(b, 1, "2"))
    return b.draft(b.positive_starts(ENZYMES.starts), b.size(ENZYMES.span))


def _genes(r: np.random.Generator) -> Draft:
    b = Builder(r, 2, "own")
    regulated = _repression if b.chance(GENES.repressed) else _saturation
    b.add(0, b.size(GENES.making), {1: 1})
    b.add(0, -b.size(GENES.decay), {0: 1})
    b.add(1, b.size(GENES.most), factor=regulated(b, 0, "g", _hill(b)))
    b.add(1, -b.size(GENES.decay), {1: 1})
    return b.draft(b.positive_starts(GENES.starts), b.size(GENES.span))


# Twice what is common, so that it is drawn twice as often.
SATURATING: tuple[Callable[[np.random.Generator], Draft], ...] = (
    _michaelis_menten,
    _harvest,
    _autoregulation,
    _predator,
    _predator,
    _chemostat,
    _enzymes,
    _genes,
)
