"""The members that a report draws: the best, the median and the worst."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
MOST_TIMES = 64  # of fields


def shown_members(
    surrogate: Any, members: Arrays, truth: Arrays, prediction: Arrays, half_width: Arrays, errors: np.ndarray, kept
) -> list[dict[str, Any]]:
    """Truth, prediction and band of the best, the median and the worst member whose prediction is finite."""
    order = np.argsort(errors, kind="stable")
    order = order[np.isfinite(errors[order])]
    if not order.size:
        return []
    places = {"best": order[0], "median": order[(len(order) - 1) // 2], "worst": order[-1]}
    return [
        {
            "which": which,
            "member": int(kept[i]),
            "error": float(errors[i]),
            "parameters": {name: float(value[i]) for name, value in members.items() if value.ndim == 1},
            "fields": {name: value[i] for name, value in members.items() if value.ndim == 2},
            "outputs": {
                name: {"truth": _thin(truth[name][i]), "surrogate": _thin(prediction[name][i])}
                | {"half_width": _thin(half_width[name][i])}
                for name in truth
            },
            "times": _thin(np.asarray(surrogate.times), truth_is_field(truth)),
            "coordinates": dict(surrogate.coordinates),
        }
        for which, i in places.items()
    ]


def truth_is_field(values: Arrays) -> bool:
    return any(value.ndim > 2 for value in values.values())


def _thin(values: np.ndarray, field: bool | None = None) -> np.ndarray:
    """Fields at no more than `MOST_TIMES` times, the last among them; planes at the last time alone."""
    field = values.ndim > 1 if field is None else field
    if values.ndim > 2:
        values = values[-1:]
    if field and len(values) > MOST_TIMES:
        values = values[np.unique(np.linspace(0, len(values) - 1, MOST_TIMES).round().astype(int))]
    return values
