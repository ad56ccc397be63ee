"""A trained network in a simulator's place: the same call, with a stated error."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..data import Output, ParameterSpace, Solution, Source, Status, check_times, finish
from ._architecture import Layout
from ._baselines import Baselines
from ._domain import Domain
from ._normalise import Normaliser

if TYPE_CHECKING:
    from ._calibration import Calibration


class Surrogate(eqx.Module):
    """What `fit` and `load` return. It is called as the simulator is: one member; batches by `vmap` or
    `simulators.solve_ensemble`.

    - `network`: the trained network, weights in single precision.
    - `normaliser`, `domain`, `calibration`, `baselines`: see their classes.
    - `layout`: parameters, outputs, times and grid.
    - `provenance`: JSON-ready record of how it was made: architecture, simulator and its fingerprint, members used and
      failed, settings, training history, best step, status, versions.
    """

    network: Any
    normaliser: Normaliser
    domain: Domain
    calibration: "Calibration"
    baselines: Baselines
    layout: Layout = eqx.field(static=True)
    provenance: dict[str, Any] = eqx.field(static=True)

    @property
    def name(self) -> str:
        return f"surrogate of {self.provenance['simulator']}"

    @property
    def fingerprint(self) -> str:
        return self.provenance["fingerprint"]

    @property
    def parameters(self) -> ParameterSpace:
        return self.layout.space

    @property
    def times(self) -> np.ndarray:
        return self.layout.times

    @property
    def outputs(self) -> dict[str, Output]:
        return self.layout.outputs

    @property
    def coordinates(self) -> dict[str, np.ndarray]:
        return self.layout.coordinates

    @property
    def time_unit(self) -> str:
        return self.layout.time_unit

    def solve(self, params: Mapping[str, Any], ts: Any = None, *, key: jax.Array | None = None) -> Solution:
        """Answer one member.

        **Arguments:**

        - `params`: one value per parameter, by name. Fields may have any number of points that the network takes.
        - `ts`: times to answer at, among the surrogate's own; by default all.
        - `key`: not used.

        **Returns:** a `Solution` in the precision of `params`, with `error` (the half-width of the calibrated band) and
        `bound` (the estimated relative error of this member). A parameter that is NaN or infinite gives NaN and the
        status `bad_parameter`. Differentiable once and more in both modes; `bound` has no derivative.

        **Raises:** `ValueError` for parameters or times that cannot be meant.
        """
        check_usable(self.provenance)
        p = self.parameters.read(params)
        rows = self._rows(ts)
        solution = _compiled(_answer, p)(self, p, rows)
        return dataclasses.replace(solution, values={name: solution.values[name] for name in self.outputs})

    def inside(self, params: Mapping[str, Any]) -> jax.Array:
        """Whether a member lies in the training domain: in the box of the training members, and about as near to a
        reference member as members are to each other. NaN is outside."""
        check_usable(self.provenance)
        p = self.parameters.read(params)
        return _compiled(_inside, p)(self, p)

    def ordinary_outside(self, params: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """`params` where they are inside the training domain, else the centre of the training members."""
        inside = self.inside(params)
        return {name: jnp.where(inside, value, self._ordinary(name, value)) for name, value in params.items()}

    def features(self, params: Mapping[str, Any]) -> jax.Array:
        """The vector `(feature,)` by which members are compared; see `Domain`."""
        return self.domain.features(self.normaliser.inputs(_promoted(params)))

    def predict(self, params: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """One member's outputs `(time, *space)` by name and nothing else: no checks, no error."""
        p = _promoted(params)
        inputs = {name: value.astype(jnp.float32) for name, value in self.normaliser.inputs(p).items()}
        with jax.default_matmul_precision("highest"):
            normalised = self.network(inputs)
        return self.normaliser.outputs(normalised.astype(next(iter(p.values())).dtype))

    def save(self, path: str | Path) -> None:
        """Write a `.emx` file, whole or not at all; the layout stands in docs/format.md."""
        from ._file import save

        save(self, path)

    def __repr__(self) -> str:
        p = self.provenance
        counts = p["members"]
        return "\n".join(
            [
                f"Surrogate of {p['simulator']}: {p['architecture']['name']}, {self.weights} weights",
                f"  parameters  {', '.join(self.parameters)}",
                f"  outputs     {', '.join(self.outputs)} at {len(self.times)} times",
                f"  members     {counts['train']} training, {counts['validation']} validation, "
                f"{self.calibration.members} calibration, {counts['failed']} failed",
                f"  training    {p['status']}, best of {p['training']['steps']} steps at {p['best_step']}, "
                f"loss {p['best_loss']:.3g}, {p['seconds']:.3g} s",
            ]
        )

    @property
    def weights(self) -> int:
        """Number of weights."""
        return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(self.network, eqx.is_inexact_array)))

    def _ordinary(self, name: str, value: jax.Array) -> jax.Array:
        """A value that this parameter may have."""
        if name in self.normaliser.rms:
            return jnp.ones_like(value)
        center = jnp.asarray(self.normaliser.center[name], value.dtype)
        return jnp.exp(center) if name in self.normaliser.logarithmic else center

    def _rows(self, ts: Any) -> tuple[int, ...] | None:
        """Where the times `ts` stand among the surrogate's own.

        **Raises:** `ValueError` for traced times, and for times that are not among them.
        """
        if ts is None:
            return None
        ts = check_times(ts)
        if ts is None:
            raise ValueError(
                "ts: expected times that are known before tracing, got times that jax.numpy made inside jit: make them "
                "with numpy, or leave them out and index the answer."
            )
        rows = np.argmin(np.abs(ts[:, None] - self.times), axis=1)
        wrong = ts[~np.isclose(ts, self.times[rows], rtol=1e-6, atol=1e-12)]
        if wrong.size:
            raise ValueError(
                f"ts: expected times among the {len(self.times)} that the surrogate was trained on, from "
                f"{self.times[0]:g} to {self.times[-1]:g}; got {wrong[0]:g}."
            )
        return tuple(rows.tolist())


