"""Systems of many unknowns: bands and solves against NumPy, method of lines against closed forms and scipy."""

import math

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from emulax import data, simulators
from emulax.simulators import Banded, Burgers, BurgersLines, Dense, Krylov, Numerics, Rodas5P, jacobian_for


def banded_matrix(size, lower, upper, periodic):
    draws = np.random.default_rng(size)
    i, j = np.indices((size, size))
    offset = (j - i + lower) % size - lower if periodic else j - i
    return np.where((offset >= -lower) & (offset <= upper), draws.standard_normal((size, size)), 0)


def solved(jacobian, matrix, shift, b):
    return jax.jit(lambda y, b: jacobian.factor(lambda y: jnp.asarray(matrix) @ y, y, shift)(b))(jnp.zeros_like(b), b)


def second_difference(u, spacing=1.0):
    padded = jnp.pad(u, 1)
    return (padded[:-2] - 2 * u + padded[2:]) / spacing**2


def brusselator(state):
    u, v = state["u"], state["v"]
    return {
        "u": 1 + u**2 * v - 4 * u + 10 * second_difference(u),
        "v": 3 * u - u**2 * v + 10 * second_difference(v),
    }


def five_point(u):
    u = u.reshape(16, 16)
    return sum(jnp.roll(u, shift, axis) - u for shift in (-1, 1) for axis in (0, 1)).reshape(-1)


@pytest.mark.parametrize(
    ("size", "lower", "upper", "periodic"),
    [(40, 0, 0, False), (37, 1, 1, False), (64, 1, 1, True), (37, 2, 1, True), (50, 0, 3, False), (45, 5, 4, True)],
)
def test_banded_solve_is_numpy_s(size, lower, upper, periodic):
    matrix, shift = banded_matrix(size, lower, upper, periodic), 3.0 * (lower + upper + 1)
    b = np.random.default_rng(0).standard_normal(size)
    with jax.enable_x64(True):
        x = solved(Banded(lower, upper, periodic), matrix, shift, jnp.asarray(b))
    np.testing.assert_allclose(x, np.linalg.solve(shift * np.eye(size) - matrix, b), rtol=1e-10, atol=1e-13)


def test_banded_solve_stays_accurate_far_beyond_diagonal_dominance():
    """Advection a thousand times the shift: skew, so that every elimination has a positive definite part."""
    matrix = 1000 * (np.eye(255, k=1) - np.eye(255, k=-1))
    b = np.random.default_rng(0).standard_normal(255)
    with jax.enable_x64(True):
        x = solved(Banded(1, 1), matrix, 1.0, jnp.asarray(b))
    np.testing.assert_allclose(x, np.linalg.solve(np.eye(255) - matrix, b), rtol=1e-9, atol=1e-12)


def test_complex_diagonal():
    rates = np.array([1j, -2.0, 3 - 1j])
    with jax.enable_x64(True):
        x = jax.jit(lambda b: Banded(0, 0).factor(lambda y: rates * y, b, 2.0)(b))(jnp.ones(3, complex))
    np.testing.assert_allclose(x, 1 / (2 - rates), rtol=1e-14)


def test_krylov_solve_is_numpy_s():
    matrix = banded_matrix(60, 4, 9, True)
    b = 1e-6 * np.random.default_rng(0).standard_normal((2, 30))
    with jax.enable_x64(True):
        solver = Krylov(rtol=1e-12)
        f = lambda y: (jnp.asarray(matrix) @ y.reshape(-1)).reshape(2, 30)  # noqa: E731
        x, nothing = jax.jit(jax.vmap(lambda b: solver.factor(f, b, 12.0)(b)))(jnp.stack([jnp.asarray(b), 0 * b]))
    expected = np.linalg.solve(12 * np.eye(60) - matrix, b.reshape(-1))
    np.testing.assert_allclose(x.reshape(-1), expected, atol=1e-16)
    assert not np.any(nothing)


def test_krylov_that_does_not_converge_is_not_finite():
    with jax.enable_x64(True):
        x = solved(Krylov(max_steps=3), banded_matrix(60, 4, 9, True), 0.0, jnp.ones(60))
    assert np.isnan(x).all()


@pytest.mark.parametrize("jacobian", [Banded(1, 1), Banded(2, 2)])
def test_singular_systems_give_values_that_are_not_finite(jacobian):
    with jax.enable_x64(True):
        x = solved(jacobian, np.eye(24), 1.0, jnp.ones(24))
    assert not np.isfinite(x).any()


