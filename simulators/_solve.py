"""Solve a whole design: the ensemble engine's front."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ..data import Design, Ensemble, Solution, as_design
from ._answers import Answers
from ._apart import Apart
from ._choose import by_lanes, plan, solve_in_turn
from ._devices import pick_devices, put
from ._engines import is_initial_value_problem
from ._fingerprint import fingerprint
from ._refinement import Refinement
from ._runner import Runner

Precision = Literal["double", "single"]
Engine = Literal["auto", "lanes", "plain"]


def solve_ensemble(
    simulator: Any,
    design: Mapping[str, Any],
    *,
    times: Any = None,
    precision: Precision = "double",
    devices: int | Sequence[Any] | None = None,
    batch_size: int | None = None,
    engine: Engine = "auto",
    seed: int = 0,
    check: float = 0.01,
    progress: Callable[[int, int], None] | None = None,
    **numerics: Any,
) -> Ensemble:
    """Solve every member of a design, in parallel over devices.

    **Arguments:**

    - `simulator`: a simulator, or anything with its call: a surrogate, a guarded solver.
    - `design`: parameter name to equally long arrays, `(member, *shape)`.
    - `times`: times to save at; by default the simulator's own.
    - `precision`: `"double"` or `"single"`, recorded with the result.
    - `devices`: how many local devices, or which; by default all.
    - `batch_size`: solve this many members at a time and collect the results in host memory; by default all members
      at once, and the results stay on the devices, split over members.
    - `engine`: `"lanes"` keeps a fixed number of members under way on each device and gives a free place to the next;
      `"plain"` is `vmap` of `diffrax.diffeqsolve`, for comparison and for gradients. `"auto"` takes lanes for whatever
      states an initial value problem, plain for the rest. Values agree to rounding.
    - `seed`: randomness of stochastic simulators; member i depends on `seed` and i alone.
    - `check`: the share of members, and at least 8, that are solved a second time with tolerances 100 times tighter, or
      half the step. `metadata["refinement"]` says by how much each output changed, and an `AccuracyWarning` if that is
      more than the settings promise. 0 leaves the check out. No member's values depend on it.
    - `progress`: called with (members done, members in all) after each batch.
    - `numerics`: `solver`, `rtol`, `atol`, `step`, `max_steps`, in place of the simulator's own.

    **Returns:** an `Ensemble` of exactly as many members, in the order of the design. A member that fails is NaN with
    a status; the others are unaffected. `metadata["solvers"]` says which solver answered how many members.

    **Raises:** `ValueError` for a design, times, devices or settings that cannot be meant, before anything is solved.
    """
    if hasattr(simulator, "solve_members"):
        options = numerics if engine == "auto" else numerics | {"engine": engine}
        return simulator.solve_members(
            design, times=times, precision=precision, devices=devices, batch_size=batch_size, seed=seed,
            progress=progress, **options,
        )  # fmt: skip
    _check(precision, batch_size, engine, seed, check)
    simulator = _with_numerics(simulator, numerics)
    if engine == "lanes" and not is_initial_value_problem(simulator):
        raise ValueError(f"engine: {type(simulator).__name__} states no initial value problem; use 'auto' or 'plain'.")
    design = as_design(simulator.parameters, design)
    chosen = pick_devices(devices)
    with jax.enable_x64(precision == "double"):
        runner = Runner(simulator, times, dict(design.items()), chosen, seed)
        refinement = Refinement(simulator, check, design.members, seed, precision)
        if refinement.sample.any():
            if precision == "double" and by_lanes(runner, engine):
                runner.beside = refinement
            else:
                runner.apart = Apart(runner, refinement, engine)
        answers, solution = _solve_batches(runner, batch_size, engine, progress)
        parameters = put({name: np.asarray(value, jnp.result_type(float)) for name, value in design.items()}, chosen)
    refinement.warn()
    return Ensemble(
        parameters=parameters,
        solution=solution,
        size=design.members,
        space=simulator.parameters,
        outputs=simulator.outputs,
        coordinates=simulator.coordinates,
        time_unit=getattr(simulator, "time_unit", ""),
        metadata=_record(simulator, design, precision, chosen, seed)
        | answers.describe()
        | runner.describe()
        | refinement.describe(),
    )


def _solve_batches(runner: Runner, batch_size: int | None, engine: str, progress: Any) -> tuple[Answers, Solution]:
    """All members, batch by batch: which solver answered whom, and the solution in the order of the design."""
    members = runner.count
    size = members if batch_size is None else min(batch_size, members)
    attempts = plan(runner, size, engine)
    answers = Answers([attempt.name for attempt in attempts], members)
    parts = []
    for start in range(0, members, size):
        numbers = np.arange(start, min(start + size, members))
        parts.append(solve_in_turn(runner, attempts, numbers, size, answers, on_host=batch_size is not None))
        if progress is not None:
            progress(start + len(numbers), members)
    return answers, parts[0] if len(parts) == 1 else _concatenated(parts)


def _concatenated(parts: list[Solution]) -> Solution:
    """The members of all parts; every member has the same times."""
    members = [dataclasses.replace(part, times=None) for part in parts]
    solution = jax.tree.map(lambda *leaves: np.concatenate(leaves), *members)
    return dataclasses.replace(solution, times=parts[0].times)


def _check(precision: Any, batch_size: Any, engine: Any, seed: Any, check: Any) -> None:
    if precision not in ("double", "single"):
        raise ValueError(f"precision: expected 'double' or 'single', got {precision!r}.")
    if engine not in ("auto", "lanes", "plain"):
        raise ValueError(f"engine: expected 'auto', 'lanes' or 'plain', got {engine!r}.")
    if batch_size is not None and not (_is_whole(batch_size) and batch_size >= 1):
        raise ValueError(f"batch_size: expected a whole number of at least 1, got {batch_size!r}.")
    if not (_is_whole(seed) and 0 <= seed < 2**32):
        raise ValueError(f"seed: expected a whole number from 0 to {2**32 - 1}, got {seed!r}.")
    if isinstance(check, bool) or not isinstance(check, (int, float)) or not 0 <= check <= 1:
        raise ValueError(f"check: expected a share of the members from 0 to 1, got {check!r}.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _with_numerics(simulator: Any, changes: dict[str, Any]) -> Any:
    if not changes:
        return simulator
    if not hasattr(simulator, "numerics"):
        raise ValueError(f"{', '.join(changes)}: {type(simulator).__name__} has no numerics to change.")
    known = [field.name for field in dataclasses.fields(simulator.numerics)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ValueError(f"expected some of the settings {', '.join(known)}; got {', '.join(unknown)}.")
    return simulator.replace(numerics=dataclasses.replace(simulator.numerics, **changes))


def _record(simulator, design: Design, precision, devices, seed) -> dict[str, Any]:
    numerics = getattr(simulator, "numerics", None)
    return {
        "simulator": getattr(simulator, "name", type(simulator).__name__),
        "fingerprint": fingerprint(simulator),
        "numerics": None if numerics is None else numerics.describe(),
        "precision": precision,
        "method": design.method,
        "seed": design.seed,
        "noise_seed": seed,
        "devices": len(devices),
        "platform": devices[0].platform,
        "versions": dict(_versions()),
    }


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    return tuple((name, version(name)) for name in ("emulax", "jax", "diffrax", "equinox"))
