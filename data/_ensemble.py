"""Many solved members, labelled, on the devices that solved them."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ._design import Design
from ._label import ADVICE, Status
from ._record import answered_by, error_in_words, retried, solver_error
from ._solution import Output, Solution
from ._space import ParameterSpace

if TYPE_CHECKING:
    import xarray


@dataclasses.dataclass(frozen=True, eq=False)
class Ensemble:
    """N solved members.

    **Arguments:**

    - `parameters`: one array `(padded member, *shape)` per parameter.
    - `solution`: a batched `Solution`; its arrays lie where they were computed, sharded over members.
    - `size`: number of members. Rows from `size` on are padding to a multiple of the device count; they are repeats,
      carry no information and never leave this object through its methods.
    - `space`, `outputs`, `coordinates`, `time_unit`: names, units and axes of what the arrays hold.
    - `metadata`: JSON-ready record of how it was made: simulator, fingerprint, numerics, precision, design, devices,
      seconds, versions; where known, `"solvers"`, how many members each solver answered, `"retried"`, which members
      each solver answered after another one had lost them, and `"refinement"`, by how much each output changed in the
      members that were solved again with finer settings.
    """

    parameters: dict[str, Any]
    solution: Solution
    size: int
    space: ParameterSpace
    outputs: dict[str, Output]
    coordinates: dict[str, np.ndarray]
    metadata: dict[str, Any]
    time_unit: str = ""

    def __len__(self) -> int:
        return self.size

    @property
    def times(self) -> np.ndarray:
        """The saved times, `(time,)`, in double precision."""
        return np.asarray(self.solution.times, np.float64)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """One array `(member, time, *space)` per output, in the order of the design, on the host.

        NumPy keeps double precision whatever JAX's setting; `solution.values` are the same numbers on the devices.
        """
        return {name: np.asarray(value)[: self.size] for name, value in self.solution.values.items()}

    @property
    def status(self) -> np.ndarray:
        """Status code of every member."""
        return np.asarray(self.solution.status.code)[: self.size]

    @property
    def steps(self) -> np.ndarray:
        """Number of solver steps tried by every member."""
        return np.asarray(self.solution.steps)[: self.size]

    @property
    def reached(self) -> np.ndarray | None:
        """The time that every member reached, or `None` where nobody kept count."""
        return None if self.solution.reached is None else np.asarray(self.solution.reached)[: self.size]

    @property
    def event_times(self) -> np.ndarray | None:
        """The time of every member's event, `(member,)`, NaN where it did not happen; `None` if no event is stated."""
        return None if self.solution.event_time is None else np.asarray(self.solution.event_time)[: self.size]

    @property
    def event_values(self) -> dict[str, np.ndarray] | None:
        """One array `(member, *space)` per output at the event, likewise."""
        values = self.solution.event_values
        return None if values is None else {name: np.asarray(value)[: self.size] for name, value in values.items()}

    @property
    def source(self) -> np.ndarray:
        """Who answered every member: 0 the solver, 1 the surrogate."""
        return np.asarray(self.solution.source.code)[: self.size]

    @property
    def ok(self) -> np.ndarray:
        """Which members have all their values."""
        return self.status == Status.ok

    @property
    def stopped(self) -> np.ndarray:
        """Which members ended at their event."""
        return self.status == Status.event

    @property
    def design(self) -> Design:
        """The parameters of all members."""
        values = {name: np.asarray(value)[: self.size] for name, value in self.parameters.items()}
        return Design(values, self.space, self.metadata.get("method", "given"), self.metadata.get("seed"))

    def failures(self) -> list[dict[str, Any]]:
        """The members that failed, each with its status, the steps taken, the time reached where it is known,
        and what to do about it."""
        return [entry for entry in self.incomplete() if entry["status"] != Status.event.name]

    def incomplete(self) -> list[dict[str, Any]]:
        """The members that are not `ok`, as in `failures`: those that failed and those that ended at their event."""
        reached = self.reached
        return [
            {"member": int(member), "status": Status(code).name, "steps": int(self.steps[member])}
            | ({} if reached is None else {"reached": float(reached[member])})
            | {"advice": ADVICE[Status(code)]}
            for member, code in enumerate(self.status)
            if code != Status.ok
        ]

    def to_xarray(self) -> "xarray.Dataset":
        """A labelled dataset: dims member, time and space; parameters, status and steps as coordinates."""
        from ._dataset import to_dataset

        return to_dataset(self)

    def __repr__(self) -> str:
        counts = {Status(code).name: int(np.sum(self.status == code)) for code in np.unique(self.status)}
        sources = "" if not self.source.any() else f" ({int(self.source.sum())} by the surrogate)"
        unit = f" {self.time_unit}" if self.time_unit else ""
        outputs = ", ".join(name + (f" ({o.unit})" if o.unit else "") for name, o in self.outputs.items())
        m = self.metadata
        return "\n".join(
            [
                f"Ensemble of {self.size} members: {m.get('simulator', '')}",
                f"  status   {', '.join(f'{number} {name}' for name, number in counts.items())}{sources}",
                *([f"  solvers  {answered_by(m['solvers'], retried(m))}"] if m.get("solvers") else []),
                *([f"  error    {error_in_words(error)}"] if (error := solver_error(m)) else []),
                f"  steps    median {np.median(self.steps):.0f}, most {self.steps.max()}",
                f"  outputs  {outputs}; {len(self.times)} times from {self.times[0]:g} to {self.times[-1]:g}{unit}",
                f"  seconds  {m.get('seconds', np.nan):.3g} solving, {m.get('compile_seconds', 0.0):.3g} compiling; "
                f"{m.get('devices', 1)} device(s), {m.get('precision', '?')} precision",
            ]
        )
