"""The Neural Accumulator and its multiplicative form: weights drawn towards -1, 0 and 1.

    W = tanh(weight) * sigmoid(mask)                 NAC:                y = W x
                                                     multiplicative NAC: y = exp(W log(|x| + eps))

The multiplicative NAC ignores signs: it multiplies and divides absolute values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy
import torch
from scipy.special import expit
from torch import Tensor

from odediscovery.runtime.arrays import Array
from odediscovery.units.base import AbstractUnit, Arrays, Tensors, exact, linear, weighted_sum

# Added to |x| before the logarithm, as in the authors' code and in NeuralArithmetic.jl.
EPSILON = 1e-8


def accumulator(weight: Tensor, mask: Tensor) -> Tensor:
    """W = tanh(weight) * sigmoid(mask), elementwise."""
    return torch.tanh(weight) * torch.sigmoid(mask)


def accumulator_array(weight: Array, mask: Array) -> Array:
    """W = tanh(weight) * sigmoid(mask) for arrays of one member."""
    opened: Array = np.tanh(weight) * expit(mask)
    return opened


def power_product(weights: Array, sizes: Sequence[sympy.Expr]) -> list[sympy.Expr]:
    """prod_k sizes_k ** W[j, k], one expression per row."""
    return [sympy.Mul(*[s ** exact(w) for w, s in zip(row, sizes, strict=True)]) for row in weights]


def rounded_product(weights: Array, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
    """prod_k x_k ** W[j, k] with exponents rounded to -1, 0 or 1, the values of saturated weights."""
    return [sympy.Mul(*[e ** int(w) for w, e in zip(row, x, strict=True)]) for row in np.rint(weights)]


class NAC(AbstractUnit):
    """Sums and differences y_j = sum_k W[j, k] x_k with W = tanh(weight) * sigmoid(mask).

    Source: Trask et al., Neural Arithmetic Logic Units (2018), Eqs. 1 and 2.

    >>> unit = NAC(2, 1)
    >>> for p in unit.parameters(): _ = p.data.fill_(30.0)
    >>> round(unit(torch.tensor([3.0, 1.0])).item(), 9)
    4.0
    """

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "mask"), (self.n_out, self.n_in))

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        return linear(x, accumulator(p["weight"], p["mask"]))

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        return weighted_sum(accumulator_array(p["weight"], p["mask"]), x)

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """The sum with weights rounded to -1, 0 or 1, the values of saturated weights."""
        return weighted_sum(np.rint(accumulator_array(p["weight"], p["mask"])), x)


class MultiplicativeNAC(NAC):
    """Products and quotients of absolute values, y_j = exp(sum_k W[j, k] log(|x_k| + eps)).

    Source: Trask et al. (2018), Eq. 2; "NAC*" of Madsen and Johansen (2020).

    >>> unit = MultiplicativeNAC(2, 1)
    >>> for p in unit.parameters(): _ = p.data.fill_(30.0)
    >>> round(unit(torch.tensor([-3.0, 2.0])).item(), 4)
    6.0
    """

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        return torch.exp(super().compute(p, torch.log(x.abs() + EPSILON)))

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        weights = accumulator_array(p["weight"], p["mask"])
        return power_product(weights, [sympy.Abs(e) + exact(EPSILON) for e in x])

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """The product with exponents rounded to -1, 0 or 1, without epsilon."""
        return rounded_product(accumulator_array(p["weight"], p["mask"]), [sympy.Abs(e) for e in x])
