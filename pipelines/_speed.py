"""Speed at equal accuracy: the surrogate against the cheapest setting of its solver that is as accurate.

A setting is as accurate if neither the median nor the 95th percentile of its member errors on the held-out members is
larger than the surrogate's. Each ladder of `simulator.cheaper()` is climbed from its cheapest setting to the first such
one; that one is tried in single precision too.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._metrics import member_error, summary
from ._timing import REPEATS, Timed, break_even, interleave, prepare

Members = Mapping[str, np.ndarray]
PRECISIONS = ("double", "single")
SLOW_S = 0.1  # a setting that is not accurate enough and slower than this is timed once


def measure_speed(
    surrogate: Any,
    simulator: Any,
    members: Members,
    truth: Members,
    *,
    target: Mapping[str, float],
    given: int = 0,
    costs: Mapping[str, float] | None = None,
    repeats: int = REPEATS,
) -> dict[str, Any]:
    """Time a surrogate and its solver at equal accuracy, one member at a time and all members at once.

    **Arguments:**

    - `surrogate`, `simulator`: anything with `.solve`; the ladders are the simulator's `cheaper()`.
    - `members`: parameters of the held-out members, `(member, *shape)`.
    - `truth`: their outputs, `(member, time, *space)`.
    - `target`: the surrogate's `"median"` and `"p95"` member error.
    - `given`: leading times left out of errors.
    - `costs`: seconds spent, `"simulate"` and `"train"`, for the break-even count.
    - `repeats`: rounds of timing.

    **Returns:** JSON-ready: every setting tried with error and times, who wins, and by how much.
    """
    judge = _Judge(members, truth, given)
    entries = [judge(surrogate, "surrogate", "surrogate", precision) for precision in PRECISIONS]
    solver_entries = climb(simulator.cheaper(), judge, target)
    own = judge(simulator, f"{simulator.name} with its own settings", "own", "double")
    entries += [*solver_entries, own]
    for entry in entries:
        entry["reaches"] = entry["family"] == "surrogate" or reaches(entry, target)
    finalists = [entry for entry in entries if entry["reaches"] or entry["family"] in ("surrogate", "own")]
    for entry in finalists:
        entry["one"] = prepare(entry["model"], members, entry["precision"], batched=False)
    interleave([entry["all"] for entry in finalists] + [entry["one"] for entry in finalists], max(repeats, 5))
    interleave([entry["all"] for entry in entries if not entry["all"].samples and entry["all"].once_s < SLOW_S], 3)
    count = len(next(iter(members.values())))
    return compare([_record(entry, count) for entry in entries], count, target, costs, repeats)


class _Judge:
    """Compiles a model for all held-out members and measures its error on them."""

    def __init__(self, members: Members, truth: Members, given: int):
        self.members, self.truth, self.given = members, truth, given

    def __call__(self, model: Any, label: str, family: str, precision: str) -> dict[str, Any]:
        timed = prepare(model, self.members, precision, batched=True)
        found = {name: np.asarray(value)[:, self.given :] for name, value in timed.answer.values.items()}
        errors = member_error(found, {name: value[:, self.given :] for name, value in self.truth.items()})
        return {
            "label": label, "family": family, "precision": precision, "model": model, "all": timed, "one": None,
            "error": {key: value for key, value in summary(errors).items() if key != "worst_member"},
        }  # fmt: skip


def climb(rungs: Iterable[tuple[str, Any]], judge: Any, target: Mapping[str, float]) -> list[dict[str, Any]]:
    """Try each ladder's settings in order, up to the first that reaches `target`; that one in single precision too.

    A ladder is what has one method. `judge(model, label, family, precision)` returns an entry with its `error`.
    """
    entries, reached = [], set()
    for label, model in rungs:
        family = family_of(model)
        if family in reached:
            continue
        entry = judge(model, label, family, "double")
        entries.append(entry)
        if reaches(entry, target):
            reached.add(family)
            entries.append(judge(model, label, family, "single"))
    return entries


def reaches(entry: dict[str, Any], target: Mapping[str, float]) -> bool:
    """Whether a setting is as accurate as the surrogate, in the median and in the 95th percentile."""
    return all(entry["error"][key] <= target[key] for key in ("median", "p95"))


def family_of(model: Any) -> str:
    """The method of a setting, which names its ladder."""
    return model.numerics.describe()["solver"]


def compare(
    entries: list[dict[str, Any]],
    members: int,
    target: Mapping[str, float],
    costs: Mapping[str, float] | None,
    repeats: int,
) -> dict[str, Any]:
    """Who is fastest among the settings as accurate as the surrogate, for a batch and for one call."""
    found: dict[str, Any] = {"members": members, "target": dict(target), "repeats": repeats, "costs": dict(costs or {})}
    for mode in ("all_s", "one_s"):
        surrogate = min((e for e in entries if e["family"] == "surrogate"), key=lambda e: e[mode])
        matched = [e for e in entries if e["family"] != "surrogate" and e["reaches"] and e[mode] is not None]
        solver = min(matched, key=lambda e: e[mode], default=None)
        own = next(e for e in entries if e["family"] == "own")
        calls = members if mode == "all_s" else 1
        found["batch" if mode == "all_s" else "single"] = {
            "surrogate": _brief(surrogate, mode),
            "solver": None if solver is None else _brief(solver, mode),
            "own": _brief(own, mode),
            "ratio": None if solver is None else solver[mode] / surrogate[mode],
            "ratio_own": own[mode] / surrogate[mode],
            "break_even": _repaid(solver, surrogate, mode, calls, costs),
            "break_even_own": _repaid(own, surrogate, mode, calls, costs),
        }
    return found | {"entries": entries}


def _repaid(solver: Any, surrogate: Any, mode: str, calls: int, costs: Mapping[str, float] | None) -> dict[str, Any]:
    """Break-even in members: `{"members": n}`, `{"members": None}` for never, `{}` if the costs are not known."""
    if solver is None or not costs:
        return {}
    count = break_even(costs["simulate"], costs["train"], solver[mode] / calls, surrogate[mode] / calls)
    return {"members": count}


def _brief(entry: dict[str, Any], mode: str) -> dict[str, Any]:
    kept = ("label", "family", "precision", "numerics", "error")
    return {key: entry[key] for key in kept} | {
        "seconds": entry[mode],
        "spread_s": entry[mode.replace("_s", "_spread_s")],
    }


def _record(entry: dict[str, Any], members: int) -> dict[str, Any]:
    """An entry as JSON-ready data: seconds for all members, and for one where it was timed."""
    one: Timed | None = entry["one"]
    numerics = getattr(entry["model"], "numerics", None)
    return {
        "label": entry["label"],
        "family": entry["family"],
        "precision": entry["precision"],
        "numerics": None if numerics is None else numerics.describe(),
        "error": entry["error"],
        "reaches": bool(entry["reaches"]),
        "all_s": entry["all"].seconds,
        "all_spread_s": _spread(entry["all"]),
        "one_s": None if one is None else one.seconds,
        "one_spread_s": None if one is None else _spread(one),
        "compile_all_s": entry["all"].compile_s,
        "compile_one_s": None if one is None else one.compile_s,
        "rounds": max(len(entry["all"].samples), 1),
    }


def _spread(timed: Timed) -> list[float]:
    """Fastest and slowest round."""
    samples = timed.samples or [timed.once_s]
    return [float(min(samples)), float(max(samples))]
