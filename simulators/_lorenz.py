"""Convection reduced to three numbers."""

import jax
import jax.numpy as jnp
import numpy as np

from ..data import ParameterSpace, Uniform
from ._numerics import Numerics
from ._ode import ODESimulator

LORENZ = ParameterSpace(sigma=Uniform(8.0, 12.0), rho=Uniform(0.0, 28.0), beta=Uniform(2.0, 3.0))


def _vector_field(t, y, p):
    x, y, z = y[0], y[1], y[2]
    return jnp.stack([p["sigma"] * (y - x), x * (p["rho"] - z) - y, x * y - p["beta"] * z])


def _initial_state(p):
    return jnp.ones(3)


def Lorenz(
    parameters: ParameterSpace = LORENZ,
    times: np.ndarray | jax.Array = np.linspace(0.0, 10.0, 101),  # noqa: B008
    numerics: Numerics = Numerics(rtol=1e-8, atol=1e-10),  # noqa: B008
) -> ODESimulator:
    """Lorenz: dx/dt = σ (y - x), dy/dt = x (ρ - z) - y, dz/dt = x y - β z, from (1, 1, 1).

    All quantities are dimensionless: x is the strength of the convection, y and z are the temperature's departures
    from the conducting state, σ the Prandtl number, ρ the reduced Rayleigh number. For ρ < 1 everything decays; for
    1 < ρ < σ (σ + β + 3)/(σ - β - 1) (24.74 at σ = 10, β = 8/3) solutions may settle on one of two fixed points; above,
    they are chaotic. Volumes contract at the rate σ + β + 1.

    **Arguments:**

    - `parameters`: sigma, rho, beta.
    - `times`: saved times, by default 0, 0.1, ..., 10.
    - `numerics`: solver and tolerances.

    At ρ = 28 errors grow by a factor e in a time of 1.1: a double-precision solution says nothing about a single
    trajectory beyond t = 35 or so, only about statistics. Good values: σ = 10, ρ = 28, β = 8/3.

    Reference: Lorenz, J. Atmos. Sci. 20 (1963) 130, doi:10.1175/1520-0469(1963)020<0130:DNF>2.0.CO;2.
    """
    return ODESimulator(
        vector_field=_vector_field,
        initial_state=_initial_state,
        parameters=parameters,
        times=times,  # type: ignore[arg-type]
        outputs=("x", "y", "z"),  # type: ignore[arg-type]
        numerics=numerics,
        name="lorenz",
        description="Lorenz: dx/dt = σ (y - x), dy/dt = x (ρ - z) - y, dz/dt = x y - β z, from (1, 1, 1).",
        reference="Lorenz 1963, doi:10.1175/1520-0469(1963)020<0130:DNF>2.0.CO;2",
    )
