"""Judge a surrogate on members that it has never seen."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ..data import Ensemble, check_number, retried, shown
from ..simulators import fingerprint, solve_ensemble
from ._coverage import coverage, estimate_worth
from ._derivatives import derivative_errors
from ._grids import grid_errors
from ._metrics import DEFINITIONS, comes_near_zero, member_error, output_errors, summary, time_errors
from ._pair import check_pair
from ._report import Report
from ._samples import shown_members
from ._speed import PRECISIONS, measure_speed
from ._timing import machine
from ._truth import check_truth, solve_truth
from ._verdict import verdict

THRESHOLD = 0.1
BASELINES = {"mean": "mean of the training members", "linear": "linear least squares in the parameters"}
Progress = Callable[[int, int, str], None]


def validate(
    surrogate: Any,
    simulator: Any,
    design: Mapping[str, Any] | Ensemble,
    *,
    precision: str = "double",
    level: float | None = None,
    threshold: float = THRESHOLD,
    speed: bool = True,
    seconds: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compare a surrogate with its simulator on held-out members.

    Errors by output and time beside two baselines, coverage of the stated error, derivatives, and speed against the
    cheapest setting of the solver that is as accurate. Members that the solver failed are left out by one mask and
    listed; members that the surrogate fails count as infinite errors.

    **Arguments:**

    - `surrogate`: what `surrogates.fit` or `surrogates.load` returned.
    - `simulator`: the simulator that it stands for; solved with its own numerics.
    - `design`: held-out members, independent of the training members; or an ensemble of them.
    - `precision`: arithmetic of the truth, `"double"` or `"single"`.
    - `level`: expected nominal coverage of the stated error; by default what the surrogate states.
    - `threshold`: the error whose first exceedance in time is reported.
    - `speed`: time the surrogate and the solver (half a minute or so; the only part that differs from run to run).
    - `seconds`: what the ensemble and the training cost, `"simulate"` and `"train"`; by default the surrogate's record.
    - `progress`: called with (parts done, parts, the next part).

    **Returns:** a `Report`: print it, or `report.save("report.html")`.

    **Raises:** `ValueError` for a surrogate of another simulator, another level, settings that cannot be meant, or
    members that cannot be compared.
    """
    _check_settings(precision, threshold, seconds, progress)
    _check(surrogate, simulator, design, level)
    tell = progress or (lambda done, total, what: None)
    total = 4 + speed
    tell(0, total, "held-out truth")
    truth = solve_truth(simulator, design, surrogate.times, precision)
    given = int(surrogate.provenance.get("given_times", 0))
    kept = np.flatnonzero(truth.ok)
    # dictionaries that went through JAX come back sorted by name
    members = {name: truth.design[name][kept] for name in surrogate.parameters}
    exact = {name: np.asarray(truth.values[name])[kept] for name in surrogate.outputs}
    tell(1, total, "surrogate")
    predicted, half_width, bound = _answers(surrogate, members)
    errors, sections = _errors(surrogate, members, predicted, exact, kept, given, threshold)
    tell(2, total, "check of the truth")
    sections["truth"] = _truth_section(simulator, truth, given, precision, errors)
    tell(3, total, "derivatives")
    sections["derivatives"] = derivative_errors(surrogate, simulator, members, exact, given)
    sections["calibration"] = coverage(
        *[{name: value[:, given:] for name, value in part.items()} for part in (predicted, half_width, exact)],
        level=surrogate.calibration.level,
    ) | {"estimate": estimate_worth(bound, errors), "members_used": surrogate.calibration.members}
    sections["grids"] = grid_errors(surrogate, simulator, members, exact, given, precision)
    sections["members"] = _members(surrogate, truth, kept, members, errors, given)
    if speed:
        tell(4, total, "speed")
        target = sections["errors"]["member"]
        costs = dict(seconds) if seconds else _costs(surrogate)
        sections["speed"] = measure_speed(surrogate, simulator, members, exact, target=target, given=given, costs=costs)
    tell(total, total, "")
    sections["shown"] = shown_members(surrogate, members, exact, predicted, half_width, errors, kept)
    sections["scatter"] = {"error": errors, "estimate": bound}
    content = _about(surrogate, simulator, truth) | sections | {"definitions": DEFINITIONS, "machine": machine()}
    return Report.from_sections(content | {"verdict": verdict(content)})


def _check_settings(precision: Any, threshold: Any, seconds: Any, progress: Any) -> None:
    if precision not in PRECISIONS:
        raise ValueError(f"precision: expected 'double' or 'single', got {shown(precision)}.")
    check_number("threshold", threshold, "an error above 0", lambda error: error > 0)
    if seconds is not None and not (isinstance(seconds, Mapping) and {"simulate", "train"} <= set(seconds)):
        raise ValueError(f'seconds: expected {{"simulate": ..., "train": ...}}, got {shown(seconds)}.')
    if progress is not None and not callable(progress):
        raise ValueError(f"progress: expected a function of (done, parts, next part), got {shown(progress)}.")


