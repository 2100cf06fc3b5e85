"""The matrix of the campaign, printed after it."""

from __future__ import annotations

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many cases of each class were tried, and how many of them kept the promise."""
    tried, met, measured = Counter[str](), Counter[str](), list[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, value in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") != "call":
                    continue
                if name == "hostile class":
                    tried[value] += 1
                    met[value] += outcome == "passed"
                elif name == "measured":
                    measured.append(value)
    if tried:
        terminalreporter.section("hostile cases")
        for name in tried:
            terminalreporter.write_line(f"{name:<40}{tried[name]:>6} tried{met[name]:>6} met")
        for line in measured:
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"{'in all':<40}{tried.total():>6} tried{met.total():>6} met")
