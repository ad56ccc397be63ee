"""Errors on other grids than the training one, for surrogates of fields that answer on any grid."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data import GaussianRandomField
from ..simulators import solve_ensemble
from ._metrics import mean_relative, member_error, summary

Arrays = Mapping[str, np.ndarray]
MEMBERS = 64


def grid_errors(
    surrogate: Any, simulator: Any, members: Arrays, truth: Arrays, given: int, precision: str
) -> dict[str, Any] | None:
    """Member errors of the first members on the training grid, on one of twice as many points, and on one of half as
    many where that resolves the fields.

    A random field is a trigonometric polynomial, whose values on another grid are exact. The truth on the finer grid is
    solved with `simulator.replace(points=...)`; on the coarser one it is every other point of the truth at hand.

    **Arguments:**

    - `members`: parameters of the held-out members, `(member, *shape)`; `truth`: their outputs `(member, time, point)`.
    - `given`: leading times left out of errors.
    - `precision`: arithmetic of the truth.

    **Returns:** JSON-ready; `None` without fields on one periodic dimension, for a network that knows one grid only,
    and for a simulator that cannot be solved on another.
    """
    points = _points(surrogate, simulator)
    if points is None or not _answers(surrogate, members, 2 * points):
        return None
    members = {name: value[:MEMBERS] for name, value in members.items()}
    known = {name: value[:MEMBERS] for name, value in truth.items()}
    solved = _solve(simulator, on_grid(members, 2 * points), 2 * points, surrogate.times, precision)
    if solved is None or not solved.ok.any():
        return None
    kept = np.flatnonzero(solved.ok)
    exact = {2 * points: solved.values, points: known}
    if _is_resolved(simulator, points // 2) and points % 2 == 0:
        exact[points // 2] = {name: value[..., ::2] for name, value in known.items()}
    entries = [
        {"points": count} | _errors(surrogate, on_grid(members, count), exact[count], kept, given)
        for count in sorted(exact)
    ]
    return {"members": int(kept.size), "trained": points, "entries": entries}


def _points(surrogate: Any, simulator: Any) -> int | None:
    """Points of the one grid of all fields, inputs and outputs alike; `None` where there is none."""
    fields = [kind for kind in simulator.parameters.values() if kind.shape]
    if not fields or not all(isinstance(kind, GaussianRandomField) for kind in fields):
        return None
    if any(len(output.dims) != 1 for output in surrogate.outputs.values()):
        return None
    counts = {kind.points for kind in fields} | {len(axis) for axis in surrogate.coordinates.values()}  # type: ignore[attr-defined]
    counts.add(getattr(simulator, "points", None))
    return counts.pop() if len(counts) == 1 else None


def _is_resolved(simulator: Any, points: int) -> bool:
    return all(points > 2 * kind.modes for kind in simulator.parameters.values() if kind.shape)


def _answers(surrogate: Any, members: Arrays, points: int) -> bool:
    """Whether the network takes fields of so many points and gives as many."""
    with jax.enable_x64(True):
        one = {
            name: jax.ShapeDtypeStruct((points,) if value.ndim == 2 else (), jnp.float64)
            for name, value in members.items()
        }
        try:
            found = jax.eval_shape(surrogate.predict, one)
        except (ValueError, TypeError):
            return False
    return all(value.shape[-1] == points for value in found.values())


def on_grid(members: Arrays, points: int) -> dict[str, np.ndarray]:
    """Fields `(member, point)` of periodic functions on another number of points, a multiple or a divisor of theirs;
    scalars as they are."""

    def moved(field: np.ndarray) -> np.ndarray:
        count = field.shape[-1]
        if points <= count:
            return field[:, :: count // points]
        spectrum = np.fft.rfft(field, norm="forward")
        if count % 2 == 0:
            spectrum[:, -1] /= 2  # the highest mode of an even grid stands for its conjugate too
        return np.fft.irfft(spectrum, points, norm="forward")

    return {name: moved(np.asarray(value)) if value.ndim == 2 else value for name, value in members.items()}


def _solve(simulator: Any, members: Arrays, points: int, times: np.ndarray, precision: str) -> Any:
    """The members solved on `points` points, or `None` if the simulator cannot be."""
    try:
        finer = simulator.replace(points=points)
        solved = solve_ensemble(finer, members, times=times, precision=precision, check=0)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return None
    return solved if all(value.shape[-1] == points for value in solved.values.values()) else None


def _errors(surrogate: Any, members: Arrays, exact: Arrays, kept: np.ndarray, given: int) -> dict[str, Any]:
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(surrogate.predict))({name: value[kept] for name, value in members.items()})
    predicted = {name: np.asarray(found[name])[:, given:] for name in exact}
    exact = {name: value[kept][:, given:] for name, value in exact.items()}
    numbers = summary(member_error(predicted, exact))
    return {key: numbers[key] for key in ("median", "p95", "worst", "blow_ups")} | {
        "mean": max(mean_relative(predicted[name], exact[name]) or 0.0 for name in exact)
    }
