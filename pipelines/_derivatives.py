"""How wrong a surrogate's derivatives are: what an optimiser or a sampler downstream will feel."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..simulators import solve_ensemble
from ._metrics import quantile, relative_l2
from ._truth import tighter

MEMBERS = 8
STEP = 1e-3  # of the standard deviation of a parameter over the held-out members


def derivative_errors(
    surrogate: Any, simulator: Any, members: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray], given: int
) -> dict[str, Any] | None:
    """Relative L2 error of d(outputs)/d(parameter), for every scalar parameter, on a few members.

    The surrogate is differentiated exactly in forward mode; the solver by central differences of solves with tighter
    tolerances. Outputs are divided by the RMS of their truth, so that all count alike.

    **Returns:** JSON-ready; `None` without scalar parameters or without a simulator that can be solved more exactly.
    """
    scalars = [name for name, value in members.items() if value.ndim == 1]
    try:
        finer = tighter(simulator)
    except TypeError:
        return None
    if not scalars:
        return None
    count = min(MEMBERS, len(members[scalars[0]]))
    chosen = {name: value[:count] for name, value in members.items()}
    steps = {name: STEP * float(np.std(members[name]) or abs(members[name][0]) or 1.0) for name in scalars}
    sizes = {name: float(np.sqrt(np.mean(np.square(value[:, given:])))) or 1.0 for name, value in truth.items()}
    exact = _central_differences(finer, surrogate.times, chosen, steps)
    found = _forward(surrogate, chosen, scalars)

    def stacked(values):
        return np.concatenate([values[k][:, given:].reshape(count, -1) / sizes[k] for k in truth], axis=1)

    errors = {name: relative_l2(stacked(found[name]), stacked(exact[name])) for name in scalars}
    known = {name: value[np.isfinite(stacked(exact[name])).all(axis=1)] for name, value in errors.items()}
    pooled = np.concatenate(list(known.values()))
    if not pooled.size:
        return None
    return {
        "members": count,
        "median": quantile(pooled, 0.5),
        "parameters": {
            name: {"median": quantile(value, 0.5), "worst": float(np.max(value))}
            for name, value in known.items()
            if value.size
        },
    }


def _forward(surrogate: Any, members: Mapping[str, np.ndarray], scalars: list[str]) -> dict[str, Any]:
    """d(output)/d(parameter) `(member, time, *space)` by parameter and output."""

    def jacobian(params):
        rest = {name: value for name, value in params.items() if name not in scalars}
        return jax.jacfwd(lambda p: surrogate.solve(rest | p).values)({name: params[name] for name in scalars})

    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(jacobian))({name: jnp.asarray(value, float) for name, value in members.items()})
        return {name: {output: np.asarray(by_name[name]) for output, by_name in found.items()} for name in scalars}


def _central_differences(
    simulator: Any, times: np.ndarray, members: Mapping[str, np.ndarray], steps: Mapping[str, float]
) -> dict[str, Any]:
    """The same for a solver, all members and parameters solved as one ensemble."""
    shifted = [
        {name: value + sign * step * (name == parameter) for name, value in members.items()}
        for parameter, step in steps.items()
        for sign in (1, -1)
    ]
    design = {name: np.concatenate([entry[name] for entry in shifted]) for name in members}
    solved = solve_ensemble(simulator, design, times=times, check=0)
    blocks = {k: np.split(np.asarray(value), len(shifted)) for k, value in solved.values.items()}
    return {
        parameter: {k: (v[2 * i] - v[2 * i + 1]) / (2 * step) for k, v in blocks.items()}
        for i, (parameter, step) in enumerate(steps.items())
    }
