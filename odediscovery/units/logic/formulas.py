"""Formulas of weighted real-valued logic: atoms and connectives, written with & | ~ and >>.

Formulas are values: atoms with the same name are equal, and so are formulas with equal parts and weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy
import torch

from odediscovery.units.connectives import And, Connective, Implies, Not, Or

CONNECTIVES: dict[str, type[Connective]] = {kind.__name__.lower(): kind for kind in (And, Or, Not, Implies)}


@dataclass(frozen=True)
class Formula:
    """An atom, or a connective of other formulas with their importances.

    Args:
        word: "and", "or", "not", "implies", or "atom".
        parts: formulas that it connects; in an implication the last one is implied.
        weights: importance of each part.
        bias: beta of the connective.
        name: name of an atom.

    >>> x, y = atom("x"), atom("y")
    >>> print((x & ~y) >> (x | y))
    (x and not y) implies (x or y)
    >>> (x & ~y).truth({"x": 0.9, "y": 0.25})
    0.65
    """

    word: str
    parts: tuple[Formula, ...] = ()
    weights: tuple[float, ...] = ()
    bias: float = 1.0
    name: str = ""

    def __and__(self, other: Formula) -> Formula:
        return connect("and", self, other)

    def __or__(self, other: Formula) -> Formula:
        return connect("or", self, other)

    def __rshift__(self, other: Formula) -> Formula:
        return connect("implies", self, other)

    def __invert__(self) -> Formula:
        return connect("not", self)

    def text(self) -> str:
        """The formula in words, with importances other than 1 before their part, and without parts of importance 0."""
        if self.word == "atom":
            return self.name
        parts = [
            ("" if weight == 1.0 else f"{weight:.3g} ") + (part.text() if _is_simple(part) else f"({part.text()})")
            for part, weight in zip(self.parts, self.weights, strict=True)
            if weight or self.word == "implies"
        ]
        if self.word == "not":
            return f"not {parts[0]}" if len(parts) == 1 else f"none of {', '.join(parts)}"
        if self.word == "implies" and len(parts) > 2:
            return f"({' and '.join(parts[:-1])}) implies {parts[-1]}"
        return f" {self.word} ".join(parts)

    __str__ = text

    @property
    def unit(self) -> Connective:
        """The connective as a unit with one output and these weights."""
        unit = CONNECTIVES[self.word](len(self.parts), 1, dtype=torch.float64)
        unit.weight.data.copy_(torch.tensor(self.weights, dtype=torch.float64))
        unit.bias.data.fill_(self.bias)
        return unit

    def nodes(self) -> list[Formula]:
        """All formulas in it, each once, with parts before the formulas that contain them."""
        return list(dict.fromkeys([*itertools.chain.from_iterable(part.nodes() for part in self.parts), self]))

    def atoms(self) -> list[str]:
        """Names of its atoms, in the order of their first appearance."""
        return [node.name for node in self.nodes() if node.word == "atom"]

    def truth(self, atoms: dict[str, float]) -> float:
        """The degree of truth for known degrees of all `atoms`, by name."""
        if self.word == "atom":
            return atoms[self.name]
        values = torch.tensor([part.truth(atoms) for part in self.parts], dtype=torch.float64)
        with torch.no_grad():
            return round(float(self.unit(values)), 15)

    def snapped(self) -> sympy.Basic:
        """The classical formula, as a sympy expression."""
        if self.word == "atom":
            return sympy.Symbol(self.name)
        return self.unit.snapped(self.unit.arrays(), [part.snapped() for part in self.parts])[0]

    def with_weights(self, weights: Sequence[float], bias: float) -> Formula:
        """The same formula with other `weights`, one per part, and another `bias`."""
        return replace(self, weights=tuple(weights), bias=bias)


def _is_simple(part: Formula) -> bool:
    return part.word == "atom" or (part.word == "not" and len(part.parts) == 1)


def atom(name: str) -> Formula:
    """An elementary statement, identified by its `name`.

    >>> atom("rain").text()
    'rain'
    """
    return Formula("atom", name=name)


def connect(word: str, *parts: Formula, weights: Sequence[float] | None = None, bias: float = 1.0) -> Formula:
    """A connective of formulas.

    Args:
        word: "and", "or", "not" (none of the parts) or "implies" (all but the last imply the last).
        parts: at least one, for an implication two.
        weights: importance of each part, at least 0 (default: 1).
        bias: at least 0.

    Raises:
        ValueError: the word is unknown, there are too few parts, or weights do not match.

    >>> connect("and", atom("x"), atom("y"), weights=[1.0, 0.5]).truth({"x": 1.0, "y": 0.0})
    0.5
    """
    if word not in CONNECTIVES:
        raise ValueError(f"a connective is one of {', '.join(CONNECTIVES)}, got {word!r}")
    if len(parts) < 1 + (word == "implies"):
        raise ValueError(f"{word!r} connects at least {1 + (word == 'implies')} formulas, got {len(parts)}")
    given = tuple(float(w) for w in weights) if weights is not None else (1.0,) * len(parts)
    if len(given) != len(parts) or min(*given, bias) < 0.0:
        raise ValueError(f"expected {len(parts)} weights and a bias of at least 0, got {given} and {bias}")
    return Formula(word, parts, given, float(bias))
