"""Which kept rows are stale, and that measuring them again loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odediscovery.bench.rows import commit_of
from odediscovery.bench.suites import stale
from odediscovery.bench.suites.problems import SUITES, load_suite
from odediscovery.bench.suites.stale import Kept, command_of, commits_since, folders_of_rows, kept_in, measure_again
from odediscovery.bench.summary import side_by_side
from odediscovery.errors import FitError, InputError

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "data" / "results" / "bench"
SUITE = {"suite": "fractional", "sigma": 0.02, "drop": 0.0, "trajectories": 2, "seed": 0, "max_seconds": 90.0}
COMMAND = "fractional --sigma 0.02 --drop 0 --trajectories 2 --seed 0 --max-seconds 90"


def kept(folder: Path, study: dict[str, Any], methods: list[str]) -> Kept:
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps(study))
    lines = [json.dumps({"id": f"power-sums-{k}", "method": method}) for k, method in enumerate(methods)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return kept_in(folder)


@pytest.mark.parametrize(
    ("study", "methods", "command"),
    [
        (SUITE, ["ours", "ours"], COMMAND),
        (SUITE, ["pysindy"], f"{COMMAND} --method pysindy"),
        (SUITE, ["ours", "pysindy"], f"{COMMAND} --method all"),
        (SUITE, ["without L1"], ""),
        (SUITE, ["default", "no L1"], "ablation --seed 0 --max-seconds 90"),
        ({"suite": "random", "drop": 0.0, "digits": None}, ["ours"], "random --ids power-sums-0"),
        (
            {"measure": "lawless", "kind": "random-walk", "quick": False},
            ["ours"] * 3,
            "lawless --kind random-walk --draws 3",
        ),
        (
            {"measure": "thresholds", "sigma": 0.01, "every": 5, "quick": 3.0, "seed": 7, "max_seconds": 20.0}
            | {"ids": ["random/power-sums-1", "random/saturating-1"], "each": 0},
            ["1", "0.5"],
            "thresholds --sigma 0.01 --seed 7 --max-seconds 20 --ids random/power-sums-1,random/saturating-1",
        ),
        (
            {"measure": "thresholds", "sigma": 0.02, "every": 5, "quick": 3.0, "seed": 0, "max_seconds": 60.0}
            | {"ids": [], "each": 0},
            ["1", "2"],
            "thresholds --sigma 0.02 --seed 0 --max-seconds 60 --every 5 --quick 3",
        ),
        (
            {"measure": "decisions", "sigma": 0.01, "every": 5, "quick": 3.0, "seed": 7, "max_seconds": 20.0}
            | {"ids": ["classics/logistic"], "each": 0},
            ["0", "0.01"],
            "thresholds --decisions --sigma 0.01 --seed 7 --max-seconds 20 --ids classics/logistic",
        ),
        (
            {"measure": "rungs", "sigma": 0.01, "every": 5, "quick": 60.0, "seed": 948, "max_seconds": 60.0}
            | {"ids": [], "each": 2},
            ["1", "0"],
            "rungs --sigma 0.01 --seed 948 --max-seconds 60 --each 2",
        ),
        ({"measure": "unheard of"}, ["ours"], ""),
    ],
)
def test_the_command_of_a_folder(tmp_path: Path, study: dict[str, Any], methods: list[str], command: str) -> None:
    assert " ".join(kept(tmp_path / "rows", study, methods).command) == command


def test_rows_of_an_unknown_engine_are_stale_and_those_of_others_are_not(tmp_path: Path) -> None:
    ours, peers = kept(tmp_path / "a", SUITE, ["ours"]), kept(tmp_path / "b", SUITE, ["pysindy"])
    assert ours.is_stale and not peers.is_stale
    assert (ours.cells()[2], peers.cells()[2]) == ("unknown", "peers")
    assert folders_of_rows([tmp_path]) == [tmp_path / "a", tmp_path / "b"]


def test_commits_of_the_engine_are_counted() -> None:
    head = commit_of(ROOT / "odediscovery")
    if not head:
        pytest.skip("no checkout")
    assert commits_since(head) == 0
    assert commits_since("") is None and commits_since("0000000") is None


def test_a_commit_has_one_name_however_long_git_likes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    head = commit_of(ROOT / "odediscovery")
    for name, value in {"COUNT": "1", "KEY_0": "core.abbrev", "VALUE_0": "12"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    assert commit_of(ROOT / "odediscovery") == head


@pytest.mark.slow
def test_the_kept_results_of_the_project_have_commands() -> None:
    folders = folders_of_rows([KEPT])
    assert [folder for folder in folders if not kept_in(folder).command] == []
    ablated = [kept_in(folder) for folder in folders if folder.parent.name == "ablation"]
    assert {each.measured for each in ablated} == {KEPT / "ablation"} and len(ablated) == 2


def test_the_page_prints_the_kept_rows_with_their_commits() -> None:
    folders = [path for kind in ("fractional", "odebench", "random") for path in KEPT.glob(f"{kind}-*")]
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = [line for line in side_by_side(folders, {n: len(load_suite(n)) for n in SUITES}).split("\n") if "`" in line]
    assert len(rows) > 15 and [row for row in rows if row not in page] == []


@pytest.mark.parametrize("code", [0, 1])
def test_a_folder_is_replaced_only_by_a_finished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    old = kept(tmp_path / "rows", SUITE, ["ours"])

    def run(call: list[str], **_: Any) -> SimpleNamespace:
        if call[0] != "git":
            fresh = Path(call[call.index("--out") + 1])
            fresh.mkdir()
            (fresh / "summary.md").write_text("anew")
        return SimpleNamespace(returncode=code, stdout="")

    monkeypatch.setattr(stale.subprocess, "run", run)
    if code:
        with pytest.raises(FitError, match="its rows are as they were"):
            measure_again(old)
        assert (old.folder / "rows.jsonl").is_file()
    else:
        measure_again(old)
        assert [path.name for path in tmp_path.iterdir()] == ["rows"]
        assert [path.name for path in old.folder.iterdir()] == ["summary.md"]


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a folder of `bench` with rows\.jsonl"):
        kept_in(tmp_path)


def test_an_option_that_is_true_has_no_value() -> None:
    assert command_of({"measure": "growth", "quick": True}, []) == ("growth", "--quick")
