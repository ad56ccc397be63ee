"""One lane of the ensemble engine: a member under way, and what one trial step makes of it.

A lane takes the steps that `diffrax.diffeqsolve` would take: same first step, same error norm, same decisions. All is
written for one lane and one trial step; `vmap` and the loops are outside.
"""

import dataclasses
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Status
from ._control import scaled_error, step_factor
from ._event import Event, crossing
from ._jumps import clip, pass_over
from ._numerics import MORE_STEPS, Accuracy, Numerics
from ._problem import Problem, first_step, with_tolerances

IDLE = np.iinfo(np.int32).max  # the row of a lane without a member; writing to it writes nothing
_ULPS = 100  # a step that ends this close to the last time ends there, as in diffrax


class Lane(eqx.Module):
    """A member under way.

    - `row`: the member's row among those of its device, or `IDLE`.
    - `t`, `end`: start and end of the next trial step, counted from the initial state.
    - `y`, `solver_state`: where the member stands at `t`.
    - `args`: its parameters, as the terms take them.
    - `refined`: whether it is solved with `Numerics.refined()`.
    - `jumps`: of its problem; `before`: the event's value at `t`; `None` where there are none.
    - `saved`: how many times are saved; `steps`: trial steps so far; `status`: code of `Status`.
    """

    row: jax.Array
    t: jax.Array
    end: jax.Array
    y: Any
    solver_state: Any
    args: Any
    refined: jax.Array
    jumps: jax.Array | None
    before: jax.Array | None
    saved: jax.Array
    steps: jax.Array
    status: jax.Array


