"""How good are found equations? Five figures, none of which the method could see.

    R2 = 1 - sum_ki (x_ki - y_ki)^2 / sum_ki (x_ki - mean_i)^2     over samples k and states i

RECON is R2 of the found equations integrated from the true training start against the clean
whole trajectory (the worst of several), GEN the same from the start that was not trained on.
R2 alone rewards wrong equations, so EXACT asks for the true terms and COEF for the true numbers.

Source of RECON and GEN: d'Ascoli et al., ODEFormer, ICLR 2024; their share of systems counts
R2 > 0.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from odediscovery.bench.suites.family import ConstantErrors, constant_errors
from odediscovery.bench.suites.problems import SuiteSystem
from odediscovery.bench.suites.protocol import Protocol, true_trajectory
from odediscovery.bench.suites.scoring import distance
from odediscovery.laws.equations import Equations
from odediscovery.runtime.arrays import Array

# Largest difference of exponents and inner constants, absolute, relative above 1.
CLEAN_TOLERANCE, NOISY_TOLERANCE = 0.02, 0.1
# Largest relative difference of the coefficients.
COEFFICIENT_TOLERANCE = 0.05
# Evaluations of the right-hand sides, seconds at most, after which equations count as failed; the
# truth needs a sixth of them at most.
_MOST_EVALUATIONS = 50_000


@dataclass(frozen=True)
class Scores:
    """What became of one system.

    Args:
        recon: R2 from the training start, the worst of several; -inf where the equations
            cannot be integrated.
        gen: R2 from the unseen start.
        exact: exactly the true terms, with their exponents and inner constants.
        coef: exact, and all coefficients within 5 %.
        complexity: nodes of the expression trees.
    """

    recon: float
    gen: float
    exact: bool
    coef: bool
    complexity: int


def score(found: Equations, system: SuiteSystem, protocol: Protocol) -> Scores:
    """Found equations against the truth.

    Args:
        found: over the states of the system, in their order.
        protocol: how the training data were made.
    """
    clean = [true_trajectory(system, k) for k in range(len(system.starts))]
    *recon, gen = (
        trajectory_r2(found, system.starts[k], system.times, clean[k]) for k in (*range(protocol.trajectories), -1)
    )
    every = np.concatenate(clean)
    box = np.stack([every.min(axis=0), every.max(axis=0)], axis=1)
    same = same_law(found, system.equations, box)
    return Scores(min(recon), gen, *exact_and_coef(same, protocol.is_clean), nodes(found))


def exact_and_coef(errors: ConstantErrors | None, is_clean: bool) -> tuple[bool, bool]:
    """Whether found terms are the true ones, with their exponents, and whether their coefficients are too.

    Args:
        errors: see `same_law`.
        is_clean: whether the data were without noise, from which more is asked.
    """
    exact = errors is not None and errors.inner_within(CLEAN_TOLERANCE if is_clean else NOISY_TOLERANCE)
    return exact, errors is not None and exact and errors.outer_within(COEFFICIENT_TOLERANCE)


def best_recon(laws: Sequence[Equations], system: SuiteSystem, protocol: Protocol) -> float:
    """The best RECON among laws, as an oracle would choose that sees the clean trajectory; -inf for none.

    So are candidates chosen in the published studies of ODEBench.
    """
    starts = range(protocol.trajectories)
    clean = [true_trajectory(system, k) for k in starts]
    each = (min(trajectory_r2(law, system.starts[k], system.times, clean[k]) for k in starts) for law in laws)
    return max(each, default=-np.inf)


def trajectory_r2(found: Equations, start: Array, times: Array, clean: Array) -> float:
    """Variance-weighted R2 of the equations integrated from `start`; -inf where they blow up.

    The integration ends after a number of evaluations of the right-hand sides, and what is not
    finite, or too large to be squared, has failed.

    Args:
        start: initial values [states].
        times: [n].
        clean: the true states [n, states].

    >>> decay = Equations.parse(["x"], {"x": "-x"})
    >>> t = np.linspace(0.0, 2.0, 5)
    >>> round(trajectory_r2(decay, np.array([1.0]), t, np.exp(-t)[:, None]), 6)
    1.0
    """
    values = found.simulate(start, times, most_evaluations=_MOST_EVALUATIONS)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.sum((values - clean) ** 2))
    spread = float(np.sum((clean - clean.mean(axis=0)) ** 2))
    if not np.isfinite(squares):
        return -np.inf
    return 1.0 - squares / spread if spread > 0 else (1.0 if squares == 0 else -np.inf)


def nodes(equations: Equations) -> int:
    """Nodes of all expression trees: numbers, symbols, operations."""
    return sum(1 for e in equations.right_hand_sides for _ in sympy.preorder_traversal(e))


def same_law(found: Equations, truth: Equations, box: Array) -> ConstantErrors | None:
    """How far the constants of two laws of the same form are apart; None for other forms.

    Sums of products of powers are compared term by term; anything else asks whether every found
    right-hand side is the true one with other constants (see `family`).

    Args:
        box: lowest and highest value of each state, [states, 2], where functions are compared.

    >>> truth = Equations.parse(["x"], {"x": "2*x - x**0.5"})
    >>> near = same_law(Equations.parse(["x"], {"x": "-x**0.49 + 2.02*x"}), truth, np.ones((1, 2)))
    >>> round(near.inner, 4), round(near.outer, 4)
    (0.01, 0.01)
    """
    if found.power_sum is not None and truth.power_sum is not None:
        return distance(found.power_sum, truth.power_sum, np.abs(box).max(axis=1))
    rows = [
        constant_errors(side, lambda x, i=i: found.rhs(x)[..., i], truth.symbols, box)  # type: ignore[misc]
        for i, side in enumerate(truth.right_hand_sides)
    ]
    alike = [row for row in rows if row is not None]
    if len(alike) < len(rows):
        return None
    return ConstantErrors(max(row.inner for row in alike), max(row.outer for row in alike))
