"""The refinement check: what it says of the error is the error, and nobody's values depend on it.

References are closed forms, and for stiff systems the published end points of `../validation/stiff_endpoints.py`.
"""

import math
import warnings

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import SYSTEMS

from emulax import data, simulators

RATES = data.ParameterSpace(k=data.LogUniform(0.1, 10.0))


def decays(rate=RATES, times=(0.0, 0.5, 1.0), **options) -> simulators.ODESimulator:
    """y' = -k y, y(0) = 1."""
    return simulators.ODESimulator(
        lambda t, y, p: -p["k"] * y, lambda p: jnp.ones(1), rate, times, ("y",), name="decay", **options
    )


def design(members: int) -> dict[str, np.ndarray]:
    return {"k": np.geomspace(0.1, 10.0, members)}


def worst(ensemble: data.Ensemble, output: str = "y") -> float:
    return ensemble.metadata["refinement"]["outputs"][output]["worst"]


class TestSample:
    @pytest.mark.parametrize(
        ("members", "share", "expected"),
        [(1, 0.01, 1), (5, 0.01, 5), (100, 0.01, 8), (5000, 0.01, 50), (100, 0.5, 50), (100, 0, 0), (7, 1, 7)],
    )
    def test_a_share_and_at_least_eight(self, members, share, expected):
        record = simulators.solve_ensemble(decays(), design(members), check=share).metadata["refinement"]
        assert (0 if record is None else record["members"]) == expected

    @pytest.mark.parametrize("share", [-0.1, 1.5, True, "all"])
    def test_what_is_no_share(self, share):
        with pytest.raises(ValueError, match="check: expected a share of the members from 0 to 1"):
            simulators.solve_ensemble(decays(), design(3), check=share)

    def test_one_sample_whatever_devices_batches_and_engine(self):
        numerics = simulators.Numerics(solver=diffrax.Tsit5(), rtol=1e-4, atol=1e-7)
        ways = ({"devices": 1}, {"devices": 4}, {"devices": 2, "batch_size": 7}, {"engine": "plain"})
        records = [
            simulators.solve_ensemble(decays(numerics=numerics), design(50), **way).metadata["refinement"]
            for way in ways
        ]
        for record in records:
            assert record["outputs"]["y"]["member"] == records[0]["outputs"]["y"]["member"]
            assert record["outputs"]["y"]["worst"] == pytest.approx(records[0]["outputs"]["y"]["worst"], rel=1e-6)


