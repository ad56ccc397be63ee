"""What a step's result depends on, as a flat table from key to value, and how two such tables differ."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..simulators import AbstractSimulator, fingerprint
from ._config import RunSettings

DESIGNS = ("training", "calibration", "test")


def design_seed(seed: int, design: str) -> int:
    """Seed of one of a run's three designs: 3 seed, 3 seed + 1, 3 seed + 2, so that no two runs share one."""
    return 3 * seed + DESIGNS.index(design)


def design_method(settings: RunSettings, design: str) -> str:
    """Points of a sequence are no independent draws: only the training design is one."""
    return settings.design.method if design == "training" else "random"


def ensemble_keys(settings: RunSettings, simulator: AbstractSimulator, design: str) -> dict[str, Any]:
    """What one of the three ensembles depends on. Values are the resolved ones: writing a default down changes none."""
    chosen = settings.simulator
    keys = {
        "seed": settings.seed,
        f"design.{design}": getattr(settings.design, design),
        "simulator.precision": chosen.precision,
        "simulator.engine": chosen.engine,
        "simulator.check": chosen.check,
        "simulator.fingerprint": fingerprint(simulator),
        "simulator.times": _times(simulator),
        "simulator.outputs": ", ".join(_named(name, output.unit) for name, output in simulator.outputs.items()),
    }
    if design == "training":
        keys["design.method"] = settings.design.method
    keys |= {f"simulator.{key}": value for key, value in simulator.numerics.describe().items()}
    keys |= {f"simulator.options.{key}": value for key, value in chosen.options.items()}
    for entry in simulator.parameters.to_json():
        name = entry.pop("name")
        keys |= {f"simulator.parameters.{name}.{key}": value for key, value in entry.items()}
    return plain(keys)


def section_keys(section: Mapping[str, Any], path: str) -> dict[str, Any]:
    """A table of the run file as flat keys."""
    return plain({f"{path}.{key}": value for key, value in section.items()})


def plain(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Keys as they come back from JSON: tuples are lists."""
    return json.loads(json.dumps(dict(keys), default=str))


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs, one text for each key: `simulator.rtol: 1e-06 -> 1e-08`."""
    return [
        f"{key}: {_show(old.get(key))} -> {_show(new.get(key))}"
        for key in list(new) + [key for key in old if key not in new]
        if old.get(key) != new.get(key)
    ]


def _show(value: Any) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, str):
        return value[:12] if len(value) == 64 and value.isalnum() else value
    return json.dumps(value)


def _times(simulator: AbstractSimulator) -> str:
    times = np.asarray(simulator.times, np.float64)
    digest = hashlib.sha256(times.tobytes()).hexdigest()[:8]
    return f"{times.size} from {times[0]:g} to {_named(f'{times[-1]:g}', simulator.time_unit)} [{digest}]"


def _named(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name
