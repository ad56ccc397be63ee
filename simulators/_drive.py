"""The lane engine on one device: keep every lane busy until no member is left.

Under `vmap` a loop of adaptive steps runs until its slowest member is done, and all the others pay for it. Here B lanes
take K trial steps together; then what they saved is written, and lanes whose member is done take the next member from
the queue. The cost follows the sum of all steps over B, not batches times their slowest.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..data import Status
from ._lane import IDLE, Lane, Stepper
from ._members import Members
from ._problem import Problem


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How many lanes, how many trial steps between two looks at the queue, and how many of them are written out."""

    lanes: int
    steps: int
    unroll: int


class Progress(eqx.Module):
    """What is known of the members on one device; a row that is not solved yet means nothing.

    - `states`: packed states at the saved times, `(row, time, ...)`; those of a member that is not `ok` mean nothing.
    - `status`: code of `Status`; `steps`: trial steps; `reached`: the time, counted from the initial state; `(row,)`.
    - `last`: the packed state there, `(row, ...)`; `None` where no event needs it.
    """

    states: Any
    status: jax.Array
    steps: jax.Array
    reached: jax.Array
    last: Any


def begin(problem: Problem, times: jax.Array, rows: int, pack: Callable[[Any], Any]) -> Progress:
    """Room for so many rows, of problems like this one."""
    shape = jax.eval_shape(pack, problem.y0)
    states = jax.tree.map(lambda leaf: jnp.zeros((rows, len(times), *leaf.shape), leaf.dtype), shape)
    last = None
    if problem.event is not None:
        last = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), shape)
    codes = jnp.zeros(rows, jnp.int32)
    return Progress(states, codes, codes, jnp.zeros(rows, times.dtype), last)


def drive(
    problem_of: Callable[[Members], Problem],
    stepper: Stepper,
    schedule: Schedule,
    members: Members,
    queue: jax.Array,
    count: jax.Array,
    most_steps: jax.Array,
    progress: Progress,
    pack: Callable[[Any], Any],
) -> Progress:
    """Solve the members in the first `count` rows of `queue`.

    **Arguments:**

    - `problem_of`: the problem of one member. Its terms are the same for all; what differs is in its `args`.
    - `members`: the rows of this device.
    - `queue`: rows in the order in which lanes take them, `(row,)`.
    - `count`: how many of them there are.
    - `most_steps`: trial steps after which a member is given up.
    - `progress`: what was known before. Compiled with this argument donated, nothing is copied.
    - `pack`: the state as it is to be stored. It is called on what a block saved, not within the loop over steps, where
      it would have the compiler compute every stage once more for each number that it stacks.

    **Returns:** `progress` with these rows solved.
    """
    terms = problem_of(_pick(members, jnp.zeros((), jnp.int32))).terms

    @jax.vmap
    def start(row: jax.Array) -> Lane:
        member = _pick(members, row)
        return stepper.begin(problem_of(member), row, member.refined)

    trial = jax.vmap(lambda lane: stepper.advance(terms, lane, most_steps))
    finished = jax.vmap(stepper.finished)
    locate = jax.vmap(lambda lane: stepper.locate(terms, lane))

    def take(places: jax.Array, states: Any) -> tuple[Lane, Any]:
        """Lanes of the rows at these places of the queue, idle behind its end, and their initial states stored."""
        wanted = jnp.where(places < count, queue.at[places].get(mode="clip"), IDLE)
        lanes = start(wanted)
        for index in range(stepper.first):
            states = _write(states, wanted, jnp.full_like(wanted, index), jax.vmap(pack)(lanes.y))
        return lanes, states

    def block(lanes: Lane, states: Any) -> tuple[Lane, Any]:
        """K trial steps of every lane, and what they saved written."""

        def one(lanes: Lane, _: None):
            after, saves, saved_states = trial(lanes)
            return after, (lanes.saved, saves, saved_states)

        after, (saved, saves, new) = jax.lax.scan(one, lanes, None, length=schedule.steps, unroll=schedule.unroll)
        for index, state in enumerate(new):
            row = jnp.where(index < saves, lanes.row, IDLE)
            states = _write(states, row, saved + index, jax.vmap(jax.vmap(pack))(state))  # (step, lane)
        return after, states

    def body(carry):
        lanes, taken, progress = carry
        lanes, states = block(lanes, progress.states)
        done = finished(lanes) & (lanes.row != IDLE)
        if stepper.event is not None:
            stopped = jnp.any(lanes.status == Status.event)
            lanes = jax.lax.cond(stopped, locate, lambda lanes: lanes, lanes)
        row = jnp.where(done, lanes.row, IDLE)
        place = taken + jnp.cumsum(done, dtype=jnp.int32) - 1
        fresh, states = take(jnp.where(done, place, IDLE), states)
        progress = Progress(
            states,
            status=_put(progress.status, row, lanes.status),
            steps=_put(progress.steps, row, lanes.steps),
            reached=_put(progress.reached, row, lanes.t),
            last=None
            if progress.last is None
            else jax.tree.map(lambda array, value: _put(array, row, value), progress.last, jax.vmap(pack)(lanes.y)),
        )
        lanes = jax.tree.map(lambda new, old: jnp.where(_along(done, new), new, old), fresh, lanes)
        return lanes, taken + jnp.sum(done, dtype=jnp.int32), progress

    lanes, states = take(jnp.arange(schedule.lanes, dtype=jnp.int32), progress.states)
    progress = dataclasses.replace(progress, states=states)
    carry = (lanes, jnp.asarray(schedule.lanes, jnp.int32), progress)
    return jax.lax.while_loop(lambda carry: jnp.any(carry[0].row != IDLE), body, carry)[-1]


def _pick(members: Members, row: jax.Array) -> Members:
    return jax.tree.map(lambda leaf: leaf.at[row].get(mode="clip"), members)


def _put(array: jax.Array, row: jax.Array, value: jax.Array) -> jax.Array:
    return array.at[row].set(value, mode="drop")


def _write(store: Any, row: jax.Array, index: jax.Array, values: Any) -> Any:
    """Values with the leading axes of `row` into (row, index); rows that are `IDLE` write nothing."""
    return jax.tree.map(lambda array, value: array.at[row, index].set(value, mode="drop"), store, values)


def _along(flag: jax.Array, leaf: jax.Array) -> jax.Array:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - 1))
