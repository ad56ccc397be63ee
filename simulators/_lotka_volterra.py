"""Predator and prey."""

import jax
import jax.numpy as jnp
import numpy as np

from ..data import Output, ParameterSpace, Uniform
from ._numerics import Numerics
from ._ode import ODESimulator

PELTS = "thousand pelts"

LYNX_HARE = ParameterSpace(
    alpha=Uniform(0.294, 0.800, unit="1/year"),
    beta=Uniform(0.0111, 0.0444, unit="1/year/thousand pelts"),
    gamma=Uniform(0.442, 1.158, unit="1/year"),
    delta=Uniform(0.0099, 0.0383, unit="1/year/thousand pelts"),
    u0=Uniform(22.3, 45.8, unit=PELTS),
    v0=Uniform(3.81, 8.07, unit=PELTS),
)


def _vector_field(t, y, p):
    u, v = y[0], y[1]
    return jnp.stack([(p["alpha"] - p["beta"] * v) * u, (-p["gamma"] + p["delta"] * u) * v])


def _initial_state(p):
    return jnp.stack([p["u0"], p["v0"]])


def LotkaVolterra(
    parameters: ParameterSpace = LYNX_HARE,
    times: np.ndarray | jax.Array = np.arange(1900.0, 1921.0),  # noqa: B008
    numerics: Numerics = Numerics(rtol=1e-8, atol=1e-8),  # noqa: B008
) -> ODESimulator:
    """Lotka-Volterra: du/dt = (α - β v) u, dv/dt = (-γ + δ u) v.

    u is the prey (snowshoe hare), v the predator (Canada lynx), in thousands of pelts; u0 and v0 hold at the first
    time. Populations cycle; δ u - γ ln u + β v - α ln v is constant along a solution.

    **Arguments:**

    - `parameters`: alpha, beta, gamma, delta, u0, v0. The default box covers the posterior given the Hudson Bay pelt
      records by four standard deviations each way.
    - `times`: saved times in years, by default 1900, 1901, ..., 1920.
    - `numerics`: solver and tolerances.

    Good values: α = 0.547, β = 0.0277, γ = 0.800, δ = 0.0241, u0 = 34.0, v0 = 5.94 (posterior means).

    Reference: Lotka, J. Am. Chem. Soc. 42 (1920) 1595, doi:10.1021/ja01453a010; Volterra, Nature 118 (1926) 558,
    doi:10.1038/118558a0.
    """
    return ODESimulator(
        vector_field=_vector_field,
        initial_state=_initial_state,
        parameters=parameters,
        times=times,  # type: ignore[arg-type]
        outputs={"hare": Output(unit=PELTS), "lynx": Output(unit=PELTS)},
        numerics=numerics,
        name="lotka_volterra",
        description="Predator and prey: du/dt = (α - β v) u, dv/dt = (-γ + δ u) v.",
        reference="Lotka 1920, doi:10.1021/ja01453a010; Volterra 1926, doi:10.1038/118558a0",
        time_unit="year",
    )
