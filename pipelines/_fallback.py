"""One answer or the other, where which one it is may be known only while the program runs."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer


def choose(accept: jax.Array, answer: Any, solve: Callable[[Any], Any], arguments: Any) -> Any:
    """`answer` where `accept` holds, else `solve(arguments)`, of the same structure.

    Where `accept` is known, only one of them is computed. Where it is traced, `solve` runs under `lax.cond`: it is
    skipped when the answer is accepted, unless `vmap` makes both branches run.
    """
    if not isinstance(accept, Tracer):
        return answer if accept else solve(arguments)
    solved = _solve_unless(arguments, accept, solve)
    return jax.tree.map(lambda one, other: jnp.where(accept, one, other), answer, solved)


@eqx.filter_custom_vjp
def _solve_unless(arguments, accept, solve):
    """`solve(arguments)`, or zeros where `accept` holds.

    The pullback solves again inside a branch of its own: what the solver keeps for its adjoint, checkpoints of its
    loop, must not leave a branch that may not have run, and fails under `vmap` if it does.
    """
    shapes = jax.eval_shape(solve, arguments)
    return jax.lax.cond(accept, lambda _: _zeros(shapes), solve, arguments)


@_solve_unless.def_fwd
def _forward(perturbed, arguments, accept, solve):
    del perturbed
    return _solve_unless(arguments, accept, solve), None


@_solve_unless.def_bwd
def _backward(residuals, cotangents, perturbed, arguments, accept, solve):
    del residuals, perturbed
    varied, fixed = eqx.partition(arguments, eqx.is_inexact_array)

    def pull(varied):
        def differentiable(varied):
            return eqx.filter(solve(eqx.combine(varied, fixed)), eqx.is_inexact_array)

        values, pullback = jax.vjp(differentiable, varied)
        filled = jax.tree.map(
            lambda value, given: jnp.zeros_like(value) if given is None and value is not None else given,
            values,
            eqx.filter(cotangents, eqx.is_inexact_array),
            is_leaf=lambda leaf: leaf is None,
        )
        return pullback(filled)[0]

    return jax.lax.cond(accept, lambda varied: _zeros(varied), pull, varied)


def _zeros(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tree)
