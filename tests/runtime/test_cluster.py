"""A real dask cluster of worker processes: nothing is lost or doubled, whatever happens to them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from distributed import Client

from odediscovery.bench.rows import Rows, filled
from odediscovery.bench.suites.protocol import Protocol
from odediscovery.bench.suites.run import COLUMNS, ours, study_of
from odediscovery.command.cli import main
from odediscovery.errors import FitError, InputError
from odediscovery.runtime import cluster
from odediscovery.runtime.cluster import connected

ROOT = Path(__file__).resolve().parents[2]
QUICK = ["intermediate_drag", "theta_logistic", "torricelli_inflow", "von_bertalanffy"]


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`dask ...` as a process of its own, killed at the end; the scheduler's address."""
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    reader = threading.Thread(target=process.stderr.read)
    try:
        line = next(text for text in process.stderr if "tcp://" in text)
        # Its pipe has to be emptied, or it would wait for that.
        reader.start()
        yield process, re.findall(r"tcp://\S+", line)[0]
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stderr.close()


def children(client: Client) -> list[psutil.Process]:
    """The processes that do the tasks of workers."""
    workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
    return [child for worker in workers for child in worker.children() if does_tasks(child)]


def does_tasks(process: psutil.Process) -> bool:
    """Whether a process was started for a task and still runs: one that has just ended may be
    listed while its parent has not asked for its exit code.
    """
    try:
        return any("spawn_main" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two workers, each a process under its nanny."""
    with (
        started("scheduler", "--host", "127.0.0.1", "--port", "0") as (_, address),
        started("worker", address, "--nworkers", "2", "--nthreads", "1"),
    ):
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2)
        yield address


@pytest.mark.long
def test_a_killed_worker_loses_and_doubles_no_row(
    scheduler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, over, killed = tmp_path / "rows" / "rows.jsonl", threading.Event(), []

    def kill_one_at_work() -> None:
        with Client(scheduler, set_as_default=False) as client:
            processes = client.run(os.getpid)
            while not killed and not over.is_set():
                at_work = [worker for worker, tasks in client.processing().items() if tasks]
                if at_work and file.is_file() and file.read_text():
                    os.kill(processes[at_work[0]], signal.SIGKILL)
                    killed.append(at_work[0])

    killer = threading.Thread(target=kill_one_at_work)
    killer.start()
    asked = ["bench", "fractional", "--ids", ",".join(QUICK), "--out", str(file.parent)]
    assert main([*asked, "--backend", "dask", "--scheduler", scheduler]) == 0
    over.set()
    killer.join()
    assert "4 of 4  ours" in capsys.readouterr().err
    with Client(scheduler, set_as_default=False) as client:
        assert killed and killed[0] not in client.nthreads()
    rows = [json.loads(line) | {"seconds": 0} for line in file.read_text().splitlines()]
    study = study_of("fractional", Protocol(), 180.0, {"ours": ours}, ids=QUICK)
    own = sorted((filled(task, COLUMNS) for task in study.tasks), key=lambda row: str(row["id"]))
    assert sorted(rows, key=lambda row: str(row["id"])) == [row | {"seconds": 0} for row in own]
    assert all(row["exact"] for row in own)


@pytest.mark.long
def test_a_bootstrap_and_profiles_on_a_cluster_are_those_of_one_process(
    scheduler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(ROOT / "data" / "lynx_hare_1900_1920.csv")
    # What two fits find is compared: neither must be ended early.
    asked = ["fit", data, "--members", "0", "--bootstrap", "60", "--profile", "--max-seconds", "300"]
    where = {"here": [], "there": ["--backend", "dask", "--scheduler", scheduler]}
    documents = {}
    for name, options in where.items():
        assert main([*asked, *options, "--quiet", "--out", str(tmp_path / name)]) == 0
        documents[name] = json.loads((tmp_path / name / "result.json").read_text("utf-8"))
    here, there = documents.values()
    assert here["bootstrap"] == there["bootstrap"] and here["bootstrap"]["draws"] == 60
    assert here["profiles"] == there["profiles"] and len(here["profiles"]) == 4
    assert "95 % intervals by profile likelihood" in capsys.readouterr().out


@pytest.mark.slow
def test_a_limit_holds_on_a_worker_and_a_crash_costs_one_task(scheduler: str) -> None:
    with connected(scheduler, print) as place:
        ended = dict(place.results(time.sleep, [0.1, 60.0, 0.2], 1.0))
        assert ended[0] is None and ended[2] is None
        assert ended[1].reason == "no result within 1 s" and 1.0 <= ended[1].seconds < 10
        ((number, died),) = place.results(os._exit, [3])
        assert number == 0 and died.reason == "its process ended with exit code 3"
        assert not children(place.client)


@pytest.mark.slow
def test_a_wish_to_stop_ends_what_runs_on_workers(scheduler: str) -> None:
    with connected(scheduler, print) as place:
        seen: list[int] = []

        def stopping() -> str | None:
            seen.append(len(children(place.client)))
            return "interrupted" if seen[-1] == 2 else None

        assert list(place.results(time.sleep, [60.0, 60.0, 60.0], stopping=stopping)) == []
        latest, left = time.monotonic() + 30.0, 2
        while left and time.monotonic() < latest:
            left = len(children(place.client))
        assert left == 0 and max(seen) == 2


@pytest.mark.slow
def test_other_versions_on_workers_are_named(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_own", lambda: {"odediscovery": "7.0"})
    with (
        connected(scheduler, print) as place,
        pytest.raises(FitError, match=r"other versions than this machine: install odediscovery 7"),
    ):
        list(place.results(time.sleep, [0.0]))


def test_what_no_worker_survives_is_a_failure_and_what_none_knows_an_error() -> None:
    distributed = cluster.distributed
    died = distributed.KilledWorker("a-task", None, 3)
    assert cluster._result_of((type(died), died, None)).reason == "its worker was lost 4 times"
    odd = ModuleNotFoundError("No module named 'odediscovery'")
    with pytest.raises(FitError, match=r"cannot run the tasks .*No module named 'odediscovery'.*"):
        cluster._result_of((type(odd), odd, None))


@pytest.mark.slow
def test_a_scheduler_without_workers_is_told_and_a_lost_one_ends_the_work() -> None:
    told: list[str] = []
    with started("scheduler", "--host", "127.0.0.1", "--port", "0") as (process, address):

        def stopping() -> None:
            if told:
                process.kill()

        with (
            connected(address, told.append) as place,
            pytest.raises(FitError, match="scheduler was lost; what was finished is kept"),
        ):
            list(place.results(time.sleep, [0.0], stopping=stopping))
    assert told == [f"no workers at {address} yet: start some with `dask worker {address}`"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--backend", "dusk"], "unknown backend 'dusk': did you mean 'dask'?"),
        (["--backend", "dask"], "--backend dask needs --scheduler ADDRESS"),
        (["--scheduler", "tcp://127.0.0.1:1"], "it needs --backend dask"),
        (["--backend", "dask", "--scheduler", "tcp://127.0.0.1:1", "--jobs", "2"], "leave it out"),
        (["--backend", "dask", "--scheduler", "node1"], "missing port number in address 'node1'"),
        (["--backend", "dask", "--scheduler", "tls://node1:1"], "name no certificate for tls"),
        (["--backend", "dask", "--scheduler", "tcp://127.0.0.1:1"], "got no answer (Timed out"),
    ],
)
@pytest.mark.parametrize("command", [["bench", "fractional"], ["reproduce", "fsir"]])
def test_mistakes_end_in_one_line_before_anything_is_run(
    command: list[str],
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    assert main([*command, *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ") and said in shown.err and shown.err.count("\n") == 1
    assert shown.out == "" and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_without_dask_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "distributed", None)
    with (
        pytest.raises(InputError, match=r'pip install "odediscovery\[dask\]"'),
        connected("tcp://127.0.0.1:8786", print),
    ):
        pass


@pytest.mark.slow
def test_a_system_done_twice_has_one_row(tmp_path: Path) -> None:
    rows = Rows.claim(tmp_path / "rows", {"suite": "fractional"}, ("id", "method", "seconds"))
    for seconds in (1.0, 2.0):
        rows.add({"id": "a", "method": "ours", "seconds": seconds})
    assert [row["seconds"] for row in rows.all] == [1.0]
    assert len((tmp_path / "rows" / "rows.jsonl").read_text().splitlines()) == 1
