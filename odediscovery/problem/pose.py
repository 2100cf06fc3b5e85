"""From a series and settings to the problem that every stage takes."""

from __future__ import annotations

import dataclasses

import numpy as np

from odediscovery.data.controls import append_controls, drop_appended_controls
from odediscovery.data.samples import with_latent_states
from odediscovery.data.series import TimeSeries
from odediscovery.knowledge.checks import check_known, check_signs
from odediscovery.knowledge.constraints import Knowledge, knowledge
from odediscovery.knowledge.dimensions import check_dimensions
from odediscovery.problem.impulses import dose_statements, with_breaks, without_other_doses
from odediscovery.problem.latent_states import infer_latent_states, prepare_with_latent_states
from odediscovery.problem.problem import Problem
from odediscovery.problem.recorded import with_recorded
from odediscovery.problem.redundancy import redundant_states
from odediscovery.settings import Settings


def pose(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Problem, Knowledge]:
    """The series with the states that follow from knowledge, its problem, and that knowledge.

    Raises:
        InputError: a statement of the user cannot be read, or does not fit the series.
    """
    whole, known = with_known_states(series, settings)
    return drop_appended_controls(whole), pose_known(whole, known, settings), known


def with_known_states(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Knowledge]:
    """The series with latent states, sampled where knowledge says how, and controls as last states.

    Returns:
        The series, and what the user knows.

    Raises:
        InputError: a statement of the user cannot be read, or does not fit the series.
    """
    own = with_recorded(with_breaks(with_latent_states(series, settings.hidden_states), settings), settings)
    whole = append_controls(own)
    known = knowledge(
        whole.states,
        known=(*settings.known, *dose_statements(own, settings)),
        conserve=settings.conserve,
        forbid=settings.forbid,
        bounds=settings.bounds,
        integer_exponents=settings.integer_exponents,
        sources=settings.sources,
        nonnegative_flows=settings.nonnegative_flows,
    )
    check_known(known, whole)
    known = without_other_doses(known, settings)
    check_dimensions(known, whole.time_name, whole.units)
    return infer_latent_states(whole, settings.hidden_states, known), known


def pose_known(series: TimeSeries, known: Knowledge, settings: Settings, *, smoothing: bool = True) -> Problem:
    """The problem of a series from `with_known_states`.

    A redundant state appears in no equation, unless known terms need it.
    """
    problem = prepare_with_latent_states(series, known, smoothing=smoothing)
    redundant = redundant_states(problem) & (not settings.published)
    applied = known.without(redundant)
    if not applied.empty:
        scaled = applied.rescaled(problem.scale.state, problem.scale.time)
        check_signs(applied, scaled)
        problem = dataclasses.replace(problem, knowledge=scaled, given=applied)
    notes = [
        f"{series.states[i]} hardly changes and follows from the other states: terms with it "
        "could not be told from terms without, so there are none"
        for i in np.flatnonzero(redundant & ~known.mentioned)
    ]
    return dataclasses.replace(problem, messages=(*problem.messages, *notes))
