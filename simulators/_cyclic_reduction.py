"""Cyclic reduction of block-tridiagonal rings, with every operation running over all blocks at once."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ._materialize import materialize

_UNROLLED = 4


def factor_ring(left: jax.Array, middle: jax.Array, right: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """Prepares the solution of left_i x_(i-1) + middle_i x_i + right_i x_(i+1) = b_i, i = 0 .. N - 1 on a ring.

    A chain is a ring in which `left` of the first and `right` of the last block are 0. Every second block is
    eliminated, which leaves a ring half as long: ceil(log2 N) rounds, about 12 N products of m by m blocks, and 5 N of
    block and vector in each solution. There is pivoting within blocks only: accurate where the symmetric part of the
    matrix is positive definite or its columns or rows are diagonally dominant by blocks.

    **Arguments:**

    - `left`, `middle`, `right`: `(m, m, N)`, the number of the block last.

    **Returns:**

    A function from b to x, `(m, N)` both.
    """
    rounds = []
    while middle.shape[-1] > 1:
        kept, removed = zip(*(_split(entry) for entry in (left, middle, right)), strict=True)
        odd = kept[1].shape[-1] > removed[1].shape[-1]
        before, after = kept[0], kept[2]
        if odd:
            removed = (_grow(removed[0]), _grow(removed[1], identity=True), _grow(removed[2]))
            before, after = before.at[..., 0].set(0), after.at[..., -1].set(0)
        inverse = _inverse(removed[1])
        inverse = materialize(inverse)
        back, forth = materialize((_product(inverse, removed[0]), _product(inverse, removed[2])))
        rounds.append((odd, before, after, inverse, back, forth))
        middle = kept[1] - _product(before, _roll(forth, 1)) - _product(after, back)
        left, right = -_product(before, _roll(back, 1)), -_product(after, forth)
        if odd:
            left = left.at[..., 0].add(kept[0][..., 0])
            right = right.at[..., -1].add(kept[2][..., -1])
        left, middle, right = materialize((left, middle, right))
    last = _inverse(left + middle + right)

    def solve(b: jax.Array) -> jax.Array:
        reduced = []
        for odd, before, after, inverse, _, _ in rounds:
            b, removed = _split(b)
            own = _apply(inverse, _grow(removed) if odd else removed)
            own = materialize(own)
            b = materialize(b - _apply(before, _roll(own, 1)) - _apply(after, own))
            reduced.append(own)
        x = materialize(_apply(last, b))
        for (odd, _, _, _, back, forth), own in zip(reversed(rounds), reversed(reduced), strict=True):
            between = own - _apply(back, x) - _apply(forth, _roll(x, -1))
            joined = jnp.stack([x, between], axis=-1).reshape(*x.shape[:-1], -1)
            x = materialize(joined[..., :-1] if odd else joined)
        return x

    return solve


def _split(entry: jax.Array) -> tuple[jax.Array, jax.Array]:
    return entry[..., ::2], entry[..., 1::2]


def _grow(entry: jax.Array, identity: bool = False) -> jax.Array:
    """One more block at the end: 0 or the identity."""
    block = jnp.eye(entry.shape[0], dtype=entry.dtype) if identity else jnp.zeros(entry.shape[:-1], entry.dtype)
    return jnp.concatenate([entry, block[..., None]], axis=-1)


def _roll(entry: jax.Array, shift: int) -> jax.Array:
    return jnp.roll(entry, shift, axis=-1)


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Products of blocks, `(m, m, N)`."""
    return sum(a[:, k, None] * b[None, k] for k in range(a.shape[1]))  # type: ignore[return-value]


def _apply(a: jax.Array, v: jax.Array) -> jax.Array:
    """Products of blocks `(m, m, N)` and vectors `(m, N)`."""
    return sum(a[:, k] * v[k] for k in range(a.shape[1]))  # type: ignore[return-value]


def _inverse(a: jax.Array) -> jax.Array:
    """Inverses of blocks, `(m, m, N)`, by Gauss-Jordan elimination with pivoting; not finite where singular."""
    size = a.shape[0]
    if size == 1:
        return 1 / a
    if size > _UNROLLED:
        return jnp.moveaxis(jnp.linalg.inv(jnp.moveaxis(a, -1, 0)), 0, -1)
    identity = jnp.broadcast_to(jnp.eye(size, dtype=a.dtype)[..., None], a.shape)
    rows = list(jnp.concatenate([a, identity], axis=1))
    for k in range(size):
        for i in range(k + 1, size):
            swap = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
            rows[k], rows[i] = jnp.where(swap, rows[i], rows[k]), jnp.where(swap, rows[k], rows[i])
        rows[k] = rows[k] / rows[k][k]
        for i in range(size):
            if i != k:
                rows[i] = rows[i] - rows[i][k] * rows[k]
    return jnp.stack(rows)[:, size:]
