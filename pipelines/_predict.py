"""Answers of a surrogate file for members given on the command line or in a CSV file."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Ensemble, as_design, check_path, shown
from ..simulators import solve_ensemble
from ..surrogates import Surrogate, load
from ._build import build_simulator
from ._config import check
from ._folder import read_json
from ._guard import GuardedSolver, guard
from ._problems import unknown_key


def predict(
    surrogate: str | Path,
    members: Mapping[str, np.ndarray],
    *,
    guarded: bool = False,
    run_folder: str | Path | None = None,
    devices: int | None = None,
) -> Ensemble:
    """Answer members with a surrogate file, or with the surrogate guarded by its solver.

    **Arguments:**

    - `surrogate`: a `.emx` file.
    - `members`: parameter name to one value per member.
    - `guarded`: let the solver answer where the surrogate may not.
    - `run_folder`: the run that made the surrogate, which names the solver, tolerance and risk; by default the folder
      of the surrogate file.

    **Returns:** an `Ensemble` in the order of `members`, with the stated errors in its solution.

    **Raises:** `ValueError`, `FileNotFoundError` for what cannot be meant.
    """
    model: Any = load_surrogate(surrogate)
    if not isinstance(members, Mapping):
        raise ValueError(
            f"members: expected a mapping with an array for each of the parameters {', '.join(model.parameters)}, got "
            f"{shown(members)}."
        )
    if guarded:
        model = _guarded(model, Path(run_folder or Path(surrogate).parent))
    elif run_folder is not None:
        raise ValueError("--run names the solver to fall back on: give it together with --guard")
    design = as_design(model.parameters, check_names(members, model))
    answers = solve_ensemble(model, design, devices=devices)
    _warn_unanswered(answers)
    if not guarded:
        _warn_outside(model, design)
    return answers


def load_surrogate(path: str | Path) -> Surrogate:
    """A surrogate file, with a clear error where there is none."""
    path = check_path(path, "a surrogate file (.emx)")
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a surrogate file (.emx), found nothing")
    if path.is_dir():
        raise ValueError(f"{path}: expected a surrogate file (.emx), found a folder; try {path / 'surrogate.emx'}")
    return load(path)


def check_names(members: Mapping[str, Any], model: Any) -> Mapping[str, Any]:
    """`members`, if they are the parameters of `model`.

    **Raises:** `ValueError` naming an unknown or a missing parameter, with its unit and range.
    """
    known = list(model.parameters)
    for name in members:
        if name not in known:
            raise ValueError(unknown_key(name, known).replace("unknown key", "unknown parameter"))
    for name in known:
        if name not in members:
            low, high = model.parameters[name].bounds
            unit = f" {model.parameters[name].unit}".rstrip()
            raise ValueError(f"{name}: expected a value between {low:g} and {high:g}{unit}, found nothing")
    return members


def load_guarded(folder: str | Path) -> GuardedSolver:
    """The result of a run, ready to be called: its surrogate, guarded by its simulator with its tolerance and risk.

    **Arguments:**

    - `folder`: the run's folder, such as `runs/lynx_hare`.

    **Returns:** what `guard` returns.

    **Raises:** `ValueError`, `FileNotFoundError` for a folder without a finished run, or a changed simulator.
    """
    folder = check_path(folder, "a run's folder")
    return _guarded(load_surrogate(folder / "surrogate.emx"), folder)


def _guarded(surrogate: Surrogate, folder: Path) -> GuardedSolver:
    record = read_json(folder / "run.json")
    if record is None:
        raise ValueError(
            f"{folder}: expected the folder of a run (with run.json), which names the solver to fall back on; "
            "give it with --run RUN_FOLDER"
        )
    settings = check(record["settings"], str(folder / "run.json"))
    simulator = build_simulator(settings, (folder / record["file"]).resolve().parent, str(folder / "run.json"))
    return guard(simulator, surrogate, tolerance=settings.guard.tolerance, risk=settings.guard.risk)


def _warn_unanswered(answers: Ensemble) -> None:
    if not answers.ok.all():
        why = " ".join(dict.fromkeys(f"{entry['status']}: {entry['advice']}" for entry in answers.incomplete()))
        warnings.warn(f"{_counted(~answers.ok, 'have no answer')}. {why.rstrip('.')}", stacklevel=3)


def _warn_outside(surrogate: Surrogate, design: Any) -> None:
    import jax

    finite = np.all([np.isfinite(v).reshape(len(v), -1).all(axis=1) for v in design.values()], axis=0)
    with jax.enable_x64(True):
        outside = finite & ~np.asarray(jax.vmap(surrogate.inside)(dict(design)))
    if outside.any():
        warnings.warn(
            f"{_counted(outside, 'lie outside the training domain')}: their stated error means nothing there; --guard "
            "lets the solver answer them",
            stacklevel=3,
        )


def _counted(chosen: np.ndarray, what: str) -> str:
    """How many members of all are or do what, and which."""
    numbers = np.flatnonzero(chosen)
    listed = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"{len(numbers)} of {len(chosen)} members {what} (members {listed})"
