"""Chains NPU -> NAU as plain arrays, all members at once, and their conversion to laws and back.

    Functions -> powers -> sums -> powers -> sums
    x -> z = (x, f(x)) -> (z, 1, m) -> (z, u = 1 + B m) -> monomials -> dx/dt

Powers and sums with gates at 1 are a sum of powers. A law is a chain of one pair of layers; a law with sums among its
features is a chain of two pairs, the first of which passes on the states and their functions beside the sums.

Training needs gates, gradients and devices, which `vector_field` provides. Pruning fits few constants, whose
derivatives are written out here. For few points, where arrays are slow, a member also compiles to straight-line code on
plain numbers.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from odediscovery.data.series import Scale
from odediscovery.families import Function
from odediscovery.ivp.solvers import PlainRates
from odediscovery.laws.compiled import Graph
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums, expanded
from odediscovery.runtime.archives import pack, unpack
from odediscovery.runtime.arrays import Array, Indices, Mask

Rhs: TypeAlias = Callable[[Array], Array]
Linearisation: TypeAlias = Callable[[Array], tuple[Array, Array, Array]]

# Added to every base, as in the unit's formula, so that its logarithm is finite.
EPSILON = sys.float_info.epsilon


@dataclass(frozen=True, eq=False)
class Pair:
    """A layer of powers and the following layer of sums.

    Args:
        nonnegative: which inputs never change sign, [n_in].
        width, n_out: number of products of powers, and of sums.
    """

    nonnegative: Mask
    width: int
    n_out: int

    @property
    def n_in(self) -> int:
        """Number of inputs."""
        return len(self.nonnegative)

    @property
    def real(self) -> tuple[int, int]:
        """Shape of the exponents."""
        return self.width, self.n_in

    @property
    def weight(self) -> tuple[int, int]:
        """Shape of the weights of the sums."""
        return self.n_out, self.width

    def bases(self, x: Array) -> Array:
        """The inputs, shifted by `EPSILON` away from zero."""
        if self._all_nonnegative:
            found: Array = np.maximum(x, 0.0)
            found += EPSILON
            return found
        if self._least is not None:
            x = np.maximum(x, self._least) + 0.0  # -0.0 becomes 0.0 in every column
        return x + np.copysign(EPSILON, x)

    @cached_property
    def _all_nonnegative(self) -> bool:
        return bool(self.nonnegative.all())

    @cached_property
    def _least(self) -> Array | None:
        """Lower bounds of the inputs; None if each may have any sign."""
        return np.where(self.nonnegative, 0.0, -np.inf) if self.nonnegative.any() else None

    def signs(self, x: Array) -> Array:
        """1 where the base follows the input, 0 at zero and where it is clipped."""
        return np.where(self.nonnegative, x > 0.0, x != 0.0).astype(float)

    def products(self, across: Array, bases: Array, whole: Rhs | None) -> Array:
        """Products of powers [members, batch, width] of bases, with exponents `across` [members, n_in, width], by
        `whole` if these are whole."""
        if whole is not None:
            return whole(bases)
        y: Array = np.log(bases if self._all_nonnegative else np.abs(bases)) @ across
        np.exp(y, out=y)
        return y if self._all_nonnegative else y * np.cos(self.angles(bases) @ across)

    def angles(self, bases: Array) -> Array:
        """Complex angles of the bases: pi where one is negative, else 0."""
        return np.where(bases < 0.0, np.pi, 0.0)


def whole_powers(real: Array) -> Rhs | None:
    """Products of small whole powers by multiplication, without logarithms and with exact signs.

    From exponents [members, width, n_in], the function of bases [members, batch, n_in]; None if an exponent is not
    whole, or if a product has more than 8 factors, where logarithms are as fast.
    """
    longest = 8
    if not ((real == np.rint(real)) & (np.abs(real) <= longest)).all():
        return None
    inverse = bool((real < 0.0).any())
    counts = np.concatenate([np.maximum(real, 0.0), np.maximum(-real, 0.0)], axis=2) if inverse else real
    upto = np.cumsum(counts, axis=2)
    most = int(upto[..., -1].max(initial=1.0))
    if most > longest:
        return None
    # Each factor is a row: one of the member's inputs, their reciprocals, if any, or 1.
    size = upto.shape[2] + 1
    first = size * np.arange(len(real))[:, None]
    factors = [(first + (upto <= d).sum(axis=2)).ravel() for d in range(max(most, 1))]

    def products(bases: Array) -> Array:
        members, batch, n = bases.shape
        rows = np.empty((members, size, batch))
        rows[:, :n], rows[:, -1] = bases.swapaxes(1, 2), 1.0
        if inverse:
            np.reciprocal(rows[:, :n], out=rows[:, n:-1])
        rows = rows.reshape(-1, batch)
        y = rows.take(factors[0], axis=0)
        for factor in factors[1:]:
            y *= rows.take(factor, axis=0)
        found: Array = y.reshape(members, -1, batch).swapaxes(1, 2)
        return found

    return products


@dataclass(frozen=True, eq=False)
class Chain:
    """dx/dt of every member as layers of powers and sums, with its free parameters.

    Args:
        n_states: number of states.
        functions: functions of single states, which are features beside the states.
        pairs: the last one outputs dx/dt; an earlier one, if any, outputs sums that are features.
        theta: exponents and weights of each pair, [members, P].
        free: bool [members, P]; an entry that is not free keeps its value in theta.
        stoichiometry: [states, states], a matrix that multiplies the chain's outputs where equations follow
            from others (default: none).
    """

    n_states: int
    functions: tuple[Function, ...]
    pairs: tuple[Pair, ...]
    theta: Array
    free: Mask
    stoichiometry: Array | None = None

    @property
    def members(self) -> int:
        """Number of laws side by side."""
        return len(self.theta)

    def places(self) -> list[tuple[slice, slice]]:
        """Slices of theta with the exponents and the weights of each pair."""
        found, start = [], 0
        for pair in self.pairs:
            middle = start + math.prod(pair.real)
            stop = middle + math.prod(pair.weight)
            found.append((slice(start, middle), slice(middle, stop)))
            start = stop
        return found

    def unpack(self, theta: Array) -> list[tuple[Array, Array]]:
        """Exponents [members, width, n_in] and weights [members, n_out, width] of each pair (views)."""
        return [
            (theta[:, real].reshape(-1, *pair.real), theta[:, weight].reshape(-1, *pair.weight))
            for pair, (real, weight) in zip(self.pairs, self.places(), strict=True)
        ]

    def features(self, x: Array) -> Array:
        """The states, followed by their functions."""
        if not self.functions:
            return x
        z = np.empty((*x.shape[:-1], self.n_states + len(self.functions)))
        z[..., : self.n_states] = x
        for k, f in enumerate(self.functions, start=self.n_states):
            z[..., k] = f.kind.within_bounds(np, f.rate * x[..., f.state])
        return z

    def _layers(self, theta: Array) -> list[tuple[Pair, Array, Array, Rhs | None]]:
        """Each pair with its exponents and weights, transposed, and the products of powers if these are whole."""
        unpacked = zip(self.pairs, self.unpack(theta), strict=True)
        return [(pair, w.swapaxes(1, 2), a.swapaxes(1, 2), whole_powers(w)) for pair, (w, a) in unpacked]

    def rhs(self, theta: Array) -> Rhs:
        """The function x [members, batch, states] -> dx/dt for parameters theta."""
        layers = self._layers(theta)

        def dx_dt(x: Array) -> Array:
            z = self.features(x)
            for pair, across, down, whole in layers:
                z = pair.products(across, pair.bases(z), whole) @ down
            return z if self.stoichiometry is None else z @ self.stoichiometry.T

        return dx_dt

    def linearisation(self, theta: Array, columns: Indices) -> Linearisation:
        """The function x -> (f [members, batch, states], df/dx [..., states, states], df/dtheta [..., states, F]), F
        being the `columns` of theta [members, F]."""
        mix = self.stoichiometry
        inner = (self._sum_of_powers if len(self.pairs) == 1 else self._chain_rule)(theta, columns)
        if mix is None:
            return inner

        def mixed(x: Array) -> tuple[Array, Array, Array]:
            f, f_x, f_theta = inner(x)
            return f @ mix.T, mix @ f_x, mix @ f_theta

        return mixed

    def _sum_of_powers(self, theta: Array, columns: Indices) -> Linearisation:
        """Linearisation of a single pair, df_i/dA[i, j] = y_j and df_i/dW[j, k] = A[i, j] dy_j/dW[j, k]: each column is
        a factor per member and state times one per sample."""
        ((pair, across, down, whole),), ((_, last),) = self._layers(theta), self.places()
        w, a = across.swapaxes(1, 2), down.swapaxes(1, 2)
        h, n = pair.real
        of_power = columns < last.start
        row = np.where(of_power, columns // n, (columns - last.start) % h)
        equation = np.where(of_power, 0, (columns - last.start) // h)
        one = equation[:, None] == np.arange(pair.n_out)[:, None]
        through = np.take_along_axis(a, row[:, None], axis=2)
        factor = np.where(of_power[:, None], through, one)[:, None]
        state = np.where(of_power, columns % n, 0)
        # Slopes of powers are skipped if no member may change them.
        changing: Mask = np.asarray(self.free.any(axis=0))
        bends = bool((of_power & changing[columns]).any())
        members = np.arange(len(w))[:, None]
        of_logs = (down[..., None] * w[:, :, None]).reshape(len(w), h, -1)

        def by_columns(x: Array) -> tuple[Array, Array, Array]:
            z = self.features(x)
            bases = pair.bases(z)
            y = pair.products(across, bases, whole)
            own = np.ascontiguousarray(y.swapaxes(1, 2)[members, row].swapaxes(1, 2))
            if bends:
                logs = np.log(np.abs(bases))
                of_w = own * np.take_along_axis(logs, state[:, None], axis=2)
                if whole is None and not pair.nonnegative.all():
                    angles = pair.angles(bases)
                    turned = np.exp(logs @ across) * np.sin(angles @ across)
                    turned = np.take_along_axis(turned, row[:, None], axis=2)
                    of_w = of_w - turned * np.take_along_axis(angles, state[:, None], axis=2)
                own = np.where(of_power[:, None], of_w, own)
            slopes = (y @ of_logs).reshape(*y.shape[:2], pair.n_out, n) * (pair.signs(z) / bases)[:, :, None]
            return y @ down, self._to_states(slopes, x), factor * own[:, :, None]

        return by_columns

    def _chain_rule(self, theta: Array, columns: Indices) -> Linearisation:
        """Linearisation of any number of pairs: cotangents [members, batch, K, n_out] are pulled back from the last."""
        layers = self._layers(theta)

        def by_chain_rule(x: Array) -> tuple[Array, Array, Array]:
            z, passed = self.features(x), []
            for pair, across, down, whole in layers:
                bases = pair.bases(z)
                y = pair.products(across, bases, whole)
                passed.append((bases, y, pair.signs(z) / bases))
                z = y @ down
            n, slopes = z.shape[-1], list[Array]()
            g = np.broadcast_to(np.eye(n), (*z.shape[:-1], n, n))
            for (pair, across, down, whole), (bases, y, of_logs) in zip(layers[::-1], passed[::-1], strict=True):
                of_weight = g[..., None] * y[:, :, None, None, :]
                g = g @ down.swapaxes(1, 2)[:, None]
                g_exponent, logs = g * y[:, :, None, :], np.log(np.abs(bases))
                of_real = g_exponent[..., None] * logs[:, :, None, None, :]
                if whole is None and not pair.nonnegative.all():
                    angles = pair.angles(bases)
                    g_angle = g * (-np.exp(logs @ across) * np.sin(angles @ across))[:, :, None, :]
                    of_real = of_real + g_angle[..., None] * angles[:, :, None, None, :]
                g = (g_exponent @ across.swapaxes(1, 2)[:, None]) * of_logs[:, :, None, :]
                slopes[:0] = [of_real.reshape(*z.shape, -1), of_weight.reshape(*z.shape, -1)]
            f_theta = np.take_along_axis(np.concatenate(slopes, axis=-1), columns[:, None, None, :], axis=-1)
            return z, self._to_states(g, x), f_theta

        return by_chain_rule

    def _to_states(self, slopes: Array, x: Array) -> Array:
        """Slopes along the states [..., states] from slopes along states and their functions [..., features]."""
        if not self.functions:
            return slopes
        to_x = slopes[..., : self.n_states].copy()
        for i, f in enumerate(self.functions):
            slope = f.kind.slope_within_bounds(np, f.rate * x[..., f.state]) * f.rate
            to_x[..., f.state] += slopes[..., self.n_states + i] * slope[:, :, None]
        return to_x

    def replace(self, theta: Array, free: Mask | None = None) -> Chain:
        """The same chain with other parameters theta [members, P] and, if given, other `free`."""
        return dataclasses.replace(self, theta=theta, free=self.free if free is None else free)


def member_rates(chain: Chain, theta: Array) -> PlainRates | None:
    """`Chain.rhs` up to rounding as a function x_1, ..., x_n -> (dx_1/dt, ...) of plain numbers, for parameters theta
    [P]; it raises ArithmeticError or ValueError where a number becomes too large.

    None if an input that may be negative has a power that is not whole, which makes it complex (see `Pair.angles`), or
    if arguments of functions are bounded.
    """
    if any(np.isfinite(f.kind.bounds).any() for f in chain.functions):
        return None
    g, constants = Graph(), list[float]()

    def constant(value: float) -> int:
        constants.append(float(value))
        return g.p(len(constants) - 1)

    def sums(weights: Array, parts: list[int]) -> list[int]:
        return [g.plus(*(g.times(constant(row[j]), parts[j]) for j in np.flatnonzero(row))) for row in weights]

    z = [g.x(k) for k in range(chain.n_states)]
    z += [g.function(f.name, g.times(constant(f.rate), z[f.state])) for f in chain.functions]
    for pair, ((exponents,), (weights,)) in zip(chain.pairs, chain.unpack(theta[None]), strict=True):
        exponents = np.where(weights.any(axis=0)[:, None], exponents, 0.0)
        whole = exponents == np.rint(exponents)
        if (~whole & ~pair.nonnegative).any():
            return None
        near = constant(EPSILON)
        bases = [
            g.plus(g.function("ramp", x), near) if positive else g.plus(x, g.times(near, g.function("side", x)))
            for x, positive in zip(z, pair.nonnegative, strict=True)
        ]
        products = [
            g.times(*(g.power(bases[k], constant(row[k]), bool(own[k])) for k in np.flatnonzero(row)))
            for row, own in zip(exponents, whole, strict=True)
        ]
        z = sums(weights, products)
    values = z if chain.stoichiometry is None else sums(chain.stoichiometry, z)
    return partial(g.compiled(values, len(constants), chain.n_states, plain=True), *constants)


@dataclass(frozen=True, eq=False)
class Layer:
    """One arithmetic unit: y [n_out] = unit(x [n_in]).

    Args:
        unit: name in the registry of units, e.g. "RealNPU".
        n_out, n_in: widths of the output and the input.
        arrays: the weights by name, e.g. {"real": [n_out, n_in], "gate": [n_in]}.
        functions: for a layer of functions, the name and the feature of each output after the features.
    """

    unit: str
    n_out: int
    n_in: int
    arrays: Mapping[str, NDArray[np.float64]]
    functions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Network:
    """A chain of units between dimensionless states and their dimensionless rates.

    Its file is read without pickle, so that an untrusted one can contain numbers only.

    Args:
        layers: input first.
        scale: the scale by which the data are divided before they enter the network.
    """

    layers: tuple[Layer, ...]
    scale: Scale

    def sees(self, names: Sequence[str]) -> list[str]:
        """Names of the network's inputs: a mirrored state, of negative scale, is −x."""
        below = self.scale.state < 0.0
        return [f"\N{MINUS SIGN}{name}" if k < len(below) and below[k] else name for k, name in enumerate(names)]

    @staticmethod
    def to_bytes(network: Network | None) -> bytes:
        """The content of `model.npz`; without layers if there is no network."""
        arrays: dict[str, NDArray[np.float64]] = {}
        chain = []
        for i, layer in enumerate(network.layers if network else ()):
            chain.append(
                {"unit": layer.unit, "outputs": layer.n_out, "inputs": layer.n_in, "functions": layer.functions}
            )
            arrays |= {f"{i}.{name}": np.asarray(a, float) for name, a in layer.arrays.items()}
        if network:
            arrays["scale.state"] = np.asarray(network.scale.state, float)
            arrays["scale.time"] = np.array(float(network.scale.time))
        return pack("layers", chain, arrays)

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Network | None:
        """The network in a file made by `to_bytes`, None if it has no layers; InputError names the path of a file that
        is truncated or contains anything else."""
        return unpack(content, path, "layers", _assembled)