class TestTheErrorStatedIsTheError:
    @pytest.mark.parametrize("engine", ["lanes", "plain"])
    @pytest.mark.parametrize("solver", [diffrax.Tsit5(), diffrax.Bosh3(), simulators.Rodas5P(), diffrax.Kvaerno3()])
    def test_decay(self, solver, engine):
        members = design(12)
        ensemble = simulators.solve_ensemble(
            decays(), members, solver=solver, rtol=1e-4, atol=1e-9, check=1, engine=engine
        )
        exact = np.exp(-members["k"][:, None] * ensemble.times)
        error = np.abs(ensemble.values["y"] / exact - 1).max()
        assert worst(ensemble) == pytest.approx(error, rel=0.05)

    def test_in_single_precision_rounding_counts(self):
        members = design(12)
        ensemble = simulators.solve_ensemble(
            decays(), members, rtol=1e-4, atol=1e-9, check=1, precision="single", solver=diffrax.Tsit5()
        )
        rates = members["k"].astype(np.float32).astype(np.float64)
        error = np.abs(ensemble.values["y"] / np.exp(-rates[:, None] * ensemble.times) - 1).max()
        assert worst(ensemble) == pytest.approx(error, rel=0.2)
        assert ensemble.metadata["refinement"]["precision"] == "double"

    @pytest.mark.parametrize("tau", [1.0, 1e-9, 1e-11])
    def test_euler_on_any_time_scale(self, tau):
        """1000 steps: (1 - 1/1000)^1000 on any time scale; with 2000 the check sees (1 - 1/2000)^2000."""
        rate = data.ParameterSpace(k=data.Uniform(0.5 / tau, 2 / tau))
        simulator = decays(rate, (0.0, tau), numerics=simulators.Numerics(solver=diffrax.Euler(), step=tau / 1000))
        ensemble = simulators.solve_ensemble(simulator, {"k": np.array([1 / tau])})
        assert ensemble.values["y"][0, -1] == pytest.approx(0.367695424771, rel=1e-11)
        assert worst(ensemble) == pytest.approx(1 - 0.999**1000 / 0.9995**2000, rel=1e-8)

    def test_fixed_steps_of_runge_kutta(self):
        members = design(9)
        simulator = simulators.FixedStep(decays(), substeps=2)
        with pytest.warns(simulators.AccuracyWarning, match="Shorten the step"):
            ensemble = simulators.solve_ensemble(simulator, members, check=1)

        def factor(z):
            return 1 - z + z**2 / 2 - z**3 / 6 + z**4 / 24

        coarse, fine = factor(members["k"] / 4) ** 4, factor(members["k"] / 8) ** 8
        assert worst(ensemble) == pytest.approx(np.max(np.abs(coarse / fine - 1)), rel=1e-8)

    def test_a_changing_sign_is_measured_against_the_largest_value(self):
        """x = cos t by Euler: amplitude (1 + h²)^(n/2), phase n atan h."""
        oscillator = simulators.ODESimulator(
            lambda t, y, p: p["w"] * jnp.stack([-y[1], y[0]]),
            lambda p: jnp.array([1.0, 0.0]),
            data.ParameterSpace(w=data.Uniform(0.5, 2)),
            (0.0, math.pi / 2, math.pi * 5 / 4),
            ("x", "y"),
            numerics=simulators.Numerics(solver=diffrax.Euler(), step=math.pi / 2000),
        )
        ensemble = simulators.solve_ensemble(oscillator, {"w": np.ones(1)})

        def x(steps, over):
            h = math.pi / steps
            taken = round(over * steps)
            return (1 + h * h) ** (taken / 2) * math.cos(taken * math.atan(h))

        def change(over):
            return abs(x(2000, over) - x(4000, over))  # the largest value is x(0) = 1

        # at π/2, where x passes through 0, a change relative to x itself would be of order 1
        assert abs(x(2000, 0.5) / x(4000, 0.5) - 1) > 0.5
        assert worst(ensemble, "x") == pytest.approx(max(change(0.5), change(1.25)), rel=1e-6)


