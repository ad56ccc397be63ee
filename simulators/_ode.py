"""Any system of ordinary differential equations, from functions."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import RESERVED, Output, ParameterSpace, as_outputs
from ._event import Event
from ._jumps import as_jumps, clock, within
from ._numerics import Numerics
from ._problem import AbstractInitialValueSimulator, Problem, screen
from ._simulator import AbstractSimulator, as_times, read_times


class ODESimulator(AbstractInitialValueSimulator):
    """dy/dt = f(t, y, p), y(times[0]) = y0(p).

    **Arguments:**

    - `vector_field`: `f(t, y, p)`, with `p` the parameters by name; returns the shape of `y`.
    - `initial_state`: `y0(p)`, an array or a pytree of arrays.
    - `parameters`: the parameter space.
    - `times`: saved times, `(time,)`.
    - `outputs`: names, or names with `data.Output(unit=...)`; one for each component of the state, unless `observe`
      is given.
    - `observe`: `g(t, y, p)` returning one value per output by name, for outputs that are not the state itself.
    - `event`: where a member ends before its last time, an `Event`.
    - `jumps`: times at which `f` is discontinuous in t, `(jump,)`, or a function `p -> times` where they depend on the
      parameters; steps end at them.
    - `numerics`: solver and tolerances.
    - `name`, `description`, `reference`, `time_unit`: text for listings and labels.

    **Raises:** `ValueError` if names clash, times do not increase, or jumps come with steps of a fixed length.
    """

    vector_field: Callable
    initial_state: Callable
    parameters: ParameterSpace = eqx.field(static=True)
    times: np.ndarray = eqx.field(converter=as_times)
    outputs: dict[str, Output] = eqx.field(static=True, converter=as_outputs)
    observe: Callable | None = None
    event: Event | None = None
    jumps: Any = eqx.field(default=None, converter=as_jumps)
    numerics: Numerics = Numerics()
    name: str = eqx.field(default="ode", static=True)
    description: str = eqx.field(default="", static=True)
    reference: str = eqx.field(default="", static=True)
    time_unit: str = eqx.field(default="", static=True)
    coordinates: dict[str, np.ndarray] = eqx.field(default_factory=dict)

    def __check_init__(self):
        clash = set(self.outputs) & set(self.parameters)
        clash |= (set(self.outputs) | set(self.parameters)) & set(RESERVED)
        if clash:
            raise ValueError(
                f"expected different names for parameters and outputs, none of {', '.join(sorted(RESERVED))}; "
                f"rename {', '.join(sorted(clash))}."
            )
        if self.event is not None and not isinstance(self.event, Event):
            raise ValueError(f"event: expected simulators.Event(function), got {self.event!r}.")
        if self.jumps is not None and self.numerics.step is not None:
            raise ValueError(
                "jumps: steps of a fixed length cannot end at them; give rtol and atol in place of step, or leave "
                "jumps out."
            )

    @property
    def start(self) -> float:
        """The time at which the initial state holds."""
        return float(self.times[0])

    def problem(self, params: Mapping[str, Any], ts: Any = None) -> Problem:
        p = self.parameters.read(params)
        dtype = jnp.result_type(*p.values())
        known, p = screen(p, dtype)
        times = jnp.asarray(read_times(self.times, ts) - self.start, dtype)
        y0 = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), self.initial_state(p))
        jumps = None if self.jumps is None else within(self._jumps(p, dtype), times[-1])
        now = clock(self.start, None if self.jumps is None else lambda p: self._jumps(p, dtype))

        def timed(function):
            return function if self.start == 0 else lambda t, y, p: function(now(t, p), y, p)

        event = None if self.event is None else self.event.moved(timed)
        return Problem(diffrax.ODETerm(timed(self.vector_field)), y0, p, times, known, event, jumps)

    def observables(self, times: jax.Array, states: Any, args: Any) -> dict[str, jax.Array]:
        return self._observe(self.start + times, states, args)

    def cheaper(self) -> Iterable[tuple[str, AbstractSimulator]]:
        from ._cheaper import ode_ladder

        return ode_ladder(self)

    def _jumps(self, p: dict[str, jax.Array], dtype: Any) -> jax.Array:
        """The jumps, `(jump,)`, counted from the initial state."""
        if not callable(self.jumps):
            return jnp.asarray(self.jumps - self.start, dtype)
        return jnp.ravel(jnp.asarray(self.jumps(p), dtype)) - self.start

    def _observe(self, times: jax.Array, states: Any, p: dict[str, jax.Array]) -> dict[str, jax.Array]:
        if self.observe is not None:
            values = jax.vmap(lambda t, y: self.observe(t, y, p))(times, states)  # type: ignore[misc]
            if not isinstance(values, Mapping) or set(values) != set(self.outputs):
                raise ValueError(f"observe: expected a mapping with the outputs {', '.join(self.outputs)}.")
            return {name: values[name] for name in self.outputs}
        return dict(zip(self.outputs, components(states, tuple(self.outputs)), strict=True))


def components(states: Any, names: tuple[str, ...]) -> list[jax.Array]:
    """The components of a state saved at every time, `(time,)` each: columns of an array, or leaves of a pytree."""
    leaves = jax.tree.leaves(states)
    if len(leaves) == 1 and leaves[0].ndim == 2:
        leaves = list(leaves[0].T)
    if len(leaves) != len(names):
        raise ValueError(
            f"outputs: expected one name for each of the {len(leaves)} components of the state, got {len(names)} "
            f"({', '.join(names)}); name them all or give `observe`."
        )
    return leaves
