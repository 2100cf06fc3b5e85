"""Levenberg-Marquardt on a chain of units, continuing from Adam, all members at once.

A wide chain is thinned first, because the cost grows with the cube of the number of unknowns.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from odediscovery.experiments.regression import layers, parameters_of
from odediscovery.fitting.levenberg_marquardt import levenberg_marquardt
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.units import NAU, NMU, RealNPU

# Least weight of a kept NMU factor (at 0 it has no gradient), least |value| behind a logarithm,
# ridge of the exponents' regression, largest ln of the constant that it hands to a hidden unit.
LEAST_FACTOR, TINY, RIDGE, LARGEST_SHIFT = 0.02, 1e-12, 1e-2, 12.0


class ChainResiduals:
    """weight (network(x) - y) of members that carry their number.

    Levenberg-Marquardt drops members that have converged; the last unknown, which is not free,
    says whose data are meant. The others are the parameters that ask for gradients, unit by unit.

    Args:
        whole: weight of one more residual w (1 - w^2) for each unknown w, which draws it to -1, 0 or 1.
    """

    def __init__(self, network: nn.Sequential, x: Tensor, y: Tensor, weight: Tensor, whole: float = 0.0) -> None:
        self.units = layers(network)
        self.x, self.y, self.weight, self.whole = x, y, weight, whole

    def gathered(self) -> Tensor:
        """The unknowns as the network has them, [members, unknowns]."""
        parts = [v.detach().flatten(1) for u in self.units for v in parameters_of(u).values() if v.requires_grad]
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

    def solve(self, unknowns: Array) -> Array:
        """The residuals themselves: a chain has nothing to solve."""
        found: Array = self._forward(torch.as_tensor(unknowns))[0].numpy()
        return found

    def residuals(self, unknowns: Array, solved: Array | None = None) -> Array:
        """[members, samples x outputs], then those of whole numbers if they count."""
        own = self.solve(unknowns) if solved is None else solved
        w = unknowns[:, :-1]
        return np.concatenate([own, self.whole * w * (1.0 - w * w)], axis=1) if self.whole else own

    def linearised(self, unknowns: Array, free: Mask, solved: Array | None = None) -> tuple[Array, Array]:
        """Residuals and their Jacobian [members, residuals, unknowns]."""
        residuals, jacobian = self._linearised(torch.as_tensor(unknowns))
        return self.residuals(unknowns, residuals.numpy()), jacobian.numpy()

    def _linearised(self, unknowns: Tensor) -> tuple[Tensor, Tensor]:
        residuals, inputs = self._forward(unknowns)
        chain = self.parameters(unknowns)
        weight = self.weight[unknowns[:, -1].long()]
        cotangents = torch.diag_embed(weight)
        parts = [torch.zeros_like(residuals)[..., None]]
        for unit, p, x in reversed(list(zip(self.units, chain, inputs, strict=True))):
            cotangents, gradients = unit.pull(p, x, cotangents)
            own = [gradients[name].flatten(3) for name, v in parameters_of(unit).items() if v.requires_grad]
            parts[:0] = [g.flatten(1, 2) for g in own]
        jacobian = torch.cat(parts, dim=-1)
        if self.whole:
            w = unknowns[:, :-1]
            drawn = torch.diag_embed(self.whole * (1.0 - 3.0 * w * w))
            jacobian = torch.cat([jacobian, torch.nn.functional.pad(drawn, (0, 1))], dim=1)
        return residuals, jacobian

    def _forward(self, unknowns: Tensor) -> tuple[Tensor, list[Tensor]]:
        which, inputs = unknowns[:, -1].long(), []
        x = self.x[which]
        for unit, p in zip(self.units, self.parameters(unknowns), strict=True):
            inputs.append(x)
            x = unit.compute(p, x)
        return ((x - self.y[which]) * self.weight[which]).flatten(1), inputs


def refit(
    network: nn.Sequential, x: Tensor, y: Tensor, weight: Tensor, steps: int, tolerance: float, whole: float = 0.0
) -> Tensor:
    """argmin sum (weight (network(x) - y))^2 over what asks for gradients, in place.

    Args:
        network: chain of units with a members axis.
        x: samples of every member [members, samples, inputs].
        y, weight: targets and their weights [members, samples, outputs].
        steps, tolerance: of `levenberg_marquardt`.
        whole: how much whole weights count beside the samples, see `ChainResiduals`.

    Returns:
        The sum of squares of each member, [members].
    """
    problem = ChainResiduals(network, x, y, weight, whole)
    unknowns: Array = problem.gathered().numpy()
    free = np.ones(unknowns.shape, dtype=bool)
    free[:, -1] = False
    fitted = levenberg_marquardt(problem, unknowns, free, steps, tolerance=tolerance)
    for unit, p in zip(problem.units, problem.parameters(torch.as_tensor(fitted.unknowns)), strict=True):
        for name, value in parameters_of(unit).items():
            value.data.copy_(p[name])
    return torch.as_tensor(fitted.sum_of_squares)


@torch.no_grad()
def thinned(network: nn.Sequential, x: Tensor, y: Tensor, kept: int) -> nn.Sequential:
    """The `kept` hidden units of every member whose factors vary most, as a chain of its own.

    Args:
        network: NAU, then an NMU, an NPU or a RealNPU with one output.
        x, y: samples that all members share, [1, samples, inputs] and [1, samples, 1].

    Returns:
        NAU, then an NMU or a RealNPU: gates are 1 and fixed, imaginary parts are left out, and
        exponents begin where they fit ln |y| best.
    """
    sums, products = layers(network)
    h = sums(x)
    if isinstance(products, NMU):
        weight = products.weight[:, None, 0].clamp(0.0, 1.0)
        size = (weight * h + 1.0 - weight).abs().clamp_min(TINY).log()
    else:
        p = parameters_of(products)
        gate = p["gate"][:, None].clamp(0.0, 1.0)
        size = (gate * h.abs() + 1.0 - gate).clamp_min(TINY).log() * p["real"]
    best = size.std(dim=1).nan_to_num(0.0).argsort(dim=1, descending=True)[:, :kept]
    members, inputs = len(best), x.shape[-1]
    first = NAU(inputs, kept, members=members, dtype=torch.float64)
    chosen = best[:, :, None].expand(-1, -1, inputs)
    first.weight.data.copy_(parameters_of(sums)["weight"].gather(1, chosen))
    if isinstance(products, NMU):
        factors = NMU(kept, 1, members=members, dtype=torch.float64)
        own = products.weight.gather(2, best[:, None]).clamp(LEAST_FACTOR, 1.0)
        factors.weight.data.copy_(own)
        return nn.Sequential(first, factors)
    powers = RealNPU(kept, 1, members=members, dtype=torch.float64)
    powers.gate.data.fill_(1.0)
    powers.gate.requires_grad_(False)
    _regress(first, powers, x, y)
    return nn.Sequential(first, powers)


def _regress(first: NAU, powers: RealNPU, x: Tensor, y: Tensor) -> None:
    """Exponents from ln |y| = sum p_k ln |h_k| + c; c becomes the scale of the strongest h_k."""
    h = first(x).abs().clamp_min(TINY).log()
    target = y.abs().clamp_min(TINY).log()
    centred = h - h.mean(dim=1, keepdim=True)
    normal = centred.mT @ centred
    ridge = RIDGE * normal.diagonal(dim1=1, dim2=2) + TINY * h.shape[1]
    p = torch.linalg.solve(normal + torch.diag_embed(ridge), centred.mT @ (target - target.mean(dim=1, keepdim=True)))
    constant = (target.mean(dim=1) - (h.mean(dim=1, keepdim=True) @ p)[:, 0])[:, 0]
    members, strongest = torch.arange(len(p)), p[..., 0].abs().argmax(dim=1)
    shift = (constant / p[members, strongest, 0]).nan_to_num(0.0)
    powers.real.data.copy_(p.mT)
    first.weight.data[members, strongest] *= shift.clamp(-LARGEST_SHIFT, LARGEST_SHIFT).exp()[:, None]


@torch.no_grad()
def embed(thin: nn.Sequential, chosen: Tensor, network: nn.Sequential, into: Tensor) -> None:
    """Write members `chosen` of a thinned chain into members `into` of a wide one.

    The thin chain's hidden units come first; the others get weight, gate and exponent 0.
    """
    for small, large in zip(layers(thin), layers(network), strict=True):
        values = parameters_of(small)
        for name, value in parameters_of(large).items():
            value.data[into] = 0.0
            if name in values:
                _write(value, values[name][chosen], into)


def _write(value: Tensor, part: Tensor, into: Tensor) -> None:
    corner = tuple(slice(size) for size in part.shape[1:])
    whole = value.data[into]
    whole[(slice(None), *corner)] = part.to(whole)
    value.data[into] = whole
