"""Shapes of the arrays that solvers and windows share, by what they hold."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

Theta: TypeAlias = Float[np.ndarray, "members parameters"]
Unknowns: TypeAlias = Float[np.ndarray, "members unknowns"]
States: TypeAlias = Float[np.ndarray, "members windows states"]
# The start first, then the state after every step.
Nodes: TypeAlias = Float[np.ndarray, "members windows 1+steps states"]
# States at the ends of all intervals of every window.
Ends: TypeAlias = Float[np.ndarray, "members windows intervals states"]
Durations: TypeAlias = Float[np.ndarray, " windows"]
Steps: TypeAlias = Float[np.ndarray, "windows steps"]
# Index into `grids.GRIDS`.
GridIndex: TypeAlias = Int[np.ndarray, " windows"]
# Increasing points from 0 to 1, between which the steps lie.
Grid: TypeAlias = Float[np.ndarray, " points"]
Residual: TypeAlias = Float[np.ndarray, "members residuals"]
Jacobian: TypeAlias = Float[np.ndarray, "members residuals unknowns"]
