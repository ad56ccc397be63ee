"""The stated error, from members used for nothing else."""

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Ensemble, check_kind, check_number, check_whole
from ._architecture import Layout
from ._error_model import estimated_error, fit_error_model
from ._errors import member_error
from ._surrogate import Surrogate, check_usable

REACH = 1.5


class Calibration(eqx.Module):
    """What the calibration members say about a surrogate's error. Arrays are NumPy, double precision.

    **The band.** `half_width[output]`, `(time,)`, is the half-width of the `level` (90 %) band in units of the band's
    scale: 1 for scalar outputs, the predicted field's rms over its points for fields, the prediction itself for
    outputs learned in logarithms. It is the smallest half-width for which

        (1 + sum over the n calibration members of the share of points outside) / (n + 1) <= 1 - level,

    so that a point of a new member, drawn as the calibration members were, lies outside with a probability of at most
    1 - level. For a scalar output it is the ceil((n + 1) level)-th smallest of the n absolute residuals. With fewer
    than level / (1 - level) members (9 for 90 %) it is infinite.

    **The bound.** One random half of the members are references: `reference_features` `(a, feature)` and their
    relative errors `reference_errors` `(a,)`. The estimate for a new member is a quadratic model of the logarithm of
    the references' errors, `error_model`, corrected by its `residuals` near the member (see `estimated_error`). The
    other half never enters that estimate and says what it is worth: `scores` `(b,)` are their estimates, `errors`
    `(b,)` their true relative errors (see `member_error`).

    **The domain.** `farthest` is the largest distance from a member of the other half to its nearest reference.

    - `given`: number of leading times left out of relative errors, because the simulator was told the outputs there.
    - `members`: number of calibration members.
    - `failed`: the calibration members that did not finish, which are left out.
    """

    half_width: dict[str, np.ndarray]
    reference_features: np.ndarray
    reference_errors: np.ndarray
    error_model: np.ndarray
    residuals: np.ndarray
    scores: np.ndarray
    errors: np.ndarray
    farthest: float = eqx.field(static=True)
    level: float = eqx.field(static=True)
    given: int = eqx.field(static=True)
    members: int = eqx.field(static=True)
    failed: int = eqx.field(static=True)

    def band(self, values: dict[str, jax.Array], logarithmic: bool) -> dict[str, jax.Array]:
        """Half-width of the band around predicted `values`, one array `(time, *space)` per output."""
        found = {}
        for name, value in values.items():
            width = jnp.asarray(self.half_width[name], value.dtype)
            scale = jax.lax.stop_gradient(band_scale(value, logarithmic))
            found[name] = width.reshape(-1, *[1] * (value.ndim - 1)) * scale
        return found

    def nearest(self, features: jax.Array) -> jax.Array:
        """Distance from a member to its nearest reference."""
        return jnp.sqrt(jnp.min(self._squared_distances(features), initial=jnp.inf))

    def bound(self, features: jax.Array) -> jax.Array:
        """Estimated relative error of a member."""
        return estimated_error(self.error_model, self.residuals, self._squared_distances(features), features)

    def reaches(self, features: jax.Array) -> jax.Array:
        """Whether a member is as near to the references as members are: within 1.5 times `farthest`."""
        return self.nearest(features) <= REACH * self.farthest if math.isfinite(self.farthest) else jnp.asarray(True)

    def _squared_distances(self, features: jax.Array) -> jax.Array:
        apart = jnp.asarray(self.reference_features, features.dtype) - jax.lax.stop_gradient(features)
        return jnp.sum(jnp.square(apart), axis=1)


def band_scale(value: jax.Array, logarithmic: bool) -> jax.Array:
    """What a half-width is multiplied with, for one prediction `(time, *space)`; see `Calibration`."""
    if logarithmic:
        return jnp.abs(value)
    if value.ndim == 1:
        return jnp.ones_like(value)
    root = jnp.sqrt(jnp.mean(jnp.square(value), axis=tuple(range(1, value.ndim)), keepdims=True))
    return jnp.broadcast_to(root, value.shape)


def half_width(scores: np.ndarray, level: float) -> np.ndarray:
    """The smallest half-widths that keep the band's promise; see `Calibration`.

    **Arguments:**

    - `scores`: `(member, time, point)`, |residual| / scale; a NaN counts as outside any band.

    **Returns:** `(time,)`; infinite where there are too few members.
    """
    members, times, points = scores.shape
    # the tolerance keeps 0.1 * 10 from rounding below 1
    allowed = (members + 1) * (1 - level) - 1 + 1e-9
    if allowed < 0:
        return np.full(times, np.inf)
    pooled = np.sort(np.where(np.isnan(scores), np.inf, scores).swapaxes(0, 1).reshape(times, -1), axis=1)
    return pooled[:, members * points - 1 - math.floor(points * allowed)]


