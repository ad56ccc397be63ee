"""Which solver answered which member."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Answers:
    """A record of the attempts at an ensemble: each member is answered by the last attempt made at it.

    **Arguments:**

    - `names`: the attempts' solvers, in turn.
    - `members`: how many members there are.
    """

    def __init__(self, names: Sequence[str], members: int):
        self.names = list(names)
        self.attempt = np.zeros(members, np.int32)

    def note(self, members: np.ndarray, attempt: int) -> None:
        """`members` were answered by attempt number `attempt`."""
        self.attempt[members] = attempt

    def describe(self) -> dict[str, Any]:
        """JSON-ready: how many members each solver answered, and the members that took a second attempt."""
        solvers: dict[str, int] = {}
        retried: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            members = np.flatnonzero(self.attempt == number).tolist()
            if members:
                solvers[name] = solvers.get(name, 0) + len(members)
            if members and number:
                retried[name] = retried.get(name, []) + members
        return {"solvers": solvers, "retried": retried}
