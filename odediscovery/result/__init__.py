"""The value that a fit returns, and the folder that keeps it."""

from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow

__all__ = ["Discovery", "FrontRow"]
