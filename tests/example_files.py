"""The tables that examples in README and documentation speak of, made anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from odediscovery.data.signals import Signal
from odediscovery.laws.equations import Equations

ROOT = Path(__file__).resolve().parent.parent


def chemostat(path: Path) -> None:
    """Substrate and cells in a stirred vessel: warm spells, and a feed that somebody changes."""
    t = np.linspace(0.0, 10.0, 101)
    temperature = 30.0 + 6.0 * np.sin(0.4 * np.pi * t)
    feed = np.repeat([0.9, 0.6, 0.6, 0.3, 0.3, 0.1, 0.1, 0.1, 0.1, 0.9, 0.6], 10)[:101]
    inputs = np.column_stack([temperature, feed])
    law = Equations.parse(
        ["S", "X"], {"S": "10*feed - 0.3*S*X - S*feed", "X": "0.0075*S*X*T - X*feed"}, controls=["T", "feed"]
    )
    values = law.simulate([5.0, 1.0], t, controls=Signal(t, inputs, np.array([False, True])))
    table = pd.DataFrame(np.column_stack([t, values, inputs]))
    table.to_csv(path, index=False, header=["t", "S", "X", "T", "feed rate"])


def drop(path: Path) -> None:
    """The first drop of the tennis ball, from its release on, without its irregular end."""
    balls = pd.read_csv(ROOT / "data" / "ball_drops.csv")
    balls = balls[(balls["ball"] == "tennis_ball") & (balls["drop"] == 1)]
    falls = balls[balls["velocity"] < 0].iloc[:-4]
    falls[["t", "height", "velocity"]].to_csv(path, index=False)


def growth(path: Path) -> None:
    """Logistic growth; every second sample has ten times the noise of the others."""
    t = np.linspace(0.0, 10.0, 40)
    sigma = np.where(np.arange(40) % 2, 0.5, 0.05)
    exact = 10.0 / (1.0 + 19.0 * np.exp(-0.8 * t))
    seen = exact + sigma * np.random.default_rng(0).standard_normal(40)
    pd.DataFrame({"t": t, "N": seen, "N_sd": sigma}).to_csv(path, index=False)


def richards(path: Path) -> None:
    """Richards growth."""
    path.write_text("od' = r*od - q*od^p\n", encoding="utf-8")


FILES: Mapping[str, Callable[[Path], None]] = {
    "chemostat.csv": chemostat,
    "drop.csv": drop,
    "richards.txt": richards,
    "growth.csv": growth,
}
