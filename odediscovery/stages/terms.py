"""Laws by regression of terms, on the data or along a law that follows them.

On the data, the increments of states are integrals of terms along the path through the samples (`integral_form`):
each equation is a regression of its own, and the law that it finds refines the path. Along a law f that follows the
data, and so is close to the true law f + g, to first order in g

    data - x = Phi(t, 0) d + integral_0^t Phi(t, s) g(x(s)) ds + noise,    dPhi/dt = (df/dx) Phi

along its own trajectory x, where d is the error of its start. So the effect of any product on the samples is known
without fitting a law, and choosing products is a linear regression on the data themselves, with their own noise.
Nothing is smoothed or differentiated, which misleads regression on increments in noise. Either way,

    y = sum_j a_j K_i m_j + noise

with a kernel K_i of each equation: the response of rows of the data to forces at the nodes of a path.

A product that leaves one equation and enters another is one flux, of one shape, which is paid for once. Products are
chosen in two ways, from a vocabulary that begins their constants on a coarse grid:

1. Each equation is found anew: the best sets of a few products, beside what the other equations have. One step of
each product's constants is part of the regression, since a saturation on a coarse grid explains little, and more
follow for the best sets of each size. A step flatters a product, so that sets with as many such products compete. Then
the likeliest sets of all equations are combined.
2. The best law is mended: one or two of its products at a time are left out, or replaced by others.

After each change coefficients that are not worth their price are left out, and all constants are moved by Gauss-Newton.

Source: the score test (Rao 1948) for terms of a right-hand side; Gauss-Newton, in function space; orthogonal least
squares with a beam (Chen, Billings and Luo, Int. J. Control 50, 1989); weak-form SINDy (Messenger and Bortz 2021).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import block_diag

from odediscovery.families import Family, Seen
from odediscovery.families.base import Denominators, products_up_to_degree
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums, constant_penalty, price
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask, column_norms
from odediscovery.runtime.monitor import Monitor, TimeIsUp, check_time
from odediscovery.solve.sensitivities import LinearisedTrajectory
from odediscovery.stages.integral_form import LEAST, WEIGHT, Integral, Path, Product, law_of, products_of
from odediscovery.stages.quotients import denominators
from odediscovery.stages.regression import block_sets, of_each_kind, without

# Of the time left, for screening all vocabularies.
SCREENING_SHARE = 0.7
# Directions in which responses are compared; they are smooth, and nearly lie in a few.
DIRECTIONS = 120
# Most intervals of exact samples in a regression: they are many more than the constants of a law need.
MOST_INTERVALS = 150
# Mean square residual on a path through exact samples that no law explains [variance].
PATH_ERROR = 0.25
# Mean square residual on the first path above which a law is wrong.
NEAR_PATH = 1e4
# Constants of each product of which a step is part of the regression.
TANGENTS = 2
# Sets of each equation, the likeliest, that are tried in a law.
LISTED = 12
# Steps in which the constants of sets settle.
SETTLING = 6
# Where two products were left out, another is sought beside the first only of laws that may be near [of the criterion].
NEAR_BEST = 60.0
# Laws that are proposed, the likeliest.
PROPOSED = 8
# A law with a criterion less by this is better [of the criterion].
BETTER = 1.0


@dataclass(frozen=True, eq=False)
class Choice:
    """Products with their coefficients in every equation [equations, products], 0 where left out."""

    products: tuple[Product, ...]
    coefficients: Array
    criterion: float

    def without(self, i: int) -> tuple[Product, ...]:
        """The products that equations other than i have."""
        used: Mask = np.asarray(np.delete(self.coefficients, i, axis=0).any(axis=0))
        return tuple(product for product, u in zip(self.products, used, strict=True) if u)


@dataclass(frozen=True, eq=False)
class Screening:
    """What one vocabulary finds in the data: laws by regression on the integral form, the likeliest first.

    Args:
        family: of the terms.
        p: the problem, dimensionless.
        integral: its samples.
        path: between the samples.
        at: the regression along that path.
        terms: of the vocabulary.
        laws: each equation found anew.
    """

    family: Family
    p: Problem
    integral: Integral
    path: Path
    at: Regression
    terms: Sequence[Product]
    laws: Sequence[Choice]

    @classmethod
    def of(cls, p: Problem, family: Family, vocabulary: int | Sequence[Screening], monitor: Monitor) -> Screening:
        """Find each equation anew on the path through the samples, from one vocabulary of a family.

        Or from the products that its vocabularies found: equations may need some of each.
        """
        whole = family.whole(~p.nonnegative | p.integer_exponents)
        integral = Integral.of(p.data, p.noise, whole, _features_of(p, family))
        path = integral.interpolated()
        place, weighted = _on_path(p, family, integral, path)
        terms = (
            place.terms(family, vocabulary)
            if isinstance(vocabulary, int)
            else [t for one in vocabulary for c in one.laws[:PROPOSED] for t in c.products]
        )
        at = Regression.on_data(place, weighted, terms)
        laws = distinct(anew(at, Pool.of(at, terms), monitor))
        return cls(family, p, integral, path, at, terms, laws)

    @property
    def criterion(self) -> float:
        """Of its likeliest law; lower is better."""
        return self.laws[0].criterion if self.laws else np.inf

    @property
    def is_near(self) -> bool:
        """Whether the likeliest law may be right, which leaves far less than others even on the first path."""
        return bool(self.laws) and self.at.mean_square(self.laws[0]) < NEAR_PATH

    @property
    def is_plain(self) -> bool:
        """Whether a law with at most three terms in each equation leaves less than the error of an exact path."""
        best = self.laws[0] if self.laws else None
        if best is None or self.at.mean_square(best) >= 1.0:
            return False
        return bool((best.coefficients != 0).sum(axis=1).max() <= 3)

    def mended(self, monitor: Monitor) -> list[PowerSum]:
        """Mend the likeliest law, and again on the path that it refines, while that leaves less of its error."""
        at, path, laws = self.at, self.path, self.laws
        # If the time is up, the best so far.
        with contextlib.suppress(TimeIsUp):
            laws = improved(at, self.family, self.terms, laws, monitor)
            for _ in range(2):
                if not laws or at.mean_square(laws[0]) > NEAR_PATH:
                    break
                better = self.integral.refined(at.rates(laws[0], path))
                again = Regression.on_data(*_on_path(self.p, self.family, self.integral, better), self.terms)
                new = distinct(again.refined(again.best(c.products), SETTLING) for c in laws[:PROPOSED])
                new = improved(again, self.family, self.terms, new, monitor)
                if not new:
                    break
                # Errors of different paths: below 1, a law is as good as its path, and the shorter one is the better.
                before, after = at.mean_square(laws[0]), again.mean_square(new[0])
                shorter = np.count_nonzero(new[0].coefficients) < np.count_nonzero(laws[0].coefficients)
                if after > before and not (shorter and after < 1.0):
                    break
                at, path, laws = again, better, new
        least = laws[0].criterion + NEAR_BEST if laws else np.inf
        return [at.as_law(c) for c in laws[:PROPOSED] if c.products and c.criterion < least]


def compete(p: Problem, families: Sequence[Family], monitor: Monitor) -> Iterator[list[PowerSum]]:
    """Propose what regression on the integral form finds with each vocabulary, the likeliest vocabulary first.

    Every vocabulary is screened before one of them is believed, real powers first, and the first of each family before
    the second of any; then what the vocabularies of one family found, together. One that explains the samples with a
    few terms is enough in noise, and proposes at once if they are exact. There the error of the path is not known, and
    the criterion only tells the order; in noise, it tells.
    """
    every = [(family, k) for family in families for k in range(len(family.vocabularies))]
    screened, done = list[Screening](), list[Screening]()

    def in_turn() -> Iterator[tuple[Family, int | Sequence[Screening]]]:
        yield from sorted(every, key=lambda one: (not one[0].real_exponents, one[1]))
        for family in families:
            own = [one for one in screened if one.family is family]
            if len(own) > 1:
                yield family, own

    rest = in_turn()

    def explains_with_few_terms() -> bool:
        # If they say nothing, the moves that follow need time, too.
        with contextlib.suppress(TimeIsUp), monitor.part(SCREENING_SHARE):
            for family, vocabulary in rest:
                if monitor.stopping():
                    break
                monitor.stage(f"terms of the data: {family.name}", 1)
                screened.append(Screening.of(p, family, vocabulary, monitor))
                if screened[-1].is_plain:
                    return True
        return False

    while explains_with_few_terms() and p.clean:
        done.append(screened[-1])
        yield done[-1].mended(monitor)
    screened.sort(key=lambda one: one.criterion)
    for one in screened:
        if monitor.stopping() and one is not screened[0]:
            return
        may_be_right = one.is_near if p.clean else one.criterion < screened[0].criterion + NEAR_BEST
        if one not in done and (may_be_right or one is screened[0]):
            yield one.mended(monitor)


def terms_along(
    p: Problem, law: PowerSum, initial: Array, sigma: Array, family: Family, monitor: Monitor, *, cheaper: bool = False
) -> list[PowerSum]:
    """Propose laws of a family that should do better than a law that follows the data, the likeliest first.

    Args:
        p: the problem, dimensionless, without knowledge, since all terms count as free.
        law: the law, dimensionless; empty if it has flows or cannot be integrated.
        initial: its start values [trajectories, states].
        sigma: standard deviation of the noise [states].
        family: of the terms, in all its vocabularies, beside those that the law has.
        monitor: ends the work early.
        cheaper: whether each equation is sought anew only among sets of products that cost less than its own. Where the
            law leaves nothing but noise, others gain nothing.
    """
    along = None if law.stoichiometry is not None else LinearisedTrajectory.of(p, law, initial, sigma)
    if along is None or not law.n_monomials or p.constant.all():
        return []
    place = Place.along(p, along, law, family)
    terms = unique(t for k in range(len(family.vocabularies)) for t in place.terms(family, k))
    at = Regression.along(place, along, law, terms)
    # Real powers of a law, which fit anything, are no terms of a family without them.
    own = [t for t in at.law if family.real_exponents or (t.row[: law.n_states] % 1.0 == 0.0).all()]
    laws = [at.best(at.law), *anew(at, Pool.of(at, [*own, *terms]), monitor, cheaper=cheaper)]
    laws = improved(at, family, terms, laws, monitor)
    if cheaper:  # those that are less than a coefficient worse
        least = at.best(at.law).criterion + at.worth
        laws = [c for c in laws if c.criterion < least]
    return [at.as_law(c) for c in laws[:PROPOSED]]


def improved(
    at: Regression, family: Family, terms: Sequence[Product], laws: Sequence[Choice], monitor: Monitor
) -> list[Choice]:
    """Move the constants of the likeliest laws, and mend the best with what others have and products near its own."""
    laws = distinct([*(at.refined(c, 5) for c in distinct(laws)[:8]), *laws])
    if not laws:
        return []
    near = [*(t for c in laws[: 2 * LISTED] for t in c.products), *(t for t in terms if not at.has_constants(t))]
    if family.sums and laws[0].products:
        near += changes_of(laws[0].products, at.place.seen)
    return mended(at, Pool.of(at, near), laws, monitor)


def _features_of(p: Problem, family: Family) -> Features:
    """The inputs of a family's power layer, without sums."""
    changing = ~p.constant | p.data.is_control
    return Features(p.data.n_states, family.features(p.nonnegative, changing, p.scale.state))


