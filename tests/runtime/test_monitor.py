"""The monitor: a limit of time, a request to stop, a log."""

from __future__ import annotations

import time

from odediscovery.runtime.monitor import Monitor


def test_goes_on_without_a_limit() -> None:
    monitor = Monitor(started=time.monotonic() - 1e6)
    assert monitor.stopping() is None
    assert monitor.seconds() >= 1e6


def test_stops_behind_the_limit_and_not_before() -> None:
    now = time.monotonic()
    assert Monitor(max_seconds=60.0, started=now).stopping() is None
    assert Monitor(max_seconds=60.0, started=now - 61.0).stopping() == "time limit"


def test_an_interruption_stays_and_comes_before_the_limit() -> None:
    monitor = Monitor(max_seconds=1.0, started=time.monotonic() - 2.0)
    monitor.interrupt()
    assert [monitor.stopping(), monitor.stopping()] == ["interrupted"] * 2


def test_notes_are_kept_in_order_with_their_time() -> None:
    monitor = Monitor(started=time.monotonic() - 5.0)
    monitor.stage("grow", 3)
    monitor.step(1, 0.5)
    monitor.note(event="first", loss=1.0)
    monitor.note(event="second")
    assert [line["event"] for line in monitor.log] == ["first", "second"]
    assert monitor.log[0]["loss"] == 1.0
    assert all(5.0 <= line["seconds"] < 65.0 for line in monitor.log)  # type: ignore[operator]


def test_two_monitors_share_no_log() -> None:
    Monitor().note(event="mine")
    assert Monitor().log == []
