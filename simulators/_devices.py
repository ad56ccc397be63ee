"""The one file that knows devices: which there are, how members are split over them, and how a batch is run.

Members are split into contiguous blocks, one per device: with D devices and N members, device d holds rows
d N'/D to (d + 1) N'/D - 1 of the N' = N + (-N mod D) rows, the last of which repeat the last member. A solve needs no
communication between devices: each runs its own loop until its own members are done.
"""

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


def map_members(function: Callable, devices: Sequence[Any]) -> Callable:
    """`function(shared, member)` for all members: `pmap` over devices of `vmap` over each device's members.

    The returned function takes `shared` as it is and members with two leading axes, (device, member of the device).
    """
    return jax.pmap(
        lambda shared, members: jax.vmap(lambda member: function(shared, member))(members),
        in_axes=(None, 0),
        devices=devices,
    )


def split(tree: Any, count: int) -> Any:
    """Member axis to (device, member of the device)."""
    return jax.tree.map(lambda leaf: leaf.reshape(count, -1, *leaf.shape[1:]), tree)


def join(tree: Any) -> Any:
    """(Device, member of the device) to member axis; the result stays where it lies."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


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
