"""The Neural Status Register: comparisons of two of the features, learned by gradient descent.

    d = sum_k D_k x_k,  D = softmax(left) - softmax(right)      difference of two chosen operands
    B+ = tanh(lambda d),  B0 = 1 - 2 tanh(lambda d)^2           sign bit and zero bit
    y = sigmoid(sum_r (sign_r B+_r + zero_r B0_r + bias_r))     over `redundancy` copies

A processor's status register sets a sign and a zero bit after a subtraction, and every
comparison follows from them; here the bits are differentiable. By the softmax the weights of each
operand sum to 1, so that equal features differ by exactly 0 at any magnitude, and for two
features d has the sign of their difference. This is why it extrapolates to 1e13.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy
import torch
from scipy.special import softmax
from torch import Tensor

from odediscovery.runtime.arrays import Array
from odediscovery.units.base import AbstractUnit, Arrays, Initialiser, Tensors, exact, weighted_sum

# Relation between the operands by the verdicts on d < 0, d = 0 and d > 0.
RELATIONS = {
    (False, False, True): sympy.Gt,
    (True, False, False): sympy.Lt,
    (False, True, True): sympy.Ge,
    (True, True, False): sympy.Le,
    (False, True, False): sympy.Eq,
    (True, False, True): sympy.Ne,
}


class NSR(AbstractUnit):
    """Comparisons y_j = sigmoid(sum_r sign_jr tanh(lambda d_jr) + zero_jr (1 - 2 tanh(lambda d_jr)^2) + bias_jr).

    Args:
        scale: lambda; differences well above 1 / lambda count as not zero.
        redundancy: copies of every comparison, each with its own operands, whose evidence is
            added, so that one copy in a poor local minimum does not decide.

    Raises:
        ValueError: `scale` is not positive, or `redundancy` is below 1.

    Source: Faber and Wattenhofer, Neural Status Registers (2020). Choosing the operands by a
    softmax is our addition: it keeps equality exact far outside the training range.

    >>> unit = NSR(2, 1)
    >>> values = {"left": [30.0, 0.0], "right": [0.0, 30.0], "sign": [9.0], "zero": [-9.0],
    ...           "bias": [0.0]}
    >>> for key, value in values.items():
    ...     p = getattr(unit, key)
    ...     _ = p.data.copy_(torch.tensor(value).reshape(p.shape))
    >>> unit(torch.tensor([[2e13, 1e13], [1e13, 2e13]])).flatten().round().tolist()
    [1.0, 0.0]
    """

    def __init__(self, n_in: int, n_out: int, *, scale: float = 1.0, redundancy: int = 1, **base: Any) -> None:
        if not (scale > 0 and redundancy >= 1):
            raise ValueError(f"scale must be positive and redundancy at least 1, got {scale} and {redundancy}")
        self.scale, self.redundancy = scale, redundancy
        super().__init__(n_in, n_out, **base)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        copies = (self.n_out, self.redundancy)
        return dict.fromkeys(("left", "right"), (*copies, self.n_in)) | dict.fromkeys(("sign", "zero", "bias"), copies)

    def initialisers(self) -> Mapping[str, Initialiser]:
        return dict.fromkeys(self.shapes(), self._copies_by_glorot) | {"bias": "zeros"}

    def _copies_by_glorot(self, value: Tensor, generator: torch.Generator | None = None) -> None:
        """Initialise all copies of all comparisons as the rows of one matrix."""
        torch.nn.init.xavier_uniform_(value.view(self.n_out * self.redundancy, -1), generator=generator)

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        chosen = torch.softmax(p["left"], dim=-1) - torch.softmax(p["right"], dim=-1)
        d = torch.einsum("...ork,...bk->...bor", chosen, x)
        positive = torch.tanh(self.scale * d)
        zero = 1.0 - 2.0 * positive.square()
        sign_weight, zero_weight, bias = (p[n][..., None, :, :] for n in ("sign", "zero", "bias"))
        return torch.sigmoid((sign_weight * positive + zero_weight * zero + bias).sum(dim=-1))

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        chosen = softmax(p["left"], axis=-1) - softmax(p["right"], axis=-1)
        rows = []
        for j in range(self.n_out):
            logit = sympy.S.Zero
            for r, d in enumerate(weighted_sum(chosen[j], x)):
                positive = sympy.tanh(exact(self.scale) * d)
                sign, zero, bias = (exact(p[n][j, r]) for n in ("sign", "zero", "bias"))
                logit += sign * positive + zero * (1 - 2 * positive**2) + bias
            rows.append(1 / (1 + sympy.exp(-logit)))
        return rows

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Basic]:
        """The comparison that each output has learned, as a sympy relational or true or false.

        The limit of `symbolic` for sharp bits (lambda to infinity) and sharp operands. The
        evidence of copies that compare the same two features, in either order, is added; pairs
        with less evidence are ignored.
        """
        chosen = softmax(p["left"], axis=-1) - softmax(p["right"], axis=-1)
        rows: list[sympy.Basic] = []
        for j in range(self.n_out):
            evidence: dict[tuple[int, int], Array] = defaultdict(lambda: np.zeros(3))
            for r in range(self.redundancy):
                first, second = int(np.argmax(chosen[j, r])), int(np.argmin(chosen[j, r]))
                turn = 1.0 if first <= second else -1.0
                pair = (min(first, second), max(first, second))
                evidence[pair] += [abs(p["sign"][j, r]) + abs(p["zero"][j, r]), turn * p["sign"][j, r], p["zero"][j, r]]
            pair, (_, sign, zero) = max(evidence.items(), key=lambda item: item[1][0])
            rows.append(_relation(x[pair[0]], x[pair[1]], sign, zero, p["bias"][j].sum()))
        return rows


def _relation(first: sympy.Expr, second: sympy.Expr, sign: float, zero: float, bias: float) -> sympy.Basic:
    """The verdicts on first - second < 0, = 0 and > 0, as a relation."""
    said = (bool(bias - zero - sign > 0), bool(bias + zero > 0), bool(bias - zero + sign > 0))
    if said not in RELATIONS:
        return sympy.true if all(said) else sympy.false
    return RELATIONS[said](first, second)
