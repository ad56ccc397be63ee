"""Solving with a Jacobian of which only products with vectors are known."""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import lineax as lx

from ._jacobian import AbstractJacobian


class Krylov(AbstractJacobian):
    """(σ I - J) x = b by restarted GMRES on Jacobian-vector products: no matrix is formed, no structure is needed.

    For large systems without a narrow band: discretised PDEs in two or three dimensions, non-local terms. Each
    iteration costs one product of J with a vector; their number grows with the stiffness that a step covers, about as
    the square root of the ratio of h |λ| for the largest eigenvalue to σ. Where a band exists, `Banded` is many times
    faster.

    **Arguments:**

    - `rtol`: norm of the residual over that of b at which x is taken. The method's order rests on accurate solutions:
      keep it below the tolerance of the solve. In single precision no less than 10 roundings are asked for.
    - `restart`: iterations between restarts; as many vectors of the state's size are kept.
    - `max_steps`: iterations after which x is NaN, so that the step is rejected and a shorter one tried.

    Reference: Saad & Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856, doi:10.1137/0907058.
    """

    rtol: float = eqx.field(default=1e-10, static=True)
    restart: int = eqx.field(default=40, static=True)
    max_steps: int = eqx.field(default=400, static=True)

    def __check_init__(self):
        if not self.rtol > 0 or self.restart < 1 or self.max_steps < 1:
            raise ValueError(
                "expected rtol > 0, restart >= 1 and max_steps >= 1, "
                f"got rtol={self.rtol}, restart={self.restart}, max_steps={self.max_steps}."
            )

    def factor(self, function, y, shift):
        flat, restore = jax.flatten_util.ravel_pytree(y)
        _, product = jax.linearize(lambda v: jax.flatten_util.ravel_pytree(function(restore(v)))[0], flat)
        operator = lx.FunctionLinearOperator(lambda v: shift * v - product(v), jax.eval_shape(lambda: flat))
        rtol = max(self.rtol, 10 * float(jnp.finfo(flat.dtype).eps))
        # b comes scaled to norm 1, so that the absolute tolerance is relative to the whole and not to each entry
        method = lx.GMRES(
            rtol=0.0, atol=rtol, norm=_two_norm, restart=self.restart, max_steps=self.max_steps, stagnation_iters=1000
        )

        def solve(b):
            b = jax.flatten_util.ravel_pytree(b)[0]
            norm = jnp.linalg.norm(b)
            scale = jnp.where(norm == 0, 1, norm)
            solution = lx.linear_solve(operator, b / scale, method, throw=False)
            return restore(jnp.where(solution.result == lx.RESULTS.successful, scale * solution.value, jnp.nan))

        return solve


def _two_norm(v: jax.Array) -> jax.Array:
    return jnp.linalg.norm(v)
