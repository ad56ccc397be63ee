"""The surrogate as a replacement: values, derivatives, precision, domain, times; statistics; failed members."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from formula import Formula, exponential, line, members

from emulax import data, simulators, surrogates
from emulax.surrogates._fit import is_given
from emulax.surrogates._normalise import fit_normaliser

X64 = jax.enable_x64


@pytest.fixture(scope="module")
def surrogate():
    """y = exp(-k t) at t = 1, 2, trained on k in [0, 1]."""
    ensemble = members(exponential(), 512, method="sobol")
    calibration = members(exponential(), 200, seed=1)
    return surrogates.fit(
        surrogates.MLP(32, 2), ensemble, steps=8000, batch_size=64, learning_rate=4e-3, calibration=calibration
    )


def derivative(surrogate, k):
    return jax.grad(lambda k: surrogate.solve({"k": k}).values["y"][1])(k)


def test_the_value_is_within_the_stated_error_of_the_closed_form(surrogate):
    with X64(True):
        solution = jax.tree.map(np.asarray, surrogate.solve({"k": 0.5}))
    exact = np.exp([-0.5, -1.0])
    assert solution.source == "surrogate" and solution.status == "ok" and solution.steps == 0
    # the band covers 9 of 10 values; three half-widths cover this one
    np.testing.assert_array_less(np.abs(solution.values["y"] - exact), 3 * solution.error["y"])
    assert np.all(solution.error["y"] < 2e-3) and solution.bound < 5e-3


def test_reverse_mode_under_vmap_gives_the_derivative_of_the_closed_form(surrogate):
    # d/dk exp(-2 k) at k = 0.5 is -0.735758882343
    with X64(True):
        ks = jnp.array([0.3, 0.5, 0.7])
        found = np.asarray(jax.vmap(lambda k: derivative(surrogate, k))(ks))
        step = 1e-2
        ahead, behind = (
            np.asarray(jax.vmap(lambda k: surrogate.solve({"k": k}).values["y"][1])(ks + h)) for h in (step, -step)
        )
    assert found.dtype == np.float64
    assert abs(found[1] - -0.735758882343) < 5e-3
    np.testing.assert_allclose(found, -2 * np.exp(-2 * np.asarray(ks)), atol=5e-3)
    np.testing.assert_allclose(found, (ahead - behind) / (2 * step), atol=1e-4)


def test_forward_mode_agrees_with_reverse_mode_and_the_bound_has_no_derivative(surrogate):
    k = jnp.asarray(0.5)
    forward = jax.jacfwd(lambda k: surrogate.solve({"k": k}).values["y"][1])(k)
    np.testing.assert_allclose(forward, derivative(surrogate, k), rtol=1e-5)
    assert jax.grad(lambda k: surrogate.solve({"k": k}).bound)(k) == 0


@pytest.mark.parametrize(("wide", "dtype"), [(True, np.float64), (False, np.float32)])
def test_answers_have_the_callers_precision_and_the_simulators_shapes(surrogate, wide, dtype):
    with X64(wide):
        params = {"k": jnp.asarray(0.5, dtype)}
        solution, true = surrogate.solve(params), exponential().solve(params)
        assert solution.times.dtype == solution.values["y"].dtype == solution.error["y"].dtype == dtype
        assert solution.bound.dtype == dtype
    assert jax.tree.map(jnp.shape, solution.values) == jax.tree.map(jnp.shape, true.values)
    assert {leaf.dtype for leaf in jax.tree.leaves(surrogate.network)} == {np.dtype(np.float32)}


def test_outside_the_trained_range_is_flagged_as_data(surrogate):
    # trained on [0, 1]; exp(-4) = 0.0183156388887 is not to be promised at k = 2
    inside = jax.jit(jax.vmap(lambda k: surrogate.inside({"k": k})))(jnp.array([-0.1, 0.0, 0.5, 1.0, 2.0, jnp.nan]))
    assert inside.tolist() == [False, True, True, True, False, False]


def test_a_nan_parameter_gives_nan_and_a_status(surrogate):
    for value in (jnp.nan, jnp.inf):
        solution = jax.jit(lambda k: surrogate.solve({"k": k}))(jnp.asarray(value))
        assert np.all(np.isnan(solution.values["y"])) and solution.status == "bad_parameter"
        assert np.all(np.isnan(solution.error["y"])) and np.isnan(solution.bound)


def test_a_corner_far_from_every_member_is_outside_though_in_both_ranges():
    square = Formula(
        lambda p, t: {"y": p["a"] * p["b"] * t},
        data.ParameterSpace(a=data.Uniform(0.0, 1.0), b=data.Uniform(0.0, 1.0)),
        np.array([1.0]),
        ("y",),
    )
    random = np.random.default_rng(0)
    a = random.random(200)
    ensemble = simulators.solve_ensemble(square, {"a": a, "b": np.clip(a + 0.05 * random.normal(size=200), 0, 1)})
    surrogate = surrogates.fit(surrogates.MLP(8, 1), ensemble, steps=20)
    assert surrogate.inside({"a": 0.5, "b": 0.52}) and not surrogate.inside({"a": 0.95, "b": 0.05})
    with pytest.raises(ValueError, match="missing b"):
        surrogate.solve({"a": 0.5})


def test_times_are_a_choice_among_the_trained_ones(surrogate):
    whole, last = surrogate.solve({"k": 0.5}), surrogate.solve({"k": 0.5}, [2.0])
    assert last.values["y"].shape == (1,) and last.values["y"][0] == whole.values["y"][1]
    assert last.error["y"][0] == whole.error["y"][1]
    with pytest.raises(ValueError, match=r"times among the 2 .* from 1 to 2; got 1\.5"):
        surrogate.solve({"k": 0.5}, [1.0, 1.5])
    with pytest.raises(ValueError, match="at least one time"):
        surrogate.solve({"k": 0.5}, [])


@pytest.mark.parametrize("value", ["a", None, 1j, [0.5, 0.6]])
def test_what_is_no_parameter_is_refused_by_name(surrogate, value):
    for call in (surrogate.solve, surrogate.inside):
        with pytest.raises(ValueError, match="parameter 'k': expected"):
            call({"k": value})
    with pytest.raises(ValueError, match=r"expected a mapping with the parameters k; got 0\.5"):
        surrogate.solve(0.5)
    with pytest.raises(ValueError, match="missing k"):
        surrogate.baselines.predict({})


def test_what_are_no_times_is_refused(surrogate):
    with pytest.raises(ValueError, match="ts: expected times as numbers, got 'now'"):
        surrogate.solve({"k": 0.5}, "now")
    with pytest.raises(ValueError, match="make them with numpy, or leave them out"):
        jax.jit(lambda: surrogate.solve({"k": 0.5}, jnp.ones(1)))()
    assert jax.jit(lambda: surrogate.solve({"k": 0.5}, np.ones(1)).values["y"])().shape == (1,)


def test_a_surrogate_runs_as_an_ensemble_on_any_number_of_devices(surrogate):
    design = data.sample(surrogate.parameters, 10, method="random", seed=3)
    one, four = (simulators.solve_ensemble(surrogate, design, devices=n) for n in (1, 4))
    np.testing.assert_allclose(one.values["y"], four.values["y"], atol=1e-6)
    np.testing.assert_allclose(one.values["y"][:, 1], np.exp(-2 * design["k"]), atol=5e-3)
    assert one.source.tolist() == [data.Source.surrogate] * 10
    assert surrogate.name == "surrogate of formula" and "512" not in repr(surrogate).splitlines()[0]


def test_a_failed_surrogate_refuses_to_answer(surrogate):
    failed = surrogates.Surrogate(
        surrogate.network, surrogate.normaliser, surrogate.domain, surrogate.calibration, surrogate.baselines,
        surrogate.layout, surrogate.provenance | {"status": "failed"},
    )  # fmt: skip
    for call in (failed.solve, failed.inside):
        with pytest.raises(ValueError, match="training failed"):
            call({"k": 0.5})


# statistics


def column(values):
    """A formula of one parameter x = 0, 1, ... whose outputs are columns of `values`, `(member, output)`."""
    table = jnp.asarray(values)
    names = tuple("abc"[: table.shape[1]])
    return Formula(
        lambda p, t: {n: table[p["x"].astype(int), i] * jnp.ones_like(t) for i, n in enumerate(names)},
        data.ParameterSpace(x=data.Uniform(0.0, len(values) - 1.0)),
        np.array([3.0]),
        names,
    )


def test_constant_outputs_are_answered_exactly_with_a_warning_that_names_them():
    values = np.stack([np.ones(5), np.arange(5.0), np.full(5, 0.1)], axis=1)
    with X64(True):
        formula = column(values)
        ensemble = simulators.solve_ensemble(formula, {"x": np.arange(5.0)})
        with pytest.warns(UserWarning) as caught:
            surrogate = surrogates.fit(surrogates.MLP(8, 1), ensemble, steps=5, validation=0)
        answer = jax.tree.map(np.asarray, surrogate.solve({"x": 2.5}))
    told = [str(warning.message) for warning in caught]
    assert [text[:28] for text in told if "constant" in text] == [
        "output 'a' is constant over ",
        "output 'c' is constant over ",
    ]
    assert answer.values["a"][0] == 1 and answer.values["c"][0] == 0.1
    # population standard deviation of 0, ..., 4
    assert abs(surrogate.normaliser.scale[0, 1] - 1.41421356) < 1e-8 and surrogate.normaliser.shift[0, 1] == 2


def test_a_thousand_copies_of_a_single_precision_number_are_constant():
    layout = surrogates.Layout(line().parameters, {"y": data.Output()}, np.array([1.0]), {})
    values = {"y": np.full((1000, 1), 0.1, np.float32)}
    with X64(True), pytest.warns(UserWarning, match="'y' is constant"):
        chosen = np.ones(1000, bool)
        normaliser = fit_normaliser(layout, {"x": np.arange(1000.0)}, values, chosen, "standardise", "none")
    assert normaliser.constant.all() and normaliser.shift[0, 0] == np.float32(0.1)


def test_statistics_come_from_the_training_members_alone():
    layout = surrogates.Layout(line().parameters, {"y": data.Output()}, np.array([1.0]), {})
    values = np.arange(1.0, 11.0)
    train = values <= 8
    with X64(True):
        normaliser = fit_normaliser(layout, {"x": values}, {"y": values[:, None]}, train, "standardise", "none")
        z = float(normaliser.targets({"y": jnp.array([10.0])})[0, 0])
    # mean 4.5, population standard deviation 2.291287847; all ten members would give 1.566698903601
    assert abs(z - 2.400396792596) < 1e-12


def test_logarithmic_parameters_and_bounds_become_minus_one_and_one():
    space = data.ParameterSpace(a=data.LogUniform(0.01, 100.0), b=data.Uniform(2.0, 4.0), c=data.Normal(0.0, 1.0))
    layout = surrogates.Layout(space, {"y": data.Output()}, np.array([1.0]), {})
    parameters = {"a": np.array([0.1, 1.0]), "b": np.array([2.5, 3.0]), "c": np.array([-3.0, 1.0])}
    with X64(True):
        values = {"y": np.array([[1.0], [2.0]])}
        normaliser = fit_normaliser(layout, parameters, values, np.ones(2, bool), "standardise", "none")
        found = jax.tree.map(
            float, normaliser.inputs({"a": jnp.asarray(100.0), "b": jnp.asarray(3.0), "c": jnp.asarray(1.0)})
        )
    assert abs(found["a"] - 1) < 1e-12 and found["b"] == 0 and found["c"] == 1


def test_failed_members_leave_inputs_and_outputs_together_and_are_listed():
    # Y = 2 X, X = 0, ..., 9; members 3 and 7 failed
    failing = Formula(
        lambda p, t: {"y": jnp.where((p["x"] == 3) | (p["x"] == 7), jnp.nan, 2 * p["x"]) * jnp.ones_like(t)},
        line().parameters,
        np.array([1.0]),
        ("y",),
    )
    ensemble = simulators.solve_ensemble(failing, {"x": np.arange(10.0)})
    with pytest.warns(UserWarning, match="0 calibration members"):
        surrogate = surrogates.fit(surrogates.MLP(8, 1), ensemble, steps=50, validation=0)
    assert surrogate.provenance["failures"] == [{"member": m, "status": "bad_output"} for m in (3, 7)]
    counts = surrogate.provenance["members"]
    assert counts["train"] == 8 and counts["failed"] / counts["total"] == 0.2
    with X64(True):
        at = [float(surrogate.baselines.predict({"x": x})["linear"]["y"][0]) for x in (0.0, 1.0, 9.0)]
        mean = float(surrogate.baselines.predict({"x": 1.0})["mean"]["y"][0])
    np.testing.assert_allclose(at, [0.0, 2.0, 18.0], atol=1e-10)
    assert abs(mean - 2 * (0 + 1 + 2 + 4 + 5 + 6 + 8 + 9) / 8) < 1e-12
    assert np.isfinite(surrogate.solve({"x": 3.0}).values["y"][0])


def test_the_linear_baseline_is_scipys_least_squares():
    from scipy.linalg import lstsq

    ensemble = members(exponential(), 60)
    surrogate = surrogates.fit(
        surrogates.MLP(8, 1), ensemble, steps=5, validation=0, calibration=members(exponential(), 20, 1)
    )
    k = ensemble.design["k"]
    expected = lstsq(np.stack([np.ones(60), k], 1), np.exp(-k[:, None] * [1.0, 2.0]))[0]  # type: ignore[index]
    with X64(True):
        found = np.asarray(surrogate.baselines.predict({"k": 0.25})["linear"]["y"])
    np.testing.assert_allclose(found, expected[0] + 0.25 * expected[1], rtol=1e-10)


def test_logarithms_are_learned_where_asked_and_only_of_positive_outputs():
    ensemble = members(exponential(0.0, 5.0), 256, method="sobol")
    surrogate = surrogates.fit(surrogates.MLP(32, 2), ensemble, steps=2000, transform="log")
    solution = surrogate.solve({"k": 4.0})
    # exp(-8) = 3.3546e-4: relative accuracy over four decades
    np.testing.assert_allclose(solution.values["y"], np.exp([-4.0, -8.0]), rtol=0.03)
    relative = np.asarray(solution.error["y"] / solution.values["y"])
    np.testing.assert_allclose(relative, surrogate.calibration.half_width["y"], rtol=1e-5)
    with pytest.raises(ValueError, match="expected output 'y' above 0, got 0"):
        surrogates.fit(surrogates.MLP(8, 1), simulators.solve_ensemble(line(), {"x": np.arange(10.0)}), transform="log")


def test_the_member_error_is_the_worst_outputs_relative_l2_error():
    truth = {"a": jnp.array([[3.0, 4.0], [0.0, 0.0]]), "b": jnp.ones((2, 2))}
    prediction = {"a": jnp.array([[3.0, 4.5], [0.0, 0.0]]), "b": jnp.array([[1.0, 1.0], [1.0, 1.1]])}
    np.testing.assert_allclose(surrogates.member_error(prediction, truth), [0.1, 0.1 / np.sqrt(2)], rtol=1e-5)
    with pytest.raises(ValueError, match="missing b"):
        surrogates.member_error({"a": truth["a"]}, truth)
    # a given first time does not count (M05: 10 given frames of 20 would halve the error)
    np.testing.assert_allclose(surrogates.member_error(prediction, truth, 1), [0.125, 0.1], rtol=1e-5)


def test_a_first_time_that_is_a_parameter_or_a_constant_is_given(surrogate):
    decay = simulators.Decay()
    few = simulators.solve_ensemble(decay, data.sample(decay.parameters, 20, method="random"))
    all_of_them = np.ones(20, bool)
    with X64(True):
        y = few.solution.values["y"]
        assert is_given(y[:, 0], few.parameters, all_of_them) and not is_given(y[:, 1], few.parameters, all_of_them)
        assert is_given(jnp.ones(20), few.parameters, all_of_them)
        # members that do not count, such as failed ones, do not decide
        assert is_given(y[:, 0].at[3].set(jnp.nan), few.parameters, np.arange(20) != 3)
    assert surrogate.provenance["given_times"] == 0
