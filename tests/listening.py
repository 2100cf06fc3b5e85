"""A monitor for the tests that look at which stages ran."""

from __future__ import annotations

from odediscovery.runtime.monitor import Monitor


class Stages(Monitor):
    """Remembers the names of the stages in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def stage(self, name: str, steps: int) -> None:
        self.names.append(name)
