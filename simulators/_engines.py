"""The engines: what solves all rows of one device."""

import abc
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from ..data import Solution, Status, finish
from ._drive import Schedule, drive
from ._lane import Stepper
from ._numerics import Numerics, solver_name
from ._problem import AbstractInitialValueSimulator, Problem
from ._scalars import Scalars, scalarise
from ._unrolled import Unrolled

SMALL = 32  # unknowns up to which a state is worked on as scalars and stages are written out


class AbstractEngine(eqx.Module):
    """How the rows of one device are solved. Rows are members; `count` of them, the rest is padding."""

    @abc.abstractmethod
    def rows(
        self, simulator: Any, times: Any, members: dict[str, jax.Array], count: jax.Array, most_steps: jax.Array,
        noise: jax.Array,
    ) -> tuple[Solution, jax.Array]:  # fmt: skip
        """A batched `Solution` of `members`, and the time that each reached, `(row,)`, counted from the initial state.

        `members` are parameters by name, and the member's number under `""`.
        """

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """The engine as JSON-ready data."""


class Plain(AbstractEngine):
    """`vmap` of `simulator.solve`: a batch of `diffrax.diffeqsolve`, differentiable as that is."""

    def rows(self, simulator, times, members, count, most_steps, noise):
        del count, most_steps

        def solve(member):
            random = jax.random.fold_in(jax.random.key(noise), member[""])
            return simulator.solve(_parameters(member), times, key=random)

        solution = jax.vmap(solve)(members)
        return solution, solution.times[:, -1]

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

    def rows(self, simulator, times, members, count, most_steps, noise):
        del noise
        problem = _problem(simulator, times, {name: value[0] for name, value in members.items()})
        scalars = Scalars.of(problem.y0)
        small = _is_small(problem)
        stepper = Stepper(
            solver=lane_solver(self.solver, small, simulator.numerics),
            numerics=simulator.numerics,
            times=problem.times,
            first=_initial_times(simulator, times),
            most_saves=self.saves,
        )

        def problem_of(member):
            full = _problem(simulator, times, member)
            return scalarise(full)[0] if small else full

        states, status, steps, reached = drive(
            problem_of,
            stepper,
            Schedule(self.lanes, self.steps, unroll=_unroll(self.solver, scalars.size) if small else 1),
            members,
            count,
            most_steps,
            pack=(lambda numbers: jnp.stack(numbers, -1)) if small else (lambda state: state),
        )
        states = scalars.restore(states) if small else states

        def result(member, state, status, steps):
            args = _problem(simulator, times, member).args
            values = simulator.observables(problem.times, state, args)
            finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(state)]).all()
            status = jnp.where((status == Status.ok) & ~finite, Status.non_finite, status)
            return finish(simulator.start + problem.times, values, status, steps)

        return jax.vmap(result)(members, states, status, steps), reached

    def describe(self):
        return {"engine": "lanes", "solver": solver_name(self.solver), "lanes": self.lanes}


def lane_solver(solver: diffrax.AbstractSolver, small: bool, numerics: Numerics) -> Any:
    """The solver as lanes use it: explicit stages written out for small systems, tolerances given to root finders."""
    if small and isinstance(solver, diffrax.AbstractERK):
        return Unrolled(solver)
    if isinstance(solver, diffrax.AbstractImplicitSolver):
        finder = solver.root_finder
        norm = diffrax.PIDController(rtol=1.0, atol=1.0).norm
        for name, value in (("rtol", numerics.rtol), ("atol", numerics.atol), ("norm", norm)):
            if not isinstance(getattr(finder, name), (float, int)) and not callable(getattr(finder, name)):
                finder = eqx.tree_at(lambda f, n=name: getattr(f, n), finder, value, is_leaf=lambda x: x is None)
        return eqx.tree_at(lambda s: s.root_finder, solver, finder)
    return solver


def is_initial_value_problem(simulator: Any) -> bool:
    """Whether the lane engine can drive a simulator."""
    return isinstance(simulator, AbstractInitialValueSimulator)


def _unroll(solver: Any, unknowns: int) -> int:
    """Trial steps to write out one after the other: more save copies of the lanes, but cost time to compile."""
    if not isinstance(solver, diffrax.AbstractERK):
        return 1
    work = len(solver.tableau.b_sol) * unknowns  # type: ignore[attr-defined]
    return 4 if work <= 32 else 2 if work <= 64 else 1


def _is_small(problem: Problem) -> bool:
    leaves = jax.tree.leaves(problem.y0)
    real = all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves)
    one_type = len({leaf.dtype for leaf in leaves}) == 1
    return isinstance(problem.terms, diffrax.ODETerm) and real and one_type and Scalars.of(problem.y0).size <= SMALL


def _initial_times(simulator: Any, times: Any) -> int:
    """How many saved times are the initial time itself."""
    times = simulator.times if times is None else times
    return int(sum(float(time) <= simulator.start for time in times))


def _problem(simulator: Any, times: Any, member: dict[str, jax.Array]) -> Problem:
    return simulator.problem(_parameters(member), times)


def _parameters(member: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: jnp.asarray(value, float) for name, value in member.items() if name}
