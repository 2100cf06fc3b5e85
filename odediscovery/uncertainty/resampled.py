"""Residuals of members that have each a data set of its own, in one batch.

Data enter residuals by a shift alone, (x - data*) w = (x - data) w - (data* - data) w, so that
members with drawn data share windows, step grids and Jacobians with all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from odediscovery.fitting.windows import LongResiduals


@dataclass(frozen=True, eq=False)
class ResampledResiduals:
    """Residuals of members that have each a data set of its own.

    The last unknown of a member is the number of its data set.

    Args:
        problem: the residuals of the data as they are.
        shift: (data* - data) w of every data set, [draws, R].
        factor: root of how often each residual was drawn, [draws, R].
    """

    problem: LongResiduals
    shift: Tensor
    factor: Tensor

    def solve(self, unknowns: Tensor) -> Tensor:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        return self.problem.solve(unknowns[:, :-1])

    def residuals(self, unknowns: Tensor, solved: Tensor | None = None) -> Tensor:
        """Weighted residuals [members, R]."""
        own = unknowns[:, -1].long()
        found = self.problem.residuals(unknowns[:, :-1], solved)
        return (found - self.shift[own]) * self.factor[own]

    def linearised(self, unknowns: Tensor, free: Tensor, solved: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Residuals [members, R] and Jacobian [members, R, unknowns]."""
        own = unknowns[:, -1].long()
        found, jacobian = self.problem.linearised(unknowns[:, :-1], free[:, :-1], solved)
        jacobian = torch.nn.functional.pad(jacobian, (0, 1)) * self.factor[own][..., None]
        return (found - self.shift[own]) * self.factor[own], jacobian
