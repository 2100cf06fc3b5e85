"""A GPU that is not there: tensors that claim to lie on another device, computed on the CPU.

A build of torch without CUDA refuses gradients of tensors on "cuda", fake ones too; the device
"meta" it knows. Every operation sees where its operands claim to lie and fails, as on a GPU, where
one lies elsewhere; what it computes is computed all the same, so that results can be compared with
those of the CPU to the last digit.
"""

from functools import cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

SIMULATED = torch.device("meta")
# What reads on one device and writes on another.
COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


class Elsewhere(Tensor):
    """A tensor that claims to lie on the simulated device, and its numbers."""

    numbers: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, numbers):
        make = Tensor._make_wrapper_subclass
        made = make(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            dtype=numbers.dtype,
            device=SIMULATED,
            storage_offset=numbers.storage_offset(),
        )
        made.numbers = numbers
        return made

    def __repr__(self):
        return f"elsewhere {self.numbers!r}"

    def tolist(self):
        return self.numbers.tolist()

    @classmethod
    def __torch_dispatch__(cls, func, _types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


class Simulated(TorchDispatchMode):
    """While it lasts, also operations that make tensors out of nothing know the device."""

    def __torch_dispatch__(self, func, _types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


def computed(func, args, kwargs):
    """What an operation gives, on the device that it is asked for or that of its operands.

    Raises:
        RuntimeError: operands on two devices; single numbers may lie on the CPU.
    """
    there, left = [], []

    def numbers(part):
        if isinstance(part, Elsewhere):
            there.append(part)
            return part.numbers
        if isinstance(part, Tensor) and part.dim():
            left.append(tuple(part.shape))
        return part

    own = {name: mapped(numbers, part) for name, part in kwargs.items() if name != "device"}
    given = mapped(numbers, list(args))
    if there and left and func not in COPIES:
        raise RuntimeError(f"{func} has operands on two devices, {left} on the CPU")
    asked = kwargs.get("device")
    found = func(*given, **own) if asked is None else func(*given, **own, device="cpu")
    if func is torch.ops.aten.copy_.default:
        return args[0]
    if (not there) if asked is None else torch.device(asked) != SIMULATED:
        return found
    found = mapped(lambda t: Elsewhere(t) if isinstance(t, Tensor) else t, found)
    return return_and_correct_aliasing(func, args, dict(kwargs), found) if aliases(func) else found


def mapped(function, value):
    """The function on all leaves of lists and tuples."""
    if isinstance(value, list | tuple):
        return type(value)([mapped(function, part) for part in value])
    return function(value)


@cache
def aliases(func):
    """Whether what an operation returns may share memory with an operand."""
    parts = (*func._schema.arguments, *func._schema.returns)
    return any(part.alias_info is not None for part in parts)
