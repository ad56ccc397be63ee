"""The one file that knows devices: which there are, how members are split over them, and how a batch is run.

Work is dealt out in turn: with D devices, member i is solved by device i mod D, so that a sweep in which cost rises
with the index loads all devices alike. Results lie in contiguous blocks: device d holds rows d N'/D to (d + 1) N'/D - 1
of the N' = N + (-N mod D) rows, the last of which repeat the last member. A solve needs no communication between
devices: each runs its own loop until its own members are done; putting the results in order is one exchange at the end.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..data import Ensemble


def pick_devices(devices: int | Sequence[Any] | None = None) -> list[Any]:
    """The devices to use: all local ones, the first `devices` of them, or those given.

    **Raises:** `ValueError` naming how many there are, if more are asked for.
    """
    available = jax.local_devices()
    if devices is None:
        return available
    if not isinstance(devices, int):
        return list(devices)
    if not 1 <= devices <= len(available):
        raise ValueError(
            f"devices: expected 1 to {len(available)}, the number of {available[0].platform} devices that JAX has, got "
            f"{devices}; on a CPU, `emulax --devices {devices}` or XLA_FLAGS="
            f"--xla_force_host_platform_device_count={devices} set before JAX starts makes more."
        )
    return available[:devices]


def pad_members(values: dict[str, np.ndarray], multiple: int) -> dict[str, np.ndarray]:
    """Repeat the last member until the member count is a multiple of `multiple`: (-N) mod `multiple` rows more."""
    count = len(next(iter(values.values())))
    rows = np.minimum(np.arange(count + (-count) % multiple), count - 1)
    return {name: value[rows] for name, value in values.items()}


def deal(values: dict[str, np.ndarray], devices: int, rows: int) -> dict[str, np.ndarray]:
    """Members dealt out in turn, (device, row): member i is row i // D of device i mod D; repeats of the last pad."""
    count = len(next(iter(values.values())))
    numbers = np.minimum(np.arange(rows * devices), count - 1).reshape(rows, devices).T
    return {name: value[numbers] for name, value in values.items()}


def dealt(members: int, devices: int) -> np.ndarray:
    """How many of `members` each device has, `(device,)`."""
    return np.asarray([(members - d + devices - 1) // devices for d in range(devices)], np.int32)


def gather(tree: Any, members: int) -> Any:
    """Dealt results, (device, row), in the order of the members on the host."""
    return jax.tree.map(lambda leaf: _in_turn(np.asarray(leaf))[:members], tree)


def order(tree: Any, members: int, devices: Sequence[Any]) -> Any:
    """Dealt results, (device, row), in the order of the members on the devices, in contiguous blocks."""
    if len(devices) == 1:
        return jax.tree.map(lambda leaf: leaf[0, :members], tree)
    rows = np.minimum(np.arange(members + (-members) % len(devices)), members - 1)
    return _reordering(tuple(devices))(tree, rows)


@functools.cache
def _reordering(devices: tuple) -> Callable:
    """One function for the same devices, so that equal shapes are compiled once."""
    sharding = member_sharding(devices)
    return jax.jit(lambda tree, rows: jax.tree.map(lambda leaf: _in_turn(leaf)[rows], tree), out_shardings=sharding)


def put(values: dict[str, np.ndarray], devices: Sequence[Any]) -> dict[str, jax.Array]:
    """Members from the host onto devices in contiguous blocks."""
    padded = pad_members(values, len(devices))
    return {name: jax.device_put(value, member_sharding(devices)) for name, value in padded.items()}


def _in_turn(leaf: Any) -> Any:
    return leaf.swapaxes(0, 1).reshape(-1, *leaf.shape[2:])


def member_sharding(devices: Sequence[Any]) -> NamedSharding:
    """Rows split over `devices` in contiguous blocks."""
    return NamedSharding(Mesh(np.asarray(devices), ("member",)), PartitionSpec("member"))


def shard(ensemble: Ensemble, devices: int | Sequence[Any] | None = None) -> Ensemble:
    """An ensemble read from a file, put on devices and split over members; one already there is returned as it is."""
    import dataclasses

    leaves = jax.tree.leaves(ensemble.solution.values)
    if devices is None and all(isinstance(leaf, jax.Array) for leaf in leaves):
        return ensemble
    chosen = pick_devices(devices)
    sharding = member_sharding(chosen)

    def put(array):
        return jax.device_put(pad_members({"": np.asarray(array)[: ensemble.size]}, len(chosen))[""], sharding)

    with jax.enable_x64(True):
        times = ensemble.solution.times
        members = jax.tree.map(put, dataclasses.replace(ensemble.solution, times=ensemble.solution.steps))
        solution = dataclasses.replace(members, times=times)
        return dataclasses.replace(
            ensemble, parameters={name: put(value) for name, value in ensemble.parameters.items()}, solution=solution
        )
