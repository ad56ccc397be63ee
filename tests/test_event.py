"""Events: members end at their own times, which are data; what comes after is NaN.

The reference is free fall, x'' = -g from the height h: x = 0 at √(2h/g) with the velocity -√(2gh).
"""

import diffrax
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

from emulax import data, simulators

G = 9.81
HEIGHTS = np.array([5.0, 10.0, 20.0])
STOPS = np.sqrt(2 * HEIGHTS / G)
SPACE = data.ParameterSpace(h=data.Uniform(1.0, 200.0, unit="m"))
TIMES = np.arange(6.0)


def height(t, y, p):
    return y[0]


FALLEN = simulators.Event(height)


def fall(event=FALLEN, times=TIMES, **options) -> simulators.ODESimulator:
    """x'' = -g, x(0) = h, x'(0) = 0."""
    numerics = simulators.Numerics(**({"solver": diffrax.Tsit5()} | options))
    return simulators.ODESimulator(
        lambda t, y, p: jnp.stack([y[1], -G]),
        lambda p: jnp.stack([p["h"], 0.0]),
        SPACE, times, ("x", "v"), event=event, numerics=numerics, name="fall", time_unit="s",
    )  # fmt: skip


WAYS = {
    "lanes": {"engine": "lanes"},
    "plain": {"engine": "plain"},
    "four devices": {"devices": 4},
    "batches": {"batch_size": 2},
    "stiff": {"solver": simulators.Rodas5P()},
    "implicit": {"solver": diffrax.Kvaerno5()},
    "automatic": {"solver": "auto"},
    "fixed step": {"solver": diffrax.Tsit5(), "step": 0.01},
    "one long step": {"solver": diffrax.Tsit5(), "step": 2.5},
}


class TestFreeFall:
    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
    def test_case_s02(self, way):
        """Event times 1.00963755469, 1.42784312293, 2.01927510938, valid entries 2, 2, 3 and the stop itself."""
        ensemble = simulators.solve_ensemble(fall(), {"h": HEIGHTS}, **way)
        assert ensemble.stopped.all() and not ensemble.ok.any() and ensemble.failures() == []
        np.testing.assert_allclose(ensemble.event_times, [1.00963755469, 1.42784312293, 2.01927510938], rtol=1e-11)
        np.testing.assert_allclose(ensemble.event_values["v"], -np.sqrt(2 * G * HEIGHTS), rtol=1e-11)
        np.testing.assert_allclose(ensemble.event_values["x"], 0, atol=1e-12)
        x = np.asarray(ensemble.values["x"])
        before = STOPS[:, None] >= TIMES
        assert before.sum(1).tolist() == [2, 2, 3]
        np.testing.assert_array_equal(np.isfinite(x), before)
        exact = HEIGHTS[:, None] - G * TIMES**2 / 2
        np.testing.assert_allclose(x[before], exact[before], atol=1e-11)  # 20 m less 19.62 m
        np.testing.assert_allclose(ensemble.reached, STOPS, rtol=1e-11)

    @pytest.mark.parametrize("engine", ["lanes", "plain"])
    def test_single_precision_has_no_tolerance_that_is_too_tight(self, engine):
        ensemble = simulators.solve_ensemble(fall(), {"h": HEIGHTS}, precision="single", engine=engine)
        assert ensemble.stopped.all()
        np.testing.assert_allclose(ensemble.event_times, STOPS, rtol=1e-5)

    def test_one_member_alone(self):
        solution = fall().solve({"h": 10.0})
        assert solution.status.code == data.Status.event
        assert float(solution.event_time) == pytest.approx(STOPS[1], rel=1e-6)  # JAX's default is single precision

    @pytest.mark.parametrize("engine", ["lanes", "plain"])
    def test_members_that_do_not_stop_or_fail(self, engine):
        """A fall from 150 m takes 5.53 s, longer than the 5 s solved; a height that is NaN is not solved."""
        heights = np.array([5.0, 150.0, np.nan, 20.0])
        ensemble = simulators.solve_ensemble(fall(), {"h": heights}, engine=engine)
        assert [data.Status(code).name for code in ensemble.status] == ["event", "ok", "bad_parameter", "event"]
        assert np.isnan(ensemble.event_times[1:3]).all() and np.isnan(ensemble.event_values["v"][1:3]).all()
        assert np.isnan(ensemble.values["x"][2]).all()
        np.testing.assert_allclose(ensemble.values["x"][1], 150 - G * TIMES**2 / 2, rtol=1e-12)
        assert [entry["member"] for entry in ensemble.failures()] == [2]
        assert [entry["member"] for entry in ensemble.incomplete()] == [0, 2, 3]
        others = simulators.solve_ensemble(fall(), {"h": heights[[0, 3]]}, engine=engine)
        np.testing.assert_allclose(others.event_times, ensemble.event_times[[0, 3]], rtol=1e-12)

    def test_time_that_does_not_start_at_zero(self):
        ensemble = simulators.solve_ensemble(fall(times=1900 + TIMES), {"h": HEIGHTS})
        np.testing.assert_allclose(ensemble.event_times, 1900 + STOPS, rtol=1e-13)


