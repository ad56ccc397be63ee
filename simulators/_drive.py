"""The lane engine on one device: keep every lane busy until no member is left.

Under `vmap` a loop of adaptive steps runs until its slowest member is done, and all the others pay for it. Here B lanes
take K trial steps together; then what they saved is written, and lanes whose member is done take the next member from
the queue. The cost follows the sum of all steps over B, not batches times their slowest.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ._lane import IDLE, Lane, Stepper
from ._problem import Problem


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How many lanes, how many trial steps between two looks at the queue, and how many of them are written out."""

    lanes: int
    steps: int
    unroll: int


def drive(
    problem_of: Callable[[Any], Problem],
    stepper: Stepper,
    schedule: Schedule,
    members: Any,
    count: jax.Array,
    most_steps: jax.Array,
    pack: Callable[[Any], Any] = lambda state: state,
) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
    """Solve the first `count` of `members`.

    **Arguments:**

    - `problem_of`: the problem of one member. Its terms are the same for all; what differs is in its `args`.
    - `members`: pytree of arrays with a leading row axis.
    - `count`: rows that are members; the rest is padding and is not solved.
    - `most_steps`: trial steps after which a member is given up.
    - `pack`: the state as it is to be stored. It is called on what a block saved, not within the loop over steps, where
      it would have the compiler compute every stage once more for each number that it stacks.

    **Returns:** packed states at the saved times with leading axes (row, time), NaN where a member did not come; the
    status, the number of trial steps and the time reached of every row.
    """
    rows = jax.tree.leaves(members)[0].shape[0]
    terms = problem_of(_pick(members, jnp.zeros((), jnp.int32))).terms
    begin = jax.vmap(lambda row: stepper.begin(problem_of(_pick(members, row)), row))
    trial = jax.vmap(lambda lane: stepper.advance(terms, lane, most_steps))
    finished = jax.vmap(stepper.finished)

    def take(wanted: jax.Array, store: Any) -> tuple[Lane, Any]:
        """Lanes of the wanted rows, those beyond the last member idle, and their initial states stored."""
        wanted = jnp.where(wanted < count, wanted, IDLE)
        lanes = begin(wanted)
        for index in range(stepper.first):
            store = _write(store, wanted, jnp.full_like(wanted, index), jax.vmap(pack)(lanes.y))
        return lanes, store

    def block(lanes: Lane, store: Any) -> tuple[Lane, Any]:
        """K trial steps of every lane, and what they saved written."""

        def one(lanes: Lane, _: None):
            after, saves, states = trial(lanes)
            return after, (lanes.saved, saves, states)

        after, (saved, saves, states) = jax.lax.scan(one, lanes, None, length=schedule.steps, unroll=schedule.unroll)
        for index, state in enumerate(states):
            row = jnp.where(index < saves, lanes.row, IDLE)
            store = _write(store, row, saved + index, jax.vmap(jax.vmap(pack))(state))  # (step, lane)
        return after, store

    def body(carry):
        lanes, queue, store, status, steps, reached = carry
        lanes, store = block(lanes, store)
        done = finished(lanes) & (lanes.row != IDLE)
        row = jnp.where(done, lanes.row, IDLE)
        status, steps = _put(status, row, lanes.status), _put(steps, row, lanes.steps)
        reached = _put(reached, row, lanes.t)
        place = jnp.cumsum(done, dtype=jnp.int32) - 1
        fresh, store = take(jnp.where(done, queue + place, IDLE), store)
        lanes = jax.tree.map(lambda new, old: jnp.where(_along(done, new), new, old), fresh, lanes)
        return lanes, queue + jnp.sum(done, dtype=jnp.int32), store, status, steps, reached

    lane = jax.eval_shape(lambda: stepper.begin(problem_of(_pick(members, jnp.zeros((), jnp.int32))), jnp.int32(0)))
    store = jax.tree.map(
        lambda leaf: jnp.full((rows, len(stepper.times), *leaf.shape), jnp.nan, leaf.dtype),
        jax.eval_shape(pack, lane.y),
    )
    lanes, store = take(jnp.arange(schedule.lanes, dtype=jnp.int32), store)
    codes = jnp.zeros(rows, jnp.int32)
    carry = (lanes, jnp.asarray(schedule.lanes, jnp.int32), store, codes, codes, jnp.zeros(rows, lane.t.dtype))
    carry = jax.lax.while_loop(lambda carry: jnp.any(carry[0].row != IDLE), body, carry)
    return carry[2:]


def _pick(members: Any, row: jax.Array) -> Any:
    return jax.tree.map(lambda leaf: leaf.at[row].get(mode="clip"), members)


def _put(array: jax.Array, row: jax.Array, value: jax.Array) -> jax.Array:
    return array.at[row].set(value, mode="drop")


def _write(store: Any, row: jax.Array, index: jax.Array, values: Any) -> Any:
    """Values with the leading axes of `row` into (row, index); rows that are `IDLE` write nothing."""
    return jax.tree.map(lambda array, value: array.at[row, index].set(value, mode="drop"), store, values)


def _along(flag: jax.Array, leaf: jax.Array) -> jax.Array:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - 1))
