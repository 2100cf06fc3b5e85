"""Evaluator of right-hand sides: arithmetic as a graph, with exact derivatives, compiled once per form.

    dx_i/dt = f_i(x, p)        variables x (states, then controls), parameters p (the constants of a law)

A law becomes a graph whose nodes are variables, parameters, numbers, sums, products, powers and functions; equal
nodes are merged. Derivatives are nodes too, so that values and slopes share common subexpressions. All
constants of a law are arguments, so laws of one form are compiled once, and the function accepts arrays of any shapes
that broadcast. For the single points of an adaptive solver the same text is compiled for plain numbers, because there
a call of numpy takes a hundred times as long as the arithmetic.

The base of a fractional power is max(base, 1e-300): only noise or an overshooting solver makes it negative.

Source: Griewank and Walther, Evaluating Derivatives (2008), Ch. 3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray

from odediscovery.families import STATE_FUNCTIONS
from odediscovery.ivp.solvers import PlainRates, compiled
from odediscovery.laws.power_sum import Free, PowerSum, all_free, count, fractional
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask

# Operation and arguments: ("x", k), ("p", k), ("number", value), ("+", *nodes), ("*", *nodes),
# ("^", base, exponent, is_whole), (name of a function, node), ("positive", node): max(node, 1e-300).
Node = tuple[Any, ...]
# p_0, ..., x_0, ... -> values of nodes.
Compiled = Callable[..., tuple[Any, ...]]


class GraphFunction(NamedTuple):
    """A function in a graph: for arrays, for plain numbers, and its slope in the form of `StateFunction.slope`."""

    array: Callable[[Any], Any]
    plain: Callable[[float], float]
    slope: Callable[[Any, Any], Any] | None = None
    positive: bool = False


FUNCTIONS: dict[str, GraphFunction] = {
    # The ln that users write is undefined for negative numbers, unlike the log of a family.
    "ln": GraphFunction(np.log, math.log, lambda lib, z: 1.0 / z),
    "tan": GraphFunction(np.tan, math.tan, lambda lib, z: lib.tan(z) ** 2 + 1.0),
    "tanh": GraphFunction(np.tanh, math.tanh, lambda lib, z: 1.0 - lib.tanh(z) ** 2),
    "sign": GraphFunction(np.sign, lambda z: math.copysign(1.0, z) if z else z, lambda lib, z: z * 0.0),
    # max(z, 0), and the sign of z with 1 at 0.
    "ramp": GraphFunction(lambda z: np.maximum(z, 0.0), lambda z: 0.0 if z < 0.0 else z),
    "side": GraphFunction(lambda z: np.where(z < 0.0, -1.0, 1.0), lambda z: -1.0 if z < 0.0 else 1.0),
    **{name: GraphFunction(f.value, f.plain, f.slope, f.positive) for name, f in STATE_FUNCTIONS.items()},
}


# Names in `FUNCTIONS` by sympy function.
_NAMES = {getattr(sympy, name): name for name in FUNCTIONS if hasattr(sympy, name)} | {sympy.log: "ln"}


class Graph:
    """Arithmetic over variables and parameters; a node is identified by its index.

    >>> g = Graph()
    >>> x, k = g.x(0), g.p(0)
    >>> decay = g.times(g.number(-1.0), k, x)
    >>> g.compiled([decay, g.slope(decay, x), g.slope(decay, k)], 1, 1)(0.5, 2.0)
    (-1.0, -0.5, -2.0)
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        # the variables and parameters on which each node depends
        self._inputs: list[frozenset[int]] = []
        self._places: dict[Node, int] = {}
        self._slopes: dict[tuple[int, int], int] = {}

    def _node(self, *node: Any) -> int:
        if node not in self._places:
            place = self._places[node] = len(self.nodes)
            kind, *parts = node
            self.nodes.append(node)
            if kind in ("x", "p", "number"):
                self._inputs.append(frozenset(() if kind == "number" else (place,)))
            else:
                parts = parts[:2] if kind == "^" else parts
                self._inputs.append(frozenset[int]().union(*(self._inputs[part] for part in parts)))
        return self._places[node]

    def x(self, k: int) -> int:
        """Variable k."""
        return self._node("x", k)

    def p(self, k: int) -> int:
        """Parameter k."""
        return self._node("p", k)

    def number(self, value: float) -> int:
        """A fixed number of the form."""
        return self._node("number", float(value))

    def value(self, node: int) -> float | None:
        """The value of a node that is a number; None for other nodes."""
        found = self.nodes[node]
        return found[1] if found[0] == "number" else None

    def plus(self, *parts: int) -> int:
        """The sum of nodes."""
        constant = sum(value for part in parts if (value := self.value(part)) is not None)
        others = [part for part in parts if self.value(part) is None]
        if constant or not others:
            others.append(self.number(constant))
        return others[0] if len(others) == 1 else self._node("+", *others)

    def times(self, *parts: int) -> int:
        """The product of nodes."""
        flat = [part for of in parts for part in (self.nodes[of][1:] if self.nodes[of][0] == "*" else (of,))]
        constant = math.prod(value for part in flat if (value := self.value(part)) is not None)
        others = [part for part in flat if self.value(part) is None]
        if constant == 0.0 or not others:
            return self.number(constant)
        if constant != 1.0:
            others.insert(0, self.number(constant))
        return others[0] if len(others) == 1 else self._node("*", *others)

    def power(self, base: int, exponent: int, whole: bool | None = None) -> int:
        """base ** exponent; `whole` says whether an exponent that is not a number node takes whole values only."""
        value, number = self.value(exponent), self.value(base)
        if value is not None:
            whole = value.is_integer()
            if value in (0.0, 1.0):
                return base if value else self.number(1.0)
            if number is not None and (number > 0.0 or whole) and number != 0.0:
                return self.number(number**value)
        return self._node("^", base, exponent, bool(whole))

    def function(self, name: str, argument: int) -> int:
        """A function from `FUNCTIONS`, applied to a node."""
        return self._node(name, argument)

    def slope(self, node: int, by: int) -> int:
        """The derivative of a node with respect to a variable or parameter."""
        if by not in self._inputs[node]:
            return self.number(0.0)
        if (node, by) not in self._slopes:
            self._slopes[node, by] = self.number(1.0) if node == by else self._slope(self.nodes[node], node, by)
        return self._slopes[node, by]

    def _slope(self, of: Node, node: int, by: int) -> int:
        match of:
            case ("x" | "p" | "number", _):
                return self.number(0.0)
            case ("+", *parts):
                return self.plus(*(self.slope(part, by) for part in parts))
            case ("*", *parts):
                each = (self.times(self.slope(part, by), *parts[:k], *parts[k + 1 :]) for k, part in enumerate(parts))
                return self.plus(*each)
            case ("^", base, exponent, whole):
                lower = self.power(base, self.plus(exponent, self.number(-1.0)), whole)
                inside = self.times(exponent, lower, self.slope(base, by))
                grown = self.slope(exponent, by)
                if self.value(grown) == 0.0:
                    return inside
                logarithm = self.function("log", self.function("Abs", base) if whole else base)
                return self.plus(inside, self.times(node, logarithm, grown))
            case (name, argument):
                return self.times(self._outer_slope(name, argument), self.slope(argument, by))
        raise AssertionError(of)

    def _outer_slope(self, name: str, z: int) -> int:
        """f'(z)."""
        function, symbol = FUNCTIONS[name], sympy.Symbol("z")
        if function.slope is None:
            raise ValueError(f"no derivative of {name} is known")
        argument = self._node("positive", z) if function.positive else z
        return self.expression(function.slope(sympy, symbol), {symbol: argument})

    def expression(self, part: sympy.Expr, places: Mapping[sympy.Symbol, int]) -> int:
        """The node of an expression whose symbols have nodes in `places`."""
        if part in places:
            return places[part]
        if part.is_Number or part.is_NumberSymbol:
            return self.number(float(part))
        nodes = [self.expression(argument, places) for argument in part.args]
        if part.is_Add:
            return self.plus(*nodes)
        if part.is_Mul:
            return self.times(*nodes)
        if part.is_Pow:
            return self.power(nodes[0], nodes[1])
        if part.func not in _NAMES:
            raise NotImplementedError(f"{part.func.__name__}: no law and no slope of a function may contain it")
        return self.function(_NAMES[part.func], nodes[0])

    def compiled(self, values: Sequence[int], parameters: int, variables: int, *, plain: bool = False) -> Compiled:
        """The function p_0, ..., x_0, ... -> values of nodes, for arrays or for plain numbers."""
        code = _Code(self, plain)
        results = [code.name(node) for node in values]
        body = "".join(f"        {line}\n" for line in code.lines)
        inputs = ", ".join([*(f"p{k}" for k in range(parameters)), *(f"x{k}" for k in range(variables))])
        text = (
            f"def of_functions({', '.join(code.known)}):\n"
            f"    def values({inputs}):\n{body}        return ({', '.join(results)},)\n"
            "    return values\n"
        )
        function: Compiled = compiled(text)(*code.known.values())
        return function