def _assembled(chain: Any, arrays: Mapping[str, NDArray[np.float64]]) -> Network | None:
    """Assemble a network from its entries, None if there are none; ValueError if they do not fit together."""
    layers: list[Layer] = []
    for i, entry in enumerate(chain):
        start = f"{i}."
        own = {name.removeprefix(start): np.asarray(a, float) for name, a in arrays.items() if name.startswith(start)}
        functions = tuple((str(name), int(k)) for name, k in entry.get("functions", ()))
        layer = Layer(str(entry["unit"]), int(entry["outputs"]), int(entry["inputs"]), own, functions)
        n_out, n_in = layer.n_out, layer.n_in
        fits = min(n_out, n_in) > 0 and (not layers or layers[-1].n_out == n_in)
        fits &= {array.shape for array in own.values()} <= {(n_out, n_in), (n_in,), (n_out,), (len(functions),)}
        if not (fits and all(np.isfinite(array).all() for array in own.values())):
            raise ValueError("its layers do not fit each other")
        layers.append(layer)
    if not layers:
        return None
    return Network(tuple(layers), Scale.from_arrays(arrays["scale.state"], arrays["scale.time"]))


def laws_of(chain: Chain) -> list[PowerSum]:
    """Convert each member of a chain to a law, with equal monomials merged."""
    laws, simple = [], chain.n_states + len(chain.functions)
    for member in range(chain.members):
        *before, (exponents, weight) = [(real[member], w[member]) for real, w in chain.unpack(chain.theta)]
        sums = NO_SUMS
        if before:
            ((inner, adding),) = before
            sums = Sums(adding[simple:, simple + 1 :].copy(), inner[simple + 1 :].copy())
        if len(sums):
            # Without weights a sum is 1, whatever its power.
            used = np.any(sums.weights != 0, axis=1)
            exponents = exponents.copy()
            exponents[:, simple:][:, ~used] = 0.0
        features = Features(chain.n_states, chain.functions, sums) if before or chain.functions else None
        laws.append(PowerSum(weight.copy(), exponents.copy(), features, chain.stoichiometry).merged().compact())
    return laws


