"""Which members train, choose and calibrate, and where they lie for training.

Members lie in contiguous groups of equal size, the same groups whatever the number of devices; a device holds whole
groups. A batch takes equally many members from each group, so one batch is the same on 1, 2, 4 or 8 devices.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

GROUPS = 8
FEWEST = 20  # calibration members kept back where the ensemble is large enough
CALIBRATION = 0.1


@dataclasses.dataclass(frozen=True)
class Grid:
    """How rows are laid: `groups` groups of `depth` rows over `devices`.

    Row r belongs to group r // depth. Rows from the member count on are padding.
    """

    devices: tuple[Any, ...]
    groups: int
    depth: int

    @property
    def rows(self) -> int:
        return self.groups * self.depth

    @property
    def sharding(self) -> NamedSharding:
        """Leading axis over devices, which must be as long as there are devices."""
        return NamedSharding(Mesh(np.asarray(self.devices), ("device",)), PartitionSpec("device"))


def lay_out(array: jax.Array, size: int, batch_size: int) -> Grid:
    """The grid for `size` members that lie as `array` does: 8 groups, or fewer if the batch asks for it, or one for
    each device if 8 cannot be shared out among them."""
    shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    devices = tuple(shard.device for shard in shards)
    groups = math.gcd(GROUPS, batch_size)
    if groups % len(devices):
        groups = len(devices)
    multiple = math.lcm(GROUPS, len(devices))
    return Grid(devices, groups, (size + (-size) % multiple) // groups)


def split(ok: np.ndarray, grid: Grid, validation: float, keep_calibration: bool, seed: int) -> dict[str, np.ndarray]:
    """Members by use: `"train"`, `"validation"`, `"calibration"` and `"failed"`, each an increasing array of ids.

    The draw is random, with equally many members (up to one) from each group.

    **Raises:** `ValueError` if no member, or too few to split, finished, or none is left to train on.
    """
    members = np.flatnonzero(ok)
    count = len(members)
    if count == 0:
        raise ValueError(f"expected at least 1 finished member to train on, got none of {len(ok)}.")
    if validation > 0 and count < 4:
        raise ValueError(
            f"expected at least 4 finished members to keep some back for validation, got {count}; solve more, or pass "
            "validation=0."
        )
    draw = np.random.default_rng([seed, 1]).random(count)
    rank = np.empty(count, int)
    for group in np.unique(members // grid.depth):
        here = np.flatnonzero(members // grid.depth == group)
        rank[here[np.argsort(draw[here])]] = np.arange(len(here))
    shuffled = members[np.lexsort((draw, rank))]
    first = max(1, int(validation * count)) if validation > 0 else 0
    second = first + (_kept_back(count) if keep_calibration else 0)
    if second >= count:
        raise ValueError(
            f"validation: expected a share that leaves members to train on; {validation:g} keeps back {first} of the "
            f"{count} finished members, and calibration {second - first}: lower it, solve more, or pass "
            "calibration=Ensemble."
        )
    return {
        "train": np.sort(shuffled[second:]),
        "validation": np.sort(shuffled[:first]),
        "calibration": np.sort(shuffled[first:second]),
        "failed": np.flatnonzero(~ok),
    }


def _kept_back(count: int) -> int:
    tenth = int(CALIBRATION * count)
    return max(tenth, FEWEST) if count >= 4 * FEWEST else tenth


def table(members: np.ndarray, grid: Grid, multiple: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Members by group: local row numbers and weights, each `(device, group of the device, entry)`.

    A row number counts within its device. Groups with fewer members than the largest, and the last entries up to a
    multiple of `multiple`, have weight 0.
    """
    group = members // grid.depth
    most = max(1, max(np.bincount(group, minlength=grid.groups)))
    most += (-most) % multiple
    rows, weights = np.zeros((grid.groups, most), np.int32), np.zeros((grid.groups, most), np.float32)
    for number in range(grid.groups):
        here = members[group == number]
        rows[number, : len(here)] = here % (grid.rows // len(grid.devices))
        weights[number, : len(here)] = 1
    shape = (len(grid.devices), -1, most)
    return rows.reshape(shape), weights.reshape(shape)


def lay(function: Any, grid: Grid, size: int, used: np.ndarray, *trees: Any) -> Any:
    """`function` of every row in single precision, laid on the devices that hold the rows.

    **Arguments:**

    - `function`: from one row of each of `trees` to a tree of arrays.
    - `size`: number of members; rows beyond are dropped.
    - `used`: `(size,)`, which rows are wanted; the others become 0.

    **Returns:** a tree of arrays `(device, row of the device, ...)`. Nothing passes through the host.
    """

    def whole(used, trees):
        result = jax.vmap(function)(*jax.tree.map(lambda leaf: _padded(leaf, size, grid.rows), trees))
        return jax.tree.map(lambda leaf: shaped(leaf, used), result)

    def shaped(leaf, used):
        chosen = used.reshape(-1, *[1] * (leaf.ndim - 1))
        leaf = jnp.where(chosen, leaf, 0).astype(jnp.float32)
        return leaf.reshape(len(grid.devices), -1, *leaf.shape[1:])

    mask = np.zeros(grid.rows, bool)
    mask[:size] = used
    return jax.jit(whole, out_shardings=grid.sharding)(mask, trees)


def _padded(leaf: jax.Array, size: int, rows: int) -> jax.Array:
    if len(leaf) == rows:
        return leaf
    return jnp.concatenate([leaf[:size], jnp.zeros((rows - size, *leaf.shape[1:]), leaf.dtype)])
