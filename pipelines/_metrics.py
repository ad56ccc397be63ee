"""Error numbers as pure functions of arrays `(member, time, *space)`, in physical units, each with its definition.

A prediction that is not finite has an infinite error: it is counted as a blow-up and makes quantiles infinite, but
never enters a mean.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
SMALL = 0.01  # of a member's RMS

DEFINITIONS = {
    "relative L2 error": "‖surrogate - truth‖₂ / ‖truth‖₂ of one member and output, over counted times and all points.",
    "member error": "The largest relative L2 error over the outputs of one member.",
    "error at one time": "The relative L2 error of one member and output over the points of one time.",
    "scaled error at one time": "RMS difference at one time / RMS of the member's truth over counted times.",
    "median, 95%, worst": "Quantiles over members; the worst is the largest.",
    "RMSE": "Root of the mean of (surrogate - truth)² over members, counted times and points.",
    "nRMSE": "RMSE / |mean of the truth|.",
    "mean relative error": "Mean over members of the relative L2 error: every member counts alike.",
    "global relative error": "‖surrogate - truth‖₂ / ‖truth‖₂ over all members together: large members dominate.",
    "VRMSE": "RMSE / standard deviation of the truth, 1 for the best constant; undefined for a constant truth.",
    "given times": "Leading times at which the outputs are parameters or constants, known without solving: left out.",
    "counted times": "All times that are not given.",
    "blow-up": "A member whose prediction is not finite; its error is infinite and it is left out of means.",
}


def relative_l2(prediction: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """‖prediction - truth‖₂ / ‖truth‖₂ over everything but members, `(member,)`.

    A truth of 0 has the error 0 where it is met and infinity elsewhere.
    """
    difference, size = _norm(_difference(prediction, truth)), _norm(truth)
    met = np.where(difference > 0, np.inf, 0.0)
    return np.where(size > 0, difference / np.where(size > 0, size, 1.0), met)


def relative_l2_per_time(prediction: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The relative L2 error over the points of each time, `(member, time)`."""
    members, times = truth.shape[:2]
    flat = (members * times, -1)
    return relative_l2(np.reshape(prediction, flat), np.reshape(truth, flat)).reshape(members, times)


