"""Prints the page of all notes: each as the tests render it, grouped as results order them."""

from test_notes import CASES

from odediscovery.judge.notes import Weight

HEADINGS = {
    Weight.REFUSAL: "No law",
    Weight.DOUBT: "The law is in doubt",
    Weight.CONSTANTS: "Constants",
    Weight.CHOICE: "Which law, and how far it holds",
    Weight.DATA: "The data",
    Weight.BACKGROUND: "In the background",
}

print("# Every note\n\nThe most important first, with examples of names and numbers.")
for weight, heading in HEADINGS.items():
    print(f"\n## {heading}")
    for note in CASES.values():
        if note.weight is weight:
            print(f"\n> {note}")
