"""Devices for tensors, the processor or a CUDA GPU, which only training uses."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from odediscovery.errors import InputError, unknown_name

T = TypeVar("T")
# By the names of `--device`.
_DEVICES = {"cpu": torch.device("cpu"), "cuda": torch.device("cuda")}


def device_of(name: str) -> torch.device:
    """The torch device of a name, "cpu" or "cuda"."""
    if name not in _DEVICES:
        raise unknown_name("device", name, _DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch finds no GPU here; use --device cpu")
    if name == "cuda":
        # TF32 would round convolutions to ten bits, and results would differ from those of the CPU.
        torch.backends.cudnn.allow_tf32 = False
    return _DEVICES[name]


def use_threads(threads: int | None) -> None:
    """Set the number of threads of torch, by default one: with small tensors a second one mostly waits."""
    torch.set_num_threads(threads or 1)


def moved(value: T, device: torch.device) -> T:
    """Copy a value with all its tensors and modules to a device."""
    found: Any = value
    if isinstance(value, Tensor):
        found = value.to(device)
    elif isinstance(value, nn.Module):
        # Modules move in place, and this one is shared.
        found = copy.deepcopy(value).to(device)
    elif isinstance(value, tuple):
        found = tuple(moved(part, device) for part in value)
    elif dataclasses.is_dataclass(value):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        found = dataclasses.replace(found, **{name: moved(part, device) for name, part in parts.items()})
    here: T = found
    return here
