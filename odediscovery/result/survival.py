"""The share of bootstrap fits in which each term of a law recurs.

A standard error describes the uncertainty of a constant given its term; the bootstrap repeats the choice of
terms on resampled data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odediscovery.data.frames import Frame
from odediscovery.result.front import checked_text, jsonable, numbers
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class Survival:
    """What bootstrap fits have in common with the printed equations.

    Args:
        kind: what was resampled, "residuals" or "trajectories".
        draws: number of data sets.
        shares: share of them in which a term survives, [states, monomials] in the places of the
            law's coefficients; nan where there is no term.
        same: share of them with exactly the printed terms.
        others: terms that the printed equations lack, as (state, text, share), most frequent
            first.
        states: names of the rows of `shares`, if known.
        monomials: names of its columns, if known.
        lacking: number of missing draws and the reason, in words; empty if none are missing.

    >>> seen = Survival("residuals", 100, np.array([[1.0, 0.93]]), 0.93)
    >>> print(seen.text(["N"], ["N", "N^2"]))
    100 bootstrap fits (residuals drawn): 93% have just these terms
      N': N 100%, N^2 93%
    """

    kind: str
    draws: int
    shares: Array
    same: float
    others: tuple[tuple[str, str, float], ...] = ()
    states: tuple[str, ...] = ()
    monomials: tuple[str, ...] = ()
    lacking: str = ""

    @property
    def terms(self) -> Frame:
        """One row per term: state, term, share of the fits that have it, and whether it is printed.

        >>> seen = Survival("residuals", 9, np.array([[1.0]]), 1.0, (("N", "1", 0.1),), ("N",), ("N^2",))
        >>> seen.terms["term"].tolist(), seen.terms["printed"].tolist()
        (['N^2', '1'], [True, False])
        """
        states = self.states or tuple(f"state {i}" for i in range(self.shares.shape[0]))
        names = self.monomials or tuple(f"monomial {j}" for j in range(self.shares.shape[1]))
        places = np.argwhere(~np.isnan(self.shares)).tolist()
        rows = [(states[i], names[j], float(self.shares[i, j]), True) for i, j in places]
        rows += [(*other, False) for other in self.others]
        return Frame(rows, columns=["state", "term", "share", "printed"])

    def __repr__(self) -> str:
        if not self.states:
            return f"{self.draws} bootstrap fits ({self.kind} drawn): {self.same:.0%} have just the printed terms"
        return self.text(self.states, self.monomials)

    def record(self) -> dict[str, Any]:
        """Plain values for `result.json`."""
        values: dict[str, Any] = jsonable(
            {
                "kind": self.kind,
                "draws": self.draws,
                "same_terms": self.same,
                "shares": self.shares,
                "states": self.states,
                "monomials": self.monomials,
                "other_terms": [dict(zip(("state", "term", "share"), other, strict=True)) for other in self.others],
            }
        )
        return values | ({"lacking": self.lacking} if self.lacking else {})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Survival:
        """Inverse of `record()`."""
        return cls(
            str(record["kind"]),
            int(record["draws"]),
            numbers(record["shares"], 2),
            float(record["same_terms"]),
            tuple((str(o["state"]), str(o["term"]), float(o["share"])) for o in record["other_terms"]),
            # Results of earlier versions have no names here.
            states=tuple(map(str, record.get("states", ()))),
            monomials=tuple(map(str, record.get("monomials", ()))),
            lacking=checked_text(record.get("lacking", "")),
        )

    def text(self, states: Sequence[str], monomials: Sequence[str]) -> str:
        """Lines of text: how often each term recurred, and which others appeared.

        Args:
            states: names of the states.
            monomials: names of the law's monomials.
        """
        lacking = f"; {self.lacking}" if self.lacking else ""
        lines = [f"{self.draws} bootstrap fits ({self.kind} drawn): {self.same:.0%} have just these terms{lacking}"]
        for state, kept, came in shares_of(self, states):
            if kept or came:
                own = ", ".join(f"{monomials[j]} {share:.0%}" for j, share in kept) or "no term"
                also = f" (also {', '.join(f'{term} {share:.0%}' for term, share in came)})" if came else ""
                lines.append(f"  {state}': {own}{also}")
        return "\n".join(lines)


def shares_of(
    found: Survival, states: Sequence[str]
) -> Iterator[tuple[str, list[tuple[int, float]], list[tuple[str, float]]]]:
    """For each state the shares of its terms, by monomial, and of other terms that appeared, by text."""
    for state, row in zip(states, found.shares.tolist(), strict=True):
        kept = [(j, share) for j, share in enumerate(row) if not np.isnan(share)]
        yield state, kept, [(term, share) for owner, term, share in found.others if owner == state]