def _answer(surrogate: Surrogate, p: dict[str, jax.Array], rows: tuple[int, ...] | None) -> Solution:
    """The answer for one member at the times of number `rows`, or at all."""
    p = {name: p[name] for name in surrogate.parameters}  # the way into `jit` sorts names
    known = jnp.stack([jnp.all(jnp.isfinite(value)) for value in p.values()]).all()
    # a branch that is not taken must not spoil derivatives
    p = {name: jnp.where(known, value, surrogate._ordinary(name, value)) for name, value in p.items()}
    values = surrogate.predict(p)
    error = surrogate.calibration.band(values, surrogate.normaliser.transform == "log")
    times = surrogate.times
    if rows is not None:
        times, values, error = jax.tree.map(lambda value: value[np.asarray(rows)], (times, values, error))
    return finish(
        times=jnp.asarray(times, next(iter(values.values())).dtype),
        values=values,
        status=jnp.where(known, Status.ok, Status.bad_parameter),
        source=Source.surrogate,
        error=error,
        bound=jnp.where(known, surrogate.calibration.bound(surrogate.features(p)), jnp.nan),
    )


def _inside(surrogate: Surrogate, p: dict[str, jax.Array]) -> jax.Array:
    features = surrogate.features(p)
    return surrogate.domain.holds(features) & surrogate.calibration.reaches(features)


_COMPILED: dict[Any, Any] = {_answer: eqx.filter_jit(_answer), _inside: eqx.filter_jit(_inside)}


def _compiled(function: Any, p: dict[str, jax.Array]) -> Any:
    """`function` compiled for a plain call, whose operations would cost seconds one by one; as it is inside a trace."""
    return function if any(isinstance(value, Tracer) for value in p.values()) else _COMPILED[function]


def _promoted(params: Mapping[str, Any]) -> dict[str, jax.Array]:
    """All parameters in one precision, the widest among them."""
    dtype = jnp.result_type(*params.values())
    return {name: jnp.asarray(value, dtype) for name, value in params.items()}


def check_usable(provenance: Mapping[str, Any]) -> None:
    """Refuse a surrogate whose training failed.

    **Raises:** `ValueError`.
    """
    if provenance["status"] == "failed":
        raise ValueError(
            "this surrogate's training failed: its loss was never a finite number, so it has no weights to answer "
            "with; train again with a smaller learning_rate."
        )
