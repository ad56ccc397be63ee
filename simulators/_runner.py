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
from ._devices import collect, deal, exchange, gather, per_device, queues, traced_alone
from ._engines import AbstractEngine
from ._members import Members
from ._refinement import Refinement, rows_of


class Runner:
    """One ensemble under way: its members on the host, its devices, and the time that solving and compiling took.

    **Arguments:**

    - `simulator`, `times`: what is solved and when it is saved; `None` for the simulator's own times.
    - `members`: parameters by name, `(member, *shape)`.
    - `devices`: devices of JAX.
    - `seed`: randomness of stochastic simulators.

    `beside` and `apart` are the ensemble's refinement check, where it has one: refined copies of members run beside
    them, or after them and apart.
    """

    def __init__(self, simulator: Any, times: Any, members: dict[str, np.ndarray], devices: Sequence[Any], seed: int):
        self.simulator, self.devices, self.seed = simulator, devices, seed
        self.beside: Refinement | None = None
        self.apart: Any = None
        self.times = None if times is None else tuple(np.asarray(times, np.float64).tolist())
        self.count = len(next(iter(members.values())))
        self.members = Members(dict(members), np.arange(self.count), np.zeros(self.count, bool))
        self.loaded, self.copied, self.most_copied = np.arange(0), np.arange(0), 0
        self.inputs: Any = None
        self.progress: Any = None
        self.seconds = self.compile_seconds = 0.0

    def load(self, numbers: np.ndarray, size: int, copies: bool = True) -> None:
        """Put the members `numbers` on the devices, where there is room for `size` of them, and behind them the refined
        copies of those among them that are sampled.

        What was known of the members loaded before is lost; its memory is used again.
        """
        self.loaded, self.copied, self.most_copied = numbers, numbers[:0], 0
        if self.beside is not None:
            self.most_copied = self.beside.most(size)
            self.copied = numbers[self.beside.sample[numbers] & copies]
        rows = np.concatenate([numbers, self.copied])
        picked = jax.tree.map(lambda leaf: leaf[rows], self.members)
        picked = dataclasses.replace(picked, refined=np.arange(len(rows)) >= len(numbers))
        self.inputs = deal(picked, self.devices, rows_for(size + self.most_copied, len(self.devices)))

    def run(self, engine: AbstractEngine, most_steps: int, places: np.ndarray | None = None) -> None:
        """Solve the members loaded, or those in some places among them, each within `most_steps` trial steps."""
        if places is None:  # refined copies take longest: they start first
            places = np.concatenate([len(self.loaded) + np.arange(len(self.copied)), np.arange(len(self.loaded))])
        queue, count = queues(places, len(self.devices), self.inputs.number.shape[1])
        if self.progress is None:
            self.progress = self._call("begin", engine)
        self.progress = self._call("advance", engine, self.progress, queue, count, np.int32(most_steps))

    def outcome(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Status codes, trial steps and times reached, counted from the initial state, of the members loaded and behind
        them of the refined copies."""
        progress = self.progress
        return gather((progress.status, progress.steps, progress.reached), len(self.loaded) + len(self.copied))

    def solution(self, engine: AbstractEngine, on_host: bool) -> Solution:
        """The members loaded, in order: on the devices, in contiguous blocks, or on the host."""
        devices, count = len(self.devices), len(self.loaded)
        own = np.flatnonzero(np.isin(self.loaded, self.copied))
        places = np.concatenate([own, count + np.arange(len(self.copied))])
        rows, _ = queues(places, devices, 2 * self.most_copied)
        solution, times, picked = self._call("result", engine, self.progress, rows)
        if self.beside is not None and self.copied.size:
            pairs = dataclasses.replace(collect(picked, places, devices), times=times[0])
            once, again = np.split(np.arange(len(places)), 2)
            self.beside.compare(self.copied, rows_of(pairs, once), rows_of(pairs, again))
        if on_host:
            solution = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], solution)
        return dataclasses.replace(solution, times=times[0])  # every member has the same times

    def describe(self) -> dict[str, float]:
        """Seconds solving and compiling."""
        return {"seconds": self.seconds, "compile_seconds": self.compile_seconds}

    def once(self, name: str, build: Callable[[], Any]) -> Any:
        """`build()`, once for all ensembles of this simulator with these times and shapes of parameters."""
        first = jax.tree.map(lambda leaf: leaf[:1], self.members)
        return compiled((constants_and_arrays(self.simulator)[1], name), self._shapes(first), build)

    def _call(self, step: str, engine: AbstractEngine, *data: Any) -> Any:
        """One step of a solve, compiled for these shapes when it is first needed."""
        arrays, constants = constants_and_arrays(self.simulator)
        data = ((arrays, np.uint32(self.seed)), self.inputs, *data)
        lower = {"begin": self._begin, "advance": self._advance, "result": self._result}[step]
        members = (len(self.loaded), self.most_copied) if step == "result" else None
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

        return jax.pmap(traced_alone(begin), in_axes=(None, 0), devices=self.devices)

    def _advance(self, engine: AbstractEngine, constants: Any) -> Any:
        def advance(shared, members, progress, queue, count, most_steps):
            arrays, noise = shared
            simulator = eqx.combine(arrays, constants)
            return engine.advance(simulator, self.times, members, queue, count, most_steps, noise, progress)

        return jax.pmap(traced_alone(advance), in_axes=(None, 0, 0, 0, 0, None), devices=self.devices, donate_argnums=2)

    def _result(self, engine: AbstractEngine, constants: Any) -> Any:
        count, devices = len(self.loaded), len(self.devices)

        @traced_alone
        def solved(shared, members, progress):
            return engine.result(eqx.combine(shared[0], constants), self.times, members, progress)

        def result(shared, dealt):
            members, progress, rows = dealt
            solution = solved(shared, members, progress)
            times, solution = solution.times[:1], dataclasses.replace(solution, times=None)
            picked = jax.tree.map(lambda leaf: leaf[rows], solution) if rows.size else None
            return exchange(solution, count, devices), times, picked

        mapped = per_device(result, self.devices)
        return jax.jit(lambda shared, members, progress, rows: mapped(shared, (members, progress, rows)))

    def _shapes(self, inputs: Members) -> tuple:
        arrays, _ = constants_and_arrays(self.simulator)
        shapes = tuple((name, value.shape, value.dtype) for name, value in inputs.parameters.items())
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
