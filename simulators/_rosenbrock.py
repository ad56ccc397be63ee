"""Rosenbrock methods as diffrax solvers."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from ._jacobian import AbstractJacobian, Dense
from ._rosenbrock_tables import RODAS3, RODAS5P, RosenbrockTable


class _RosenbrockInterpolation(diffrax.AbstractLocalInterpolation):
    """y(t0 + θh) = (1-θ) y0 + θ (y1 + (1-θ) (d_1 + θ d_2 + θ² d_3 + ...))."""

    t0: Any
    t1: Any
    y0: Any
    y1: Any
    d: tuple[Any, ...]

    def evaluate(self, t0, t1=None, left=True):
        del left
        if t1 is not None:
            return jax.tree.map(jnp.subtract, self.evaluate(t1), self.evaluate(t0))
        theta = (t0 - self.t0) / jnp.where(self.t1 == self.t0, 1, self.t1 - self.t0)

        def leaf(y0, y1, *d):
            part = jnp.asarray(theta, y0.real.dtype)
            bend = d[-1]
            for coefficient in d[-2::-1]:
                bend = coefficient + part * bend
            return (1 - part) * y0 + part * (y1 + (1 - part) * bend)

        return jax.tree.map(leaf, self.y0, self.y1, *self.d)


class AbstractRosenbrock(diffrax.AbstractAdaptiveSolver):
    """A linearly implicit Runge-Kutta method: each stage solves one linear system, and all share one matrix.

    (I/γ - hJ) u_i = h f(t0 + α_i h, y0 + Σ_{j<i} a_ij u_j) + Σ_{j<i} c_ij u_j + γ_i h² f_t, with J = ∂f/∂y and
    f_t = ∂f/∂t at the start of the step, both by automatic differentiation. y1 = y0 + Σ_i m_i u_i. There is no
    nonlinear equation and nothing that fails to converge.

    A subclass declares `jacobian` and `table`.
    """

    jacobian: eqx.AbstractVar[AbstractJacobian]
    table: ClassVar[RosenbrockTable]
    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar = _RosenbrockInterpolation

    def order(self, terms):
        return self.table.order

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)

    def init(self, terms, t0, t1, y0, args):
        foreign = (diffrax.ControlTerm, diffrax.AbstractPath)
        if any(isinstance(leaf, foreign) for leaf in jax.tree.leaves(terms, is_leaf=lambda x: isinstance(x, foreign))):
            raise ValueError(
                f"{type(self).__name__}: expected an ordinary differential equation (`diffrax.ODETerm`), got a term "
                "with a control. Turn a differentiable control into an ODE by `ControlTerm(...).to_ode()`; solve a "
                "stochastic equation by a method for those."
            )
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        del solver_state, made_jump
        table = self.table
        time = jnp.result_type(t0, t1, float)
        t0, t1 = jnp.asarray(t0, time), jnp.asarray(t1, time)
        h, control = t1 - t0, terms.contr(t0, t1)

        def hf(t, y):
            return terms.vf_prod(t, y, args, control)

        solve = self.jacobian.factor(lambda y: hf(t0, y), y0, 1 / table.gamma)
        start, drift = jax.jvp(lambda t: hf(t, y0), (t0,), (h,))
        states: dict[tuple[float, ...], Any] = {(): y0}
        slopes: dict[tuple[tuple[float, ...], float], Any] = {((), 0.0): start}
        stages: list[Any] = []
        for row, c, node, slope in zip(table.a, table.c, table.nodes, table.slopes, strict=True):
            if (row, node) not in slopes:
                slopes[row, node] = hf(t0 + node * h, _state(row, stages, states))
            stages.append(solve(_combine(slopes[row, node], (*c, slope), (*stages[: len(c)], drift))))
        y1 = _state(table.weights, stages, states)
        error = _combine(None, table.error, stages)
        d = tuple(_combine(None, row, stages) for row in table.dense)
        return y1, error, {"y0": y0, "y1": y1, "d": d}, None, diffrax.RESULTS.successful


class Rodas5P(AbstractRosenbrock):
    """Rodas5P: eight stages, fifth order, embedded fourth order, dense output of fourth order.

    L-stable and stiffly accurate, as is its embedded method; keeps its order on stiff problems with a driven slow
    solution (Prothero-Robinson) and on differential-algebraic ones far better than older Rosenbrock methods. The method
    to use for stiff systems at relative tolerances from 1e-4 down, and the fastest in emulax for systems of a few
    stiff equations; `Rodas3` costs half as much a step where a rough answer will do.

    Costs a step: one Jacobian, one factorisation, eight evaluations of the vector field, one evaluation of its time
    derivative and eight solutions with the factors. `diffrax.Kvaerno5`, of the same order, iterates in each of six
    stages.

    The error is estimated at the ends of steps. Where a stiff solution follows a forcing (y' = -λ (y - φ(t)) + φ'(t)
    with a large λ) it is so small there that steps grow beyond the time over which φ changes, and dense output between
    them is wrong: limit the step with `diffrax.PIDController(dtmax=...)` or save at the ends of steps.

    An ordinary diffrax solver: `diffrax.diffeqsolve(terms, Rodas5P(), ...)` with any step-size controller, `SaveAt` and
    adjoint. The state is any pytree of real arrays in one precision; the vector field needs to be differentiable by
    forward mode, and twice so where gradients of the solution are taken.

    **Arguments:**

    - `jacobian`: how ∂f/∂y is formed and solved with; `Dense()` for up to about a hundred unknowns.

    **Raises:** `ValueError` for terms with a control, such as those of stochastic equations.

    Reference: Steinebach, BIT Numer. Math. 63 (2023) 27, doi:10.1007/s10543-023-00967-x.
    """

    jacobian: AbstractJacobian = Dense()
    table: ClassVar = RODAS5P


class Rodas3(AbstractRosenbrock):
    """Rodas3: four stages, third order, embedded second order, dense output of second order.

    L-stable and stiffly accurate, as is its embedded method. Dense output differs from the solution by O(h³) in all, as
    does the solution at the ends of steps. For relative tolerances of 1e-3 and above; below, `Rodas5P` takes so many
    fewer steps that it is faster.

    Costs a step: one Jacobian, one factorisation, three evaluations of the vector field, one evaluation of its time
    derivative and four solutions with the factors.

    Use, arguments and errors are those of `Rodas5P`.

    Reference: Sandu, Verwer, Blom, Spee, Carmichael and Potra, Atmos. Environ. 31 (1997) 3459,
    doi:10.1016/S1352-2310(97)83212-8.
    """

    jacobian: AbstractJacobian = Dense()
    table: ClassVar = RODAS3


def _state(row: tuple[float, ...], stages: list[Any], states: dict[tuple[float, ...], Any]) -> Any:
    """y0 + Σ_j row_j u_j, continued from the longest sum in `states` that begins it, and added to those."""
    if row not in states:
        known = next(row[:n] for n in reversed(range(len(row))) if row[:n] in states)
        states[row] = _combine(states[known], row[len(known) :], stages[len(known) : len(row)])
    return states[row]


def _combine(start: Any, weights: tuple[float, ...], trees: Any) -> Any:
    """start + Σ_i weights_i trees_i, with weights that are 0 left out."""
    used = [(weight, tree) for weight, tree in zip(weights, trees, strict=True) if weight != 0]

    def leaf(*values):
        terms = [value if weight == 1 else weight * value for (weight, _), value in zip(used, values, strict=False)]
        return sum(terms[1:], start=terms[0]) if start is None else sum(terms, start=values[-1])

    return jax.tree.map(leaf, *(tree for _, tree in used), *(() if start is None else (start,)))
