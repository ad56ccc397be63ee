"""Viscous Burgers against Cole-Hopf, itself refined, and its invariants."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators
from emulax.simulators import Burgers, Numerics

FIELD = data.GaussianRandomField()


def on_length_two(points, **changes):
    field = data.GaussianRandomField(points=points, length=2.0)
    return Burgers(parameters=data.ParameterSpace(u0=field), length=2.0, points=points, **changes)


def fixed(step):
    return Numerics(solver=simulators.ETDRK4(), step=step)


def solve(simulator, u0, ts=None, **scalars):
    """Values `(member, time, x)` of the fields `u0`, `(member, x)`, in double precision."""
    design = {"u0": np.atleast_2d(u0)} | scalars
    ensemble = simulators.solve_ensemble(simulator, design, times=ts, devices=1)
    assert ensemble.ok.all()
    return np.asarray(ensemble.values["u"])


@pytest.fixture(scope="module")
def members():
    return data.sample(Burgers().parameters, 16, method="random", seed=5)


@pytest.fixture(scope="module")
def truth(members):
    return simulators.solve_ensemble(Burgers(solve_points=512, numerics=fixed(0.002)), members)


@pytest.mark.parametrize(
    ("nu", "ts", "expected"),
    [
        (
            0.1,
            [0.4, 1.0, 3.0],
            [
                [0.3088942278764, 0.5696324508801, 0.6254378964249],
                [0.1625648571107, 0.2919159571258, 0.287474405917],
                [0.02720231447295, 0.04020492443805, 0.02977212685877],
            ],
        ),
        (0.01, [1.0], [[0.1881939613967, 0.3744200376447, 0.5560507044707]]),
    ],
)
def test_cole_hopf_on_the_unit_interval(nu, ts, expected):
    """u0 = sin(pi x), u = 0 at both ends, by odd extension to a period of 2 (case P01 B)."""
    simulator = on_length_two(256, nu=nu, solve_points=768, numerics=fixed(0.0025))
    u = solve(simulator, np.sin(np.pi * simulator.coordinates["x"]), ts)
    np.testing.assert_allclose(u[0][:, [32, 64, 96]], expected, atol=2e-10)


def test_cole_hopf_with_a_front():
    """u0 = -sin(pi x) on [-1, 1], nu = 0.01/pi: values, and the steepest slope (case P01 A)."""
    points = 1280
    simulator = on_length_two(points, nu=0.01 / np.pi, solve_points=3072, numerics=fixed(0.001))
    x = -1 + simulator.coordinates["x"]
    u = solve(simulator, -np.sin(np.pi * x), [0.25, 0.5, 1.6037 / np.pi, 0.75, 1.0])[0]
    quarter, front = np.argmin(np.abs(x - 0.25)), np.argmin(np.abs(x))
    np.testing.assert_allclose(
        u[[0, 1, 3, 4], quarter],
        [-0.992081561622522, -0.847354524450931, -0.679466796818249, -0.559196293102723],
        atol=1e-8,
    )
    places = [np.argmin(np.abs(x - at)) for at in (0.05, 0.5)]
    np.testing.assert_allclose(u[-1, places], [-0.700027080879359, -0.376181395748122], atol=1e-8)
    k = np.pi * np.arange(points // 2 + 1)
    slope = np.fft.irfft(1j * k * np.fft.rfft(u[2]), points)[front]
    np.testing.assert_allclose(slope, -152.00516158, rtol=1e-6)


def test_random_field_has_the_variance_of_its_definition():
    """Var u(x) = (1/L) Σ_{0<|j|<=J} 625 (k_j² + 25)^-2, k_j = 2 pi j; the rms is 0.594."""
    assert Burgers().parameters["u0"] == FIELD
    j = np.arange(1, FIELD.modes + 1)
    expected = 2 * np.sum(625.0 * ((2 * np.pi * j) ** 2 + 25.0) ** -2)
    sampled = np.mean(FIELD.draw(3, np.arange(4000)) ** 2)
    np.testing.assert_allclose(np.sqrt(expected), 0.5936, atol=1e-4)
    np.testing.assert_allclose(sampled, expected, rtol=0.05)


def test_default_settings_reach_one_millionth(members, truth):
    u, exact = (np.asarray(e.values["u"])[:, 0] for e in (simulators.solve_ensemble(Burgers(), members), truth))
    errors = np.linalg.norm(u - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
    assert errors.max() < 1e-6


def test_mean_is_conserved_and_energy_decays():
    simulator = Burgers(times=(0.0, 0.1, 0.2, 0.5, 1.0))
    u0 = data.sample(simulator.parameters, 1, seed=2)["u0"][0] + 0.3
    u = solve(simulator, u0)[0]
    np.testing.assert_allclose(u.mean(axis=-1), 0.3, rtol=1e-13)
    assert np.all(np.diff((u**2).mean(axis=-1)) < 0)
    np.testing.assert_allclose(u[0], u0, atol=1e-13)


def test_galilean_shift():
    """u + c moves the solution by c t: with c t one grid spacing, the answer is the neighbour's, raised by c."""
    u0 = data.sample(Burgers().parameters, 1, seed=2)["u0"][0]
    still, moving = solve(Burgers(numerics=fixed(0.0025)), np.stack([u0, u0 + 1 / 256]))[:, 0]
    np.testing.assert_allclose(moving, np.roll(still, 1) + 1 / 256, atol=1e-8)


