"""Held-out truth, and how true it is."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data import Ensemble, as_design
from ..simulators import Numerics, solve_ensemble
from ._metrics import member_error, summary

CHECKED = 16
TIGHTER = 100.0
FINER = 4  # a fixed step is divided by this


def solve_truth(simulator: Any, design: Mapping[str, Any] | Ensemble, times: np.ndarray, precision: str) -> Ensemble:
    """The held-out members solved with the simulator's own numerics; an ensemble is taken as it is.

    **Raises:** `ValueError` for an ensemble with other times, or one in which no member finished.
    """
    if isinstance(design, Ensemble):
        ensemble = design
        if ensemble.times.shape != times.shape or not np.allclose(ensemble.times, times, rtol=1e-6, atol=1e-12):
            raise ValueError(
                f"expected held-out members at the surrogate's {len(times)} times, got {len(ensemble.times)} others; "
                "give a design, and it will be solved at the right ones."
            )
    else:
        design = as_design(simulator.parameters, design)
        ensemble = solve_ensemble(simulator, design, times=times, precision=precision, check=0)  # type: ignore[arg-type]
    if not ensemble.ok.any():
        first = ensemble.incomplete()[0]
        raise ValueError(
            f"none of the {len(ensemble)} held-out members finished ({first['status']}). {first['advice']} "
            "Without truth there is nothing to compare with."
        )
    return ensemble


def tighter(simulator: Any) -> Any:
    """The simulator with tolerances 100 times tighter, or a fixed step divided by 4."""
    own = getattr(simulator, "numerics", None)
    if not isinstance(own, Numerics):
        raise TypeError(f"{type(simulator).__name__} has no tolerances to tighten")
    if own.step is not None:
        numerics = dataclasses.replace(own, step=own.step / FINER, max_steps=own.max_steps * FINER)
    else:
        # below 1e-13 the controller chases rounding
        rtol, atol = max(own.rtol / TIGHTER, 1e-13), max(own.atol / TIGHTER, 1e-15)
        numerics = dataclasses.replace(own, rtol=rtol, atol=atol, max_steps=own.max_steps * 16)
    return simulator.replace(numerics=numerics)


def check_truth(simulator: Any, truth: Ensemble, given: int, precision: str) -> dict[str, Any] | None:
    """The error of some members against a tighter solve; `None` for a simulator without tolerances."""
    try:
        finer = tighter(simulator)
    except TypeError:
        return None
    members = np.flatnonzero(truth.ok)[:CHECKED]
    design = {name: value[members] for name, value in truth.design.items()}
    solved = solve_ensemble(finer, design, times=truth.times, precision=precision, check=0)  # type: ignore[arg-type]
    kept = np.flatnonzero(solved.ok)
    if not kept.size:
        return None
    values = {name: np.asarray(value)[members[kept], given:] for name, value in truth.values.items()}
    exact = {name: np.asarray(value)[kept, given:] for name, value in solved.values.items()}
    return summary(member_error(values, exact), members[kept]) | {
        "members": int(kept.size),
        "numerics": finer.numerics.describe(),
    }
