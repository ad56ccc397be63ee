"""A fast path for ordinary differential equations: the classical Runge-Kutta method with a fixed number of steps."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Output, ParameterSpace, Solution, Status, finish
from ._ode import ODESimulator
from ._simulator import AbstractSimulator, read_times


class RungeKutta4(eqx.Module):
    """The classical Runge-Kutta method of order 4, `substeps` equal steps between saved times; no error estimate.

    k1 = f(t, y), k2 = f(t + h/2, y + h/2 k1), k3 = f(t + h/2, y + h/2 k2), k4 = f(t + h, y + h k3),
    y <- y + h/6 (k1 + 2 k2 + 2 k3 + k4).

    **Arguments:**

    - `substeps`: steps between two saved times, at least 1.

    Cost per saved time: 4 `substeps` evaluations of f. Unstable on stiff systems: h |λ| < 2.78 is needed.

    Reference: Kutta, Z. Math. Phys. 46 (1901) 435.
    """

    substeps: int = eqx.field(default=4, static=True)

    def __check_init__(self):
        if not isinstance(self.substeps, int) or self.substeps < 1:
            raise ValueError(f"substeps: expected a whole number, at least 1, got {self.substeps!r}.")

    def integrate(self, field: Callable, starts: jax.Array, lengths: jax.Array, y0: Any) -> Any:
        """States at the end of each interval, with a leading axis.

        **Arguments:**

        - `field`: f(t, y), y an array or a pytree of arrays.
        - `starts`, `lengths`: `(interval,)`, where each interval begins and how long it is.
        - `y0`: the state at the first start.
        """

        def interval(y, span):
            start, step = span[0], span[1] / self.substeps

            def advance(y, number):
                return _step(field, start + number * step, step, y), None

            y, _ = jax.lax.scan(advance, y, jnp.arange(self.substeps), unroll=min(self.substeps, 4))
            return y, y

        return jax.lax.scan(interval, y0, (starts, lengths))[1]

    def refined(self) -> "RungeKutta4":
        """The same method with half the step, for a refinement check."""
        return RungeKutta4(2 * self.substeps)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON-ready data."""
        return {"solver": "RungeKutta4", "substeps": self.substeps}


class FixedStep(AbstractSimulator):
    """An `ODESimulator` solved by `RungeKutta4`: the same call, no adaptivity, no error control.

    For small systems that are not stiff it is many times faster than an adaptive solver at equal accuracy.

    **Arguments:**

    - `simulator`: the system.
    - `substeps`: steps between two saved times.
    - `numerics`: the method itself, in place of `substeps`.
    """

    simulator: ODESimulator
    numerics: RungeKutta4  # type: ignore[assignment]

    def __init__(self, simulator: ODESimulator, substeps: int = 4, *, numerics: RungeKutta4 | None = None):
        stated = [name for name in ("event", "jumps") if getattr(simulator, name) is not None]
        if stated:
            raise ValueError(
                f"{' and '.join(stated)}: steps between saved times cannot end there; give {simulator.name} "
                "numerics=Numerics(...) in place of FixedStep."
            )
        self.simulator = simulator
        self.numerics = RungeKutta4(substeps) if numerics is None else numerics

    @property
    def name(self) -> str:
        return self.simulator.name

    @property
    def parameters(self) -> ParameterSpace:
        return self.simulator.parameters

    @property
    def times(self) -> np.ndarray:
        return self.simulator.times

    @property
    def outputs(self) -> dict[str, Output]:
        return self.simulator.outputs

    @property
    def coordinates(self) -> dict[str, np.ndarray]:
        return self.simulator.coordinates

    @property
    def time_unit(self) -> str:
        return self.simulator.time_unit

    def solve(self, params: Mapping[str, Any], ts: Any = None, *, key: jax.Array | None = None) -> Solution:
        p = self.parameters.read(params)
        dtype = jnp.result_type(*p.values())
        times = read_times(self.times, ts)
        known = jnp.stack([jnp.all(jnp.isfinite(value)) for value in p.values()]).all()
        p = {name: jnp.where(known, value, 1).astype(dtype) for name, value in p.items()}
        y0 = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), self.simulator.initial_state(p))
        states = self._states(times, p, y0, dtype)
        finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(states)]).all()
        status = jnp.where(known, jnp.where(finite, Status.ok, Status.non_finite), Status.bad_parameter)
        saved = jnp.asarray(times, dtype)
        return finish(saved, self.simulator._observe(saved, states, p), status, self._steps(times))

    def cheaper(self) -> Iterable[tuple[str, AbstractSimulator]]:
        from ._cheaper import fixed_step_ladder

        return fixed_step_ladder(self.simulator, self.numerics.substeps)

    def _states(self, times: Any, p: dict[str, jax.Array], y0: Any, dtype: Any) -> Any:
        """States at `times`; an initial time is the initial state and costs nothing."""
        start = self.times[0]
        # lengths in double precision where times are known: in single precision a year like 1900.3 is off by up to 6e-5
        library = np if isinstance(times, np.ndarray) else jnp
        first = isinstance(times, np.ndarray) and times[0] == start
        ends = times[1:] if first else times
        edges = library.concatenate([library.asarray([start]), ends])
        starts, lengths = jnp.asarray(edges[:-1], dtype), jnp.asarray(library.diff(edges), dtype)
        states = self.numerics.integrate(lambda t, y: self.simulator.vector_field(t, y, p), starts, lengths, y0)
        if not first:
            return states
        return jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), y0, states)

    def _steps(self, times: Any) -> int:
        first = isinstance(times, np.ndarray) and times[0] == self.times[0]
        return (len(times) - first) * self.numerics.substeps


def _step(field: Callable, t: jax.Array, h: jax.Array, y: Any) -> Any:
    def shifted(k, share):
        return jax.tree.map(lambda y, k: y + share * h * k, y, k)

    k1 = field(t, y)
    k2 = field(t + h / 2, shifted(k1, 0.5))
    k3 = field(t + h / 2, shifted(k2, 0.5))
    k4 = field(t + h, shifted(k3, 1.0))
    return jax.tree.map(lambda y, a, b, c, d: y + h / 6 * (a + 2 * b + 2 * c + d), y, k1, k2, k3, k4)
