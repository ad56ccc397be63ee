"""Solve a whole design: the ensemble engine."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Design, Ensemble, Solution, as_design
from ._devices import join, map_members, pad_members, pick_devices, split
from ._fingerprint import fingerprint

Precision = Literal["double", "single"]

# compiled solves by simulator, shapes and devices: equal shapes never trace again
_COMPILED: dict[Any, Callable] = {}
_MOST_COMPILED = 32


def solve_ensemble(
    simulator: Any,
    design: Mapping[str, Any],
    *,
    times: Any = None,
    precision: Precision = "double",
    devices: int | Sequence[Any] | None = None,
    batch_size: int | None = None,
    seed: int = 0,
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
    - `seed`: randomness of stochastic simulators; member i depends on `seed` and i alone.
    - `progress`: called with (members done, members in all) after each batch.
    - `numerics`: `solver`, `rtol`, `atol`, `step`, `max_steps`, in place of the simulator's own.

    **Returns:** an `Ensemble` of exactly as many members, in the order of the design. A member that fails is NaN with
    a status; the others are unaffected.

    **Raises:** `ValueError` for a design, times, devices or settings that cannot be meant, before anything is solved.
    """
    if hasattr(simulator, "solve_members"):
        return simulator.solve_members(
            design, times=times, precision=precision, devices=devices, batch_size=batch_size, seed=seed,
            progress=progress, **numerics,
        )  # fmt: skip
    if precision not in ("double", "single"):
        raise ValueError(f"precision: expected 'double' or 'single', got {precision!r}.")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {batch_size}.")
    simulator = _with_numerics(simulator, numerics)
    design = as_design(simulator.parameters, design)
    chosen = pick_devices(devices)
    with jax.enable_x64(precision == "double"):
        parameters, solution, seconds, compiling = _solve_batches(
            simulator, design, times, chosen, batch_size, seed, progress
        )
    return Ensemble(
        parameters=parameters,
        solution=solution,
        size=design.members,
        space=simulator.parameters,
        outputs=simulator.outputs,
        coordinates=simulator.coordinates,
        time_unit=getattr(simulator, "time_unit", ""),
        metadata=_record(simulator, design, precision, chosen, seed)
        | {"seconds": seconds, "compile_seconds": compiling},
    )


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


def _solve_batches(simulator, design: Design, times, devices, batch_size, seed, progress):
    """All members, batch by batch: parameters, solution, seconds solving, seconds compiling."""
    members = design.members
    size = members if batch_size is None else min(batch_size, members)
    rows = dict(design.items()) | {"": np.arange(members)}
    done, seconds, compiling = [], 0.0, 0.0
    for start in range(0, members, size):
        batch = {name: value[start : start + size] for name, value in rows.items()}
        padded = pad_members(batch, size) if batch_size else batch  # one shape for every batch
        inputs = split(pad_members(padded, len(devices)), len(devices))
        before = time.perf_counter()
        solve = _compiled(simulator, times, inputs, devices, seed)
        ready = time.perf_counter()
        result = join(jax.block_until_ready(solve(inputs)))
        seconds, compiling = seconds + time.perf_counter() - ready, compiling + ready - before
        count = min(size, members - start)
        done.append(result if batch_size is None else jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:n], result))
        if progress is not None:
            progress(start + count, members)
    parameters, solution = done[0] if len(done) == 1 else jax.tree.map(lambda *parts: np.concatenate(parts), *done)
    # every member has the same times
    solution = dataclasses.replace(solution, times=solution.times[0])
    return parameters, solution, seconds, compiling


def _compiled(simulator, times, inputs, devices, seed) -> Callable:
    """The compiled ensemble solve for these shapes; from the cache where it is there."""
    shared, static = eqx.partition(simulator, lambda leaf: isinstance(leaf, jax.Array))
    shapes = tuple((name, value.shape) for name, value in inputs.items())
    times = None if times is None else tuple(np.asarray(times, np.float64).tolist())
    shared = (shared, np.uint32(seed))  # pmap wants one array at least: it confuses the axes of an empty argument
    key = _key(static, (times, shapes, tuple(devices), jnp.result_type(float)))
    if key in _COMPILED:
        solve = _COMPILED[key] = _COMPILED.pop(key)  # most recent last
        return lambda members: solve(shared, members)

    def solve_member(shared, member) -> tuple[dict[str, jax.Array], Solution]:
        arrays, noise = shared
        params = {name: jnp.asarray(value, float) for name, value in member.items() if name}
        random = jax.random.fold_in(jax.random.key(noise), member[""])
        return params, eqx.combine(arrays, static).solve(params, times, key=random)

    solve = map_members(solve_member, devices).lower(shared, inputs).compile()
    if key is not None:
        _COMPILED[key] = solve
        if len(_COMPILED) > _MOST_COMPILED:
            del _COMPILED[next(iter(_COMPILED))]
    return lambda members: solve(shared, members)


def _key(static: Any, rest: tuple) -> Any:
    """A key for the cache, or `None` if the simulator holds something that cannot be compared."""
    leaves, structure = jax.tree.flatten(static)
    # constants such as times are NumPy arrays, compared by content
    comparable = ((leaf.shape, leaf.dtype, leaf.tobytes()) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves)
    key = (structure, tuple(comparable), rest)
    try:
        hash(key)
    except TypeError:
        return None
    return key


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
        "versions": {name: version(name) for name in ("emulax", "jax", "diffrax", "equinox")},
    }
