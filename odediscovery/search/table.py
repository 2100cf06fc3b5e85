"""The search as tables for people: families and strategies, printed from what the code climbs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odediscovery.families import FAMILIES
from odediscovery.search.neural import NEURAL
from odediscovery.search.strategies import CLOSING, STRATEGIES


def families_table() -> str:
    """Every family of laws in the order in which they are tried, as Markdown.

    >>> print(families_table().splitlines()[2])
    | powers | sums of products of real powers of states | NPU -> NAU | real | yes |
    """
    rows = [
        (f.name, f.says, f.chain, "real" if f.real_exponents else "whole", "yes" if f.in_noise else "no")
        for f in FAMILIES
    ]
    return _markdown(("family", "what its laws look like", "units", "exponents", "in noise"), rows)


def strategies_table() -> str:
    """Every strategy with its rungs in their order, as Markdown."""
    parts = []
    for strategy in (*STRATEGIES, CLOSING, *NEURAL):
        rows = [
            (
                str(i),
                r.name,
                r.when.says,
                r.proposes.says,
                r.pruning.says,
                r.enough.says,
                r.until.says,
                "yes" if r.late else "no",
            )
            for i, r in enumerate(strategy.rungs, start=1)
        ]
        table = _markdown(
            ("", "rung", "when", "proposes", "is pruned", "proposals end", "the search ends", "out of time"), rows
        )
        first = f"; begins with what {strategy.begins_with} found" if strategy.begins_with else ""
        parts.append(f"**{strategy.name}** ({strategy.says}; tried when: {strategy.when.says}{first})\n\n{table}")
    return "\n\n".join(parts)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
