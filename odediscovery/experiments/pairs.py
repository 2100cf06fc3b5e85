"""Pairs of numbers and the comparisons that Neural Status Registers learn of them."""

from __future__ import annotations

import torch
from torch import Tensor

TASKS = (">", "<", ">=", "<=", "=", "!=")
SIGNS = {">=": "≥", "<=": "≤", "!=": "≠"}
# Numbers of the training.
LOW, HIGH = -10, 9


def equal_share(task: str) -> float:
    """Which part of the pairs a task is trained on is equal: half where equality is asked, else a third."""
    return 1 / 2 if task in ("=", "!=") else 1 / 3


def pairs(shape: tuple[int, ...], low: int, high: int, equal: float, source: torch.Generator) -> Tensor:
    """Pairs of integers from low to high, [*shape, 2].

    Of the pairs a part `equal` is equal; of the rest half are neighbours, the others drawn
    independently until they differ (a shift by a random non-zero amount, wrapped around).
    """
    first = torch.randint(low, high + 1, shape, generator=source)
    kind = torch.rand(shape, generator=source)
    up = 2 * torch.randint(0, 2, shape, generator=source) - 1
    # A neighbour outside the range lies on the other side.
    up = torch.where((first + up < low) | (first + up > high), -up, up)
    width = high - low + 1
    shift = torch.randint(1, width, shape, generator=source)
    elsewhere = (first - low + shift) % width + low
    second = torch.where(kind < equal, first, elsewhere)
    near = (kind >= equal) & (kind < equal + (1.0 - equal) / 2)
    second = torch.where(near, first + up, second)
    return torch.stack([first, second], dim=-1).to(torch.float64)


def truth(task: str, x: Tensor) -> Tensor:
    """1 where the comparison of the two columns holds, else 0, [..., 1]."""
    a, b = x[..., :1], x[..., 1:]
    holds = {">": a > b, "<": a < b, ">=": a >= b, "<=": a <= b, "=": a == b, "!=": a != b}
    return holds[task].to(x.dtype)
