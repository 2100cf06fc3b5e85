"""Omnidirectional inference: bounds of truth propagate up to connectives and down to their parts.

Every formula has a lower and an upper bound L <= truth <= U, which are 0 and 1 if nothing is known
(the open world). With s = c + sum_k a_k x_k and y = min(max(s, 0), 1) for each connective:

    up      L_y >= y(x at its worst),    U_y <= y(x at its best)
    down    L_y > 0:  a_k x_k >= L_y - c - sum_j!=k max(a_j x_j)
            U_y < 1:  a_k x_k <= U_y - c - sum_j!=k min(a_j x_j)

Modus ponens, modus tollens and the disjunctive syllogism are the downward step for one connective. Bounds only tighten,
so that sweeps converge; a lower bound above an upper one is a contradiction. Every bound holds in all models, and is
the tightest possible if each atom appears once; shared atoms are not split into cases.

Source: Riegel et al., Logical Neural Networks (2020), Sec. 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from odediscovery.units.logic.formulas import CONNECTIVES, Formula

# Weights [parts] and bias of every connective.
Parameters: TypeAlias = Mapping[Formula, tuple[Tensor, Tensor]]
# Changes of bounds below this count as converged; contradictions must exceed it.
CONVERGED = 1e-9


@dataclass(frozen=True)
class Bounds:
    """Bounds of a truth value.

    Args:
        lower: lower bound.
        upper: upper bound.

    >>> Bounds(1.0, 1.0).state(), Bounds().state(), Bounds(0.9, 0.2).state()
    ('true', 'unknown', 'contradiction')
    """

    lower: float = 0.0
    upper: float = 1.0

    def state(self, alpha: float = 0.9) -> str:
        """The state: true, false, ambiguous (certainly neither), unknown, or contradiction.

        Args:
            alpha: values of at least alpha count as true, of at most 1 - alpha as false.
        """
        if self.lower > self.upper + CONVERGED:
            return "contradiction"
        if self.lower >= alpha - CONVERGED:
            return "true"
        if self.upper <= 1.0 - alpha + CONVERGED:
            return "false"
        return "ambiguous" if self.lower > 1.0 - alpha and self.upper < alpha else "unknown"


# Bounds or truth of formulas.
Example: TypeAlias = Mapping[Formula, Bounds | float]


@dataclass(frozen=True)
class Inferred:
    """Bounds of all formulas after inference.

    Args:
        bounds: of every formula and its parts.
        sweeps: number of sweeps up and down until convergence.

    >>> from odediscovery.units.logic.formulas import atom
    >>> found = infer([atom("x")], {~atom("x"): 1.0})
    >>> found[atom("x")].state(), found.contradictions()
    ('false', [])
    """

    bounds: Mapping[Formula, Bounds]
    sweeps: int

    def __getitem__(self, formula: Formula) -> Bounds:
        return self.bounds[formula]

    def contradictions(self) -> list[Formula]:
        """Formulas whose bounds allow no truth value."""
        return [formula for formula, bound in self.bounds.items() if bound.state() == "contradiction"]


class Network:
    """Formulas and their parts as a network of connectives, with bounds [batch, nodes] of all of them."""

    def __init__(self, formulas: Sequence[Formula]) -> None:
        self.nodes = list(dict.fromkeys(node for formula in formulas for node in formula.nodes()))
        self.place = {node: i for i, node in enumerate(self.nodes)}
        self.connectives = [node for node in self.nodes if node.parts]

    def known(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Bounds known in each example, else 0 and 1, [examples, nodes]."""
        lower = torch.zeros(len(examples), len(self.nodes), dtype=torch.float64)
        upper = torch.ones_like(lower)
        for row, example in enumerate(examples):
            for node in example.keys() & self.place.keys():
                at, bound = (row, self.place[node]), as_bounds(example[node])
                lower[at], upper[at] = bound.lower, bound.upper
        return lower, upper

    def parameters(self) -> Parameters:
        """Weights and biases of the formulas."""
        return {
            node: (torch.tensor(node.weights, dtype=torch.float64), torch.tensor(node.bias, dtype=torch.float64))
            for node in self.connectives
        }

    def sweep(self, lower: Tensor, upper: Tensor, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Bounds [batch, nodes] after one sweep up and down."""
        lows, highs = list(lower.unbind(dim=1)), list(upper.unbind(dim=1))
        for node in self.connectives:
            at, (low, high) = self.place[node], self._sums(node, lows, highs, parameters[node])
            lows[at] = torch.maximum(lows[at], low.clamp(0.0, 1.0))
            highs[at] = torch.minimum(highs[at], high.clamp(0.0, 1.0))
        for node in reversed(self.connectives):
            self._down(node, lows, highs, parameters[node])
        return torch.stack(lows, dim=1), torch.stack(highs, dim=1)

    def sums(self, lower: Tensor, upper: Tensor, parameters: Parameters, leak: float) -> tuple[Tensor, Tensor]:
        """Smallest and largest s of every connective, and the bounds of atoms [batch, nodes], differentiable by the
        parameters: a share `leak` of what exceeds 0 and 1 is propagated so that gradients do not vanish."""
        own, parts = (list(lower.unbind(dim=1)), list(upper.unbind(dim=1))), (list(lower.T), list(upper.T))
        for node in self.connectives:
            at = self.place[node]
            for i, s in enumerate(self._sums(node, *parts, parameters[node])):
                own[i][at], parts[i][at] = s, s.clamp(0.0, 1.0) + leak * (s - s.clamp(0.0, 1.0))
        return torch.stack(own[0], dim=1), torch.stack(own[1], dim=1)

    def _sums(
        self, node: Formula, lower: list[Tensor], upper: list[Tensor], p: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Smallest and largest s of a connective [batch]."""
        constant, worst, best, _ = self._extremes(node, lower, upper, p)
        return constant + worst.sum(dim=1), constant + best.sum(dim=1)

    def _down(self, node: Formula, lower: list[Tensor], upper: list[Tensor], p: tuple[Tensor, Tensor]) -> None:
        constant, worst, best, slopes = self._extremes(node, lower, upper, p)
        at = self.place[node]
        # A bound of 0 or 1, up to rounding, gives no information on a clipped s.
        above, below = lower[at] > CONVERGED, upper[at] < 1.0 - CONVERGED
        for k, part in enumerate(node.parts):
            a, i = slopes[k], self.place[part]
            if a == 0:
                continue
            # Bounds of a_k x_k, if the connective is not clipped.
            least = lower[at] - constant - (best.sum(dim=1) - best[:, k])
            most = upper[at] - constant - (worst.sum(dim=1) - worst[:, k])
            low, high = (least / a, most / a) if a > 0 else (most / a, least / a)
            of_low, of_high = (above, below) if a > 0 else (below, above)
            lower[i] = torch.where(of_low, torch.maximum(lower[i], low.clamp(0.0, 1.0)), lower[i])
            upper[i] = torch.where(of_high, torch.minimum(upper[i], high.clamp(0.0, 1.0)), upper[i])

    def _extremes(
        self, node: Formula, lower: list[Tensor], upper: list[Tensor], p: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """c, smallest and largest a_k x_k [batch, parts], and a [parts] of a connective."""
        weight, bias = p
        constant, slopes = CONNECTIVES[node.word].affine(weight[None], bias[None])
        places = [self.place[part] for part in node.parts]
        low, high = (torch.stack([b[i] for i in places], dim=1) * slopes[0] for b in (lower, upper))
        return constant[0], torch.minimum(low, high), torch.maximum(low, high), slopes[0]


def as_bounds(given: Bounds | float) -> Bounds:
    """The given bounds, or equal bounds for a known truth value."""
    return given if isinstance(given, Bounds) else Bounds(float(given), float(given))


def infer(formulas: Sequence[Formula], known: Example) -> Inferred:
    """Infer the bounds of all formulas and their parts from known ones.

    Args:
        formulas: formulas to be inferred; known ones are added.
        known: bounds of formulas, or their truth.

    Raises:
        ValueError: bounds are outside [0, 1], or a lower one is above the upper one.

    >>> from odediscovery.units.logic.formulas import atom
    >>> x, y = atom("x"), atom("y")
    >>> infer([y], {x >> y: 1.0, x: 1.0})[y]
    Bounds(lower=1.0, upper=1.0)
    """
    for formula, given in known.items():
        bound = as_bounds(given)
        if not 0.0 <= bound.lower <= bound.upper <= 1.0:
            raise ValueError(f"bounds lie between 0 and 1, the lower one first, got {bound} of {formula}")
    network = Network([*formulas, *known])
    (lower, upper), parameters, sweeps, change = network.known([known]), network.parameters(), 0, 1.0
    # After a contradiction, bounds are meaningless.
    while change >= CONVERGED and sweeps < 1000 and not bool((lower > upper + CONVERGED).any()):
        sweeps += 1
        before = lower, upper
        lower, upper = network.sweep(lower, upper, parameters)
        change = max(float((lower - before[0]).max()), float((before[1] - upper).max()))
    found = zip(network.nodes, lower[0].tolist(), upper[0].tolist(), strict=True)
    # Adding 0 turns -0 into 0.
    return Inferred({node: Bounds(low + 0.0, high + 0.0) for node, low, high in found}, sweeps)
