"""The uncertainty of constants and curves: bands, bootstrap, profiles."""

from odediscovery.uncertainty.bands import Band, band

__all__ = ["Band", "band"]