class TestDirection:
    """sin t falls through 0 at π and rises at 2π; it starts at 0, which is no event."""

    @pytest.mark.parametrize("engine", ["lanes", "plain"])
    @pytest.mark.parametrize(("direction", "time"), [("either", np.pi), ("falling", np.pi), ("rising", 2 * np.pi)])
    def test_which_change_counts(self, engine, direction, time):
        simulator = simulators.ODESimulator(
            lambda t, y, p: p["w"] * jnp.stack([y[1], -y[0]]),
            lambda p: jnp.array([0.0, 1.0]),
            data.ParameterSpace(w=data.Uniform(0.5, 1.5)),
            np.linspace(0, 10, 11),
            ("sin", "cos"),
            event=simulators.Event(height, direction=direction),
            numerics=simulators.Numerics(solver=diffrax.Tsit5(), rtol=1e-9, atol=1e-12),
        )
        ensemble = simulators.solve_ensemble(simulator, {"w": np.ones(3)}, engine=engine)
        np.testing.assert_allclose(ensemble.event_times, time, rtol=1e-7)


class TestRecord:
    def test_the_refinement_check_compares_event_times(self):
        """y' = -k y reaches 1/2 at ln 2 / k; the check finds the error that a loose tolerance makes of it."""
        simulator = simulators.ODESimulator(
            lambda t, y, p: -p["k"] * y, lambda p: jnp.ones(1), data.ParameterSpace(k=data.Uniform(0.5, 2.0)),
            (0.0, 0.1, 5.0), ("y",), event=simulators.Event(lambda t, y, p: y[0] - 0.5),
            numerics=simulators.Numerics(solver=diffrax.Tsit5(), rtol=1e-4, atol=1e-6),
        )  # fmt: skip
        k = np.linspace(0.5, 2.0, 20)
        ensemble = simulators.solve_ensemble(simulator, {"k": k}, check=1.0)
        record = ensemble.metadata["refinement"]
        assert record["members"] == 20 and record["unresolved"] == []
        true = np.max(np.abs(ensemble.event_times - np.log(2) / k) / (np.log(2) / k))
        assert record["outputs"]["event_time"]["worst"] == pytest.approx(true, rel=0.1)

    def test_a_file_keeps_the_event(self, tmp_path):
        ensemble = simulators.solve_ensemble(fall(), {"h": HEIGHTS})
        data.save_ensemble(ensemble, tmp_path / "falls.h5")
        again = data.load_ensemble(tmp_path / "falls.h5")
        np.testing.assert_array_equal(again.event_times, ensemble.event_times)
        np.testing.assert_array_equal(again.event_values["v"], ensemble.event_values["v"])
        np.testing.assert_array_equal(again.values["x"], ensemble.values["x"])
        with xarray.open_dataset(tmp_path / "falls.h5", engine="h5netcdf") as dataset:
            assert dataset["event_time"].attrs["units"] == "s" and dataset["v_at_event"].dims == ("member",)
        with h5py.File(tmp_path / "falls.h5") as file:
            assert file["status"][:].tolist() == [int(data.Status.event)] * 3

    def test_an_event_is_physics_and_makes_the_fingerprint(self):
        assert simulators.fingerprint(fall()) != simulators.fingerprint(fall(event=None))


class TestGradient:
    def test_of_the_time_of_the_event(self):
        """d √(2h/g) / dh = 1 / √(2gh)."""
        with jax.enable_x64(True):
            slope = jax.grad(lambda h: fall().solve({"h": h}).event_time)(10.0)
        assert float(slope) == pytest.approx(1 / np.sqrt(2 * G * 10.0), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulators.Event("x"), r"event: expected a function g\(t, y, p\) that returns one number, got 'x'"),
        (lambda: simulators.Event(height, "up"), r"direction: expected one of either, rising, falling, got 'up'"),
        (lambda: fall(event=height), r"event: expected simulators.Event\(function\)"),
        (lambda: fall(simulators.Event(lambda t, y, p: y)).solve({"h": 1.0}), r"one real number .* got shape \(2,\)"),
        (lambda: fall(simulators.Event(lambda t, y, p: y[0] < 0)).solve({"h": 1.0}), r"of bool"),
    ],
)
def test_what_is_no_event(make, message):
    with pytest.raises(ValueError, match=message):
        make()
