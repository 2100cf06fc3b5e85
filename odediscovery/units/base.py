"""Base class of the arithmetic units: torch layers whose formula is also symbolic.

A unit states its formula twice, in the same file: `compute` on tensors and `symbolic` on sympy
expressions. One test over the registry checks that the two agree. As a `torch.nn.Module` a unit is
used like any layer; `compute` is a pure function of its parameters, so that a batch of networks can
hold the parameters of whole chains in one flat tensor, members first.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import sympy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, Tensor]
# Initial values of a parameter: a name of `INITIALISERS`, a number, or a function that fills a tensor in place,
# like those of `torch.nn.init`, or returns one.
Initialiser: TypeAlias = str | float | Callable[..., Any]

INITIALISERS: Mapping[str, Callable[..., Any]] = {
    "glorot": nn.init.xavier_uniform_,
    "zeros": nn.init.zeros_,
    "ones": nn.init.ones_,
    "uniform": nn.init.uniform_,
    "normal": nn.init.normal_,
}


class AbstractUnit(nn.Module, ABC):
    """A layer y = unit(x) with a readable formula.

    Args:
        n_in: width of the input x.
        n_out: width of the output y.
        members: number of independent networks in parallel, a leading axis of every parameter, of the input and
            of the output; None (default) for one network without this axis.
        dtype: of the parameters (default: torch's default, float32 unless it was changed).
        device: of the parameters.
        generator: source of the random initial weights (default: torch's global generator).
        initialisers: `init_NAME` for the parameter NAME, see `INITIALISERS`.

    Raises:
        ValueError: a width or `members` is below 1, or the name of an initialiser is unknown.
        TypeError: an initialiser is for a parameter that the unit does not have.

    >>> from odediscovery.units import RealNPU
    >>> RealNPU(2, 3)(torch.ones(5, 2)).shape
    torch.Size([5, 3])
    >>> RealNPU(2, 3, members=4)(torch.ones(4, 5, 2)).shape
    torch.Size([4, 5, 3])
    """

    # An int if parameters have an axis of members, else None.
    members: Any
    # Parameters that open (1) or close (0) an input: training draws them to 1.
    gates: tuple[str, ...] = ()
    # Names after `init_` that differ from the name of the parameter.
    short_names: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        members: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
        **initialisers: Initialiser,
    ) -> None:
        super().__init__()
        if min(n_in, n_out, 1 if members is None else members) < 1:
            raise ValueError(f"n_in, n_out and members must be at least 1, got {n_in}, {n_out} and {members}")
        self.n_in, self.n_out, self.members = n_in, n_out, members
        self._names = tuple(self.shapes())
        known = {f"init_{self.short_names.get(name, name)}": name for name in self._names}
        unknown = [option for option in initialisers if option not in known]
        if unknown:
            raise TypeError(f"{self.name} has no option {unknown[0]}; its initialisers are {', '.join(known)}")
        given = {known[key]: value for key, value in initialisers.items()}
        self._initialisers = {**AbstractUnit.initialisers(self), **self.initialisers(), **given}
        for name, value in self.initial(members or 1, generator).items():
            own = value if members else value[0]
            self.register_parameter(name, nn.Parameter(own.to(device, dtype or torch.get_default_dtype())))

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A parent's shortcuts do not apply to another formula.
        if "compute" in vars(cls):
            for name in {"bound", "pull"} - vars(cls).keys():
                setattr(cls, name, getattr(AbstractUnit, name))

    @property
    def name(self) -> str:
        """Name in the registry."""
        return type(self).__name__

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter of one member, in the order in which they are stored."""

    def initialisers(self) -> Mapping[str, Initialiser]:
        """Default initialisers of some parameters; of others, Glorot's for weights and 0 for biases."""
        return {name: "zeros" if name == "bias" else "glorot" for name in self.shapes()}

    def initial(self, members: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Initial values [members, *shape] of every parameter, in float64, drawn from `generator`."""
        return {
            name: _drawn(self._initialisers[name], (members, *shape), generator)
            for name, shape in self.shapes().items()
        }

    @abstractmethod
    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        """The formula on tensors: x [members, batch, n_in] -> [members, batch, n_out].

        Args:
            p: parameters [members, *shape] by name, of `shapes`; if neither has the axis of members, x may
                have any number of leading axes, but at least one.
            x: features, dimensionless in a vector field.
        """

    def bound(self, p: Tensors) -> Callable[[Tensor], Tensor]:
        """`compute` for fixed parameters p [members, *shape], with which a solve calls it thousands
        of times."""
        return lambda x: self.compute(p, x)

    def pull(self, p: Tensors, x: Tensor, cotangents: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Cotangents of input and parameters from those of the output, sample by sample.

        Args:
            p: parameters [members, *shape] by name.
            x: features [members, batch, n_in].
            cotangents: [members, batch, K, n_out].

        Returns:
            d/dx [members, batch, K, n_in] and, for every parameter, d/dp
            [members, batch, K, *shape]. Units with a short derivative override this default,
            which uses `torch.func`, is correct for any `compute` and about ten times slower.
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
            x: one expression per feature [n_in].
        """

    def snapped(self, p: Arrays, x: Sequence[sympy.Expr]) -> Sequence[sympy.Basic]:
        """The readable limit of `symbolic(p, x)` for gates and bits of 0 or 1 [n_out]; default: the
        same formula."""
        return self.symbolic(p, x)

    def liberties(self, p: Arrays) -> list[str]:
        """Descriptions of what `snapped` rounds or omits at parameters p [*shape] of one member."""
        if type(self).snapped is AbstractUnit.snapped:
            return []
        x = [sympy.Float(1.0 + k / (1 + self.n_in)) for k in range(1, 1 + self.n_in)]
        try:
            pairs = list(zip(map(float, self.symbolic(p, x)), map(float, self.snapped(p, x)), strict=True))
        except TypeError:
            return ["it is read as logic, whatever its weights are between"]
        off = max(abs(a - b) / max(abs(a), 1.0) for a, b in pairs)
        return [f"its weights are rounded, which changes what it puts out by up to {off:.1%}"] * (off > 1e-3)

    def arrays(self, member: int = 0) -> dict[str, NDArray[Any]]:
        """The unit's own parameters of one member as arrays [*shape]."""
        own = {name: getattr(self, name).detach().cpu() for name in self._names}
        own = {name: value.to(torch.promote_types(value.dtype, torch.float32)) for name, value in own.items()}
        return {name: (value if self.members is None else value[member]).numpy().copy() for name, value in own.items()}

    def penalties(self) -> dict[str, float]:
        """Relative weight of every parameter in the L1 norm."""
        return dict.fromkeys(self.shapes(), 1.0)

    def regulariser(self, p: Tensors) -> Tensor:
        """The regulariser proposed in the unit's paper, at parameters p, [members]; 0 if there is
        none."""
        first, shape = p[self._names[0]], self.shapes()[self._names[0]]
        return first.new_zeros(first.shape[: first.dim() - len(shape)])

    def project_(self) -> None:
        """Project the unit's own parameters onto their allowed range after a step."""

    def forward(self, x: Tensor) -> Tensor:
        """y = unit(x) with the unit's own parameters, x [..., n_in] -> [..., n_out]; with members,
        x [members, ..., n_in], or [1, ..., n_in] if shared by all, -> [members, ..., n_out].

        Raises:
            ValueError: x has another shape.
        """
        members, axes = self.members, x.dim()
        p: Any = self._parameters
        if self._names[0] not in p:  # parametrised, or masked by torch's pruning
            p = {name: getattr(self, name) for name in self._names}
        fits = axes and x.shape[-1] == self.n_in
        if not fits or (members is not None and (axes < 2 or x.shape[0] not in (1, members))):
            expected = f"[..., {self.n_in}]" if members is None else f"[{members}, ..., {self.n_in}]"
            raise ValueError(f"{self.name} expects an input of shape {expected}, got {list(x.shape)}")
        if members is None:
            return self.compute(p, x) if axes > 1 else self.compute(p, x[None])[0]
        if axes == 3:
            return self.compute(p, x)
        y = self.compute(p, x.reshape(len(x), -1, self.n_in))
        return y.reshape(members, *x.shape[1:-1], self.n_out)

    def extra_repr(self) -> str:
        """Sizes, and options with values other than their defaults, for `print`."""
        own = [str(self.n_in), str(self.n_out)] + [f"members={self.members}"] * (self.members is not None)
        for option in inspect.signature(type(self)).parameters.values():
            value = getattr(self, option.name, option.default)
            if option.kind is option.KEYWORD_ONLY and value != option.default and option.name != "members":
                own.append(f"{option.name}={value!r}")
        return ", ".join(own)


def glorot(gain: float = 1.0) -> Initialiser:
    """Uniform weights [n_out, n_in] between -a and a, a = gain sqrt(6 / (n_in + n_out)).

    >>> from odediscovery.units import NAU
    >>> bool(NAU(3, 3, init_weight=glorot(0.2)).weight.abs().max() <= 0.2)
    True
    """
    return partial(nn.init.xavier_uniform_, gain=gain)


def _drawn(how: Initialiser, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Initial values [members, ...] by an initialiser, member by member."""
    values = torch.zeros(shape, dtype=torch.float64)
    if isinstance(how, int | float):
        return values.fill_(how)
    if isinstance(how, str):
        if how not in INITIALISERS:
            raise ValueError(
                f"an initialiser is one of {', '.join(INITIALISERS)}, a number or a function of a tensor, got {how!r}"
            )
        how = INITIALISERS[how]
    with_source = generator is not None and "generator" in inspect.signature(how).parameters
    options = {"generator": generator} if with_source else {}
    for own in values if values.numel() else ():
        found = how(own, **options)
        if found is not None and found is not own:
            own.copy_(torch.as_tensor(found))
    return values


def exact(value: float) -> sympy.Float:
    """A weight as a sympy number with 17 digits, which identify every float64."""
    return sympy.Float(float(value), 17)


def weighted_sum(weights: NDArray[np.float64], x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
    """sum_k W[j, k] x_k as one expression per row, without zero weights."""
    return [sympy.Add(*[exact(w) * e for w, e in zip(row, x, strict=True) if w != 0]) for row in weights]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + b, for weights [n_out, n_in], or [members, n_out, n_in] and x [members, batch, n_in]."""
    if weight.dim() == 2:
        return nn.functional.linear(x, weight, bias)
    y = x @ weight.mT
    return y if bias is None else y + bias.unsqueeze(-2)


def product(factors: Tensor) -> Tensor:
    """Product over the last axis by halves, with an exact gradient where a factor is 0.

    (`torch.prod` searches for zeros in its backward pass, which `torch.func` does not support.)
    """
    while factors.shape[-1] > 1:
        half = factors.shape[-1] // 2
        pairs = factors[..., :half] * factors[..., half : 2 * half]
        factors = torch.cat([pairs, factors[..., 2 * half :]], dim=-1)
    return factors[..., 0]


def l1_norm(unit: AbstractUnit, p: Tensors) -> Tensor:
    """Sum of weight * |parameter| over all parameters of a unit, [members]."""
    shapes = unit.shapes()
    parts = [
        w * p[name].abs().sum(dim=[-k - 1 for k in range(len(shapes[name]))]) for name, w in unit.penalties().items()
    ]
    return torch.stack(parts).sum(dim=0)


@torch.no_grad()
def redraw(unit: AbstractUnit, which: Tensor, generator: torch.Generator) -> None:
    """Redraw the parameters of some members (mask `which` [members]) of a unit.

    Source: the reinitialisation of Schloer, Ring, Hotho, iNALU (2020).
    """
    for name, value in unit.initial(len(which), generator).items():
        own = getattr(unit, name)
        mask = which.to(own.device)
        own[mask] = value.to(own)[mask]
