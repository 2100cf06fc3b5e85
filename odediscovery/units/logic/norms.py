"""The three common real-valued logics: *and*, *or* and *implies* for degrees of truth.

    Goedel         min(a, b)             max(a, b)            1 where a <= b, else b
    product        a b                   a + b - a b          1 where a <= b, else b / a
    Lukasiewicz    max(0, a + b - 1)     min(1, a + b)        min(1, 1 - a + b)

*implies* is the residuum, the largest c with and(a, c) <= b. All are classical for 0 and 1; the units of this package
are weighted forms of the third one, whose functions are piecewise linear and can be inverted.

Source: Riegel et al., Logical Neural Networks (2020); the seminar prints the first two residua with a < b the wrong way
round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Binary = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class RealValuedLogic:
    """A t-norm, its dual t-conorm and its residuum, on tensors of degrees of truth.

    Args:
        conjunction: a and b.
        disjunction: a or b.
        implication: a implies b.

    >>> a, b = torch.tensor(0.75), torch.tensor(0.5)
    >>> {name: logic.conjunction(a, b).item() for name, logic in LOGICS.items()}
    {'Goedel': 0.5, 'product': 0.375, 'Lukasiewicz': 0.25}
    """

    conjunction: Binary
    disjunction: Binary
    implication: Binary


LOGICS = {
    "Goedel": RealValuedLogic(torch.minimum, torch.maximum, lambda a, b: torch.where(a <= b, torch.ones_like(b), b)),
    "product": RealValuedLogic(
        lambda a, b: a * b, lambda a, b: a + b - a * b, lambda a, b: torch.where(a <= b, torch.ones_like(b), b / a)
    ),
    "Lukasiewicz": RealValuedLogic(
        lambda a, b: (a + b - 1.0).clamp_min(0.0),
        lambda a, b: (a + b).clamp_max(1.0),
        lambda a, b: (1.0 - a + b).clamp_max(1.0),
    ),
}