def calibrate(surrogate: Surrogate, ensemble: Ensemble, *, level: float = 0.9, seed: int = 0) -> Surrogate:
    """State a surrogate's error from members that were used for nothing else.

    **Arguments:**

    - `surrogate`: trained on other members of the same simulator.
    - `ensemble`: independent random members; Sobol points are no independent draws. Failed members are left out.
    - `level`: nominal coverage of the band, above 0 and below 1.
    - `seed`: which half of the members becomes references.

    **Returns:** the surrogate with its `calibration`; see `Calibration` for what it promises.

    **Raises:** `ValueError` for a level out of range, another simulator's ensemble, or a failed surrogate.
    """
    check_kind("surrogate", surrogate, Surrogate, "a surrogate such as surrogates.fit returns")
    check_kind("ensemble", ensemble, Ensemble, "an ensemble such as simulators.solve_ensemble returns")
    check_usable(surrogate.provenance)
    level = check_number("level", level, "a coverage above 0 and below 1", lambda share: 0 < share < 1)
    seed = check_whole("seed", seed)
    check_same(surrogate.layout, surrogate.provenance, ensemble)
    members = np.flatnonzero(ensemble.ok)
    return calibrate_on(surrogate, ensemble, members, level, seed, failed=len(ensemble) - len(members))


def calibrate_on(
    surrogate: Surrogate, ensemble: Ensemble, members: np.ndarray, level: float, seed: int, failed: int = 0
) -> Surrogate:
    """`calibrate`, on some finished members of an ensemble."""
    with jax.enable_x64(True):
        parameters = {name: jnp.asarray(value)[members] for name, value in ensemble.parameters.items()}
        truth = {name: jnp.asarray(value)[members] for name, value in ensemble.solution.values.items()}
        given = surrogate.provenance["given_times"]
        features, scores, errors = _judge(surrogate, parameters, truth, given)
        features, errors = np.asarray(features), np.asarray(errors)
    half = np.random.default_rng([seed, 2]).permutation(len(members))
    references, others = np.sort(half[: (len(half) + 1) // 2]), np.sort(half[(len(half) + 1) // 2 :])
    model, residuals = fit_error_model(features[references], errors[references])
    calibration = Calibration(
        half_width={
            name: half_width(np.asarray(score).reshape(*score.shape[:2], math.prod(score.shape[2:])), level)
            for name, score in scores.items()
        },
        reference_features=features[references],
        reference_errors=errors[references],
        error_model=model,
        residuals=residuals,
        scores=np.zeros(0),
        errors=errors[others],
        farthest=math.inf,
        level=level,
        given=given,
        members=len(members),
        failed=failed,
    )
    if not all(np.all(np.isfinite(width)) for width in calibration.half_width.values()):
        warnings.warn(
            f"{len(members)} calibration members are too few for a {level:.0%} band: the stated error is infinite. "
            f"Give calibration=Ensemble of at least {math.ceil(1 / (1 - level) - 1 - 1e-9)} members.",
            stacklevel=3,
        )
    return dataclasses.replace(surrogate, calibration=_with_others(calibration, features[others]))


def _with_others(calibration: Calibration, features: np.ndarray) -> Calibration:
    """Score the members that are no references."""
    if not len(features):
        return calibration
    with jax.enable_x64(True):
        where = jnp.asarray(features)
        scores = np.asarray(jax.vmap(calibration.bound)(where))
        farthest = float(jnp.max(jax.vmap(calibration.nearest)(where)))
    return dataclasses.replace(calibration, scores=scores, farthest=farthest)


def _judge(surrogate: Surrogate, parameters: dict[str, Any], truth: dict[str, Any], given: int):
    """Features, band scores and relative errors of members."""
    logarithmic = surrogate.normaliser.transform == "log"

    @jax.jit
    def judge(parameters, truth):
        predicted = jax.vmap(surrogate.predict)(parameters)
        scales = {name: jax.vmap(lambda v: band_scale(v, logarithmic))(value) for name, value in predicted.items()}
        # where both are 0 the prediction is exact
        scores = {
            name: jnp.where(truth[name] == value, 0, jnp.abs(truth[name] - value) / scales[name])
            for name, value in predicted.items()
        }
        features = jax.vmap(surrogate.features)(parameters)
        return features, scores, member_error(predicted, truth, given)

    return judge(parameters, truth)


def check_same(layout: Layout, trained: Mapping[str, Any], ensemble: Ensemble) -> None:
    """Refuse an ensemble of another simulator, or at other times.

    **Arguments:**

    - `layout`: of the surrogate; `trained`: its simulator's `"simulator"`, the name, and `"fingerprint"`.

    **Raises:** `ValueError`.
    """
    for what, ours, theirs in (
        ("parameters", list(layout.space), list(ensemble.space)),
        ("outputs", list(layout.outputs), list(ensemble.outputs)),
        ("times", layout.times.tolist(), ensemble.times.tolist()),
    ):
        if ours != theirs:
            raise ValueError(f"calibration: expected an ensemble with the {what} {ours}, got {theirs}.")
    ours, given = trained.get("fingerprint", ""), ensemble.metadata.get("fingerprint", "")
    if ours != given:
        raise ValueError(
            "calibration: expected an ensemble of the simulator that the surrogate was trained on "
            f"({trained.get('simulator')!r}, fingerprint {str(ours)[:12]}), got one of "
            f"{ensemble.metadata.get('simulator')!r} ({str(given)[:12]})."
        )
