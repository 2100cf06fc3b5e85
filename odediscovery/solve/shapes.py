"""Shapes of the tensors that solvers and windows share, by what they hold."""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Float, Int
from torch import Tensor

Theta: TypeAlias = Float[Tensor, "members parameters"]
Unknowns: TypeAlias = Float[Tensor, "members unknowns"]
States: TypeAlias = Float[Tensor, "members windows states"]
# The start first, then the state after every step.
Nodes: TypeAlias = Float[Tensor, "members windows 1+steps states"]
# States at the ends of all intervals of every window.
Ends: TypeAlias = Float[Tensor, "members windows intervals states"]
Durations: TypeAlias = Float[Tensor, " windows"]
Steps: TypeAlias = Float[Tensor, "windows steps"]
# Index into `fixed_step.GRIDS`.
GridIndex: TypeAlias = Int[Tensor, " windows"]
# Increasing points from 0 to 1, between which the steps lie.
Grid: TypeAlias = Float[Tensor, " points"]
Residual: TypeAlias = Float[Tensor, "members residuals"]
Jacobian: TypeAlias = Float[Tensor, "members residuals unknowns"]
