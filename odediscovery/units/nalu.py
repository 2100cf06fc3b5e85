"""The Neural Arithmetic Logic Unit and its improved form: a sum and a product, mixed by a gate.

    NALU:   y = g a + (1 - g) m,       a = W x,   m = exp(W log(|x| + eps)),   g = sigmoid(G x + b)
    iNALU:  y = g a + (1 - g) m s,     a = W_a x, m = exp(min(W_m log(max(|x|, eps)), omega)),
            s_j = prod_k (sign(x_k) |W_m[j, k]| + 1 - |W_m[j, k]|),             g = sigmoid(G x)

All W are tanh(weight) * sigmoid(mask). The NALU shares W between its two paths by default, loses
all signs in m, and is known not to converge reliably.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from odediscovery.runtime.arrays import Array
from odediscovery.units.base import AbstractUnit, Arrays, Tensors, exact, linear, product, weighted_sum
from odediscovery.units.nac import EPSILON, accumulator, accumulator_array, power_product, rounded_product


class NALU(AbstractUnit):
    """A sum and a product, mixed by a gate: y = g (W x) + (1 - g) exp(W log(|x| + eps)), g = sigmoid(G x + b).

    Args:
        independent: True gives the product its own weights, as proposed by the iNALU's authors and
            the project report on NALU; False (default) shares them with the sum.

    Source: Trask et al., Neural Arithmetic Logic Units (2018); bias as in NeuralArithmetic.jl.

    >>> unit = NALU(2, 1)  # its gate open for the sum
    >>> for p in unit.parameters(): _ = p.data.fill_(30.0)
    >>> round(unit(torch.tensor([3.0, 2.0])).item(), 9)
    5.0
    """

    def __init__(self, n_in: int, n_out: int, *, independent: bool = False, **base: Any):
        self.independent = independent
        super().__init__(n_in, n_out, **base)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        names = ["weight", "mask", "gate"]
        if self.independent:
            names[2:2] = ["weight_mul", "mask_mul"]
        return dict.fromkeys(names, (self.n_out, self.n_in)) | {"bias": (self.n_out,)}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        w = accumulator(p["weight"], p["mask"])
        w_mul = accumulator(p["weight_mul"], p["mask_mul"]) if self.independent else w
        z = linear(x, p["gate"], p["bias"])
        log_m = linear(torch.log(x.abs() + EPSILON), w_mul)
        # (1 - g) m as one exponential, so that a closed gate suppresses a product that would overflow.
        return torch.sigmoid(z) * linear(x, w) + torch.exp(logsigmoid(-z) + log_m)

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        w, w_mul = self._weights(p)
        sums, products = weighted_sum(w, x), power_product(w_mul, [sympy.Abs(e) + exact(EPSILON) for e in x])
        rows = []
        for a, m, z, b in zip(sums, products, weighted_sum(p["gate"], x), p["bias"], strict=True):
            g = 1 / (1 + sympy.exp(-(z + exact(b))))
            rows.append(g * a + (1 - g) * m)
        return rows

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """The sum or the product, whichever the gate prefers at x = 1, with rounded weights."""
        w, w_mul = self._weights(p)
        sums, products = weighted_sum(np.rint(w), x), rounded_product(w_mul, [sympy.Abs(e) for e in x])
        opened = p["gate"].sum(axis=1) + p["bias"] > 0
        return [a if g else m for g, a, m in zip(opened, sums, products, strict=True)]

    def _weights(self, p: Arrays) -> tuple[Array, Array]:
        w = accumulator_array(p["weight"], p["mask"])
        return w, accumulator_array(p["weight_mul"], p["mask_mul"]) if self.independent else w


class iNALU(AbstractUnit):
    """A sum and a signed product: y = g (W_a x) + (1 - g) s exp(min(W_m log(max(|x|, eps)), omega)), s the sign.

    Args:
        epsilon: lower bound of |x| in the logarithm.
        omega: upper bound of the product's exponent.
        threshold: half width t of the band around 0 from which the regulariser pushes weights.

    Source: Schloer, Ring, Hotho, iNALU (2020); input-dependent gate and names of the two paths
    as in NeuralArithmetic.jl (the paper's own gate is a free parameter).

    >>> unit = iNALU(2, 1)  # its gate closed: the product, with its sign
    >>> for p in unit.parameters(): _ = p.data.fill_(30.0)
    >>> _ = unit.gate.data.fill_(-30.0)
    >>> round(unit(torch.tensor([-3.0, 4.0])).item(), 4)
    -12.0
    """

    def __init__(
        self, n_in: int, n_out: int, *, epsilon: float = 1e-7, omega: float = 20.0, threshold: float = 20.0, **base: Any
    ) -> None:
        self.epsilon, self.omega, self.threshold = epsilon, omega, threshold
        super().__init__(n_in, n_out, **base)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        names = ("weight_add", "mask_add", "weight_mul", "mask_mul", "gate")
        return dict.fromkeys(names, (self.n_out, self.n_in))

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        a = linear(x, accumulator(p["weight_add"], p["mask_add"]))
        w = accumulator(p["weight_mul"], p["mask_mul"])
        log_m = linear(torch.log(x.abs().clamp_min(self.epsilon)), w)
        m = torch.exp(log_m.clamp_max(self.omega))
        size = w.abs()[..., None, :, :]
        sign = product(torch.sign(x)[..., None, :] * size + 1.0 - size)
        g = torch.sigmoid(linear(x, p["gate"]))
        return g * a + (1.0 - g) * m * sign

    def regulariser(self, p: Tensors) -> Tensor:
        """The mean over all parameters of max(min(-w, w) + t, 0) / t, which pushes weights away from 0."""
        weights = torch.stack(list(p.values()))
        return (self.threshold - weights.abs()).clamp_min(0.0).mean(dim=(0, -1, -2)) / self.threshold

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        w = accumulator_array(p["weight_mul"], p["mask_mul"])
        sums = weighted_sum(accumulator_array(p["weight_add"], p["mask_add"]), x)
        logs = [sympy.log(sympy.Max(sympy.Abs(e), exact(self.epsilon))) for e in x]
        rows = []
        for row, a, log_m, z in zip(w, sums, weighted_sum(w, logs), weighted_sum(p["gate"], x), strict=True):
            g = 1 / (1 + sympy.exp(-z))
            m = sympy.exp(sympy.Min(log_m, exact(self.omega)))
            sign = [sympy.sign(e) * exact(abs(v)) + exact(1.0 - abs(v)) for v, e in zip(row, x, strict=True)]
            rows.append(g * a + (1 - g) * m * sympy.Mul(*sign))
        return rows

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """The sum or the signed product, whichever the gate prefers at x = 1, with rounded weights."""
        sums = weighted_sum(np.rint(accumulator_array(p["weight_add"], p["mask_add"])), x)
        products = rounded_product(accumulator_array(p["weight_mul"], p["mask_mul"]), x)
        return [a if g else m for g, a, m in zip(p["gate"].sum(axis=1) > 0, sums, products, strict=True)]
