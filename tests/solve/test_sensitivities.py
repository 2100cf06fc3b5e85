"""What sensitivities of intervals come to over whole trajectories."""

from __future__ import annotations

import numpy as np

from odediscovery.solve.sensitivities import linear_recurrence


def test_a_recurrence_is_what_a_loop_gives() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((7, 3, 3)), rng.standard_normal((7, 3, 4))
    z = [rng.standard_normal((3, 4))]
    for j in range(7):
        z.append(a[j] @ z[-1] + b[j])
    np.testing.assert_allclose(linear_recurrence(a, b, z[0]), np.stack(z), rtol=1e-10)