def _on_path(p: Problem, family: Family, integral: Integral, path: Path) -> tuple[Place, Integral]:
    """Where a path through the data passes, and the integral form there, weighted by the error of the path."""
    # Products of states tell the error of a path, the same for every family.
    n = p.data.n_states
    low = np.pad(products_up_to_degree(n, 2), ((0, 0), (0, integral.features.size - n)))
    problem, part = integral.weighted(path, low).thinned(path, MOST_INTERVALS)
    moving, worth = np.flatnonzero(~p.constant), constant_penalty(n, float(problem.counts[~p.constant].sum()))

    def begun(above: Array, below: Array) -> list[tuple[Array, Array]]:
        each = (denominators(problem, part, i, above, below, worth, PATH_ERROR) for i in moving.tolist())
        return [one for found in each for one in found]

    return Place.of(p, part.flat, integral.features, family, begun), problem


@dataclass(frozen=True, eq=False)
class Place:
    """Where terms are evaluated: a path with all functions of states."""

    features: Features  # states and functions, those of a family before others that a law has
    path: Path  # at all nodes of all trajectories
    seen: Seen  # for the family's vocabularies
    changing: Mask  # states that have equations, unlike inputs

    @classmethod
    def of(
        cls, p: Problem, path: Path, features: Features, family: Family, denominators: Denominators | None = None
    ) -> Place:
        """Along a path, for the vocabularies of a family."""
        changing, whole = ~p.constant | p.data.is_control, ~p.nonnegative | p.integer_exponents
        own = _features_of(p, family)

        def monomials(rows: Array) -> Array:
            return path.monomials(np.pad(rows, ((0, 0), (0, features.size - rows.shape[1]))))[:, None]

        seen = Seen(own.functions, family.functions, whole, changing, monomials, denominators)
        return cls(features, path, seen, ~p.constant)

    @classmethod
    def along(cls, p: Problem, along: LinearisedTrajectory, law: PowerSum, family: Family) -> Place:
        """Where a law passes along its trajectories, in the functions of a family and its own."""
        of_law = () if law.features is None else law.features.functions
        features = Features(law.n_states, tuple(dict.fromkeys((*_features_of(p, family).functions, *of_law))))
        integer = np.append(~p.nonnegative, np.ones(len(features.functions), dtype=bool))
        path = Path.of(features.values(np.concatenate(along.x)), integer, np.full(features.size, LEAST))
        return cls.of(p, path, features, family)

    def terms(self, family: Family, vocabulary: int) -> list[Product]:
        """The products of a vocabulary."""
        return [Product.of(shape, self.features.size) for shape in family.vocabularies[vocabulary](self.seen)]

    def mixed(self, terms: Sequence[Product], most: int) -> Array:
        """Random sums of the values of products at the nodes, at most so many, [nodes, sums].

        Source: Halko, Martinsson and Tropp (SIAM Review 53, 2011).
        """
        random, found = np.random.default_rng(0), np.zeros(())
        for some in self.parts(terms):
            shares = random.standard_normal((len(some), min(len(terms), most)))
            found = found + _unit(_finite([t.values(self.path) for t in some])) @ shares
        return found

    def parts(self, terms: Sequence[Product]) -> Iterator[Sequence[Product]]:
        """So many products at a time that their values fit into memory."""
        size = max(4_000_000 // len(self.path.log), 1)
        for first in range(0, len(terms), size):
            check_time()
            yield terms[first : first + size]


@dataclass(frozen=True, eq=False)
class Regression:
    """The data, and the responses to products in any equation, in the directions that responses span."""

    place: Place
    law: tuple[Product, ...]  # of the law along which it is
    coefficients: Array  # of that law [equations, products]
    equations: Indices  # states that change
    kernel: Array  # responses to forces at the nodes [equations, directions, nodes]
    y: Array  # the data, less the response of the starts [directions]
    # Rows with residuals of one variance: those of each equation on the data, all of them along a law.
    rows: tuple[slice, ...]
    group: Indices  # of each equation
    outside: Array  # squares of the data outside of these directions [groups]
    counts: Array  # samples [groups]
    # Caches by the key of a product.
    responses: dict[object, Array] = field(default_factory=dict)
    steps: dict[object, Array] = field(default_factory=dict)
    prices: dict[object, float] = field(default_factory=dict)

    @classmethod
    def on_data(cls, place: Place, integral: Integral, terms: Sequence[Product]) -> Regression:
        """The integral form of every equation along a path; no equation has rows in common with another."""
        equations = np.flatnonzero(place.changing)
        most = min(DIRECTIONS, 600 // len(equations))
        mixed = place.mixed(terms, 2 * most)
        over = integral.over_intervals(mixed.reshape(len(integral.left), -1, mixed.shape[1]))
        operators, targets = [integral.operator(i) for i in equations.tolist()], integral.target[equations]
        spans = [directions(_unit(operator @ over), most) for operator in operators]
        inside = [u.T @ y for u, y in zip(spans, targets, strict=True)]
        ends = np.cumsum([0, *map(len, inside)])
        rows = tuple(slice(a, b) for a, b in itertools.pairwise(ends.tolist()))
        kernel = np.zeros((len(equations), ends[-1], *integral.step.shape, len(WEIGHT)))
        for own, at, u, operator in zip(kernel, rows, spans, operators, strict=True):
            own[at] = (u.T @ operator)[..., None] * (integral.step[:, None] * WEIGHT)
        counts = integral.counts[equations]
        # The error of a path is smooth, so that flexible laws fit it: less is no evidence.
        floor = counts * np.where(integral.smoothed[equations], 1.0, PATH_ERROR)
        outside = floor + [np.sum((y - u @ part) ** 2) for u, y, part in zip(spans, targets, inside, strict=True)]
        return cls(
            place,
            (),
            np.zeros((len(equations), 0)),
            equations,
            kernel.reshape(*kernel.shape[:2], -1),
            np.concatenate(inside),
            rows,
            np.arange(len(equations)),
            outside,
            counts,
        )

    @classmethod
    def along(cls, place: Place, along: LinearisedTrajectory, law: PowerSum, terms: Sequence[Product]) -> Regression:
        """The samples along the trajectory of a law."""
        equations, ends = np.flatnonzero(place.changing), np.cumsum([len(x) for x in along.x])[:-1]
        wide = widened(law, place.features)
        assert wide.features is not None
        starts, own = along.starts(), wide.monomials(np.concatenate(along.x))
        mixed = np.hstack([place.mixed(terms, 2 * DIRECTIONS // len(equations)), own])
        carried = [along.responses(int(i), np.split(mixed, ends)) for i in equations]
        y = along.residual.copy()
        for i, part in zip(equations, carried, strict=True):
            y += part[:, -own.shape[1] :] @ law.coefficients[i]
        y = without(starts, y)
        u = directions(without(starts, _unit(np.hstack(carried))))
        inside: Array = u.T @ y
        return cls(
            place,
            tuple(products_of(wide.exponents, wide.features.sums)),
            law.coefficients[equations],
            equations,
            along.adjoint(u)[equations],
            inside,
            (slice(None),),
            np.zeros(len(equations), dtype=int),
            np.array([float(np.sum((y - u @ inside) ** 2)) + along.within]),
            np.array([float(along.samples)]),
        )

    @property
    def samples(self) -> float:
        """Number of samples."""
        return float(self.counts.sum())

    @property
    def worth(self) -> float:
        """Price of a coefficient."""
        return constant_penalty(self.place.features.states, self.samples)

    @property
    def of_rates(self) -> Mask:
        """Functions whose power is a rate [states and functions]."""
        features = self.place.features
        return np.array([False] * features.states + [f.kind.power_is_rate for f in features.functions])

    def fitted(self, rows: Array) -> Mask:
        """Exponents that are constants: rates, and those between whole numbers."""
        return np.asarray((rows != 0) & (self.of_rates | (rows != np.round(rows))))

    def has_constants(self, t: Product) -> bool:
        """Whether a product has constants beside its coefficient."""
        return bool(len(t.sums)) or bool(self.fitted(t.row).any())

    def columns(self, terms: Sequence[Product]) -> Array:
        """Responses to each product in each equation, [directions, equations, products]."""
        for part in self.place.parts([t for t in unique(terms) if t.key not in self.responses]):
            found = self.kernel @ _finite([t.values(self.place.path) for t in part])
            self.responses.update({t.key: found[..., k].T for k, t in enumerate(part)})
        if not len(terms):
            return np.zeros((len(self.y), len(self.equations), 0))
        return np.stack([self.responses[t.key] for t in terms], axis=-1)

    def tangents(self, terms: Sequence[Product]) -> list[Array]:
        """Responses to a change of each constant of each product, [directions, equations, constants] each."""
        for part in self.place.parts([t for t in unique(terms) if t.key not in self.steps]):
            each = [t.slopes(self.place.path, self.fitted) for t in part]
            every = [np.zeros(len(self.place.path.log)), *(values for own in each for values in own)]
            found = (self.kernel @ _finite(every)).swapaxes(0, 1)[..., 1:]
            ends = np.cumsum([len(own) for own in each])[:-1]
            self.steps.update({t.key: own for t, own in zip(part, np.split(found, ends, axis=2), strict=True)})
        return [self.steps[t.key] for t in terms]

    def price(self, t: Product) -> float:
        """What a product costs once, beside a coefficient for each equation."""
        if t.key not in self.prices:
            w, b, v = np.append(t.row, t.power)[None], t.sums.weights, t.sums.exponents
            v = v if len(t.sums) else np.zeros((0, len(t.row)))
            # Halves count as chosen, not as fitted.
            odd = self.fitted(t.row) & (self.of_rates | (t.row != np.round(2.0 * t.row) / 2.0))
            powers = np.append(odd, t.power != np.round(2.0 * t.power) / 2.0)[None]
            free = np.ones((1, 1), dtype=bool), powers, b != 0, self.fitted(v)
            features = self.place.features
            self.prices[t.key] = price(w, v, free, features.states, features.functions, self.samples) - self.worth
        return self.prices[t.key]

    def misfit(self, left: Array) -> Array:
        """The share of residuals in the criterion, from squares in the directions [..., groups]."""
        mean = np.maximum(left + self.outside, ABOVE_ZERO) / self.counts
        return np.asarray((self.counts * np.log(mean)).sum(axis=-1))

    def misfit_of(self, i: int) -> Callable[[Array], Array]:
        """The share of one equation's rows, from squares."""
        g = self.group[i]
        return lambda left: self.counts[g] * np.log(np.maximum(left + self.outside[g], ABOVE_ZERO) / self.counts[g])

    def squares(self, values: Array) -> Array:
        """Sums of squares of each group [groups] of values [directions]."""
        return np.array([values[at] @ values[at] for at in self.rows])

    def best(self, terms: Sequence[Product]) -> Choice:
        """Fit the coefficients of products in all equations, without those not worth their price.

        The least certain go first; what is left is updated without another decomposition.
        """
        x, prices = self.columns(terms), np.array([self.price(t) for t in terms])
        rows, e, k = x.shape
        norm = column_norms(x.reshape(rows, e * k))
        live = kept = np.flatnonzero(np.isfinite(norm) & (norm > 0))
        group, parts = self.group[kept // k], list[tuple[Array, Array]]()
        for g, at in enumerate(self.rows):
            own = x.reshape(rows, e * k)[at, kept[group == g]] / norm[kept[group == g]]
            r = np.linalg.qr(np.column_stack([own, self.y[at]]))[1]
            parts.append((r[:, :-1], r[:, -1]))
        full, y = block_diag(*(part for part, _ in parts)), np.concatenate([part for _, part in parts])
        inverse = np.linalg.inv(full.T @ full + 1e-12 * np.eye(len(kept)))
        a = inverse @ (full.T @ y)
        ends = np.cumsum([len(part) for _, part in parts])[:-1]
        left = np.array([own @ own for own in np.split(y - full @ a, ends)])
        found = (np.inf, live, a)
        while len(live):
            value = float(self.misfit(left)) + self.worth * len(live) + prices[np.unique(live % k)].sum()
            found = min(found, (value, live, a), key=lambda one: one[0])
            if value > found[0] + NEAR_BEST:
                break
            loss = np.minimum(np.abs(a), 1e100) ** 2 / np.maximum(inverse.diagonal(), 1e-100)
            gone = int(np.argmin(loss))
            left[self.group[live[gone] // k]] += loss[gone]
            rest, own, column = np.delete(np.arange(len(live)), gone), inverse[gone, gone], inverse[:, gone]
            live, a = live[rest], (a - column * (a[gone] / own))[rest]
            inverse = (inverse - np.outer(column, column) / own)[np.ix_(rest, rest)]
        value, live, a = found
        coefficients = np.zeros((e, k))
        coefficients[np.unravel_index(live, (e, k))] = a / norm[live]
        used: Mask = np.asarray(coefficients.any(axis=0))
        return Choice(tuple(t for t, u in zip(terms, used, strict=True) if u), coefficients[:, used], value)

    def mean_square(self, c: Choice) -> float:
        """Mean square residual of a choice in units of the noise, and of the error of the path."""
        left = self.y - np.einsum("rek,ek->r", self.columns(c.products), c.coefficients)
        return float((self.squares(left) + self.outside).sum()) / self.samples

    def refined(self, best: Choice, steps: int) -> Choice:
        """Move the constants of products by Gauss-Newton, at most so many steps, while the law becomes better."""
        for _ in range(steps):
            slopes = self.tangents(best.products)
            widths = [part.shape[2] for part in slopes]
            if not sum(widths):
                break
            x, used = self.columns(best.products), np.nonzero(best.coefficients)
            of = np.repeat(np.arange(len(widths)), widths)
            tangent = np.einsum("rij,ij->rj", np.concatenate(slopes, axis=2), best.coefficients[:, of])
            both = np.hstack([x[:, used[0], used[1]], tangent])
            norm = np.maximum(column_norms(both), ABOVE_ZERO)
            left = self.y - x[:, used[0], used[1]] @ best.coefficients[used]
            step = np.linalg.lstsq(both / norm, left, rcond=1e-9)[0] / norm
            parts = np.split(step[len(used[0]) :], np.cumsum(widths)[:-1])
            before = best
            for share in (1.0, 0.3):
                moved = [self.moved(t, share * own) for t, own in zip(best.products, parts, strict=True)]
                best = min(best, self.best(moved), key=lambda c: c.criterion)
                if best is not before:
                    break
            if best.criterion > before.criterion - 0.3:
                break
        return best

    def moved(self, t: Product, steps: Array) -> Product:
        """The product with constants changed by steps."""
        return t.moved(steps.tolist(), self.fitted, self.of_rates)

    def rates(self, c: Choice, path: Path) -> Array:
        """Rates of all states by the law of a choice along a path."""
        found = np.zeros((*path.log.shape[:-1], self.place.features.states))
        values = np.stack([t.values(path) for t in c.products], axis=-1)
        found[..., self.equations] = values @ c.coefficients.T
        return found

    def as_law(self, c: Choice) -> PowerSum:
        """The law of a choice."""
        features = self.place.features
        a = np.zeros((features.states, len(c.products)))
        a[self.equations] = c.coefficients
        return law_of(c.products, a, features)


@dataclass(frozen=True, eq=False)
class Pool:
    """C products that laws may have."""

    at: Regression
    terms: list[Product]
    # Each product's response, and those to steps of its first constants: [directions, equations, C, 1 + TANGENTS].
    blocks: Array
    kinds: Indices  # equal for products of one kind
    prices: Array

    @classmethod
    def of(cls, at: Regression, terms: Iterable[Product]) -> Pool:
        """Compute the responses to products, without those that have none."""
        every = unique(terms)
        slopes = at.tangents(every)
        steps = (
            np.stack([part[..., k] if part.shape[2] > k else np.zeros(part.shape[:2]) for part in slopes], axis=2)
            for k in range(TANGENTS)
        )
        x = np.stack([at.columns(every), *steps], axis=-1)
        norm = np.sqrt(np.einsum("recw,recw->ecw", x, x))
        good = np.isfinite(norm).all(axis=(0, 2)) & (norm[..., 0] > 0).any(axis=0)
        kept = [t for t, g in zip(every, good, strict=True) if g]
        blocks = x[:, :, good] / np.where(norm > 0, norm, 1.0)[:, good]
        return cls(at, kept, blocks, _numbers([t.kind for t in kept]), np.array([at.price(t) for t in kept]))

    def beside(self, own: Sequence[Product], most: int) -> list[Product]:
        """The products that explain most beside others, in all equations at once, no two of a kind."""
        at, c, left = self.at, len(self.terms), list[Array]()
        for g, rows in enumerate(at.rows):
            of = at.group == g
            fixed = at.columns(own)[rows][:, of].reshape(len(at.y[rows]), -1)
            # One step, free in each equation, is about as flexible as two steps that all share.
            x = without(fixed, self.blocks[rows][:, of, :, :2]).transpose(0, 2, 1, 3).reshape(len(at.y[rows]), c, -1)
            y = without(fixed, at.y[rows])
            gram = np.matmul(x.transpose(1, 2, 0), x.transpose(1, 0, 2)) + 1e-6 * np.eye(x.shape[2])
            b = np.einsum("rcw,r->cw", x, y)
            left.append(float(y @ y) - np.einsum("cw,cw->c", b, np.linalg.solve(gram, b[..., None])[..., 0]))
        value = at.misfit(np.stack(left, axis=-1)) + self.prices
        return [self.terms[j] for j in of_each_kind(value[None], self.kinds, most)[1].tolist()]

    def sets(self, i: int, others: Choice, *, alone: bool, cheaper: bool = False) -> list[tuple[float, list[Product]]]:
        """The likeliest sets of products in one equation, beside what others have, and their criteria.

        The constants of the best settle, of each size and number of products with constants. What others have costs
        nothing more, unless the equation is found `alone`. With `cheaper`, sets cost less than what the equation has
        in `others`, which is always listed.
        """
        at, apart, rows = self.at, np.arange(len(self.at.equations)) != i, self.at.rows[self.at.group[i]]
        columns = [at.columns(others.products)[rows, e, others.coefficients[e] != 0] for e in np.flatnonzero(apart)]
        fixed = np.hstack(columns) if columns else np.zeros((len(at.y[rows]), 0))
        given = () if alone else others.without(i)
        have = {t.key for t in given}
        rest = [k for k, t in enumerate(self.terms) if t.key not in have]
        terms = [*given, *(self.terms[k] for k in rest)]
        # What others have comes as it is, without steps.
        of_given = np.pad(_unit(at.columns(given)[rows, i])[..., None], ((0, 0), (0, 0), (0, TANGENTS)))
        x = without(fixed, np.concatenate([of_given, self.blocks[rows, i][:, rest]], axis=1))
        y, kinds = without(fixed, at.y[rows]), _numbers([t.kind for t in terms])
        charge = at.worth + np.append(np.zeros(len(given)), self.prices[rest])
        held = [t for t, a in zip(others.products, others.coefficients[i], strict=True) if a]
        if cheaper and not held:  # nothing costs less
            return [(float(at.misfit_of(i)(np.array(y @ y))), [])]
        most = sum(at.worth + at.price(t) * (t.key not in have) for t in held) if cheaper else np.inf
        plain = np.array([t.key in have or not at.has_constants(t) for t in terms])
        ranked = dict[tuple[int, int], list[tuple[int, ...]]]()
        for own in block_sets(x, y, charge, kinds, at.misfit_of(i), most):
            ranked.setdefault((len(own), int(plain[list(own)].sum())), []).append(own)
        found = [held] * cheaper + [[terms[k] for k in own] for sets in ranked.values() for own in sets[:LISTED]]
        return self._settled(found, i, fixed, y, have)[:LISTED]

    def _settled(
        self, live: list[list[Product]], i: int, fixed: Array, y: Array, have: set[tuple[bytes, ...]]
    ) -> list[tuple[float, list[Product]]]:
        """Move the constants of sets while that gains, and rank the sets; of each size only the best go on.

        Where noise is little, products from a coarse grid explain little even after one step, and more of them would
        seem to be needed.
        """
        at, best = self.at, dict[object, tuple[float, list[Product]]]()
        for _ in range(SETTLING):
            if not live:
                break
            moved = [self._moved(own, i, fixed, y, have) for own in live]
            every = unique(t for own in moved for t in own)
            forces = at.kernel[i, at.rows[at.group[i]]] @ _finite([t.values(at.place.path) for t in every])
            responses = dict(zip((t.key for t in every), without(fixed, forces).T, strict=True))
            better: dict[int, list[tuple[float, list[Product]]]] = {}
            for own in moved:
                unit = _unit(np.column_stack([responses[t.key] for t in own]))
                left = float(np.sum((y - unit @ np.linalg.lstsq(unit, y, rcond=1e-9)[0]) ** 2))
                value = float(at.misfit_of(i)(np.array(left))) + at.worth * len(own)
                value += sum(at.price(t) for t in own if t.key not in have)
                kind = frozenset(t.kind for t in own)
                before = best[kind][0] if kind in best else np.inf
                if value < before:
                    best[kind] = value, own
                if value < before - BETTER and any(at.has_constants(t) for t in own):
                    better.setdefault(len(own), []).append((value, own))
            live = [own for sets in better.values() for _, own in sorted(sets, key=lambda one: one[0])[:6]]
        return sorted(best.values(), key=lambda one: one[0])

    def _moved(self, own: list[Product], i: int, fixed: Array, y: Array, have: set[tuple[bytes, ...]]) -> list[Product]:
        """Move the constants of products in one equation by one step, except of those that others have."""
        at = self.at
        rows = at.rows[at.group[i]]
        slopes = [part[rows, i] for part in at.tangents(own)]
        both = without(fixed, np.column_stack([at.columns(own)[rows, i], *slopes]))
        norm = np.maximum(column_norms(both), ABOVE_ZERO)
        a = np.linalg.lstsq(both / norm, y, rcond=1e-6)[0] / norm
        parts = np.split(a[len(own) :], np.cumsum([part.shape[1] for part in slopes])[:-1])
        of_each = zip(own, parts, a[: len(own)], strict=True)
        return [t if t.key in have else at.moved(t, part / (c or 1.0)) for t, part, c in of_each]


def anew(at: Regression, pool: Pool, monitor: Monitor, *, cheaper: bool = False) -> list[Choice]:
    """Find each equation anew, alone and then beside the others, as many as the time allows; see `Pool.sets`."""
    start, equations = Choice(at.law, at.coefficients, np.inf), range(len(at.equations))
    alone = list[list[tuple[float, list[Product]]]]()
    for i in equations:
        if monitor.stopping() is not None:
            break
        alone.append(pool.sets(i, start, alone=True, cheaper=cheaper))
    found = [at.refined(at.best(own), 2) for own in together(at, alone)] if alone else []
    best = min([start, *found], key=lambda c: c.criterion)
    for i in equations:
        if monitor.stopping() is not None:
            break
        new = [unique([*best.without(i), *own]) for _, own in pool.sets(i, best, alone=False, cheaper=cheaper)]
        found += [at.refined(at.best(own), 2) for own in new]
        best = min([best, *found], key=lambda c: c.criterion)
    return found


def together(at: Regression, lists: Sequence[Sequence[tuple[float, list[Product]]]]) -> list[list[Product]]:
    """Combine the likeliest sets of each equation; what several have is one product, and paid for once.

    Of about 1500 combinations the best 24 are returned.
    """
    each, ranked = max(int(1500 ** (1 / len(lists))), 1), list[tuple[float, int, list[Product]]]()
    for k, sets in enumerate(itertools.product(*(own[:each] for own in lists))):
        first: dict[object, Product] = {}
        value = sum(v for v, _ in sets)
        for t in (t for _, own in sets for t in own):
            value -= at.price(t) if t.kind in first else 0.0
            first.setdefault(t.kind, t)
        ranked.append((value, k, [*first.values()]))
    return [own for _, _, own in sorted(ranked)[:24]]


def mended(at: Regression, pool: Pool, laws: list[Choice], monitor: Monitor) -> list[Choice]:
    """Leave out, simplify or replace a product of the best law, or replace two, until it gains nothing or time ends."""
    while True:
        best, found = laws[0], list[Choice]()
        every, used = range(len(best.products)), best.coefficients.T != 0
        # Products of different equations do not stand for each other.
        pairs = (pair for pair in itertools.combinations(every, 2) if (used[pair[0]] & used[pair[1]]).any())
        for gone in (*itertools.combinations(every, 1), *pairs):
            if monitor.stopping() is not None:
                break
            rest = [t for k, t in enumerate(best.products) if k not in gone]
            near = [at.refined(at.best([*rest, t]), 1) for t in pool.beside(rest, 3 if len(gone) == 1 else 2)]
            if len(gone) == 1:
                simple = best.products[gone[0]].simpler(at.place.features.states)
                ways = [[*rest, t] for t in simple] + [rest] * bool(rest)
            else:
                firsts = [one.products for one in near if one.criterion < best.criterion + NEAR_BEST]
                ways = [[*first, t] for first in firsts for t in pool.beside(first, 2)]
            found += [*near, *(at.refined(at.best(own), 1) for own in ways)]
        found = distinct(found)
        laws = distinct([*(at.refined(c, 3) for c in found[:5]), *found, *laws])
        if monitor.stopping() or not laws[0].criterion < best.criterion - BETTER:
            return laws


def changes_of(products: Sequence[Product], seen: Seen) -> list[Product]:
    """Return products with one factor more, x, 1/x, 1/(1 + b z) or z/(1 + b z), or one product z more in a sum.

    For z are tried states, their squares, ratios and products, if positive.
    """
    unit, states, found = np.eye(len(products[0].row)), np.flatnonzero(seen.changing).tolist(), list[Product]()
    rows = [power * unit[k] for k in states for power in (1.0, 2.0)]
    rows += [unit[k] - unit[m] for k, m in itertools.permutations(states, 2)]
    rows += [unit[k] + unit[m] for k, m in itertools.combinations(states, 2)]
    values = [seen.monomials(z[None]) for z in rows]
    inside = [(z, 1.0 / float(np.median(own))) for z, own in zip(rows, values, strict=True) if (own > 0.0).all()]
    for m in products:
        found += [Product(m.row + step * unit[k], m.sums, m.power) for k in states for step in (1.0, -1.0)]
        for z, b in inside:
            sums, power = m.sums.and_also(Sums(np.array([[b]]), z[None])), np.append(m.power, -1.0)
            found += [Product(m.row, sums, power), Product(m.row + z, sums, power)]
            for k, own in enumerate(m.sums.weights != 0.0):
                if not (m.sums.exponents[own] == z).all(axis=1).any():
                    weights = np.column_stack([m.sums.weights, b * (np.arange(len(m.sums)) == k)])
                    found.append(Product(m.row, Sums(weights, np.vstack([m.sums.exponents, z])), m.power))
    return found


def distinct(laws: Iterable[Choice]) -> list[Choice]:
    """The best of the laws with products of the same kinds in the same equations, the best first."""
    best: dict[object, Choice] = {}
    for c in sorted(laws, key=lambda c: c.criterion):
        used = (c.coefficients != 0).T
        best.setdefault(frozenset((t.kind, u.tobytes()) for t, u in zip(c.products, used, strict=True)), c)
    return list(best.values())


def unique(terms: Iterable[Product]) -> list[Product]:
    """The products without repetitions."""
    return list({t.key: t for t in terms}.values())


def widened(law: PowerSum, features: Features) -> PowerSum:
    """Express a law over states and functions that include its own."""
    own, n, sums = law.inputs, law.n_states, NO_SUMS
    places = [*range(n), *(n + features.functions.index(f) for f in own.functions)]
    w = np.zeros((law.n_monomials, features.simple + len(own.sums)))
    w[:, [*places, *range(features.simple, w.shape[1])]] = law.exponents
    if len(own.sums):
        v = np.zeros((len(own.sums.exponents), features.simple))
        v[:, places] = own.sums.exponents
        sums = Sums(own.sums.weights, v)
    return PowerSum(law.coefficients, w, Features(n, features.functions, sums))


def directions(columns: Array, most: int = DIRECTIONS) -> Array:
    """Orthonormal directions [rows, directions] that columns [rows, columns] span, the most important ones."""
    u, size, _ = np.linalg.svd(columns, full_matrices=False)
    # Smaller ones are rounding.
    found: Array = u[:, size > 1e-10 * size[0]][:, :most]
    return found


def _numbers(kinds: Sequence[object]) -> Indices:
    """Number kinds in the order in which they come first."""
    of = {kind: k for k, kind in enumerate(dict.fromkeys(kinds))}
    return np.array([of[kind] for kind in kinds], dtype=np.int64)


def _unit(columns: Array) -> Array:
    """Scale columns to norm 1."""
    scaled: Array = columns / np.maximum(column_norms(columns), ABOVE_ZERO)
    return scaled


def _finite(values: Sequence[Array]) -> Array:
    """Stack values along the path as columns, without overflows."""
    return np.clip(np.nan_to_num(np.stack(values, axis=-1)), -1e100, 1e100)
