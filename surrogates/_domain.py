"""Where the surrogate was trained: a member's features and the box that holds the training members'."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._architecture import Layout
from ._normalise import Normaliser

FLOOR = 1e-6  # of the training rms, so that a field that is 0 has a logarithm
SPAN = 1e-3  # half-width of a field feature's range, at the least


class Domain(eqx.Module):
    """Features of a member and the box of the training members in them. Arrays are NumPy, double precision.

    A scalar parameter has one feature, its normalised value. A field u has three: its mean, the logarithm of its rms
    and the logarithm of the rms of its periodic difference quotient, scaled so that the training members span -1 to 1.

    The box is the training members' range, widened at each end by the largest gap between neighbouring training
    values (what lies no farther from them than they from each other), but not beyond a parameter's own bounds.

    - `center`, `half`: `(feature,)`, the scaling.
    - `lower`, `upper`: `(feature,)`, the box.
    """

    center: np.ndarray
    half: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def features(self, inputs: Mapping[str, jax.Array]) -> jax.Array:
        """Features `(feature,)` of one member from its normalised parameters; not differentiated."""
        raw = raw_features(inputs)
        return (raw - jnp.asarray(self.center, raw.dtype)) / jnp.asarray(self.half, raw.dtype)

    def holds(self, features: jax.Array) -> jax.Array:
        """Whether the features lie in the box, up to rounding."""
        rounding = 64 * jnp.finfo(features.dtype).eps
        above = features >= jnp.asarray(self.lower, features.dtype) - rounding
        return jnp.all(above & (features <= jnp.asarray(self.upper, features.dtype) + rounding))


def raw_features(inputs: Mapping[str, jax.Array]) -> jax.Array:
    """Features before scaling, from normalised parameters in their order."""
    parts = [value[None] if value.ndim == 0 else _field_features(value) for value in inputs.values()]
    return jax.lax.stop_gradient(jnp.concatenate(parts))


def _field_features(u: jax.Array) -> jax.Array:
    slope = (jnp.roll(u, -1, axis=-1) - u) * u.shape[-1]

    def log_rms(values):
        return jnp.log(jnp.maximum(jnp.sqrt(jnp.mean(jnp.square(values))), FLOOR))

    return jnp.stack([jnp.mean(u), log_rms(u), log_rms(slope)])


def fit_domain(layout: Layout, normaliser: Normaliser, parameters: dict, train: np.ndarray) -> Domain:
    """The domain of the rows marked in `train`; see `Domain`."""
    low, high, gap = (np.asarray(part) for part in _range(normaliser, parameters, train))
    scalar = np.concatenate([[True] if not d.shape else [False] * 3 for d in layout.space.values()])
    bounded = np.concatenate(
        [np.isfinite(_bounds(layout, name)) if not d.shape else [[False] * 2] * 3 for name, d in layout.space.items()]
    ).reshape(-1, 2)
    # a mean that is always 0 but for rounding still has a range
    narrow = np.where(scalar, 0.0, np.maximum(0.0, SPAN - (high - low) / 2))
    low, high = low - narrow, high + narrow
    center = np.where(scalar, 0.0, (low + high) / 2)
    half = np.where(scalar, 1.0, (high - low) / 2)
    lower, upper = (low - gap - center) / half, (high + gap - center) / half
    return Domain(
        center=center,
        half=half,
        lower=np.where(bounded[:, 0], np.maximum(lower, -1), lower),
        upper=np.where(bounded[:, 1], np.minimum(upper, 1), upper),
    )


def _bounds(layout: Layout, name: str) -> np.ndarray:
    bounds = np.array([layout.space[name].bounds])
    if layout.space[name].logarithmic:  # type: ignore[attr-defined]
        bounds = np.where(bounds > 0, bounds, -np.inf)
    return bounds


@jax.jit
def _range(normaliser: Normaliser, parameters: dict, train: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Smallest and largest raw features of the marked rows, and the largest gap between neighbours."""
    parameters = {name: value.astype(float) for name, value in parameters.items()}
    features = jax.vmap(lambda p: raw_features(normaliser.inputs(p)))(parameters)
    ordered = jnp.sort(jnp.where(train[:, None], features, jnp.inf), axis=0)
    steps = jnp.diff(ordered, axis=0)
    gap = jnp.max(jnp.where(jnp.isfinite(ordered[1:]), steps, 0), axis=0, initial=0)
    return ordered[0], jnp.max(jnp.where(train[:, None], features, -jnp.inf), axis=0), gap
