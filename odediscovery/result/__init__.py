"""The value that a fit returns, and the folder that keeps it."""

from odediscovery.result.discovery import Discovery, FrontRow

__all__ = ["Discovery", "FrontRow"]
