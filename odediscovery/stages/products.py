"""Products of powers of states, functions and sums: what a law adds up, with the constants that may be fitted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from odediscovery.families import Shape
from odediscovery.laws.power_sum import NO_SUMS, Sums
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.stages.integral_form import LEAST, SHARED, Draft, Path, with_sum

# Most that a step of Gauss-Newton changes a constant: an exponent of a state, a rate, and shares of weights in sums and
# of exponents there.
MOST_EXPONENT, MOST_RATE, WEIGHT_SHARES, INNER_SHARES = 0.5, 1.0, (0.3, 3.0), (-0.4, 0.6)


@dataclass(frozen=True, eq=False)
class Product:
    """prod_k x_k ** row[k] prod_l u_l ** power[l] with sums u."""

    row: Array  # [states and functions]
    sums: Sums = NO_SUMS
    power: Array = field(default_factory=lambda: np.zeros(0))  # [sums]

    @classmethod
    def of(cls, shape: Shape, width: int) -> Product:
        """The product of a shape beside further functions, up to `width` states and functions."""
        row, inside = (np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in (shape.row[None], shape.inside))
        sums = Sums(shape.weights, inside) if len(shape.power) else NO_SUMS
        return cls(row[0], sums, shape.power)

    @functools.cached_property
    def key(self) -> tuple[bytes, ...]:
        """The same for equal products."""
        return tuple((part + 0.0).tobytes() for part in (self.row, self.sums.exponents, self.sums.weights, self.power))

    @functools.cached_property
    def kind(self) -> tuple[bytes, ...]:
        """The same for products that differ in the values of their constants alone."""

        def kind(rows: Array) -> bytes:
            return (np.where(rows == np.round(rows), rows, 0.25 * np.sign(rows)) + 0.0).tobytes()

        return kind(self.row), kind(self.sums.exponents), (self.sums.weights != 0.0).tobytes(), self.power.tobytes()

    def values(self, path: Path) -> Array:
        """Its values at the nodes of a path."""
        found: Array = path.monomials(self.row[None])[..., 0]
        if len(self.sums):
            u = 1.0 + path.monomials(self.sums.exponents) @ self.sums.weights.T
            found = found * np.prod(np.maximum(u, LEAST) ** self.power, axis=-1)
        return found

    def slopes(self, path: Path, fitted: Callable[[Array], Mask]) -> list[Array]:
        """Derivatives of its values by its constants: exponents, weights in sums, exponents there.

        Args:
            path: where.
            fitted: exponents [rows, features] -> which of them are constants.
        """
        m = self.values(path)
        found = [m * path.log[..., k] for k in np.flatnonzero(fitted(self.row))]
        if len(self.sums):
            z = path.monomials(self.sums.exponents)
            each = m[..., None] * self.power / np.maximum(1.0 + z @ self.sums.weights.T, LEAST)
            found += [each[..., k] * z[..., j] for k, j in np.argwhere(self.sums.weights)]
            for j, k in np.argwhere(fitted(self.sums.exponents)):
                found.append((each * self.sums.weights[:, j]).sum(axis=-1) * z[..., j] * path.log[..., k])
        return found

    def moved(self, steps: Sequence[float], fitted: Callable[[Array], Mask], rates: Mask) -> Product:
        """The product with constants changed by steps, in the order of `slopes`, none by far; `rates` [features]."""
        left, row = list(steps), self.row.copy()
        for k in np.flatnonzero(fitted(row)):
            most = MOST_RATE if rates[k] else MOST_EXPONENT
            row[k] += np.clip(left.pop(0), -most, most)
        if not len(self.sums):
            return Product(row)
        b, v = self.sums.weights.copy(), self.sums.exponents.copy()
        for k, j in np.argwhere(b):
            b[k, j] *= np.clip(1.0 + left.pop(0) / b[k, j], *WEIGHT_SHARES)
        for j, k in np.argwhere(fitted(v)):
            v[j, k] += abs(v[j, k]) * np.clip(left.pop(0) / abs(v[j, k]), *INNER_SHARES)
        return Product(row, Sums(b, v), self.power)

    def simpler(self, states: int) -> list[Product]:
        """The product without each of its sums, or with z for 1 + b z, and without each of its functions."""
        found = list[Product]()
        for k in range(len(self.sums)):
            left = np.delete(np.arange(len(self.sums)), k)
            sums = self.sums.select(left) if len(left) else NO_SUMS
            inside = self.sums.select(np.array([k])).exponents
            rows = [self.row, *(self.row + self.power[k] * z for z in inside)]
            found += [Product(row, sums, self.power[left]) for row in rows]
        of_functions = np.flatnonzero(self.row[states:]) + states
        without = (np.where(np.arange(len(self.row)) == k, 0.0, self.row) for k in of_functions)
        found += [Product(row, self.sums, self.power) for row in without]
        return found

    def neighbours(self, states: int) -> list[Product]:
        """This product, and it times and over states and what its sums contain.

        What a prey loses, each predator may lose or gain; m / (1 + b z) and m z / (1 + b z) differ by a multiple of m.
        """
        factors = np.vstack([np.eye(states, len(self.row)), *([self.sums.exponents] if len(self.sums) else [])])
        rows = (self.row, *(self.row + z for z in (*factors, *-factors)))
        return [Product(row, self.sums, self.power) for row in rows]

    def added_to(self, model: Draft, equations: Mask | None = None) -> Draft:
        """The law with this product as a further monomial of these equations (default: all)."""
        sums, places, first = model.sums, list[int](), len(self.row)
        for k in range(len(self.sums)):
            sums, place = with_sum(sums, self.sums.select(np.array([k])), 1.0 + SHARED)
            places.append(first + place)
        w = np.zeros((len(model.exponents) + 1, first + len(sums)))
        w[:-1, : model.exponents.shape[1]] = model.exponents
        w[-1, :first], w[-1, places] = self.row, self.power
        own = np.ones(len(model.used), dtype=bool) if equations is None else equations
        return Draft(w, np.column_stack([model.used, own]), w != 0, sums, model.path)


def made_of(products: Sequence[Product], start: Draft) -> Draft:
    """A law with these products as further monomials."""
    return functools.reduce(lambda law, product: product.added_to(law), products, start)


def products_of(exponents: Array, sums: Sums) -> list[Product]:
    """The monomials of a law with exponents [monomials, states, functions and sums]."""
    first, found = exponents.shape[1] - len(sums), list[Product]()
    for row in exponents:
        of = np.flatnonzero(row[first:])
        found.append(Product(row[:first], sums.select(of) if len(of) else NO_SUMS, row[first + of]))
    return found