@dataclass
class _Code:
    """Source text of a graph, line by line, each node once."""

    graph: Graph
    plain: bool
    lines: list[str] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    numbers: dict[float, int] = field(default_factory=dict)

    def name(self, node: int) -> str:
        """The variable that holds a node's value, or the text of an input or number."""
        if node not in self.names:
            text = self._text(self.graph.nodes[node])
            if self.graph.nodes[node][0] in ("x", "p", "number"):
                return text
            self.lines.append(f"v{len(self.lines)} = {text}")
            self.names[node] = f"v{len(self.lines) - 1}"
        return self.names[node]

    def _text(self, node: Node) -> str:
        match node:
            case ("x" | "p" as kind, k):
                return f"{kind}{k}"
            case ("number", value):
                # Python parses a negative number as an operation.
                place = self.numbers.setdefault(value, len(self.numbers))
                return repr(value) if 0.0 <= value < math.inf else self._known(f"number{place}", value)
            case ("+" | "*" as operation, *parts):
                return f" {operation} ".join(self.name(part) for part in parts)
            case ("^", base, exponent, whole):
                return self._power(self.name(base), exponent, whole)
            case ("positive", z):
                return self._at_least(self.name(z))
            case (name, argument):
                function = FUNCTIONS[name].plain if self.plain else FUNCTIONS[name].array
                return f"{self._known(name, function)}({self.name(argument)})"
        raise AssertionError(node)

    def _power(self, base: str, exponent: int, whole: bool) -> str:
        value = self.graph.value(exponent)
        if value is not None and value.is_integer() and 0.0 < value <= 4.0:
            return " * ".join([base] * int(value))
        if value == -1.0:
            return f"1.0 / {base}"
        power = self.name(exponent)
        return f"{base} ** {power}" if whole else f"{self._at_least(base)} ** {power}"

    def _at_least(self, base: str) -> str:
        least = self._known("least", ABOVE_ZERO)
        if self.plain:
            return f"({least} if {base} < {least} else {base})"
        return f"{self._known('maximum', np.maximum)}({base}, {least})"

    def _known(self, name: str, value: Any) -> str:
        self.known[name] = value
        return name


