"""Run an engine on some members of a design, over all devices."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Solution
from ._compiled import compile_options, compiled, constants_and_arrays, persistent_cache
from ._devices import deal, exchange, gather, per_device, queues
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
        self.loaded, self.inputs, self.progress = np.arange(0), {}, None
        self.seconds = self.compile_seconds = 0.0

    def load(self, numbers: np.ndarray, size: int) -> None:
        """Put the members `numbers` on the devices, where there is room for `size` of them.

        What was known of the members loaded before is lost; its memory is used again.
        """
        picked = {name: value[numbers] for name, value in self.members.items()}
        self.inputs = deal(picked, self.devices, rows_for(size, len(self.devices)))
        self.loaded = numbers

    def run(self, engine: AbstractEngine, most_steps: int, places: np.ndarray | None = None) -> None:
        """Solve the members loaded, or those in some places among them, each within `most_steps` trial steps."""
        devices = len(self.devices)
        places = np.arange(len(self.loaded)) if places is None else places
        queue, count = queues(places, devices, len(self.inputs[""][0]))
        if self.progress is None:
            self.progress = self._call("begin", engine)
        self.progress = self._call("advance", engine, self.progress, queue, count, np.int32(most_steps))

    def outcome(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Status codes, trial steps and times reached, counted from the initial state, of the members loaded."""
        progress: Any = self.progress
        return gather((progress.status, progress.steps, progress.reached), len(self.loaded))

    def solution(self, engine: AbstractEngine, on_host: bool) -> Solution:
        """The members loaded, in order: on the devices, in contiguous blocks, or on the host."""
        solution, times = self._call("result", engine, self.progress)
        if on_host:
            solution = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(self.loaded)], solution)
        return dataclasses.replace(solution, times=times[0])  # every member has the same times

    def describe(self) -> dict[str, float]:
        """Seconds solving and compiling."""
        return {"seconds": self.seconds, "compile_seconds": self.compile_seconds}

    def once(self, name: str, build: Callable[[], Any]) -> Any:
        """`build()`, once for all ensembles of this simulator with these times and shapes of parameters."""
        first = {key: value[:1] for key, value in self.members.items()}
        return compiled((constants_and_arrays(self.simulator)[1], name), self._shapes(first), build)

    def _call(self, step: str, engine: AbstractEngine, *data: Any) -> Any:
        """One step of a solve, compiled for these shapes when it is first needed."""
        arrays, constants = constants_and_arrays(self.simulator)
        data = ((arrays, np.uint32(self.seed)), self.inputs, *data)
        lower = {"begin": self._begin, "advance": self._advance, "result": self._result}[step]
        members = len(self.loaded) if step == "result" else None
        which = engine if step == "advance" else type(engine).__name__
        before = time.perf_counter()

        def build() -> Callable:
            lowered = lower(engine, constants).lower(*data)
            with persistent_cache():
                return _compile(lowered, compile_options(self.devices[0].platform))

        call = compiled((constants, which, step), (*self._shapes(self.inputs), members), build)
        ready = time.perf_counter()
        result = jax.block_until_ready(call(*data))
        self.seconds += time.perf_counter() - ready
        self.compile_seconds += ready - before
        return result

    def _begin(self, engine: AbstractEngine, constants: Any) -> Any:
        def begin(shared, members):
            return engine.begin(eqx.combine(shared[0], constants), self.times, members)

        return jax.pmap(begin, in_axes=(None, 0), devices=self.devices)

    def _advance(self, engine: AbstractEngine, constants: Any) -> Any:
        def advance(shared, members, progress, queue, count, most_steps):
            arrays, noise = shared
            simulator = eqx.combine(arrays, constants)
            return engine.advance(simulator, self.times, members, queue, count, most_steps, noise, progress)

        return jax.pmap(advance, in_axes=(None, 0, 0, 0, 0, None), devices=self.devices, donate_argnums=2)

    def _result(self, engine: AbstractEngine, constants: Any) -> Any:
        count, devices = len(self.loaded), len(self.devices)

        def result(shared, dealt):
            solution = engine.result(eqx.combine(shared[0], constants), self.times, *dealt)
            times = solution.times[:1]
            return exchange(dataclasses.replace(solution, times=None), count, devices), times

        mapped = per_device(result, self.devices)
        return jax.jit(lambda shared, members, progress: mapped(shared, (members, progress)))

    def _shapes(self, inputs: dict[str, Any]) -> tuple:
        arrays, _ = constants_and_arrays(self.simulator)
        shapes = tuple((name, value.shape, value.dtype) for name, value in inputs.items())
        parts = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays))
        return self.times, shapes, parts, tuple(self.devices), jnp.result_type(float)


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
