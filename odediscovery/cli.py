"""The console script `odediscovery`, whose commands are in `odediscovery.command`."""

from odediscovery.command.cli import main

__all__ = ["main"]
