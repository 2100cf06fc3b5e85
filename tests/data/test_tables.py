"""The door for data: what is read, and what is refused with which words."""

from pathlib import Path

import numpy as np
import pytest
from tabular import refusal, table

from odediscovery import InputError, ODEDiscovery, TimeSeries, load_csv
from odediscovery.data.repeats import repeat_noise, restarts
from odediscovery.data.series import Scale
from odediscovery.data.sheets import read_table

DATA = Path(__file__).parents[2] / "data"
ROWS = ["0,10,1", "1,20,2", "2,30,3", "3,40,4", "4,50,5"]


def replaced(line, text):
    """`ROWS` with the row that stands in that line of the file replaced."""
    return [text if k + 2 == line else row for k, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbft,S\n0,1\n1,2\n2,3\n3,4\n",
        b"t;S\n0,0;1,0\n1,0;2\n2;3,0e0\n3;4\n\n\n",
        b' t , "S" \n0, 1\n1 ,"2"\n+2,3.\n3e0,.4e1\n',
        b"\n\nt,S,\n0,1,\n1,2,\n2,3,\n3,4,\n",
    ],
)
def test_reads_the_dialects_people_have(tmp_path, content):
    (tmp_path / "d.csv").write_bytes(content)
    series = load_csv(tmp_path / "d.csv")
    (run,) = series.trajectories
    assert series.states == ("S",) and (run.time.tolist(), run.values.T.tolist()) == ([0, 1, 2, 3], [[1, 2, 3, 4]])


@pytest.mark.parametrize(("header", "time"), [("S,I,Time", "Time"), ("S,I,R", "S"), ("T,t,x", "t")])
def test_finds_the_time(tmp_path, header, time):
    series = load_csv(table(tmp_path, *(f"{k},{k},{k}" for k in range(5)), header=header))
    assert (series.time_name, *series.states) == (time, *(name for name in header.split(",") if name != time))


def test_missing_values_are_nan_and_counted(tmp_path):
    rows = [*ROWS, "5,,6", "6,NA,7", "7,NaN", "8,90,none"]
    series = load_csv(table(tmp_path, *rows))
    assert np.isnan(series.trajectories[0].values[5:, 0]).tolist() == [True, True, True, False]
    assert series.messages == ("Column 'S' lacks 3 of 9 values.", "Column 'I' lacks 2 of 9 values.")


def test_splits_into_trajectories(tmp_path):
    rows = ["b,1,0,5", "b,1,1,6", "a,1,0,7", "a,1,2,8", "a,2,0,1", "a,2,1,2", "b,1,3,9"]
    path = table(tmp_path, *rows, header="ball,drop,t,height")
    for group in (["ball", "drop"], "ball,drop"):
        series = load_csv(path, group=group)
        assert [t.label for t in series.trajectories] == ["b, 1", "a, 1", "a, 2"]
        assert series.trajectories[0].time.tolist() == [0, 1, 3] and series.states == ("height",)


def test_no_file(tmp_path):
    assert refusal(tmp_path / "no.csv") == f"{tmp_path / 'no.csv'}: no such file"
    assert refusal(tmp_path) == f"{tmp_path} is a folder; give the path of a CSV file"
    assert "cannot read" in refusal("a\0b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected a header and one line a sample"),
        (b"a\x01b,c\n1,2\n", "is no text file; save the table as CSV in UTF-8"),
        (b"t,S\n1,2\n2,\xe9\n", "is not UTF-8: byte 0xe9 in line 3; save it as CSV in UTF-8"),
        (b"0,1\n1,2\n2,3\n", "begins with numbers; the first line should name the columns"),
        (b't,S\n0,1\n1,"2\n2,3\n', "cannot be read as a table: a quotation mark is opened in line 3 and never closed"),
        (b"t,S\n0,1\n1,2,3\n", "cannot be read as a table: line 3 has 3 cells, but the header has 2"),
        (b"t,w\n0,a\n1,b\n", "no column of numbers besides the time 't'; expected at least one state"),
    ],
)
def test_refuses_what_is_no_table(tmp_path, content, message):
    path = tmp_path / "d.csv"
    path.write_bytes(content)
    assert refusal(path) in (f"{path} {message}", f"{path}: {message}")


GROUP_HINT = "; if the file holds several trajectories, name the column that tells them apart as group"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (replaced(4, "2,30,3x"), "line 4, column 'I': expected a number, got '3x'; correct it or leave the cell empty"),
        (replaced(5, "3,1e999,4"), "line 5, column 'S': '1e999' is infinite; correct it or leave the cell empty"),
        (replaced(3, ",20,2"), "line 3: the time 't' is missing or infinite"),
        (replaced(4, "0.5,30,3"), f"line 4: the time 't' goes back: 0.5 after 1 in line 3{GROUP_HINT}"),
        (ROWS[:3], "state 'S' has 3 values in all; at least 4 are needed to fit it"),
    ],
)
def test_refusals_name_line_and_column(tmp_path, rows, message):
    assert refusal(table(tmp_path, *rows)) == message


