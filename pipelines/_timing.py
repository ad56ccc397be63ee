"""Timings that can be compared: compiled, waited for, interleaved, medians of repeats, with the machine recorded."""

import dataclasses
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PACKAGES = ("emulax", "jax", "jaxlib", "diffrax", "equinox", "numpy")
REPEATS = 7
ROUND_S = 4e-3  # a round repeats a short call until it has taken about this long


@dataclasses.dataclass
class Timed:
    """One model in one precision, compiled for one member or for a batch.

    - `call`: the compiled function of no arguments; `precision`: in which it runs.
    - `answer`: what the first call returned; `compile_s`: what the first call took longer than the second.
    - `once_s`: what the second call took; `samples`: seconds per call, one entry per round.
    """

    call: Callable[[], Any]
    precision: str
    answer: Any
    compile_s: float
    once_s: float
    samples: list[float] = dataclasses.field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Median over rounds; the one call there is if none was timed."""
        return float(np.median(self.samples or [self.once_s]))


def prepare(model: Any, members: Mapping[str, np.ndarray], precision: str, *, batched: bool) -> Timed:
    """Compile `model.solve` for all `members` at once, or for the first of them alone."""
    with jax.enable_x64(precision == "double"):
        chosen = {k: jnp.asarray(v if batched else v[0], float) for k, v in members.items()}
        solve = jax.vmap(model.solve) if batched else model.solve
        function = jax.jit(lambda params: solve(params))  # a bound method of a module need not be hashable
        answer, first = _wait(lambda: function(chosen))
        _, second = _wait(lambda: function(chosen))
    return Timed(lambda: function(chosen), precision, answer, max(first - second, 0.0), second)


def interleave(entries: Sequence[Timed], repeats: int = REPEATS) -> None:
    """Time all entries in turn, `repeats` rounds: what disturbs the machine for a while disturbs them alike."""
    for _ in range(repeats):
        for entry in entries:
            calls = int(np.clip(ROUND_S / max(entry.once_s, 1e-7), 1, 500))
            with jax.enable_x64(entry.precision == "double"):
                _, seconds = _wait(lambda entry=entry, calls=calls: [entry.call() for _ in range(calls)])
            entry.samples.append(seconds / calls)


def _wait(call: Callable[[], Any]) -> tuple[Any, float]:
    before = time.perf_counter()
    answer = jax.block_until_ready(call())
    return answer, time.perf_counter() - before


def break_even(simulating_s: float, training_s: float, solver_s: float, surrogate_s: float) -> int | None:
    """How many calls repay the ensemble and the training: ceil((simulating + training) / (solver - surrogate)).

    **Returns:** `None` if the surrogate is not faster: never.
    """
    saved = solver_s - surrogate_s
    return int(np.ceil((simulating_s + training_s) / saved)) if saved > 0 else None


def machine() -> dict[str, Any]:
    """Processor, usable cores, accelerator and versions."""
    device = jax.local_devices()[0]
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "device": f"{len(jax.local_devices())} x {device.device_kind}",
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
