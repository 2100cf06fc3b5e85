"""The objective of training: windows as tensors, and the loss of a network on them with its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from odediscovery.fitting.windows import Windows
from odediscovery.networks.vector_field import VectorField
from odediscovery.runtime.arrays import Array, Indices
from odediscovery.solve.adjoint import interval_ends
from odediscovery.solve.fixed_step import LinearControls
from odediscovery.solve.shapes import Ends, Theta


@dataclass(frozen=True, eq=False)
class TrainingWindows:
    """B windows of L intervals of n states, as tensors that may lie on a GPU.

    Args:
        plain: the windows as arrays, see there what the tensors of the same names are.
        gradients: how the loss is differentiated, see `solve.adjoint.interval_ends`.
    """

    plain: Windows
    start: Float[Tensor, "windows states"]
    duration: Float[Tensor, "windows intervals"]
    target: Float[Tensor, "windows intervals states"]
    weight: Float[Tensor, "windows intervals states"]
    grid: Int[Tensor, "windows intervals"]
    controls: LinearControls | None = None
    gradients: str = "closed-form"

    @classmethod
    def of(cls, plain: Windows, gradients: str = "closed-form", device: torch.device | None = None) -> TrainingWindows:
        """Windows as tensors on a device (default: the processor)."""

        def tensor(values: Array | Indices) -> Tensor:
            return torch.as_tensor(values, device=device)

        own = plain.controls
        controls = None if own is None else LinearControls(tensor(own.entry), tensor(own.slope))
        start, duration, target = tensor(plain.start), tensor(plain.duration), tensor(plain.target)
        return cls(plain, start, duration, target, tensor(plain.weight), tensor(plain.grid), controls, gradients)

    def predict(self, field: VectorField, theta: Theta) -> Ends:
        """States at the end of every interval, [members, B, L, n]."""
        x, found = self.start.expand(theta.shape[0], *self.start.shape), []
        for j in range(self.target.shape[1]):
            own = self.controls and self.controls.at((slice(None), j))
            x = interval_ends(field, theta, x, self.duration[:, j], self.grid[:, j], own, self.gradients)
            found.append(x)
        return torch.stack(found, dim=2)

    def loss(self, field: VectorField, theta: Theta) -> Float[Tensor, " members"]:
        """Mean squared weighted residual of every member, [members]."""
        residual = (self.predict(field, theta) - self.target) * self.weight
        return residual.square().sum(dim=(1, 2, 3)) / (self.weight > 0).sum()

    def refined(self, field: VectorField, theta: Theta, accuracy: float) -> TrainingWindows:
        """The same windows with step grids fine enough for these members, see `Windows.refined`."""
        rhs, device = field.rhs(theta), self.start.device

        @torch.no_grad()
        def on_arrays(x: Array) -> Array:
            found: Array = rhs(torch.as_tensor(x, device=device)).cpu().numpy()
            return found

        finer = self.plain.refined_for(on_arrays, len(theta), accuracy)
        return TrainingWindows.of(finer, self.gradients, device)
