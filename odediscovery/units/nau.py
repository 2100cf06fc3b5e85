"""The Neural Addition Unit: weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor

from odediscovery.units.base import AbstractUnit, Arrays, Tensors, linear, weighted_sum


class NAU(AbstractUnit):
    """Weighted sums y_j = sum_k W[j, k] x_k, with W clipped to [-1, 1] on request.

    Args:
        clip: True for the paper's clipped weights; False (default) for the plain matrix
            product of NeuralArithmetic.jl, as coefficients of an ODE require.

    Source: Madsen and Johansen, Neural Arithmetic Units (2020); Heim et al. (2020), Eq. 5.

    >>> unit = NAU(2, 1)
    >>> _ = unit.weight.data.copy_(torch.tensor([[1.0, -2.0]]))
    >>> unit(torch.tensor([3.0, 1.0])).item()
    1.0
    """

    weight: Tensor

    def __init__(self, n_in: int, n_out: int, *, clip: bool = False, **base: Any) -> None:
        self.clip = clip
        super().__init__(n_in, n_out, **base)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.n_out, self.n_in)}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        return linear(x, p["weight"].clamp(-1.0, 1.0) if self.clip else p["weight"])

    def pull(self, p: Tensors, x: Tensor, cotangents: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.clip:
            return super().pull(p, x, cotangents)
        return cotangents @ p["weight"][:, None], {"weight": cotangents[..., None] * x[:, :, None, None, :]}

    def regulariser(self, p: Tensors) -> Tensor:
        """The mean of min(|W|, |1 - |W||) [members]: 0 if every weight in p is -1, 0 or 1 (Madsen
        and Johansen).

        Heim et al. print |1 - W|, which would penalise W = -1; the unit's authors do not.
        """
        size = p["weight"].abs()
        return torch.minimum(size, (1.0 - size).abs()).mean(dim=(-1, -2))

    def project_(self) -> None:
        """Clip the weights to [-1, 1] if `clip` is set."""
        if self.clip:
            self.weight.data.clamp_(-1.0, 1.0)

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        return weighted_sum(np.clip(p["weight"], -1.0, 1.0) if self.clip else p["weight"], x)
