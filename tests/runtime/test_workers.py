"""Tasks in processes of their own: limits, deaths, wishes to stop, and what is left behind."""

from __future__ import annotations

import multiprocessing
import os
import time

from odediscovery.runtime.workers import Processes


def test_tasks_that_hang_or_die_are_failures_and_the_others_go_on() -> None:
    ended = dict(Processes(2).results(time.sleep, [0.1, 60.0, 0.2], 1.0))
    assert ended[0] is None and ended[2] is None
    assert ended[1].reason == "no result within 1 s" and 1.0 <= ended[1].seconds < 10
    died = dict(Processes(1).results(os._exit, [3, 4], 60.0))
    assert [died[k].reason for k in (0, 1)] == [
        "its process ended with exit code 3",
        "its process ended with exit code 4",
    ]


def test_a_wish_to_stop_ends_the_processes() -> None:
    asked = iter([None] * 5 + ["interrupted"] * 100)
    stopping = lambda: next(asked)  # noqa: E731
    assert list(Processes(2).results(time.sleep, [60.0, 60.0], 100.0, stopping)) == []
    assert not multiprocessing.active_children()
