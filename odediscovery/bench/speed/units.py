"""What a layer costs: the forward pass of each unit beside one written by hand from its formula.

The same weights, inputs of both signs, float32 as torch's layers have it; before anything is timed both must agree.
By hand nothing is checked and nothing is prepared for members; gates pass their gradient through, as the units' do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid

from odediscovery.errors import FitError
from odediscovery.units import UNITS

SIZES: Mapping[str, tuple[int, int, int]] = {"small": (40, 3, 6), "wide": (1000, 100, 10)}
# Calls that are timed together: one alone is as short as reading the clock.
TOGETHER = {"small": 200, "wide": 10}
# Calls shorter than this many seconds depend on the caches.
SHORT = 0.1
SINGLE = torch.finfo(torch.float32).eps


def _open(gate: Tensor) -> Tensor:
    return gate + (gate.clamp(0.0, 1.0) - gate).detach()


def _real_npu(p: Any, x: Tensor) -> Tensor:
    gate = _open(p.gate)
    r = gate * (x.abs() + SINGLE) + (1.0 - gate)
    k = torch.where(x < 0, math.pi * gate, torch.zeros(()))
    return torch.exp(linear(torch.log(r), p.real)) * torch.cos(linear(k, p.real))


def _npu(p: Any, x: Tensor) -> Tensor:
    gate = _open(p.gate)
    log_r = torch.log(gate * (x.abs() + SINGLE) + (1.0 - gate))
    k = torch.where(x < 0, math.pi * gate, torch.zeros(()))
    size = torch.exp(linear(log_r, p.real) - linear(k, p.imaginary))
    return size * torch.cos(linear(log_r, p.imaginary) + linear(k, p.real))


def _nmu(p: Any, x: Tensor) -> Tensor:
    m = p.weight.clamp(0.0, 1.0)
    found: Tensor = (m * x[..., None, :] + (1.0 - m)).prod(dim=-1)
    return found


def _nac(p: Any, x: Tensor) -> Tensor:
    return linear(x, torch.tanh(p.weight) * torch.sigmoid(p.mask))


def _nalu(p: Any, x: Tensor) -> Tensor:
    w = torch.tanh(p.weight) * torch.sigmoid(p.mask)
    z = linear(x, p.gate, p.bias)
    return torch.sigmoid(z) * linear(x, w) + torch.exp(logsigmoid(-z) + linear(torch.log(x.abs() + 1e-8), w))


BY_HAND: Mapping[str, Callable[[Any, Tensor], Tensor]] = {
    "RealNPU": _real_npu,
    "NPU": _npu,
    "NAU": lambda p, x: linear(x, p.weight),
    "NMU": _nmu,
    "NAC": _nac,
    "NALU": _nalu,
    "Linear": lambda p, x: linear(x, p.weight),
    "Dense": lambda p, x: linear(x, p.weight, p.bias),
}


class ByHand(nn.Module):
    """A formula as one would write it, on the parameters of a unit."""

    def __init__(self, unit: nn.Module, formula: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.formula = formula
        for name, value in unit.named_parameters():
            self.register_parameter(name, nn.Parameter(value.detach().clone()))

    def forward(self, x: Tensor) -> Tensor:
        """The formula at x [batch, n_in]."""
        return self.formula(self, x)


def cases() -> list[str]:
    """A unit and a size each."""
    return [f"{name} {size}" for size in SIZES for name in BY_HAND]


def measure_unit(case: str, seed: int = 0, seconds: float = 2.0) -> dict[str, float]:
    """Seconds of a forward pass, ours and by hand, each the best of several turns.

    Args:
        case: of `cases`.
        seconds: that each may take, about.

    Raises:
        FitError: the two compute something else.
    """
    name, _, size = case.partition(" ")
    (batch, n_in, n_out), times = SIZES[size], TOGETHER[size]
    threads, source = torch.get_num_threads(), torch.Generator().manual_seed(seed)
    torch.set_num_threads(1)
    try:
        unit, x = UNITS[name](n_in, n_out, generator=source), torch.randn(batch, n_in, generator=source)
        own = ByHand(unit, BY_HAND[name])
        if not torch.allclose(unit(x), own(x), rtol=1e-3, atol=1e-5):
            raise FitError(f"{name} by hand computes something else")
        turns = alternate({"ours": _repeated(unit, x, times), "by hand": _repeated(own, x, times)}, seconds)
    finally:
        torch.set_num_threads(threads)
    return {method: min(taken) / times for method, taken in turns.items()}


def _repeated(layer: nn.Module, x: Tensor, times: int) -> Callable[[], None]:
    def call() -> None:
        for _ in range(times):
            layer(x)

    return call


def alternate(
    functions: Mapping[str, Callable[[], object]], seconds: float, least: int = 3, most: int = 200
) -> dict[str, list[float]]:
    """Wall-clock seconds of every turn of functions that take turns, so that a busy minute affects all of them.

    The first call, with whatever it allocates, does not count. A short function is called twice and the second
    call counts: in a loop it would find the caches as it left them, not as the others did.

    Args:
        functions: by name.
        seconds: a function that has had so many leaves, once it had its turns.
        least, most: turns of each.

    >>> found = alternate({"sum": lambda: sum(range(9))}, seconds=0.0)
    >>> len(found["sum"])
    3
    """
    for function in functions.values():
        function()
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(most):
        for name, function in functions.items():
            if len(found[name]) < least or sum(found[name]) < seconds:
                if found[name] and min(found[name]) < SHORT:
                    function()
                began = time.perf_counter()
                function()
                found[name].append(time.perf_counter() - began)
    return found
