"""The oscillator whose stiffness is one parameter."""

import jax
import jax.numpy as jnp
import numpy as np

from ..data import LogUniform, ParameterSpace
from ._numerics import Numerics
from ._ode import ODESimulator

VAN_DER_POL = ParameterSpace(mu=LogUniform(0.1, 1000.0))


def _vector_field(t, y, p):
    x, v = y[0], y[1]
    return jnp.stack([v, p["mu"] * (1 - x**2) * v - x])


def _initial_state(p):
    return jnp.array([2.0, 0.0])


def VanDerPol(
    parameters: ParameterSpace = VAN_DER_POL,
    times: np.ndarray | jax.Array = np.linspace(0.0, 20.0, 201),  # noqa: B008
    numerics: Numerics = Numerics(rtol=1e-6, atol=1e-9),  # noqa: B008
) -> ODESimulator:
    """Van der Pol: d²x/dt² = μ (1 - x²) dx/dt - x, with x(0) = 2, dx/dt(0) = 0.

    All quantities are dimensionless. Solutions settle on a limit cycle of amplitude 2: nearly a sine of period 2 π for
    small μ; for large μ a relaxation oscillation of period about (3 - 2 ln 2) μ that creeps along x - x³/3 and jumps
    within a time of about 1/μ. There the Jacobian has an eigenvalue near -3 μ: from μ = 100 or so an explicit method
    takes steps of 1/μ and an implicit one pays.

    **Arguments:**

    - `parameters`: mu. The default spans four decades, from nearly harmonic to stiff.
    - `times`: saved times, by default 0, 0.1, ..., 20; a period at μ = 1000 takes about 1614.
    - `numerics`: solver and tolerances.

    Outputs are x and v = dx/dt. Good values: μ = 1 (three periods by t = 20), 10, 1000.

    Reference: van der Pol, Phil. Mag. 2 (1926) 978, doi:10.1080/14786442608564127.
    """
    return ODESimulator(
        vector_field=_vector_field,
        initial_state=_initial_state,
        parameters=parameters,
        times=times,  # type: ignore[arg-type]
        outputs=("x", "v"),  # type: ignore[arg-type]
        numerics=numerics,
        name="van_der_pol",
        description="Van der Pol: d²x/dt² = μ (1 - x²) dx/dt - x, x(0) = 2, v = dx/dt, v(0) = 0.",
        reference="van der Pol 1926, doi:10.1080/14786442608564127",
    )
