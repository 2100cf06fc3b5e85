"""The problem that every stage takes: the series with what is known, dimensionless."""

from __future__ import annotations

import dataclasses

import numpy as np

from odediscovery.data.controls import append_controls, drop_appended_controls
from odediscovery.data.samples import with_hidden
from odediscovery.data.series import TimeSeries
from odediscovery.knowledge.constraints import Knowledge, check_known, check_signs, knowledge
from odediscovery.problem.hidden import revealed, widely_prepared
from odediscovery.problem.prepare import Prepared, redundant
from odediscovery.settings import Settings


def informed(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Prepared, Knowledge]:
    """The series with the states that knowledge tells, made dimensionless, and that knowledge.

    Raises:
        InputError: what is said to be known cannot be read, or does not fit the series.
    """
    whole, known = told(series, settings)
    return drop_appended_controls(whole), imposed(whole, known, settings), known


def told(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Knowledge]:
    """The series with the states that knowledge tells and inputs as last ones; that knowledge.

    Raises:
        InputError: what is said to be known cannot be read, or does not fit the series.
    """
    whole = append_controls(with_hidden(series, settings.hidden_states))
    known = knowledge(
        whole.states,
        known=settings.known,
        conserve=settings.conserve,
        forbid=settings.forbid,
        bounds=settings.bounds,
        integer_exponents=settings.integer_exponents,
    )
    check_known(known, whole)
    return revealed(whole, settings.hidden_states, known), known


def imposed(series: TimeSeries, known: Knowledge, settings: Settings, *, smoothing: bool = True) -> Prepared:
    """A series from `told` made dimensionless, with what is known and does not spoil the rest."""
    prepared = widely_prepared(series, known, smoothing=smoothing)
    spared = redundant(prepared) & (not settings.published)
    imposed = known.without(spared)
    if not imposed.empty:
        scaled = imposed.rescaled(prepared.scale.state, prepared.scale.time)
        check_signs(imposed, scaled)
        prepared = dataclasses.replace(prepared, knowledge=scaled, given=imposed)
    notes = [
        f"{series.states[i]} hardly changes and follows from the other states: terms with it "
        "could not be told from terms without, so there are none"
        for i in np.flatnonzero(spared & ~known.mentioned)
    ]
    return dataclasses.replace(prepared, messages=(*prepared.messages, *notes))