@pytest.mark.parametrize(
    ("function", "y0", "expected"),
    [
        (second_difference, np.zeros(100), Banded(1, 1)),
        (lambda u: u * (jnp.roll(u, 1) - jnp.roll(u, -1)), np.zeros(40), Banded(1, 1, periodic=True)),
        (
            lambda u: -u * jnp.where(u > 0, u - jnp.roll(u, 1), jnp.roll(u, -1) - u),
            np.ones(40),
            Banded(1, 1, periodic=True),
        ),
        (lambda u: second_difference(second_difference(u)) - u, np.ones(40), Banded(2, 2)),
        (lambda u: -u * jnp.arange(40), np.ones(40), Banded(0, 0)),
        (lambda u: jnp.pad(u[1:], (0, 1)) - u, np.ones(40), Banded(0, 1)),
        (lambda u: jnp.log(u) * second_difference(u), np.ones(40), Banded(1, 1)),
        (brusselator, {"u": np.ones(30), "v": np.ones(30)}, Banded(2, 2, fields=2)),
        (five_point, np.ones(256), Banded(16, 16, periodic=True)),
        (lambda u: u * jnp.mean(u), np.ones(64), Dense()),
        (lambda u: u * jnp.mean(u), np.ones(513), Krylov()),
        (lambda u: -u, np.ones(16), Dense()),
        (lambda u: u * jnp.nan, np.ones(40), Dense()),
    ],
    ids=[
        *("heat", "advection", "upwind", "biharmonic", "diagonal", "one-sided", "positive states only", "two fields"),
        *("two dimensions", "non-local", "non-local and large", "small", "not finite"),
    ],
)
def test_structure_found(function, y0, expected):
    with jax.enable_x64(True):
        assert jacobian_for(function, jax.tree.map(jnp.asarray, y0)) == expected


def test_two_fields_solved_point_by_point():
    with jax.enable_x64(True):
        draws = np.random.default_rng(0).standard_normal((4, 30))
        y, b = [{"u": jnp.asarray(u), "v": jnp.asarray(v)} for u, v in (draws[:2], draws[2:])]
        solve = jax.jit(lambda jacobian: jacobian.factor(brusselator, y, 50.0)(b), static_argnums=0)
        jax.tree.map(
            lambda x, z: np.testing.assert_allclose(x, z, rtol=1e-12), solve(Banded(2, 2, False, 2)), solve(Dense())
        )


