"""Kuramoto-Sivashinsky against scipy in real space, linear theory, its invariants and convergence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from emulax import data, simulators
from emulax.simulators import ETDRK4, KuramotoSivashinsky, Numerics


def fixed(step):
    return Numerics(solver=ETDRK4(), step=step)


def solve(simulator, u0, ts, **scalars):
    """Values `(time, x)` of one field, in double precision."""
    ensemble = simulators.solve_ensemble(simulator, {"u0": np.atleast_2d(u0)} | scalars, times=ts, devices=1)
    assert ensemble.ok.all()
    return np.asarray(ensemble.values["u"])[0]


def kassam_trefethen(x):
    """The initial condition of Kassam & Trefethen 2005, on [0, 32 pi]."""
    return np.cos(x / 16) * (1 + np.sin(x / 16))


def reference(u0, times, length, nu=1.0):
    """scipy's Radau on the Fourier collocation equations in real space: another basis, another method."""
    k = 2j * np.pi * np.fft.fftfreq(u0.size, length / u0.size)
    differentiate = np.fft.ifft(np.fft.fft(np.eye(u0.size), axis=0) * k[:, None], axis=0).real
    linear = np.fft.ifft(np.fft.fft(np.eye(u0.size), axis=0) * (-(k**2) - nu * k**4)[:, None], axis=0).real
    return scipy.integrate.solve_ivp(
        lambda t, u: linear @ u - 0.5 * differentiate @ (u * u),
        (0, times[-1]),
        u0,
        "Radau",
        times,
        rtol=1e-8,
        atol=1e-10,
        jac=lambda t, u: linear - differentiate * u,
    ).y.T


def test_agrees_with_scipy():
    simulator = KuramotoSivashinsky(points=160, numerics=fixed(0.02))
    u0 = kassam_trefethen(simulator.coordinates["x"])
    times = [2.0, 10.0]
    u = solve(simulator, np.asarray(kassam_trefethen(np.arange(256) * np.pi / 8)), times)
    expected = reference(u0, times, simulator.length)
    assert np.max(np.abs(expected[-1] - expected[0])) > 0.5
    np.testing.assert_allclose(u, expected, atol=1e-5)


@pytest.mark.parametrize(("mode", "nu"), [(4, 1.0), (12, 1.0), (20, 1.0), (12, 0.5)])
def test_small_waves_grow_as_linear_theory_says(mode, nu):
    """u ~ exp((q² - ν q⁴) t) for amplitudes so small that the advection is nothing."""
    simulator = KuramotoSivashinsky(nu=nu)
    x = simulator.coordinates["x"]
    q = 2 * np.pi * mode / simulator.length
    u = solve(simulator, 1e-9 * np.sin(q * x), [5.0])
    np.testing.assert_allclose(u[0], 1e-9 * np.exp((q**2 - nu * q**4) * 5) * np.sin(q * x), atol=1e-13)


def test_order_four_in_time():
    steps = [0.1, 0.05, 0.025]
    u0 = kassam_trefethen(np.arange(256) * np.pi / 8)
    ends = [solve(KuramotoSivashinsky(solve_points=96, numerics=fixed(h)), u0, [20.0])[0] for h in (*steps, 0.00625)]
    errors = [np.max(np.abs(end - ends[-1])) for end in ends[:-1]]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 3.5 < slope < 4.6, errors


def test_mean_stays_and_the_state_stays_bounded_on_the_attractor():
    """On the attractor the rms is about 1.3 and |u| below 4, whatever the start; the mean never changes."""
    simulator = KuramotoSivashinsky(times=np.linspace(100, 300, 41))
    design = data.sample(simulator.parameters, 4, method="random", seed=3)
    with pytest.warns(simulators.AccuracyWarning):  # chaos: no step gives the state itself at t = 230
        ensemble = simulators.solve_ensemble(simulator, design)
    assert ensemble.ok.all()
    u = np.asarray(ensemble.values["u"])
    assert u.shape == (4, 41, 256)
    np.testing.assert_allclose(u.mean(-1), 0, atol=1e-12)
    assert np.all(np.abs(np.sqrt((u**2).mean((1, 2))) - 1.3) < 0.15)
    assert np.max(np.abs(u)) < 4


def test_galilean_invariance():
    """u + c, moved by ct, is a solution if u is; here the mean is c and 25 c is a whole number of grid spacings."""
    simulator = KuramotoSivashinsky()
    u0 = kassam_trefethen(simulator.coordinates["x"])
    spacing = simulator.length / 256
    c = 40 * spacing / 25
    resting, moving = solve(simulator, u0, [25.0])[0], solve(simulator, u0 + c, [25.0])[0]
    np.testing.assert_allclose(moving, np.roll(resting, 40) + c, atol=1e-4)


def test_gradient_is_the_finite_difference():
    simulator = KuramotoSivashinsky(
        parameters=data.ParameterSpace(u0=KuramotoSivashinsky().parameters["u0"], nu=data.Uniform(0.8, 1.2)),
        solve_points=48,
        times=(1.0,),
    )
    with jax.enable_x64(True):
        u0 = jnp.asarray(kassam_trefethen(simulator.coordinates["x"]))
        total = jax.jit(lambda nu: jnp.sum(simulator.solve({"u0": u0, "nu": nu}).values["u"] ** 2))
        gradient = jax.jit(jax.grad(total))(1.0)
        np.testing.assert_allclose(gradient, (total(1 + 1e-5) - total(1 - 1e-5)) / 2e-5, rtol=1e-6)


def test_ladder_ends_with_the_simulator_itself():
    labels = [label for label, _ in KuramotoSivashinsky().cheaper()]
    assert labels[0] == "128 points, step 0.4" and labels[-1] == "256 points, step 0.1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 2.0}, r"expected u0 on the interval of length 2, got 100.531"),
        ({"parameters": data.ParameterSpace(u0=data.Uniform(0, 1))}, r"expected a random field u0"),
        ({"nu": 0.0}, r"nu: expected a positive number, got 0"),
        ({"times": (-1.0, 0.0)}, r"expected none before the initial condition at 0, got -1"),
        ({"solve_points": 4}, r"expected points >= 2 and solve_points >= 8"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        KuramotoSivashinsky(**changes)
