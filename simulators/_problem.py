"""The initial value problem of one member: what an engine needs to know of a simulator."""

import abc
from collections.abc import Mapping
from typing import Any, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from ..data import Solution, Status, finish
from ._control import initial_step
from ._event import Event, as_diffrax, held
from ._numerics import Accuracy, Numerics
from ._rosenbrock import Rodas5P
from ._simulator import AbstractSimulator

LOST = (Status.max_steps, Status.non_finite, Status.solver_failed)  # after which another solver is worth a try


class Problem(eqx.Module):
    """dy/dt = f(t, y, args), y(0) = y0, wanted at `times`.

    Time is counted from the initial state, so that a late origin (a year such as 1900) costs no digits of the step.

    **Arguments:**

    - `terms`: diffrax terms; their time is that of this problem.
    - `y0`: the initial state, an array or a pytree of arrays.
    - `args`: what the terms take besides time and state.
    - `times`: `(time,)`, increasing, none negative.
    - `known`: whether every parameter is finite; if not, the numbers above are placeholders.
    - `event`: where the solve ends early, its time that of this problem; or `None`.
    - `jumps`: times at which the vector field is discontinuous, `(jump,)`, sorted, infinite ones unused; or `None`.
    """

    terms: Any
    y0: Any
    args: Any
    times: jax.Array
    known: jax.Array
    event: Event | None = None
    jumps: jax.Array | None = None


class AbstractInitialValueSimulator(AbstractSimulator):
    """A simulator that states an initial value problem and leaves solving it to an engine.

    A subclass declares the fields of `AbstractSimulator`, `problem` and `observables`.
    """

    @abc.abstractmethod
    def problem(self, params: Mapping[str, Any], ts: Any = None) -> Problem:
        """The initial value problem of one member.

        **Raises:** `ValueError` for parameters or times that cannot be meant.
        """

    @abc.abstractmethod
    def observables(self, times: jax.Array, states: Any, args: Any) -> dict[str, jax.Array]:
        """The outputs, `(time, *space)` each, of states with a leading time axis.

        `times` are those of the problem, counted from the initial state.
        """

    @property
    @abc.abstractmethod
    def start(self) -> float:
        """The time at which the initial state holds."""

    def solve(self, params: Mapping[str, Any], ts: Any = None, *, key: jax.Array | None = None) -> Solution:
        """One `diffrax.diffeqsolve`, differentiable as that is.

        With `numerics.solver` left to `"auto"` that is `diffrax.Tsit5`; outside traced code, where it is known that it
        lost the member, `simulators.Rodas5P` has a second try.
        """
        del key
        problem = self.problem(params, ts)
        solution = self._solve_by(self.numerics.method, problem)
        code = solution.status.code
        if self.numerics.automatic and not isinstance(code, Tracer) and int(code) in LOST:
            return self._solve_by(Rodas5P(), problem)
        return solution

    def _solve_by(self, solver: diffrax.AbstractSolver, problem: Problem) -> Solution:
        solution = diffrax.diffeqsolve(
            problem.terms,
            with_tolerances(solver, self.numerics),
            t0=jnp.zeros((), problem.times.dtype),
            t1=problem.times[-1],
            dt0=jax.lax.stop_gradient(first_step(problem, solver, self.numerics)),
            y0=problem.y0,
            args=problem.args,
            saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=problem.times), diffrax.SubSaveAt(t1=True)]),
            stepsize_controller=_controller(self.numerics, problem),
            event=None if problem.event is None else as_diffrax(problem.event, problem.terms),
            max_steps=self.numerics.max_steps,
            throw=False,  # an exception would need a host callback and stop every member
        )
        states, last = cast(Any, solution.ys)
        _, (reached,) = cast(Any, solution.ts)
        last = jax.tree.map(lambda leaf: leaf[0], last)
        status = status_of(solution.result)
        return self.finished(problem, states, status, solution.stats["num_steps"], reached, last)

    def finished(
        self, problem: Problem, states: Any, status: jax.Array, steps: jax.Array, reached: jax.Array, last: Any
    ) -> Solution:
        """The `Solution` of states at the problem's times, or, where `status` is `event`, at those until `reached`,
        where the state was `last`.

        `reached` is counted from the initial state.
        """
        at_event = None
        if problem.event is not None:
            stopped = status == Status.event
            stop = jnp.where(stopped, reached, problem.times[-1])
            states = held(problem.times, states, stop, last)
            at_event = self.observables(reached[None], jax.tree.map(lambda leaf: leaf[None], last), problem.args)
            at_event = {name: value[0] for name, value in at_event.items()}
        else:
            reached = jax.lax.stop_gradient(reached)
        finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(states)]).all()
        good = (status == Status.ok) | (status == Status.event)
        status = jnp.where(good & ~finite, Status.non_finite, status)
        status = jnp.where(problem.known, status, Status.bad_parameter)
        values = self.observables(problem.times, states, problem.args)
        reached = self.start + jnp.where(problem.known, reached, 0)
        return finish(self.start + problem.times, values, status, steps, reached=reached, event_values=at_event)


