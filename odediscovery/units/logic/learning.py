"""Learning of the weights of a formula from examples, under the constraints of classical logic.

    loss = mean over examples of max(0, L - U)  +  penalty * constraints  +  l1 * sum of weights

where L > U is the contradiction between the bounds that the formula computes and those that were observed, and the
constraints are the connectives' regularisers. Sums are compared before they are clipped to 0 and 1, because a clipped
connective would have no gradient.

Source: Riegel et al., Logical Neural Networks (2020), Sec. 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from odediscovery.units.logic.formulas import CONNECTIVES, Formula
from odediscovery.units.logic.inference import Example, Network, Parameters


@dataclass(frozen=True)
class Learning:
    """Options of learning.

    Args:
        alpha: values of at least alpha count as true, of at most 1 - alpha as false.
        steps: number of steps of Adam.
        rate: its learning rate.
        penalty: weight of the constraints, reached after the first half of the steps.
        l1: weight of the sum of all weights.
        small: share of the largest weight of a connective below which a weight is set to 0.
        leak: share of the excess of parts beyond 0 and 1 that is propagated.

    >>> Learning(steps=50).penalty
    0.1
    """

    alpha: float = 0.95
    steps: int = 200
    rate: float = 0.06
    penalty: float = 0.1
    l1: float = 0.002
    small: float = 0.25
    leak: float = 0.1


@dataclass(frozen=True)
class Learnt:
    """A formula with learnt weights.

    Args:
        formula: the same parts with learnt weights; small ones are 0.
        contradiction: mean remaining contradiction with the examples.
        violation: violation of the constraints, before small weights were set to 0.

    >>> from odediscovery.units.logic.formulas import atom
    >>> Learnt(atom("x") | ~atom("y"), 0.0, 0.0).words()
    'x or not y'
    """

    formula: Formula
    contradiction: float
    violation: float

    def words(self) -> str:
        """The classical formula of its weights, in words."""
        return str(self.formula.snapped()).replace("&", "and").replace("|", "or").replace("~", "not ")


def learn(formula: Formula, examples: Sequence[Example], how: Learning | None = None) -> Learnt:
    """Learn the weights with which a formula contradicts the examples least.

    The weights of all its connectives except negations are learnt.

    Args:
        formula: the formula, with initial weights.
        examples: known truth of the formula and its parts in each example; missing ones are unknown.
        how: steps, rates and penalties.

    Raises:
        ValueError: there are no examples.

    >>> from odediscovery.units.logic.formulas import atom
    >>> x, y = atom("x"), atom("y")
    >>> rule = x & y
    >>> learn(rule, [{x: a, y: b, rule: a} for a in (0, 1) for b in (0, 1)]).words()
    'x'
    """
    if not examples:
        raise ValueError("weights are learnt from examples, got none")
    how, network = how or Learning(), Network([formula])
    lower, upper = network.known(examples)
    # Only observations of atoms and negations propagate up; those of learnt connectives are compared with the result.
    own = torch.tensor([bool(node.parts) and node.word != "not" for node in network.nodes])
    below, above = torch.where(own, 0.0, lower), torch.where(own, 1.0, upper)
    parameters = network.parameters()
    learnt = [node for node in network.connectives if node.word != "not"]
    leaves = [p.requires_grad_() for node in learnt for p in parameters[node]]

    def contradiction() -> Tensor:
        low, high = network.sums(below, above, parameters, how.leak)
        # Bounds of 0 below and 1 above are no observations.
        over = torch.where(upper < 1.0, low - upper, 0.0).clamp_min(0.0)
        under = torch.where(lower > 0.0, lower - high, 0.0).clamp_min(0.0)
        apart = over + under
        # Beyond 1 only a share of a contradiction counts, to limit the influence of wrong examples.
        return (apart.clamp_max(1.0) + how.leak * (apart - 1.0).clamp_min(0.0))[:, own].sum(dim=1).mean()

    def violation() -> Tensor:
        return torch.stack([_violation(node, parameters[node], how.alpha) for node in learnt]).sum()

    optimiser = torch.optim.Adam(leaves, lr=how.rate)
    for step in range(how.steps):
        optimiser.zero_grad()
        size = torch.stack([parameters[node][0].sum() for node in learnt]).sum()
        penalty = how.penalty * min(2.0 * step / how.steps, 1.0)
        (contradiction() + penalty * violation() + how.l1 * size).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            for leaf in leaves:
                leaf.clamp_(min=0.0)
    with torch.no_grad():
        left, broken = float(contradiction()), float(violation())
    return Learnt(_with(formula, parameters, how.small), left, broken)


def _violation(node: Formula, p: tuple[Tensor, Tensor], alpha: float) -> Tensor:
    unit = CONNECTIVES[node.word](len(node.parts), 1, alpha=alpha)
    return unit.regulariser({"weight": p[0][None, None], "bias": p[1][None, None]})[0]


def _with(formula: Formula, parameters: Parameters, small: float) -> Formula:
    """The formula and its parts with these weights, small ones set to 0."""
    if not formula.parts:
        return formula
    weight, bias = (p.detach() for p in parameters[formula])
    kept = torch.where(weight >= small * weight.max(), weight, 0.0)
    parts = tuple(_with(part, parameters, small) for part in formula.parts)
    return replace(formula, parts=parts).with_weights(kept.tolist(), float(bias))
