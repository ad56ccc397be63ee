"""Training: one answer on any number of devices, on the arrays where they lie; divergence, small sets, fields."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from formula import Formula, exponential, line, members

from emulax import data, simulators, surrogates
from emulax.surrogates import _rows, _train
from emulax.surrogates._watch import Watch

SMALL = surrogates.MLP(16, 2)


def weights(surrogate):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(surrogate.network)]


def test_one_two_and_four_devices_give_one_training_curve():
    # 250 members are padded to 250, 250 and 252 rows by the solves; training lays them anew in 256
    runs = [surrogates.fit(SMALL, members(exponential(), 250, devices=n), steps=300, batch_size=32) for n in (1, 2, 4)]
    curves = [run.provenance["history"] for run in runs]
    assert [run.provenance["devices"] for run in runs] == [1, 2, 4] and len(curves[0]["step"]) == 100
    for run, curve in zip(runs[1:], curves[1:], strict=True):
        assert run.provenance["members"] == runs[0].provenance["members"]
        assert run.provenance["split"] == runs[0].provenance["split"]
        for kind in ("training_loss", "validation_loss"):
            np.testing.assert_allclose(curve[kind], curves[0][kind], rtol=1e-5, atol=1e-9)
        for one, other in zip(weights(runs[0]), weights(run), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_training_uses_the_ensemble_where_it_lies():
    ensemble = members(exponential(), 256, devices=4)
    big = [*ensemble.parameters.values(), *ensemble.solution.values.values()]
    seen = []
    lay = _rows.lay

    def watched(function, grid, *others):
        seen.append(lay(function, grid, *others))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulax.surrogates._fit.lay", watched)
        surrogates.fit(SMALL, ensemble, steps=20, batch_size=32)
    # an array that was ever read by the host keeps its host copy: none of these has one
    assert all(array._npy_value is None for array in big)
    laid = jax.tree.leaves(seen)
    assert len(laid) == 2 and all(array._npy_value is None for array in laid)
    # every device trains on the rows that it solved
    (source,), target = ensemble.solution.values.values(), seen[1]
    for shard in target.addressable_shards:
        device = shard.index[0].start
        solved = next(s for s in source.addressable_shards if s.device == shard.device)
        assert solved.index[0] == slice(64 * device, 64 * device + 64, None) and shard.data.shape[1] == 64
    # and reading one does leave a copy, so that the check means something
    np.asarray(source)
    assert source._npy_value is not None


def test_nothing_is_copied_when_the_rows_already_fit():
    ensemble = members(exponential(), 256, devices=4)
    (value,) = ensemble.solution.values.values()
    grid = _rows.lay_out(value, 256, 128)
    assert grid.rows == 256 and list(grid.devices) == jax.devices()[:4]
    compiled = (
        jax.jit(lambda v: v.astype(jnp.float32).reshape(4, -1, 2), out_shardings=grid.sharding).lower(value).compile()
    )
    for word in ("all-gather", "all-to-all", "collective-permute"):
        assert word not in compiled.as_text()


def test_one_seed_gives_one_network_and_another_seed_another():
    ensemble = members(exponential(), 200)
    one, same, other = (surrogates.fit(SMALL, ensemble, steps=30, seed=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(weights(one), weights(same), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def test_members_that_do_not_train_change_no_weight():
    ensemble = members(exponential(), 200)
    first = surrogates.fit(SMALL, ensemble, steps=30)
    kept = first.provenance["split"]["calibration"]
    changed = members(exponential(), 200)
    with jax.enable_x64(True):
        changed.solution.values["y"] = ensemble.solution.values["y"].at[np.array(kept)].mul(10.0)
    second = surrogates.fit(SMALL, changed, steps=30)
    assert all(np.array_equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))
    assert np.all(first.calibration.half_width["y"] < second.calibration.half_width["y"])


def test_splits_are_disjoint_and_balanced_over_groups():
    grid = _rows.Grid(tuple(jax.devices()[:4]), 8, 125)
    ok = np.ones(1000, bool)
    ok[::50] = False
    parts = _rows.split(ok, grid, 0.1, True, seed=0)
    together = np.concatenate(list(parts.values()))
    assert len(together) == len(set(together)) == 1000
    assert {use: len(m) for use, m in parts.items()} == {
        "train": 784, "validation": 98, "calibration": 98, "failed": 20,
    }  # fmt: skip
    for use in ("validation", "calibration"):
        assert np.ptp(np.bincount(parts[use] // 125, minlength=8)) <= 1


@pytest.mark.parametrize(
    ("devices", "batch", "groups"), [(1, 128, 8), (4, 128, 8), (2, 20, 4), (4, 20, 4), (3, 128, 3)]
)
def test_groups_do_not_depend_on_the_devices_that_divide_them(devices, batch, groups):
    ensemble = members(exponential(), 10, devices=devices)
    (value,) = ensemble.solution.values.values()
    grid = _rows.lay_out(value, 10, batch)
    assert grid.groups == groups and grid.rows == (16 if devices != 3 else 24)


# losses that are no numbers


def test_the_best_weights_are_kept_and_nan_never_improves():
    watch = Watch("start", chooses=True)
    for epoch, loss in enumerate([5, 3, 2, 2.5, np.nan, np.nan], start=1):
        assert watch.status == "running"
        watch.update(epoch, f"epoch {epoch}", 1.0, loss)
    watch.finish()
    assert (watch.status, watch.params, watch.best_step, watch.best_loss) == ("diverged", "epoch 3", 3, 2)


def test_one_bad_loss_between_good_ones_does_not_stop_training():
    watch = Watch("start", chooses=True)
    for epoch, loss in enumerate([np.nan, 3, np.inf, 2], start=1):
        watch.update(epoch, epoch, 1.0, loss)
    watch.finish()
    assert (watch.status, watch.params) == ("finished", 4)


def spoilt_after(steps):
    """Adam whose updates become NaN after some steps."""

    def update(updates, count, params=None):
        factor = jnp.where(count < steps, 1.0, jnp.nan)
        return jax.tree.map(lambda u: u * factor, updates), count + 1

    return optax.chain(optax.adam(1.0), optax.GradientTransformation(lambda _: jnp.zeros((), jnp.int32), update))


@pytest.mark.parametrize("validation", [0.1, 0.0])
def test_a_training_that_diverges_stops_and_returns_its_best_weights(validation):
    ensemble = members(exponential(), 200)
    with pytest.warns(UserWarning, match="training diverged after step"):
        surrogate = surrogates.fit(
            SMALL, ensemble, steps=1000, optimiser=spoilt_after(500), learning_rate=1e-3, validation=validation
        )
    record = surrogate.provenance
    assert record["status"] == "diverged" and record["best_step"] == 500 and record["history"]["step"][-1] == 520
    assert record["history"]["training_loss"][-1] is None and np.isfinite(record["best_loss"])
    assert np.all(np.isfinite(surrogate.solve({"k": 0.5}).values["y"]))


def test_a_training_without_a_single_finite_loss_is_refused():
    with pytest.raises(ValueError, match="training failed: the loss was never a finite number"):
        surrogates.fit(SMALL, members(exponential(), 200), steps=100, optimiser=spoilt_after(0))


# small sets


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_members_to_split_are_refused_and_train_without_validation(count):
    ensemble = simulators.solve_ensemble(line(), {"x": np.arange(count) + 1.0})
    with pytest.raises(ValueError, match=f"at least 4 finished members .* got {count}; .* validation=0"):
        surrogates.fit(SMALL, ensemble, steps=10)
    with pytest.warns(UserWarning, match=r"0 calibration members are too few|'y' is constant") as caught:
        surrogate = surrogates.fit(SMALL, ensemble, steps=10, batch_size=32, validation=0)
    assert len(caught) == (2 if count == 1 else 1)
    assert surrogate.solve({"x": 1.0}).values["y"].shape == (1,)
    # no validation, no early choice: the last weights
    assert surrogate.provenance["best_step"] == 10 and surrogate.provenance["status"] == "finished"
    assert np.all(np.isinf(surrogate.solve({"x": 1.0}).error["y"])) and np.isinf(surrogate.solve({"x": 1.0}).bound)


def test_ten_members_and_a_batch_of_thirty_two():
    ensemble = simulators.solve_ensemble(line(), {"x": np.arange(10.0)}, devices=4)
    with pytest.warns(UserWarning, match="1 calibration members are too few"):
        surrogate = surrogates.fit(SMALL, ensemble, steps=1500, batch_size=32, learning_rate=1e-2)
    answers = [float(surrogate.solve({"x": x}).values["y"][0]) for x in (2.0, 6.0)]
    np.testing.assert_allclose(answers, [4.0, 12.0], atol=0.5)


def test_an_ensemble_without_a_finished_member_is_refused():
    nothing = Formula(
        lambda p, t: {"y": p["x"] * jnp.nan * t}, data.ParameterSpace(x=data.Uniform(0.0, 1.0)), np.ones(1), ("y",)
    )
    with pytest.raises(ValueError, match=r"at least 1 finished member .* none of 8"):
        surrogates.fit(SMALL, members(nothing, 8), steps=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(steps=0), "steps: expected a whole number, at least 1; got 0"),
        (dict(batch_size=1.5), r"batch_size: expected a whole number, at least 1; got 1\.5"),
        (dict(learning_rate=-1.0), "learning_rate: expected a number above 0"),
        (dict(validation=1.0), "validation: expected a share from 0 to below 1"),
        (dict(transform="sqrt"), "transform: expected one of none, log; got 'sqrt'"),
        (dict(augment="rotation"), "augment: expected None or 'reflection'"),
        (dict(augment="reflection"), "augment: expected fields on one dimension"),
        (dict(coarse=(4, 0.5)), "coarse: expected fields on one dimension"),
        (dict(loss=surrogates.RelativeL2()), "loss: MLP learns outputs shifted by their mean"),
        (dict(loss="mse"), r"loss: expected a function of \(prediction, target\), .* got 'mse'"),
        (dict(loss=surrogates.MeanSquaredError), "loss: expected a function .* got the class MeanSquaredError"),
        (dict(optimiser="adam"), "optimiser: expected an optax transformation .* got 'adam'"),
        (dict(progress=5), "progress: expected a function .* got 5"),
        (dict(calibration=5), "calibration: expected an ensemble .* got 5; simulators.solve_ensemble"),
        (dict(calibration=members(line(), 8)), r"calibration: expected an ensemble with the parameters \['k'\]"),
        (dict(steps=None), "steps: expected a whole number, at least 1; got None"),
        (dict(seed=-1), "seed: expected a whole number, at least 0; got -1"),
        (dict(learning_rate="fast"), "learning_rate: expected a number above 0, got 'fast'"),
        (dict(learning_rate=np.nan), "learning_rate: expected a number above 0, got nan"),
        (dict(validation="some"), "validation: expected a share from 0 to below 1, got 'some'"),
        (dict(coarse=4), r"coarse: expected \(factor, share\); got 4"),
        (dict(coarse=("a", 0.5)), "coarse: expected a whole number, at least 2; got 'a'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        surrogates.fit(SMALL, members(exponential(), 8), **options)


def test_objects_of_another_kind_are_refused_by_name():
    ensemble, decay = members(exponential(), 8), simulators.Decay()
    for arguments, message in (
        (("MLP", ensemble), "architecture: expected an architecture such as surrogates.MLP.., got 'MLP'"),
        ((surrogates.MLP, ensemble), "got the class MLP; write MLP.."),
        ((SMALL, decay), "ensemble: expected an ensemble, got ODESimulator object; simulators.solve_ensemble"),
        ((ensemble, SMALL), "architecture: .* got Ensemble object"),
        ((SMALL, None), "ensemble: expected an ensemble, got None"),
    ):
        with pytest.raises(ValueError, match=message):
            surrogates.fit(*arguments, steps=5)


@pytest.mark.parametrize("count", [80, 200])
def test_a_share_that_leaves_nobody_to_train_on_is_refused(count):
    with pytest.raises(ValueError, match=r"validation: expected a share that leaves members to train on; 0\.99 keeps"):
        surrogates.fit(SMALL, members(exponential(), count), steps=5, validation=0.99)


def test_hyperparameters_that_cannot_be_meant_are_refused_by_name():
    with pytest.raises(ValueError, match="width: expected a whole number, at least 1; got 0"):
        surrogates.MLP(width=0)
    with pytest.raises(ValueError, match=r"activation: expected a function of jax\.nn"):
        surrogates.MLP(activation="nonsense")
    for settings in ({"width": "wide"}, {"depth": 2.5}, {"width": None}, {"activation": 5}, {"residual": "yes"}):
        with pytest.raises(ValueError, match=f"{next(iter(settings))}: expected"):
            surrogates.MLP(**settings)
    # what NumPy counts is a number, and is written as one
    assert surrogates.MLP(width=np.int64(16), depth=2).to_json() == SMALL.to_json()


def test_progress_counts_to_the_last_step():
    seen = []
    surrogates.fit(SMALL, members(exponential(), 200), steps=250, progress=lambda *now: seen.append(now))
    assert [step for step, _, _ in seen][-1] == 250 and all(total == 250 and loss > 0 for _, total, loss in seen)


def test_the_learning_rate_rises_and_falls_to_nothing():
    rate = [float(_train.schedule(jnp.asarray(s), jnp.float32(1000), jnp.float32(2.0))) for s in (0, 19, 500, 999)]
    np.testing.assert_allclose(rate, [0.1, 2.0, 1.0, 0.0], atol=2e-3)


def test_losses_are_their_formulas():
    target = jnp.array([[[3.0, 4.0], [1.0, 0.0]]])  # time output point
    prediction = target + jnp.array([[[0.0, 0.5], [0.0, 0.2]]])
    np.testing.assert_allclose(surrogates.RelativeL2()(prediction, target), (0.1 + 0.2) / 2, rtol=1e-6)
    np.testing.assert_allclose(surrogates.MeanSquaredError()(prediction, target), (0.25 + 0.04) / 4, rtol=1e-6)
    assert np.all(np.isfinite(jax.grad(surrogates.RelativeL2())(target, target)))


# fields


def test_reflection_turns_a_periodic_field_about_its_first_point():
    x = np.arange(8) / 8
    field = np.sin(2 * np.pi * x) + np.cos(4 * np.pi * x)
    mirrored = -(np.sin(-2 * np.pi * x) + np.cos(4 * np.pi * x))
    inputs = {"u": jnp.stack([field, field]), "nu": jnp.ones(2)}
    flipped, targets = _train.reflect(inputs, jnp.stack([field, field])[:, None, None], jnp.array([True, False]))
    np.testing.assert_allclose(flipped["u"], [mirrored, field], atol=1e-6)
    np.testing.assert_allclose(targets[:, 0, 0], [mirrored, field], atol=1e-6)
    assert flipped["nu"].tolist() == [1, 1]


def smoothing():
    """The heat equation on a periodic line, exactly: mode k decays by exp(-(2 pi k)² nu)."""
    x = np.arange(32) / 32

    def function(p, t):
        decay = jnp.exp(-((2 * jnp.pi * jnp.arange(p["u0"].shape[0] // 2 + 1)) ** 2) * 0.01)
        return {"u": jnp.fft.irfft(jnp.fft.rfft(p["u0"]) * decay, n=p["u0"].shape[0])[None]}

    field = data.GaussianRandomField(points=32, modes=6)
    return Formula(function, data.ParameterSpace(u0=field), np.array([1.0]), {"u": data.Output(dims=("x",))}, {"x": x})


def test_fields_train_on_a_coarse_grid_first_and_answer_on_any():
    formula = smoothing()
    ensemble, calibration = members(formula, 128, devices=2), members(formula, 40, seed=1)
    surrogate = surrogates.fit(
        surrogates.FNO(width=8, modes=6, depth=1), ensemble, calibration=calibration,
        steps=300, batch_size=16, learning_rate=1e-2, coarse=(2, 0.8), augment="reflection",
    )  # fmt: skip
    assert surrogate.provenance["training"]["loss"] == "RelativeL2" and surrogate.provenance["members"]["train"] == 116
    for points in (32, 64):
        draws = data.GaussianRandomField(points=32, modes=6).draw(7, np.arange(16), points)
        solution = jax.jit(jax.vmap(lambda u: surrogate.solve({"u0": u})))(jnp.asarray(draws, jnp.float32))
        wave = 2 * np.pi * np.arange(points // 2 + 1)
        exact = np.fft.irfft(np.fft.rfft(draws) * np.exp(-(wave**2) * 0.01), n=points)
        error = np.linalg.norm(solution.values["u"][:, 0] - exact, axis=1) / np.linalg.norm(exact, axis=1)
        assert error.mean() < 0.15
        stated = np.asarray(solution.error["u"])
        assert stated.shape == (16, 1, points) and np.all(stated > 0)
    with pytest.raises(ValueError, match=r"coarse: expected .* divides 32 points"):
        surrogates.fit(surrogates.FNO(width=8, modes=6, depth=1), ensemble, coarse=(5, 0.5))
    with pytest.raises(ValueError, match="transform: expected 'none' for FNO"):
        surrogates.fit(surrogates.FNO(width=8, modes=6, depth=1), ensemble, transform="log")


def test_a_perceptron_takes_fields_on_the_training_grid():
    ensemble = members(smoothing(), 400)
    surrogate = surrogates.fit(surrogates.MLP(32, 1), ensemble, steps=50)
    u0 = jnp.asarray(ensemble.design["u0"][0], jnp.float32)
    assert surrogate.solve({"u0": u0}).values["u"].shape == (1, 32) and surrogate.inside({"u0": u0})
    assert (
        not surrogate.inside({"u0": 100 * u0})
        and not surrogate.inside({"u0": u0 + 5})
        and not surrogate.inside({"u0": 0 * u0})
    )
    with pytest.raises(ValueError, match="expected 32 input values, got 64"):
        surrogate.solve({"u0": jnp.zeros(64)})
    # the operator is linear: least squares finds it
    with jax.enable_x64(True):
        fresh = members(smoothing(), 3, seed=9)
        for u0, u in zip(fresh.design["u0"], fresh.values["u"], strict=True):
            found = np.asarray(surrogate.baselines.predict({"u0": u0})["linear"]["u"])
            np.testing.assert_allclose(found, u, atol=1e-6)
