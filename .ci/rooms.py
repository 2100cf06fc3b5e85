"""Which modules a series enters on its way from a CSV file to a printed equation, traced.

    python .ci/rooms.py FILE.csv

A module counts where one of its functions is handed the series (or one made of it); a return is a
call that hands it back up, to a module that it has already left.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import odediscovery
from odediscovery import TimeSeries, discover, load_csv, settings_for

PACKAGE = str(Path(odediscovery.__file__).parent)


def main(path: str) -> None:
    way: list[str] = []

    def trace(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        taken = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        if any(isinstance(value, TimeSeries) for value in taken):
            module = code.co_filename.removeprefix(PACKAGE + "/")
            if not way or way[-1] != module:
                way.append(module)

    series = load_csv(path)
    sys.setprofile(trace)
    print(discover(series, settings_for(seed=0)).equations_text())
    sys.setprofile(None)
    rooms = [module.rpartition("/")[0] or module for module in way]
    changes = [room for room, before in zip(rooms, ["", *rooms], strict=False) if room != before]
    print("modules entered", len(set(way)), "and returned to", len(way) - len(set(way)))
    print("rooms entered", len(set(rooms)), "and returned to", len(changes) - len(set(rooms)))
    print(*dict.fromkeys(rooms))


if __name__ == "__main__":
    main(sys.argv[1])
