"""Answers do not depend on how they were come by: engine, number of lanes, with or without derivatives."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import SYSTEMS

from emulax import simulators
from emulax.simulators._answers import Answers
from emulax.simulators._engines import Lanes
from emulax.simulators._runner import Runner


def test_each_member_is_answered_by_the_last_attempt_at_it():
    answers = Answers(["Tsit5", "Rodas5P", "Tsit5"], 6)
    answers.note(np.array([1, 4, 5]), 1)
    answers.note(np.array([4]), 2)
    assert answers.describe() == {"solvers": {"Tsit5": 4, "Rodas5P": 2}, "retried": {"Rodas5P": [1, 5], "Tsit5": [4]}}


MU = np.random.default_rng(0).permutation(np.geomspace(0.1, 20.0, 90))
OSCILLATOR = simulators.VanDerPol(times=np.linspace(0.0, 10.0, 40))


def by(lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
    with jax.enable_x64(True):
        runner = Runner(OSCILLATOR, None, {"mu": MU}, jax.local_devices()[:1], 0)
        runner.load(np.arange(len(MU)), len(MU))
        runner.run(lanes, 4096)
        solution = runner.solution(lanes, on_host=True)
        return np.asarray(solution.values["x"]), np.asarray(solution.steps)


@pytest.fixture(scope="module")
def sixteen_lanes():
    return by(Lanes(diffrax.Tsit5(), lanes=16))


@pytest.mark.parametrize(
    "lanes",
    [
        Lanes(diffrax.Tsit5(), lanes=1, steps=3),
        Lanes(diffrax.Tsit5(), lanes=128, steps=64),
        Lanes(diffrax.Tsit5(), lanes=8, steps=5, saves=4),
    ],
    ids=["one lane", "more lanes than members", "four saves a step"],
)
def test_lanes_steps_between_refills_and_saves_a_step_do_not_matter(lanes, sixteen_lanes):
    values, steps = by(lanes)
    assert steps.tolist() == sixteen_lanes[1].tolist()
    # XLA orders the operations of other vector lengths differently: rounding
    np.testing.assert_allclose(values, sixteen_lanes[0], rtol=1e-10, atol=1e-11)


def test_gradients_of_a_solve_belong_to_the_values_of_the_lanes():
    system = SYSTEMS["lotka_volterra"]
    start, width = system.published, 1e-4
    alpha = start["alpha"] * (1 + width * np.array([0, -1, 1]))
    design = {name: np.full(3, value) for name, value in start.items()} | {"alpha": alpha}
    numerics = {"rtol": 1e-10, "atol": 1e-12, "max_steps": 4096}
    ensemble = simulators.solve_ensemble(
        system.simulator, design, engine="lanes", solver=diffrax.Tsit5(), devices=1, **numerics
    )
    simulator = system.simulator.replace(numerics=simulators.Numerics(solver=diffrax.Tsit5(), **numerics))

    name = next(iter(simulator.outputs))
    with jax.enable_x64(True):
        value, gradient = jax.jit(jax.value_and_grad(lambda a: simulator.solve(start | {"alpha": a}).values[name][-1]))(
            jnp.asarray(alpha[0])
        )
    middle, below, above = ensemble.values[name][:, -1]
    assert float(value) == pytest.approx(middle, rel=1e-11)
    assert float(gradient) == pytest.approx((above - below) / (alpha[2] - alpha[1]), rel=1e-5)


def test_a_fixed_step_saves_between_its_steps_as_diffeqsolve_does():
    simulator = simulators.Decay(times=np.array([0.0, 0.03, 0.1, 0.25, 0.26, 0.27, 1.0]))
    design = {"k": [0.5, 2.0], "y0": [1.0, 3.0]}
    lanes, plain = (
        simulators.solve_ensemble(simulator, design, engine=engine, solver=diffrax.Tsit5(), step=0.1, devices=1)
        for engine in ("lanes", "plain")
    )
    assert lanes.ok.all() and lanes.steps.tolist() == plain.steps.tolist() == [10, 10]
    name = next(iter(simulator.outputs))
    np.testing.assert_allclose(lanes.values[name], plain.values[name], rtol=1e-14)
    exact = np.array([[1.0], [3.0]]) * np.exp(-np.outer([0.5, 2.0], lanes.times))
    np.testing.assert_allclose(lanes.values[name], exact, rtol=1e-5)
