"""The one number that says how wrong a member is."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp


def member_error(prediction: Mapping[str, jax.Array], truth: Mapping[str, jax.Array], given: int = 0) -> jax.Array:
    """Relative error of each member: max over outputs of ||prediction - truth||₂ / ||truth||₂, over times and points.

    **Arguments:**

    - `prediction`, `truth`: `(member, time, *space)` by output, in physical units.
    - `given`: number of leading times left out, because the simulator was told the outputs there.

    **Returns:** `(member,)`. An output that is 0 throughout has the error 0 where it is met and infinity elsewhere.

    **Raises:** `ValueError` if an output is not predicted.
    """
    missing = [name for name in truth if name not in prediction]
    if missing or not truth:
        raise ValueError(f"expected a prediction of every output {', '.join(truth)}; missing {', '.join(missing)}.")
    return jnp.max(jnp.stack([_relative(prediction[name], truth[name], given) for name in truth]), axis=0)


def _relative(prediction: jax.Array, truth: jax.Array, given: int) -> jax.Array:
    def norm(values):
        return jnp.sqrt(jnp.sum(jnp.square(values[:, given:]), axis=tuple(range(1, values.ndim))))

    difference, size = norm(prediction - truth), norm(truth)
    return jnp.where(size > 0, difference / jnp.where(size > 0, size, 1), jnp.where(difference > 0, jnp.inf, 0))
