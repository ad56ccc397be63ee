"""Which engine and which solver for an ensemble, and a second solver for members that the first one loses.

`"auto"` solves a few members first. Steps are what it compares: they are the same on every machine, times are not.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Solution, Status
from ._answers import Answers
from ._engines import SMALL, AbstractEngine, Lanes, Plain, is_initial_value_problem
from ._numerics import Numerics, solver_name
from ._problem import LOST
from ._rosenbrock import Rodas5P
from ._runner import Runner
from ._scalars import Scalars
from ._sparsity import jacobian_for

PILOT_MEMBERS = 32
PILOT_STEPS = 256  # trial steps of the explicit method that the pilot grants each member
CPU_LANES = 256  # for up to 8 unknowns
LEAST_LANES = 32  # fewer leave the processor waiting between operations
WORTH_A_LOOK = 2e7  # steps of a whole ensemble, about a second, that make up for compiling another solver


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What makes one engine, the trial steps after which it gives a member up, and the name of its solver.

    An engine is made when it is first needed: that of a large stiff system looks for the structure of its Jacobian.
    """

    engine: Callable[[], AbstractEngine]
    most_steps: int
    name: str


def plan(runner: Runner, size: int, engine: str) -> list[Attempt]:
    """The attempts to make at every member, in turn; each after the first is for members that the one before lost.

    `size` is the number of members solved at a time, `engine` as in `solve_ensemble`.
    """
    simulator = runner.simulator
    if not by_lanes(runner, engine):
        return [_plain(simulator)]
    numerics = simulator.numerics
    unknowns, ordinary = runner.once("outline", lambda: _outline(runner))
    rows = -(-size // len(runner.devices))

    def attempt(solver: type[diffrax.AbstractSolver], make: Callable[[], diffrax.AbstractSolver]) -> Attempt:
        engine = functools.cache(lambda: _lanes(make(), unknowns, rows, runner))
        return Attempt(engine, numerics.max_steps, solver.__name__)

    if not numerics.automatic or numerics.step is not None:
        return [attempt(type(numerics.method), lambda: numerics.method)]
    explicit = attempt(diffrax.Tsit5, diffrax.Tsit5)
    if not ordinary:
        return [explicit]
    stiff = attempt(Rodas5P, lambda: runner.once("stiff solver", lambda: _stiff_solver(runner, unknowns)))
    return _by_pilot(runner, size, explicit, stiff, unknowns)


def by_lanes(runner: Runner, engine: str) -> bool:
    """Whether lanes solve the members; `engine` as in `solve_ensemble`."""
    simulator = runner.simulator
    if engine == "plain" or not is_initial_value_problem(simulator):
        return False
    if engine == "lanes" or simulator.numerics.step is None:
        return True
    unknowns, _ = runner.once("outline", lambda: _outline(runner))
    return unknowns <= SMALL  # members that all take the same steps have no slowest one to wait for


def _plain(simulator: Any) -> Attempt:
    numerics = getattr(simulator, "numerics", None)
    if isinstance(numerics, Numerics):
        name = solver_name(numerics.method)
    else:
        name = type(simulator).__name__ if numerics is None else numerics.describe()["solver"]
    return Attempt(Plain, 0, name)


def solve_in_turn(
    runner: Runner, attempts: list[Attempt], numbers: np.ndarray, size: int, answers: Answers, on_host: bool
) -> Solution:
    """Members `numbers` by the first attempt, those that it loses by the next, and so on; in the order of `numbers`.

    On the devices, in contiguous blocks, or on the host.
    """
    first, *others = attempts
    runner.load(numbers, size)
    runner.run(first.engine(), first.most_steps)
    for attempt, later in enumerate(others, 1):
        lost = np.flatnonzero(np.isin(runner.outcome()[0], LOST))
        if not lost.size:
            break
        runner.run(later.engine(), later.most_steps, lost)
        answers.note(numbers[lost[lost < len(numbers)]], attempt)  # the others are refined copies
    solution = runner.solution(first.engine(), on_host)
    if runner.apart is not None:
        runner.apart.check(numbers, size, solution)
    return solution


def _by_pilot(runner: Runner, size: int, explicit: Attempt, stiff: Attempt, unknowns: int) -> list[Attempt]:
    """Attempts chosen by the steps that either method needs for a few members, spread evenly over the design."""
    few = min(runner.count, np.clip(runner.count // 16, 8, PILOT_MEMBERS))
    numbers = np.unique(np.linspace(0, runner.count - 1, few).round().astype(int))
    slow = _steps_of(explicit, PILOT_STEPS, runner, numbers, size)
    work = max(np.mean(slow) * runner.count, np.max(slow) * CPU_LANES)  # one slow member keeps all lanes under way
    if np.max(slow) <= explicit.most_steps and work < WORTH_A_LOOK:
        return [explicit, stiff]
    if np.min(slow) > explicit.most_steps:
        return [stiff, explicit]
    fast = _steps_of(stiff, stiff.most_steps, runner, numbers, size) * step_ratio(unknowns)
    limit = best_limit(np.where(slow <= explicit.most_steps, slow, np.inf), fast)
    if limit == 0:
        return [stiff, explicit]
    if np.all(slow <= limit):
        return [explicit, stiff]
    margin = min(int(1.2 * limit), explicit.most_steps)  # the members of the pilot are not the slowest that pay
    return [dataclasses.replace(explicit, most_steps=margin), stiff, explicit]


def _steps_of(attempt: Attempt, most: int, runner: Runner, numbers: np.ndarray, size: int) -> np.ndarray:
    """The steps that members take, for those that need more than `most` by the time that they reached with these."""
    runner.load(numbers, size, copies=False)
    runner.run(attempt.engine(), min(most, attempt.most_steps))
    code, steps, reached = runner.outcome()
    length = _last_time(runner) - runner.simulator.start
    needed = np.where(code == Status.max_steps, steps * length / np.maximum(reached, 1e-12 * length), steps)
    return np.where((code != Status.max_steps) & np.isin(code, LOST), np.inf, needed)


def _last_time(runner: Runner) -> float:
    return float((runner.simulator.times if runner.times is None else runner.times)[-1])


def best_limit(slow: np.ndarray, fast: np.ndarray) -> float:
    """The number of steps after which the explicit method had better give a member up to the stiff one.

    With `slow` and `fast` the cost of a member by either, infinite where a method lost it, the c that minimises
    Σ_i (slow_i if slow_i <= c else c + fast_i).
    """
    never = 100 * np.max(np.concatenate([slow, fast]), initial=1, where=np.isfinite(np.concatenate([slow, fast])))
    second = np.where(np.isfinite(fast), fast, never)
    limits = np.unique([0, *slow[np.isfinite(slow)]])
    costs = [np.sum(np.where(slow <= limit, slow, limit + second)) for limit in limits]
    return float(limits[int(np.argmin(costs))])


def step_ratio(unknowns: int) -> float:
    """What one step of Rodas5P costs, in steps of Tsit5, on cheap vector fields; see benchmarks/."""
    return 2 + 0.2 * min(unknowns, SMALL)


def _lanes(solver: Any, unknowns: int, rows: int, runner: Runner) -> Lanes:
    """Lanes for this many unknowns: as many as keep the caches warm, and four members or more for each to level out."""
    implicit = not isinstance(solver, diffrax.AbstractERK)
    if runner.devices[0].platform == "cpu":
        most = CPU_LANES if unknowns <= 8 else max(4, 2048 // unknowns)
    else:
        most = max(256, min(16384, 2**22 // unknowns))
    lanes = min(most, rows, max(LEAST_LANES, -(-rows // 4)))
    if unknowns <= SMALL:
        lanes = -(-lanes // 8) * 8  # whole vectors
    # a step over more times than it may save is repeated; the more unknowns, the more a step costs beside its saves
    return Lanes(solver, lanes=lanes, saves=1 if not implicit else 2 if unknowns <= 8 else 4)


def _stiff_solver(runner: Runner, unknowns: int) -> Rodas5P:
    """Rodas5P with the Jacobian's structure, of a large system as found at the first member's initial state."""
    if unknowns <= SMALL:
        return Rodas5P()
    problem = runner.simulator.problem(_first(runner), runner.times)
    start = jnp.zeros((), problem.times.dtype)
    return Rodas5P(jacobian_for(lambda y: problem.terms.vf(start, y, problem.args), problem.y0))


def _outline(runner: Runner) -> tuple[int, bool]:
    """How many unknowns, and whether the problem is one real ordinary differential equation."""
    problem = eqx.filter_eval_shape(lambda p: runner.simulator.problem(p, runner.times), _first(runner))
    real = all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(problem.y0))
    return Scalars.of(problem.y0).size, real and isinstance(problem.terms, diffrax.ODETerm)


def _first(runner: Runner) -> dict[str, np.ndarray]:
    """The first member's parameters."""
    return {name: np.asarray(value[0], float) for name, value in runner.members.parameters.items()}
