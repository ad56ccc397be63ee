"""Three reactions whose rates span nine decades."""

import jax
import jax.numpy as jnp
import numpy as np

from ..data import LogUniform, ParameterSpace
from ._numerics import Numerics
from ._ode import ODESimulator

ROBERTSON = ParameterSpace(
    k1=LogUniform(0.02, 0.08, unit="1/s"),
    k2=LogUniform(1.5e7, 6e7, unit="1/s"),
    k3=LogUniform(5e3, 2e4, unit="1/s"),
)


def _vector_field(t, y, p):
    decay, pairing, back = p["k1"] * y[0], p["k2"] * y[1] ** 2, p["k3"] * y[1] * y[2]
    return jnp.stack([back - decay, decay - back - pairing, pairing])


def _initial_state(p):
    return jnp.array([1.0, 0.0, 0.0])


def Robertson(
    parameters: ParameterSpace = ROBERTSON,
    times: np.ndarray | jax.Array = np.append(0.0, np.geomspace(1e-5, 1e5, 101)),  # noqa: B008
    numerics: Numerics = Numerics(rtol=1e-6, atol=1e-14),  # noqa: B008
) -> ODESimulator:
    """Robertson: dy1/dt = -k1 y1 + k3 y2 y3, dy2/dt = k1 y1 - k3 y2 y3 - k2 y2², dy3/dt = k2 y2², from (1, 0, 0).

    The reactions are A → B (k1), B + B → C + B (k2) and B + C → A + C (k3); y1, y2, y3 are the shares of A, B and C,
    whose sum stays 1. Within 1e-3 s y2 reaches about 4e-5, where it is balanced, and then falls with y1 as all turns
    to C: y2 is 1e-6 at t = 4e3, 2e-10 at 4e7. The problem is stiff throughout: its fastest rate is about
    2 k2 y2 + k3 y3, 1e4 1/s, for 1e5 s.

    **Arguments:**

    - `parameters`: k1, k2, k3; by default within a factor of 2 of Robertson's values.
    - `times`: saved times in seconds, by default 0 and ten a decade from 1e-5 to 1e5.
    - `numerics`: solver and tolerances. Keep `atol` far below y2 at the last time: with `atol` above y2, solvers report
      success with errors of any size in y1 and y2. Single precision does not do.

    Good values: k1 = 0.04, k2 = 3e7, k3 = 1e4.

    Reference: Robertson, in Numerical Analysis: An Introduction (ed. Walsh), Academic Press 1966, p. 178; Hairer and
    Wanner, Solving Ordinary Differential Equations II, doi:10.1007/978-3-642-05221-7, section IV.1.
    """
    return ODESimulator(
        vector_field=_vector_field,
        initial_state=_initial_state,
        parameters=parameters,
        times=times,  # type: ignore[arg-type]
        outputs=("y1", "y2", "y3"),  # type: ignore[arg-type]
        numerics=numerics,
        name="robertson",
        description="Robertson: dy1/dt = -k1 y1 + k3 y2 y3, dy2/dt = k1 y1 - k3 y2 y3 - k2 y2², dy3/dt = k2 y2².",
        reference="Robertson 1966; Hairer and Wanner 1996, doi:10.1007/978-3-642-05221-7",
        time_unit="s",
    )
