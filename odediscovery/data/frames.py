"""Frames of any library, and the location of their times.

One rule holds for every table: the named column, else the one called t or time, else an index with such a name or with
dates or durations. An unnamed index that may hold the times is rejected: without it, rates would be wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from odediscovery.data.dates import as_moments
from odediscovery.errors import InputError

# Type of tables of results.
Frame = pd.DataFrame

TIME_NAMES = ("t", "time")
# Name for an unnamed index of dates.
_UNNAMED = "time"


def is_dataset(data: Any) -> bool:
    """Whether data are an xarray Dataset or DataArray."""
    return hasattr(data, "dims") and hasattr(data, "coords") and hasattr(data, "to_dataframe")


def plain_frame(data: Any) -> tuple[pd.DataFrame, dict[str, str]]:
    """Convert a table with named columns to a pandas DataFrame, and return its units."""
    if isinstance(data, pd.Series):
        data = data.to_frame("x" if data.name is None else str(data.name))
    if isinstance(data, pd.DataFrame):
        return data, {}
    if is_dataset(data):
        return _of_dataset(data)
    names = getattr(data, "columns", None)
    if names is None or not hasattr(data, "__getitem__"):
        raise InputError(
            f"expected a DataFrame (pandas, polars) or an xarray Dataset, got {type(data).__name__}; "
            "TimeSeries.from_arrays takes arrays"
        )
    try:
        return pd.DataFrame({name: list(data[name]) for name in names}), {}
    except (TypeError, ValueError) as error:
        raise InputError(f"{type(data).__name__}: its columns cannot be listed ({error}); give a DataFrame") from None


def _of_dataset(data: Any) -> tuple[pd.DataFrame, dict[str, str]]:
    if not hasattr(data, "data_vars"):
        if data.name is None or len(data.dims) > 1:
            raise InputError(
                f"expected an xarray Dataset, got a DataArray of dimensions {tuple(data.dims)}; "
                "make one of it, array.to_dataset(dim='state')"
            )
        data = data.to_dataset()
    bare = [name for name in data.dims if name not in data.coords]
    if bare:
        raise InputError(
            f"the dimension {bare[0]!r} of the Dataset has no coordinate; give it one, "
            f"dataset.assign_coords({bare[0]}=...)"
        )
    units = {str(n): str(v.attrs["units"]) for n, v in data.variables.items() if "units" in v.attrs}
    # Coordinates without a dimension describe the samples; they are not states.
    data = data.reset_coords(drop=True)
    frame = data.to_dataframe(dim_order=[*data.dims])
    return frame, {name: unit for name, unit in units.items() if name in (*frame.columns, *frame.index.names)}


def with_index_as_columns(
    frame: pd.DataFrame, source: object, time: str | None
) -> tuple[pd.DataFrame, str | None, list[str]]:
    """Turn named or dated levels of an index into columns; return also that of the times, and messages."""
    index, messages, of_index = frame.index, list[str](), None
    usual = [name for name in frame.columns if _is_time_name(name)]
    told = time or next(iter(usual), None)
    names = list(index.names)
    for i in range(index.nlevels):
        level = index.get_level_values(i)
        moments = as_moments(level) is not None
        if level.name is None and moments and told is not None:
            messages.append(f"The index of {source} was left out: column {told!r} holds the times.")
        elif level.name is None and moments:
            names[i] = _UNNAMED
        elif level.name is None and told is None and index.nlevels == 1:
            _check_counts_rows(level, source)
        if of_index is None and (moments or _is_time_name(names[i])):
            of_index = names[i]
    frame = frame.rename_axis(index=names)
    if levels := [i for i, name in enumerate(names) if name is not None]:
        frame = frame.reset_index(level=levels, allow_duplicates=True)
    return frame, of_index, messages


def index_times(frame: Any) -> tuple[str, pd.Index] | None:
    """Name and values of the times in the index of a frame; None if it only numbers the rows."""
    index = getattr(frame, "index", None)
    if not isinstance(index, pd.Index):
        return None
    if index.nlevels > 1:
        raise InputError(
            f"X has an index of {index.nlevels} levels: give a list of frames, one a trajectory, as "
            "[run.droplevel(0) for _, run in X.groupby(level=0)]"
        )
    if _is_time_name(index.name) or as_moments(index) is not None:
        return str(index.name or _UNNAMED), index
    _check_counts_rows(index, "X")
    return None


def _check_counts_rows(index: pd.Index, source: object) -> None:
    """Refuse an unnamed index that may hold the times: any but successive integers."""
    if index.dtype.kind in "iu" and (np.diff(index.to_numpy()) == 1).all():
        return
    cells = ", ".join(str(getattr(cell, "item", lambda cell=cell: cell)()) for cell in index[:2])
    raise InputError(
        f"the index of {source}, ({cells}{', ...' * (len(index) > 2)}), does not count rows and is not called t or "
        "time: if it holds the times, name it, frame.rename_axis('t'); if not, drop it, frame.reset_index(drop=True)"
    )


def records_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Build a table of these columns from records, with missing entries where a record has none."""
    return pd.DataFrame([[row.get(name) for name in columns] for row in rows], columns=list(columns))


def _is_time_name(name: Hashable) -> bool:
    return isinstance(name, str) and name.lower() in TIME_NAMES
