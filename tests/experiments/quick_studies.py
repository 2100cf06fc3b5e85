"""Every experiment in its quick mode, shared by the tests of what it leaves behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from odediscovery.experiments.base import Plan, Ran
from odediscovery.experiments.studies.fsir import FractionalSIR
from odediscovery.experiments.studies.registry import EXPERIMENTS
from odediscovery.experiments.study import reproduce
from odediscovery.runtime.monitor import Monitor

# Six seconds of the processor and more, together two minutes.
LONG = ("fsir", "networks", "simple-arithmetic", "large-arithmetic", "static-arithmetic", "operands")
EACH = [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in EXPERIMENTS]


class Studies(dict[str, tuple[Path, list[Ran]]]):
    """Every experiment, run once and quickly when it is asked for, the longest of them shorter still."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        super().__init__()
        self.folders = folders

    def __missing__(self, name: str) -> tuple[Path, list[Ran]]:
        folder, threads = self.folders.mktemp(name) / "study", torch.get_num_threads()
        torch.set_num_threads(1)
        with pytest.MonkeyPatch.context() as patch:
            short = dataclasses.replace(FractionalSIR.quick, adam_steps=30, gradient_steps=6, lbfgs_steps=2)
            patch.setattr(FractionalSIR, "quick", short)
            self[name] = folder, reproduce(EXPERIMENTS[name], Plan(), folder, Monitor())
        torch.set_num_threads(threads)
        return self[name]
