"""The uncertainty of a finished result: bands and, on request, bootstrap and profiles."""

from odediscovery.uncertainty.bands import Band, band

__all__ = ["Band", "band"]
