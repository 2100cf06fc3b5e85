"""A monitor for the tests that look at which stages ran, and a place for tasks that loses some and stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import Failure


class Stages(Monitor):
    """Remembers the names of the stages in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def stage(self, name: str, steps: int) -> None:
        self.names.append(name)


class Here:
    """A place for tasks that is this process; some end without a result every time, and somebody may stop the rest."""

    def __init__(self, lost: Callable[[Any], bool], monitor: Monitor | None = None, stops_after: int = 0) -> None:
        self.lost, self.monitor, self.stops_after, self.ran = lost, monitor or Monitor(), stops_after, 0

    def results(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], limit: float = 0.0, stopping: object = None
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            if self.monitor.stopping():
                return
            self.ran += 1
            yield number, Failure("its process ended", 1.0) if self.lost(task) else function(task)
            if self.ran == self.stops_after:
                self.monitor.interrupt()
