"""Arguments of the Python interface that are of another kind: one line of ours, not an error of another library."""

import os

import numpy as np
import pytest
import torch

from odediscovery import Discovery, Monitor, ODEDiscovery, TimeSeries, discover, fit_constants, load_csv, settings_for
from odediscovery.command.cli import main
from odediscovery.errors import InputError

T = np.linspace(0.0, 5.0, 30)
X = np.exp(-T)[:, None]
LOOP: list[object] = []
LOOP.append(LOOP)
HUGE = [[1], [10**400], [2]]


def series():
    return TimeSeries.from_arrays([T], [X], ["x"])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: TimeSeries.from_arrays([[0, 1, 2]], [HUGE], ["x"]), "array of real numbers"),
        (lambda: TimeSeries.from_arrays([T], [LOOP], ["x"]), "array of real numbers"),
        (lambda: ODEDiscovery().fit(HUGE, t=[0, 1, 2]), "array of real numbers"),
        (lambda: ODEDiscovery().fit(LOOP, t=[0, 1, 2]), "array of real numbers"),
        (lambda: ODEDiscovery().fit(None), "expected an array"),
        (lambda: discover(None, settings_for(), Monitor()), "expects a TimeSeries"),
        (lambda: fit_constants(None, "x' = -k*x"), "expects a TimeSeries"),
        (lambda: fit_constants(series(), None), "law as text"),
        (lambda: fit_constants(series(), "x' = -k*x", start={"k": float("inf")}), "finite number for k, got inf"),
        (lambda: fit_constants(series(), "x' = -k*x", start={"k": "much"}), "finite number for k, got much"),
        (lambda: Discovery.load(None), "path of a file or a folder, got a NoneType"),
        (lambda: load_csv(3.5), "path of a file or a folder, got a float"),
    ],
)
def test_what_is_of_another_kind_ends_in_one_line(call, says):
    with pytest.raises(InputError) as raised:
        call()
    message = str(raised.value)
    assert says in message and "\n" not in message


def test_a_tensor_with_gradients_is_its_values():
    found = TimeSeries.from_arrays([T], [torch.tensor(X, requires_grad=True)], ["x"])
    np.testing.assert_array_equal(found.trajectories[0].values, X)


@pytest.mark.parametrize("command", [["report"], ["plot"], ["predict", "--until", "10"]])
@pytest.mark.parametrize("name", ["result.json", "data.csv"])
def test_no_command_writes_over_a_file_of_a_result(command, name, tmp_path, capsys):
    found = fit_constants(series(), "x' = -k*x")
    found.save(tmp_path / "r")
    before = (tmp_path / "r" / name).read_bytes()
    asked = [command[0], str(tmp_path / "r"), *command[1:], "--out", str(tmp_path / "r" / name)]
    assert main(asked) == 2
    assert "belongs to the result" in capsys.readouterr().err
    assert (tmp_path / "r" / name).read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("place", ["pipe", "/dev/zero", "folder"])
def test_what_is_no_file_is_refused_at_once(place, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    path = place if place.startswith("/") else str(tmp_path / place)
    fit_constants(series(), "x' = -k*x").save(tmp_path / "r")
    assert main(["predict", str(tmp_path / "r"), "--times", path]) == 2
    assert main(["fit-constants", str(tmp_path / "r" / "data.csv"), "--law", path]) == 2
    said = capsys.readouterr().err
    assert said.count("expected a file, got") == 2


def test_a_device_is_no_table(capsys):
    assert main(["fit", "/dev/zero"]) == 2
    assert "is a device" in capsys.readouterr().err


def test_the_last_time_is_a_number_as_tables_have_it(tmp_path, capsys):
    fit_constants(series(), "x' = -k*x").save(tmp_path / "r")
    assert main(["predict", str(tmp_path / "r"), "--until", "1_0"]) == 2
    assert "--until expects a number, got '1_0'" in capsys.readouterr().err
