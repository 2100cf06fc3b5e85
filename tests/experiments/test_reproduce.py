"""Every experiment of the papers in its quick mode: files, rows, resuming, one figure each."""

import csv
import dataclasses
import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from odediscovery import FitError, InputError, Monitor
from odediscovery.command.cli import main
from odediscovery.experiments.base import Plan, Ran, find
from odediscovery.experiments.studies.digits import result, truth
from odediscovery.experiments.studies.fsir import FractionalSIR
from odediscovery.experiments.studies.registers import StatusRegisters
from odediscovery.experiments.studies.registry import EXPERIMENTS
from odediscovery.experiments.study import reproduce
from odediscovery.experiments.training import ChainResiduals, embed, refit, thinned
from odediscovery.runtime.workers import Failure
from odediscovery.units import NAU, NMU, NPU, RealNPU

SURFACE = EXPERIMENTS["gradient-surface"]
KEPT = Path(__file__).resolve().parents[2] / "data" / "results"
# One trains quickly; all others together take minutes.
EACH = [pytest.param(name, marks=() if name == "status-registers" else pytest.mark.long) for name in EXPERIMENTS]


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Run an experiment when it is first asked for, quickly, two of them shorter still."""

    @cache
    def run(name):
        folder, threads = tmp_path_factory.mktemp(name) / "study", torch.get_num_threads()
        torch.set_num_threads(1)
        with pytest.MonkeyPatch.context() as patch:
            short = dataclasses.replace(FractionalSIR.quick, adam_steps=30, gradient_steps=6, lbfgs_steps=2)
            patch.setattr(FractionalSIR, "quick", short)
            patch.setattr(StatusRegisters, "quick", dataclasses.replace(StatusRegisters.quick, steps=20, points=200))
            ran = reproduce(EXPERIMENTS[name], Plan(), folder, Monitor())
        torch.set_num_threads(threads)
        return folder, ran

    return run


class Impatient(Monitor):
    """Asks to stop after so many batches have begun."""

    def __init__(self, batches):
        super().__init__()
        self.left = batches

    def stage(self, name, steps):
        if " of " in name:
            self.left -= 1
            if self.left < 0:
                self.interrupt()


@pytest.mark.parametrize("name", EACH)
def test_a_study_leaves_rows_a_table_and_a_picture(name, studies):
    folder, ran = studies(name)
    experiment, plan = EXPERIMENTS[name], Plan()
    assert [r.batch for r in ran] == experiment.batches(plan)
    with (folder / "runs.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == sum(len(r.rows) for r in ran) > 0
    assert {*ran[0].batch, "seed", "run", "batch_seconds"} <= set(rows[0])
    table = (folder / "table.md").read_text(encoding="utf-8")
    assert f"odediscovery reproduce {name} --preset as-run --quick --seed 0" in table
    assert table.count("| --- |") >= 1
    picture = imread(folder / f"{name}.png")
    assert picture.shape[0] > 300 and picture.shape[1] > 500 and picture[..., :3].std() > 0.05
    about = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    assert about["batches"] == about["of"] == len(ran) and "torch" in about["versions"]


@pytest.mark.parametrize("preset", ["paper", "as-run"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_full_batches_are_named_and_differ(name, preset):
    batches = EXPERIMENTS[name].batches(Plan(preset, True))
    assert len({tuple(b.values()) for b in batches}) == len(batches) > 1


def columns(ran):
    """Values of a column of the batch with these settings."""
    return lambda name, **batch: find(ran, **batch).column(name)


def _is_fsir(of, ran):
    table = EXPERIMENTS["fsir"].table(Plan(), ran)
    told = "| NPU, kept runs | 100 | 24% |" in table and "| NPU, as-run, 20 steps | 4 |" in table
    ours, theirs = of("mse", recipe="default", model="RealNPU"), of("mse", recipe="as-run", model="NPU")
    return told and np.nanmin(ours) < 1e-3 < theirs.min()


def _is_comparison(of, ran):
    register, dense = (of("accuracy 1e13", model=model, task=">") for model in ("NSR", "MLP"))
    read = all(row["relation"] == "x1 = x2" for row in find(ran, model="NSR", task="=").rows)
    return read and register.min() == 1.0 and dense.max() < 0.9


def _is_register(of, _):
    sharp = of("lambda", inputs="whole", copies="8", task=">") >= 1.0
    return (of("accuracy far", inputs="whole", copies="8", task=">")[sharp] == 1.0).all()


def _is_expected(of, _):
    target, own = (
        np.abs(of("mean", of="NAC, M", part=part) / of("standard error", of="NAC, M", part=part))
        for part in ("target", "own output")
    )
    large, small = (of("mean", of=unit, part="around 0") for unit in ("MultiplicativeNAC", "NMU"))
    return target.max() < 4.5 and own.min() > 20.0 and large[1:].min() > 1.0 and abs(small[-1]) < 1e-6


def _is_network(_, ran):
    neural = [r for r in ran if r.batch["method"].startswith("neural")]
    found = [row["found by"] for r in neural for row in r.rows]
    told = found == ["training"] * 4 and {r.batch["system"] for r in neural} == {"fsir", "torricelli"}
    return told and all((r.column("exact") == 1).all() for r in ran)


CHECKS = {
    "networks": _is_network,
    "gradient-surface": lambda of, _: (
        of("spread along w2", panel="NPU, gates (1, 0)")[0] < 1e-9 < of("spread along w2", panel="NPU, gates 0.5")[0]
        and of("loss at solution", panel="NMU")[0] == 0
        and of("largest", panel="NAC, eps 1e-7")[0] > 1e6
    ),
    "simple-arithmetic": lambda of, _: of("error ×", model="RealNPU").min() < of("error ×", model="Dense").min(),
    "large-arithmetic": lambda of, _: (
        of("parameters", model="NPU", task="add").min() > 9000
        and of("parameters", model="NPU", task="add").max() <= 100 * 100 + 100 + 200
    ),
    "static-arithmetic": lambda of, _: (
        of("threshold", model="NAU", task="+").min() > 1e-8
        and of("threshold", model="NAU", task="+").max() < 1e-3
        and of("success", model="NAU, ours", task="+").all()
        and of("success", model="NMU, ours", task="×").all()
    ),
    "division": lambda of, _: of("success", model="RealNPU, ours").mean() >= 0.8,
    "fsir": _is_fsir,
    "extrapolation": lambda of, _: (
        of("error outside", model="NAC").max() < 1.0
        and min(of("error outside", model=model).min() for model in ("Sigmoid", "Tanh", "ReLU6")) > 3.0
    ),
    "operands": lambda of, _: (
        of("accuracy", unit="NAC", task="+").min() > 99.0 and of("weight error", unit="NAC", task="+").max() < 1e-3
    ),
    "comparisons": _is_comparison,
    # Little is learned in so few steps: a NAU adds up what it does not read well yet (a constant 0 is off by 45), a
    # NALU forgets most of it and is off by most of the mean sum of 450.
    "digits": lambda of, _: (
        of("error 10", task="sum", model="NAU").max() < 15.0
        and of("error 100", task="sum", model="NALU").min() > 350.0
        and of("error 100", task="sum", model="NALU").max() < 500.0
    ),
    # Nothing is learned in four steps of a recurrent net: it is as good as a random one.
    "simple-functions": lambda of, _: (
        np.abs(of("extrapolation", kind="recurrent", model="LSTM", task="a + b") - 100.0).max() < 10.0
    ),
    # Bounded layers cannot reach 20: their mean error from 5 to 20 is above 12.5 less their largest value.
    "autoencoder": lambda of, _: (
        of("error outside", model="None").max() < 0.2
        and min(of("error outside", model=model).min() for model in ("Sigmoid", "Tanh")) > 5.0
    ),
    "stacked-units": lambda of, _: (
        np.isinf(of("worst case", task="sum", model="NALU", layers="3")[0])
        and of("worst case", task="sum", model="NAU", layers="3")[0] == 10.0 * 4**3
    ),
    "product-sweeps": lambda of, _: (
        of("success", sweep="inputs", value="4", model="NMU, ours").all()
        and not of("success", sweep="inputs", value="4", model="NMU").any()
    ),
    "status-registers": _is_register,
    "expectations": _is_expected,
}


@pytest.mark.parametrize("name", EACH)
def test_one_figure_that_cannot_be_right_by_accident(name, studies):
    ran = studies(name)[1]
    assert CHECKS[name](columns(ran), ran)


@pytest.mark.parametrize(("task", "unit"), [("sum", NAU(2, 1).double()), ("product", NMU(2, 1).double())])
def test_exact_units_add_and_multiply_any_number_of_digits(task, unit):
    unit.weight.data.fill_(1.0)
    written = torch.randint(1, 10, (1, 7, 20), dtype=torch.float64)
    assert torch.equal(result(task, unit, written), truth(task, written))


@pytest.mark.usefixtures("double_precision")
def test_refit_follows_the_derivatives_of_a_chain_and_finds_its_function():
    source = torch.Generator().manual_seed(3)
    unit = RealNPU(2, 1, members=3, generator=source)
    unit.gate.data.fill_(1.0)
    unit.gate.requires_grad_(False)
    network = torch.nn.Sequential(NAU(2, 2, members=3, generator=source), unit)
    network[0].weight.data.abs_()
    x = 0.5 + torch.rand(3, 40, 2, generator=source, dtype=torch.float64)
    y = (x[..., :1] + x[..., 1:]) ** 1.5
    problem = ChainResiduals(network, x, y, 1.0 / y)
    u = problem.gathered()
    assert u.shape == (3, 4 + 2 + 1)  # the gates are not among them
    jacobian, h = problem.linearised(u, torch.ones_like(u, dtype=torch.bool))[1], 1e-6
    for k in range(6):
        step = torch.zeros_like(u)
        step[:, k] = h
        slope = (problem.residuals(u + step) - problem.residuals(u - step)) / (2 * h)
        torch.testing.assert_close(jacobian[..., k], slope, rtol=1e-6, atol=1e-8)
    left = refit(network, x, y, 1.0 / y, 200, 1e-14)
    assert left.min() < 1e-16
    best = int(left.argmin())
    torch.testing.assert_close(network(x)[best], y[best], rtol=1e-7, atol=0.0)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("model", [NPU, RealNPU, NMU])
def test_thinned_chain_keeps_what_varies_and_fits_back_into_the_wide_one(model):
    source = torch.Generator().manual_seed(5)
    base = {"members": 2, "generator": source}
    wide = torch.nn.Sequential(NAU(4, 6, **base), model(6, 1, **base))
    p = dict(wide[1].named_parameters())
    for value in p.values():
        value.data.mul_(0.01)
    # The unit that matters is the fifth of one member and the second of the other.
    for member, k in enumerate((4, 1)):
        wide[0].weight.data[member, k] = torch.tensor([1.0, 0.9, 0.1, 0.0])
        for name, value in p.items():
            if name != "imaginary":
                value.data[member, ..., k] = 0.9
    x = 1.0 + torch.rand(1, 80, 4, generator=source, dtype=torch.float64)
    y = x[..., :2].sum(dim=-1, keepdim=True)
    thin = thinned(wide, x, y, 1)
    torch.testing.assert_close(thin[0].weight[0], wide[0].weight[0, 4:5], rtol=0.5, atol=0.1)
    shared, target = x.expand(2, -1, -1), y.expand(2, -1, -1)
    left = refit(thin, shared, target, torch.ones_like(target), 100, 1e-12)
    assert left.max() < 1e-20
    # Crosswise: member 1 of the thin chain into member 0.
    embed(thin, torch.tensor([1, 0]), wide, torch.tensor([0, 1]))
    torch.testing.assert_close(wide(x), thin(x).flip(0))
    torch.testing.assert_close(wide(-3.0 * x), -3.0 * wide(x))


@pytest.mark.long
def test_what_was_stopped_is_kept_and_gone_on_with(tmp_path):
    experiment, folder = EXPERIMENTS["simple-arithmetic"], tmp_path / "study"
    first = reproduce(experiment, Plan(), folder, Impatient(2))
    assert [r.batch["model"] for r in first] == ["NPU", "RealNPU"]
    assert "2 of 6 batches" in (folder / "table.md").read_text(encoding="utf-8")
    kept = {p: p.stat().st_mtime_ns for p in (folder / "batches").iterdir()}
    again = reproduce(experiment, Plan(), folder, Monitor())
    assert len(again) == 6 and {p: p.stat().st_mtime_ns for p in kept} == kept
    whole = reproduce(experiment, Plan(), tmp_path / "whole", Monitor())
    assert [r.rows for r in whole] == [r.rows for r in again]
    # A stop before the first batch that is missing leaves the later ones in the table.
    next((folder / "batches").glob("NPU*.json")).unlink()
    stopped = Monitor()
    stopped.interrupt()
    left = reproduce(experiment, Plan(), folder, stopped)
    assert [r.batch["model"] for r in left] == [r.batch["model"] for r in whole[1:]]


# Pictures as files without content: drawing them takes seconds.
UNDRAWN = ("odediscovery.experiments.study.save_figure", lambda figure, path: path.touch())


class Unlucky:
    """A backend whose second process dies."""

    def results(self, function, tasks, limit=np.inf, stopping=lambda: None):
        for i, task in list(enumerate(tasks))[::-1]:
            yield i, Failure("it died", 1.0) if i == 1 else function(task)


def test_a_batch_that_cannot_be_done_is_told_and_the_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(*UNDRAWN)
    with pytest.raises(FitError, match=r"1 of 7 batches could not be done; .* it died\)"):
        reproduce(SURFACE, Plan(), tmp_path, Monitor(), Unlucky())
    assert "6 of 7 batches are done" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert len(list((tmp_path / "batches").glob("*.json"))) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gradient"], "gradient-surface"),
        (["fsir", "--preset", "asrun"], "as-run"),
        (["fsir", "--seed", "-1"], "--seed must be at least 0"),
        (["fsir", "--device", "tpu"], "device"),
        (["gradient-surface", "--device", "cuda"], "trains nothing; leave --device out"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("error: ") and message in said and "\n" not in said
    assert not any(tmp_path.iterdir())


def test_the_command_writes_where_it_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(*UNDRAWN)
    folder = tmp_path / "surfaces"
    assert main(["reproduce", "gradient-surface", "--quick", "--quiet", "--out", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("# Gradient and loss surfaces") and str(folder) in said
    assert (folder / "gradient-surface.png").is_file()
    before = (folder / "runs.csv").read_bytes()
    with pytest.raises(InputError, match="holds another study"):
        reproduce(SURFACE, Plan(seed=1), folder, Monitor())
    assert (folder / "runs.csv").read_bytes() == before


def typed(text):
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"True": True, "False": False}.get(text, text)


@pytest.mark.parametrize("name", [*EXPERIMENTS, "fsir-paper", "gradient-surface-paper"])
def test_kept_rows_give_the_kept_table(name):
    experiment = EXPERIMENTS[name.removesuffix("-paper")]
    plan, folder = Plan("paper" if name.endswith("-paper") else "as-run", full=True), KEPT / name
    with (folder / "runs.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    ran = []
    for batch in experiment.batches(plan):
        own = [row for row in rows if batch.items() <= row.items()]
        # A column that a row does not have is empty; no relation read is an empty text.
        told = [{key: typed(text) for key, text in row.items() if text or key == "relation"} for row in own]
        ran += [Ran(batch, told, seconds=float(own[0]["batch_seconds"]))] if own else []
    assert sum(len(r.rows) for r in ran) == len(rows)
    assert experiment.table(plan, ran) in (folder / "table.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_all_are_run_each_in_its_folder_and_gone_on_with(tmp_path, monkeypatch, capsys):
    few = {name: EXPERIMENTS[name] for name in ("gradient-surface", "expectations")}
    monkeypatch.setattr("odediscovery.experiments.studies.registry.EXPERIMENTS", few)
    call = ["reproduce", "all", "--quick", "--quiet", "--out", str(tmp_path / "papers")]
    assert main(call) == 0
    said = capsys.readouterr().out
    assert all(f"written to {tmp_path / 'papers' / name}" in said for name in few)
    assert "2 of 2 experiments" in said.splitlines()[-1]
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "papers").glob("*/batches/*")}
    assert main(call) == 0 and len(kept) >= 17
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