def test_initial_condition_on_any_grid_that_resolves_it(members):
    fine = FIELD.draw(5, np.arange(2), points=512)
    answer = solve(Burgers(points=512), fine)
    np.testing.assert_allclose(answer[..., ::2], solve(Burgers(), members["u0"][:2]), atol=1e-12)
    with pytest.raises(ValueError, match=r"expected more than 128 points, which resolve its 64 modes, got 128"):
        Burgers().solve({"u0": fine[0, ::4]})


def test_viscosity_as_a_parameter(members):
    space = data.ParameterSpace(u0=FIELD, nu=data.LogUniform(0.01, 0.1))
    mixed = solve(Burgers(parameters=space, solve_points=128), members["u0"][:2], nu=np.array([0.01, 0.1]))
    alone = solve(Burgers(nu=0.1, solve_points=128), members["u0"][1])
    np.testing.assert_allclose(mixed[1], alone[0], atol=1e-13)
    assert np.std(mixed[0]) > 5 * np.std(mixed[1])


def test_gradient_against_finite_differences():
    simulator = Burgers(solve_points=96, numerics=fixed(0.02))
    u0 = data.sample(simulator.parameters, 1, seed=4)["u0"][0]
    direction = np.cos(2 * np.pi * simulator.coordinates["x"])

    def total(shift):
        return jnp.sum(simulator.solve({"u0": jnp.asarray(u0) + shift * direction}).values["u"] ** 2)

    with jax.enable_x64(True):
        gradient, value = jax.jit(jax.grad(total))(0.0), jax.jit(total)
        difference = (value(1e-5) - value(-1e-5)) / 2e-5
    np.testing.assert_allclose(gradient, difference, rtol=1e-6)


def test_ladder_goes_from_cheap_to_exact(members, truth):
    exact = np.asarray(truth.values["u"])[:, 0]
    ladder = list(Burgers().cheaper())
    assert [label for label, _ in ladder[:1] + ladder[-1:]] == ["24 points, step 0.05", "256 points, step 0.005"]
    medians = []
    for _, candidate in ladder[::3] + ladder[-1:]:
        ensemble = simulators.solve_ensemble(candidate, members)
        assert ensemble.ok.all()
        u = np.asarray(ensemble.values["u"])[:, 0]
        medians.append(np.median(np.linalg.norm(u - exact, axis=-1) / np.linalg.norm(exact, axis=-1)))
    assert medians[0] > 1e-3 and medians[-1] < 1e-7
    assert np.all(np.diff(medians) < 0), medians


def test_single_precision_and_failed_members(members):
    u0 = members["u0"][:3].copy()
    u0[1, 7] = np.nan
    ensemble = simulators.solve_ensemble(Burgers(), {"u0": u0}, precision="single")
    assert [f["status"] for f in ensemble.failures()] == ["bad_parameter"]
    double = simulators.solve_ensemble(Burgers(), members)
    u, expected = np.asarray(ensemble.values["u"]), np.asarray(double.values["u"])
    assert u.dtype == np.float32 and np.isnan(u[1]).all()
    np.testing.assert_allclose(u[[0, 2]], expected[[0, 2]], atol=2e-5)


def test_unstable_step_is_a_status_not_an_exception(members):
    ensemble = simulators.solve_ensemble(Burgers(), members, step=0.1, check=0)
    assert {f["status"] for f in ensemble.failures()} == {"non_finite"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 2.0}, r"expected u0 on the interval of length 2, got length 1"),
        ({"parameters": data.ParameterSpace(u0=data.Uniform(0, 1))}, r"expected a random field u0"),
        ({"nu": -0.1}, r"nu: expected a viscosity of at least 0, got -0.1"),
        ({"times": (-1.0, 0.0)}, r"expected none before the initial condition at 0, got -1"),
        ({"solve_points": 4}, r"expected points >= 2 and solve_points >= 8"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Burgers(**changes)


def test_physics_not_numerics_makes_the_fingerprint():
    first = simulators.fingerprint(Burgers())
    assert first != simulators.fingerprint(Burgers(nu=0.02))
    assert first == simulators.fingerprint(Burgers(numerics=fixed(0.01)))
    assert dataclasses.replace(Burgers(), times=(0.5,)).times[0] == 0.5
