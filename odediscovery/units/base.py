"""What every arithmetic unit is: numbers and symbols of one formula, for all members at once.

A unit states its formula twice, in the same file: `compute` on tensors and `symbolic` on sympy
expressions. One test over the registry proves that the two agree. `compute` is a pure function
of its parameters, so a `VectorField` can hold the parameters of a whole chain in one flat
tensor (members first) and optimisers need to know nothing about units. As a `torch.nn.Module`
a unit also keeps parameters of its own and is used like any layer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import sympy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from odediscovery.runtime.renamed import with_old_names

Arrays = Mapping[str, NDArray[np.float64]]
Tensors = Mapping[str, Tensor]


@with_old_names(inputs="n_in", outputs="n_out")
class AbstractUnit(nn.Module, ABC):
    """A layer y = unit(x) whose formula can be read.

    Args:
        n_in: width of the input x.
        n_out: width of the output y.
        members: size of the leading axis of every parameter, independent networks side by side.
        generator: source of the random initial weights (default: seed 0).

    >>> from odediscovery.units import UNITS
    >>> unit = UNITS["RealNPU"](2, 3, members=4)
    >>> unit(torch.ones(4, 5, 2, dtype=torch.float64)).shape
    torch.Size([4, 5, 3])
    """

    def __init__(self, n_in: int, n_out: int, *, members: int = 1, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.n_in, self.n_out, self.members = n_in, n_out, members
        source = generator or torch.Generator().manual_seed(0)
        for name, value in self.initial(members, source).items():
            self.register_parameter(name, nn.Parameter(value))

    @property
    def name(self) -> str:
        """Name in the registry."""
        return type(self).__name__

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter of one member, in the order in which they are stored."""

    @abstractmethod
    def initial(self, members: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Random initial values [members, *shape] of every parameter, drawn from `generator`."""

    @abstractmethod
    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        """The formula on tensors: x [members, batch, n_in] -> [members, batch, n_out].

        Args:
            p: parameters [members, *shape] by name, of `shapes`.
            x: features, dimensionless in a vector field.
        """

    def bound(self, p: Tensors) -> Callable[[Tensor], Tensor]:
        """`compute` for fixed parameters p [members, *shape]: a solve calls it thousands of times
        with the same."""
        return lambda x: self.compute(p, x)

    def pull(self, p: Tensors, x: Tensor, cotangents: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Cotangents of the output pulled back, sample by sample: the chain rule of one unit.

        Args:
            p: parameters [members, *shape] by name.
            x: features [members, batch, n_in].
            cotangents: [members, batch, K, n_out].

        Returns:
            d/dx [members, batch, K, n_in] and, for every parameter, d/dp
            [members, batch, K, *shape]. Units whose derivative is short write it out; this
            default asks `torch.func`, correct for any `compute` and about ten times slower.
        """

        def one_sample(x_one: Tensor, g_one: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            vjp = torch.func.vjp(lambda q, z: self.compute(q, z), dict(p), x_one[:, None, :])[1]
            grads, g_x = torch.func.vmap(vjp)(g_one.movedim(1, 0)[:, :, None, :])
            return g_x[:, :, 0].movedim(0, 1), {k: v.movedim(0, 1) for k, v in grads.items()}

        result: tuple[Tensor, dict[str, Tensor]] = torch.func.vmap(one_sample, in_dims=(1, 1), out_dims=1)(
            x, cotangents
        )
        return result

    @abstractmethod
    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """The same formula on sympy expressions, exact for the weights of one member.

        Args:
            p: parameters [*shape] of one member by name.
            x: one expression a feature [n_in].
        """

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> Sequence[sympy.Basic]:
        """The readable limit of `symbolic(p, x)`, where gates and bits are 0 or 1 [n_out]; else
        the same."""
        return self.symbolic(p, x)

    def penalties(self) -> dict[str, float]:
        """Weight of every parameter in the L1 norm, relative to the others."""
        return dict.fromkeys(self.shapes(), 1.0)

    def regulariser(self, p: Tensors) -> Tensor:
        """The regulariser that the unit's own paper proposes, at parameters p, [members]; 0 for
        units without."""
        first = next(iter(p.values()))
        return first.new_zeros(first.shape[0])

    def project_(self) -> None:
        """Bring the unit's own parameters back to where the formula uses them, after a step."""

    def forward(self, x: Tensor) -> Tensor:
        """y = unit(x) with the unit's own parameters; x [members, batch, n_in]."""
        return self.compute(dict(self.named_parameters()), x)


def glorot(members: int, n_out: int, n_in: int, generator: torch.Generator, gain: float = 1.0) -> Tensor:
    """Glorot uniform weights [members, n_out, n_in]: U(-a, a), a = gain sqrt(6/(in + out))."""
    bound = gain * math.sqrt(6.0 / (n_in + n_out))
    uniform = torch.rand(members, n_out, n_in, generator=generator, dtype=torch.float64)
    return (2.0 * uniform - 1.0) * bound


def exact(value: float) -> sympy.Float:
    """A weight as a sympy number with the 17 digits that tell every float64 from its neighbours."""
    return sympy.Float(value, 17)


def weighted_sum(weights: NDArray[np.float64], x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
    """sum_k W[j, k] x_k as one expression a row, zeros left out."""
    return [sympy.Add(*[exact(w) * e for w, e in zip(row, x, strict=True) if w != 0]) for row in weights]


def product(factors: Tensor) -> Tensor:
    """Product over the last axis by halves, whose gradient is exact where a factor is 0.

    (`torch.prod` looks for zeros in its backward pass, which `torch.func` cannot follow.)
    """
    while factors.shape[-1] > 1:
        half = factors.shape[-1] // 2
        pairs = factors[..., :half] * factors[..., half : 2 * half]
        factors = torch.cat([pairs, factors[..., 2 * half :]], dim=-1)
    return factors[..., 0]


def l1_norm(unit: AbstractUnit, p: Tensors) -> Tensor:
    """sum of weight * |parameter| over all parameters of a unit, [members]."""
    parts = [w * p[name].abs().flatten(1).sum(dim=1) for name, w in unit.penalties().items()]
    return torch.stack(parts).sum(dim=0)


@torch.no_grad()
def redraw(unit: AbstractUnit, which: Tensor, generator: torch.Generator) -> None:
    """Draw the parameters of some members (bool [members]) of a unit anew.

    Source: the reinitialisation of Schloer, Ring, Hotho, iNALU (2020).
    """
    for name, value in unit.initial(unit.members, generator).items():
        own = getattr(unit, name)
        mask = which.to(own.device)
        own[mask] = value.to(own)[mask]
