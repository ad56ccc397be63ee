"""Events: where a member's solve ends before its last time, and how that time is found."""

from collections.abc import Callable
from typing import Any, Literal

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix

DIRECTIONS = ("either", "rising", "falling")


class Event(eqx.Module):
    """Ends a member at the first time at which g(t, y, p) changes sign.

    The sign is compared at the two ends of every step of the solver, so that two changes within one step pass unseen; a
    member that starts with g = 0 is not stopped by that. The time is found to rounding, on the solver's own dense
    output, whose error is that of the solver. For several conditions return the smallest or the largest of them.

    **Arguments:**

    - `function`: `g(t, y, p)`, one real number; `p` are the parameters by name.
    - `direction`: which changes count: `"rising"` from negative to positive, `"falling"`, or `"either"`.

    **Raises:** `ValueError` for what is no function or another direction.
    """

    function: Callable
    direction: Literal["either", "rising", "falling"] = eqx.field(default="either", static=True)

    def __check_init__(self):
        if not callable(self.function):
            raise ValueError(f"event: expected a function g(t, y, p) that returns one number, got {self.function!r}.")
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: expected one of {', '.join(DIRECTIONS)}, got {self.direction!r}.")

    def value(self, t: Any, y: Any, args: Any) -> jax.Array:
        """g, checked: one real number.

        **Raises:** `ValueError` if it is not.
        """
        value = jnp.asarray(self.function(t, y, args))
        if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(
                f"event: expected g(t, y, p) to return one real number that changes sign, got shape {value.shape} of "
                f"{value.dtype}."
            )
        return value

    def crossed(self, before: jax.Array, after: jax.Array) -> jax.Array:
        """Whether g changed sign from one end of a step to the other."""
        rose, fell = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
        return {"either": rose | fell, "rising": rose, "falling": fell}[self.direction]

    def moved(self, change: Callable[[Callable], Callable]) -> "Event":
        """The same event with another function in place of `g`."""
        return Event(change(self.function), self.direction)


def crossing(sign: Callable[[jax.Array], jax.Array], lower: jax.Array, upper: jax.Array) -> jax.Array:
    """The time in (lower, upper], to rounding, at which `sign` first differs from what it is at `lower`; by halving."""
    start = jnp.sign(sign(lower))

    def unfinished(bounds):
        lower, upper = bounds
        middle = lower + (upper - lower) / 2
        return (middle > lower) & (middle < upper)

    def halve(bounds):
        lower, upper = bounds
        middle = lower + (upper - lower) / 2
        same = jnp.sign(sign(middle)) == start
        return jnp.where(same, middle, lower), jnp.where(same, upper, middle)

    return jax.lax.while_loop(unfinished, halve, (lower, upper))[1]


class _Halving(optimistix.AbstractRootFinder):
    """`crossing` as a root finder: signs alone decide, so that no tolerance can be too tight for a dtype or a unit."""

    rtol: float = 0.0
    atol: float = 0.0
    norm: Callable = jnp.abs

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        lower, upper = (jnp.asarray(options[name], y.dtype) for name in ("lower", "upper"))
        return crossing(lambda t: fn(t, args)[0], lower, upper)

    def step(self, fn, y, args, options, state, tags):
        return state, state, fn(state, args)[1]

    def terminate(self, fn, y, args, options, state, tags):
        return y == state, optimistix.RESULTS.successful

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        return y, aux, {}


def as_diffrax(event: Event, terms: Any) -> diffrax.Event:
    """The event for `diffrax.diffeqsolve`, of a problem whose time starts at 0."""

    def condition(t, y, args, **_):
        value = event.value(t, y, args)
        if event.direction != "either":
            return -value if event.direction == "rising" else value
        # diffrax takes a change from 0 for an event: at the start the sign is the one that g is about to have
        slope = jax.jvp(lambda t, y: event.value(t, y, args), (t, y), (jnp.ones_like(t), terms.vf(t, y, args)))[1]
        return jnp.where((t == 0) & (value == 0), slope, value)

    return diffrax.Event(condition, _Halving(), direction=None if event.direction == "either" else False)


def held(times: jax.Array, states: Any, stop: jax.Array, last: Any) -> Any:
    """States at `times`, those after `stop` replaced by the `last` one: what is there otherwise means nothing."""

    def leaf(states, last):
        before = (times <= stop).reshape(-1, *[1] * (states.ndim - 1))
        return jnp.where(before, states, last)

    return jax.tree.map(leaf, states, last)
