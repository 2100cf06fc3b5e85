"""What commands print, on streams that are whole, closed or broken."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap

import pytest

from odediscovery.command.streams import MAX_LINE_LETTERS, Forgiving, mute_if_broken, note, remark, say


def run(code: str, *, closed: str = "") -> subprocess.CompletedProcess[str]:
    """A program in a shell that has closed some of its streams."""
    command = f"{sys.executable} -c '{textwrap.dedent(code)}' {closed}"
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)


def test_results_go_to_standard_output_and_remarks_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say("x' = -x")
    note("few samples")
    printed = capsys.readouterr()
    assert printed.out == "x' = -x\n"
    assert printed.err == "note: few samples\n"


def test_letters_that_would_move_the_cursor_are_shown_and_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2Jb")
    assert "\x1b" not in capsys.readouterr().out


def test_a_remark_that_quotes_a_whole_file_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    remark("y" * (3 * MAX_LINE_LETTERS))
    assert len(capsys.readouterr().err) < 1.1 * MAX_LINE_LETTERS


def test_a_standard_error_that_is_closed_ends_nothing() -> None:
    ended = run(
        'from odediscovery.command import streams as s; s.prepare(); s.remark("x"); s.say("kept")', closed="2>&-"
    )
    assert (ended.returncode, ended.stdout) == (0, "kept\n")


def test_a_full_standard_output_is_an_error() -> None:
    code = 'from odediscovery.command import streams as s; s.prepare(); s.say("lost"); import sys; sys.stdout.flush()'
    ended = run(code, closed=">/dev/full")
    assert ended.returncode != 0
    assert "No space left" in ended.stderr


def test_a_library_that_draws_on_a_closed_stream_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    own = Forgiving()
    assert own.write("bar") == 3
    assert stream.getvalue() == "bar"
    stream.close()
    assert own.write("bar") == 3
    own.flush()
    mute_if_broken(stream)
