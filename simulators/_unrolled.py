"""Explicit Runge-Kutta methods with their stages written out, for small systems."""

import functools
from typing import Any, ClassVar, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class _WeightedInterpolation(diffrax.AbstractLocalInterpolation):
    """y(t0 + θh) = Σ_i w_i(θ) v_i, v = (y0, y1, k_1, ..., k_s), w_i polynomials in θ."""

    t0: Any
    t1: Any
    parts: tuple[Any, ...]
    weights: tuple[tuple[float, ...], ...] = eqx.field(static=True)

    def evaluate(self, t0, t1=None, left=True):
        del left
        if t1 is not None:
            return jax.tree.map(jnp.subtract, self.evaluate(t1), self.evaluate(t0))
        h = self.t1 - self.t0
        theta = (t0 - self.t0) / jnp.where(h == 0, 1, h)
        used = [(row, part) for row, part in zip(self.weights, self.parts, strict=True) if any(row)]
        factors = [_polynomial(row, theta) for row, _ in used]

        def leaf(*values):
            return sum(factor * value for factor, value in zip(factors[1:], values[1:], strict=True)) + (
                factors[0] * values[0]
            )

        return jax.tree.map(leaf, *(part for _, part in used))


class Unrolled(diffrax.AbstractAdaptiveSolver):
    """An explicit Runge-Kutta method of diffrax with its stages written out one after the other.

    k_i = h f(t + c_i h, y + Σ_{j<i} a_ij k_j), y1 = y + Σ_i b_i k_i, error = Σ_i e_i k_i.

    The same steps and the same dense output as `solver`, to rounding. On small systems two to four times faster, since
    the compiler sees every coefficient and no stage is written to memory and read again; on large ones (hundreds of
    unknowns) slower than the loop over stages that it replaces, and slower to compile.

    **Arguments:**

    - `solver`: any `diffrax.AbstractERK`: `diffrax.Tsit5()`, `diffrax.Dopri8()`, `diffrax.Bosh3()`.

    **Raises:** `ValueError` for a solver that is not explicit.
    """

    solver: diffrax.AbstractERK
    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar = _WeightedInterpolation

    def __check_init__(self):
        explicit = isinstance(self.solver, diffrax.AbstractERK)
        if not (explicit and isinstance(self.solver.tableau, diffrax.ButcherTableau)):
            raise ValueError(f"solver: expected an explicit Runge-Kutta method of diffrax, got {self.solver!r}.")

    def order(self, terms):
        return self.solver.order(terms)

    def error_order(self, terms):
        return self.solver.error_order(terms)

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)

    def init(self, terms, t0, t1, y0, args):
        return terms.vf(t0, y0, args) if self._reuses_last_stage else None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        tableau = self._tableau
        control = terms.contr(t0, t1)
        field = terms.vf(t0, y0, args) if solver_state is None else solver_state
        if made_jump is not False and solver_state is not None:
            field = jax.tree.map(lambda new, old: jnp.where(made_jump, new, old), terms.vf(t0, y0, args), field)
        stages = [terms.prod(field, control)]
        y = y0
        for row, c in zip(tableau.a_lower, tableau.c, strict=True):
            y = _combine(y0, row, stages)
            field = terms.vf(t0 + c * (t1 - t0), y, args)
            stages.append(terms.prod(field, control))
        # where the last stage stands at the new state it is the next step's first
        y1 = y if self._reuses_last_stage else _combine(y0, tableau.b_sol, stages)
        error = _combine(None, tableau.b_error, stages)
        dense = {"parts": (y0, y1, *stages), "weights": _dense_weights(type(self.solver))}
        return y1, error, dense, field if self._reuses_last_stage else None, diffrax.RESULTS.successful

    @property
    def _tableau(self) -> diffrax.ButcherTableau:
        return cast(diffrax.ButcherTableau, self.solver.tableau)

    @property
    def _reuses_last_stage(self) -> bool:
        tableau = self._tableau
        return bool(np.array_equal(tableau.a_lower[-1], tableau.b_sol[:-1]) and tableau.b_sol[-1] == 0)


def _combine(start: Any, weights: Any, stages: list[Any]) -> Any:
    """start + Σ_i weights_i stages_i, weights that are 0 left out."""
    used = [(float(weight), stage) for weight, stage in zip(weights, stages, strict=False) if weight != 0]

    def leaf(*values):
        total = sum(weight * value for (weight, _), value in zip(used, values, strict=False))
        return total if start is None else values[-1] + total

    return jax.tree.map(leaf, *(stage for _, stage in used), *(() if start is None else (start,)))


def _polynomial(coefficients: tuple[float, ...], theta: jax.Array) -> Any:
    """Σ_m c_m θ^m by Horner's rule; a constant stays a number."""
    highest = max(power for power, value in enumerate(coefficients) if value)
    total: Any = coefficients[highest]
    for value in reversed(coefficients[:highest]):
        total = total * theta + value if value else total * theta
    return total


@functools.cache
def _dense_weights(solver: type[diffrax.AbstractERK]) -> tuple[tuple[float, ...], ...]:
    """The polynomials w_i(θ), lowest power first, of a solver's own dense output, for y0, y1 and each stage.

    Dense output is linear in those and a polynomial in θ, so its values at unit vectors determine it.
    """
    stages = len(cast(diffrax.ButcherTableau, solver.tableau).b_sol)
    unit = np.eye(stages + 2)
    nodes = 0.5 - 0.5 * np.cos(np.pi * np.arange(9) / 8)
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        values = np.asarray(jax.jit(_dense_output, static_argnums=0)(solver, unit, nodes))
    return tuple(_fitted(nodes, row) for row in values.T)


def _dense_output(solver: Any, parts: jax.Array, nodes: jax.Array) -> jax.Array:
    """A solver's dense output at θ = `nodes` where y0, y1 and the stages are the rows of `parts`."""
    y0, y1, stages = parts[0], parts[1], parts[2:]
    path = solver.interpolation_cls(t0=jnp.zeros(()), t1=jnp.ones(()), y0=y0, y1=y1, k=stages)
    return jax.vmap(path.evaluate)(nodes)


def _fitted(nodes: np.ndarray, values: np.ndarray) -> tuple[float, ...]:
    """The coefficients, lowest power first, of the polynomial through `values`; those that are rounding are 0."""
    powers = np.vander(nodes, increasing=True)
    first = np.linalg.solve(powers, values)
    used = np.abs(first) > 1e-8 * np.abs(first).max(initial=1e-8)
    coefficients = np.zeros(len(nodes))
    # fitted again without those: as they stand the others make up for what is rounding in them
    coefficients[used] = np.linalg.lstsq(powers[:, used], values, rcond=None)[0]
    return tuple(coefficients.tolist())
