"""Training: many optimiser steps in one call, data-parallel over the devices that hold the members.

Every device runs the same loop on its own rows; gradients are sums over members, added over devices and divided by
the number of members in the batch. A call makes a few hundred steps, and only losses come back.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from ._watch import Watch

AXIS = "device"
MOST = 250  # steps in one call
WARM = 0.02  # share of the steps over which the learning rate rises


@dataclasses.dataclass(frozen=True)
class Plan:
    """The numbers of a training run; see `fit` for their meaning."""

    steps: int
    batch: int  # members of each group in one step
    learning_rate: float
    seed: int
    coarse: tuple[int, float] | None
    augment: str | None

    @property
    def phases(self) -> list[tuple[int, int]]:
        """(grid factor, step at which the phase ends)."""
        if self.coarse is None:
            return [(1, self.steps)]
        factor, share = self.coarse
        return [(factor, round(share * self.steps)), (1, self.steps)]

    @property
    def call(self) -> int:
        return max(1, min(MOST, math.ceil(self.steps / 100)))


class Data(eqx.Module):
    """What training reads: rows laid over devices, and which of them train and choose.

    Leading axes are (device, row of the device) for `inputs` and `targets`, (device, group of the device, entry) for
    the tables; one device's part lacks the first axis.
    """

    inputs: dict[str, jax.Array]
    targets: jax.Array
    train: tuple[Any, Any]
    validation: tuple[Any, Any]


# Adam at rate 1 (the schedule multiplies its updates), the gradient clipped to norm 1
DEFAULT = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1.0))


def schedule(step: jax.Array, steps: jax.Array, peak: jax.Array) -> jax.Array:
    """Learning rate: a linear rise over the first 2 % of the steps, times a half cosine wave from `peak` to 0."""
    progress = (step + 1) / steps
    return peak * jnp.minimum(progress / WARM, 1) * (1 + jnp.cos(jnp.pi * step / steps)) / 2


def train(
    network: Any, data: Data, devices: Any, plan: Plan, loss: Callable, optimiser: Any, progress: Callable | None
) -> tuple[Any, Watch]:
    """Train a network.

    **Returns:** the network with the best weights, and the `Watch` that chose them.
    """
    params, static = eqx.partition(network, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(static)
    structure = (tuple(leaves), tree)
    watch = Watch(params, chooses=bool(np.sum(data.validation[1])))
    key = jax.random.key_data(jax.random.key(plan.seed))
    # laid as the calls return them, or the second call would compile again
    split = data.train[0].sharding
    everywhere = NamedSharding(split.mesh, PartitionSpec())
    params, state, key = jax.device_put((params, optimiser.init(params), key), everywhere)
    order = jax.device_put(np.zeros(data.train[0].shape, np.int32), split)
    step = 0
    for factor, end in plan.phases:
        call = _mapped(Static((*structure, plan.batch, factor, plan.augment, loss, optimiser, tuple(devices))))
        while step < end and watch.status != "diverged":
            count = min(plan.call, end - step)
            numbers = (np.int32(step), np.int32(count), np.float32(plan.steps), np.float32(plan.learning_rate))
            params, state, order, losses, chosen = call(params, state, order, numbers, key, data)
            step += count
            watch.update(step, params, float(np.mean(np.asarray(losses)[:count])), float(chosen))
            if progress is not None:
                progress(step, plan.steps, watch.last)
    return eqx.combine(watch.params, static), watch


class Static:
    """What a compiled training depends on besides shapes; equal content, equal key. Content that cannot be compared is
    equal to itself only."""

    def __init__(self, content: tuple[Any, ...]):
        self.content = content
        try:
            self.hash = hash(content)
        except TypeError:
            self.hash = id(self)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Static) and self.hash == other.hash and bool(self.content == other.content)


@functools.lru_cache(maxsize=16)
def _mapped(about: Static) -> Callable:
    """The call of up to `MOST` steps, mapped over devices; weights and losses are the same on all."""
    leaves, tree, batch, factor, augment, loss, optimiser, devices = about.content
    static = jax.tree.unflatten(tree, leaves)

    def member_loss(params, inputs, target):
        return loss(eqx.combine(params, static)(inputs), target)

    def run(params, state, order, numbers, key, data: Data):
        start, count, steps, peak = numbers
        seen = coarsen(data, factor)
        rows, weights = data.train
        entries = rows.shape[1]
        per_epoch = entries // batch

        def step(i, carry):
            params, state, order, losses = carry
            number = start + i
            epoch, place = number // per_epoch, number % per_epoch
            # the same order of a group whatever device holds it
            order = jax.lax.cond(place == 0, lambda: shuffle(key, epoch, *rows.shape), lambda: order)
            chosen = jax.lax.dynamic_slice_in_dim(order, place * batch, batch, axis=1)
            inputs, targets = pick(seen, jnp.take_along_axis(rows, chosen, axis=1))
            if augment is not None:
                inputs, targets = reflect(inputs, targets, coins(key, number, *chosen.shape))
            weight = jnp.take_along_axis(weights, chosen, axis=1).ravel()
            value, gradient = jax.value_and_grad(_weighted)(params, member_loss, inputs, targets, weight)
            value, gradient, total = jax.lax.psum((value, gradient, jnp.sum(weight)), AXIS)
            total = jnp.maximum(total, 1)
            gradient = jax.tree.map(lambda leaf: leaf / total, gradient)
            updates, state = optimiser.update(gradient, state, params)
            rate = schedule(number, steps, peak)
            params = jax.tree.map(lambda leaf, update: leaf + rate * update, params, updates)
            return params, state, order, losses.at[i].set(value / total)

        carry = (params, state, order, jnp.zeros(MOST, jnp.float32))
        params, state, order, losses = jax.lax.fori_loop(0, count, step, carry)
        finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(params)]).all()
        losses = jnp.where(finite, losses, jnp.nan)  # the last step may have spoilt the weights
        return params, state, order, losses, evaluate(params, member_loss, data, batch)

    return jax.pmap(
        run,
        axis_name=AXIS,
        in_axes=(None, None, 0, None, None, 0),
        out_axes=(None, None, 0, None, None),
        devices=devices,
    )


def _weighted(params, member_loss, inputs, targets, weight):
    return jnp.sum(weight * jax.vmap(member_loss, in_axes=(None, 0, 0))(params, inputs, targets))


def evaluate(params: Any, member_loss: Callable, data: Data, batch: int) -> jax.Array:
    """Mean loss of the validation members, `batch` of each group at a time; NaN if there are none."""
    rows, weights = (part.reshape(len(part), -1, batch).swapaxes(0, 1) for part in data.validation)

    def add(sums, block):
        row, weight = block
        loss = _weighted(params, member_loss, *pick(data, row), weight.ravel())
        return (sums[0] + loss, sums[1] + jnp.sum(weight)), None

    zero = (jnp.zeros((), jnp.float32), jnp.zeros((), jnp.float32))
    (loss, total), _ = jax.lax.scan(add, zero, (rows, weights))
    loss, total = jax.lax.psum((loss, total), AXIS)
    return loss / total


def pick(data: Data, rows: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """Inputs and targets of some rows."""
    return {name: value[rows.ravel()] for name, value in data.inputs.items()}, data.targets[rows.ravel()]


def coarsen(data: Data, factor: int) -> Data:
    """Every `factor`-th grid point of fields among inputs and targets."""
    if factor == 1:
        return data
    inputs = {name: value[..., ::factor] if value.ndim > 1 else value for name, value in data.inputs.items()}
    return dataclasses.replace(data, inputs=inputs, targets=data.targets[..., ::factor])


def shuffle(key: jax.Array, epoch: jax.Array, groups: int, entries: int) -> jax.Array:
    """A random order of each group's entries, `(group, entry)`, for one epoch."""
    keys = _keys(key, 0, epoch, groups)
    return jax.vmap(lambda k: jax.random.permutation(k, jnp.arange(entries, dtype=jnp.int32)))(keys)


