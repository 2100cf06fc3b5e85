"""Every message, rendered from its own made-up case; `docs/notes_page.py` prints just these."""

import inspect
import pickle
import re
import runpy
from pathlib import Path

import pytest

from odediscovery.judge import notes
from odediscovery.judge.notes import Message, Weight, in_order

PAGE = Path(__file__).parents[2] / "docs" / "notes_page.py"
# A made-up case of each message.
CASES = {
    "poor_fit": notes.poor_fit(0.12, 0.5),
    "unexplained_states": notes.unexplained_states(["deaths"], [0.0]),
    "turns_back": notes.turns_back("conc"),
    "held_and_fitted": notes.held_and_fitted(),
    "walk_as_good": notes.walk_as_good(),
    "cannot_be_continued": notes.cannot_be_continued(8),
    "continued": notes.continued(8, "0.953", " (S 0.981, I 0.902)", 0.12, 0.43, refused=False),
    "stopped": notes.stopped("time limit", 60.2),
    "structured_residuals": notes.structured_residuals(["x"], "3 runs of one sign where about 20 are expected"),
    "widened_errors": notes.widened_errors(1.8, at_most=False),
    "may_be_any_curve": notes.may_be_any_curve(["v'"]),
    "blows_up": notes.blows_up("", "t = 5.02"),
    "leaves_the_data": notes.leaves_the_data(" from trajectory 'b'", "x", 54.6, 1.0, 7.39),
    "not_determined": notes.not_determined(["the coefficient of x in x'", "the coefficient of y in x'"]),
    "undetermined_constants": notes.undetermined_constants(["the coefficient of deaths^0.222 in R'"]),
    "idle_terms_left": notes.idle_terms_left(["x^3 in x'"]),
    "open_exponent": notes.open_exponent("x", "x^1.4", "x'", -1.2, 3.4),
    "time_spent": notes.time_spent(),
    "rival_flows": notes.rival_flows("x' = -0.3*x*y; y' = 0.3*x*y"),
    "memory_spent": notes.memory_spent(4.0),
    "changing_constant": notes.changing_constant("b", "0.50(1)", ["from 23 on 0.15(1)"], 40.0),
    "found_break": notes.found_break(20.0, 19.0, 21.0, "t"),
    "no_break": notes.no_break(12.0, "t"),
    "tried": notes.tried("x' = -k*x with k = 0.500(10)", 0.953, 12.0),
    "comes_to_rest": notes.comes_to_rest("h = 4.180(50)", "; its error is propagated from their constants"),
    "simpler_and_nearer": notes.simpler_and_nearer(3, "they explain less of y (R2 = 0.210 instead of 0.870)"),
    "weaker_between": notes.weaker_between(16),
    "close_rivals": notes.close_rivals([4, 7]),
    "never_changes": notes.never_changes("c"),
    "idle_input": notes.idle_input("insulin"),
    "sampled_input": notes.sampled_input("drive", 0.005),
    "unresolved": notes.unresolved("y", 0.4),
    "one_orbit": notes.one_orbit("5.54"),
    "bound_states": notes.bound_states("S + I + R = 2.1"),
    "judged_in_pieces": notes.judged_in_pieces(40),
    "thinned": notes.thinned(10000, 1003, on_all=True),
    "same_constants": notes.same_constants(),
    "two_complexities": notes.two_complexities(),
}
# Words that only who wrote the program understands.
JARGON = ("spread of the fitted ones", "criterion", "members", "autocorrelation", "polish", "candidate", "nan", "None")


def test_there_is_a_case_of_every_message():
    made = [
        name
        for name, value in vars(notes).items()
        if isinstance(value, Message)
        or (inspect.isfunction(value) and inspect.signature(value).return_annotation == "Note")
    ]
    assert sorted(made) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_message_is_short_and_plain(name):
    note = CASES[name]
    assert isinstance(note.weight, Weight)
    assert len(note.split()) <= 60 and not re.search(r"\d{7}|%%|  ", note)
    assert [word for word in JARGON if word in note] == []
    # What was seen, and what follows from it or what to do.
    assert re.search(r"[:;] ", note)


def test_the_page_has_every_message(capsys):
    runpy.run_path(str(PAGE))
    page = capsys.readouterr().out
    assert [note for note in CASES.values() if f"> {note}\n" not in page] == []


def test_the_most_important_message_comes_first_and_none_twice():
    told = in_order(["Column 'x' lacks 3 of 10 values.", CASES["thinned"], CASES["blows_up"], CASES["poor_fit"]] * 2)
    assert told == (CASES["poor_fit"], CASES["blows_up"], "Column 'x' lacks 3 of 10 values.", CASES["thinned"])


def test_a_message_goes_from_one_process_to_another_with_its_weight():
    note = pickle.loads(pickle.dumps(CASES["blows_up"]))
    assert note == CASES["blows_up"] and note.weight is Weight.DOUBT
