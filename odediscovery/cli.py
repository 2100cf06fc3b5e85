"""The console script `odediscovery`, whose commands are in `odediscovery.command`."""

import os

try:
    from odediscovery.command.cli import main
except KeyboardInterrupt:
    # Ctrl-C before there is a command that could hear it.
    os.write(2, b"error: interrupted\n")
    raise SystemExit(130) from None

__all__ = ["main"]
