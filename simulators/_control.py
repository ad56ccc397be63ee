"""Step-size control of the lane engine: the decisions of diffrax's controllers, at a fraction of their cost."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0


def initial_step(field: Any, y0: Any, rtol: float, atol: float, order: int) -> jax.Array:
    """A first step by two evaluations of the field, y -> f(t, y) and t -> f(t, y).

    h0 = 0.01 |y| / |f|, h1 = (0.01 / max(|f|, |Δf| / h0))^(1/order), h = min(100 h0, h1), norms weighted by the
    tolerances.

    Reference: Hairer, Nørsett & Wanner, Solving Ordinary Differential Equations I (1993), II.4,
    doi:10.1007/978-3-540-78862-1.
    """
    scale = jax.tree.map(lambda y: atol + rtol * jnp.abs(y), y0)

    def norm(x):
        return rms(jax.tree.map(jnp.divide, x, scale))

    f0 = field(0.0, y0)
    d0, d1 = norm(y0), norm(f0)
    tiny = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = jnp.where(tiny, 1e-6, 0.01 * (d0 / jnp.where(tiny, 1, d1)))
    f1 = field(h0, jax.tree.map(lambda y, f: y + h0 * f, y0, f0))
    d2 = norm(jax.tree.map(jnp.subtract, f1, f0)) / h0
    largest = jnp.maximum(d1, d2)
    h1 = jnp.where(largest <= 1e-15, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / largest) ** (1 / order))
    return jnp.minimum(100 * h0, h1)


def scaled_error(y0: Any, y1: Any, error: Any, rtol: float, atol: float) -> jax.Array:
    """The root mean square of error / (atol + rtol max(|y0|, |y1|)); infinite if any of it is not a number."""

    def leaf(a, b, e):
        return e / (atol + rtol * jnp.maximum(jnp.abs(a), jnp.abs(b)))

    value = rms(jax.tree.map(leaf, y0, y1, error))
    return jnp.where(jnp.isnan(value), jnp.inf, value)


def step_factor(error: jax.Array, keep: jax.Array, order: int) -> jax.Array:
    """The next step over this one: 0.9 error^(-1/order) within [0.2, 10]; none shrinks after success or grows after
    failure."""
    wanted = SAFETY * inverse_root(error, order)
    return jnp.clip(wanted, jnp.where(keep, 1.0, SMALLEST), jnp.where(keep, LARGEST, SAFETY))


def inverse_root(x: jax.Array, order: int) -> jax.Array:
    """x^(-1/order) for x from 1e-20 to 1e20, arguments beyond taken as the nearer end; to rounding.

    In double precision the power function is computed member by member; single precision runs in vector units, and
    Newton's iteration r <- r (n + 1 - x r^n) / n doubles its digits twice.
    """
    x = jnp.clip(x, 1e-20, 1e20)
    root = jnp.exp(jnp.log(x.astype(jnp.float32)) * jnp.float32(-1 / order)).astype(x.dtype)
    if x.dtype == jnp.float64:
        for _ in range(2):
            root = root * ((order + 1) / order - x * root**order / order)
    return root


def rms(tree: Any) -> jax.Array:
    """The root mean square of all numbers in a pytree."""
    leaves = jax.tree.leaves(tree)
    count = sum(math.prod(leaf.shape) for leaf in leaves)
    squares = (jnp.sum(jnp.real(leaf * jnp.conj(leaf))) if leaf.ndim else leaf * leaf for leaf in leaves)
    return jnp.sqrt(functools.reduce(jnp.add, squares) / count)
