"""What training makes small, for one member."""

import equinox as eqx
import jax
import jax.numpy as jnp


class MeanSquaredError(eqx.Module):
    """Mean over times, outputs and points of (prediction - target)², in normalised units."""

    def __call__(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(prediction - target))


class RelativeL2(eqx.Module):
    """Mean over outputs of ||prediction - target||₂ / ||target||₂, the norms taken over times and points.

    Only for targets that were scaled but not shifted: a shifted norm is no norm of the output.
    """

    def __call__(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        axes = (0, *range(2, target.ndim))
        tiny = jnp.finfo(target.dtype).tiny  # the root has no derivative at 0
        difference = jnp.sum(jnp.square(prediction - target), axes)
        return jnp.mean(jnp.sqrt(difference + tiny) / jnp.sqrt(jnp.sum(jnp.square(target), axes) + tiny))
