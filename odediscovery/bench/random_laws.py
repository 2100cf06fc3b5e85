"""Random laws identifiable from their samples; system i of a family depends only on the seed, the family and i.

The families are the functions of `random_families`; published rate laws in the units of measurements (`mechanisms`) are
drawn only if asked for.

Seeds below 1,000 are for development, others for acceptance. A system has one to three states, two
starts to train on and an unseen one, and 40 to 100 samples; mechanisms have up to five states and 30 to 300 samples.

A draft is accepted if all its solutions stay within bounds, every state moves and is resolved by its
samples, omitting any term has a visible effect, and the Fisher information of the samples,

    F = J' J / noise^2,    J = d samples / d (constants, starts),

gives every constant a standard error well below its size. Noise is 1 % of the spread of each state.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from odediscovery.bench import mechanisms, summary
from odediscovery.bench import random_families as of
from odediscovery.bench.random_families import Draft
from odediscovery.bench.rows import Row
from odediscovery.bench.summary import EXACT_AND_COEF, GOOD, MEDIAN_AND_LATE, Cell, by, grouped, missed, recon_and_gen
from odediscovery.bench.systems import SuiteSystem, check, chosen
from odediscovery.errors import FitError, InputError
from odediscovery.runtime.arrays import Array

NOISE = 0.01
# Trajectories that must identify the law: all starts except the unseen one.
TRAINED = 2
# Relative steps of differences.
STEP = 1e-4


def is_identifiable(draft: Draft) -> bool:
    """Whether solutions reach the end, and stay positive if required, and the samples identify the law."""
    if not is_whole(draft):
        return False
    constants = draft.constants
    most = 30.0 * np.abs(draft.starts).max(axis=0 if draft.apart else None)
    base = draft.simulate(draft.starts, np.tile(constants, (len(draft.starts), 1)), most)
    if not np.isfinite(base).all() or (draft.positive and (base.min(axis=0) < 1e-3 * base.max(axis=0)).any()):
        return False
    return is_moving(draft, base[:, :TRAINED]) and is_known(draft, base[:, :TRAINED])


def is_whole(draft: Draft) -> bool:
    """Whether a draft has several terms, states in every equation, and no decoupled parts."""
    links = np.eye(draft.states)
    for i in range(draft.states):
        shapes = " ".join(term.shape for term in draft.terms if term.state == i)
        uses = [k for k in range(draft.states) if f"x{k}" in shapes]
        if not uses:
            return False
        links[i, uses] = links[uses, i] = 1.0
    return len(draft.terms) > 1 and bool(np.linalg.matrix_power(links, draft.states).all())


def is_moving(draft: Draft, paths: Array) -> bool:
    """Whether all states move long enough, and by steps that the samples resolve."""
    steps = np.abs(np.diff(paths, axis=0))
    size, spread = np.sqrt(np.mean(paths**2, axis=0)), paths.std(axis=0)
    if not (spread >= 0.08 * size).all() or (steps.max(axis=0) > 0.4 * np.ptp(paths, axis=0)).any():
        return False
    way = np.cumsum((steps / spread).sum(axis=2), axis=0)
    # 95 % of the way must not be covered too early.
    if ((way < 0.95 * way[-1]).mean(axis=0) < 0.35).any():
        return False
    if not draft.positive and not ((paths.min(axis=(0, 1)) < 0) & (paths.max(axis=(0, 1)) > 0)).all():
        return False
    return all(np.ptp(paths[:, :, k], axis=0).max() >= 2.0 for k in draft.wide)


def is_known(draft: Draft, paths: Array) -> bool:
    """Whether every term has a visible effect, and every constant a small standard error."""
    constants, starts = draft.constants, draft.starts[:TRAINED]
    noise = NOISE * paths.std(axis=0)
    terms = len(draft.terms)
    without = np.tile(constants, (terms, 1))
    without[:, :terms][np.eye(terms, dtype=bool)] = 0.0
    change = _solved(draft, starts, without) - paths[:, None]
    seen = np.sqrt(np.mean(np.nan_to_num(change / noise, nan=np.inf) ** 2, axis=0)).max(axis=(1, 2))
    if (seen < 10.0).any():
        return False
    errors = standard_errors(draft, starts, noise)
    return bool((errors <= 0.05 * np.abs(constants)).all())


def standard_errors(draft: Draft, starts: Array, noise: Array) -> Array:
    """Standard errors of all constants with unknown starts [constants]; inf for unidentifiable ones."""
    constants, many = draft.constants, len(starts)
    steps = STEP * np.abs(constants)
    changed = np.concatenate([constants + sign * np.diag(steps) for sign in (1.0, -1.0)])
    up, down = np.split(_solved(draft, starts, changed), 2, axis=1)
    slopes = (up - down) / 2.0 / noise  # of a relative change of STEP: [samples, constants, trajectories, states]
    columns = [slopes]
    for k in range(draft.states):
        size = STEP * noise[:, k].max() / NOISE
        ends = [starts + sign * size * np.eye(draft.states)[k] for sign in (1.0, -1.0)]
        pair = draft.simulate(np.concatenate(ends), np.tile(constants, (2 * many, 1)))
        moved = (pair[:, None, :many] - pair[:, None, many:]) / 2.0 / noise
        columns.append(np.where(np.eye(many, dtype=bool)[..., None], moved, 0.0))  # its own trajectory alone
    every = np.concatenate(columns, axis=1)
    jacobian = every.swapaxes(0, 1).reshape(every.shape[1], -1).T.copy()
    length = np.sqrt((jacobian**2).sum(axis=0))
    if not (np.isfinite(length).all() and length.all()):
        return np.full(len(constants), np.inf)
    values, vectors = np.linalg.eigh((jacobian / length).T @ (jacobian / length))
    if values[0] < 1e-12:
        return np.full(len(constants), np.inf)
    variance = (vectors**2 / values).sum(axis=1) / length**2
    errors: Array = np.sqrt(variance[: len(constants)]) * steps
    return errors


def _solved(draft: Draft, starts: Array, constants: Array) -> Array:
    """Solutions [samples, sets of constants, trajectories, states]."""
    each, many = len(constants), len(starts)
    paths = draft.simulate(np.tile(starts, (each, 1)), np.repeat(constants, many, axis=0))
    return paths.reshape(len(paths), each, many, draft.states)


SUITE = "random"
FAMILIES: Mapping[str, Callable[[np.random.Generator], Draft]] = {
    "power-sums": of.power_sums,
    "mass-action": of.mass_action,
    "lotka-volterra": of.lotka_volterra,
    "oscillators": of.oscillators,
    "saturating": of.saturating,
    "trigonometric": of.trigonometric,
    "compartments": of.compartments,
}
# Not among the default families, so that kept studies of all families stay complete.
MECHANISMS = "mechanisms"


@cache
def random_system(seed: int, family: str, i: int, samples: int | None = None) -> SuiteSystem:
    """System i of a family, with as many samples as drawn by default; its `representation` is the family."""
    random = np.random.default_rng([seed, zlib.crc32(family.encode()), i])
    draw = mechanisms.turn_of(seed, i)[1] if family == MECHANISMS else FAMILIES[family]
    for _ in range(5_000):
        draft = draw(random)
        draft = draft if samples is None else replace(draft, samples=samples)
        if is_identifiable(draft):
            times = np.linspace(0.0, draft.span, draft.samples)
            about = f"{family}-{i}", draft.equations(), draft.starts, times, family
            return SuiteSystem(SUITE, *about, apart=draft.apart)
    raise FitError(f"none of {5_000} drafts of {family} {i} was accepted")


def random_systems(
    seed: int, families: Sequence[str] | None = None, each: int = 20, ids: Sequence[str] | None = None
) -> list[SuiteSystem]:
    """The first systems of some families (default: all but mechanisms), or only those with ids "family-i"."""
    check("seed", seed, seed >= 0, "at least 0")
    check("each", each, each >= 1, "at least 1")
    if ids:
        return [random_system(seed, *_read(id)) for id in ids]
    names = chosen({name: name for name in (*FAMILIES, MECHANISMS)}, families or list(FAMILIES), "family")
    return [random_system(seed, family, i) for family in names for i in range(each)]


def _read(id: str) -> tuple[str, int]:
    family, _, number = id.rpartition("-")
    if family not in (*FAMILIES, MECHANISMS) or not number.isdecimal():
        raise InputError(f"--ids expects FAMILY-NUMBER, such as {next(iter(FAMILIES))}-0, got {id!r}")
    return family, int(number)


COLUMNS: Mapping[str, Cell] = {
    **EXACT_AND_COEF,
    "RECON > 0.9": summary.number("recon", GOOD),
    "GEN > 0.9": summary.number("gen", GOOD),
    "failed": summary.number("failed"),
    **MEDIAN_AND_LATE,
    "total s": summary.total_seconds,
}


def markdown(study: Mapping[str, Any], rows: Sequence[Row], systems: Sequence[SuiteSystem]) -> str:
    """Write the table of the families, then both laws of the systems that were not found."""
    options = summary.options_of({name: value for name, value in study.items() if name != "drop"})
    parts = [f"# {study['suite']}\n\n`odediscovery bench {study['suite']} {options}`; seconds of the processor."]
    methods = by(rows, "method")
    for method, own in methods.items():
        title = f"## {method}\n\n" if len(methods) > 1 else ""
        families = by(own, "representation")
        groups = {family: families.get(family, []) for family in FAMILIES} | families | {"all": own}
        parts.append(title + grouped("family", groups, COLUMNS))
    truths = {system.id: system.equations for system in systems}
    parts += missed(rows, truths, lambda row: f"{row['method']}, {row['outcome']}, {recon_and_gen(row)}")
    return "\n\n".join(parts) + "\n"
