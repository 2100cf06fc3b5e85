"""Options of a fit, their defaults, and the recipes; standard library only, so that `--help` needs no torch.

A recipe is a set of defaults: `default` is ours, `neural` trains networks alone, `paper` trains as in the paper,
`as-run` as the original Julia code ran (RMSProp with decay 0.9, Euler with a step of one time unit, gates whose
gradient stops outside [0, 1]).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from odediscovery.errors import InputError, unknown_name


def _option(default: Any, help_text: str, flag: str | None = None) -> Any:
    return field(default=default, metadata={"help": help_text, "flag": flag})


@dataclass(frozen=True)
class Settings:
    """All options of `discover`, described as in the help of the command.

    >>> Settings(members=4).members
    4
    """

    recipe: str = _option("default", "default, neural, paper or as-run")
    seed: int = _option(0, "random seed; the same seed gives the same equations on one machine")
    members: int = _option(16, "networks trained side by side from random starts; 0 for none")
    hidden: int = _option(8, "hidden units of a network: an upper bound of distinct monomials")
    max_seconds: float | None = _option(None, "stop after this many seconds with the best so far")
    max_memory: float = _option(4.0, "GB of memory that the fit plans with")
    holdout: float = _option(0.0, "share of each trajectory's time held out at its end, to score the fit")
    threads: int | None = _option(None, "processor threads (default: 1, fastest for usual sizes)")
    device: str = _option("cpu", "where networks are trained: cpu, or cuda for a GPU")
    unit: str = _option("RealNPU", "power unit of the first layer: RealNPU, NPU or Dense")
    gradients: str = _option("odeint", "gradients of training: odeint, odeint-adjoint or closed-form")
    grow: bool = _option(True, "propose laws by regression and by name")
    l1: float = _option(0.01, "weight of the L1 norm of all parameters")
    adam_steps: int = _option(1200, "gradient steps before LBFGS")
    learning_rate: float = _option(0.015, "largest learning rate of the gradient steps")
    lbfgs_steps: int = _option(40, "largest number of LBFGS iterations")
    prune_long: bool = _option(True, "prune in noise on long windows, not on single intervals")

    known: tuple[str, ...] = _option((), 'known right-hand side: "h\' = -v", or "v\' = 9.81 + ?"')
    conserve: tuple[str, ...] = _option((), 'sum that stays constant: "S + I + R = 763"')
    hidden_states: tuple[str, ...] = _option((), "states without a column, known through sums or flows")
    forbid: tuple[str, ...] = _option((), 'states that an equation may not have: "S: R"')
    bounds: str | None = _option(None, 'range of exponents: "exponents 0..2"')
    integer_exponents: bool = _option(False, "all exponents are whole numbers")
    sources: bool = _option(True, "equations may have constant terms (--no-sources: nothing comes from nowhere)")
    nonnegative_flows: bool = _option(False, "what flows out of a state vanishes with it")
    library: tuple[str, ...] = _option((), "terms to try: powers,trigonometric,sums,textbook; or not: no-sums")
    template: tuple[str, ...] = _option((), "textbook law to fit beside what is found; list names them")
    tries: tuple[str, ...] = _option((), 'law to rank beside what is found: "x\' = a*x*(1 - x/K)^b"', "--try")
    thorough: bool = _option(False, "search for as long as it takes, not for 30 s of processor time")

    vary: str | None = _option(None, 'constants that groups have of their own: all, none, auto or "k in conc\'"')
    covariate: tuple[str, ...] = _option((), "column of groups that constants depend on by a power: weight")
    starts: tuple[str, ...] = _option((), 'known start: "tissue = 0", "gut = dose" (a column), "conc = measured"')
    censored: tuple[str, ...] = _option((), 'state whose values below a limit are not known: "virus = 50"')
    cumulative: tuple[str, ...] = _option((), "state that is a cumulative count: its increments are fitted")
    doses: tuple[str, ...] = _option((), 'column of amounts that are added to a state at their times: "gut = dose"')
    breaks: str | None = _option(None, 'times at which a rate may change: "t=23,41", or "found" to look for one')

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            if str(one.type).startswith("tuple"):  # JSON and users give lists
                object.__setattr__(self, one.name, tuple(getattr(self, one.name)))

    def checked(self) -> Settings:
        """Check these settings, and return them.

        Raises:
            InputError: an option is out of range, or incompatible with another one.
        """
        for complaint in self._complaints():
            raise InputError(complaint)
        return self

    def _complaints(self) -> Iterator[str]:
        """Yield errors, first of single options, then of incompatible ones."""
        for one in dataclasses.fields(self):
            value, kind = getattr(self, one.name), str(one.type)
            if value is None and kind.endswith("| None"):
                continue
            kinds, what = _KINDS[kind.removesuffix(" | None")]
            texts = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
            fits = texts if kinds is tuple else isinstance(value, kinds)
            if not fits or (isinstance(value, bool) and kinds is not bool):
                yield f"{flag_of(one.name)} must be {what}, got {repr(value)[:40]}"
        for name, (least, most) in LIMITS.items():
            value, flag = getattr(self, name), flag_of(name)
            if not value >= least:
                yield f"{flag} must be at least {least}, got {value}"
            if value > most:
                yield f"{flag} must be at most {most}, got {value}"
        for name in ("learning_rate", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                yield f"{flag_of(name)} must be positive and finite, got {value}"
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            yield f"--threads must be at least 1 and at most {MAX_THREADS}, got {self.threads}"
        for name, (kind, known) in CHOICES.items():
            if getattr(self, name) not in known:
                yield str(unknown_name(kind, getattr(self, name), known))
        if self.members < 1 and not (self.recipe == "default" and self.grow):
            yield (
                f"--members {self.members} leaves nothing to start from but regression: it needs --grow and --recipe "
                "default"
            )
        if not self.published and self.unit == "Dense":
            yield (
                f"--unit {self.unit} needs --recipe paper or as-run; recipe {self.recipe} reads its equations from "
                "power units, RealNPU or NPU"
            )
        if self.published and self.gradients != "odeint":
            yield f"--gradients {self.gradients} needs --recipe default or neural; recipe {self.recipe} has its own"
        if self.recipe == "neural" and (self.grow or self.integer_exponents):
            option = "--grow" if self.grow else "--integer-exponents"
            yield f"{option} needs --recipe default; recipe neural uses no regression, and trains real exponents"
        of_default = (*KNOWLEDGE, *RECORDED)
        if self.published and any(map(self._is_set, of_default)):
            names = ", ".join(map(flag_of, of_default))
            yield f"{names} need --recipe default: the published recipes know nothing"
        if self.vary is None and self.covariate:
            yield "--covariate belongs to groups: it needs --vary all, none or auto"
        asked = [name for name in NOT_OF_GROUPS if self._is_set(name)]
        if self.vary is not None and asked:
            flag = flag_of("no_sources" if asked[0] == "sources" else asked[0])
            own = "; a law of your own is fitted by fit-constants --vary" * (asked[0] in ("tries", "known"))
            yield f"{flag} is not yet possible beside --vary: leave one of them out{own}"
        if self.recipe != "default" and any(map(self._is_set, ("sources", *VOCABULARY))):
            yield f"{', '.join(map(flag_of, ('no_sources', *VOCABULARY)))} need --recipe default"

    def _is_set(self, name: str) -> bool:
        """Whether an option differs from its default."""
        return bool(getattr(self, name) != self.__dataclass_fields__[name].default)

    @property
    def published(self) -> bool:
        """Whether the recipe is one of the paper's, which reads equations from the trained members.

        >>> settings_for("as-run").published
        True
        """
        return self.recipe in ("paper", "as-run")

    def as_dict(self) -> dict[str, Any]:
        """The options as plain values, for `result.json`."""
        return dataclasses.asdict(self)


_ARGS = (f"        {one.name}: {one.metadata['help']}\n" for one in dataclasses.fields(Settings))
Settings.__doc__ = f"{Settings.__doc__}\n    Args:\n{''.join(_ARGS)}    "

_KINDS: Mapping[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "a switch, true or false"),
    "str": (str, "text"),
    "tuple[str, ...]": (tuple, "a list of texts"),
}
# Options whose names differ from their fields.
OPTIONS = {"tries": "try"}
VOCABULARY = ("nonnegative_flows", "library", "template", "tries")
RECORDED = ("starts", "censored", "cumulative", "doses", "breaks")
KNOWLEDGE = ("known", "conserve", "hidden_states", "forbid", "bounds", "integer_exponents")
# Options that the search for groups does not support.
NOT_OF_GROUPS = (
    *("recipe", "known", "conserve", "forbid", "bounds", "sources", *VOCABULARY),
    *("censored", "cumulative", "breaks"),
)

# Smallest and largest value of an option. A larger one is probably an error: the memory of a
# fit grows with members * hidden.
LIMITS: Mapping[str, tuple[float, float]] = {
    "members": (0, 10_000),
    "hidden": (1, 200),
    "adam_steps": (0, 10_000_000),
    "lbfgs_steps": (0, 1_000_000),
    "seed": (0, 2**63 - 1),
    "l1": (0.0, 1e6),
    "holdout": (0.0, 0.9),
    "max_memory": (0.5, 1e5),
}
MAX_THREADS = 1024

# As in the paper.
_PUBLISHED = {"members": 5, "hidden": 9, "grow": False, "l1": 0.01}
_PUBLISHED |= {"adam_steps": 3000, "learning_rate": 0.005, "lbfgs_steps": 1000}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "neural": {"grow": False},
    "paper": _PUBLISHED,
    "as-run": _PUBLISHED,
}
# Names in messages and values of options with few values.
CHOICES: Mapping[str, tuple[str, Collection[str]]] = {
    "recipe": ("recipe", RECIPES),
    "unit": ("unit", ("RealNPU", "NPU", "Dense")),
    "gradients": ("way of gradients", ("odeint", "odeint-adjoint", "closed-form")),
    "device": ("device", ("cpu", "cuda")),
}


def flag_of(name: str) -> str:
    """The flag of a field of `Settings` on the command line."""
    return "--" + OPTIONS.get(name, name).replace("_", "-")


def settings_for(recipe: str = "default", **options: Any) -> Settings:
    """The settings of a recipe with some options replaced.

    Args:
        recipe: default, neural, paper or as-run.
        options: fields of `Settings` by name; None keeps the value of the recipe.

    Raises:
        InputError: unknown recipe or option, or a value out of range.

    >>> settings_for("paper", seed=3).adam_steps
    3000
    """
    if recipe not in RECIPES:
        raise unknown_name("recipe", recipe, RECIPES)
    names = [f.name for f in dataclasses.fields(Settings)]
    for name in options:
        if name not in names:
            raise unknown_name("option", name, names)
    given = {name: value for name, value in options.items() if value is not None}
    return Settings(**{"recipe": recipe, **RECIPES[recipe], **given}).checked()