def scaled_per_time(prediction: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """RMS difference at each time / RMS of the member's truth over all times, `(member, time)`.

    The mean square over times is the square of `relative_l2`.
    """
    members, times = truth.shape[:2]
    difference = _norm(_difference(prediction, truth).reshape(members * times, -1)).reshape(members, times)
    size = _norm(truth)[:, None] / np.sqrt(times)
    met = np.where(difference > 0, np.inf, 0.0)
    return np.where(size > 0, difference / np.where(size > 0, size, 1.0), met)


def member_error(prediction: Arrays, truth: Arrays) -> np.ndarray:
    """The largest relative L2 error over outputs, `(member,)`."""
    return np.max([relative_l2(prediction[name], truth[name]) for name in truth], axis=0)


def summary(errors: np.ndarray, members: np.ndarray | None = None) -> dict[str, Any]:
    """Median, 95th percentile and worst of `errors` `(member,)`, which member that is, and how many are infinite.

    `members` are the members' numbers, where `errors` holds only some of them.
    """
    errors = np.asarray(errors, np.float64)
    members = np.arange(len(errors)) if members is None else members
    worst = int(np.argmax(errors))
    return {
        "median": quantile(errors, 0.5),
        "p95": quantile(errors, 0.95),
        "worst": float(errors[worst]),
        "worst_member": int(members[worst]),
        "blow_ups": int(np.sum(~np.isfinite(errors))),
    }


def quantile(values: np.ndarray, level: float, axis: int | None = None) -> Any:
    """A quantile, interpolated linearly, of values that may be infinite."""
    huge = 1e300
    found = np.quantile(np.minimum(values, huge), level, axis=axis)
    found = np.where(found >= 1e-8 * huge, np.inf, found)
    return float(found) if axis is None else found


def rmse(prediction: np.ndarray, truth: np.ndarray) -> float:
    """Root mean square error over the members whose prediction is finite."""
    kept = _finite(prediction)
    return float(np.sqrt(np.mean(np.square(_difference(prediction[kept], truth[kept])))))


def nrmse(prediction: np.ndarray, truth: np.ndarray) -> float | None:
    """RMSE / |mean of the truth|; `None` where that mean is 0 to rounding."""
    mean = abs(float(np.mean(truth, dtype=np.float64)))
    tiny = 64 * np.finfo(truth.dtype).eps * float(np.max(np.abs(truth)))
    return rmse(prediction, truth) / mean if mean > tiny else None


def vrmse(prediction: np.ndarray, truth: np.ndarray) -> float | None:
    """RMSE / standard deviation of the truth; `None`, undefined, where the truth is constant to rounding."""
    spread = float(np.std(truth, dtype=np.float64))
    tiny = 64 * np.finfo(truth.dtype).eps * float(np.max(np.abs(truth)))
    return rmse(prediction, truth) / spread if spread > tiny else None


def global_relative(prediction: np.ndarray, truth: np.ndarray) -> float | None:
    """‖prediction - truth‖₂ / ‖truth‖₂ over all members with a finite prediction; `None` if that truth is 0."""
    kept = _finite(prediction)
    size = np.linalg.norm(np.asarray(truth[kept], np.float64))
    return float(np.linalg.norm(_difference(prediction[kept], truth[kept])) / size) if size > 0 else None


def mean_relative(prediction: np.ndarray, truth: np.ndarray) -> float | None:
    """Mean over members of the relative L2 error, infinite ones left out; `None` if none is left."""
    errors = relative_l2(prediction, truth)
    errors = errors[np.isfinite(errors)]
    return float(np.mean(errors)) if errors.size else None


def first_above(times: np.ndarray, errors: np.ndarray, threshold: float) -> float | None:
    """The first of `times` with an error above `threshold`, infinite and NaN ones included; `None` if there is none."""
    above = np.flatnonzero(~(np.asarray(errors) <= threshold))
    return float(times[above[0]]) if above.size else None


def output_errors(prediction: np.ndarray, truth: np.ndarray, members: np.ndarray) -> dict[str, Any]:
    """Every number for one output over its counted times."""
    return summary(relative_l2(prediction, truth), members) | {
        "rmse": rmse(prediction, truth),
        "nrmse": nrmse(prediction, truth),
        "vrmse": vrmse(prediction, truth),
        "mean_relative": mean_relative(prediction, truth),
        "global_relative": global_relative(prediction, truth),
        "mean_truth": float(np.mean(truth, dtype=np.float64)),
    }


def comes_near_zero(truth: np.ndarray) -> bool:
    """Whether scalar values fall below 1% of their member's RMS, where a relative error at one time means little."""
    if truth.ndim > 2:
        return False
    return bool(np.any(np.abs(truth) < SMALL * _norm(truth)[:, None] / np.sqrt(truth.shape[1])))


def time_errors(
    prediction: np.ndarray, truth: np.ndarray, times: np.ndarray, threshold: float, *, scaled: bool = False
) -> dict[str, Any]:
    """Quantiles over members of the error at every counted time, and when it first exceeds `threshold`.

    `scaled` says which of both errors in time is shown and compared with the threshold.
    """
    shown = "scaled" if scaled else "relative"
    found: dict[str, Any] = {"times": times.tolist(), "shown": shown, "threshold": threshold}
    for name, function in (("relative", relative_l2_per_time), ("scaled", scaled_per_time)):
        errors = function(prediction, truth)
        found[name] = {
            "median": quantile(errors, 0.5, 0).tolist(),
            "p95": quantile(errors, 0.95, 0).tolist(),
            "worst": errors.max(axis=0).tolist(),
        }
    first = {key: first_above(times, np.array(values), threshold) for key, values in found[shown].items()}
    return found | {"first_above": first}


def _difference(prediction: np.ndarray, truth: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        difference = np.asarray(prediction, np.float64) - np.asarray(truth, np.float64)
    return np.where(np.isfinite(difference), difference, np.inf)


def _norm(values: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.asarray(values, np.float64).reshape(len(values), -1), axis=1)


def _finite(prediction: np.ndarray) -> np.ndarray:
    return np.all(np.isfinite(np.reshape(prediction, (len(prediction), -1))), axis=1)
