"""The chain of units that the search trains."""

from __future__ import annotations

from odediscovery.networks.power_units import power_units


def test_the_chain_has_the_flags_of_its_states() -> None:
    power, total = power_units([True, False], 5)
    assert power.nonnegative == (True, False)
    assert (power.n_in, power.n_out, total.n_in, total.n_out) == (2, 5, 5, 2)
