"""Finding the structure of a Jacobian by differentiating, and choosing how to solve with it."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ._banded import Banded, compressed, groups, point_by_point
from ._jacobian import AbstractJacobian, Dense
from ._krylov import Krylov

_SMALL, _DENSE = 16, 512
_SEED = 20260712


def jacobian_for(function: Callable[[Any], Any], y0: Any) -> AbstractJacobian:
    """`Banded` where ∂f/∂y has a band, with or without periodic ends; else `Dense` to 512 unknowns, `Krylov` above.

    Bands of 1, 2, 4, ... diagonals on either side, up to a quarter of the unknowns in all, are tried in turn: the band
    found from its colours must reproduce a product of J with a random vector, at `y0` and at states about it. States at
    which f or its derivative is not finite do not count. Costs about as many evaluations of f as the band has
    diagonals. Up to 16 unknowns, and where f is not finite at any of the states, the answer is `Dense`.

    **Arguments:**

    - `function`: f, from a state to its rate of change, outside traced code (parameters filled in with numbers).
    - `y0`: a state, as numbers; any pytree of real floating-point arrays.

    **Returns:** a `Banded`, `Dense` or `Krylov`. Several fields of one length, as arrays or as rows of one array, are
    recognised.

    **Raises:** `ValueError` if `y0` or f depends on traced values.

    A coupling that vanishes at all the states tried stays unseen. Wrong derivatives cost steps, not accuracy: a
    Rosenbrock method's error estimate rejects what they spoil.
    """
    flat = jax.flatten_util.ravel_pytree(y0)[0]
    if isinstance(flat, Tracer):
        raise ValueError("y0: expected numbers, got a traced value; call jacobian_for outside jit and vmap.")
    if flat.size <= _SMALL:
        return Dense()
    with jax.ensure_compile_time_eval():
        for fields in _field_counts(y0, flat.size):
            found = _find_band(function, y0, fields)
            if found is not None:
                return found
    return Dense() if flat.size <= _DENSE else Krylov()


def _field_counts(y0: Any, size: int) -> Iterator[int]:
    """Numbers of equally long fields that the state may consist of, 1 first."""
    leaves = jax.tree.leaves(y0)
    lengths = {jnp.size(leaf) for leaf in leaves}
    several = [*[jnp.shape(leaf)[0] for leaf in leaves if jnp.ndim(leaf) > 1][:1], len(leaves)]
    yield 1
    yield from (count for count in several if len(lengths) == 1 and 1 < count <= size // 8)


def _find_band(function: Callable[[Any], Any], y0: Any, fields: int) -> Banded | None:
    flat, restore = point_by_point(y0, fields)

    def f(v):
        return point_by_point(function(restore(v)), fields)[0]

    draws = np.random.default_rng(_SEED)
    direction = jnp.asarray(draws.standard_normal(flat.size), flat.dtype)
    slope = jax.jit(lambda v: jax.jvp(f, (v,), (direction,))[1])
    states = [(v, expected) for v in _states(flat, draws) if jnp.all(jnp.isfinite(expected := slope(v)))]
    reach = 1
    while states and 2 * reach + 1 <= flat.size // 4:
        offsets = _band(f, states, direction, reach)
        if offsets is not None:
            return Banded(*_extent(offsets, flat.size), fields=fields)
        reach *= 2
    return None


def _states(flat: jax.Array, draws: np.random.Generator) -> Iterator[jax.Array]:
    """The state, states that differ from it by a factor, and states that differ by a number."""
    scale = jnp.max(jnp.abs(flat))
    noise = draws.uniform(0.1, 0.9, (2, flat.size)), draws.standard_normal((2, flat.size))
    yield flat
    yield from (flat * jnp.asarray(1 + one, flat.dtype) for one in noise[0])
    yield from (flat + jnp.where(scale > 0, scale, 1) * jnp.asarray(one, flat.dtype) for one in noise[1])


def _band(f: Any, states: Any, direction: jax.Array, reach: int) -> np.ndarray | None:
    """The pairs (row, offset) of entries that are not 0, `(entry, 2)`, or None if J is not a band on the ring."""
    size = direction.size
    colours = groups(size, 2 * reach + 1, True)[1]
    offsets = np.arange(-reach, reach + 1)
    columns = (np.arange(size)[:, None] + offsets) % size
    products = jax.jit(lambda v: compressed(f, v, colours))
    tolerance = 1000 * float(jnp.finfo(direction.dtype).eps)
    found = np.zeros(columns.shape, bool)
    for state, expected in states:
        entries = np.asarray(products(state))[colours[columns], np.arange(size)[:, None]]
        terms = entries * np.asarray(direction)[columns]
        scale = np.max(np.abs(terms).sum(axis=1) + np.abs(expected))
        if not np.all(np.abs(terms.sum(axis=1) - expected) <= tolerance * scale):
            return None
        found |= entries != 0
    rows, which = np.nonzero(found)
    return np.stack([rows, offsets[which]], axis=1)


def _extent(entries: np.ndarray, size: int) -> tuple[int, int, bool]:
    """Lower and upper width of the band, and whether it joins the ends."""
    rows, offsets = entries[:, 0], entries[:, 1]
    columns = rows + offsets
    lower, upper = max(-int(offsets.min(initial=0)), 0), max(int(offsets.max(initial=0)), 0)
    return lower, upper, bool(np.any((columns < 0) | (columns >= size)))