@dataclass(eq=False)
class CompiledForm:
    """Right-hand sides of one form, as nodes of a graph."""

    graph: Graph
    sides: Sequence[int]
    variables: int
    parameters: int
    sought: tuple[int, ...]  # parameters with slopes
    _seeking: dict[tuple[int, ...], CompiledForm] = field(default_factory=dict, init=False)

    @cached_property
    def values(self) -> Compiled:
        """The function p_0, ..., x_0, ... -> rates of each state, for arrays that broadcast."""
        return self.graph.compiled(self.sides, self.parameters, self.variables)

    @cached_property
    def plain(self) -> PlainRates:
        """`values` for plain numbers; raises ArithmeticError or ValueError where one becomes too large."""
        return self.graph.compiled(self.sides, self.parameters, self.variables, plain=True)

    def seeking(self, parameters: tuple[int, ...]) -> CompiledForm:
        """The same form with slopes by the variables and these parameters."""
        if parameters == self.sought:
            return self
        return self._seeking.setdefault(parameters, replace(self, sought=parameters))

    @cached_property
    def varied(self) -> CompiledForm:
        """A form whose variables are x and its sensitivities S to states and sought parameters, row by row.

        dS/dt = (df/dx) S + [0, df/dp]
        """
        g, n = self.graph, self.variables
        by = [*(g.x(k) for k in range(n)), *(g.p(k) for k in self.sought)]
        s = [[g.x(n + k * len(by) + j) for j in range(len(by))] for k in range(n)]
        sides = list(self.sides)
        for side in self.sides:
            for j, parameter in enumerate(by):
                moved = [g.times(g.slope(side, by[k]), s[k][j]) for k in range(n)]
                sides.append(g.plus(*moved, *([g.slope(side, parameter)] if j >= n else [])))
        return CompiledForm(g, sides, n * (1 + len(by)), self.parameters, ())

    @cached_property
    def _slopes(self) -> tuple[Compiled, list[tuple[int, int]]]:
        """A function for rates and non-zero slopes, and the place (side, variable or parameter) of each slope."""
        g = self.graph
        by = [*(g.x(k) for k in range(self.variables)), *(g.p(k) for k in self.sought)]
        places = [(i, j) for i in range(len(self.sides)) for j in range(len(by))]
        nodes = {place: g.slope(self.sides[place[0]], by[place[1]]) for place in places}
        kept = [place for place in places if g.value(nodes[place]) != 0.0]
        found = g.compiled([*self.sides, *(nodes[place] for place in kept)], self.parameters, self.variables)
        return found, kept

    def rates(self, x: Array, p: Sequence[Any]) -> Array:
        """dx/dt [sides, ...] for variables [variables, ...]; numpy's warnings are left to the caller."""
        return _stacked(self.values(*p, *x), np.shape(x)[1:])

    def rates_at(self, x: Array, p: Sequence[Any]) -> Array:
        """dx/dt [..., sides] for points [..., variables]; moving the axis would take longer."""
        found = np.empty((*x.shape[:-1], len(self.sides)))
        for i, value in enumerate(self.values(*p, *(x[..., k] for k in range(self.variables)))):
            found[..., i] = value
        return found

    def linearised(self, x: Array, p: Sequence[Any]) -> tuple[Array, Array]:
        """dx/dt [sides, ...] and its slopes by variables, then sought parameters [sides, variables + sought, ...]."""
        function, places = self._slopes
        n, shape = len(self.sides), np.shape(x)[1:]
        values = function(*p, *x)
        slopes = np.zeros((n, self.variables + len(self.sought), *shape))
        for place, value in zip(places, values[n:], strict=True):
            slopes[place] = value
        return _stacked(values[:n], shape), slopes


