"""Members from the command line and from CSV files, and answers as rows, CSV or netCDF."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..data import Ensemble, Source, Status, write_atomically

FIELD = re.compile(r"(.+)\[(\d+)\]")


def members_from_options(options: Iterable[str]) -> dict[str, np.ndarray]:
    """One member from texts like `k=0.5`.

    **Raises:** `ValueError` for a text without `=`, a value that is no finite number, or a name given twice.
    """
    values: dict[str, np.ndarray] = {}
    for option in options:
        name, separator, text = option.partition("=")
        if not separator or not name:
            raise ValueError(f'--param: expected NAME=VALUE, such as k=0.5; got "{option}"')
        if name in values:
            raise ValueError(f"--param: {name} is given twice; for many members use --input FILE.csv")
        values[name] = np.array([_number(text, f"--param {name}")])
    return values


def members_from_csv(path: str | Path) -> dict[str, np.ndarray]:
    """Members from a CSV file: one row each, one column per parameter; a field u0 has columns u0[0], u0[1], ...

    **Raises:** `FileNotFoundError`, or `ValueError` naming the line and column at fault.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a CSV file with one column per parameter, found nothing")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected a CSV file, found data that is no text") from None
    if len(rows) < 2:
        raise ValueError(f"{path}: expected a line of names and at least one member, found {len(rows)} line(s)")
    names = [name.strip() for name in rows[0]]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{path}: expected different column names, got {', '.join(sorted(twice))} twice")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise ValueError(f"{path}: line {number}: expected {len(names)} values, got {len(row)}")
    columns = {
        name: np.array([_number(row[i], f"{path}: line {n}, column {name}") for n, row in enumerate(rows[1:], start=2)])
        for i, name in enumerate(names)
    }
    return _join_fields(columns)


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f'{where}: expected a number, got "{text.strip()}"') from None
    if not math.isfinite(value):
        raise ValueError(f'{where}: expected a finite number, got "{text.strip()}"')
    return value


def _join_fields(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns u0[0], u0[1], ... as one array `(member, point)`."""
    joined: dict[str, Any] = {}
    for name, values in columns.items():
        match = FIELD.fullmatch(name)
        if match is None:
            joined[name] = values
        else:
            joined.setdefault(match[1], {})[int(match[2])] = values
    for name, parts in joined.items():
        if isinstance(parts, dict):
            if sorted(parts) != list(range(len(parts))):
                raise ValueError(f"expected the columns {name}[0] to {name}[{len(parts) - 1}], one for each point")
            joined[name] = np.stack([parts[i] for i in range(len(parts))], axis=1)
    return joined


def header(answers: Ensemble) -> list[str]:
    """Column names of `rows`."""
    scalars = [name for name in answers.space if not answers.space[name].shape]
    outputs = [column for name in answers.outputs for column in (name, f"{name}_error")]
    return ["member", *scalars, "time", *answers.coordinates, *outputs, "status", "source", "bound"]


def rows(answers: Ensemble) -> Iterator[list[Any]]:
    """One row per member, time and point: parameters, outputs each with its stated error, status, source, and the
    estimated relative error of the member. What a solver answered states no error: NaN."""
    scalars = [np.asarray(answers.design[name]) for name in answers.space if not answers.space[name].shape]
    values = {name: np.asarray(value) for name, value in answers.values.items()}
    errors = {name: _stated(answers, name) for name in answers.outputs}
    bound = answers.solution.bound
    bounds = np.full(len(answers), np.nan) if bound is None else np.asarray(bound)[: len(answers)]
    axes = list(answers.coordinates.values())
    for member in range(len(answers)):
        status, source = Status(int(answers.status[member])).name, Source(int(answers.source[member])).name
        parameters = [float(column[member]) for column in scalars]
        for index in np.ndindex(len(answers.times), *(len(axis) for axis in axes)):
            outputs = [float(array[(member, *index)]) for name in values for array in (values[name], errors[name])]
            place = [float(axis[i]) for axis, i in zip(axes, index[1:], strict=True)]
            time = float(answers.times[index[0]])
            yield [member, *parameters, time, *place, *outputs, status, source, float(bounds[member])]


def _stated(answers: Ensemble, name: str) -> np.ndarray:
    if answers.solution.error is None:
        return np.full(answers.values[name].shape, np.nan)
    return np.asarray(answers.solution.error[name])[: len(answers)]


def write_csv(answers: Ensemble, file: IO[str]) -> None:
    """Write the rows as CSV; floats as short as reads back equal."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header(answers))
    writer.writerows(rows(answers))


def write_answers(answers: Ensemble, path: str | Path) -> None:
    """Write answers to a file, whole or not at all: `.csv`, or `.nc` for netCDF4.

    **Raises:** `ValueError` for another ending.
    """
    path = Path(path)
    check_output(path)
    if path.suffix == ".csv":

        def write(temporary: Path) -> None:
            with temporary.open("w", newline="", encoding="utf-8") as file:
                write_csv(answers, file)
    else:

        def write(temporary: Path) -> None:
            _dataset(answers).to_netcdf(temporary, engine="h5netcdf")

    write_atomically(path, write)


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    endings: Sequence[str] = (".csv", ".nc")
    if path.suffix not in endings:
        raise ValueError(f"{path}: expected a file that ends with .csv or .nc (netCDF4)")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: expected the folder {path.parent} to exist")


def _dataset(answers: Ensemble) -> Any:
    dataset = answers.to_xarray()
    if answers.solution.error is not None:
        for name in answers.outputs:
            about = {"units": answers.outputs[name].unit, "long_name": f"stated error of {name}, half-width"}
            dataset[f"{name}_error"] = (dataset[name].dims, _stated(answers, name), about)
    if answers.solution.bound is not None:
        about = {"long_name": "estimated relative error of the member"}
        dataset["bound"] = ("member", np.asarray(answers.solution.bound)[: len(answers)], about)
    return dataset