def _controller(numerics: Numerics, problem: Problem) -> diffrax.AbstractStepSizeController:
    controller = numerics.controller
    if problem.jumps is None:
        return controller
    return diffrax.ClipStepSizeController(cast(Any, controller), jump_ts=jax.lax.stop_gradient(problem.jumps))


def first_step(problem: Problem, solver: diffrax.AbstractSolver, numerics: Numerics | Accuracy) -> jax.Array:
    """The fixed step, or the first trial step of an adaptive solve.

    Left to itself `diffrax.diffeqsolve` (0.7.2) tries 0.01 whatever the time unit: it looks for an `ODETerm` among
    terms that it has wrapped.
    """
    terms, dtype = problem.terms, problem.times.dtype
    if numerics.step is not None:
        return jnp.asarray(numerics.step, dtype)
    if not isinstance(terms, diffrax.ODETerm):
        return jnp.asarray(0.01, dtype)
    order = cast(int, solver.error_order(terms))
    step = initial_step(lambda t, y: terms.vf(t, y, problem.args), problem.y0, numerics.rtol, numerics.atol, order)
    # what is not a number here fails in the solver, with a status
    return jnp.where(jnp.isfinite(step) & (step > 0), step, 0.01).astype(dtype)


def with_tolerances(solver: Any, numerics: Numerics | Accuracy) -> Any:
    """The solver with tolerances given to a root finder that has none of its own, as diffrax gives the controller's."""
    if not isinstance(solver, diffrax.AbstractImplicitSolver):
        return solver
    finder = solver.root_finder
    norm = diffrax.PIDController(rtol=1.0, atol=1.0).norm
    for name, value in (("rtol", numerics.rtol), ("atol", numerics.atol), ("norm", norm)):
        if not isinstance(getattr(finder, name), (float, int)) and not callable(getattr(finder, name)):
            finder = eqx.tree_at(lambda f, n=name: getattr(f, n), finder, value, is_leaf=lambda x: x is None)
    return eqx.tree_at(lambda s: s.root_finder, solver, finder)


def status_of(result: diffrax.RESULTS) -> jax.Array:
    """Our status of diffrax's result, whether or not the states are finite."""
    status = jnp.where(result == diffrax.RESULTS.successful, Status.ok, Status.solver_failed)
    status = jnp.where(result == diffrax.RESULTS.max_steps_reached, Status.max_steps, status)
    return jnp.where(result == diffrax.RESULTS.event_occurred, Status.event, status)


def screen(params: Mapping[str, Any], dtype: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Whether every parameter is finite, and the parameters, or ones where they are not."""
    known = jnp.stack([jnp.all(jnp.isfinite(value)) for value in params.values()]).all()
    return known, {name: jnp.where(known, value, 1).astype(dtype) for name, value in params.items()}
