"""The stated error: the quantile, its coverage, the estimate for one member, and who takes part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from formula import Formula, exponential, members

from emulax import data, simulators, surrogates
from emulax.surrogates._calibration import half_width
from emulax.surrogates._error_model import fit_error_model


def ranked(n):
    """Scores 1, ..., n of n members at one time, shuffled."""
    return np.random.default_rng(0).permutation(np.arange(1.0, n + 1)).reshape(n, 1, 1)


@pytest.mark.parametrize(("n", "k"), [(9, 9), (19, 18), (20, 19), (99, 90), (100, 91), (512, 462)])
def test_the_half_width_is_the_finite_sample_quantile(n, k):
    # k = ceil((n + 1) 0.9)
    assert half_width(ranked(n), 0.9)[0] == k


def test_too_few_members_state_an_infinite_error():
    assert half_width(ranked(8), 0.9)[0] == np.inf
    assert half_width(ranked(3), 0.5)[0] == 2


def test_a_residual_that_is_no_number_lies_outside():
    scores = ranked(19)
    scores[scores == 1] = np.nan
    assert half_width(scores, 0.9)[0] == 19


def test_the_band_covers_new_residuals_as_often_as_it_says():
    # coverage of a new member is ceil((n + 1) level) / (n + 1) on average, whatever the distribution
    random = np.random.default_rng(1)
    for n, level in ((30, 0.9), (50, 0.8)):
        expected = np.ceil((n + 1) * level) / (n + 1)
        residuals = np.abs(random.standard_t(3, size=(n, 4000, 1)))
        fresh = np.abs(random.standard_t(3, size=(4000, 200)))
        coverage = np.mean(fresh <= half_width(residuals, level)[:, None])
        assert abs(coverage - expected) < 0.004 and expected >= level


def test_the_band_of_a_field_covers_points_of_new_members_that_are_alike_within_a_member():
    random = np.random.default_rng(2)

    def fields(shape):
        # one size per member: the points of a member are far from independent
        return np.abs(random.lognormal(size=(*shape, 1)) * random.normal(size=(*shape, 16)))

    coverage = np.mean(fields((2000, 50)) <= half_width(fields((40, 2000)), 0.9)[:, None, None])
    assert 0.9 <= coverage < 0.93


def calibration(references, errors, half):
    model, residuals = fit_error_model(np.asarray(references), np.asarray(errors))
    return surrogates.Calibration(
        half_width={"y": np.array([0.1])},
        reference_features=np.asarray(references),
        reference_errors=np.asarray(errors),
        error_model=model, residuals=residuals,
        scores=np.zeros(0), errors=np.zeros(0), farthest=half, level=0.9, given=0, members=len(errors), failed=0,
    )  # fmt: skip


def test_the_bound_finds_a_log_quadratic_error():
    random = np.random.default_rng(3)
    features = random.uniform(-1, 1, size=(4000, 2))
    exact = np.exp(-3 + features[:, 0] + 2 * features[:, 0] * features[:, 1] - features[:, 1] ** 2)
    found = calibration(features, exact * random.lognormal(0.0, 0.1, size=4000), 1.0)
    estimates = [float(found.bound(jnp.array(where))) for where in ([0.0, 0.0], [0.5, -0.5], [1.0, 1.0])]
    np.testing.assert_allclose(estimates, np.exp([-3.0, -3.0 + 0.5 - 0.5 - 0.25, -1.0]), rtol=0.1)


def test_the_bound_of_degenerate_errors_is_what_can_be_said():
    where = np.array([[0.0], [0.5], [1.0]])
    assert calibration(where, np.zeros(3), 1.0).bound(jnp.array([0.3])) == 0
    assert calibration(where[:0], np.zeros(0), 1.0).bound(jnp.array([0.3])) == np.inf
    np.testing.assert_allclose(calibration(where, np.full(3, 0.2), 1.0).bound(jnp.array([0.3])), 0.2, rtol=1e-5)
    np.testing.assert_allclose(calibration(where, [0.2, np.nan, 0.2], 1.0).bound(jnp.array([0.3])), 0.2, rtol=1e-5)


def test_the_domain_reaches_half_again_as_far_as_members_lie_apart():
    two = calibration([[0.0, 0.0], [1.0, 0.0]], [1.0, 1.0], 0.4)
    assert two.reaches(jnp.array([0.0, 0.59])) and not two.reaches(jnp.array([0.0, 0.61]))


@pytest.fixture(scope="module")
def trained():
    return surrogates.fit(surrogates.MLP(16, 2), members(exponential(), 400, method="sobol"), steps=1500)


def test_a_tenth_of_the_members_is_kept_back(trained):
    found = trained.calibration
    assert trained.provenance["members"] == {
        "total": 400, "train": 320, "validation": 40, "calibration": 40, "failed": 0,
    }  # fmt: skip
    assert found.members == 40 and found.level == 0.9
    assert found.reference_features.shape == (20, 1) and found.reference_errors.shape == (20,)
    assert found.scores.shape == found.errors.shape == (20,)


def test_the_two_halves_say_what_the_surrogate_does(trained):
    fresh = members(exponential(), 300, seed=5)
    found = surrogates.calibrate(trained, fresh)
    kept = found.calibration
    assert kept.members == 300 and len(kept.errors) == 150
    # every calibration member's error, computed apart, belongs to one half
    k = fresh.design["k"]
    with jax.enable_x64(True):
        predicted = np.asarray(jax.vmap(lambda k: trained.solve({"k": k}).values["y"])(jnp.asarray(k)))
    exact = np.exp(-k[:, None] * [1.0, 2.0])
    errors = np.linalg.norm(predicted - exact, axis=1) / np.linalg.norm(exact, axis=1)
    together = np.sort(np.concatenate([kept.reference_errors, kept.errors]))
    # single precision weights: sums in another order differ by 1e-7
    np.testing.assert_allclose(together, np.sort(errors), atol=5e-7)
    residuals = np.sort(np.abs(predicted - exact), axis=0)
    np.testing.assert_allclose(kept.half_width["y"], residuals[int(np.ceil(301 * 0.9)) - 1], atol=5e-7)


def test_the_band_of_a_trained_surrogate_covers_nine_of_ten_held_out_values(trained):
    calibrated = surrogates.calibrate(trained, members(exponential(), 500, seed=6))
    test = members(exponential(), 2000, seed=7)
    answers = simulators.solve_ensemble(calibrated, test.design)
    predicted, truth, error, bound = (
        np.asarray(part)[:2000]
        for part in (answers.values["y"], test.values["y"], answers.solution.error["y"], answers.solution.bound)
    )
    inside = np.abs(predicted - truth) <= error
    # standard deviation of the coverage given 500 calibration members: 0.013
    assert np.all(np.abs(np.mean(inside, axis=0) - 0.9) < 0.04)
    with jax.enable_x64(True):
        true = np.asarray(surrogates.member_error({"y": jnp.asarray(predicted)}, {"y": jnp.asarray(truth)}))
    # the estimate ranks members by their error
    assert np.corrcoef(np.argsort(np.argsort(true)), np.argsort(np.argsort(bound)))[0, 1] > 0.95


def test_a_calibration_ensemble_is_used_for_nothing_else_and_its_failed_members_are_left_out():
    failing = Formula(
        lambda p, t: {"y": jnp.where(p["k"] > 0.9, jnp.nan, jnp.exp(-p["k"] * t))},
        exponential().parameters,
        np.array([1.0, 2.0]),
        ("y",),
    )
    ensemble, apart = members(failing, 100, method="sobol"), members(failing, 100, seed=1)
    surrogate = surrogates.fit(surrogates.MLP(8, 1), ensemble, steps=20, calibration=apart)
    failed = int(np.sum(apart.design["k"] > 0.9))
    assert failed > 0 and surrogate.calibration.failed == failed and surrogate.calibration.members == 100 - failed
    assert surrogate.provenance["members"]["calibration"] == 0
    assert np.all(np.isfinite(surrogate.calibration.errors))


def test_members_of_another_simulator_or_at_other_times_are_refused(trained):
    other = Formula(
        lambda p, t: {"y": jnp.exp(-p["k"] * t) + 1}, exponential().parameters, np.array([1.0, 2.0]), ("y",)
    )
    with pytest.raises(ValueError, match="of the simulator that the surrogate was trained on"):
        surrogates.calibrate(trained, members(other, 20))
    late = members(exponential(), 20, times=np.array([1.0, 3.0]))
    with pytest.raises(ValueError, match=r"with the times \[1\.0, 2\.0\], got \[1\.0, 3\.0\]"):
        surrogates.calibrate(trained, late)
    with pytest.raises(ValueError, match="level: expected a coverage above 0 and below 1"):
        surrogates.calibrate(trained, members(exponential(), 20), level=1.0)


def test_what_cannot_calibrate_is_refused(trained):
    ensemble = members(exponential(), 20)
    for arguments, options, message in (
        (("a", ensemble), {}, "surrogate: expected a surrogate such as surrogates.fit returns, got 'a'"),
        ((trained, "b"), {}, "ensemble: expected an ensemble such as"),
        ((trained, ensemble), {"level": "high"}, "level: expected a coverage above 0 and below 1, got 'high'"),
        ((trained, ensemble), {"seed": -1}, "seed: expected a whole number, at least 0; got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            surrogates.calibrate(*arguments, **options)


def test_a_field_that_is_known_to_be_exact_has_a_band_of_nothing():
    x = np.arange(8) / 8
    zero = Formula(
        lambda p, t: {"u": jnp.zeros((1, 8)) * p["a"]},
        data.ParameterSpace(a=data.Uniform(0.0, 1.0)),
        np.array([1.0]),
        {"u": data.Output(dims=("x",))},
        {"x": x},
    )
    with pytest.warns(UserWarning, match="'u' is constant over the training members at all times"):
        surrogate = surrogates.fit(surrogates.MLP(8, 1), members(zero, 100), steps=5)
    solution = surrogate.solve({"a": 0.5})
    assert np.all(solution.values["u"] == 0) and np.all(solution.error["u"] == 0) and solution.bound == 0