class TestWarning:
    def test_an_absolute_tolerance_that_hides_an_error(self):
        """Robertson to t = 1e11: success, and 0.2 % off in what is smaller than atol."""
        robertson = SYSTEMS["robertson"].simulator.replace(times=np.array([0.0, 1e11]))
        rates = {name: value[:1] for name, value in SYSTEMS["robertson"].design(1).items()}
        with pytest.warns(simulators.AccuracyWarning, match=r"y2 by 0\.00.*atol well below them \(it is 1e-08\)"):
            ensemble = simulators.solve_ensemble(
                robertson, rates, solver=diffrax.Kvaerno5(), rtol=1e-6, atol=1e-8, max_steps=100_000
            )
        reference = np.array([0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050])
        for name, exact in zip(("y1", "y2", "y3"), reference, strict=True):
            error = abs(ensemble.values[name][0, -1] / exact - 1)
            assert worst(ensemble, name) == pytest.approx(error, rel=0.1, abs=1e-9)

    def test_an_output_below_the_absolute_tolerance(self):
        """log x of x' = -100 x from 10^-k: exactly -100 t - k log 10, while x itself ends at the tolerance's floor."""
        simulator = simulators.ODESimulator(
            lambda t, y, p: -100 * y,
            lambda p: 10 ** -p["k"],
            data.ParameterSpace(k=data.Uniform(0, 12)),
            (0.0, 1.0),
            ("log_x",),
            observe=lambda t, y, p: {"log_x": jnp.log(jnp.abs(y))},
        )
        with pytest.warns(simulators.AccuracyWarning, match="log_x by"):
            ensemble = simulators.solve_ensemble(
                simulator, {"k": np.arange(13.0)}, solver=diffrax.Tsit5(), rtol=1e-6, atol=1e-8
            )
        exact = -100 - np.arange(13) * math.log(10)
        assert (np.abs(ensemble.values["log_x"][:, -1] / exact - 1) > 0.5).all()

    def test_unstable_fixed_steps(self):
        """Euler with h k = 2.5 grows by 1.5 a step where the solution decays; with half the step it decays."""
        simulator = decays(numerics=simulators.Numerics(solver=diffrax.Euler(), step=0.25))
        with pytest.warns(simulators.AccuracyWarning, match="Shorten the step, or give rtol and atol"):
            ensemble = simulators.solve_ensemble(simulator, {"k": np.full(9, 10.0)})
        assert ensemble.ok.all()
        assert ensemble.values["y"][0, -1] == pytest.approx(1.5**4)

    def test_silent_where_the_promise_is_kept(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ensemble = simulators.solve_ensemble(decays(), design(20))
        assert 0 < worst(ensemble) < ensemble.metadata["refinement"]["allowed"] == 1e-3

    def test_single_precision_of_a_stiff_system(self):
        """Robertson, t = 100, Kvaerno5 in single precision: y1 = 0.65 in place of 0.6172 is never a result."""
        robertson = SYSTEMS["robertson"].simulator.replace(times=np.array([0.0, 100.0]))
        rates = {name: value[:1] for name, value in SYSTEMS["robertson"].design(1).items()}
        stated = {"rtol": 1e-5, "atol": 1e-8, "precision": "single"}
        named = simulators.solve_ensemble(robertson, rates, solver=diffrax.Kvaerno5(), **stated)
        assert not named.ok.any() and np.isnan(named.values["y1"]).all()
        left_to_us = simulators.solve_ensemble(robertson, rates, **stated)
        reference = np.array([0.6172348823961, 6.153591274639e-6, 0.3827589640126])
        last = np.array([left_to_us.values[name][0, -1] for name in ("y1", "y2", "y3")])
        np.testing.assert_allclose(last, reference, rtol=3e-3)


class TestNobodyIsAffected:
    @pytest.mark.parametrize("way", [{"devices": 1}, {"devices": 3}, {"batch_size": 11}, {"engine": "plain"}])
    def test_values_to_the_bit(self, way):
        alone = simulators.solve_ensemble(decays(), design(40), check=0, **way)
        checked = simulators.solve_ensemble(decays(), design(40), check=0.5, **way)
        np.testing.assert_array_equal(checked.values["y"], alone.values["y"])
        np.testing.assert_array_equal(checked.steps, alone.steps)
        assert len(checked) == 40 and checked.values["y"].shape == (40, 3)

    def test_members_that_fail_are_not_compared(self):
        members = design(20) | {}
        members["k"][[3, 11]] = np.nan
        ensemble = simulators.solve_ensemble(decays(), members, check=1)
        record = ensemble.metadata["refinement"]
        assert record["members"] == 18 and record["unresolved"] == []
        assert np.isfinite(worst(ensemble))

    def test_a_copy_that_fails_is_named(self):
        """A pole at t = 1/8, which steps of 1/4 do not meet and those of 1/8 do."""
        simulator = simulators.ODESimulator(
            lambda t, y, p: jnp.where((t == 0.125) & (p["k"] > 1), jnp.nan, -p["k"] * y),
            lambda p: jnp.ones(1),
            RATES,
            (0.0, 1.0),
            ("y",),
            numerics=simulators.Numerics(solver=diffrax.Euler(), step=0.25),
        )
        ensemble = simulators.solve_ensemble(simulator, {"k": np.array([0.1, 1.2, 0.2, 1.5])}, check=1)
        record = ensemble.metadata["refinement"]
        assert ensemble.ok.all() and record["members"] == 2 and record["unresolved"] == [1, 3]

    def test_record_is_stored_and_shown(self, tmp_path):
        ensemble = simulators.solve_ensemble(decays(), design(20))
        data.save_ensemble(ensemble, tmp_path / "e.h5")
        loaded = data.load_ensemble(tmp_path / "e.h5")
        assert loaded.metadata["refinement"] == ensemble.metadata["refinement"]
        assert f"error    {worst(ensemble):.2g} (y), worst of 8 members solved again" in repr(loaded)

    def test_simulators_that_state_no_numerics(self):
        class Line:
            """y = k t, by formula."""

            name, outputs, coordinates = "line", {"y": data.Output()}, {}
            parameters, times = RATES, np.array([0.0, 1.0])

            def solve(self, params, ts=None, *, key=None):
                times = jnp.asarray(self.times)
                return data.finish(times, {"y": params["k"] * times}, data.Status.ok)

        assert simulators.solve_ensemble(Line(), design(9)).metadata["refinement"] is None
