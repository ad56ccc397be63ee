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
from ._numerics import Numerics
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
    """

    terms: Any
    y0: Any
    args: Any
    times: jax.Array
    known: jax.Array


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
            solver,
            t0=jnp.zeros((), problem.times.dtype),
            t1=problem.times[-1],
            dt0=jax.lax.stop_gradient(first_step(problem, solver, self.numerics)),
            y0=problem.y0,
            args=problem.args,
            saveat=diffrax.SaveAt(ts=problem.times),
            stepsize_controller=self.numerics.controller,
            max_steps=self.numerics.max_steps,
            throw=False,  # an exception would need a host callback and stop every member
        )
        values = self.observables(problem.times, solution.ys, problem.args)
        status = jnp.where(problem.known, status_of(solution), Status.bad_parameter)
        return finish(self.start + problem.times, values, status, solution.stats["num_steps"])


def first_step(problem: Problem, solver: diffrax.AbstractSolver, numerics: Numerics) -> jax.Array:
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


def status_of(solution: diffrax.Solution) -> jax.Array:
    """Our status of diffrax's result."""
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(solution.ys)]).all()
    results = diffrax.RESULTS
    return jnp.where(
        solution.result == results.successful,
        jnp.where(finite, Status.ok, Status.non_finite),
        jnp.where(solution.result == results.max_steps_reached, Status.max_steps, Status.solver_failed),
    )


def screen(params: Mapping[str, Any], dtype: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Whether every parameter is finite, and the parameters, or ones where they are not."""
    known = jnp.stack([jnp.all(jnp.isfinite(value)) for value in params.values()]).all()
    return known, {name: jnp.where(known, value, 1).astype(dtype) for name, value in params.items()}
