"""The ensemble engine: member counts, devices, statuses, precision; against closed forms."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators

DECAY = simulators.Decay()


def exact(design, times):
    return design["y0"][:, None] * np.exp(-design["k"][:, None] * times)


@pytest.mark.parametrize("members", [1, 2, 3, 4, 5, 7, 8, 9, 10])
@pytest.mark.parametrize("devices", [1, 4])
def test_every_member_count_returns_exactly_its_rows_in_order(members, devices):
    design = data.sample(DECAY.parameters, members, method="random")
    ensemble = simulators.solve_ensemble(DECAY, design, devices=devices)
    assert len(ensemble) == members and ensemble.values["y"].shape == (members, 21)
    np.testing.assert_allclose(ensemble.values["y"], exact(design, ensemble.times), rtol=1e-5)
    assert len(ensemble.solution.values["y"]) == members + (-members) % devices


def test_one_two_and_four_devices_give_one_answer_with_the_same_steps():
    # y' = -k y, k = 0.1, ..., 1, t = 2, Tsit5, rtol 1e-8, atol 1e-10: step counts 4 to 20
    decay = simulators.Decay(times=np.array([0.0, 2.0]))
    design = {"k": np.linspace(0.1, 1.0, 10), "y0": np.ones(10)}
    ensembles = [simulators.solve_ensemble(decay, design, devices=n, rtol=1e-8, atol=1e-10) for n in (1, 2, 4)]
    one_by_one = decay.replace(numerics=simulators.Numerics(rtol=1e-8, atol=1e-10))
    with jax.enable_x64(True):
        singles = [one_by_one.solve({"k": jnp.asarray(k), "y0": jnp.asarray(1.0)}) for k in design["k"]]
    for ensemble in ensembles:
        assert ensemble.steps.tolist() == [4, 6, 8, 10, 11, 13, 15, 17, 18, 20]
        np.testing.assert_allclose(ensemble.values["y"], ensembles[0].values["y"], rtol=0, atol=1e-15)
        np.testing.assert_allclose(ensemble.values["y"][:, -1], np.exp(-2 * design["k"]), rtol=0, atol=5e-10)
        # the first step is computed in another order of operations, which moves the steps by rounding
        np.testing.assert_allclose(ensemble.values["y"], [s.values["y"] for s in singles], rtol=0, atol=1e-11)
    assert [int(s.steps) for s in singles] == ensembles[0].steps.tolist()


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_no_device_axis_reaches_the_labelled_data(devices):
    dataset = simulators.solve_ensemble(DECAY, data.sample(DECAY.parameters, 10), devices=devices).to_xarray()
    assert dataset["y"].dims == ("member", "time") and dataset["y"].shape == (10, 21)
    assert dataset["k"].attrs["units"] == "1/s" and dataset["y"].attrs["units"] == "mol/m3"


def test_batches_give_what_one_batch_gives():
    design = data.sample(DECAY.parameters, 37, method="random")
    seen = []
    whole = simulators.solve_ensemble(DECAY, design)
    parts = simulators.solve_ensemble(DECAY, design, batch_size=8, progress=lambda done, n: seen.append((done, n)))
    np.testing.assert_allclose(parts.values["y"], whole.values["y"], rtol=1e-12)
    assert seen == [(8, 37), (16, 37), (24, 37), (32, 37), (37, 37)]


def test_a_failed_member_is_nan_with_a_reason_and_leaves_the_others_alone():
    # Van der Pol, Tsit5, 4096 steps: mu = 1000 runs out of steps; the others' values by Radau at 1e-12
    oscillator = simulators.ODESimulator(
        vector_field=lambda t, y, p: jnp.stack([y[1], p["mu"] * (1 - y[0] ** 2) * y[1] - y[0]]),
        initial_state=lambda p: jnp.array([2.0, 0.0]),
        parameters=data.ParameterSpace(mu=data.LogUniform(1.0, 1000.0)),
        times=np.arange(0.0, 21.0, 4.0),
        outputs=("x", "v"),
        numerics=simulators.Numerics(solver=diffrax.Tsit5(), rtol=1e-6, atol=1e-9),
    )
    ensemble = simulators.solve_ensemble(oscillator, {"mu": [1.0, 10.0, 100.0, 1000.0]})
    assert [f["member"] for f in ensemble.failures()] == [3]
    assert ensemble.failures()[0]["status"] == "max_steps" and "max_steps" in ensemble.failures()[0]["advice"]
    assert np.all(np.isnan(ensemble.values["x"][3])) and not np.any(np.isinf(ensemble.values["v"]))
    truth = [2.00814976217, 1.93935853278, 1.85823449009]
    np.testing.assert_allclose(ensemble.values["x"][:3, -1], truth, rtol=1e-4)
    alone = simulators.solve_ensemble(oscillator, {"mu": [1.0, 10.0, 100.0]})
    np.testing.assert_allclose(alone.values["x"], ensemble.values["x"][:3], rtol=1e-12)


def test_a_parameter_that_is_not_finite_is_a_status_not_a_crash():
    ensemble = simulators.solve_ensemble(DECAY, {"k": [0.5, np.nan, np.inf, 0.5], "y0": [1.0, 1.0, 1.0, np.nan]})
    assert [f["status"] for f in ensemble.failures()] == ["bad_parameter"] * 3
    np.testing.assert_allclose(ensemble.values["y"][:, -1], [np.exp(-1), np.nan, np.nan, np.nan], rtol=1e-6)


def test_an_output_that_is_not_finite_is_its_own_status():
    logarithm = simulators.ODESimulator(
        vector_field=lambda t, y, p: -p["k"] * jnp.ones_like(y),
        initial_state=lambda p: jnp.ones(1),
        parameters=data.ParameterSpace(k=data.Uniform(0.1, 3.0)),
        times=np.linspace(0.0, 1.0, 3),
        outputs=("logy",),
        observe=lambda t, y, p: {"logy": jnp.log(y[0])},
    )
    ensemble = simulators.solve_ensemble(logarithm, {"k": [0.5, 2.0]})
    assert ensemble.solution.status.kind(int(ensemble.status[1])).name == "bad_output"
    np.testing.assert_allclose(ensemble.values["logy"][0], np.log([1.0, 0.75, 0.5]), rtol=1e-9)


@pytest.mark.parametrize(("precision", "dtype"), [("double", np.float64), ("single", np.float32)])
def test_precision_is_the_callers_choice_and_recorded(precision, dtype):
    ensemble = simulators.solve_ensemble(DECAY, data.sample(DECAY.parameters, 4), precision=precision)
    assert ensemble.values["y"].dtype == dtype and ensemble.metadata["precision"] == precision


def test_equal_shapes_never_trace_again():
    traces = []

    def field(t, y, p):
        traces.append(1)
        return -p["k"] * y

    decay = simulators.ODESimulator(
        field, lambda p: jnp.stack([p["y0"]]), DECAY.parameters, times=[0.0, 1.0], outputs=("y",)
    )
    simulators.solve_ensemble(decay, data.sample(decay.parameters, 8, seed=0))
    first = len(traces)
    for seed in range(1, 6):
        simulators.solve_ensemble(decay, data.sample(decay.parameters, 8, seed=seed))
    assert first > 0 and len(traces) == first


def test_the_result_stays_split_over_members():
    ensemble = simulators.solve_ensemble(DECAY, data.sample(DECAY.parameters, 16), devices=4)
    shards = ensemble.solution.values["y"].addressable_shards
    assert [shard.data.shape for shard in shards] == [(4, 21)] * 4


BAD = {
    "devices": (dict(devices=9), "devices: expected 1 to 4"),
    "precision": (dict(precision="half"), "'double' or 'single', got 'half'"),
    "batch": (dict(batch_size=0), "batch_size: expected a whole number of at least 1"),
    "tolerance": (dict(rtol=-1.0), "rtol: expected a positive number, got -1.0"),
    "setting": (dict(tol=1e-3), "rtol, atol, step, max_steps; got tol"),
    "no times": (dict(times=[]), "at least one time"),
    "unsorted": (dict(times=[1.0, 0.5]), "increasing order"),
    "early": (dict(times=[-1.0, 0.5]), "no time before the initial state at 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_before_anything_is_solved(case):
    options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        simulators.solve_ensemble(DECAY, data.sample(DECAY.parameters, 2), **options)