def test_refuses_wrong_columns(tmp_path):
    path = table(tmp_path, *ROWS, header="t,Susceptible,I")
    assert refusal(path, states=["Suceptible"]) == (
        "unknown state 'Suceptible': did you mean 'Susceptible'? Known: Susceptible, I"
    )
    assert refusal(path, time="tt").startswith("unknown time column 'tt': did you mean 't'?")
    assert refusal(path, group="run") == "unknown group column 'run': Known: t, Susceptible, I"
    assert refusal(path, states=["I", "I"]) == "state 'I' is named twice; name every column once"
    assert refusal(path, states=["t"]) == "column 't' is the time, so it cannot be a state"
    # Neither times nor text can be states.
    path = table(tmp_path, "2024-01-01,a,1,2", "2024-01-02,a,2,3", header="date,place,S,I")
    assert refusal(path, states=["Q"]) == "unknown state 'Q': Known: S, I"


def test_groups_that_show_no_change_are_left_out(tmp_path):
    long = [f"{group},{k},{k + 1}" for group in "ab" for k in range(3)]
    series = load_csv(table(tmp_path, *long, "c,1,3", "d,0,", "d,1,", header="g,t,x"), group="g")
    assert [run.label for run in series.trajectories] == ["a", "b"]
    assert series.n_samples == 6
    assert "Trajectories 'c', 'd' have fewer than 2 samples with a value; left out of 4." in series.messages
    series = load_csv(table(tmp_path, *long, *(f"{name},0,1" for name in "cdefghi"), header="g,t,x"), group="g")
    assert "Trajectories 'c', 'd', 'e', 'f', 'g' and 2 more have" in series.messages[0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a,0,1", "a,1,2", "b,1,2", "b,0,3"], "line 5 of trajectory 'b': the time 't' goes back: 0 after 1 in line 4"),
        (["a,0,1", "b,1,3"], "trajectory 'a' has 1 sample with a value; at least 2 are needed"),
        (["a,0,1", ",1,2"], "line 3, column 'g': the group is missing"),
    ],
)
def test_refuses_bad_groups(tmp_path, rows, message):
    assert refusal(table(tmp_path, *rows, header="g,t,x"), group="g") == message


@pytest.mark.parametrize(
    ("time", "values", "options", "message"),
    [
        ([0, 1, 2], [[1, 2]], {}, r"expected times \[n\] and values \[n, states\], got shapes \(3,\) and \(1, 2\)"),
        ([0, 1, 2], ["a", "b", "c"], {}, "values: expected an array of real numbers, got text; convert it"),
        ([0, 1, 1, 2], [1, 2, 3, 4], {}, "sample 2: the time 't' repeats 1 after 1 in sample 1"),
        ([0, 1, 2, 3], [1, 2, np.inf, 4], {}, "sample 2, state 'x0': infinite value"),
        ([0, 1, 2, 3], [1, 2, 3, 4], {"states": ["t"]}, "the name 't' is given twice"),
        ([0, 1, 2], [1, 2, 3], {}, "state 'x0' has 3 values in all"),
        ([[0, 1], [0, 1]], [[1, 2], [3, 4]], {"labels": ["a", "a"]}, "give 2 distinct labels"),
    ],
)
def test_arrays_are_checked_like_files(time, values, options, message):
    with pytest.raises(InputError, match=message):
        TimeSeries.from_arrays(time, values, **options)


