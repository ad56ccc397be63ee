"""Ensembles on disk: one netCDF4-readable HDF5 file, whole or absent. The layout stands in docs/format.md."""

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from ._check import check_kind, check_path
from ._dataset import AT_EVENT, Variable, assemble, variables
from ._ensemble import Ensemble
from ._label import Source, Status, label
from ._solution import Output, Solution
from ._space import ParameterSpace

if TYPE_CHECKING:
    import xarray

FORMAT = "emulax-ensemble"
VERSION = 1
CHUNK = 256


def write_atomically(path: str | Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary path beside `path`, then rename: readers see the old file or the new one."""
    path = check_path(path, "the file to write")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save_ensemble(ensemble: Ensemble, path: str | Path) -> None:
    """Write an ensemble to an HDF5 file that netCDF4 readers open as named dimensions, coordinates and variables.

    **Raises:** `ValueError` for what is no ensemble.
    """
    check_kind("ensemble", ensemble, Ensemble, "an ensemble such as simulators.solve_ensemble returns")
    record = {
        "space": ensemble.space.to_json(),
        "outputs": {name: {"unit": o.unit, "dims": list(o.dims)} for name, o in ensemble.outputs.items()},
        "time_unit": ensemble.time_unit,
        "metadata": ensemble.metadata,
    }

    def write(temporary: Path) -> None:
        with h5py.File(temporary, "w", track_order=True) as file:
            file.attrs["format"] = FORMAT
            file.attrs["format_version"] = VERSION
            file.attrs["Conventions"] = "CF-1.11"
            _write_variables(file, variables(ensemble))
            # JSON in a dataset: attributes hold neither None nor more than 64 KiB
            file.create_dataset("metadata", data=json.dumps(record), dtype=h5py.string_dtype())

    write_atomically(path, write)


def _write_variables(file: h5py.File, found: dict[str, Variable]) -> None:
    scales = [name for name, variable in found.items() if variable.dims == (name,)]
    lengths = {dim: size for v in found.values() for dim, size in zip(v.dims, v.data.shape, strict=True)}
    for dim in lengths:
        if dim not in scales:
            scales.append(dim)
            found = found | {dim: Variable((dim,), np.arange(lengths[dim], dtype=np.int64), {}, True)}
    for name, variable in sorted(found.items(), key=lambda item: item[0] not in scales):
        data = variable.data
        floating = np.issubdtype(data.dtype, np.floating)
        layout: dict[str, Any] = {}
        if floating and data.ndim > 1:
            layout["chunks"] = (min(CHUNK, len(data)), *data.shape[1:])
        dataset = file.create_dataset(
            name, data=data, track_order=True, fillvalue=data.dtype.type(np.nan) if floating else None, **layout
        )
        if floating and name not in scales:
            dataset.attrs["_FillValue"] = data.dtype.type(np.nan)
        for key, value in variable.attributes.items():
            dataset.attrs[key] = value
    written: dict[str, Any] = {name: file[name] for name in found}
    for name in scales:
        written[name].make_scale(name)
    for name, variable in found.items():
        if name in scales:
            continue
        for axis, dim in enumerate(variable.dims):
            written[name].dims[axis].attach_scale(written[dim])
        others = [n for n, v in found.items() if v.coordinate and n not in scales]
        if not variable.coordinate:
            written[name].attrs["coordinates"] = " ".join(others)


def _read(path: str | Path) -> tuple[dict[str, Variable], dict[str, Any]]:
    path = check_path(path, "an ensemble file")
    if not path.exists():
        raise FileNotFoundError(f"expected an ensemble file at {path}, found nothing.")
    if path.is_dir():
        raise ValueError(f"{path}: expected an ensemble file, found a folder.")
    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise ValueError(f"{path}: expected an ensemble written by emulax, got another HDF5 file.")
            newer: Any = file.attrs["format_version"]
            if newer > VERSION:
                raise ValueError(
                    f"{path}: format version {newer} is newer than this emulax reads ({VERSION}); upgrade emulax."
                )
            record = json.loads(file["metadata"].asstr()[()])  # type: ignore[union-attr]
            found = {str(name): _read_variable(file[name]) for name in file if name != "metadata"}
    except OSError as error:
        raise ValueError(f"{path}: expected a whole HDF5 file, got a damaged or foreign one ({error}).") from error
    return found, record


def _read_variable(dataset: Any) -> Variable:
    name = dataset.name.lstrip("/")
    dims = (name,) if dataset.is_scale else tuple(dim[0].name.lstrip("/") for dim in dataset.dims)
    hidden = ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_FillValue", "coordinates", "_Netcdf4Dimid")
    attributes = {key: value for key, value in dataset.attrs.items() if key not in hidden}
    return Variable(dims, dataset[()], attributes, coordinate=attributes.get("role") != "output")


def open_ensemble(path: str | Path) -> "xarray.Dataset":
    """An ensemble file as a labelled dataset, read with h5py alone."""
    found, record = _read(path)
    return assemble(found, record["metadata"])


def load_ensemble(path: str | Path) -> Ensemble:
    """Read an ensemble file back. The arrays are on the host; `simulators.shard` puts them on devices.

    **Raises:** `FileNotFoundError`, or `ValueError` for a file that is damaged, foreign or of a newer format.
    """
    found, record = _read(path)
    space = ParameterSpace.from_json(record["space"])
    outputs = {name: Output(o["unit"], tuple(o["dims"])) for name, o in record["outputs"].items()}
    host: dict[str, Any] = {name: variable.data for name, variable in found.items()}
    solution = Solution(
        times=host["time"],
        values={name: host[name] for name in outputs},
        status=label(host["status"], Status),
        steps=host["steps"],
        source=label(host["source"], Source),
        reached=host.get("reached"),
        event_time=host.get("event_time"),
        event_values={name: host[name + AT_EVENT] for name in outputs} if "event_time" in host else None,
    )
    dims = [dim for output in outputs.values() for dim in output.dims]
    return Ensemble(
        parameters={name: found[name].data for name in space},
        solution=solution,
        size=len(found["member"].data),
        space=space,
        outputs=outputs,
        coordinates={dim: found[dim].data for dim in dims},
        metadata=record["metadata"],
        time_unit=record["time_unit"],
    )
