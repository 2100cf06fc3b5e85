"""Tables that tests write and read, and what is said of those that are refused."""

from pathlib import Path

import pytest

from odediscovery import InputError, TimeSeries, load_csv


def table(folder, *rows, header="t,S,I"):
    """The path of a table of these rows."""
    path = folder / "d.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def refusal(source, **options):
    """The message, one line, with which a file or a frame is refused."""
    with pytest.raises(InputError) as caught:
        if isinstance(source, (str, Path)):
            load_csv(source, **options)
        else:
            TimeSeries.from_frame(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message
