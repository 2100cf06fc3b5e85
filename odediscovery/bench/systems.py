"""Systems with a known answer, and the training data of a method.

    fractional   25 sums of products of real powers, additive noise
    odebench     34 systems of ODEBench (its development half), multiplicative noise
    classics     the systems of `odediscovery simulate`, additive noise

    additive         y = x + sigma * std(x) * e        (std of each state over its trajectory)
    multiplicative   y = x * (1 + sigma * e)           e ~ N(0, 1), independent

Every system has several initial conditions. The last one is never trained on: it shows whether
the found equations hold elsewhere. Equations are read as text through the package's own reader.

Truth is integrated to a relative tolerance of 1e-10; a method sees the noisy samples of the
first starts, optionally rounded to significant digits, of which a share may be dropped.
Random numbers depend only on the seed, the suite, the system and sigma, not on other systems
or their order.

Source of the multiplicative noise and of the dropping: d'Ascoli et al., ODEFormer, ICLR 2024.
There the first sample may be dropped too; here it is kept, since R2 is computed from its time.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import LEAST_VALUES
from odediscovery.errors import FitError, InputError, unknown_name
from odediscovery.laws.equations import Equations
from odediscovery.laws.systems import SYSTEMS
from odediscovery.runtime.arrays import Array

DATA = Path(str(resources.files("odediscovery.bench") / "data"))
# Representation of laws by one hidden layer of products of powers: NPU, then NAU.
POWER_SUM = "npu_nau"
RTOL = 1e-10
_MOST_EVALUATIONS = 2_000_000


@dataclass(frozen=True, eq=False)
class SuiteSystem:
    """dx/dt = f(x) with known f, and its measurements."""

    suite: str
    id: str
    equations: Equations  # the truth f
    starts: Array  # initial values [starts, states]; the last one is the unseen one
    times: Array  # of the samples, ends included
    # The smallest chain of units that can write f, as ODEBench's file names them ("npu_nau" for a sum of products of
    # powers).
    representation: str
    multiplicative: bool = False  # whether noise is a share of each value, not of each state's standard deviation
    apart: bool = False  # whether states have units of their own, in which scores then count

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states."""
        return self.equations.states

    @property
    def trainable(self) -> int:
        """Number of starts for training: all except the last."""
        return len(self.starts) - 1


def document(name: str) -> dict[str, Any]:
    """Read a file of the package's systems."""
    read: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return read


def _stored(suite: str, file: str, multiplicative: bool = False) -> Iterator[SuiteSystem]:
    """Load the systems of a file, with right-hand sides in x0, x1, ..."""
    for entry in document(file)["systems"]:
        names, starts = [f"x{k}" for k in range(len(entry["equations"]))], entry["initial_conditions"]
        law = Equations.parse(names, dict(zip(names, entry["equations"], strict=True)))
        if law.power_sum is not None and "states" in entry:
            law = Equations.from_power_sum(entry["states"], law.power_sum)
        uses = zip(starts, entry.get("ic_use", [""] * len(starts)), strict=True)
        values = np.array([start for start, _ in sorted(uses, key=lambda pair: pair[1] == "test")], dtype=np.float64)
        # ODEBench stores 512 points, its own solving script 150; the later papers use 150.
        begin, end = entry["t_span"]
        times = np.linspace(begin, end, entry.get("n_samples", 150))
        form = entry.get("representation", POWER_SUM)
        yield SuiteSystem(suite, str(entry["id"]), law, values, times, form, multiplicative)


def _classics() -> Iterator[SuiteSystem]:
    further = document("classics.json")["starts"]
    for system in SYSTEMS.values():
        law = system.equations()
        starts = np.array([[system.initial[state] for state in system.states], *further[system.name]])
        # The pendulum, the only law that is not a sum of powers, needs the sine as a feature.
        form = POWER_SUM if law.power_sum is not None else "features_npu_nau"
        times = np.linspace(*system.t_span, system.n_samples)
        yield SuiteSystem("classics", system.name, law, starts, times, form)


SUITES: Mapping[str, Callable[[], Iterator[SuiteSystem]]] = {
    "fractional": partial(_stored, "fractional", "fractional.json"),
    "odebench": partial(_stored, "odebench", "odebench_dev.json", multiplicative=True),
    "classics": _classics,
}


