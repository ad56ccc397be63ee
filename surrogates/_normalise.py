"""From physical units to numbers of order one and back; the statistics come from the training members alone."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._architecture import Layout

TRANSFORMS = ("none", "log")
# spread relative to |mean| below which an output counts as constant: what single precision cannot resolve
CONSTANT = float(np.finfo(np.float32).eps)


class Normaliser(eqx.Module):
    """Parameters and outputs in normalised units. All arrays are NumPy, double precision.

    A scalar parameter p becomes (p - center) / half, after the logarithm if its name is in `logarithmic`; a field is
    divided by `rms`. Outputs y become (y - shift) / scale, after the logarithm if `transform` is `"log"`.

    - `center`, `half`: one number per scalar parameter.
    - `rms`: one number per field parameter.
    - `shift`, `scale`: `(time, output, *space)`, or length 1 where one number serves all times and points.
    - `constant`: same shape, where the output never changed; it is answered by `shift` (its exponential for `"log"`).
    - `parameters`, `names`: the order of parameters and outputs, which a dictionary loses on its way through `jit`.
    """

    center: dict[str, np.ndarray]
    half: dict[str, np.ndarray]
    rms: dict[str, np.ndarray]
    shift: np.ndarray
    scale: np.ndarray
    constant: np.ndarray
    logarithmic: tuple[str, ...] = eqx.field(static=True)
    transform: str = eqx.field(static=True)
    parameters: tuple[str, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def inputs(self, p: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """One member's parameters by name, in order, normalised, in their own precision."""
        return {name: self._input(name, p[name]) for name in self.parameters}

    def _input(self, name: str, value: jax.Array) -> jax.Array:
        if name in self.rms:
            return value / _like(self.rms[name], value)
        value = jnp.log(value) if name in self.logarithmic else value
        return (value - _like(self.center[name], value)) / _like(self.half[name], value)

    def targets(self, values: Mapping[str, jax.Array]) -> jax.Array:
        """One member's outputs `(time, *space)` by name as one normalised array `(time, output, *space)`."""
        stacked = jnp.stack([values[name] for name in self.names], axis=1)
        stacked = jnp.log(stacked) if self.transform == "log" else stacked
        normalised = (stacked - _like(self.shift, stacked)) / _like(self.scale, stacked)
        return jnp.where(self.constant, 0, normalised)

    def outputs(self, normalised: jax.Array) -> dict[str, jax.Array]:
        """The inverse of `targets`; constant outputs are exact."""
        shift = jnp.broadcast_to(_like(self.shift, normalised), normalised.shape)
        values = jnp.where(self.constant, shift, shift + _like(self.scale, normalised) * normalised)
        values = jnp.exp(values) if self.transform == "log" else values
        return {name: values[:, number] for number, name in enumerate(self.names)}


def _like(constant: np.ndarray, value: jax.Array) -> jax.Array:
    return jnp.asarray(constant, value.dtype)


def fit_normaliser(
    layout: Layout, parameters: dict[str, Any], values: dict[str, Any], train: np.ndarray, scaling: str, transform: str
) -> Normaliser:
    """A normaliser from the rows marked in `train`, in double precision, computed where the arrays lie.

    **Arguments:**

    - `parameters`, `values`: `(row, ...)` by name.
    - `train`: `(row,)`, which rows count.
    - `scaling`: an architecture's `target_scaling`.
    - `transform`: `"none"` or `"log"`.

    **Raises:** `ValueError` for `"log"` of an output that is not positive.
    """
    logarithmic = tuple(name for name in layout.scalars if layout.space[name].logarithmic)  # type: ignore[attr-defined]
    taken = {name: jnp.log(v) if name in logarithmic else v for name, v in parameters.items()}
    ranges = {name: _ends(layout, name, taken[name], train, name in logarithmic) for name in layout.scalars}
    # a training range of one point still needs a length to divide by
    half = {name: (high - low) / 2 or max(abs(high), 1.0) for name, (low, high) in ranges.items()}
    stats = {name: _host(_moments(value, train)) for name, value in values.items()}
    if transform == "log":
        _check_positive(stats)
        logs = {name: _host(_moments(jnp.log(value), train)) for name, value in values.items()}
        constant, stats = _constant(stats), logs
    else:
        constant = _constant(stats)
    shift, scale = _standardise(stats) if scaling == "standardise" else _rescale(stats)
    if scaling == "scale":
        constant = scale == 0
    elif constant.any():
        _warn_constant(layout, constant)
        shift = np.where(constant, _stack(stats, lambda s: (s["low"] + s["high"]) / 2), shift)
    return Normaliser(
        center={name: np.float64((low + high) / 2) for name, (low, high) in ranges.items()},  # type: ignore[misc]
        half={name: np.float64(value) for name, value in half.items()},  # type: ignore[misc]
        rms={name: np.float64(_rms(parameters[name], train)) for name in layout.fields},  # type: ignore[misc]
        shift=shift,
        scale=np.where(constant | (scale == 0), 1.0, scale),
        constant=constant,
        logarithmic=logarithmic,
        transform=transform,
        parameters=tuple(layout.space),
        names=tuple(layout.outputs),
    )