def chain_of(
    laws: Sequence[PowerSum], nonnegative: Mask, *, whole: bool = False, held: Sequence[tuple[Mask, Mask]] | None = None
) -> Chain:
    """Convert laws to members of one chain, as small as the laws allow.

    Zeros of a law are not free. Exponents of features that change sign are rounded and fixed too, since only their
    whole powers are real.

    Args:
        nonnegative: which states never change sign, [states].
        whole: round and fix the exponents of all features except exponentials, whose exponents are their rates.
        held: masks of coefficients [states, monomials] and exponents [monomials, features] of each law that are known
            and fixed; their features are states.
    """
    n, width = len(nonnegative), max(1, *(law.n_monomials for law in laws))
    features = [law.features or Features(n) for law in laws]
    functions = tuple(dict.fromkeys(f for own in features for f in own.functions))
    of_functions = np.array([f.kind.power_is_rate for f in functions], dtype=bool)
    positive = np.concatenate([nonnegative, of_functions])
    fitted = np.concatenate([nonnegative & (not whole), of_functions])
    sums = max(len(own.sums) for own in features)
    inner = max(own.sums.exponents.shape[0] for own in features)
    simple = n + len(functions)
    pairs = [Pair(positive, simple + 1 + inner, simple + sums)] if sums else []
    pairs.append(Pair(np.append(positive, np.ones(sums, dtype=bool)), width, n))
    theta, free = [], []
    for i, (law, own) in enumerate(zip(laws, features, strict=True)):
        places = np.array([*range(n), *(n + functions.index(f) for f in own.functions)], dtype=int)
        real, weight = np.zeros((width, simple + sums)), np.zeros((n, width))
        of_law = np.append(places, simple + np.arange(len(own.sums)))
        real[np.ix_(np.arange(law.n_monomials), of_law)] = law.exponents
        weight[:, : law.n_monomials] = law.coefficients
        layers = _layers_of_sums(own.sums, places, fitted, sums, inner) if sums else []
        powers, own_free = _powers(real[:, :simple], fitted)
        # Sums are positive, so that half of a power, as in a norm, is real.
        of_sums = real[:, simple:]
        free_sums = (of_sums != 0) & (not whole)
        layers += [(np.hstack([powers, of_sums]), np.hstack([own_free, free_sums])), (weight, weight != 0)]
        if held is not None:
            coefficients, exponents = held[i]
            layers[-1][1][:, : len(exponents)] &= ~coefficients
            layers[-2][1][: len(exponents), :n] &= ~exponents[:, :n]
        theta.append(np.concatenate([values.ravel() for values, _ in layers]))
        free.append(np.concatenate([mask.ravel() for _, mask in layers]))
    return Chain(n, functions, tuple(pairs), np.stack(theta), np.stack(free), laws[0].stoichiometry)


