"""In what share of bootstrap fits each term of a law survives, as a value that is kept.

A printed standard error says how well a constant is known if its term is there. Whether the term
is there at all is another question: the choice is made anew on data that could have been
measured as well, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odediscovery.data.frames import Frame, records_frame
from odediscovery.data.table import check_letters
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class Survival:
    """What bootstrap fits have in common with the printed equations.

    Args:
        kind: "residuals" or "trajectories", what was drawn.
        draws: number of data sets.
        shares: share of them in which a term survives, [states, monomials] in the places of the
            law's coefficients; nan where there is no term.
        same: share of them that lead to just the printed terms.
        others: terms that the printed equations lack, as (state, text, share), most frequent
            first.
        states: names of the rows of `shares`, where known.
        monomials: names of its columns, where known.
        lacking: how many more draws were asked for and why they are lacking, in words; empty where none are.

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
        """One row a term: state, term, share of the fits that have it, and whether it is printed.

        >>> seen = Survival("residuals", 9, np.array([[1.0]]), 1.0, (("N", "1", 0.1),), ("N",), ("N^2",))
        >>> seen.terms["term"].tolist(), seen.terms["printed"].tolist()
        (['N^2', '1'], [True, False])
        """
        states = self.states or tuple(f"state {i}" for i in range(self.shares.shape[0]))
        names = self.monomials or tuple(f"monomial {j}" for j in range(self.shares.shape[1]))
        rows: list[dict[str, Any]] = [
            {"state": state, "term": name, "share": float(share), "printed": True}
            for state, row in zip(states, self.shares, strict=True)
            for name, share in zip(names, row, strict=True)
            if not np.isnan(share)
        ]
        rows += [{"state": s, "term": t, "share": share, "printed": False} for s, t, share in self.others]
        return records_frame(rows, ["state", "term", "share", "printed"])

    def __repr__(self) -> str:
        if not self.states:
            return f"{self.draws} bootstrap fits ({self.kind} drawn): {self.same:.0%} have just the printed terms"
        return self.text(self.states, self.monomials)

    def record(self) -> dict[str, Any]:
        """Plain values for `result.json`."""
        return {
            "kind": self.kind,
            "draws": self.draws,
            "same_terms": self.same,
            "shares": [[None if np.isnan(x) else x for x in row] for row in self.shares.tolist()],
            "states": list(self.states),
            "monomials": list(self.monomials),
            "other_terms": [{"state": state, "term": term, "share": share} for state, term, share in self.others],
            **({"lacking": self.lacking} if self.lacking else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Survival | None:
        """Inverse of `record()`; None for none."""
        if record is None:
            return None
        shares = [[np.nan if x is None else float(x) for x in row] for row in record["shares"]]
        others = tuple((str(o["state"]), str(o["term"]), float(o["share"])) for o in record["other_terms"])
        lacking = str(record.get("lacking", ""))
        check_letters(lacking)
        return cls(
            str(record["kind"]),
            int(record["draws"]),
            np.array(shares, dtype=np.float64),
            float(record["same_terms"]),
            others,
            # Results of earlier versions have no names here.
            states=tuple(str(name) for name in record.get("states", ())),
            monomials=tuple(str(name) for name in record.get("monomials", ())),
            lacking=lacking,
        )

    def text(self, states: Sequence[str], monomials: Sequence[str]) -> str:
        """Lines for people: how often each term came back, and which others came.

        Args:
            states: names of the states.
            monomials: what the law's monomials are called.
        """
        lacking = f"; {self.lacking}" if self.lacking else ""
        lines = [f"{self.draws} bootstrap fits ({self.kind} drawn): {self.same:.0%} have just these terms{lacking}"]
        for state, row in zip(states, self.shares, strict=True):
            kept = [f"{name} {share:.0%}" for name, share in zip(monomials, row, strict=True) if not np.isnan(share)]
            came = [f"{term} {share:.0%}" for owner, term, share in self.others if owner == state]
            if kept or came:
                also = f" (also {', '.join(came)})" if came else ""
                lines.append(f"  {state}': {', '.join(kept) or 'no term'}{also}")
        return "\n".join(lines)
