"""Programs that write a folder again and again, to be killed or to find no room: run as a script.

python writers.py PLACE FIRST COUNT

"""

import resource
import signal
import sys
from pathlib import Path

from odediscovery.runtime.files import claimed

OWN = tuple(f"file {k}" for k in range(8))


def write_version(place, version):
    """A folder of eight files that all hold the version, of growing lengths."""

    def fill(new):
        for k, name in enumerate(OWN):
            (new / name).write_bytes(f"{version}\n".encode() * 1000 * (k + 1))

    with claimed(place) as claim:
        claim.replace(fill, OWN)


def version_in(place):
    """The version that all files of a folder have in common.

    Raises:
        AssertionError: there are several, or a file is not whole.
    """
    found = set()
    for k, name in enumerate(OWN):
        lines = (place / name).read_bytes().split(b"\n")
        assert len(lines) == 1000 * (k + 1) + 1 and len(set(lines[:-1])) == 1, name
        found.add(int(lines[0]))
    assert len(found) == 1, found
    return found.pop()


if __name__ == "__main__":
    place, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if len(sys.argv) > 4:
        room = int(sys.argv[4])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    print("ready", flush=True)
    for version in range(first, first + count):
        write_version(place, version)
