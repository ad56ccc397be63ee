"""How a linearly implicit method forms the Jacobian of the vector field and solves with it."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import jax.scipy as jsp
from jaxtyping import Array, PyTree

from ._small_lu import factor_small

_UNROLLED = 4  # at 8 unknowns LAPACK is as fast and compiles in a sixth of the time


class AbstractJacobian(eqx.Module):
    """How a Rosenbrock method solves (σ I - J) x = b, with J = ∂f/∂y.

    A method calls `factor` once per step and the function that it returns once per stage.
    """

    @abc.abstractmethod
    def factor(
        self, function: Callable[[PyTree[Array]], PyTree[Array]], y: PyTree[Array], shift: Array | float
    ) -> Callable[[PyTree[Array]], PyTree[Array]]:
        """Prepares the solution of (σ I - J) x = b, J = ∂f/∂y at `y`.

        **Arguments:**

        - `function`: f, from a state to its rate of change. A method may hand over h f with σ = 1/γ in place of f with
            σ = 1/(γh): the same equation times the step h, which stays solvable where h = 0.
        - `y`: the state; any pytree of real floating-point arrays.
        - `shift`: σ, a scalar.

        **Returns:**

        A function from b to x, both of the structure, shapes and types of `y`. Where σ I - J is singular or not finite,
        x is not finite: the error estimate of a step then rejects the step.
        """


class Dense(AbstractJacobian):
    """The whole Jacobian by forward-mode differentiation, and Gaussian elimination with partial pivoting.

    Cost for n unknowns: n Jacobian-vector products and n³/3 multiplications per step, n² per stage. Up to 4 unknowns
    everything is unrolled into operations on scalars, with pivots taken by selection, so that under `jax.vmap` each
    operation runs over all members at once; above, LAPACK (or its counterpart on the device) factorises the matrix.

    Do not use it for hundreds of unknowns of a discretised PDE: `Banded` and `Krylov` use its structure.
    """

    def factor(self, function, y, shift):
        if sum(jnp.size(leaf) for leaf in jax.tree.leaves(y)) <= _UNROLLED:
            return factor_small(function, y, shift)
        flat, restore = jax.flatten_util.ravel_pytree(y)
        jacobian = jax.jacfwd(lambda v: jax.flatten_util.ravel_pytree(function(restore(v)))[0])(flat)
        factors = jsp.linalg.lu_factor(shift * jnp.eye(flat.size, dtype=flat.dtype) - jacobian)
        return lambda b: restore(jsp.linalg.lu_solve(factors, jax.flatten_util.ravel_pytree(b)[0]))
