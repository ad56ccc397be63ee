"""What the error numbers mean: cases M01, M05 and M06, coverage with published intervals, break-even (U03)."""

import jax
import numpy as np
import pytest

from emulax import surrogates
from emulax.pipelines import _metrics as metrics
from emulax.pipelines._coverage import clopper_pearson, coverage, estimate_worth
from emulax.pipelines._timing import break_even
from emulax.pipelines._words import number, percent, seconds


def test_given_frames_are_left_out():
    # M05a: 20 frames, the first 10 given, relative error 0.1 on the rest; counting them would say 0.0707
    truth = np.ones((3, 20))
    prediction = np.where(np.arange(20) < 10, 1.0, 1.1) * truth
    np.testing.assert_allclose(metrics.relative_l2(prediction[:, 10:], truth[:, 10:]), 0.1)
    np.testing.assert_allclose(metrics.relative_l2(prediction, truth), 0.0707, atol=1e-4)


def test_per_sample_and_global_errors_differ_and_are_defined():
    # M05b
    truth, prediction = np.array([[1, 1], [1e-6, 1e-6]]), np.array([[1, 1], [2e-6, 2e-6]])
    assert metrics.mean_relative(prediction, truth) == pytest.approx(0.5)
    assert metrics.global_relative(prediction, truth) == pytest.approx(1.0e-6, rel=1e-9)
    assert {"mean relative error", "global relative error", "nRMSE"} <= set(metrics.DEFINITIONS)


def test_rmse_is_divided_by_the_mean_truth():
    # M05c
    truth, prediction = np.array([[5.0, 30, 50, 60, 45]]), np.array([[3.0, 44, 57, 57, 35.5]])
    assert metrics.rmse(prediction, truth) == pytest.approx(8.34565756)
    assert metrics.nrmse(prediction, truth) == pytest.approx(0.21962257)
    assert metrics.nrmse(np.zeros((1, 2)), np.array([[-1.0, 1.0]])) is None


def test_a_score_scaled_by_the_variance_of_a_constant_is_undefined():
    # M01: never 3162.28 = 1 / sqrt(1e-7)
    assert metrics.vrmse(np.full((5, 3), 2.0), np.ones((5, 3))) is None
    noise = np.full((1000, 1), 0.1, np.float32)
    assert metrics.vrmse(noise + np.float32(1), noise) is None
    assert number(metrics.vrmse(noise, noise)) == "undefined"
    ramp = np.arange(5.0)[:, None]
    assert metrics.vrmse(np.full_like(ramp, 2.0), ramp) == pytest.approx(1.0)  # the best constant
    assert metrics.vrmse(ramp + np.sqrt(2), ramp) == pytest.approx(1.0)  # standard deviation 1.41421356


def test_growth_of_a_rollout():
    # M06: the learned step multiplies by 1.001 where the true one multiplies by 1
    steps = np.arange(1, 1001)
    truth = np.ones((4, 1000, 3))
    prediction = 1.001 ** steps[None, :, None] * truth
    found = metrics.time_errors(prediction, truth, steps, threshold=0.1)
    assert found["relative"]["median"][0] == pytest.approx(0.001)
    assert found["relative"]["worst"][-1] == pytest.approx(1.71692393)
    assert found["first_above"] == {"median": 96.0, "p95": 96.0, "worst": 96.0}


def test_blow_ups_are_counted_and_not_averaged_away():
    truth = np.ones((5, 4))
    prediction = truth * 1.1
    prediction[3, 2:] = np.nan
    found = metrics.summary(metrics.relative_l2(prediction, truth), members=np.array([10, 11, 12, 17, 20]))
    assert found["blow_ups"] == 1 and found["worst"] == np.inf and found["worst_member"] == 17
    assert found["median"] == pytest.approx(0.1) and found["p95"] == np.inf
    assert metrics.rmse(prediction, truth) == pytest.approx(0.1)
    assert metrics.mean_relative(prediction, truth) == pytest.approx(0.1)
    in_time = metrics.time_errors(prediction, truth, np.arange(4.0), 0.5)
    assert in_time["first_above"] == {"median": None, "p95": 2.0, "worst": 2.0}
    assert metrics.mean_relative(prediction * np.nan, truth) is None