def _ends(layout: Layout, name: str, value: Any, train: np.ndarray, logarithmic: bool) -> tuple[float, float]:
    """The ends that become -1 and 1: the parameter's bounds, or the training range where these are infinite."""
    stats = _host(_moments(value, train))
    found = []
    for bound, seen in zip(layout.space[name].bounds, (stats["low"], stats["high"]), strict=True):
        bound = (math.log(bound) if bound > 0 else -math.inf) if logarithmic else bound
        found.append(bound if math.isfinite(bound) else float(seen))
    return found[0], found[1]


@jax.jit
def _moments(value: jax.Array, train: jax.Array) -> dict[str, jax.Array]:
    """Over the marked rows: mean, population standard deviation, mean square, smallest and largest value."""
    value = value.astype(float)  # a single precision ensemble's mean needs double precision too
    chosen = train.reshape(-1, *[1] * (value.ndim - 1))
    count = jnp.sum(train)
    mean = jnp.sum(jnp.where(chosen, value, 0), axis=0) / count
    return {
        "mean": mean,
        "std": jnp.sqrt(jnp.sum(jnp.where(chosen, jnp.square(value - mean), 0), axis=0) / count),
        "square": jnp.sum(jnp.where(chosen, jnp.square(value), 0), axis=0) / count,
        "low": jnp.min(jnp.where(chosen, value, jnp.inf), axis=0),
        "high": jnp.max(jnp.where(chosen, value, -jnp.inf), axis=0),
    }


def _host(stats: dict[str, jax.Array]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in stats.items()}


def _rms(value: Any, train: np.ndarray) -> float:
    return math.sqrt(float(np.mean(np.asarray(_moments(value, train)["square"])))) or 1.0


def _stack(stats: dict[str, dict[str, np.ndarray]], pick) -> np.ndarray:
    """One statistic of all outputs, `(time, output, *space)`."""
    return np.stack([pick(one) for one in stats.values()], axis=1)


def _constant(stats: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
    return _stack(stats, lambda s: s["std"] <= CONSTANT * np.abs(s["mean"]))


def _standardise(stats: dict[str, dict[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return _stack(stats, lambda s: s["mean"]), _stack(stats, lambda s: s["std"])


def _rescale(stats: dict[str, dict[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """No shift, and one rms per output over all times and points."""
    scale = np.array([math.sqrt(np.mean(s["square"])) for s in stats.values()])
    space = next(iter(stats.values()))["mean"].ndim - 1
    scale = scale.reshape(1, -1, *[1] * space)
    return np.zeros_like(scale), scale


def _check_positive(stats: dict[str, dict[str, np.ndarray]]) -> None:
    for name, one in stats.items():
        if not np.min(one["low"]) > 0:
            raise ValueError(
                f"transform='log': expected output {name!r} above 0, got {np.min(one['low']):g} among the training "
                "members; use transform='none'."
            )


def _warn_constant(layout: Layout, constant: np.ndarray) -> None:
    """Name the outputs that do not depend on the parameters, and when."""
    places = np.all(constant.reshape(*constant.shape[:2], -1), axis=-1)
    for number, name in enumerate(layout.outputs):
        times = layout.times[places[:, number]]
        if not times.size:
            continue
        when = "all times" if len(times) == len(layout.times) else f"t = {', '.join(f'{t:g}' for t in times[:5])}"
        more = f" and {len(times) - 5} more" if 5 < len(times) < len(layout.times) else ""
        warnings.warn(
            f"output {name!r} is constant over the training members at {when}{more}; its value there is answered "
            "exactly and nothing is learned.",
            stacklevel=4,
        )
