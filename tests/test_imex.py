"""Linearly implicit IMEX methods: order, agreement with diffrax's iterated ones, known stiff solutions."""

import math

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import pytest

from emulax.simulators import ETDRK4, Banded, KuramotoSivashinsky, LinearKenCarp3, LinearKenCarp4

METHODS = {3: (LinearKenCarp3, diffrax.KenCarp3), 4: (LinearKenCarp4, diffrax.KenCarp4)}
RATES = np.array([-0.5, -3.0, -8.0])


def solve(solver, nonlinear, linear, y0, step, ts, **options):
    terms = diffrax.MultiTerm(diffrax.ODETerm(nonlinear), diffrax.ODETerm(linear))
    saveat = diffrax.SaveAt(ts=jnp.asarray(ts))

    @jax.jit
    def run(y0, step):
        return diffrax.diffeqsolve(terms, solver, 0.0, ts[-1], step, y0, saveat=saveat, throw=False, **options)

    return run(y0, jnp.asarray(step))


def logistic(solver, step, ts=(1.0,), **options):
    """u' = λu - u² from 2: λ / (1 - (1 - λ/2) exp(-λt))."""
    return solve(
        solver, lambda t, y, args: -(y**2), lambda t, y, args: RATES * y, jnp.full(3, 2.0), step, ts, **options
    )


def logistic_exact(t):
    return RATES / (1 - (1 - RATES / 2) * np.exp(-RATES * t))


def heat(t, u, args):
    """u_xx on (0, 1), u = 0 at both ends, by second differences on the interior points."""
    padded = jnp.pad(u, 1)
    return (padded[:-2] - 2 * u + padded[2:]) * (u.size + 1) ** 2


@pytest.mark.parametrize("order", [3, 4])
def test_order_by_slope(order):
    steps = np.array([0.1, 0.05, 0.025, 0.0125])
    with jax.enable_x64(True):
        solver = METHODS[order][0](Banded(0, 0))
        errors = [np.max(np.abs(logistic(solver, h).ys[0] - logistic_exact(1.0))) for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order - 0.3 < slope < order + 0.7, errors


@pytest.mark.parametrize("order", [3, 4])
def test_agrees_with_the_iterated_method(order):
    """diffrax solves the same linear stage equations by a Newton iteration on a dense matrix."""
    ours, theirs = METHODS[order]
    with jax.enable_x64(True):
        mine = logistic(ours(Banded(0, 0)), 0.05, (0.33, 1.0))
        other = logistic(theirs(root_finder=optimistix.Newton(rtol=1e-12, atol=1e-12)), 0.05, (0.33, 1.0))
    np.testing.assert_allclose(mine.ys, other.ys, rtol=1e-10)


@pytest.mark.parametrize(("points", "expected"), [(19, 0.611117288805), (99, 0.610522803311)])
def test_heat_equation_at_its_semi_discrete_value(points, expected):
    """u0 = sin(pi x), t = 0.05, x = 1/2 (case P02), with no explicit part."""
    x = np.arange(1, points + 1) / (points + 1)
    with jax.enable_x64(True):
        solution = solve(
            LinearKenCarp4(Banded(1, 1)),
            lambda t, u, args: 0 * u,
            heat,
            jnp.asarray(np.sin(np.pi * x)),
            1e-3,
            (0.05,),
            stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-11),
        )
    np.testing.assert_allclose(solution.ys[0, points // 2], expected, rtol=1e-8)
    assert int(solution.stats["num_steps"]) < 200


def test_steps_are_not_limited_by_the_linear_part():
    """u = cos t solves u' = λ(u - cos t) - sin t with λ = -1e6, the forcing in the implicit part."""
    with jax.enable_x64(True):
        solution = solve(
            LinearKenCarp4(Banded(0, 0)),
            lambda t, y, args: {"u": -jnp.sin(t) + 0 * y["u"]},
            lambda t, y, args: {"u": -1e6 * (y["u"] - jnp.cos(t))},
            {"u": jnp.ones(2)},
            0.05,
            (1.0,),
        )
    np.testing.assert_allclose(solution.ys["u"], math.cos(1.0), rtol=1e-5)


@pytest.mark.parametrize("order", [3, 4])
def test_solves_kuramoto_sivashinsky_as_the_exponential_method_does(order):
    simulator = KuramotoSivashinsky(solve_points=96)
    x = simulator.coordinates["x"]
    with jax.enable_x64(True):
        problem = simulator.problem({"u0": jnp.asarray(np.cos(x / 16) * (1 + np.sin(x / 16)))})

        @jax.jit
        def run(step, y0):
            solvers = METHODS[order][0](Banded(0, 0)), ETDRK4()
            return [diffrax.diffeqsolve(problem.terms, s, 0.0, 10.0, step, y0, problem.args).ys[0] for s in solvers]

        imex, exponential = run(0.02, problem.y0)
    np.testing.assert_allclose(imex, exponential, atol={3: 1e-6, 4: 1e-8}[order])


def test_reverse_mode_gradient_is_the_closed_form():
    """u' = λu: ∂u(1)/∂λ = exp(λ)."""
    with jax.enable_x64(True):

        def end(rate):
            return solve(
                LinearKenCarp4(Banded(0, 0)),
                lambda t, y, args: 0 * y,
                lambda t, y, args: rate * y,
                jnp.ones(1),
                0.02,
                (1.0,),
            ).ys[0, 0]

        np.testing.assert_allclose(jax.grad(end)(-2.0), math.exp(-2.0), rtol=1e-6)
