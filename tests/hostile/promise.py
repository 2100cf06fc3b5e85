"""What every command promises, whatever it is given: an exit code that is right, at most one line of
complaint, no traceback, no warning, nothing that moves a terminal's cursor, nothing of a stranger run.
"""

import contextlib
import io
import re
from pathlib import Path

from odediscovery.command.cli import main

# C0 but for line ends and tabs, DEL and C1.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What a piece of code in names and cells would make.
TRAP = "hacked"
CODE = f"__import__('os').system('touch {TRAP}')"


def run(arguments):
    """Exit code, standard output and standard error of a command, in this process.

    Warnings are errors in tests, so that a library's warning ends it with an exception.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def check(arguments):
    """Run a command and see that it keeps the promise; its exit code and standard output."""
    code, out, err = run(arguments)
    assert code in (0, 1, 2), (code, err)
    complaints = [line for line in err.splitlines() if not line.startswith("note: ")]
    if code:
        assert len(complaints) == 1 and complaints[0].startswith("error: "), err[:2000]
    else:
        assert not complaints, err[:2000]
    # A fault that was caught at the door is one all the same.
    assert "Traceback" not in out + err and "a fault of odediscovery" not in err, err[:2000]
    assert CONTROLS.search(out + err) is None, CONTROLS.findall(out + err)[:5]
    assert len(err) < 5000, len(err)
    assert not list(Path().rglob(TRAP))
    return code, out
