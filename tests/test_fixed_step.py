"""The fixed-step fast path: order 4 by slope, exact solutions, transformations, and the ladder of cheaper settings."""

import itertools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators
from emulax.simulators import FixedStep, RungeKutta4
from emulax.simulators._cheaper import ode_ladder

OSCILLATOR = simulators.ODESimulator(
    vector_field=lambda t, y, p: jnp.stack([y[1], -(p["w"] ** 2) * y[0]]),
    initial_state=lambda p: jnp.array([1.0, 0.0]),
    parameters=data.ParameterSpace(w=data.Uniform(0.5, 2.0)),
    times=np.linspace(0.0, 4.0, 9),
    outputs=("x", "v"),
)
# y' = -2 t y: explicit in time, so that stage times count; y = exp(-t²)
GAUSSIAN = simulators.ODESimulator(
    vector_field=lambda t, y, p: -p["k"] * t * y,
    initial_state=lambda p: jnp.ones(1),
    parameters=data.ParameterSpace(k=data.Uniform(1.0, 3.0)),
    times=np.array([0.0, 0.3, 1.0]),
    outputs=("y",),
)


def slope(errors: list[float]) -> float:
    """Order by least squares on log error against log step, steps halved each time."""
    return -np.polyfit(np.arange(len(errors)) * np.log(2), np.log(errors), 1)[0]


def test_order_four_on_the_oscillator():
    with jax.enable_x64(True):
        solutions = [np.asarray(FixedStep(OSCILLATOR, n).solve({"w": 1.5}).values["x"]) for n in (2, 4, 8, 16)]
    errors = [float(np.max(np.abs(x - np.cos(1.5 * OSCILLATOR.times)))) for x in solutions]
    assert slope(errors) == pytest.approx(4.0, abs=0.1)


def test_order_four_with_explicit_time_and_uneven_saves():
    with jax.enable_x64(True):
        errors = [
            abs(float(FixedStep(GAUSSIAN, n).solve({"k": 2.0}).values["y"][-1]) - np.exp(-1)) for n in (2, 4, 8, 16)
        ]
    assert slope(errors) == pytest.approx(4.0, abs=0.2)


def test_one_step_is_the_taylor_polynomial():
    # for y' = -k y one classical Runge-Kutta step multiplies by 1 + z + z²/2 + z³/6 + z⁴/24, z = -k h
    decay = simulators.Decay(times=np.array([0.0, 1.0]))
    with jax.enable_x64(True):
        y = FixedStep(decay, 1).solve({"k": 0.5, "y0": 2.0}).values["y"]
    assert y.tolist() == pytest.approx([2.0, 2.0 * (1 - 0.5 + 0.125 - 0.125 / 6 + 0.0625 / 24)], rel=1e-15)


def test_jit_vmap_and_grad():
    fast = FixedStep(OSCILLATOR, 8)

    def last(w):
        return fast.solve({"w": w}).values["x"][-1]

    with jax.enable_x64(True):
        w = jnp.array([0.7, 1.0, 1.9])
        value, slope = jax.jit(jax.vmap(jax.value_and_grad(last)))(w)
        tangent = jax.jit(jax.vmap(jax.jacfwd(last)))(w)
        np.testing.assert_allclose(value, np.cos(4 * np.asarray(w)), atol=1e-4)
        np.testing.assert_allclose(slope, -4 * np.sin(4 * np.asarray(w)), atol=1e-3)
        np.testing.assert_allclose(tangent, slope, rtol=1e-12)


def test_other_times_and_a_late_first_save():
    with jax.enable_x64(True):
        solution = FixedStep(OSCILLATOR, 32).solve({"w": 1.0}, ts=[0.25, 3.0])
    np.testing.assert_allclose(solution.values["x"], np.cos([0.25, 3.0]), atol=1e-6)
    assert solution.times.tolist() == [0.25, 3.0] and int(solution.steps) == 64


def test_single_precision_keeps_late_years():
    # steps are formed in double precision: at 1900 a single-precision year has an error of 6e-5
    hare = simulators.LotkaVolterra(times=1900 + np.linspace(0, 2.1, 8))
    p = {"alpha": 0.547, "beta": 0.0277, "gamma": 0.8, "delta": 0.0241, "u0": 34.0, "v0": 5.94}
    single = FixedStep(hare, 8).solve(p)
    assert single.values["hare"].dtype == jnp.float32
    with jax.enable_x64(True):
        truth = hare.solve(p).values["hare"]
    np.testing.assert_allclose(single.values["hare"], truth, rtol=3e-6)


def test_what_goes_wrong_is_a_status():
    ensemble = simulators.solve_ensemble(
        FixedStep(simulators.Decay(), 1), {"k": [0.5, np.nan, 1e300], "y0": np.ones(3)}
    )
    assert [f["status"] for f in ensemble.failures()] == ["bad_parameter", "non_finite"]
    assert ensemble.metadata["numerics"] == {"solver": "RungeKutta4", "substeps": 1}
    finer = simulators.solve_ensemble(FixedStep(simulators.Decay()), {"k": [0.5], "y0": [1.0]}, substeps=16)
    assert finer.values["y"][0, -1] == pytest.approx(np.exp(-1), rel=1e-10) and finer.steps.tolist() == [20 * 16]


@pytest.mark.parametrize("bad", [0, -1, 2.5])
def test_a_step_count_that_cannot_be_meant_is_refused(bad):
    with pytest.raises(ValueError, match=r"substeps: expected a whole number, at least 1, got"):
        RungeKutta4(bad)


def test_the_ladder_goes_from_cheap_to_exact():
    rungs = list(ode_ladder(OSCILLATOR))
    names = [name for name, _ in rungs]
    assert names[:2] == ["RungeKutta4, 1 step per saved time", "RungeKutta4, 2 steps per saved time"]
    assert "Bosh3, rtol 0.01" in names and "Tsit5, rtol 1e-08" in names
    with jax.enable_x64(True):
        errors = [
            float(np.max(np.abs(rung.solve({"w": 1.5}).values["x"] - np.cos(1.5 * OSCILLATOR.times))))
            for name, rung in rungs
            if name.startswith("RungeKutta4")
        ]
    assert all(later < earlier or later < 1e-13 for earlier, later in itertools.pairwise(errors))


def test_a_stiff_system_is_compared_with_implicit_solvers():
    stiff = OSCILLATOR.replace(numerics=simulators.Numerics(solver=diffrax.Kvaerno5()))
    families = {name.partition(",")[0] for name, _ in ode_ladder(stiff)}
    assert families == {"Kvaerno3", "Kvaerno5"}
