"""The Neural Power Unit and its three simplifications: products of real powers.

    y = exp(Re log r - pi Im k) cos(Im log r + pi Re k)
    r = g (|x| + eps) + (1 - g),    k = g for x < 0, else 0,    g = min(max(gate, 0), 1)

`Re`, `Im` [n_out, n_in] are the real and imaginary parts of the exponents, g [n_in] the
relevance gates that turn an irrelevant input into 1. One class computes all four units of the
paper, which differ only in whether they have imaginary weights and gates.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import sympy
import torch
from torch import Tensor

from odediscovery.units.base import AbstractUnit, Arrays, Initialiser, Tensors, exact, linear

# For float64, in which networks are trained; units in another precision use their own epsilon.
EPSILON = sys.float_info.epsilon


class AbstractPowerUnit(AbstractUnit):
    """Products of powers y_j = Re(prod_k x_k ** (Re[j, k] + i Im[j, k])), each x_k mixed with 1 by its gate.

    Args:
        gate_gradient: "through" lets the gate's gradient pass also outside [0, 1]
            (NeuralArithmetic.jl since October 2020), "zero" stops it there (the fSIR runs).
        nonnegative: which features (all, none, or one flag each) are nonnegative by nature:
            negative values, from noise or a solver's overshoot, count as 0 without a sign.
        imaginary_l1: weight of the imaginary exponents in the L1 norm, relative to all other
            parameters; the paper's conclusion proposes a large one, which removes them.
        clip: keep real exponents in [-clip, clip] and gates in [0, 1] after every step
            (Mistry et al., Learning division with neural arithmetic logic modules); None: free.
        init_re, init_im, init_gate: initialisers of real exponents ("glorot"; `glorot(0.2)` in the fSIR study),
            imaginary ones ("zeros") and gates (0.5), if the unit has them.

    Raises:
        ValueError: `gate_gradient` is unknown, or the number of flags is not that of the inputs.

    Source: Heim, Pevny, Smidl, Neural Power Units (2020), Eqs. 11, 14 and 15.

    >>> sorted(RealNPU(2, 3).shapes().items())
    [('gate', (2,)), ('real', (3, 2))]
    """

    short_names: ClassVar = {"real": "re", "imaginary": "im"}
    has_imaginary: bool
    has_gate: bool
    positive: Tensor
    real: Tensor
    gate: Tensor

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        gate_gradient: str = "through",
        nonnegative: bool | Sequence[bool] = False,
        imaginary_l1: float = 1.0,
        clip: float | None = None,
        **base: Any,
    ) -> None:
        if gate_gradient not in ("through", "zero"):
            raise ValueError(f"gate_gradient must be 'through' or 'zero', got {gate_gradient!r}")
        flags = [nonnegative] * n_in if isinstance(nonnegative, bool) else [bool(flag) for flag in nonnegative]
        if len(flags) != n_in:
            raise ValueError(f"nonnegative must be one flag or {n_in}, got {len(flags)}")
        self.gate_gradient, self.imaginary_l1, self.clip = gate_gradient, imaginary_l1, clip
        self.all_positive = all(flags)
        # One flag if all agree, which needs fewer operations.
        self.nonnegative = flags[0] if len(set(flags)) == 1 else tuple(flags)
        self.gates = ("gate",) if self.has_gate else ()
        super().__init__(n_in, n_out, **base)
        self.register_buffer("positive", torch.tensor(flags, device=base.get("device")), persistent=False)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        exponents = ("real", "imaginary") if self.has_imaginary else ("real",)
        return dict.fromkeys(exponents, (self.n_out, self.n_in)) | ({"gate": (self.n_in,)} if self.has_gate else {})

    def initialisers(self) -> Mapping[str, Initialiser]:
        return {"real": "glorot", "imaginary": "zeros", "gate": 0.5}

    def penalties(self) -> dict[str, float]:
        return super().penalties() | ({"imaginary": self.imaginary_l1} if self.has_imaginary else {})

    def project_(self) -> None:
        """Clip real exponents and gates if `clip` is set."""
        if self.clip is not None:
            self.real.data.clamp_(-self.clip, self.clip)
            if self.has_gate:
                self.gate.data.clamp_(0.0, 1.0)

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        return AbstractPowerUnit.bound(self, p)(x)

    def bound(self, p: Tensors) -> Callable[[Tensor], Tensor]:
        polar, real, imaginary = self._polar(p), p["real"], p["imaginary"] if self.has_imaginary else None

        def power(x: Tensor) -> Tensor:
            r, k = polar(x)
            log_r = torch.log(r)
            exponent = linear(log_r, real)
            if imaginary is not None:
                exponent = exponent - linear(k, imaginary)
                angle = linear(log_r, imaginary) + linear(k, real)
                return torch.exp(exponent) * torch.cos(angle)
            return torch.exp(exponent) if self.all_positive else torch.exp(exponent) * torch.cos(linear(k, real))

        return power

    def _polar(self, p: Tensors) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The function x -> (r, pi k), with everything that depends only on the weights computed once."""
        eps = torch.finfo(p["real"].dtype).eps
        if not self.has_gate:
            pi = p["real"].new_full((), torch.pi)
            return lambda x: (self._size(x) + eps, pi * self._negative(x))
        gate = p["gate"].clamp(0.0, 1.0)
        if self.gate_gradient == "through" and torch.is_grad_enabled():
            gate = p["gate"] + (gate - p["gate"]).detach()
        gate = gate.unsqueeze(-2) if gate.dim() > 1 else gate
        # r = g (|x| + eps) + 1 - g = g |x| + (1 - g (1 - eps)): small x keep their digits.
        base, turn = torch.rsub(gate, 1.0, alpha=1.0 - eps), torch.pi * gate
        return lambda x: (torch.addcmul(base, self._size(x), gate), turn * self._negative(x))

    def _size(self, x: Tensor) -> Tensor:
        if self.nonnegative is False:
            return x.abs()
        return x.clamp_min(0.0) if self.all_positive else torch.where(self.positive, x.clamp_min(0.0), x.abs())

    def _negative(self, x: Tensor) -> Tensor:
        """Mask of negative x, never set for features that are nonnegative by nature."""
        return x < 0 if self.nonnegative is False else (x < 0) & ~self.positive

    def pull(self, p: Tensors, x: Tensor, cotangents: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.has_imaginary or self.gate_gradient == "zero":
            return super().pull(p, x, cotangents)
        r, k = self._polar(p)(x)
        real, log_r = p["real"], torch.log(r)
        size = torch.exp(log_r @ real.transpose(-1, -2))
        angle = None if self.all_positive else k @ real.transpose(-1, -2)
        y = size if angle is None else size * torch.cos(angle)
        g_exponent = cotangents * y[:, :, None, :]
        g_real = g_exponent[..., None] * log_r[:, :, None, None, :]
        g_r = (g_exponent @ real[:, None]) / r[:, :, None, :]
        slope = (x > 0).to(x.dtype)
        if angle is not None:
            g_angle = cotangents * (-size * torch.sin(angle))[:, :, None, :]
            g_real = g_real + g_angle[..., None] * k[:, :, None, None, :]
            slope = torch.where(self.positive, slope, torch.sign(x))
        grads = {"real": g_real}
        if self.has_gate:
            g_gate = g_r * (self._size(x) + (EPSILON - 1.0))[:, :, None, :]
            if angle is not None:
                negative = torch.pi * self._negative(x).to(x.dtype)
                g_gate = g_gate + (g_angle @ real[:, None]) * negative[:, :, None, :]
            grads["gate"] = g_gate
            slope = slope * p["gate"].clamp(0.0, 1.0)[:, None, :]
        return g_r * slope[:, :, None, :], grads

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        imaginary = p["imaginary"] if self.has_imaginary else np.zeros_like(p["real"])
        flags, gate = self.positive.tolist(), self._gates(p)
        sizes = [sympy.Max(e, 0) if f else sympy.Abs(e) for e, f in zip(x, flags, strict=True)]
        eps = exact(np.finfo(p["real"].dtype).eps)
        r = [exact(g) * (size + eps) + exact(1.0 - g) for g, size in zip(gate, sizes, strict=True)]
        # Heaviside(-x, 0) is 0 for x >= 0 and 1 for x < 0.
        k = [sympy.S.Zero if f else exact(g) * sympy.Heaviside(-e, 0) for g, e, f in zip(gate, x, flags, strict=True)]
        rows = []
        for re, im in zip(p["real"], imaginary, strict=True):
            terms = list(zip(re, im, r, k, strict=True))
            size = sympy.Mul(*[b ** exact(w) for w, _, b, _ in terms])
            decay = sympy.Add(*[exact(v) * h for _, v, _, h in terms if v])
            angle = sympy.Add(
                *[exact(v) * sympy.log(b) for _, v, b, _ in terms if v],
                *[sympy.pi * exact(w) * h for w, _, _, h in terms if w],
            )
            rows.append(size * sympy.exp(-sympy.pi * decay) * sympy.cos(angle))
        return rows

    def liberties(self, p: Arrays) -> list[str]:
        """Descriptions of gates between 0 and 1 and of imaginary exponents in p [*shape] of one member."""
        used = np.any([np.any(p[name] != 0, axis=0) for name in p if name != "gate"], axis=0)
        found = [
            f"the gate {g:.2g} of input {k} is read as {round(g)}, which mixes it with 1 by {min(g, 1 - g):.0%}"
            for k, g in enumerate(self._gates(p))
            if used[k] and 0.0 < g < 1.0
        ]
        if self.has_imaginary and p["imaginary"].any():
            found.append(f"imaginary exponents up to {np.abs(p['imaginary']).max():.2g} are left out")
        return found

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """prod_k x_k ** Re[j, k] over the features whose gate is above 1/2, without imaginary parts,
        for parameters p [*shape] of one member.

        The limit of `symbolic` for gates at 0 or 1, Im = 0, and x >= 0 or whole exponents.
        """
        opened = [g > 0.5 for g in self._gates(p)]
        powers = [[sympy.Integer(int(w)) if w == round(w) else exact(w) for w in row] for row in p["real"]]
        return [sympy.Mul(*[e**w for w, g, e in zip(row, opened, x, strict=True) if g and w]) for row in powers]

    def _gates(self, p: Arrays) -> Any:
        """The gates g of one member [n_in], 1 if the unit has none."""
        return np.clip(p["gate"], 0.0, 1.0) if self.has_gate else np.ones(self.n_in)


class NPU(AbstractPowerUnit):
    """The NPU with relevance gates: y = exp(Re log r - pi Im k) cos(Im log r + pi Re k) (Eq. 14).

    >>> unit = NPU(1, 1)  # the square of -3, its gate open
    >>> _ = unit.real.data.fill_(2.0), unit.gate.data.fill_(1.0)
    >>> round(unit(torch.tensor([-3.0])).item(), 4)
    9.0
    """

    has_imaginary, has_gate = True, True


class RealNPU(AbstractPowerUnit):
    """The NPU without imaginary weights: y = exp(Re log r) cos(pi Re k) with relevance gates.

    >>> unit = RealNPU(2, 1)
    >>> _ = unit.real.data.copy_(torch.tensor([[0.5, 2.0]])), unit.gate.data.fill_(1.0)
    >>> round(unit(torch.tensor([4.0, 3.0])).item(), 4)
    18.0
    """

    has_imaginary, has_gate = False, True


class NaiveNPU(AbstractPowerUnit):
    """The NPU without gates: a product with one input near zero loses all gradients (Eq. 11).

    >>> unit = NaiveNPU(2, 1)
    >>> _ = unit.real.data.copy_(torch.tensor([[1.0, -1.0]]))
    >>> round(unit(torch.tensor([6.0, 3.0])).item(), 4)
    2.0
    """

    has_imaginary, has_gate = True, False


class RealNaiveNPU(AbstractPowerUnit):
    """Plain products of real powers: neither gates nor imaginary weights.

    >>> unit = RealNaiveNPU(1, 1)
    >>> _ = unit.real.data.fill_(0.5)
    >>> round(unit(torch.tensor([16.0])).item(), 4)
    4.0
    """

    has_imaginary, has_gate = False, False
