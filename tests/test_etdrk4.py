"""ETDRK4 against closed forms: φ functions, order, solitons, gradients."""

import math
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax.simulators import ETDRK4
from emulax.simulators._etdrk4 import phi

RATES = np.array([-0.5, -3.0, -40.0])


def solve(nonlinear, linear, y0, step, ts, args=None, **options) -> Any:
    terms = diffrax.MultiTerm(diffrax.ODETerm(nonlinear), diffrax.ODETerm(linear))
    ts, step = jnp.asarray(ts), jnp.asarray(step)
    return diffrax.diffeqsolve(
        terms, ETDRK4(), 0.0, ts[-1], step, y0, args, saveat=diffrax.SaveAt(ts=ts), throw=False, **options
    ).ys


def minus_square(t, y, rates):
    return -(y**2)


def times_rate(t, y, rates):
    return rates * y


def logistic(y0, step, ts, rates=RATES):
    """u' = λu - u²: λ / (1 - (1 - λ/u0) exp(-λt))."""
    return solve(minus_square, times_rate, y0, step, ts, jnp.asarray(rates, y0.dtype))


def logistic_exact(y0, ts, rates=RATES):
    ts = np.asarray(ts)[:, None]
    return rates / (1 - (1 - rates / y0) * np.exp(-rates * ts))


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (0.0, (1.0, 0.5, 1 / 6)),
        (1.0, (math.e - 1, math.e - 2, math.e - 2.5)),
        (-1.0, (1 - 1 / math.e, 1 / math.e, 0.5 - 1 / math.e)),
        (-1e-9, (1 - 5e-10, 0.5 - 1e-9 / 6, 1 / 6 - 1e-9 / 24)),
        (-1e6, (1e-6, 1e-6 - 1e-12, 0.5e-6 - 1e-12 + 1e-18)),
        (1j * math.pi, (2j / math.pi, (2j / math.pi - 1) / (1j * math.pi), None)),
    ],
)
def test_phi_functions_have_no_cancellation(z, expected):
    with jax.enable_x64(True):
        for computed, value in zip(phi(jnp.asarray(z)), expected, strict=True):
            if value is not None:
                np.testing.assert_allclose(computed, value, rtol=4e-15)


def test_phi_series_and_recursion_agree_where_they_meet():
    with jax.enable_x64(True):
        below, above = jnp.asarray(-np.nextafter(1.0, 0.0)), jnp.asarray(-1.0)
        np.testing.assert_allclose(phi(below), phi(above), rtol=3e-15)


def test_linear_problems_are_exact_at_any_step():
    with jax.enable_x64(True):
        y0 = jnp.array([1.0, -2.0, 3.0])
        ys = solve(lambda t, y, args: 0 * y, lambda t, y, args: RATES * y, y0, 0.5, [0.3, 1.0, 1.7])
        np.testing.assert_allclose(ys, y0 * np.exp(RATES * np.array([[0.3], [1.0], [1.7]])), rtol=1e-13)


@pytest.mark.parametrize("ts", [[0.3, 1.0], [1 / 3, 2 / 3]], ids=["on steps", "a third into a step"])
def test_order_four(ts):
    with jax.enable_x64(True):
        y0 = jnp.array([2.0, 2.0, 2.0])
        steps = np.array([0.1, 0.05, 0.025, 0.0125])
        exact = logistic_exact(np.asarray(y0), ts)[0]
        errors = [np.max(np.abs(logistic(y0, h, ts)[0] - exact)) for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 3.7 < slope < 4.4, errors
    assert errors[-1] < 3e-7


def test_single_precision_reaches_rounding():
    y0 = jnp.array([2.0, 2.0, 2.0], jnp.float32)
    ys = logistic(y0, 0.01, jnp.array([1.0], jnp.float32))
    assert ys.dtype == jnp.float32
    np.testing.assert_allclose(ys, logistic_exact(np.asarray(y0, np.float64), [1.0]), rtol=2e-5)


def test_pytree_state_and_explicit_time():
    """u' = λ(u - cos t) - sin t, solved by cos t: stiff, forced, and a dictionary as state."""
    with jax.enable_x64(True):
        ys = solve(
            lambda t, y, args: {"u": 100 * jnp.cos(t) - jnp.sin(t)},
            lambda t, y, args: {"u": -100 * y["u"]},
            {"u": jnp.asarray(1.0)},
            0.05,
            [1.0],
        )
        np.testing.assert_allclose(ys["u"], math.cos(1.0), rtol=1e-5)


def test_under_vmap_and_jit_each_member_is_as_alone():
    with jax.enable_x64(True):
        y0 = jnp.array([[1.0, 2.0, 3.0], [0.1, 0.2, 0.3]])
        together = jax.jit(jax.vmap(lambda y: logistic(y, 0.05, [0.5, 1.0])))(y0)
        alone = jnp.stack([logistic(y, 0.05, [0.5, 1.0]) for y in y0])
        np.testing.assert_allclose(together, alone, rtol=1e-14)


def test_reverse_mode_gradient_is_the_closed_form():
    with jax.enable_x64(True):
        u0, rate, t = 2.0, -0.7, 1.0
        grads = jax.grad(lambda u, lam: logistic(u, 0.02, [t], lam)[0, 0], argnums=(0, 1))(
            jnp.array([u0]), jnp.array([rate])
        )
        decay = math.exp(-rate * t)
        bottom = 1 - (1 - rate / u0) * decay
        by_u0 = (rate / u0) ** 2 * decay / bottom**2
        by_rate = 1 / bottom - rate / bottom**2 * (decay / u0 + t * (1 - rate / u0) * decay)
        np.testing.assert_allclose(grads[0][0], by_u0, rtol=1e-7)
        np.testing.assert_allclose(grads[1][0], by_rate, rtol=1e-7)


@pytest.mark.filterwarnings("ignore:Complex dtype support in Diffrax")
def test_two_solitons_of_korteweg_de_vries():
    """u_t + 6 u u_x + u_xxx = 0 from 6 sech² x: the exact two-soliton solution at t = 0.1."""
    points, length = 640, 40.0
    x = -length / 2 + length / points * np.arange(points)
    k = 2 * np.pi / length * np.arange(points // 2 + 1)

    def nonlinear(t, c, args):
        u = jnp.fft.irfft(c, points)
        return -3j * k * (k < k[-1] * 2 / 3) * jnp.fft.rfft(u * u)

    with jax.enable_x64(True):
        c0 = jnp.fft.rfft(jnp.asarray(6 / np.cosh(x) ** 2))
        ys = solve(nonlinear, lambda t, c, args: 1j * k**3 * c, c0, 2.5e-4, [0.1])
        u = np.fft.irfft(np.asarray(ys[0]), points)
    exact = [2.0005720080752, 1.5473397115315, 1.7171012190013, 4.9708391268024, 7.1713924159792]
    places = [np.argmin(np.abs(x - at)) for at in (0.0, 0.5, 1.0, 1.5, 2.0)]
    np.testing.assert_allclose(u[places], exact, atol=2e-6)
    spacing = length / points
    np.testing.assert_allclose([spacing * u.sum(), spacing * (u**2).sum()], [12, 48], rtol=1e-8)


def test_step_size_controllers_are_refused():
    with pytest.raises(RuntimeError, match="error estimate"):
        solve(
            lambda t, y, args: -(y**2),
            lambda t, y, args: -y,
            jnp.ones(1),
            0.1,
            [1.0],
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
        )
