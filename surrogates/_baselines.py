"""What a surrogate must beat: the mean of the training members, and linear least squares."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._normalise import Normaliser

CUTOFF = 1e-13  # eigenvalues of the Gram matrix below this share of the largest are rounding


class Baselines(eqx.Module):
    """Two predictors fitted on the training members, in physical units. Arrays are NumPy, double precision.

    - `normaliser`: the surrogate's; the linear predictor is linear in normalised parameters.
    - `mean`: `(time, output, *space)`.
    - `coefficients`: `(1 + input, time, output, *space)`, the intercept first; the fit of least norm.
    """

    normaliser: Normaliser
    mean: np.ndarray
    coefficients: np.ndarray

    def predict(self, params: Mapping[str, jax.Array]) -> dict[str, dict[str, jax.Array]]:
        """One member's outputs `(time, *space)` by baseline, `"mean"` or `"linear"`, and by output name.

        **Raises:** `ValueError` for a missing parameter, or a field on another grid than the training members'.
        """
        missing = [name for name in self.normaliser.parameters if name not in params]
        if missing:
            raise ValueError(
                f"expected the parameters {', '.join(self.normaliser.parameters)}; missing {', '.join(missing)}."
            )
        p = {name: jnp.asarray(params[name], float) for name in params}
        x = regressors(self.normaliser, p)
        if len(x) != len(self.coefficients):
            raise ValueError(
                f"expected {len(self.coefficients) - 1} input values, got {len(x) - 1}: the linear baseline answers on "
                "the training grid only."
            )
        coefficients = jnp.asarray(self.coefficients, x.dtype)
        linear = jnp.tensordot(x, coefficients, axes=1, precision="highest")
        found = {"mean": jnp.asarray(self.mean, x.dtype), "linear": linear}
        names = self.normaliser.names
        return {kind: {name: y[:, i] for i, name in enumerate(names)} for kind, y in found.items()}


def regressors(normaliser: Normaliser, p: Mapping[str, jax.Array]) -> jax.Array:
    """`(1 + input,)`: 1, then the normalised parameters in order, fields flattened."""
    return jnp.concatenate([jnp.ones(1), *[jnp.ravel(value) for value in normaliser.inputs(p).values()]])


def fit_baselines(normaliser: Normaliser, parameters: dict, values: dict, train: np.ndarray) -> Baselines:
    """Baselines from the rows marked in `train`, by the normal equations in double precision."""
    gram, moment, mean = (np.asarray(part) for part in _normal_equations(normaliser, parameters, values, train))
    eigenvalues, vectors = np.linalg.eigh(gram)
    kept = eigenvalues > CUTOFF * eigenvalues[-1]
    inverse = np.where(kept, 1 / np.where(kept, eigenvalues, 1), 0)
    coefficients = vectors @ (inverse[:, None] * (vectors.T @ moment.reshape(len(moment), -1)))
    return Baselines(normaliser, mean, coefficients.reshape(moment.shape))


@jax.jit
def _normal_equations(normaliser: Normaliser, parameters: dict, values: dict, train: jax.Array):
    """XᵀX / n, XᵀY / n and the mean of Y over the marked rows."""
    x = jax.vmap(lambda p: regressors(normaliser, p))({name: p.astype(float) for name, p in parameters.items()})
    y = jnp.stack([values[name] for name in normaliser.names], axis=2)
    x = jnp.where(train[:, None], x, 0)
    y = jnp.where(train.reshape(-1, *[1] * (y.ndim - 1)), y, 0)
    count = jnp.sum(train)
    gram = jnp.matmul(x.T, x, precision="highest") / count
    return gram, jnp.tensordot(x.T, y, axes=1, precision="highest") / count, jnp.sum(y, axis=0) / count
