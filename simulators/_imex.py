"""Implicit-explicit Runge-Kutta methods for problems whose stiff part is linear."""

from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.internal import ω

from ._jacobian import AbstractJacobian, Dense


class AbstractLinearIMEX(diffrax.AbstractAdaptiveSolver):
    """An additive Runge-Kutta method for y' = f(t, y) + L y + g(t): f explicit, the rest implicit by linear solves.

    Called with `terms=diffrax.MultiTerm(diffrax.ODETerm(f), diffrax.ODETerm(linear))`, explicit part first. `linear`
    must be affine in y with a matrix L that does not depend on time. `jacobian` says how (I/γ - h L) x = b is solved:
    `Banded(1, 1)` for second differences, `Banded(0, 0)` in Fourier space, where L is diagonal. L is factorised once
    per step, and nothing is iterated: diffrax's own solvers with these coefficients run a Newton iteration on a dense
    matrix.

    The coefficients and the output between steps are those of the diffrax solver `pair`.
    """

    jacobian: eqx.AbstractVar[AbstractJacobian]
    pair: eqx.AbstractClassVar[type[diffrax.AbstractRungeKutta]]

    def init(self, terms, t0, t1, y0, args):
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        del solver_state, made_jump
        explicit, implicit = self.pair.tableau.tableaus  # type: ignore[union-attr]
        free, stiff = terms.terms
        gamma = float(implicit.a_diagonal[-1])  # type: ignore[index]
        controls = free.contr(t0, t1), stiff.contr(t0, t1)

        def slopes(t, y):
            return tuple(term.vf_prod(t, y, args, control) for term, control in zip(terms.terms, controls, strict=True))

        solve = self.jacobian.factor(lambda y: slopes(t0, y)[1], y0, 1 / gamma)
        ks = [slopes(t0, y0)]
        for row, implicit_row, node in zip(explicit.a_lower, implicit.a_lower, explicit.c, strict=True):
            t = t0 + float(node) * (t1 - t0)
            known = _add(y0, [(row, 0), (implicit_row, 1)], ks)
            residual = stiff.vf_prod(t, known, args, controls[1])
            change = solve(residual)
            y = (known**ω + change**ω).ω
            ks.append((free.vf_prod(t, y, args, controls[0]), (change**ω / gamma).ω))
        y1 = _add(y0, [(explicit.b_sol, 0), (implicit.b_sol, 1)], ks)
        zero = jax.tree.map(lambda leaf: 0 * leaf, y0)
        error = _add(zero, [(explicit.b_error, 0), (implicit.b_error, 1)], ks)
        stacked = tuple(jax.tree.map(lambda *leaves: jnp.stack(leaves), *part) for part in zip(*ks, strict=True))
        return y1, error, {"y0": y0, "y1": y1, "k": stacked}, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def _add(start, rows, ks):
    """`start` + Σ row_i k_i over both parts."""
    terms = [(float(weight), k[part]) for row, part in rows for weight, k in zip(row, ks, strict=False) if weight != 0]

    def leaf(start, *slopes):
        for (weight, _), slope in zip(terms, slopes, strict=True):
            start = start + weight * slope
        return start

    return jax.tree.map(leaf, start, *(slope for _, slope in terms))


class LinearKenCarp3(AbstractLinearIMEX):
    """`diffrax.KenCarp3` for a linear stiff part: order 3, 4 stages, with an error estimate of order 2; L-stable in L.

    **Arguments:**

    - `jacobian`: how systems with the linear part are solved, such as `Banded(1, 1)`.

    The terms are those of `diffrax.KenCarp3`: `MultiTerm(explicit, linear)`, the linear part affine in y with a
    constant matrix. Output between steps is of order 2.

    Reference: Kennedy & Carpenter, Appl. Numer. Math. 44 (2003) 139, doi:10.1016/S0168-9274(02)00138-1.
    """

    jacobian: AbstractJacobian = Dense()
    pair: ClassVar = diffrax.KenCarp3
    term_structure: ClassVar = diffrax.MultiTerm[tuple[diffrax.AbstractTerm, diffrax.AbstractTerm]]
    interpolation_cls: ClassVar = diffrax.KenCarp3.interpolation_cls

    def order(self, terms):
        return 3


class LinearKenCarp4(AbstractLinearIMEX):
    """`diffrax.KenCarp4` for a linear stiff part: order 4, 6 stages, with an error estimate of order 3; L-stable in L.

    **Arguments:**

    - `jacobian`: how systems with the linear part are solved, such as `Banded(1, 1)`.

    The terms are those of `diffrax.KenCarp4`: `MultiTerm(explicit, linear)`, the linear part affine in y with a
    constant matrix. Output between steps is of order 3.

    Reference: Kennedy & Carpenter, Appl. Numer. Math. 44 (2003) 139, doi:10.1016/S0168-9274(02)00138-1.
    """

    jacobian: AbstractJacobian = Dense()
    pair: ClassVar = diffrax.KenCarp4
    term_structure: ClassVar = diffrax.MultiTerm[tuple[diffrax.AbstractTerm, diffrax.AbstractTerm]]
    interpolation_cls: ClassVar = diffrax.KenCarp4.interpolation_cls

    def order(self, terms):
        return 4
