"""What there is, in words: the simulators, the architectures, and one of them in full."""

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import numpy as np

from ..data import check_kind
from ..simulators import REGISTRY, AbstractSimulator
from ..surrogates import ARCHITECTURES
from ._build import find_simulator, lacks_arguments
from ._problems import nearest
from ._user_file import make, needed


def list_names() -> dict[str, dict[str, str]]:
    """`{"simulators": {name: one line}, "surrogates": {name: one line}}`."""
    return {
        "simulators": {name: _first_line(factory) for name, factory in REGISTRY.items()},
        "surrogates": {name: _first_line(kind) for name, kind in ARCHITECTURES.items()},
    }


def describe(name: str, base: Path) -> dict[str, Any]:
    """A simulator or an architecture as JSON-ready data.

    **Arguments:**

    - `name`: as `list_names` has it, or "file.py:object" relative to `base`.

    **Raises:** `ValueError` for a name that is neither, with the nearest one.
    """
    check_kind("name", name, str, "a text such as 'decay'")
    if name in ARCHITECTURES:
        return _architecture(name)
    if ":" not in name and name not in REGISTRY:
        known = [*REGISTRY, *ARCHITECTURES]
        raise ValueError(
            f'unknown name "{name}"; {nearest(name, known)}expected one of {", ".join(known)}, or "file.py:object"'
        )
    found = find_simulator(name, base)
    if needed(found):
        raise ValueError(lacks_arguments(name, found))
    return _simulator(make(name, found, base, {}), found)


def _simulator(simulator: AbstractSimulator, made_by: Any) -> dict[str, Any]:
    times = np.asarray(simulator.times)
    return {
        "kind": "simulator",
        "name": simulator.name,
        "description": getattr(simulator, "description", "") or _first_line(made_by),
        "parameters": simulator.parameters.to_json(),
        "outputs": [
            {"name": name, "unit": output.unit, "dims": ["time", *output.dims]}
            for name, output in simulator.outputs.items()
        ],
        "times": {"count": len(times), "first": times[0], "last": times[-1], "unit": simulator.time_unit},
        "grid": {name: len(axis) for name, axis in simulator.coordinates.items()},
        "numerics": simulator.numerics.describe(),
        "reference": getattr(simulator, "reference", ""),
    }


def _architecture(name: str) -> dict[str, Any]:
    kind = ARCHITECTURES[name]
    settings = [
        {"name": field.name, "default": field.default}
        for field in dataclasses.fields(kind)
        if field.default is not dataclasses.MISSING
    ]
    return {
        "kind": "surrogate",
        "name": name,
        "description": inspect.getdoc(kind) or "",
        "hyperparameters": settings,
    }


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def describe_lines(found: dict[str, Any]) -> list[str]:
    """What `describe` found, as lines of text."""
    if found["kind"] == "surrogate":
        settings = ", ".join(f"{entry['name']} = {entry['default']!r}" for entry in found["hyperparameters"])
        return [f"{found['name']}: a surrogate architecture", "", found["description"], "", f"defaults: {settings}"]
    times = found["times"]
    lines = [f"{found['name']}: a simulator", "", found["description"], "", "parameters"]
    lines += _columns([(p["name"], _distribution(p), p.get("unit", "")) for p in found["parameters"]])
    lines += ["outputs"]
    lines += _columns([(o["name"], f"({', '.join(o['dims'])})", o["unit"]) for o in found["outputs"]])
    lines.append(f"times      {times['count']} from {times['first']:g} to {times['last']:g} {times['unit']}".rstrip())
    if found["grid"]:
        lines.append("grid       " + ", ".join(f"{name}: {count} points" for name, count in found["grid"].items()))
    lines.append("numerics   " + ", ".join(f"{key} {value}" for key, value in found["numerics"].items()))
    return lines + ([f"reference  {found['reference']}"] if found["reference"] else [])


def _distribution(entry: dict[str, Any]) -> str:
    rest = {key: value for key, value in entry.items() if key not in ("name", "distribution", "unit")}
    kind = entry["distribution"].replace("_", "-")
    if set(rest) == {"lower", "upper"}:
        return f"{rest['lower']:g} to {rest['upper']:g}, {kind}"
    return f"{kind}, " + ", ".join(f"{key} {value:g}" for key, value in rest.items())


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