def _stacked(values: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """Arrays and numbers that broadcast to a shape, as one array [values, *shape]."""
    found = np.empty((len(values), *shape))
    for i, value in enumerate(values):
        found[i] = value
    return found


def form_of_expressions(
    sides: Sequence[sympy.Expr],
    variables: Sequence[sympy.Symbol],
    parameters: Sequence[sympy.Symbol] = (),
    *,
    scaled: bool = False,
) -> CompiledForm:
    """The form of expressions; variables are the states, then the controls.

    With `scaled`, variables are dimensionless and constants are not: the scales of all variables and of time become
    further parameters, without slopes.
    """
    g, n, k = Graph(), len(variables), len(parameters)
    units = [g.p(k + i) for i in range(n + 1)] if scaled else [g.number(1.0)] * (n + 1)
    places = {symbol: g.times(units[i], g.x(i)) for i, symbol in enumerate(variables)}
    places |= {symbol: g.p(i) for i, symbol in enumerate(parameters)}
    rates = [g.expression(side, places) for side in sides]
    if scaled:
        rates = [g.times(units[n], g.power(units[i], g.number(-1.0)), rate) for i, rate in enumerate(rates)]
    return CompiledForm(g, rates, n, k + scaled * (n + 1), tuple(range(k)))


@dataclass(frozen=True, eq=False)
class FilledForm:
    """A form with values of its constants, accepted by solvers and fits like a sum of powers."""

    form: CompiledForm  # its right-hand sides, 0 for controls
    values: Array  # of the parameters that a fit may change
    known: tuple[float, ...] = ()  # values of further parameters, which are fixed

    @property
    def n_states(self) -> int:
        """Number of states and controls."""
        return self.form.variables

    @property
    def constants(self) -> tuple[Array, Array, Array, Array]:
        """The values in place of the coefficients of a sum of powers, and three empty arrays."""
        nothing = np.zeros(0)
        return self.values, nothing, nothing, nothing

    def with_constants(self, values: Array, *_: Array) -> FilledForm:
        """The same form with other values."""
        return replace(self, values=values)


def compiled_law(law: PowerSum | FilledForm, free: Free | None = None) -> tuple[CompiledForm, list[float]]:
    """The form of a law, with slopes by the free constants (default: all), and the values of its parameters.

    Those of a sum of powers are its constants that are non-zero or free, the rates of its functions, and the shares of
    its flows.
    """
    if isinstance(law, FilledForm):
        form = law.form if free is None else law.form.seeking(tuple(np.flatnonzero(free[0]).tolist()))
        return form, [*law.values.tolist(), *law.known]
    there, sought = [part != 0 for part in law.constants], None
    if free is not None:
        there = [own | mask for own, mask in zip(there, free, strict=True)]
        sought = np.concatenate([mask[own] for mask, own in zip(free, there, strict=True)]).tobytes()
    constants = [c for part, own in zip(law.constants, there, strict=True) for c in part[own].tolist()]
    functions, flows, pattern = law.inputs.functions, law.stoichiometry, None
    if flows is not None:
        pattern = flows.shape, (flows != 0).tobytes()
    a, w, b, v = there
    kinds = (a, _kinds(law.constants[1], w), b, _kinds(law.constants[3], v))
    shapes = tuple((part.shape, part.astype(np.uint8).tobytes()) for part in kinds)
    named = tuple((f.name, f.state) for f in functions)
    form = _form(law.n_states, shapes, named, pattern, law.mirrored, sought)
    return form, [*constants, *(f.rate for f in functions), *(() if flows is None else flows[flows != 0].tolist())]


# Kinds of exponents: absent, 1, another whole number, fractional.
NONE, ONE, WHOLE, REAL = range(4)


def _kinds(exponents: Array, there: Mask) -> Array:
    kinds = np.where(fractional(exponents), REAL, WHOLE)
    kinds[exponents == 1.0] = ONE
    kinds[~there] = NONE
    return kinds


@lru_cache(maxsize=1024)  # some kB each
def _form(
    n: int,
    shapes: tuple[tuple[tuple[int, ...], bytes], ...],
    functions: tuple[tuple[str, int], ...],
    flows: tuple[tuple[int, ...], bytes] | None,
    mirrored: tuple[int, ...],
    sought: bytes | None,
) -> CompiledForm:
    """The form of a sum of powers; its parameters are numbered as in `compiled_law`."""
    g, numbers = Graph(), itertools.count()

    def numbered(kinds: NDArray[Any]) -> Indices:
        """Indices of the parameters in an array, -1 for none."""
        places = np.full(kinds.shape, -1)
        places[kinds != 0] = list(itertools.islice(numbers, int(np.count_nonzero(kinds))))
        return places

    def products(kinds: NDArray[Any], places: Indices) -> list[int]:
        """Products of powers of the bases, one per row."""
        found = []
        for row, own in zip(kinds.tolist(), places.tolist(), strict=True):
            factors = []
            for k in np.flatnonzero(row).tolist():
                base = g.times(g.number(-1.0), bases[k]) if row[k] == REAL and k in mirrored else bases[k]
                # A slope by an exponent needs it as a parameter even if its value is 1.
                plain = row[k] == ONE and own[k] not in wanted
                factors.append(base if plain else g.power(base, g.p(own[k]), row[k] != REAL))
            found.append(g.times(*factors))
        return found

    def sums(places: Indices, parts: Sequence[int]) -> list[int]:
        """Sums of parts with parameters as coefficients, one per row."""
        rows = ([g.times(g.p(p), parts[j]) for j, p in enumerate(row) if p >= 0] for row in places.tolist())
        return [g.plus(*row) for row in rows]

    a, w, b, v = (np.frombuffer(part, dtype=np.uint8).reshape(shape) for shape, part in shapes)
    of_a, of_w, of_b, of_v = map(numbered, (a, w, b, v))
    fitted = sum(int(np.count_nonzero(part)) for part in (a, w, b, v))
    wanted = set(range(fitted)) if sought is None else set(np.flatnonzero(np.frombuffer(sought, dtype=bool)).tolist())
    bases = [g.x(k) for k in range(n)]
    bases += [g.function(name, g.times(g.p(next(numbers)), g.x(state))) for name, state in functions]
    bases += [g.plus(g.number(1.0), total) for total in sums(of_b, products(v, of_v))]
    sides = sums(of_a, products(w, of_w))
    if flows is not None:
        sides = sums(numbered(np.frombuffer(flows[1], dtype=bool).reshape(flows[0])), sides)
    return CompiledForm(g, sides, n, next(numbers), tuple(sorted(wanted)))


# (t, states) -> their rates.
Rates = Callable[[float, Array], Any]


def vector_field(law: PowerSum | FilledForm) -> Callable[[float, Array], Array]:
    """The function (t, x) -> dx/dt for points x [..., variables]; numpy's warnings are left to the caller."""
    if isinstance(law, PowerSum) and _is_long(law):
        return lambda t, x: law.rhs(x)
    form, constants = compiled_law(law)
    return lambda t, x: form.rates_at(x, constants)


def _is_long(law: PowerSum) -> bool:
    """Whether a law has too many constants to compile, so that array products evaluate it."""
    return count(all_free(law)) > 200


def point_field(law: PowerSum | FilledForm, states: int | None = None) -> Rates:
    """The function (t, x) -> dx/dt at one point, for solvers; only the first `states` rates if given."""
    if isinstance(law, PowerSum) and _is_long(law):
        return lambda t, x: law.rhs(x)[:states]
    form, constants = compiled_law(law)
    plain = partial(form.plain, *constants)

    def dx_dt(t: float, x: Array) -> Sequence[float] | Array:
        try:
            return plain(*x.tolist())[:states]
        except (ArithmeticError, ValueError):  # a number is too large
            with np.errstate(all="ignore"):
                return form.rates(x, constants)[:states]

    return dx_dt
