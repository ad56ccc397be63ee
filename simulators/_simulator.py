"""What a simulator is."""

import abc
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Self

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from ..data import Output, ParameterSpace, Solution
from ._numerics import Numerics


class AbstractSimulator(eqx.Module):
    """A model that is solved, written for one member.

    A subclass declares the fields below and `solve`. Ensembles, gradients and devices are applied from outside.

    - `name`: a short name.
    - `parameters`: the parameter space.
    - `times`: saved times, `(time,)`, double precision.
    - `outputs`: outputs by name.
    - `coordinates`: grid points of each space dimension, by name.
    - `numerics`: how it is solved.
    - `time_unit`: unit of `times`.
    """

    name: eqx.AbstractVar[str]
    parameters: eqx.AbstractVar[ParameterSpace]
    times: eqx.AbstractVar[np.ndarray]
    outputs: eqx.AbstractVar[dict[str, Output]]
    coordinates: eqx.AbstractVar[dict[str, np.ndarray]]
    numerics: eqx.AbstractVar[Numerics]
    time_unit: eqx.AbstractVar[str]

    @abc.abstractmethod
    def solve(self, params: Mapping[str, Any], ts: Any = None, *, key: jax.Array | None = None) -> Solution:
        """Solve one member.

        **Arguments:**

        - `params`: one value per parameter, by name.
        - `ts`: times to save at, increasing, none before the first of `times`; by default `times`.
        - `key`: randomness of this member; unused by deterministic simulators.

        **Returns:** a `Solution`; what goes wrong in the numbers is its `status`, never an exception.

        **Raises:** `ValueError` for parameters or times that cannot be meant.
        """

    @abc.abstractmethod
    def cheaper(self) -> Iterable[tuple[str, "AbstractSimulator"]]:
        """Settings of this simulator from cheap to exact, each with a label, for comparisons at equal accuracy."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields exchanged."""
        return dataclasses.replace(self, **changes)


def read_times(times: np.ndarray, ts: Any) -> Any:
    """The times to save at: `ts` checked against the simulator's own, or those if `ts` is `None`.

    **Raises:** `ValueError` for no times, times that decrease, or times before the first of `times`.
    """
    if ts is None:
        return times
    if isinstance(ts, Tracer):
        return ts
    ts = np.asarray(ts, np.float64)
    if ts.ndim != 1 or ts.size == 0:
        raise ValueError(f"ts: expected at least one time in one dimension, got shape {ts.shape}.")
    if not np.all(np.isfinite(ts)) or np.any(np.diff(ts) < 0):
        raise ValueError("ts: expected finite times in increasing order; sort them.")
    if ts[0] < times[0]:
        raise ValueError(f"ts: expected no time before the initial state at {times[0]:g}, got {ts[0]:g}.")
    return ts


def as_times(times: Any) -> np.ndarray:
    """A simulator's saved times in double precision, checked."""
    times = np.asarray(times, np.float64)
    return read_times(times[:1], times) if times.ndim == 1 and times.size else read_times(times, times)
