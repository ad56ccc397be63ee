"""The engines: what solves all rows of one device."""

import abc
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from ..data import Solution
from ._drive import Schedule, begin, drive
from ._lane import Stepper
from ._members import Members
from ._numerics import solver_name
from ._problem import AbstractInitialValueSimulator, Problem
from ._scalars import Scalars, scalarise
from ._unrolled import Unrolled

SMALL = 32  # unknowns up to which a state is worked on as scalars and stages are written out


class AbstractEngine(eqx.Module):
    """How the rows of one device are solved.

    A solve begins, advances once or more, each time over some of the rows, and has a result.
    """

    @abc.abstractmethod
    def begin(self, simulator: Any, times: Any, members: Members) -> Any:
        """Room for what will be known of `members`."""

    @abc.abstractmethod
    def advance(
        self, simulator: Any, times: Any, members: Members, queue: jax.Array, count: jax.Array,
        most_steps: jax.Array, noise: jax.Array, progress: Any,
    ) -> Any:  # fmt: skip
        """`progress` with the first `count` rows of `queue` solved, or given up after `most_steps`."""

    @abc.abstractmethod
    def result(self, simulator: Any, times: Any, members: Members, progress: Any) -> Solution:
        """A batched `Solution` of all `members`."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """The engine as JSON-ready data."""


class Plain(AbstractEngine):
    """`vmap` of `simulator.solve`: a batch of `diffrax.diffeqsolve`, differentiable as that is; all rows at once."""

    def begin(self, simulator, times, members):
        return None

    def advance(self, simulator, times, members, queue, count, most_steps, noise, progress):
        def solve(member):
            random = jax.random.fold_in(jax.random.key(noise), member.number)
            return simulator.solve(_parameters(member), times, key=random)

        return jax.vmap(solve)(members)

    def result(self, simulator, times, members, progress):
        return progress

    def describe(self):
        return {"engine": "plain"}


class Lanes(AbstractEngine):
    """Lanes that take the next member as soon as theirs is done; see `_drive`.

    **Arguments:**

    - `solver`: a diffrax solver.
    - `lanes`: members under way at once on each device.
    - `steps`: trial steps between two looks at the queue.
    - `saves`: times that one trial step may save.
    """

    solver: diffrax.AbstractSolver
    lanes: int = eqx.field(default=256, static=True)
    steps: int = eqx.field(default=16, static=True)
    saves: int = eqx.field(default=1, static=True)

    def begin(self, simulator, times, members):
        problem, pack = _packed(_any_problem(simulator, times, members))
        return begin(problem, problem.times, len(members.number), pack)

    def advance(self, simulator, times, members, queue, count, most_steps, noise, progress):
        problem = _any_problem(simulator, times, members)
        small = _is_small(problem)
        stepper = Stepper(
            solver=lane_solver(self.solver, small),
            numerics=simulator.numerics,
            times=problem.times,
            first=_initial_times(simulator, times),
            most_saves=self.saves,
            event=_packed(problem)[0].event,
        )
        unroll = _unroll(self.solver, Scalars.of(problem.y0).size) if small else 1
        return drive(
            lambda member: _packed(_problem(simulator, times, member))[0],
            stepper,
            Schedule(self.lanes, self.steps, unroll),
            members,
            queue,
            count,
            most_steps,
            progress,
            _packed(problem)[1],
        )

    def result(self, simulator, times, members, progress):
        problem = _any_problem(simulator, times, members)

        def unpacked(states):
            return Scalars.of(problem.y0).restore(states) if _is_small(problem) else states

        def one(member, states, status, steps, reached, last):
            return simulator.finished(_problem(simulator, times, member), states, status, steps, reached, last)

        states, last = unpacked(progress.states), None if progress.last is None else unpacked(progress.last)
        return jax.vmap(one)(members, states, progress.status, progress.steps, progress.reached, last)

    def describe(self):
        return {"engine": "lanes", "solver": solver_name(self.solver), "lanes": self.lanes}


def lane_solver(solver: diffrax.AbstractSolver, small: bool) -> diffrax.AbstractSolver:
    """The solver as lanes use it: explicit stages written out for small systems."""
    return Unrolled(solver) if small and isinstance(solver, diffrax.AbstractERK) else solver


def is_initial_value_problem(simulator: Any) -> bool:
    """Whether the lane engine can drive a simulator."""
    return isinstance(simulator, AbstractInitialValueSimulator)


def _unroll(solver: Any, unknowns: int) -> int:
    """Trial steps to write out one after the other: more save copies of the lanes, but cost time to compile."""
    if not isinstance(solver, diffrax.AbstractERK):
        return 1
    work = len(solver.tableau.b_sol) * unknowns  # type: ignore[attr-defined]
    return 4 if work <= 32 else 2 if work <= 64 else 1


def _packed(problem: Problem) -> tuple[Problem, Callable[[Any], Any]]:
    """The problem as lanes work on it, small ones in scalars, and what makes one array of such a state."""
    if _is_small(problem):
        return scalarise(problem)[0], lambda numbers: jnp.stack(numbers, -1)
    return problem, lambda state: state


def _is_small(problem: Problem) -> bool:
    leaves = jax.tree.leaves(problem.y0)
    real = all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves)
    one_type = len({leaf.dtype for leaf in leaves}) == 1
    return isinstance(problem.terms, diffrax.ODETerm) and real and one_type and Scalars.of(problem.y0).size <= SMALL


def _initial_times(simulator: Any, times: Any) -> int:
    """How many saved times are the initial time itself."""
    times = simulator.times if times is None else times
    return int(sum(float(time) <= simulator.start for time in times))


def _any_problem(simulator: Any, times: Any, members: Members) -> Problem:
    """The problem of some member, for what all have in common."""
    return _problem(simulator, times, jax.tree.map(lambda leaf: leaf[0], members))


def _problem(simulator: Any, times: Any, member: Members) -> Problem:
    return simulator.problem(_parameters(member), times)


def _parameters(member: Members) -> dict[str, jax.Array]:
    return {name: jnp.asarray(value, float) for name, value in member.parameters.items()}
