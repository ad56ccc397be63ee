"""Discontinuities of a vector field: steps end at them, so that none is lost and none costs accuracy."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators

WIDTH = 1e-3
SPACE = data.ParameterSpace(on=data.Uniform(2.0, 8.0), dose=data.Uniform(0.5, 2.0))
DESIGN = {"on": np.array([2.1, 4.7, 7.3]), "dose": np.array([1.0, 2.0, 0.5])}


def dose(jumps, start=0.0, **options) -> simulators.ODESimulator:
    """y' = -y + dose/width for `on` <= t - start < on + width: a pulse that is short beside a step."""

    def field(t, y, p):
        since = t - start - p["on"]
        return -y + jnp.where((since >= 0) & (since < WIDTH), p["dose"] / WIDTH, 0.0)

    numerics = simulators.Numerics(**({"solver": diffrax.Tsit5(), "rtol": 1e-8, "atol": 1e-11} | options))
    return simulators.ODESimulator(
        field, lambda p: jnp.zeros(1), SPACE, start + np.array([0.0, 10.0]), ("y",), jumps=jumps, numerics=numerics
    )


def exact() -> np.ndarray:
    """y(10) = dose/width (1 - e^-width) e^-(10 - on - width)."""
    on, amount = DESIGN["on"], DESIGN["dose"]
    return amount / WIDTH * -np.expm1(-WIDTH) * np.exp(-(10 - on - WIDTH))


def edges(start=0.0):
    return lambda p: start + jnp.stack([p["on"], p["on"] + WIDTH])


SOLVERS = {
    "Tsit5": {},
    "Dopri8": {"solver": diffrax.Dopri8()},
    "Rodas5P": {"solver": simulators.Rodas5P()},
    "Kvaerno5": {"solver": diffrax.Kvaerno5()},
    "auto": {"solver": "auto"},
}


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("engine", ["lanes", "plain"])
def test_a_short_pulse_of_each_member(engine, solver):
    ensemble = simulators.solve_ensemble(dose(edges(), **solver), DESIGN, engine=engine)
    assert ensemble.ok.all()
    np.testing.assert_allclose(ensemble.values["y"][:, -1], exact(), rtol=1e-5)


@pytest.mark.parametrize("engine", ["lanes", "plain"])
def test_times_that_start_in_1900(engine):
    """There t + 1900 rounds, and the pulse may not move to the other side of its edge."""
    ensemble = simulators.solve_ensemble(dose(edges(1900.0), start=1900.0), DESIGN, engine=engine)
    np.testing.assert_allclose(ensemble.values["y"][:, -1], exact(), rtol=1e-5)


def test_without_them_the_pulse_is_lost():
    """Why they exist: no step happens to land in a pulse of one thousandth, and nothing tells so."""
    ensemble = simulators.solve_ensemble(dose(None), DESIGN, check=0)
    assert np.all(ensemble.values["y"][:, -1] == 0)


@pytest.mark.parametrize("engine", ["lanes", "plain"])
def test_a_constant_jump_is_no_step_across(engine):
    """y' = sign(t - 1): y(2) = 0 exactly, and it costs two steps and not a search for the edge."""
    simulator = simulators.ODESimulator(
        lambda t, y, p: p["a"] * jnp.sign(t - 1) * jnp.ones(1), lambda p: jnp.zeros(1),
        data.ParameterSpace(a=data.Uniform(0.5, 2.0)), (0.0, 1.0, 2.0), ("y",), jumps=[1.0],
        numerics=simulators.Numerics(solver=diffrax.Tsit5()),
    )  # fmt: skip
    with_jump = simulators.solve_ensemble(simulator, {"a": [1.0, 2.0]}, engine=engine, check=0)
    without = simulators.solve_ensemble(simulator.replace(jumps=None), {"a": [1.0, 2.0]}, engine=engine, check=0)
    np.testing.assert_allclose(with_jump.values["y"][:, 1], [-1.0, -2.0], rtol=1e-12)
    np.testing.assert_allclose(with_jump.values["y"][:, 2], 0.0, atol=1e-12)
    assert with_jump.steps.max() < without.steps.min()


def test_devices_batches_and_jumps_outside():
    """Jumps before the start or after the end are none."""
    simulator = dose(lambda p: jnp.stack([p["on"], p["on"] + WIDTH, -3.0 + 0 * p["on"], 99.0 + 0 * p["on"]]))
    one = simulators.solve_ensemble(simulator, DESIGN, devices=1)
    np.testing.assert_allclose(one.values["y"][:, -1], exact(), rtol=1e-5)
    for way in ({"devices": 2}, {"devices": 4}, {"batch_size": 2}):
        other = simulators.solve_ensemble(simulator, DESIGN, **way)
        np.testing.assert_allclose(other.values["y"], one.values["y"], rtol=1e-12)


@pytest.mark.parametrize(
    ("jumps", "options", "message"),
    [
        ("noon", {}, r"jumps: expected times, or a function of the parameters that returns them, got 'noon'"),
        ([1.0, np.nan], {}, r"jumps: expected times"),
        ([1.0], {"step": 0.1}, r"jumps: steps of a fixed length cannot end at them"),
    ],
)
def test_what_is_no_jump(jumps, options, message):
    with pytest.raises(ValueError, match=message):
        dose(jumps, **options)


def test_jumps_are_physics_and_make_the_fingerprint():
    assert simulators.fingerprint(dose([1.0])) != simulators.fingerprint(dose(None))
