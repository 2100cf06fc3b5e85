"""The dense and the linear layer, baselines without arithmetic structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import Tensor

from odediscovery.units.base import AbstractUnit, Arrays, Tensors, exact, linear, weighted_sum

ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[sympy.Expr], sympy.Expr]]] = {
    "identity": (lambda x: x, lambda x: x),
    "tanh": (torch.tanh, sympy.tanh),
    "sigmoid": (torch.sigmoid, lambda x: 1 / (1 + sympy.exp(-x))),
}


class Dense(AbstractUnit):
    """A dense layer y = activation(W x + b).

    Args:
        activation: "identity", "tanh" (the fSIR baseline) or "sigmoid".

    Raises:
        ValueError: the activation is unknown.

    Source: the baseline of Heim et al. (2020), Sec. 4.

    >>> unit = Dense(1, 1)
    >>> _ = unit.weight.data.fill_(2.0), unit.bias.data.fill_(1.0)
    >>> unit(torch.tensor([3.0])).item()
    7.0
    """

    def __init__(self, n_in: int, n_out: int, *, activation: str = "identity", **base: Any) -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        super().__init__(n_in, n_out, **base)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.n_out, self.n_in), "bias": (self.n_out,)}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation][0](linear(x, p["weight"], p["bias"]))

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        sums = weighted_sum(p["weight"], x)
        activation = ACTIVATIONS[self.activation][1]
        return [activation(e + exact(b)) for e, b in zip(sums, p["bias"], strict=True)]


class Linear(AbstractUnit):
    """A linear layer y = W x without bias, the baseline for the arithmetic units.

    >>> unit = Linear(2, 1)
    >>> _ = unit.weight.data.fill_(0.5)
    >>> unit(torch.tensor([3.0, 1.0])).item()
    2.0
    """

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.n_out, self.n_in)}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        return linear(x, p["weight"])

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        return weighted_sum(p["weight"], x)
