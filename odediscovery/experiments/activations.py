"""The nonlinearities of the dense nets that the papers set beside arithmetic units."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class PReLU(nn.Module):
    """max(x, 0) + a min(x, 0) with one trained slope a a member, 0.25 at first as in torch."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((members, 1, 1), 0.25, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """The activation, elementwise; x [members, batch, features]."""
        return x.clamp(min=0.0) + self.slope * x.clamp(max=0.0)


ACTIVATIONS: dict[str, Callable[[int], nn.Module]] = {
    "ReLU": lambda _: nn.ReLU(),
    "Sigmoid": lambda _: nn.Sigmoid(),
    "Tanh": lambda _: nn.Tanh(),
    "ReLU6": lambda _: nn.ReLU6(),
    "LeakyReLU": lambda _: nn.LeakyReLU(),
    "ELU": lambda _: nn.ELU(),
    "SELU": lambda _: nn.SELU(),
    "PReLU": PReLU,
    "Swish": lambda _: nn.SiLU(),
}