def _check(surrogate: Any, simulator: Any, design: Any, level: float | None) -> None:
    check_pair(simulator, surrogate)
    asked = fingerprint(simulator)
    if isinstance(design, Ensemble) and design.metadata.get("fingerprint", asked) != asked:
        raise ValueError(
            f"expected held-out members of this simulator (fingerprint {asked[:12]}), got an ensemble of "
            f"{design.metadata.get('simulator')!r} ({design.metadata['fingerprint'][:12]})."
        )
    stated = surrogate.calibration.level
    level = None if level is None else check_number("level", level, "a coverage above 0 and below 1")
    if level is not None and abs(level - stated) > 1e-9:
        raise ValueError(
            f"level: this surrogate states a {stated:.0%} band, not one of {level:.0%}; "
            f"surrogates.calibrate(surrogate, members, level={level:g}) states another."
        )
    record = surrogate.provenance.get("ensemble", {})
    design = design.design if isinstance(design, Ensemble) else design
    drawn = (getattr(design, "method", None), getattr(design, "seed", None))
    if drawn[1] is not None and drawn == (record.get("method"), record.get("seed")):
        warnings.warn(
            f"these members are drawn as the training members were ({drawn[0]}, seed {drawn[1]}), so they are no "
            "held-out members; use another seed.",
            stacklevel=3,
        )


def _answers(surrogate: Any, members: Mapping[str, np.ndarray]) -> tuple[dict, dict, np.ndarray]:
    """Predictions, half-widths of the band and estimated errors, in double precision."""
    solution = solve_ensemble(surrogate, members).solution
    count = len(next(iter(members.values())))

    def rows(values):
        return {name: np.asarray(values[name])[:count] for name in surrogate.outputs}

    if solution.error is None or solution.bound is None:
        raise ValueError("expected a surrogate that states its error; calibrate it with surrogates.calibrate.")
    return rows(solution.values), rows(solution.error), np.asarray(solution.bound)[:count]


def _errors(surrogate, members, predicted, exact, kept, given, threshold):
    """Member errors, and the sections that hold errors: the surrogate's and the baselines'."""

    def cut(values):
        return {name: value[:, given:] for name, value in values.items()}

    times = np.asarray(surrogate.times)[given:]
    found, truth = cut(predicted), cut(exact)
    errors = member_error(found, truth)
    scaled = any(comes_near_zero(value) for value in truth.values())
    section = {
        "member": summary(errors, kept),
        "outputs": {name: output_errors(found[name], truth[name], kept) for name in truth},
        "times": {name: time_errors(found[name], truth[name], times, threshold, scaled=scaled) for name in truth},
    }
    with jax.enable_x64(True):
        guesses = jax.jit(jax.vmap(surrogate.baselines.predict))(dict(members))
        guesses = {kind: {name: np.asarray(v) for name, v in values.items()} for kind, values in guesses.items()}
    baselines = {
        kind: {
            "name": BASELINES.get(kind, kind),
            "member": summary(member_error(cut(values), truth), kept),
            "outputs": {
                name: summary(member_error({name: v[:, given:]}, {name: truth[name]}), kept)
                for name, v in values.items()
            },
        }
        for kind, values in sorted(guesses.items(), key=lambda item: item[0] != "mean")
    }
    return errors, {"errors": section, "baselines": baselines}


def _truth_section(simulator: Any, truth: Ensemble, given: int, precision: str, errors: np.ndarray) -> dict[str, Any]:
    """How the truth was made and how much better than the surrogate it is."""
    check = check_truth(simulator, truth, given, precision)
    median = float(np.median(errors))
    found = {key: truth.metadata.get(key) for key in ("numerics", "precision", "method", "seed", "devices")}
    found |= {"solvers": truth.metadata.get("solvers", {}), "retried": retried(truth.metadata)}
    if check is None:
        return found | {"check": None, "times_better": None, "sufficient": None}
    better = median / check["median"] if check["median"] > 0 else float("inf")
    return found | {"check": check, "times_better": better, "sufficient": better >= 5}


def _members(surrogate, truth: Ensemble, kept, members, errors, given) -> dict[str, Any]:
    """Who was judged, who was left out and why."""
    with jax.enable_x64(True):
        inside = np.asarray(jax.jit(jax.vmap(surrogate.inside))(dict(members)))
    return {
        "total": len(truth),
        "judged": len(kept),
        "excluded": truth.incomplete(),
        "blow_ups": [int(member) for member in kept[~np.isfinite(errors)]],
        "outside": int(np.sum(~inside)),
        "outside_share": float(np.mean(~inside)),
        "given_times": [float(t) for t in np.asarray(surrogate.times)[:given]],
    }


def _costs(surrogate: Any) -> dict[str, float] | None:
    """Seconds that the training ensemble and the training took, from the surrogate's record."""
    record = surrogate.provenance
    ensemble = record.get("ensemble", {})
    if "seconds" not in record or "seconds" not in ensemble:
        return None
    return {"simulate": ensemble["seconds"] + ensemble.get("compile_seconds", 0.0), "train": record["seconds"]}


def _about(surrogate: Any, simulator: Any, truth: Ensemble) -> dict[str, Any]:
    """Names, units, axes and origins."""
    record = surrogate.provenance
    return {
        "simulator": {
            "name": simulator.name,
            "description": getattr(simulator, "description", ""),
            "reference": getattr(simulator, "reference", ""),
            "fingerprint": record["fingerprint"],
        },
        "surrogate": {
            "architecture": record["architecture"],
            "weights": getattr(surrogate, "weights", None),
            "members": record.get("members"),
            "training_failures": record.get("failures", []),
            "training": record.get("training"),
            "status": record.get("status"),
            "best_step": record.get("best_step"),
            "versions": record.get("versions"),
        },
        "parameters": simulator.parameters.to_json(),
        "outputs": [{"name": k, "unit": o.unit, "dims": list(o.dims)} for k, o in simulator.outputs.items()],
        "times": np.asarray(surrogate.times),
        "time_unit": truth.time_unit,
    }
