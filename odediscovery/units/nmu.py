"""The Neural Multiplication Unit: products of a subset of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy
import torch
from torch import Tensor

from odediscovery.units.base import AbstractUnit, Arrays, Initialiser, Tensors, exact


class NMU(AbstractUnit):
    """Products of features, y_j = prod_k (M[j, k] x_k + 1 - M[j, k]), M = min(max(weight, 0), 1).

    Each factor is a gate between x_k and 1. Signs are kept; division is not possible.

    Initial weights are uniform between 0 and 1, as in NeuralArithmetic.jl (in the authors' own code between 1/4
    and 3/4).

    Source: Madsen and Johansen, Neural Arithmetic Units (2020); Heim et al. (2020), Eq. 4.

    >>> unit = NMU(3, 1)
    >>> _ = unit.weight.data.copy_(torch.tensor([[1.0, 0.0, 1.0]]))
    >>> unit(torch.tensor([-2.0, 7.0, 3.0])).item()
    -6.0
    """

    weight: Tensor

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.n_out, self.n_in)}

    def initialisers(self) -> Mapping[str, Initialiser]:
        return {"weight": "uniform"}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        m = p["weight"].clamp(0.0, 1.0)[..., None, :, :]
        # M (x - 1) + 1 would lose digits of a small x.
        found: Tensor = (m * x[..., None, :] + (1.0 - m)).prod(dim=-1)
        return found

    def pull(self, p: Tensors, x: Tensor, cotangents: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        weight, own = p["weight"], x[..., None, :]
        m = weight.clamp(0.0, 1.0)[..., None, :, :]
        factors = m * own + (1.0 - m)
        # The product of all other factors as that of those before and after, which is exact if a factor is 0.
        one = torch.ones_like(factors[..., :1])
        before = torch.cat([one, factors[..., :-1]], dim=-1).cumprod(dim=-1)
        behind = torch.cat([one, factors.flip(-1)[..., :-1]], dim=-1).cumprod(dim=-1).flip(-1)
        of_factor = cotangents[..., None] * (before * behind)[:, :, None]
        inside = ((weight >= 0.0) & (weight <= 1.0)).to(x)[..., None, None, :, :]
        return (of_factor * m[:, :, None]).sum(dim=-2), {"weight": of_factor * (own - 1.0)[:, :, None] * inside}

    def regulariser(self, p: Tensors) -> Tensor:
        """The mean of min(M, 1 - M) [members]: 0 if every M of parameters p is 0 or 1."""
        m = p["weight"].clamp(0.0, 1.0)
        return torch.minimum(m, 1.0 - m).mean(dim=(-1, -2))

    def project_(self) -> None:
        """Clip the weights to [0, 1]."""
        self.weight.data.clamp_(0.0, 1.0)

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        return [
            sympy.Mul(*[exact(m) * e + exact(1.0 - m) for m, e in zip(row, x, strict=True)])
            for row in np.clip(p["weight"], 0.0, 1.0)
        ]

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """The product of the features whose weight is above 1/2."""
        return [sympy.Mul(*[e for w, e in zip(row, x, strict=True) if w > 0.5]) for row in p["weight"]]
