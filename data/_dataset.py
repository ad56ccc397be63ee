"""An ensemble as named variables with dimensions and attributes: what xarray shows and what the store writes."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ._ensemble import Ensemble
from ._label import Source, Status

if TYPE_CHECKING:
    import enum

    import xarray

RESERVED = ("member", "time", "status", "steps", "reached", "event_time", "source", "metadata")
AT_EVENT = "_at_event"  # ends the name of an output's values there
STATISTICS = {"role": "statistics"}


@dataclasses.dataclass(frozen=True)
class Variable:
    """One named array: its dimensions, data and attributes, and whether it is a coordinate."""

    dims: tuple[str, ...]
    data: np.ndarray
    attributes: dict[str, Any]
    coordinate: bool = False


def variables(ensemble: Ensemble) -> dict[str, Variable]:
    """Every array of an ensemble without its padding, by name."""
    found = {
        "member": Variable(("member",), np.arange(ensemble.size, dtype=np.int64), {}, True),
        "time": Variable(("time",), ensemble.times, _units(ensemble.time_unit), True),
    }
    for name, axis in ensemble.coordinates.items():
        found[name] = Variable((name,), np.asarray(axis, np.float64), {}, True)
    for name, values in ensemble.design.items():
        dims = ("member", *_space_dims(ensemble, name, values.shape[1:]))
        found[name] = Variable(dims, values, _units(ensemble.space[name].unit) | {"role": "parameter"}, True)
    found["status"] = Variable(("member",), ensemble.status.astype(np.int8), _flags(Status), True)
    found["source"] = Variable(("member",), ensemble.source.astype(np.int8), _flags(Source), True)
    found["steps"] = Variable(("member",), ensemble.steps.astype(np.int64), STATISTICS, True)
    if ensemble.reached is not None:
        found["reached"] = Variable(("member",), ensemble.reached, _units(ensemble.time_unit) | STATISTICS, True)
    if ensemble.event_times is not None:
        found["event_time"] = Variable(("member",), ensemble.event_times, _units(ensemble.time_unit) | STATISTICS, True)
    for name, values in ensemble.values.items():
        output = ensemble.outputs[name]
        attributes = _units(output.unit) | {"role": "output"}
        found[name] = Variable(("member", "time", *output.dims), np.asarray(values), attributes)
        if ensemble.event_values is not None:
            at_event = np.asarray(ensemble.event_values[name])
            found[name + AT_EVENT] = Variable(("member", *output.dims), at_event, attributes)
    return found


def to_dataset(ensemble: Ensemble) -> "xarray.Dataset":
    """The ensemble as an `xarray.Dataset`."""
    return assemble(variables(ensemble), ensemble.metadata)


def assemble(found: dict[str, Variable], metadata: dict[str, Any]) -> "xarray.Dataset":
    """An `xarray.Dataset` from variables and their record."""
    import xarray

    def pick(coordinate: bool):
        return {name: (v.dims, v.data, v.attributes) for name, v in found.items() if v.coordinate is coordinate}

    return xarray.Dataset(pick(False), coords=pick(True), attrs={"metadata": json.dumps(metadata)})


def _units(unit: str) -> dict[str, Any]:
    return {"units": unit} if unit else {}


def _flags(kind: "type[enum.IntEnum]") -> dict[str, Any]:
    return {
        "flag_values": np.array([int(code) for code in kind], np.int8),
        "flag_meanings": " ".join(code.name for code in kind),
    }


def _space_dims(ensemble: Ensemble, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of a field parameter's axes: a coordinate of the same length where there is one."""
    return tuple(
        next((dim for dim, axis in ensemble.coordinates.items() if len(axis) == length), f"{name}_{number}")
        for number, length in enumerate(shape)
    )
