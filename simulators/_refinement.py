"""The refinement check: some members solved twice, the second time more finely, tell how accurate all of them are.

An error estimate of one step says nothing of the error at the end, and an absolute tolerance that is too large hides
it. What does not change when the tolerances become 100 times tighter, or the step half as long, is right to about what
it changed by.
"""

import dataclasses
import math
import warnings
from typing import Any

import jax
import numpy as np

from ..data import Solution, Status

LEAST_MEMBERS = 8
MOST_ALLOWED = 1e-2  # relative error, whatever the tolerance, and with a fixed step
SINGLE_ROUNDING = 6e-4  # what rounding in single precision is granted: 1e4 units


class AccuracyWarning(UserWarning):
    """Members of an ensemble are less accurate than its tolerances or step promise."""


def sampled(count: int, share: float, seed: int) -> np.ndarray:
    """Which of `count` members are solved again: `share` of them, at least 8, none for a share of 0; `(count,)`."""
    chosen = np.zeros(count, bool)
    if share > 0:
        few = min(count, max(LEAST_MEMBERS, round(share * count)))
        chosen[np.random.default_rng([seed, count]).choice(count, few, replace=False)] = True
    return chosen


def refined(simulator: Any) -> Any:
    """The same simulator with finer numerics, or `None` where it states none that can be made finer."""
    numerics: Any = getattr(simulator, "numerics", None)
    if not hasattr(numerics, "refined") or not hasattr(simulator, "replace"):
        return None
    return simulator.replace(numerics=numerics.refined())


