"""System i of a family: it depends on the seed, the family and i alone.

    power-sums       compartments with fluxes k x_s^a x_j^b, a and b real
    mass-action      networks of reactions of at most two molecules
    lotka-volterra   x_i' = x_i (r_i + sum_j a_ij x_j)
    oscillators      Duffing, van der Pol, FitzHugh-Nagumo and jerk equations with further terms
    saturating       Michaelis-Menten, Monod, Hill, Holling II and III, in one or two states
    trigonometric    Adler's equation and pendulums, with damping, torque, a spring or a filter
    compartments     linear compartments with constant inflows

Seeds below 1,000 are for development, others for acceptance. A system has one to three states, two
starts to train on and an unseen one, and 40 to 100 samples; see `acceptance` for what is drawn again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from odediscovery.bench.random_laws import positive, signed
from odediscovery.bench.random_laws.acceptance import is_identifiable
from odediscovery.bench.random_laws.draft import Draft
from odediscovery.bench.random_laws.saturating import saturating
from odediscovery.bench.suites.problems import ADDITIVE, SuiteSystem
from odediscovery.errors import FitError, InputError, unknown_name

SUITE = "random"
FAMILIES: Mapping[str, Callable[[np.random.Generator], Draft]] = {
    "power-sums": positive.power_sums,
    "mass-action": positive.mass_action,
    "lotka-volterra": positive.lotka_volterra,
    "oscillators": signed.oscillators,
    "saturating": saturating,
    "trigonometric": signed.trigonometric,
    "compartments": positive.compartments,
}
# Drafts of one system, after which something is wrong with the family.
MOST_DRAFTS = 5_000


@cache
def random_system(seed: int, family: str, i: int) -> SuiteSystem:
    """System i of a family; its `representation` is the family.

    Args:
        seed: of all systems.
        family: one of `FAMILIES`.
        i: 0, 1, ...

    Raises:
        InputError: there is no such family.

    >>> print(random_system(0, "saturating", 0).name)
    saturating 0 of seed 0
    """
    if family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    random = np.random.default_rng([seed, zlib.crc32(family.encode()), i])
    for _ in range(MOST_DRAFTS):
        draft = FAMILIES[family](random)
        if is_identifiable(draft):
            return SuiteSystem(
                SUITE,
                f"{family}-{i}",
                f"{family} {i} of seed {seed}",
                draft.equations(),
                draft.starts,
                (0.0, draft.span),
                draft.samples,
                ADDITIVE,
                family,
            )
    raise FitError(f"none of {MOST_DRAFTS} drafts of {family} {i} was accepted")


def random_systems(
    seed: int, families: Sequence[str] | None = None, each: int = 20, ids: Sequence[str] | None = None
) -> list[SuiteSystem]:
    """The first systems of some families, family by family.

    Args:
        seed: of all systems.
        families: names, all if not given.
        each: systems of each family.
        ids: "family-i", to have these alone, whatever the number of each.

    Raises:
        InputError: a number is out of range, or there is no such family or system.
    """
    if seed < 0 or each < 1:
        raise InputError(f"--seed must be at least 0 and --each at least 1, got {seed} and {each}")
    if ids:
        return [random_system(seed, *_read(id)) for id in ids]
    for family in families or ():
        if family not in FAMILIES:
            raise unknown_name("family", family, FAMILIES)
    return [
        random_system(seed, family, i) for family in FAMILIES if family in (families or FAMILIES) for i in range(each)
    ]


def _read(id: str) -> tuple[str, int]:
    family, _, number = id.rpartition("-")
    if family not in FAMILIES or not number.isdecimal():
        raise InputError(f"--ids expects FAMILY-NUMBER, such as {next(iter(FAMILIES))}-0, got {id!r}")
    return family, int(number)
