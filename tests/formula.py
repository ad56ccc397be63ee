"""A simulator that is a formula: ensembles with known values at no cost."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from emulax import data, simulators


class Formula(eqx.Module):
    """Outputs `function(p, times)` by name, `(time, *space)` each; a member with a NaN output fails as `bad_output`."""

    function: Callable[..., dict[str, Any]]
    parameters: data.ParameterSpace = eqx.field(static=True)
    times: np.ndarray
    outputs: dict[str, data.Output] = eqx.field(static=True, converter=data.as_outputs)
    coordinates: dict[str, np.ndarray] = eqx.field(default_factory=dict)
    name: str = eqx.field(default="formula", static=True)

    def solve(self, params, ts=None, *, key=None):
        p = self.parameters.read(params)
        dtype = jnp.result_type(*p.values())
        times = jnp.asarray(self.times if ts is None else ts, dtype)
        return data.finish(times, self.function(p, times), data.Status.ok)


def exponential(lower=0.0, upper=1.0):
    """y = exp(-k t) at t = 1 and 2, k uniform."""
    return Formula(
        lambda p, t: {"y": jnp.exp(-p["k"] * t)},
        data.ParameterSpace(k=data.Uniform(lower, upper, unit="1/s")),
        np.array([1.0, 2.0]),
        ("y",),
    )


def line():
    """y = 2 x, x = 0, ..., 9."""
    return Formula(
        lambda p, t: {"y": 2 * p["x"] * jnp.ones_like(t)},
        data.ParameterSpace(x=data.Uniform(0.0, 9.0)),
        np.array([1.0]),
        ("y",),
    )


def members(formula, n, seed=0, method="random", **options):
    return simulators.solve_ensemble(formula, data.sample(formula.parameters, n, seed=seed, method=method), **options)