def relative_changes(values: np.ndarray, finer: np.ndarray) -> np.ndarray:
    """|y - y_fine| over the size of y_fine, largest over space; `(member, time, *space)` to `(member, time)`.

    The size at each time is |y_fine| there, largest over space, for a member whose output keeps its sign; for one that
    changes it, and so passes through zero, the largest over all times. Nothing over nothing is 0.
    """
    space = tuple(range(2, values.ndim))
    with np.errstate(invalid="ignore", over="ignore"):  # members that failed are NaN
        change = np.abs(values.astype(np.float64) - finer).max(axis=space)
    size = np.abs(finer).max(axis=space)
    everywhere = tuple(range(1, values.ndim))
    keeps_sign = np.all(finer >= 0, axis=everywhere) | np.all(finer <= 0, axis=everywhere)
    size = np.where(keeps_sign[:, None], size, size.max(axis=1, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change == 0, 0, change / size)


class Refinement:
    """The refinement check of one ensemble.

    **Arguments:**

    - `simulator`: what is solved.
    - `share`: of the members, to be solved again.
    - `members`: how many there are.
    - `seed`: which of them.
    - `precision`: of the ensemble; the check is always in double precision.
    """

    def __init__(self, simulator: Any, share: float, members: int, seed: int, precision: str):
        self.finer = refined(simulator) if share > 0 else None
        self.numerics: Any = getattr(simulator, "numerics", None)
        self.precision, self.share = precision, share
        self.sample = sampled(members, 0 if self.finer is None else share, seed)
        self.name = getattr(simulator, "name", type(simulator).__name__)
        self.members = np.zeros(0, int)
        self.unresolved: list[int] = []
        self.worst: dict[str, np.ndarray] = {}  # for each member of `members` the largest change, its time, its value

    @property
    def allowed(self) -> float:
        """The largest relative change that keeps the promise: half of the digits that rtol asks for, √rtol."""
        allowed = min(math.sqrt(self.numerics.rtol), MOST_ALLOWED) if self._adaptive else MOST_ALLOWED
        return max(allowed, SINGLE_ROUNDING if self.precision == "single" else 0)

    @property
    def _adaptive(self) -> bool:
        return hasattr(self.numerics, "rtol") and getattr(self.numerics, "step", None) is None

    def most(self, size: int) -> int:
        """The most sampled members in one of the batches of `size` members, in the order of the design."""
        return max(int(self.sample[start : start + size].sum()) for start in range(0, len(self.sample), size))

    def compare(self, numbers: np.ndarray, solution: Solution, finer: Solution) -> None:
        """Note how the members `numbers` changed. Both solutions are of these, on the host."""
        status, finer_status = np.asarray(solution.status.code), np.asarray(finer.status.code)
        good = (status == Status.ok) | (status == Status.event)
        self.unresolved += numbers[good & (finer_status != status)].tolist()
        both = np.flatnonzero(good & (finer_status == status))
        if not both.size:
            return
        times = np.ravel(np.asarray(solution.times, np.float64))
        self.members = np.concatenate([self.members, numbers[both]])
        for name, values in solution.values.items():
            self._note(name, *_common(np.asarray(values)[both], np.asarray(finer.values[name])[both]), times)
        if solution.event_time is not None:
            own, other = (np.asarray(each.event_time)[both][:, None] for each in (solution, finer))
            self._note("event_time", *_common(own, other), times[-1:])

    def _note(self, name: str, own: np.ndarray, other: np.ndarray, times: np.ndarray) -> None:
        """Note the largest change of one output in each member."""
        changes = relative_changes(own, other)
        place = changes.argmax(axis=1)
        row = np.arange(len(own))
        size = np.abs(other).max(axis=tuple(range(2, other.ndim)))
        found = np.stack([changes[row, place], times[place], size[row, place]], axis=1)
        self.worst[name] = np.concatenate([self.worst.get(name, np.zeros((0, 3))), found])

    def describe(self) -> dict[str, Any]:
        """JSON-ready: what was solved again and how, and how much each output changed; `None` if nothing was."""
        if self.finer is None:
            return {"refinement": None}
        outputs: dict[str, Any] = {}
        for name, found in self.worst.items():
            row = int(found[:, 0].argmax())
            outputs[name] = {
                "worst": float(found[row, 0]),
                "median": float(np.median(found[:, 0])),
                "member": int(self.members[row]),
                "time": float(found[row, 1]),
                "value": float(found[row, 2]),
            }
        return {
            "refinement": {
                "share": self.share,
                "members": len(self.members),
                "numerics": self.finer.numerics.describe(),
                "precision": "double",
                "allowed": self.allowed,
                "outputs": outputs,
                "unresolved": sorted(self.unresolved),
            }
        }

    def warn(self) -> None:
        """Warn if the promise is not kept."""
        record = self.describe()["refinement"]
        if record is None or not record["outputs"]:
            return
        name, worst = max(record["outputs"].items(), key=lambda item: item[1]["worst"])
        if worst["worst"] <= self.allowed:
            return
        many = int((np.stack([found[:, 0] for found in self.worst.values()]).max(axis=0) > self.allowed).sum())
        warnings.warn(
            f"{self.name}: {many} of {record['members']} members that were solved again with {_words(record)} changed "
            f"by more than {self.allowed:.2g}; most of all member {worst['member']}: {name} by {worst['worst']:.2g} of "
            f"{worst['value']:.3g} at time {worst['time']:g}. {self._advice(worst)} check=0 leaves this check out; "
            "metadata['refinement'] has every output.",
            AccuracyWarning,
            stacklevel=3,
        )

    def _advice(self, worst: dict[str, Any]) -> str:
        if self.precision == "single":
            return "Solve with precision='double', or tighter."
        if not self._adaptive:
            return "Shorten the step, or give rtol and atol in place of it."
        rtol, atol = self.numerics.rtol, self.numerics.atol
        if worst["value"] * self.allowed < atol:
            return f"Values this small need an atol well below them (it is {atol:g})."
        return f"Lower rtol (it is {rtol:g}) and atol, or, of a chaotic system, save earlier times."


def rows_of(solution: Solution, rows: np.ndarray) -> Solution:
    """Some members of a batched solution, on the host."""
    members = dataclasses.replace(solution, times=None)
    picked = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], members)
    return dataclasses.replace(picked, times=solution.times)


def _common(own: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both, with 0 where a value is missing in either, after an event."""
    missing = np.isnan(own) | np.isnan(other)
    return np.where(missing, 0, own), np.where(missing, 0, other)


def _words(record: dict[str, Any]) -> str:
    numerics = record["numerics"]
    return ", ".join(f"{key} {numerics[key]:g}" for key in ("rtol", "atol", "step", "substeps") if key in numerics)
