"""The viscous Burgers equation by the method of lines: finite differences in space, any solver in time."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import GaussianRandomField, Output, ParameterSpace
from ._burgers import RANDOM_FIELD
from ._numerics import Numerics
from ._ode import ODESimulator


class _Lines(eqx.Module):
    """du_i/dt = -(u_(i-1) + u_i + u_(i+1)) (u_(i+1) - u_(i-1)) / (6 Δ) + ν (u_(i-1) - 2 u_i + u_(i+1)) / Δ²."""

    nu: float
    length: float

    def __call__(self, t, u, p):
        spacing, nu = self.length / u.size, p.get("nu", self.nu)
        before, after = jnp.roll(u, 1), jnp.roll(u, -1)
        advection = (before + u + after) * (after - before) / (6 * spacing)
        return nu * (before - 2 * u + after) / spacing**2 - advection


def _initial_state(p):
    return p["u0"]


def _observe(t, u, p):
    return {"u": u}


def BurgersLines(
    parameters: ParameterSpace = RANDOM_FIELD,
    nu: float = 0.01,
    times: np.ndarray | jax.Array = np.linspace(0.0, 1.0, 11),  # noqa: B008
    numerics: Numerics = Numerics(),  # noqa: B008
) -> ODESimulator:
    """Viscous Burgers by lines: u_t + u u_x = ν u_xx, periodic, u(x, 0) = u0(x), by central differences.

    One unknown for each of the points of the field u0, 256 by default, on its interval of length L; spacing Δ =
    L/points. The advection is (2 (u²/2)_x + u u_x)/3, differenced centrally: the mean of u is constant and, apart from
    the viscosity, so is the mean of u². Second order in Δ. Stable explicit steps are shorter than about 0.7 Δ²/ν.

    **Arguments:**

    - `parameters`: the initial condition `u0`, a field, and optionally the viscosity as a scalar `nu`.
    - `nu`: viscosity, used unless `nu` is a parameter.
    - `times`: saved times, the first one that of the initial condition.
    - `numerics`: solver and tolerances.

    Fronts have a width of 4ν over the jump, and where that is less than 2Δ the solution oscillates from point to point.
    `Burgers` solves the same equation more accurately; this one stands for systems of many unknowns with few
    neighbours, whose Jacobian is `Banded(1, 1, periodic=True)`.

    **Raises:** `ValueError` for other parameters than those, or a negative viscosity.

    Reference: Fletcher, Int. J. Numer. Methods Fluids 3 (1983) 213, doi:10.1002/fld.1650030302.
    """
    field: Any = parameters.get("u0")
    if not isinstance(field, GaussianRandomField) or set(parameters) - {"u0", "nu"}:
        raise ValueError(
            f"parameters: expected a random field u0 and, if wanted, a scalar nu; got {', '.join(parameters)}."
        )
    if not nu >= 0:
        raise ValueError(f"nu: expected a viscosity of at least 0, got {nu!r}.")
    return ODESimulator(
        vector_field=_Lines(nu, field.length),
        initial_state=_initial_state,
        parameters=parameters,
        times=times,  # type: ignore[arg-type]
        outputs={"u": Output(unit=field.unit, dims=("x",))},
        observe=_observe,
        numerics=numerics,
        name="burgers_lines",
        description="Viscous Burgers by central differences, periodic: u_t + u u_x = ν u_xx.",
        reference="Fletcher 1983, doi:10.1002/fld.1650030302",
        coordinates={"x": np.arange(field.points) * (field.length / field.points)},
    )
