"""How a simulator is solved: method, tolerances, step, step limit."""

from typing import Any

import diffrax
import equinox as eqx


class Numerics(eqx.Module):
    """The numerical settings of a solve.

    **Arguments:**

    - `solver`: a diffrax solver.
    - `rtol`, `atol`: relative and absolute tolerance of the step-size controller; the absolute one in the state's unit.
    - `step`: a fixed step in the simulator's time unit; the tolerances are then unused.
    - `max_steps`: steps after which a member is given up with status `max_steps`.

    **Raises:** `ValueError` for tolerances, a step or a limit that are not positive.
    """

    solver: diffrax.AbstractSolver = diffrax.Tsit5()
    rtol: float = eqx.field(default=1e-6, static=True)
    atol: float = eqx.field(default=1e-9, static=True)
    step: float | None = eqx.field(default=None, static=True)
    max_steps: int = eqx.field(default=4096, static=True)

    def __check_init__(self):
        if not isinstance(self.solver, diffrax.AbstractSolver):
            raise ValueError(f"solver: expected a diffrax solver such as diffrax.Tsit5(), got {self.solver!r}.")
        for name in ("rtol", "atol", "step", "max_steps"):
            value = getattr(self, name)
            if not (name == "step" and value is None) and not (value or 0) > 0:
                raise ValueError(f"{name}: expected a positive number, got {value!r}.")

    @property
    def controller(self) -> diffrax.AbstractStepSizeController:
        """The diffrax step-size controller of these settings."""
        if self.step is not None:
            return diffrax.ConstantStepSize()
        return diffrax.PIDController(rtol=self.rtol, atol=self.atol)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON-ready data."""
        adaptive = {"rtol": self.rtol, "atol": self.atol} if self.step is None else {"step": self.step}
        return {"solver": type(self.solver).__name__} | adaptive | {"max_steps": self.max_steps}
