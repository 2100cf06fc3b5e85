"""Functions of single features, as in the families of laws, appended to the features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor

from odediscovery.families import STATE_FUNCTIONS
from odediscovery.units.base import AbstractUnit, Arrays, Initialiser, Tensors, exact


class Functions(AbstractUnit):
    """The features and functions of them, y = (x_1, ..., x_n, f_1(r_1 x_s1), ..., f_F(r_F x_sF)).

    Args:
        functions: name (of `families.STATE_FUNCTIONS`) and input of each function, one for each
            output beyond the features (default: all functions of the first input, then of the
            second, and so on).

    Raises:
        ValueError: n_out does not match the functions, or a name is unknown.

    Source: the function units of equation learners (Martius and Lampert, 2016; Sahoo, Lampert
    and Martius, 2018), here before the power units.

    >>> unit = Functions(1, 2, functions=[("exp", 0)])
    >>> _ = unit.rate.data.fill_(2.0)
    >>> [round(y, 4) for y in unit(torch.tensor([0.5])).tolist()]
    [0.5, 2.7183]
    """

    rate: Tensor

    def __init__(
        self, n_in: int, n_out: int, *, functions: Sequence[tuple[str, int]] | None = None, **base: Any
    ) -> None:
        count = n_out - n_in
        if count < 0:
            raise ValueError(f"at least {n_in} outputs expected, the features first; got {n_out}")
        if functions is None:
            usual = [(name, k) for k in range(n_in) for name in STATE_FUNCTIONS]
            functions = [usual[i % len(usual)] for i in range(count)]
        bad = [f for f in functions if f[0] not in STATE_FUNCTIONS or not 0 <= f[1] < n_in]
        if bad or len(functions) != count:
            raise ValueError(
                f"{count} functions of the {n_in} features expected, each one of "
                f"{', '.join(STATE_FUNCTIONS)}; got {list(functions)}"
            )
        self.functions = tuple((str(name), int(k)) for name, k in functions)
        super().__init__(n_in, n_out, **base)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"rate": (len(self.functions),)}

    def initialisers(self) -> Mapping[str, Initialiser]:
        return {"rate": partial(torch.nn.init.normal_, mean=1.0, std=0.1)}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        return Functions.bound(self, p)(x)

    def bound(self, p: Tensors) -> Callable[[Tensor], Tensor]:
        if not self.functions:
            return lambda x: x
        # One operation for all sines, one for all cosines, and so on.
        order = sorted(range(len(self.functions)), key=lambda i: self.functions[i][0])
        names, of = zip(*(self.functions[i] for i in order), strict=True)
        kinds = [STATE_FUNCTIONS[name] for name in dict.fromkeys(names)]
        sizes = [names.count(kind.name) for kind in kinds]
        sorted_places, states, back = torch.tensor([order, of, np.argsort(order).tolist()]).to(p["rate"].device)
        rate = p["rate"][..., None, :][..., sorted_places]

        def functions(x: Tensor) -> Tensor:
            arguments = torch.split(rate * x[..., states], sizes, dim=-1)
            found = [f.within_bounds(torch, z) for f, z in zip(kinds, arguments, strict=True)]
            return torch.cat([x, torch.cat(found, dim=-1)[..., back]], dim=-1)

        return functions

    def pull(self, p: Tensors, x: Tensor, cotangents: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        to_x = cotangents[..., : self.n_in].clone()
        to_rate = cotangents[..., self.n_in :].clone()
        for i, (name, k) in enumerate(self.functions):
            rate, argument = p["rate"][:, None, i], x[..., k]
            slope = STATE_FUNCTIONS[name].slope_within_bounds(torch, rate * argument)[:, :, None]
            to_x[..., k] += to_rate[..., i] * slope * rate[:, :, None]
            to_rate[..., i] *= slope * argument[:, :, None]
        return to_x, {"rate": to_rate}

    def symbolic(self, p: Arrays, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        found = []
        for (name, k), rate in zip(self.functions, p["rate"], strict=True):
            z, (least, most) = exact(rate) * x[k], STATE_FUNCTIONS[name].bounds
            z = z if math.isinf(least) else sympy.Max(z, sympy.Float(least))
            found.append(STATE_FUNCTIONS[name].symbolic(z if math.isinf(most) else sympy.Min(z, sympy.Float(most))))
        return [*x, *found]