@cache
def load_suite(name: str) -> Mapping[str, SuiteSystem]:
    """Load all systems of a suite by id, in order."""
    check_names("suite", [name], SUITES)
    return {system.id: system for system in SUITES[name]()}


def choose(name: str, ids: Sequence[str] | None = None) -> list[SuiteSystem]:
    """The systems of a suite with these ids, by default all, in the order of the suite."""
    return chosen(load_suite(name), ids, f"system of {name}")


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Check that all names are known, or raise an `InputError` with the known ones."""
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)


def chosen(known: Mapping[str, Any], ids: Sequence[str] | None, kind: str) -> list[Any]:
    """The entries with these names, by default all, in the order of `known`."""
    check_names(kind, ids or (), known)
    return [one for name, one in known.items() if not ids or name in ids]


@dataclass(frozen=True)
class Protocol:
    """Options of the training data; one out of range is an `InputError`."""

    sigma: float = 0.0  # noise as a share, 0 for none
    drop: float = 0.0  # share of the samples left out at random, at least 0 and below 1
    trajectories: int = 1  # how many of the starts are trained on
    seed: int = 0  # of noise, dropping and the methods
    digits: int | None = None  # significant digits of the values; None for all

    def __post_init__(self) -> None:
        check_sigma(self.sigma)
        check("drop", self.drop, 0.0 <= self.drop < 1.0, "at least 0 and below 1")
        check("trajectories", self.trajectories, self.trajectories >= 1, "at least 1")
        check("digits", self.digits, self.digits is None or 1 <= self.digits <= 17, "at least 1 and at most 17")

    @property
    def is_clean(self) -> bool:
        """Whether the values are exact."""
        return self.sigma == 0.0 and self.digits is None


def check(option: str, value: object, fits: bool, limits: str) -> None:
    """Raise an `InputError` with the limits of an option unless its value fits."""
    if not fits:
        raise InputError(f"--{option} must be {limits}, got {value}")


def check_sigma(sigma: float) -> None:
    """Check that `sigma` is a valid share of noise."""
    check("sigma", sigma, 0.0 <= sigma < math.inf, "at least 0 and finite")


@cache
def true_trajectory(system: SuiteSystem, start: int) -> Array:
    """The noise-free states at `system.times`, [samples, states]."""
    begin, rhs = system.starts[start], system.equations.rhs
    values = system.equations.simulate(begin, system.times, RTOL, most_evaluations=_MOST_EVALUATIONS)
    # If LSODA fails, try an explicit method of high order, then one for stiff systems.
    for method in ("DOP853", "Radau"):
        if np.isfinite(values).all():
            return values
        span = system.times[0], system.times[-1]
        solved = solve_ivp(lambda _, x: rhs(x), span, begin, method, system.times, rtol=RTOL, atol=1e-12)
        values = solved.y.T if solved.success else values
    if not np.isfinite(values).all():
        raise FitError(f"no solver follows the true equations of {system.suite} {system.id}")
    return values


def training_data(system: SuiteSystem, protocol: Protocol) -> TimeSeries:
    """Make the training series of a method: noisy, rounded, thinned samples of the first starts."""
    key = f"{protocol.seed}|{system.suite}|{system.id}|{protocol.sigma!r}"
    stream = zlib.crc32(key.encode())
    # Separate streams, so that dropping samples does not change the noise of the others.
    noise, thinning = np.random.default_rng([stream, 0]), np.random.default_rng([stream, 1])
    times, values = [], []
    for start in range(protocol.trajectories):
        clean = true_trajectory(system, start)
        size = np.abs(clean) if system.multiplicative else clean.std(axis=0)
        seen = clean + protocol.sigma * size * noise.standard_normal(clean.shape)
        if protocol.digits is not None:
            seen = np.vectorize(rounded)(seen, protocol.digits)
        # The first sample always remains.
        removed = min(int(protocol.drop * len(seen)), max(len(seen) - LEAST_VALUES, 0))
        left_out = thinning.permutation(np.arange(1, len(seen)))[:removed]
        kept = np.setdiff1d(np.arange(len(seen)), left_out)
        times.append(system.times[kept])
        values.append(seen[kept])
    if protocol.trajectories == 1:
        return TimeSeries.from_arrays(times[0], values[0], system.states)
    return TimeSeries.from_arrays(times, values, system.states)


def rounded(value: float, digits: int) -> float:
    """Round a number to significant digits."""
    return float(f"{value:.{digits - 1}e}")
