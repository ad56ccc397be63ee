"""The members that a report draws: the best, the median and the worst."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
MOST_TIMES = 64  # of a field on a line; of fields in more dimensions only the last time is kept


def shown_members(
    surrogate: Any, members: Arrays, truth: Arrays, prediction: Arrays, half_width: Arrays, errors: np.ndarray, kept
) -> list[dict[str, Any]]:
    """Truth, prediction and band of the best, the median and the worst member whose prediction is finite.

    `kept` are the numbers of the members in the held-out design.
    """
    order = np.argsort(errors, kind="stable")
    order = order[np.isfinite(errors[order])]
    if not order.size:
        return []
    times = _times(surrogate.times, max(value.ndim for value in truth.values()) - 2)
    places = {"best": order[0], "median": order[(len(order) - 1) // 2], "worst": order[-1]}
    return [
        {
            "which": which,
            "member": int(kept[i]),
            "error": float(errors[i]),
            "parameters": {name: float(value[i]) for name, value in members.items() if value.ndim == 1},
            "fields": {name: value[i] for name, value in members.items() if value.ndim == 2},
            "times": np.asarray(surrogate.times)[times].tolist(),
            "coordinates": {name: np.asarray(axis).tolist() for name, axis in surrogate.coordinates.items()},
            "outputs": {
                name: {
                    "truth": truth[name][i][times],
                    "surrogate": prediction[name][i][times],
                    "half_width": half_width[name][i][times],
                }
                for name in truth
            },
        }
        for which, i in places.items()
    ]


def _times(times: np.ndarray, dimensions: int) -> np.ndarray:
    """Which times are kept of outputs with so many space dimensions."""
    count = len(times)
    if dimensions > 1:
        return np.array([count - 1])
    if dimensions == 0 or count <= MOST_TIMES:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MOST_TIMES).round().astype(int))