def test_traced_states_are_refused():
    with pytest.raises(ValueError, match="y0: expected numbers, got a traced value"):
        jax.jit(lambda y: jacobian_for(second_difference, y) and y)(jnp.ones(40))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Banded(-1, 1), r"expected lower >= 0, upper >= 0 and fields >= 1, got lower=-1"),
        (lambda: Banded(4, 4).factor(second_difference, jnp.ones(8), 1.0), r"expected at least 12 unknowns .* got 8"),
        (lambda: Banded(1, 1, fields=3).factor(second_difference, jnp.ones(8), 1.0), r"fields: expected 3 of equal"),
        (lambda: Krylov(rtol=0.0), r"expected rtol > 0, restart >= 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("jacobian", [Banded(1, 1), Krylov()])
@pytest.mark.parametrize(
    ("points", "flat", "expected"),
    [(19, False, 0.611117288805), (99, False, 0.610522803311), (999, True, 0.772311606859)],
)
def test_heat_equation_at_its_semi_discrete_value(jacobian, points, flat, expected):
    """u_t = u_xx, u0 = sin(pi x) or 1, t = 0.05, x = 1/2 (case P02)."""
    if flat and isinstance(jacobian, Krylov):
        pytest.skip("a discontinuous start on 999 points takes GMRES too long without a preconditioner")
    with jax.enable_x64(True):
        x = jnp.arange(1, points + 1) / (points + 1)
        term = diffrax.ODETerm(lambda t, u, args: second_difference(u, 1 / (points + 1)))
        solution = diffrax.diffeqsolve(
            term,
            Rodas5P(jacobian=jacobian),
            0.0,
            0.05,
            1e-4,
            jnp.ones(points) if flat else jnp.sin(np.pi * x),
            stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-10),
        )
    np.testing.assert_allclose(solution.ys[0, points // 2], expected, rtol=1e-6 if flat else 2e-8)
    assert int(solution.stats["num_steps"]) < 400


def on_the_unit_interval(points, **changes):
    """Burgers on [0, 2), periodic, from sin(pi x): odd, so that u = 0 at 0 and 1."""
    field = data.GaussianRandomField(points=points, length=2.0, modes=8)
    simulator = BurgersLines(parameters=data.ParameterSpace(u0=field), **changes)
    return simulator, np.sin(np.pi * simulator.coordinates["x"])


def solve(simulator, u0, **options):
    ensemble = simulators.solve_ensemble(simulator, {"u0": np.atleast_2d(u0)}, devices=1, **options)
    assert ensemble.ok.all()
    return np.asarray(ensemble.values["u"])


def test_burgers_by_lines_converges_to_cole_hopf_at_second_order():
    """nu = 0.1, t = 1, x = 1/4, 1/2, 3/4 (case P01 B)."""
    expected = [0.1625648571107, 0.2919159571258, 0.287474405917]
    points, errors = np.array([32, 64, 128]), []
    for count in points:
        simulator, u0 = on_the_unit_interval(
            int(count), nu=0.1, times=[0.0, 1.0], numerics=Numerics(diffrax.Tsit5(), rtol=1e-8, atol=1e-10)
        )
        u = solve(simulator, u0)[0, -1]
        errors.append(np.max(np.abs(u[[count // 8, count // 4, 3 * count // 8]] - expected)))
    slope = -np.polyfit(np.log(points), np.log(errors), 1)[0]
    assert 1.9 < slope < 2.1, errors


@pytest.fixture(scope="module")
def member():
    return data.sample(BurgersLines().parameters, 1, method="random", seed=5)["u0"][0]


def test_burgers_by_lines_agrees_with_scipy(member):
    """256 points, Rodas5P with the periodic band, against Radau."""
    times = np.array([0.0, 0.1, 0.5, 1.0])
    numerics = Numerics(Rodas5P(jacobian=Banded(1, 1, periodic=True)), rtol=1e-7, atol=1e-9)
    u = solve(BurgersLines(times=times, numerics=numerics), member)[0]

    def rate(t, u):
        left, right, spacing = np.roll(u, 1), np.roll(u, -1), 1 / 256
        conserved, advected = (right**2 - left**2) / (4 * spacing), u * (right - left) / (2 * spacing)
        return 0.01 * (left - 2 * u + right) / spacing**2 - (2 * conserved + advected) / 3

    expected = scipy.integrate.solve_ivp(rate, (0, 1), member, "BDF", times, rtol=1e-9, atol=1e-11).y.T
    np.testing.assert_allclose(u, expected, atol=1e-6)


def test_burgers_by_lines_keeps_the_mean_and_only_viscosity_takes_energy(member):
    times = np.linspace(0.0, 0.2, 5)
    numerics = Numerics(diffrax.Tsit5(), rtol=1e-9, atol=1e-11)
    u = solve(BurgersLines(times=times, numerics=numerics), member)[0]
    np.testing.assert_allclose(u.mean(-1), member.mean(), atol=1e-12)
    assert np.all(np.diff((u**2).mean(-1)) < 0)
    with jax.enable_x64(True):
        rate = BurgersLines(nu=0.0).vector_field(0.0, jnp.asarray(member), {})
    assert abs(np.mean(member * np.asarray(rate))) < 1e-14 * np.max(np.abs(rate))


def test_burgers_by_lines_is_near_the_spectral_solution(member):
    numerics = Numerics(diffrax.Tsit5(), rtol=1e-7, atol=1e-9)
    lines = solve(BurgersLines(times=[0.0, 1.0], numerics=numerics), member)[0, -1]
    spectral = solve(Burgers(), member)[0, -1]
    assert np.linalg.norm(lines - spectral) < 3e-3 * np.linalg.norm(spectral)
    assert math.isclose(np.linalg.norm(lines), np.linalg.norm(spectral), rel_tol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nu": -0.1}, r"nu: expected a viscosity of at least 0, got -0.1"),
        ({"parameters": data.ParameterSpace(u0=data.Uniform(0, 1))}, r"expected a random field u0"),
    ],
)
def test_burgers_by_lines_refuses_what_cannot_be_meant(changes, message):
    with pytest.raises(ValueError, match=message):
        BurgersLines(**changes)
