"""The estimator for scikit-learn."""

from odediscovery.estimator.estimator import ODEDiscovery

__all__ = ["ODEDiscovery"]
