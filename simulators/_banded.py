"""Jacobians of systems in which each unknown depends on its neighbours only."""

from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from ._cyclic_reduction import factor_ring
from ._jacobian import AbstractJacobian


class Banded(AbstractJacobian):
    """A Jacobian with ∂f_i/∂y_j = 0 unless -lower <= j - i <= upper, as of finite differences in one dimension.

    Columns that no equation shares are differentiated together: lower + upper + 1 Jacobian-vector products whatever the
    number n of unknowns. The system is solved by cyclic reduction of blocks of m = max(lower, upper) unknowns: about
    12 n m² multiplications to factorise and 5 n m per solution, each over all blocks (and under `jax.vmap` all members)
    at once. There are no pivots between blocks, which is safe for σ beyond the rate at which any perturbation can grow:
    for every step at which a dissipative system is worth integrating.

    **Arguments:**

    - `lower`, `upper`: the numbers of diagonals below and above the main one. With 0 and 0 each unknown stands alone,
      as for a linear operator in Fourier space; the state may then be complex.
    - `periodic`: whether the first and the last unknowns are neighbours too.
    - `fields`: number of equally long fields that the state consists of, as arrays or as rows of one array, one after
      the other. Unknowns are then counted point by point: all fields at the first point, then all at the second.

    **Raises:** `ValueError` for negative numbers, or a state that does not divide into `fields` or is shorter than the
    band.

    Entries outside the band are not seen, and those that share a colour with one inside falsify it: find the band with
    `jacobian_for` if in doubt.

    Reference: Curtis, Powell & Reid, IMA J. Appl. Math. 13 (1974) 117, doi:10.1093/imamat/13.1.117; Buzbee, Golub &
    Nielson, SIAM J. Numer. Anal. 7 (1970) 627, doi:10.1137/0707049.
    """

    lower: int = eqx.field(static=True)
    upper: int = eqx.field(static=True)
    periodic: bool = eqx.field(default=False, static=True)
    fields: int = eqx.field(default=1, static=True)

    def __check_init__(self):
        if self.lower < 0 or self.upper < 0 or self.fields < 1:
            raise ValueError(
                "expected lower >= 0, upper >= 0 and fields >= 1, "
                f"got lower={self.lower}, upper={self.upper}, fields={self.fields}."
            )

    def factor(self, function, y, shift):
        flat, restore = point_by_point(y, self.fields)
        f = lambda v: point_by_point(function(restore(v)), self.fields)[0]  # noqa: E731
        if self.lower == self.upper == 0:
            diagonal = jax.jvp(f, (flat,), (jnp.ones_like(flat),))[1]
            return lambda b: restore(point_by_point(b, self.fields)[0] / (shift - diagonal))
        size, reach = flat.size, max(self.lower, self.upper)
        if size < 3 * reach:
            raise ValueError(f"expected at least {3 * reach} unknowns for such a band, got {size}; use Dense().")
        colours = groups(size, self.lower + self.upper + 1, self.periodic)[1]
        slots, _ = groups(size, reach, self.periodic)
        products = compressed(f, flat, colours)
        left, middle, right = -self._blocks(products, colours, slots)
        own = jnp.asarray(np.where(slots < size, 0, 1), flat.dtype) + jnp.where(slots < size, shift, 0)
        solve = factor_ring(left, middle + jnp.eye(slots.shape[0])[..., None] * own, right)
        return lambda b: restore(_take_out(solve(_put_in(point_by_point(b, self.fields)[0], slots)), slots, size))

    def _blocks(self, products: jax.Array, colours: np.ndarray, slots: np.ndarray) -> jax.Array:
        """The blocks of J before, on and after the diagonal, `(3, m, m, N)`, from its products with the colours."""
        size = colours.size
        rows = slots[None, :, None, :]
        columns = np.stack([np.roll(slots, 1, axis=1), slots, np.roll(slots, -1, axis=1)])[:, None]
        offset = columns - rows
        if self.periodic:
            offset = (offset + self.lower) % size - self.lower
        inside = (rows < size) & (columns < size) & (offset >= -self.lower) & (offset <= self.upper)
        where = colours[np.minimum(columns, size - 1)] * size + np.minimum(rows, size - 1)
        return jnp.where(inside, products.reshape(-1)[np.where(inside, where, 0)], 0)


def compressed(f: Any, flat: jax.Array, colours: np.ndarray) -> jax.Array:
    """Jacobian-vector products with the indicator of each colour, `(colour, n)`."""
    seeds = np.arange(colours.max() + 1)[:, None] == colours
    return jax.vmap(lambda seed: jax.jvp(f, (flat,), (seed,))[1])(jnp.asarray(seeds, flat.dtype))


def groups(size: int, length: int, periodic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Splits unknowns in order into groups of `length`; round a ring they are all at least that long.

    **Returns:** the unknowns by place in the group, `(place, group)`, with `size` for an empty place, and each
    unknown's place, `(size,)`.
    """
    count = max(size // length, 1) if periodic else -(-size // length)
    lengths = size // count + (np.arange(count) < size % count) if periodic else np.full(count, length)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    place = np.arange(lengths.max())[:, None]
    slots = np.minimum(np.where(place < lengths, starts + place, size), size)
    places = np.zeros(size, int)
    places[slots[slots < size]] = np.broadcast_to(place, slots.shape)[slots < size]
    return slots, places


def point_by_point(tree: Any, fields: int) -> tuple[jax.Array, Any]:
    """The state as one vector, ordered by point and then by field, and the function that undoes it."""
    flat, restore = jax.flatten_util.ravel_pytree(tree)
    if fields == 1:
        return flat, restore
    if flat.size % fields:
        raise ValueError(f"fields: expected {fields} of equal length, got {flat.size} unknowns.")
    return flat.reshape(fields, -1).T.reshape(-1), lambda v: restore(v.reshape(-1, fields).T.reshape(-1))


def _put_in(b: jax.Array, slots: np.ndarray) -> jax.Array:
    """`(n,)` to `(m, N)`, 0 in empty places."""
    if _regular(slots, b.size):
        return jnp.pad(b, (0, slots.size - b.size)).reshape(slots.shape[::-1]).T
    return jnp.where(slots < b.size, b[np.minimum(slots, b.size - 1)], 0)


def _take_out(x: jax.Array, slots: np.ndarray, size: int) -> jax.Array:
    """`(m, N)` to `(n,)`."""
    if _regular(slots, size):
        return x.T.reshape(-1)[:size]
    return x.T.reshape(-1)[np.argsort(slots.T.reshape(-1), stable=True)[:size]]


def _regular(slots: np.ndarray, size: int) -> bool:
    """Whether the unknowns lie in order without gaps."""
    return bool(np.all(slots.T.reshape(-1)[:size] == np.arange(size)))