def _powers(real: Array, fitted: Mask) -> tuple[Array, Mask]:
    """Exponents, rounded where not fitted, and the mask of free ones, which excludes zeros."""
    return np.where(fitted, real, np.round(real)), fitted & (real != 0)


def _layers_of_sums(own: Sums, places: Indices, fitted: Mask, sums: int, inner: int) -> list[tuple[Array, Mask]]:
    """The pair of layers that passes on all simple features and appends sums 1 + B y^V, with room for `sums` sums of
    `inner` monomials; `places` are the positions of the law's features among all simple ones."""
    simple = len(fitted)
    real = np.zeros((simple + 1 + inner, simple))
    real[:simple] = np.eye(simple)
    rows = np.arange(len(own.exponents))
    if len(rows):
        real[np.ix_(simple + 1 + rows, places)] = own.exponents
    own_rows = np.arange(len(real))[:, None] > simple
    weight = np.zeros((simple + sums, len(real)))
    weight[:simple, :simple], weight[simple:, simple] = np.eye(simple), 1.0
    b = weight[simple:, simple + 1 :]
    b[: len(own), : len(rows)] = own.weights
    free = np.zeros(weight.shape, dtype=bool)
    free[simple:, simple + 1 :] = b != 0
    return [_powers(real, own_rows & fitted), (weight, free)]


def network_of(law: PowerSum, scale: Scale, equations: int | None = None) -> Network:
    """Convert a law to a chain of units, with only the first `equations` equations (features have none)."""
    chain = chain_of([expanded(law)], np.ones(law.n_states, dtype=bool))
    n, functions, layers = chain.n_states, chain.functions, []
    if functions:
        # One rate for every output; the states pass unchanged.
        rates = np.array([*[1.0] * n, *(f.rate for f in functions)])
        names = tuple((f.name, f.state) for f in functions)
        layers.append(Layer("Functions", n + len(functions), n, {"rate": rates}, names))
    for k, (pair, (real, weight)) in enumerate(zip(chain.pairs, chain.unpack(chain.theta), strict=True), start=1):
        gate = np.ones(pair.n_in)
        layers.append(Layer("RealNPU", pair.width, pair.n_in, {"real": real[0], "gate": gate}))
        total = weight[0][:equations] if k == len(chain.pairs) else weight[0]
        layers.append(Layer("NAU", len(total), pair.width, {"weight": total}))
    return Network(tuple(layers), scale)
