"""How a simulator is solved: method, tolerances, step, step limit."""

from typing import Any, Literal, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

TIGHTER = 100.0  # by which a refined solve divides the tolerances
LEAST_RTOL = 1e-13  # below it rounding decides
MORE_STEPS = 16  # times the step limit that a refined solve has


class Accuracy(NamedTuple):
    """What decides how accurate one solve is, numbers or traced: see `Numerics`."""

    rtol: Any
    atol: Any
    step: Any


class Numerics(eqx.Module):
    """The numerical settings of a solve.

    **Arguments:**

    - `solver`: a diffrax solver, or `"auto"`. For an ensemble, `"auto"` tries a few members first, takes
      `diffrax.Tsit5` or the stiff `simulators.Rodas5P` by the steps that each needs, and gives members that fail with
      the one to the other. A single `simulator.solve` takes `diffrax.Tsit5`, and outside traced code
      `simulators.Rodas5P` if that fails.
    - `rtol`, `atol`: relative and absolute tolerance of the step-size controller; the absolute one in the state's unit.
    - `step`: a fixed step in the simulator's time unit; the tolerances are then unused.
    - `max_steps`: steps after which a member is given up with status `max_steps`.

    **Raises:** `ValueError` for tolerances, a step or a limit that are not positive.
    """

    solver: diffrax.AbstractSolver | Literal["auto"] = "auto"
    rtol: float = eqx.field(default=1e-6, static=True)
    atol: float = eqx.field(default=1e-9, static=True)
    step: float | None = eqx.field(default=None, static=True)
    max_steps: int = eqx.field(default=4096, static=True)

    def __check_init__(self):
        if not (isinstance(self.solver, diffrax.AbstractSolver) or self.solver == "auto"):
            raise ValueError(
                f"solver: expected 'auto' or a diffrax solver such as diffrax.Tsit5(), got {self.solver!r}."
            )
        for name in ("rtol", "atol", "step", "max_steps"):
            value = getattr(self, name)
            if not (name == "step" and value is None) and not (value or 0) > 0:
                raise ValueError(f"{name}: expected a positive number, got {value!r}.")

    @property
    def automatic(self) -> bool:
        """Whether the choice of the solver is left to the engine."""
        return isinstance(self.solver, str)

    @property
    def method(self) -> diffrax.AbstractSolver:
        """The solver, `diffrax.Tsit5()` where the choice is left to the engine."""
        return diffrax.Tsit5() if isinstance(self.solver, str) else self.solver

    @property
    def controller(self) -> diffrax.AbstractStepSizeController:
        """The diffrax step-size controller of these settings."""
        if self.step is not None:
            return diffrax.ConstantStepSize()
        return diffrax.PIDController(rtol=self.rtol, atol=self.atol)

    def refined(self) -> "Numerics":
        """The settings of a refinement check: tolerances 100 times tighter, half the step, and the steps to do so."""
        return Numerics(
            solver=self.solver,
            rtol=max(self.rtol / TIGHTER, min(self.rtol, LEAST_RTOL)),
            atol=self.atol / TIGHTER,
            step=None if self.step is None else self.step / 2,
            max_steps=self.max_steps * MORE_STEPS,
        )

    def accuracy(self, refined: jax.Array) -> Accuracy:
        """Tolerances and step of these settings, or of the refined ones where `refined`; for traced code."""
        fine = self.refined()

        def pick(own: float | None, other: float | None) -> jax.Array | None:
            return None if own is None or other is None else jnp.where(refined, other, own)

        return Accuracy(pick(self.rtol, fine.rtol), pick(self.atol, fine.atol), pick(self.step, fine.step))

    def describe(self) -> dict[str, Any]:
        """The settings as JSON-ready data."""
        adaptive = {"rtol": self.rtol, "atol": self.atol} if self.step is None else {"step": self.step}
        name = self.solver if isinstance(self.solver, str) else solver_name(self.solver)
        return {"solver": name} | adaptive | {"max_steps": self.max_steps}


def solver_name(solver: diffrax.AbstractSolver) -> str:
    """The name of a solver's class."""
    return type(solver).__name__