def test_scale_makes_rms_and_interval_one():
    values = np.array([[3.0, 0.0], [np.nan, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    series = TimeSeries.from_arrays(np.array([0, 2, 4, 6, 9]), values * 1e200)
    scale = Scale.of(series)
    np.testing.assert_allclose([*scale.state, scale.time], [3e200, 1.0, 2.0])
    (scaled,) = scale.apply(series).trajectories
    np.testing.assert_allclose(scaled.time, [0, 1, 2, 3, 4.5])
    np.testing.assert_allclose(scaled.values[0], [1, 0])


@pytest.mark.parametrize(
    ("name", "options", "states", "trajectories", "samples"),
    [
        ("flu_boarding_school_1978", {}, 3, 1, 14),
        ("lynx_hare_1900_1920", {}, 2, 1, 21),
        ("yeast_carlson_1913", {}, 1, 1, 19),
        ("gause_paramecium_1934", {}, 4, 1, 26),
        ("covid19_italy_2020", {}, 5, 1, 180),
        ("covid19_germany_2020", {}, 5, 1, 184),
        ("theoph", {"group": "subject", "states": ["conc"]}, 1, 12, 132),
        ("ball_drops", {"group": ["ball", "drop"]}, 2, 22, 1064),
        ("orange_trees", {"group": "tree"}, 1, 5, 35),
        ("soybean_growth", {"group": "plot", "states": ["leaf_weight"]}, 1, 48, 412),
        ("plate_growth", {"group": "well", "states": ["od"]}, 1, 3, 156),
    ],
)
def test_measured_series_load(name, options, states, trajectories, samples):
    series = load_csv(DATA / f"{name}.csv", **options)
    assert (series.n_states, len(series.trajectories), series.n_samples) == (states, trajectories, samples)
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    columns = (DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    section = readme.split(f"`{name}.csv`", 1)[1].split("\n## ", 1)[0]
    assert all(f"| `{column}` |" in section for column in columns)
    assert all(f"**{word}:**" in section for word in ("Source", "Licence", "Caveats"))


@pytest.mark.parametrize("cell", ["1_0", "٣", "0x10", "1.5.", "12 mg", "--1", "True"])
def test_what_looks_like_a_number_and_is_none(tmp_path, cell):
    assert refusal(table(tmp_path, "0,1,1", f"1,{cell},2")).startswith("line 3, column 'S': expected a number, got ")


def test_a_file_of_plain_numbers_is_the_same_table_as_cell_by_cell(tmp_path):
    """Numbers are read at once where there is nothing else; a word in the last row asks for every cell."""
    draw = np.random.default_rng(0)
    values = draw.standard_normal((40, 3)) * 10.0 ** draw.integers(-200, 200, (40, 3))
    rows = [f"{k % 3:03d},{k}.0," + ",".join(map(repr, row)) for k, row in enumerate(values.tolist())]
    rows[5], rows[9] = "002,5,,1e3,-.5", ""
    plain, mixed = tmp_path / "plain.csv", tmp_path / "mixed.csv"
    plain.write_text("g,t,x [g/L],y,z\n" + "\n".join(rows) + "\n")
    mixed.write_text("g,t,x [g/L],y,z,note\n" + "\n".join(row and f"{row},a" for row in rows) + "\n")
    one, other = read_table(plain), read_table(mixed)
    assert one.written is not None and other.written is None
    assert (one.columns, one.lines, one.units) == (other.columns[:-1], other.lines, other.units)
    for name in "txyz":
        np.testing.assert_array_equal(one.numbers(name, "state"), other.numbers(name, "state"))
        assert not one.is_text(name)
    assert one.groups(["g"]) == other.groups(["g"]) and list(one.groups(["g"])) == ["000", "001", "002"]
    assert one.groups(["g", "t"]) == other.groups(["g", "t"])
    for file in (plain, mixed):
        with pytest.raises(InputError, match=r"line 7, column 'x': the group is missing"):
            read_table(file).groups(["x"])
    np.testing.assert_array_equal(load_csv(plain, group="g").trajectories[1].values[0], values[1])


def read(folder, rows):
    return load_csv(table(folder, *(",".join(map(str, row)) for row in rows), header="t,x"))


def test_trials_without_a_group_column_are_trajectories(tmp_path):
    series = read(tmp_path, [(t, x0 * 0.5**t) for x0 in (8.0, 2.0, 5.0) for t in (0.0, 1.0, 2.0, 3.0)])
    assert [(run.label, run.values[0, 0]) for run in series.trajectories] == [("1", 8.0), ("2", 2.0), ("3", 5.0)]
    assert series.messages == (
        "The time 't' restarts at line 6, 10: each restart begins a new trajectory, 3 in all; they are fitted side by "
        "side, never joined. A column that tells them apart can be named with --group.",
    )


@pytest.mark.parametrize(
    "times",
    [
        [0, 1, 3, 2, 4, 5],  # two rows swapped
        [0, 1, 2, 3, 4, 0],  # a slip at the end
        [5, 4, 3, 2, 1, 0],
        [0, 1, 2, 3, 2, 3, 4, 5],  # back to the end of what was
    ],
)
def test_times_that_just_go_back_are_refused(tmp_path, times):
    assert restarts(np.array(times, float)) == [0]
    with pytest.raises(InputError, match="goes back"):
        read(tmp_path, [(t, 1.0) for t in times])


def test_samples_at_one_time_are_their_mean_and_tell_the_noise(tmp_path):
    rng = np.random.default_rng(1)
    rows = [(t, 5.0 - t + 0.3 * e) for t in np.arange(0.0, 4.0, 0.5) for e in rng.standard_normal(4)]
    series = read(tmp_path, rows)
    (run,) = series.trajectories
    assert run.time.tolist() == np.arange(0.0, 4.0, 0.5).tolist()
    np.testing.assert_allclose(run.values[0, 0], np.mean([x for t, x in rows if t == 0.0]))
    # 24 degrees of freedom: the noise of one sample within 40 %, of a mean half of that.
    assert run.sigma is not None and np.ptp(run.sigma) == 0.0
    assert abs(run.sigma[0, 0] / 0.15 - 1.0) < 0.4
    assert "8 of 8 times were measured more than once: their means are fitted" in series.messages[0]


def test_noise_of_repeats_that_grows_with_the_state_is_seen_as_a_share():
    rng = np.random.default_rng(2)
    blocks = [m * (1.0 + 0.1 * rng.standard_normal((3, 1))) for m in np.geomspace(1.0, 300.0, 12)]
    (share,) = repeat_noise(blocks)
    assert -0.14 < share < -0.06
    (level,) = repeat_noise([m + 0.1 * rng.standard_normal((3, 1)) for m in np.geomspace(1.0, 300.0, 12)])
    assert 0.06 < level < 0.14
    assert np.isnan(repeat_noise([np.array([[1.0], [2.0]])])[0])  # one repeat tells nothing


def test_columns_without_values_are_left_out_unless_they_are_named(tmp_path):
    path = table(tmp_path, *(f"{k},nan,{k + 1}" for k in range(5)), header="t,setpoint,x")
    series = load_csv(path)
    assert series.states == ("x",) and series.messages == ("Column 'setpoint' has no values and was left out.",)
    with pytest.raises(InputError, match="column 'setpoint' has no values"):
        load_csv(path, states=["setpoint", "x"])


def test_two_quantities_in_one_column_are_no_repeats(tmp_path):
    rows = [(t, 5.0 - t, 60.0 + 3.0 * np.sin(t)) for t in range(5)]
    both = (f"{t},{v},{n}" for t, a, b in rows for n, v in (("cp", a), ("pca", b)))
    told = refusal(table(tmp_path, *both, header="t,dv,dvid"))
    assert "differ in 'dvid', 'cp' and 'pca', and by it in 'dv'" in told
    # So do three, or numbers for names, if the states are named; the order at each time does not matter.
    three = ((t, v, n) for t, a, b in rows for n, v in ((3, 900.0 + t), (1, a), (2, b)))
    told = refusal(table(tmp_path, *(f"{t},{v},{n}" for t, v, n in three), header="t,dv,dvid"), states=["dv"])
    assert "differ in 'dvid', '1.0' and '2.0'" in told
    # Two observers of one quantity.
    seen = ((t, a + 0.1 * (-1) ** (t // 2 + k), n) for t, a, _ in rows for k, n in enumerate("ab"))
    series = load_csv(table(tmp_path, *(f"{t},{v},{n}" for t, v, n in seen), header="t,dv,who"))
    assert series.n_samples == 5


@pytest.mark.parametrize(("turn", "lowest"), [(2.0 * np.pi, -np.pi), (360.0, 0.0)])
def test_angles_within_a_turn_are_fitted_without_its_jumps(turn, lowest):
    t = np.linspace(0.0, 10.0, 50)
    angle = turn * (0.3 * t - 0.1 * np.cos(t))
    series = TimeSeries.from_arrays(t, (angle - lowest) % turn + lowest)
    np.testing.assert_allclose(np.diff(series.trajectories[0].values[:, 0]), np.diff(angle))
    assert series.messages[0].startswith("x0 jumps by ")
    # Nor is what falls by almost a turn but otherwise rises slowly, decays between doses, or is switched.
    charge, dosed, switched = 0.9 * ((0.3 * t) % 1.0), 0.94 * np.exp(-0.4 * (t % 2.5)), 1.0 * (t % 2.0 < 1.0)
    for other in (charge, dosed, switched):
        assert not TimeSeries.from_arrays(t, turn * other + lowest).messages


@pytest.mark.long
def test_the_estimator_joins_angles_too():
    angle = (1.3 * np.arange(0.0, 20.0, 0.25)) % (2.0 * np.pi)
    model = ODEDiscovery(members=0, states=["phi"]).fit(angle[:, None])
    assert model.score(angle[:, None]) > 0.999
    assert any("jumps by 2*pi" in message for message in model.discovery_.messages)


def test_noise_in_proportion_is_unknown_where_the_mean_is_nothing(tmp_path):
    random = np.random.default_rng(0)
    rows = [(0, 0.0), *((t, t * (1 + 0.1 * random.standard_normal())) for t in range(1, 11) for _ in range(3))]
    sigma = read(tmp_path, rows).trajectories[0].sigma[:, 0]
    assert np.isnan(sigma[0]) and (sigma[1:] > 0.0).all()


@pytest.mark.parametrize("value", [1e200, 1e-200])
def test_repeats_of_extreme_values_tell_no_noise_and_raise_nothing(value):
    pairs = [np.array([[1.0 + k], [1.1 + k]]) for k in range(7)]
    assert np.isfinite(repeat_noise([*pairs, np.array([[value], [value]])])).all()