@dataclasses.dataclass(frozen=True)
class Stepper:
    """How lanes move: what all members of an ensemble share.

    - `solver`: a diffrax solver; `numerics`: tolerances or fixed step, those of refined members follow from them.
    - `times`: saved times, `(time,)`; `first`: how many of them are the initial time itself.
    - `most_saves`: times that one trial step may save; a step over more is repeated without advancing.
    - `event`: where a member ends early, or `None`.
    """

    solver: Any
    numerics: Numerics
    times: jax.Array
    first: int
    most_saves: int
    event: Event | None = None

    @property
    def stop(self) -> jax.Array:
        return self.times[-1]

    def begin(self, problem: Problem, row: jax.Array, refined: jax.Array) -> Lane:
        """A member before its first step."""
        terms, y0, args = problem.terms, problem.y0, problem.args
        start = jnp.zeros((), self.times.dtype)
        accuracy = self.numerics.accuracy(refined)
        end = self._clip(start, jnp.minimum(first_step(problem, self.solver, accuracy), self.stop), problem.jumps)
        state = self._fresh(terms, start, end, y0, args, accuracy)
        finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(y0)]).all()
        status = jnp.where(problem.known, jnp.where(finite, Status.ok, Status.non_finite), Status.bad_parameter)
        zero = jnp.zeros((), jnp.int32)
        return Lane(
            row=row,
            t=start,
            end=end,
            y=y0,
            solver_state=state,
            args=args,
            refined=refined,
            jumps=problem.jumps,
            before=None if self.event is None else self.event.value(start, y0, args),
            saved=zero + self.first,
            steps=zero,
            status=status.astype(jnp.int32),
        )

    def finished(self, lane: Lane) -> jax.Array:
        """Whether a lane has nothing more to do: all is saved, or its member failed."""
        return (lane.row == IDLE) | (lane.saved >= len(self.times)) | (lane.status != Status.ok)

    def advance(self, terms: Any, lane: Lane, most_steps: jax.Array) -> tuple[Lane, jax.Array, tuple[Any, ...]]:
        """One trial step.

        **Returns:** the lane after it, how many times it saved, and the states at the next `most_saves` times, of which
        that many count.
        """
        idle = self.finished(lane)
        accuracy = self.numerics.accuracy(lane.refined)
        y1, error, dense, state, result = self._step(terms, lane, accuracy)
        keep, factor = self._judge(lane, terms, y1, error, accuracy)
        good = keep & (result == diffrax.RESULTS.successful)
        count = jnp.where(idle | ~good, 0, self._due(lane))
        path = self.solver.interpolation_cls(t0=lane.t, t1=lane.end, **dense)
        states = tuple(path.evaluate(self._time(lane.saved + i)) for i in range(self.most_saves))
        saved = lane.saved + count
        repeat = good & (saved < len(self.times)) & (self._time(saved) <= lane.end)
        moved = good & ~repeat & ~idle
        tried = ~repeat & ~idle
        steps = lane.steps + tried
        beyond, end = self._next(lane, steps, keep, factor, accuracy)
        if lane.jumps is not None:
            state = self._after_jump(terms, lane, beyond, end, y1, state, accuracy)
        stopped, before = jnp.zeros((), bool), lane.before
        if self.event is not None and before is not None:
            value = self.event.value(lane.end, y1, lane.args)
            stopped = moved & self.event.crossed(before, value)
            moved = moved & ~stopped  # the step is taken again to look for the time within it
            before = jnp.where(moved, value, before)
        t = jnp.where(moved, beyond, lane.t)
        end = jnp.where(tried & ~stopped, end, lane.end)

        def settle(new, old):
            return jnp.where(moved, new, old)

        status = jnp.where(tried, self._status(lane, t, end, steps, keep, result, most_steps, saved), lane.status)
        status = jnp.where(stopped, Status.event, status)
        after = Lane(
            row=lane.row,
            t=t,
            end=end,
            y=jax.tree.map(settle, y1, lane.y),
            solver_state=jax.tree.map(settle, state, lane.solver_state),
            args=lane.args,
            refined=lane.refined,
            jumps=lane.jumps,
            before=before,
            saved=saved,
            steps=steps,
            status=status.astype(jnp.int32),
        )
        return after, count, states

    def locate(self, terms: Any, lane: Lane) -> Lane:
        """The lane moved to its event, if that is what ended it; to be called once."""
        event = self.event
        assert event is not None
        dense = self._step(terms, lane, self.numerics.accuracy(lane.refined))[2]
        path = self.solver.interpolation_cls(t0=lane.t, t1=lane.end, **dense)
        time = crossing(lambda t: event.value(t, path.evaluate(t), lane.args), lane.t, lane.end)
        stopped = lane.status == Status.event
        y = jax.tree.map(lambda new, old: jnp.where(stopped, new, old), path.evaluate(time), lane.y)
        return dataclasses.replace(lane, t=jnp.where(stopped, time, lane.t), y=y)

    def _step(self, terms: Any, lane: Lane, accuracy: Accuracy) -> tuple[Any, Any, Any, Any, Any]:
        """The solver's step from `lane.t` to `lane.end`: state, error, dense output, solver state, result."""
        y1, error, dense, state, result = with_tolerances(self.solver, accuracy).step(
            terms, lane.t, lane.end, lane.y, lane.args, self._unpack(lane.solver_state), made_jump=False
        )
        return y1, error, dense, state[1] if self._keeps_first_stage(state) else state, result

    def _fresh(self, terms: Any, t: jax.Array, end: jax.Array, y: Any, args: Any, accuracy: Accuracy) -> Any:
        """The solver's state before a step that has none before it."""
        state = with_tolerances(self.solver, accuracy).init(terms, t, end, y, args)
        if self._keeps_first_stage(state):
            # a stock solver would evaluate its first stage for every lane as long as any lane is new
            state = self.solver.func(terms, t, y, args)
        return state

    def _after_jump(self, terms, lane: Lane, t: jax.Array, end: jax.Array, y1: Any, state: Any, accuracy) -> Any:
        """The solver's state after a step, made anew where a jump followed it."""
        fresh = self._fresh(terms, t, end, y1, lane.args, accuracy)
        return jax.tree.map(lambda new, old: jnp.where(t != lane.end, new, old), fresh, state)

    def _clip(self, t: jax.Array, end: jax.Array, jumps: jax.Array | None) -> jax.Array:
        return end if jumps is None else clip(t, end, jumps)

    def _judge(self, lane: Lane, terms: Any, y1: Any, error: Any, accuracy: Accuracy) -> tuple[jax.Array, jax.Array]:
        """Whether the step is good enough, and the next one over it."""
        if accuracy.step is not None:
            finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(y1)]).all()
            return finite, jnp.ones_like(lane.t)
        size = scaled_error(lane.y, y1, error, accuracy.rtol, accuracy.atol)
        keep = size < 1
        return keep, step_factor(size, keep, self.solver.error_order(terms)).astype(lane.t.dtype)

    def _next(
        self, lane: Lane, steps: jax.Array, keep: jax.Array, factor: jax.Array, accuracy: Accuracy
    ) -> tuple[jax.Array, jax.Array]:
        """Start, if this step is kept, and end of the next trial step."""
        beyond = lane.end if lane.jumps is None else pass_over(lane.end, lane.jumps)[0]
        start = jnp.where(keep, beyond, lane.t)
        if accuracy.step is None:
            end = start + factor * (lane.end - lane.t)
        else:
            end = (steps + 1) * jnp.asarray(accuracy.step, start.dtype)  # a sum would gather rounding
        near = self.stop * (1 - _ULPS * jnp.finfo(end.dtype).eps)
        end = jnp.where(end > near, jnp.where(keep, self.stop, start + 0.5 * (self.stop - start)), end)
        return beyond, self._clip(start, end, lane.jumps)

    def _status(self, lane, t, end, steps, keep, result, most_steps, saved) -> jax.Array:
        """The member's status after a trial step that counts."""
        broken = keep & (result != diffrax.RESULTS.successful)
        if self.numerics.step is not None:
            broken |= ~keep  # a state that is not finite, and no smaller step to try
        unfinished = saved < len(self.times)
        stuck = unfinished & ~(end > t)
        more = jnp.minimum(most_steps, np.iinfo(np.int32).max // MORE_STEPS) * MORE_STEPS
        most_steps = jnp.where(lane.refined, more, most_steps)
        status = jnp.where(unfinished & (steps >= most_steps), Status.max_steps, lane.status)
        lost = Status.non_finite if self.numerics.step is not None else Status.solver_failed
        return jnp.where(broken | stuck, lost, status)

    def _due(self, lane: Lane) -> jax.Array:
        """How many of the next `most_saves` times lie within the trial step."""
        ahead = [lane.saved + i for i in range(self.most_saves)]
        within = [(i < len(self.times)) & (self._time(i) <= lane.end) for i in ahead]
        return jnp.sum(jnp.stack(within), dtype=jnp.int32) if len(within) > 1 else within[0].astype(jnp.int32)

    def _keeps_first_stage(self, state: Any) -> bool:
        """Whether a solver's state is diffrax' pair of a flag, whether to evaluate the first stage, and its value."""
        return isinstance(self.solver, diffrax.AbstractRungeKutta) and isinstance(state, tuple) and len(state) == 2

    def _unpack(self, state: Any) -> Any:
        stock = isinstance(self.solver, diffrax.AbstractRungeKutta) and state is not None
        return (False, state) if stock else state

    def _time(self, index: jax.Array) -> jax.Array:
        return self.times.at[index].get(mode="clip")
