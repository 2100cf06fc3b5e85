"""Levenberg-Marquardt on a chain of units: what Adam leaves off, all members at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from odediscovery.experiments.regression import layers, parameters_of
from odediscovery.optimise import levenberg_marquardt


class ChainResiduals:
    """weight (network(x) - y) of members that carry their number.

    Levenberg-Marquardt drops members that have converged; the last unknown, which is not free,
    says whose data are meant. The others are the parameters that ask for gradients, unit by unit.
    """

    def __init__(self, network: nn.Sequential, x: Tensor, y: Tensor, weight: Tensor) -> None:
        self.units = layers(network)
        self.x, self.y, self.weight = x, y, weight

    def gathered(self) -> Tensor:
        """The unknowns as the network has them, [members, unknowns]."""
        parts = [v.detach().flatten(1) for u in self.units
                 for v in parameters_of(u).values() if v.requires_grad]  # fmt: skip
        number = torch.arange(len(parts[0]), dtype=parts[0].dtype)[:, None]
        return torch.cat([*parts, number], dim=1)

    def parameters(self, unknowns: Tensor) -> list[dict[str, Tensor]]:
        """Parameters of every unit at these unknowns; the fixed ones as the network has them."""
        which, begin, chain = unknowns[:, -1].long(), 0, []
        for unit in self.units:
            p = {name: value.detach()[which] for name, value in parameters_of(unit).items()}
            for name, value in parameters_of(unit).items():
                if value.requires_grad:
                    end = begin + p[name][0].numel()
                    p[name] = unknowns[:, begin:end].reshape(p[name].shape)
                    begin = end
            chain.append(p)
        return chain

    def residuals(self, unknowns: Tensor) -> Tensor:
        """[members, samples x outputs]."""
        return self._forward(unknowns)[0]

    def linearised(self, unknowns: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals and their Jacobian [members, residuals, unknowns]."""
        residuals, inputs = self._forward(unknowns)
        chain = self.parameters(unknowns)
        weight = self.weight[unknowns[:, -1].long()]
        cotangents = torch.diag_embed(weight)
        parts = [torch.zeros_like(residuals)[..., None]]
        for unit, p, x in reversed(list(zip(self.units, chain, inputs, strict=True))):
            cotangents, gradients = unit.pull(p, x, cotangents)
            own = [gradients[name].flatten(3) for name, v in parameters_of(unit).items()
                   if v.requires_grad]  # fmt: skip
            parts[:0] = [g.flatten(1, 2) for g in own]
        return residuals, torch.cat(parts, dim=-1)

    def _forward(self, unknowns: Tensor) -> tuple[Tensor, list[Tensor]]:
        which, inputs = unknowns[:, -1].long(), []
        x = self.x[which]
        for unit, p in zip(self.units, self.parameters(unknowns), strict=True):
            inputs.append(x)
            x = unit.compute(p, x)
        return ((x - self.y[which]) * self.weight[which]).flatten(1), inputs


def refit(
    network: nn.Sequential, x: Tensor, y: Tensor, weight: Tensor, steps: int, tolerance: float
) -> Tensor:
    """argmin sum (weight (network(x) - y))^2 over what asks for gradients, in place.

    Args:
        network: chain of units with a members axis.
        x: samples of every member [members, samples, inputs].
        y, weight: targets and their weights [members, samples, outputs].
        steps, tolerance: of `levenberg_marquardt`.

    Returns:
        The sum of squares of each member, [members].
    """
    problem = ChainResiduals(network, x, y, weight)
    unknowns = problem.gathered()
    free = torch.ones_like(unknowns, dtype=torch.bool)
    free[:, -1] = False
    fitted = levenberg_marquardt(problem, unknowns, free, steps, tolerance=tolerance)
    for unit, p in zip(problem.units, problem.parameters(fitted.unknowns), strict=True):
        for name, value in parameters_of(unit).items():
            value.data.copy_(p[name])
    return fitted.sum_of_squares