def coins(key: jax.Array, step: jax.Array, groups: int, batch: int) -> jax.Array:
    """A fair coin for each row of a batch."""
    return jax.vmap(lambda k: jax.random.bernoulli(k, shape=(batch,)))(_keys(key, 1, step, groups)).ravel()


def _keys(key: jax.Array, use: int, number: jax.Array, groups: int) -> jax.Array:
    """One key for each group of this device, by seed, use, epoch or step, and the group's number among all."""
    base = jax.random.fold_in(jax.random.fold_in(jax.random.wrap_key_data(key), use), number)
    first = jax.lax.axis_index(AXIS) * groups
    return jax.vmap(lambda group: jax.random.fold_in(base, group))(first + jnp.arange(groups))


def reflect(inputs: dict[str, jax.Array], targets: jax.Array, flip: jax.Array):
    """u(x) -> -u(-x) for the fields of the rows in `flip`: on a periodic grid, point i becomes point -i mod n."""

    def mirrored(values):
        image = -jnp.roll(values[..., ::-1], 1, axis=-1)
        return jnp.where(flip.reshape(-1, *[1] * (values.ndim - 1)), image, values)

    inputs = {name: mirrored(value) if value.ndim > 1 else value for name, value in inputs.items()}
    return inputs, mirrored(targets)
