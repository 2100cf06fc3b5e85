"""How sure the constants are: bands, bootstrap, profiles."""

from odediscovery.uncertainty.bands import Band, band

__all__ = ["Band", "band"]
