"""A real dask cluster of worker processes: nothing is lost or doubled, whatever happens to them."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from distributed import Client

from odediscovery import FitError, InputError
from odediscovery.bench.rows import filled
from odediscovery.bench.suites import COLUMNS, ours, study_of
from odediscovery.bench.systems import Protocol
from odediscovery.command.cli import main
from odediscovery.runtime import cluster
from odediscovery.runtime.cluster import connected

ROOT = Path(__file__).resolve().parents[2]
QUICK = ["intermediate_drag", "theta_logistic", "torricelli_inflow", "von_bertalanffy"]


@contextmanager
def started(*arguments):
    """`dask ...` as a process of its own, killed at the end; the scheduler's address."""
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
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


def children(client):
    """The processes that do the tasks of workers."""
    workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
    return [child for worker in workers for child in worker.children() if does_tasks(child)]


def does_tasks(process):
    """Whether a process was started for a task and still runs: one that has just ended may be
    listed while its parent has not asked for its exit code.
    """
    try:
        return any("spawn_main" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler with two workers, each a process under its nanny."""
    with (
        started("scheduler", "--host", "127.0.0.1", "--port", "0") as (_, address),
        started("worker", address, "--nworkers", "2", "--nthreads", "1"),
    ):
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2)
        yield address


@pytest.mark.long
def test_a_killed_worker_loses_and_doubles_no_row(scheduler, tmp_path, capsys):
    file, over, killed = tmp_path / "rows" / "rows.jsonl", threading.Event(), []

    def kill_one_at_work():
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


def test_a_limit_holds_on_a_worker_and_a_crash_costs_one_task(scheduler):
    with connected(scheduler, print) as place:
        ended = dict(place.results(time.sleep, [0.1, 60.0, 0.2], 1.0))
        assert ended[0] is None and ended[2] is None
        assert ended[1].reason == "no result within 1 s" and 1.0 <= ended[1].seconds < 10
        ((number, died),) = place.results(os._exit, [3])
        assert number == 0 and died.reason == "its process ended with exit code 3"
        assert not children(place.client)


def test_a_scheduler_without_workers_is_told_and_a_lost_one_ends_the_work():
    told = []
    with started("scheduler", "--host", "127.0.0.1", "--port", "0") as (process, address):

        def stopping():
            if told:
                process.kill()

        with (
            connected(address, told.append) as place,
            pytest.raises(FitError, match="scheduler was lost; what was finished is kept"),
        ):
            list(place.results(time.sleep, [0.0], stopping=stopping))
    assert told == [f"no workers at {address} yet: start some with `dask worker {address}`"]


def test_without_dask_it_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(cluster, "distributed", None)
    with (
        pytest.raises(InputError, match=r'pip install "odediscovery\[dask\]"'),
        connected("tcp://127.0.0.1:8786", print),
    ):
        pass
