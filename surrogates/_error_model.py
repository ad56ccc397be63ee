"""How large a surrogate's error is where: a quadratic model of its logarithm, and what near members say beside it."""

import jax
import jax.numpy as jnp
import numpy as np

RIDGE = 1.0
TINY = 1e-12


def fit_error_model(features: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit log e(f) = c0 + sum_i c_i f_i + sum_(i <= j) c_ij f_i f_j to members' errors by ridge regression.

    The penalty on every coefficient but c0 is that of one observation, so that few members give a flat model.

    **Arguments:**

    - `features`: `(member, feature)`, about -1 to 1.
    - `errors`: `(member,)`, relative errors. One that is NaN or infinite counts as the largest, 0 as the smallest.

    **Returns:** the coefficients, `(1 + F + F (F + 1) / 2,)`, and the residuals of the logarithm, `(member,)`. c0 is
    plus infinity without members, minus infinity if every error is 0.
    """
    count = features.shape[1]
    coefficients, residuals = np.zeros(1 + count + count * (count + 1) // 2), np.zeros(len(errors))
    usable = errors[np.isfinite(errors) & (errors > 0)]
    if not len(usable):
        coefficients[0] = -np.inf if len(errors) and np.all(errors == 0) else np.inf
        return coefficients, residuals
    finite = np.where(np.isfinite(errors), errors, usable.max())
    logarithm = np.log(np.maximum(finite, usable.min()))
    terms = np.stack([_terms(row, np) for row in features])
    mean, middle = logarithm.mean(), terms[:, 1:].mean(axis=0)
    centred = terms[:, 1:] - middle
    normal = centred.T @ centred + RIDGE * np.eye(centred.shape[1])
    coefficients[1:] = np.linalg.solve(normal, centred.T @ (logarithm - mean))
    coefficients[0] = mean - middle @ coefficients[1:]
    return coefficients, logarithm - terms @ coefficients


def estimated_error(
    coefficients: np.ndarray, residuals: np.ndarray, squared_distances: jax.Array, features: jax.Array
) -> jax.Array:
    """e(f) for one member: the model times the exponential of its members' mean residual, weighted by distance^-4
    (Shepard's interpolation). It has no derivative.

    **Arguments:**

    - `coefficients`, `residuals`: as `fit_error_model` returns them.
    - `squared_distances`: `(member,)`, from this member to those of the fit.
    - `features`: `(feature,)`.
    """
    dtype = features.dtype
    logarithm = jnp.dot(jnp.asarray(coefficients, dtype), _terms(jax.lax.stop_gradient(features), jnp))
    if len(residuals):
        # the nearest has weight 1: no overflow where a distance is tiny
        weight = jnp.square((jnp.min(squared_distances) + TINY) / (squared_distances + TINY))
        logarithm += jnp.sum(weight * jnp.asarray(residuals, dtype)) / jnp.sum(weight)
    return jnp.exp(logarithm)


def _terms(features, xp):
    """1, the features, and their products."""
    first, second = np.triu_indices(features.shape[-1])
    return xp.concatenate([xp.ones(1, features.dtype), features, features[first] * features[second]])
