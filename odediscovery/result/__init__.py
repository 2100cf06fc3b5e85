"""The result of a fit, and the folder that stores it."""

from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow

__all__ = ["Discovery", "FrontRow"]
