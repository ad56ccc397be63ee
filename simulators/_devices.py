"""The one file that knows devices: which there are, how members are split over them, and how a batch is run.

Work is dealt out in turn: with D devices, member i is solved by device i mod D, so that a sweep in which cost rises
with the index loads all devices alike. Results lie in contiguous blocks: device d holds rows d N'/D to (d + 1) N'/D - 1
of the N' = N + (-N mod D) rows, the last of which repeat the last member. A solve needs no communication between
devices: each runs its own loop until its own members are done; putting the results in order is one exchange at the end,
in which a device sends each other one what that is to hold.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, use_abstract_mesh

from ..data import Ensemble

AXIS = "member"


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


def deal(tree: Any, devices: Sequence[Any], rows: int) -> Any:
    """Members dealt out in turn, `(device, row)`: member i is row i // D of device i mod D; repeats of the last pad."""
    count = len(jax.tree.leaves(tree)[0])
    numbers = np.minimum(np.arange(rows * len(devices)), count - 1).reshape(rows, len(devices)).T
    return jax.tree.map(lambda leaf: jax.device_put(leaf[numbers], member_sharding(devices)), tree)


def queues(members: np.ndarray, devices: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of these members on each device, `(device, row)`, padded to `rows`, and how many, `(device,)`."""
    queue = np.zeros((devices, rows), np.int32)
    count = np.zeros(devices, np.int32)
    for device in range(devices):
        own = members[members % devices == device] // devices
        queue[device, : len(own)], count[device] = own, len(own)
    return queue, count


def gather(tree: Any, members: int) -> Any:
    """Dealt results, `(device, row)`, in the order of the members on the host."""

    def leaf(dealt):
        dealt = np.asarray(dealt)
        return dealt.swapaxes(0, 1).reshape(-1, *dealt.shape[2:])[:members]

    return jax.tree.map(leaf, tree)


def collect(tree: Any, members: np.ndarray, devices: int) -> Any:
    """Rows that each device picked by its queue of `members`, `(device * row, ...)`, in the order of `members`."""
    place = np.empty(len(members), np.int64)
    rows = len(jax.tree.leaves(tree)[0]) // devices
    for device in range(devices):
        own = np.flatnonzero(members % devices == device)
        place[own] = device * rows + np.arange(len(own))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[place], tree)


def exchange(tree: Any, members: int, devices: int) -> Any:
    """Dealt rows of this device into its contiguous block of rows; to be called on all devices, within `per_device`.

    Device e is to hold n = ⌈N/D⌉ members from e n on. Of these device d has every D-th, rows ⌈(e n - d)/D⌉ and the
    next ⌈n/D⌉ - 1.
    """
    if devices == 1:
        return jax.tree.map(lambda leaf: leaf[:members], tree)
    size = -(-members // devices)
    most = -(-size // devices)
    here = jax.lax.axis_index(AXIS)
    first = -((here - jnp.arange(devices) * size) // devices)  # of the rows for each other device
    wanted = first[:, None] + jnp.arange(most)
    beyond = here * size + jnp.arange(size) >= members  # repeat the last member

    def leaf(rows):
        sent = rows.at[wanted].get(mode="clip")  # (to, row, ...)
        got = jax.lax.all_to_all(sent, AXIS, 0, 0)  # (from, row, ...)
        got = jnp.roll(got, -((here * size) % devices), axis=0)  # the first is whoever had the first member
        block = got.swapaxes(0, 1).reshape(-1, *rows.shape[1:])[:size]
        if members % devices == 0:
            return block
        owns = here == (members - 1) % devices
        last = jax.lax.psum(jnp.where(owns, rows[(members - 1) // devices], 0), AXIS)
        return jnp.where(beyond.reshape(-1, *[1] * (rows.ndim - 1)), last, block)

    return jax.tree.map(leaf, tree)


def per_device(function: Callable, devices: Sequence[Any]) -> Callable:
    """`function(shared, dealt)`, traced for one device, over all; its results are sharded along their first axis.

    Of `dealt`, `(device, row, ...)`, each device sees its own rows, `(row, ...)`.
    """
    mesh = member_sharding(devices).mesh

    def one(shared, dealt):
        return function(shared, jax.tree.map(lambda leaf: leaf[0], dealt))

    spec = PartitionSpec(AXIS)
    return jax.shard_map(one, mesh=mesh, in_specs=(PartitionSpec(), spec), out_specs=spec, check_vma=False)


def traced_alone(function: Callable) -> Callable:
    """`function`, traced as if there were one device; for use within `jax.pmap` and `per_device`.

    Within those every type names the mesh, and libraries that compare types of values from within and from without
    (lineax its linear systems, Equinox its closures) take equal ones for different: no implicit solver could be traced.
    """

    def call(*args):
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), args)
        with use_abstract_mesh(AbstractMesh((), ())):
            jaxpr, result = jax.make_jaxpr(function, return_shape=True)(*shapes)
        flat = jex.jaxpr_as_fun(jaxpr)(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(result), flat)

    return call


def put(values: dict[str, np.ndarray], devices: Sequence[Any]) -> dict[str, jax.Array]:
    """Members from the host onto devices in contiguous blocks."""
    padded = pad_members(values, len(devices))
    return {name: jax.device_put(value, member_sharding(devices)) for name, value in padded.items()}


def member_sharding(devices: Sequence[Any]) -> NamedSharding:
    """Rows split over `devices` in contiguous blocks."""
    return NamedSharding(Mesh(np.asarray(devices), (AXIS,)), PartitionSpec(AXIS))


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
