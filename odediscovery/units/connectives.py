"""Connectives of weighted real-valued logic: neurons of a Logical Neural Network.

    y = min(max(s, 0), 1)
    And      s = beta - sum_k w_k (1 - x_k)
    Or       s = 1 - beta + sum_k w_k x_k
    Not      s = beta - sum_k w_k x_k                                      none of the x
    Implies  s = 1 - beta + sum_k w_k (1 - x_k) + w_n x_n                  all but the last imply the last

x and y are degrees of truth, 0 (false) to 1 (true); w_k >= 0 is the importance of an input, beta >= 0
the bias. With w = beta = 1 this is Lukasiewicz's logic, and classical logic if inputs are 0 or 1.
For inputs that are true (at least alpha) or false (at most 1 - alpha) the logic remains classical under
constraints on the weights, whose violation `regulariser` measures. An input of weight 0 has no effect.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor

from odediscovery.units.base import AbstractUnit, Arrays, Initialiser, Tensors, exact, weighted_sum


class Connective(AbstractUnit):
    """A connective y_j = min(max(c_j + sum_k a_jk x_k, 0), 1), with a and c from importances and a bias.

    Args:
        alpha: inputs of at least alpha are true, of at most 1 - alpha false; above 1/2 and used
            only by `regulariser`.

    Raises:
        ValueError: `alpha` is not above 1/2 and at most 1.

    Source: Riegel et al., Logical Neural Networks (2020), Sec. 3.

    >>> sorted(And(2, 3).shapes().items())
    [('bias', (3,)), ('weight', (3, 2))]
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, n_in: int, n_out: int, *, alpha: float = 0.9, **base: Any) -> None:
        if not 0.5 < alpha <= 1.0:
            raise ValueError(f"alpha must be above 0.5 and at most 1, got {alpha}")
        self.alpha = alpha
        super().__init__(n_in, n_out, **base)

    @staticmethod
    @abstractmethod
    def affine(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """c [..., n_out] and a [..., n_out, n_in] of `weight` [..., n_out, n_in] and `bias` [..., n_out]."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.n_out, self.n_in), "bias": (self.n_out,)}

    def initialisers(self) -> Mapping[str, Initialiser]:
        return {"weight": partial(torch.nn.init.uniform_, a=0.5, b=1.5), "bias": "ones"}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        constant, slopes = self.affine(p["weight"].clamp_min(0.0), p["bias"].clamp_min(0.0))
        return (x @ slopes.transpose(-1, -2) + constant[..., None, :]).clamp(0.0, 1.0)

    def project_(self) -> None:
        """Set weights and biases below 0 to 0."""
        self.weight.data.clamp_(min=0.0)
        self.bias.data.clamp_(min=0.0)

    def regulariser(self, p: Tensors) -> Tensor:
        """Violation, by parameters p, of the constraints for classical logic of true and false inputs, [members].

        It is 0 if the logic is classical even for inputs at the thresholds alpha and 1 - alpha. The
        violation by a single input is multiplied by its weight, so that it can be removed.
        """
        w, beta, alpha = p["weight"].clamp_min(0.0), p["bias"].clamp_min(0.0), self.alpha
        together = (alpha - (beta - (1.0 - alpha) * w.sum(dim=-1))).clamp_min(0.0)
        alone = (beta[..., None] - alpha * w - (1.0 - alpha)).clamp_min(0.0) * w
        return together.sum(dim=-1) + alone.sum(dim=(-1, -2))

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        constant, slopes = self._affine_arrays(p)
        return [
            sympy.Min(sympy.Max(exact(c) + s, 0), 1) for c, s in zip(constant, weighted_sum(slopes, x), strict=True)
        ]

    def snapped(self, p: Arrays, x: Sequence[sympy.Basic]) -> list[sympy.Basic]:
        """The classical formula of each output [n_out]: whether it exceeds 1/2 for inputs of 0 and 1.

        Raises:
            ValueError: more than 12 inputs have a non-zero weight.
        """
        return [_formula(float(c), a, x) for c, a in zip(*self._affine_arrays(p), strict=True)]

    def _affine_arrays(self, p: Arrays) -> tuple[Any, Any]:
        weight, bias = (torch.as_tensor(p[name]).clamp_min(0.0) for name in ("weight", "bias"))
        constant, slopes = self.affine(weight, bias)
        return constant.numpy(), slopes.numpy()


def _formula(constant: float, slopes: Any, x: Sequence[sympy.Basic]) -> sympy.Basic:
    """The minimal sets of literals that make constant + slopes x larger than 1/2, as a sympy formula."""
    literals = [(abs(a), e if a > 0 else sympy.Not(e)) for a, e in zip(slopes.tolist(), x, strict=True) if a]
    if len(literals) > 12:  # the formula would be too long to read
        raise ValueError(f"a formula of at most 12 inputs can be read, got {len(literals)}")
    least = constant + float(np.minimum(slopes, 0.0).sum())
    found: list[frozenset[int]] = []
    for size in range(len(literals) + 1):
        for chosen in map(frozenset, itertools.combinations(range(len(literals)), size)):
            enough = least + sum(literals[k][0] for k in chosen) > 0.5
            if enough and not any(smaller <= chosen for smaller in found):
                found.append(chosen)
    return sympy.Or(*[sympy.And(*[literals[k][1] for k in sorted(chosen)]) for chosen in found])


class And(Connective):
    """True if all x are: y = min(max(beta - sum_k w_k (1 - x_k), 0), 1).

    >>> unit = And(2, 1)
    >>> _ = unit.weight.data.fill_(1.0)
    >>> unit(torch.tensor([0.75, 0.5])).item()
    0.25
    """

    @staticmethod
    def affine(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return bias - weight.sum(dim=-1), weight


class Or(Connective):
    """True if one x is: y = min(max(1 - beta + sum_k w_k x_k, 0), 1).

    >>> unit = Or(2, 1)
    >>> _ = unit.weight.data.fill_(1.0)
    >>> unit(torch.tensor([0.25, 0.5])).item()
    0.75
    """

    @staticmethod
    def affine(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return 1.0 - bias, weight


class Not(Connective):
    """True if no x is, the negation of a single x: y = min(max(beta - sum_k w_k x_k, 0), 1).

    >>> unit = Not(1, 1)
    >>> _ = unit.weight.data.fill_(1.0)
    >>> unit(torch.tensor([0.25])).item()
    0.75
    """

    @staticmethod
    def affine(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return bias, -weight


class Implies(Connective):
    """True if x_n is, or another x is not: y = min(max(1 - beta + sum_k w_k (1 - x_k) + w_n x_n, 0), 1).

    Raises:
        ValueError: there is no input besides the last.

    >>> unit = Implies(2, 1)
    >>> _ = unit.weight.data.fill_(1.0)
    >>> unit(torch.tensor([1.0, 0.25])).item()
    0.25
    """

    def __init__(self, n_in: int, n_out: int, **base: Any) -> None:
        if n_in < 2:
            raise ValueError(f"an implication needs at least 2 inputs, the last one implied, got {n_in}")
        super().__init__(n_in, n_out, **base)

    @staticmethod
    def affine(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        before = weight[..., :-1]
        return 1.0 - bias + before.sum(dim=-1), torch.cat([-before, weight[..., -1:]], dim=-1)