def test_quantiles_are_numpys_where_all_is_finite():
    values = np.array([3.0, 1.0, 2.0, 10.0])
    assert metrics.quantile(values, 0.5) == 2.5 and metrics.quantile(values, 0.95) == pytest.approx(8.95)
    assert metrics.quantile(np.array([1.0, 2.0, np.inf]), 0.5) == 2.0
    assert metrics.quantile(np.full(4, np.inf), 0.5) == np.inf


def test_member_error_is_the_surrogates_own():
    rng = np.random.default_rng(0)
    truth = {"a": rng.normal(size=(6, 5)), "b": rng.normal(size=(6, 5, 4))}
    prediction = {name: value + 0.1 * rng.normal(size=value.shape) for name, value in truth.items()}
    truth["a"][0] = prediction["a"][0] = 0
    with jax.enable_x64(True):
        theirs = np.asarray(surrogates.member_error(prediction, truth))
    np.testing.assert_allclose(metrics.member_error(prediction, truth), theirs, rtol=1e-12)


def test_errors_in_time_compose_to_the_member_error():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(3, 7))
    scaled = metrics.scaled_per_time(truth + 0.1, truth)
    np.testing.assert_allclose(np.sqrt(np.mean(scaled**2, axis=1)), metrics.relative_l2(truth + 0.1, truth))
    np.testing.assert_allclose(metrics.relative_l2_per_time(1.2 * truth, truth), 0.2)
    assert not metrics.comes_near_zero(truth)
    truth[0, 0] = 1e-4
    assert metrics.comes_near_zero(truth) and not metrics.comes_near_zero(truth[:, :, None])
    found = metrics.time_errors(truth + 0.1, truth, np.arange(7.0), 1.0, scaled=True)
    assert found["relative"]["worst"][0] > 100 and found["first_above"]["worst"] != 0.0


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # exact 95% limits: 1 - 0.025^(1/10) with all or none of 10; and scipy's binomtest for 8 of 10
    [(0, 10, 0.0, 0.3084971), (10, 10, 0.6915029, 1.0), (8, 10, 0.4439045, 0.9747893)],
)
def test_clopper_pearson(successes, trials, low, high):
    from scipy.stats import binomtest

    assert clopper_pearson(successes, trials) == pytest.approx((low, high), abs=1e-6)
    interval = binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert clopper_pearson(successes, trials) == pytest.approx((interval.low, interval.high), abs=1e-9)


def test_coverage_counts_what_is_inside():
    truth = {"y": np.zeros((10, 2))}
    prediction = {"y": np.linspace(0.1, 1.0, 10)[:, None] * np.ones(2)}
    width = {"y": np.full((10, 2), 0.55)}
    found = coverage(prediction, width, truth, level=0.9)
    assert found["overall"]["share"] == 0.5 and found["outputs"]["y"]["share"] == 0.5
    assert found["curve"]["y"][found["multiples"].index(2.0)] == 1.0
    prediction["y"][0] = np.nan
    assert coverage(prediction, width, truth, level=0.9)["overall"]["share"] == 0.4
    width["y"][:] = np.inf
    wide = coverage(prediction, width, truth, level=0.9)
    assert wide["overall"]["share"] == 0.9 and wide["half_width"] == {"y": None}


def test_worth_of_the_estimate():
    errors = np.array([0.1, 0.2, 0.4, np.inf])
    found = estimate_worth(errors / 2, errors)
    assert found == {"members": 3, "rank_correlation": pytest.approx(1.0), "ratio_median": 2.0, "ratio_p95": 2.0}
    assert estimate_worth(np.full(4, 0.1), errors)["rank_correlation"] is None


def test_break_even():
    # U03: (1000 * 2 + 600) / (2 - 0.002) = 1301.3
    assert break_even(1000 * 2.0, 600.0, 2.0, 0.002) == 1302
    assert break_even(1000 * 2.0, 600.0, 0.002, 2.0) is None


def test_numbers_as_people_read_them():
    assert [number(v) for v in (0.0, 1234.5, 0.012345, 1.5e-7, 2.5e9)] == ["0", "1,234", "0.0123", "1.50e-7", "2.50e9"]
    assert [percent(v) for v in (0.00123, 1.0, np.inf, None)] == ["0.123%", "100%", "not finite", "not finite"]
    assert [seconds(v) for v in (2.0, 0.0123, 4.5e-6)] == ["2.00\xa0s", "12.3\xa0ms", "4.50\xa0µs"]
