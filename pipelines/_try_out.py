"""A user's simulator traced once, so that a mistake in its functions is named before anything is solved."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ..simulators import AbstractSimulator, ODESimulator
from ._blame import blame, place_of, what


def try_out(simulator: AbstractSimulator, path: Path) -> None:
    """Trace the solution of one member; nothing is computed.

    **Arguments:**

    - `simulator`: made in the user's file at `path`.

    **Raises:** `ValueError` naming the file, and the line where that is known.
    """
    with jax.enable_x64(True):
        p = {name: jax.ShapeDtypeStruct(kind.shape, jnp.float64) for name, kind in simulator.parameters.items()}
        if isinstance(simulator, ODESimulator):
            _check_functions(simulator, p, path)
        _traced(simulator.solve, (p,), path, path.name, simulator.parameters)


def _check_functions(simulator: ODESimulator, p: Mapping[str, Any], path: Path) -> None:
    """Whether vector field, initial state and observation fit together."""
    known, time = simulator.parameters, jax.ShapeDtypeStruct((), jnp.float64)
    field, start, observe = simulator.vector_field, simulator.initial_state, simulator.observe

    def state(p):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start(p))

    places = {function: place_of(function, path.parent) for function in (field, start, observe) if function is not None}
    _check_signature(start, ("p",), f"{places[start]}: initial_state")
    y = _traced(state, (p,), path, f"{places[start]}: initial_state", known)
    _check_signature(field, ("t", "y", "p"), f"{places[field]}: vector_field")
    slope = _traced(field, (time, y, p), path, f"{places[field]}: vector_field", known)
    if not _fits(slope, y):
        stack = "; return jnp.stack([...])" if isinstance(slope, (list, tuple)) else ""
        raise ValueError(
            f"{places[field]}: vector_field: expected {_shape(y)}, as initial_state returns, got {_shape(slope)}{stack}"
        )
    if observe is not None:
        _check_signature(observe, ("t", "y", "p"), f"{places[observe]}: observe")
        seen = _traced(observe, (time, y, p), path, f"{places[observe]}: observe", known)
        if not isinstance(seen, Mapping) or set(seen) != set(simulator.outputs):
            names = ", ".join(simulator.outputs)
            raise ValueError(f"{places[observe]}: observe: expected a dict of the outputs {names}, got {_shape(seen)}")


def _check_signature(function: Callable, arguments: tuple[str, ...], where: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise ValueError(f"{where}: expected a function of {', '.join(arguments)}, got one of {signature}") from None


def _traced(function: Callable, arguments: tuple[Any, ...], path: Path, where: str, names: Mapping[str, Any]) -> Any:
    """Shapes of what a function returns; an error that passed no line of the user's is put down to `where`."""
    try:
        return jax.eval_shape(lambda *given: function(*given), *arguments)
    except Exception as error:
        raise blame(error, path.parent, names) or ValueError(f"{where}: {what(error, names)}") from error


def _fits(slope: Any, y: Any) -> bool:
    """Whether a derivative has the structure of the state, up to broadcasting."""
    if jax.tree.structure(slope) != jax.tree.structure(y):
        return False
    pairs = zip(jax.tree.leaves(slope), jax.tree.leaves(y), strict=True)
    return all(_broadcasts(one.shape, other.shape) for one, other in pairs)


def _broadcasts(one: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(one) <= len(to) and all(a in (1, b) for a, b in zip(one[::-1], to[::-1], strict=False))


def _shape(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(str, value))}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"an array of shape {value.shape}" if hasattr(value, "shape") else f"a {type(value).__name__}"
