"""A refinement check on its own, where refined copies cannot run beside the members.

Under `vmap` the copies would hold all members up, and in single precision they would be as wrong as those.
"""

from typing import Any

import jax
import numpy as np

from ..data import Solution
from ._answers import Answers
from ._choose import plan, solve_in_turn
from ._refinement import Refinement, rows_of
from ._runner import Runner


class Apart:
    """Solves the sampled members of each batch again, in double precision.

    **Arguments:**

    - `runner`: of the ensemble.
    - `refinement`: the check.
    - `engine`: as in `solve_ensemble`.
    """

    def __init__(self, runner: Runner, refinement: Refinement, engine: str):
        members = {name: np.asarray(value, np.float64) for name, value in runner.members.parameters.items()}
        self.runner = Runner(refinement.finer, runner.times, members, runner.devices, runner.seed)
        self.refinement, self.engine = refinement, engine
        self.attempts: Any = None

    def check(self, numbers: np.ndarray, size: int, solution: Solution) -> None:
        """Note how the sampled ones among `numbers`, solved in `solution`, change."""
        rows = np.flatnonzero(self.refinement.sample[numbers])
        if not rows.size:
            return
        most = self.refinement.most(size)
        with jax.enable_x64(True):
            if self.attempts is None:
                self.attempts = plan(self.runner, most, self.engine)
            answers = Answers([attempt.name for attempt in self.attempts], self.runner.count)
            finer = solve_in_turn(self.runner, self.attempts, numbers[rows], most, answers, on_host=True)
            self.refinement.compare(numbers[rows], rows_of(solution, rows), finer)
