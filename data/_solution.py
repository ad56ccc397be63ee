"""What a solve returns, whoever answered: a solver, a surrogate or a guard."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ._check import check_kind, shown
from ._label import Label, Source, Status, label


@dataclasses.dataclass(frozen=True)
class Output:
    """One output of a simulator.

    **Arguments:**

    - `unit`: its unit; empty if dimensionless.
    - `dims`: names of its space dimensions, `()` for a scalar at each time, `("x",)` for a field on a line.

    **Raises:** `ValueError` for a unit that is no text, or dimensions that are no names.
    """

    unit: str = ""
    dims: tuple[str, ...] = ()

    def __post_init__(self):
        check_kind("unit", self.unit, str, 'a text such as "m/s"')
        # a text would be taken apart into letters
        check_kind("dims", self.dims, (tuple, list), 'a tuple of names such as ("x",)')
        for dim in self.dims:
            check_kind("dims", dim, str, 'names such as "x"')
        object.__setattr__(self, "dims", tuple(self.dims))


def as_outputs(outputs: Mapping[str, Output] | tuple[str, ...] | list[str]) -> dict[str, Output]:
    """Outputs by name; bare names become scalar outputs without a unit.

    **Raises:** `ValueError` for no outputs, one name twice, or anything but names and `Output`s.
    """
    if isinstance(outputs, str):
        raise ValueError(f"expected a tuple of output names, got the text {outputs!r}; write ({outputs!r},).")
    if not isinstance(outputs, Mapping):
        check_kind("outputs", outputs, Iterable, "names, or names with data.Output(unit=...)")
        names = list(outputs)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"outputs: expected different names, got {twice!r} twice.")
        outputs = {name: Output() for name in names}
    if not outputs:
        raise ValueError("expected at least one output, got none.")
    for name, output in outputs.items():
        check_kind("outputs", name, str, "names that are texts")
        if not isinstance(output, Output):
            unit = output if isinstance(output, str) else "..."
            raise ValueError(f'outputs: {name!r}: expected data.Output(unit="{unit}"), got {shown(output)}.')
    return dict(outputs)


class Solution(eqx.Module):
    """Times, labelled values, and what became of the member.

    For one member the shapes are those below; a batch has the same fields with a leading member axis.

    - `times`: `(time,)`, in the simulator's time unit.
    - `values`: one array `(time, *space)` per output. NaN throughout if the status is not `ok`, and after the event
      if it is `event`.
    - `status`: `Label` of `Status`.
    - `steps`: number of steps tried; 0 for a surrogate.
    - `source`: `Label` of `Source`, who answered.
    - `error`: the stated error, half-width of the calibrated band per value; `None` if the answer is a solver's.
    - `bound`: the surrogate's own estimate of its relative error on this member, a scalar; `None` likewise.
    - `reached`: the time reached, a scalar: the last of `times`, or where a failed member stopped; `None` where nobody
      keeps count, as for a surrogate.
    - `event_time`: the time of the event, a scalar; NaN if it did not happen; `None` where no event is stated.
    - `event_values`: one array `(*space)` per output at that time, likewise.
    """

    times: jax.Array
    values: dict[str, jax.Array]
    status: Label
    steps: jax.Array
    source: Label
    error: dict[str, jax.Array] | None = None
    bound: jax.Array | None = None
    reached: jax.Array | None = None
    event_time: jax.Array | None = None
    event_values: dict[str, jax.Array] | None = None


def finish(
    times, values, status, steps: Any = 0, source=Source.solver, error=None, bound=None, reached=None, event_values=None
) -> Solution:
    """A member's `Solution`: values that are not finite change an `ok` or `event` status; a failed member is NaN
    throughout, one that ended at an event after the time `reached`.

    Values after an event may be anything finite.
    """
    status = jnp.asarray(status, dtype=jnp.int32)
    finite = jnp.stack([jnp.all(jnp.isfinite(value)) for value in [*values.values(), *(event_values or {}).values()]])
    good = (status == Status.ok) | (status == Status.event)
    status = jnp.where(good & ~finite.all(), Status.bad_output, status)
    stopped = status == Status.event

    def mask(value):
        kept = status == Status.ok
        if event_values is not None:
            kept = kept | (stopped & (times <= reached)).reshape(-1, *[1] * (value.ndim - 1))
        return jnp.where(kept, value, jnp.nan)

    def at_event(value):
        return jnp.where(stopped, value, jnp.nan)

    return Solution(
        times=times,
        values={name: mask(value) for name, value in values.items()},
        status=label(status, Status),
        steps=jnp.asarray(steps, dtype=jnp.int32),
        source=label(source, Source),
        error=None if error is None else {name: mask(value) for name, value in error.items()},
        bound=bound,
        reached=reached,
        event_time=None if event_values is None else at_event(reached),
        event_values=None if event_values is None else {name: at_event(value) for name, value in event_values.items()},
    )
