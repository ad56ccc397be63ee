"""Exponential decay: the smallest simulator, with a closed form to test everything against."""

import jax
import jax.numpy as jnp
import numpy as np

from ..data import LogUniform, Output, ParameterSpace, Uniform
from ._numerics import Numerics
from ._ode import ODESimulator

DECAY = ParameterSpace(k=Uniform(0.1, 1.0, unit="1/s"), y0=LogUniform(0.5, 2.0, unit="mol/m3"))


def _vector_field(t, y, p):
    return -p["k"] * y


def _initial_state(p):
    return jnp.stack([p["y0"]])


def Decay(
    parameters: ParameterSpace = DECAY,
    times: np.ndarray | jax.Array = np.linspace(0.0, 2.0, 21),  # noqa: B008
    numerics: Numerics = Numerics(),  # noqa: B008
) -> ODESimulator:
    """First-order decay: dy/dt = -k y, so y = y0 exp(-k t).

    **Arguments:**

    - `parameters`: rate k in 1/s and initial concentration y0 in mol/m3.
    - `times`: saved times in seconds.
    - `numerics`: solver and tolerances.

    Good values: 0.1 <= k <= 1, 0.5 <= y0 <= 2.
    """
    return ODESimulator(
        vector_field=_vector_field,
        initial_state=_initial_state,
        parameters=parameters,
        times=times,  # type: ignore[arg-type]
        outputs={"y": Output(unit="mol/m3")},
        numerics=numerics,
        name="decay",
        description="First-order decay: dy/dt = -k y, y(0) = y0.",
        time_unit="s",
    )
