"""Run an engine on some members of a design, over all devices."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Solution
from ._compiled import compile_options, compiled, constants_and_arrays, persistent_cache
from ._devices import deal, dealt
from ._engines import AbstractEngine


class Runner:
    """One ensemble under way: its members on the host, its devices, and the time that solving and compiling took.

    **Arguments:**

    - `simulator`, `times`: what is solved and when it is saved; `None` for the simulator's own times.
    - `members`: parameters by name, `(member, *shape)`.
    - `devices`: devices of JAX.
    - `seed`: randomness of stochastic simulators.
    """

    def __init__(self, simulator: Any, times: Any, members: dict[str, np.ndarray], devices: Sequence[Any], seed: int):
        self.simulator, self.devices, self.seed = simulator, devices, seed
        self.times = None if times is None else tuple(np.asarray(times, np.float64).tolist())
        self.count = len(next(iter(members.values())))
        self.members = dict(members) | {"": np.arange(self.count)}
        self.seconds = self.compile_seconds = 0.0

    def run(self, engine: AbstractEngine, numbers: np.ndarray, size: int, most_steps: int) -> tuple[Solution, Any]:
        """Solve the members `numbers`: a batched solution and the times reached, counted from the initial state.

        Leading axes are (device, row), as `_devices.deal` deals them.

        `size` is the number of members that the compiled solve has room for.
        """
        devices = len(self.devices)
        picked = {name: value[numbers] for name, value in self.members.items()}
        inputs = deal(picked, devices, rows_for(size, devices))
        before = time.perf_counter()
        solve = self._compiled(engine, inputs)
        ready = time.perf_counter()
        result = jax.block_until_ready(solve(inputs, dealt(len(numbers), devices), np.int32(most_steps)))
        self.seconds += time.perf_counter() - ready
        self.compile_seconds += ready - before
        return result

    def describe(self) -> dict[str, float]:
        """Seconds solving and compiling."""
        return {"seconds": self.seconds, "compile_seconds": self.compile_seconds}

    def once(self, name: str, build: Callable[[], Any]) -> Any:
        """`build()`, once for all ensembles of this simulator with these times and shapes of parameters."""
        first = {key: value[:1] for key, value in self.members.items()}
        return compiled((constants_and_arrays(self.simulator)[1], name), self._shapes(first), build)

    def _shapes(self, inputs: dict[str, np.ndarray]) -> tuple:
        arrays, _ = constants_and_arrays(self.simulator)
        shapes = tuple((name, value.shape, value.dtype) for name, value in inputs.items())
        parts = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays))
        return self.times, shapes, parts, tuple(self.devices), jnp.result_type(float)

    def _compiled(self, engine: AbstractEngine, inputs: dict[str, np.ndarray]) -> Callable:
        """The compiled solve for these shapes, and this ensemble's arrays bound to it."""
        arrays, constants = constants_and_arrays(self.simulator)
        noise = np.uint32(self.seed)

        def build() -> Callable:
            def rows(shared, members, count, most_steps):
                arrays, noise = shared
                return engine.rows(eqx.combine(arrays, constants), self.times, members, count, most_steps, noise)

            mapped = jax.pmap(rows, in_axes=(None, 0, 0, None), devices=self.devices)
            count = np.zeros(len(self.devices), np.int32)
            lowered = mapped.lower((arrays, noise), inputs, count, np.int32(0))
            with persistent_cache():
                return _compile(lowered, compile_options(self.devices[0].platform))

        solve = compiled((constants, engine), self._shapes(inputs), build)
        return lambda members, count, most_steps: solve((arrays, noise), members, count, most_steps)


def rows_for(members: int, devices: int) -> int:
    """Rows on each device for so many members: 1 to 16, then 16 to 31 times a power of two, so that few sizes occur."""
    rows = -(-members // devices)
    step = 1 << max(0, (rows - 1).bit_length() - 5)
    return -(-rows // step) * step


def _compile(lowered: Any, options: dict[str, Any]) -> Callable:
    try:
        return lowered.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
        if "compile option" not in str(error):
            raise
        return lowered.compile()  # an option that this version of XLA does not have
