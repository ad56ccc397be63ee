"""Jacobian and Gaussian elimination of small systems, unrolled into operations on scalars."""

import math

import jax
import jax.numpy as jnp

from ._materialize import materialize


def factor_small(function, y, shift):
    """Factors of shift I - ∂function/∂y, and from them a function that solves; see `AbstractJacobian.factor`."""
    scalars, restore = to_scalars(y)
    columns = [_column(function, restore, scalars, j) for j in range(len(scalars))]
    rows = [[-column[i] for column in columns] for i in range(len(scalars))]
    for i, row in enumerate(rows):
        row[i] = shift + row[i]
    upper, operations = materialize(_eliminate(materialize(rows)))

    def solve(b):
        return restore(materialize(_substitute(upper, operations, materialize(to_scalars(b)[0]))))

    return solve


def to_scalars(tree):
    """The entries of a pytree as a list of scalars, and the function that puts such a list back into the tree."""
    leaves, structure = jax.tree.flatten(tree)
    shapes = [jnp.shape(leaf) for leaf in leaves]

    def restore(scalars):
        scalars = iter(scalars)
        arrays = []
        for leaf, shape in zip(leaves, shapes, strict=True):
            piece = [next(scalars) for _ in range(math.prod(shape))]
            if shape == ():
                arrays.append(piece[0])
            else:
                arrays.append(jnp.stack(piece).reshape(shape) if piece else leaf)
        return jax.tree.unflatten(structure, arrays)

    flat = [jnp.ravel(leaf) if shape else leaf for leaf, shape in zip(leaves, shapes, strict=True)]
    scalars = [
        leaf if shape == () else leaf[i]
        for leaf, shape in zip(flat, shapes, strict=True)
        for i in range(math.prod(shape))
    ]
    return scalars, restore


def _column(function, restore, scalars, j):
    """∂f/∂y_j. The other unknowns are constants here, so that what depends on them alone is not differentiated."""

    def along(value):
        return to_scalars(function(restore([*scalars[:j], value, *scalars[j + 1 :]])))[0]

    return jax.jvp(along, (scalars[j],), (jnp.ones_like(scalars[j]),))[1]


def _eliminate(rows):
    """Gaussian elimination with partial pivoting by selection: the rows of U, and per column its swaps and factors."""
    n = len(rows)
    rows, operations = [list(row) for row in rows], []
    for k in range(n):
        swaps = []
        for i in range(k + 1, n):
            swap = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
            for j in range(k, n):
                rows[k][j], rows[i][j] = (
                    jnp.where(swap, rows[i][j], rows[k][j]),
                    jnp.where(swap, rows[k][j], rows[i][j]),
                )
            swaps.append(swap)
        inverse = 1 / rows[k][k]
        factors = [rows[i][k] * inverse for i in range(k + 1, n)]
        for i, factor in zip(range(k + 1, n), factors, strict=True):
            for j in range(k + 1, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
        rows[k][k] = inverse
        operations.append((swaps, factors))
    return rows, operations


def _substitute(upper, operations, b):
    b, n = list(b), len(b)
    for k, (swaps, factors) in enumerate(operations):
        for i, swap in zip(range(k + 1, n), swaps, strict=True):
            b[k], b[i] = jnp.where(swap, b[i], b[k]), jnp.where(swap, b[k], b[i])
        for i, factor in zip(range(k + 1, n), factors, strict=True):
            b[i] = b[i] - factor * b[k]
    x = [None] * n
    for k in reversed(range(n)):
        total = b[k]
        for j in range(k + 1, n):
            total = total - upper[k][j] * x[j]
        x[k] = total * upper[k][k]
    return x
