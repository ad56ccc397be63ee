"""Jumps: times at which a vector field is discontinuous, and steps that end before and begin after them.

A step across a discontinuity has the order of none; an adaptive method finds that out by rejecting steps, and a short
pulse it does not find at all. A step therefore ends at the last number before a jump, the next begins at the first
number after it, and a stage that a method would carry over is evaluated anew.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ULPS = 100  # jumps this close to either end of a solve are no business of its steps


def as_jumps(jumps: Any) -> Any:
    """Jump times as an array, or the function of the parameters that gives them.

    **Raises:** `ValueError` for times that are not finite numbers.
    """
    if jumps is None or callable(jumps):
        return jumps
    try:
        times = np.atleast_1d(np.asarray(jumps, np.float64))
    except (TypeError, ValueError):
        times = np.full(1, np.nan)
    if times.ndim != 1 or not np.isfinite(times).all():
        raise ValueError(f"jumps: expected times, or a function of the parameters that returns them, got {jumps!r}.")
    return times


def within(jumps: jax.Array, stop: jax.Array) -> jax.Array:
    """The jumps strictly between 0 and `stop`, sorted; in place of each other one, infinity."""
    margin = _ULPS * jnp.finfo(jumps.dtype).eps * stop
    return jnp.sort(jnp.where((jumps > margin) & (jumps < stop - margin), jumps, jnp.inf))


def clip(t: jax.Array, end: jax.Array, jumps: jax.Array) -> jax.Array:
    """The end of a step from `t` that meant to go to `end` and may not pass a jump."""
    following = jnp.min(jnp.where(jumps > t, jumps, jnp.inf))
    return jnp.minimum(end, jnp.nextafter(following, -jnp.inf))


def pass_over(end: jax.Array, jumps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where the step after one that ended at `end` begins, and whether there is a jump in between."""
    jump = jnp.any(jnp.nextafter(jumps, -jnp.inf) == end)
    beyond = jnp.nextafter(jnp.nextafter(end, jnp.inf), jnp.inf)
    return jnp.where(jump, beyond, end), jump


def clock(start: float, jumps: Callable[[Any], jax.Array] | None) -> Callable[[jax.Array, Any], jax.Array]:
    """What turns a time counted from the initial state, and the parameters, into the time that a user's function sees.

    A sum with `start` may round a time just before a jump to one after it; `jumps` gives the jumps, counted from
    `start`, for parameters, and on either side of one the sum is kept on that side.
    """
    if start == 0:
        return lambda t, p: t
    if jumps is None:
        return lambda t, p: start + t

    def absolute(t, p):
        times = jumps(p)
        jump = start + times
        earlier = jnp.where(t < times, jnp.nextafter(jump, -jnp.inf), jnp.inf)
        later = jnp.where(t > times, jnp.nextafter(jump, jnp.inf), -jnp.inf)
        return jnp.clip(start + t, jnp.max(later), jnp.min(earlier))

    return absolute
