"""The monitor: a limit of time, a request to stop, a log."""

from __future__ import annotations

import time

import pytest

from odediscovery.runtime.monitor import Monitor, TimeIsUp, check_time, drawn, is_time_up


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


def endless() -> str:
    for _ in range(10**9):
        check_time()
    return "done"


def test_long_work_ends_in_time_for_what_follows_it() -> None:
    monitor = Monitor(max_seconds=0.5)
    # The search may take 0.375 s and leaves 0.25 s, of which 0.2 are 0.05 s.
    assert monitor.in_time(0.2, endless, "the best so far") == "the best so far"
    assert 0.42 <= monitor.seconds() < 2.0
    assert monitor.is_overdue(0.2) and monitor.stopping() == "time limit"


def test_long_work_ends_once_it_was_interrupted() -> None:
    monitor = Monitor()
    monitor.interrupt()
    assert monitor.in_time(0.01, endless, None) is None
    assert monitor.seconds() < 2.0


def test_nothing_is_ended_outside_and_the_outer_patience_returns() -> None:
    check_time()
    monitor = Monitor(max_seconds=10.0, started=time.monotonic() - 9.0)
    with monitor.patient(1.0):
        assert monitor.in_time(0.1, endless, "late") == "late"
        check_time()
        with pytest.raises(TimeIsUp), monitor.patient(0.1):
            check_time()
    check_time()


def test_time_that_is_up_is_seen_within_patient_work_only() -> None:
    late = Monitor(max_seconds=1.0, started=time.monotonic() - 60.0)
    assert not is_time_up()
    with late.patient(0.1):
        assert is_time_up()
    with Monitor().patient(0.1):
        assert not is_time_up()


@pytest.mark.parametrize(("own", "during"), [(None, 6.0), (2.0, 2.0)])
def test_a_given_monitor_without_a_limit_has_that_of_the_settings(own: float | None, during: float) -> None:
    monitor = Monitor(own)
    with drawn(monitor, 6.0) as hears:
        assert hears is monitor and hears.max_seconds == pytest.approx(during, abs=1.0)
    assert monitor.max_seconds == own
