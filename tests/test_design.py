"""Parameter spaces and designs, against closed forms and scipy."""

import numpy as np
import pytest
import scipy.stats

from emulax import data

SPACE = data.ParameterSpace(
    k=data.Uniform(0.1, 1.0, unit="1/s"),
    y0=data.LogUniform(0.5, 2.0),
    a=data.Normal(1.0, 0.5, lower=0.0),
    b=data.LogNormal(0.3, 0.2),
)

QUANTILES = {
    "uniform": (data.Uniform(-1.0, 3.0), scipy.stats.uniform(-1.0, 4.0)),
    "log_uniform": (data.LogUniform(0.1, 50.0), scipy.stats.loguniform(0.1, 50.0)),
    "normal": (data.Normal(2.0, 0.5), scipy.stats.norm(2.0, 0.5)),
    "truncated": (data.Normal(1.0, 0.5, lower=0.0), scipy.stats.truncnorm(-2.0, np.inf, 1.0, 0.5)),
    "log_normal": (data.LogNormal(0.3, 0.2), scipy.stats.lognorm(0.2, scale=np.exp(0.3))),
}


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_are_those_of_scipy(name):
    ours, theirs = QUANTILES[name]
    probability = np.linspace(0.001, 0.999, 101)
    np.testing.assert_allclose(ours.quantile(probability), theirs.ppf(probability), rtol=1e-9)


@pytest.mark.parametrize("method", ["sobol", "latin_hypercube", "halton", "random"])
def test_every_method_fills_the_space_evenly(method):
    design = data.sample(SPACE, 1024, method=method, seed=3)
    assert list(design) == ["k", "y0", "a", "b"]
    assert design["k"].shape == (1024,) and design["k"].dtype == np.float64
    # the mean of a uniform variable on [0.1, 1] is 0.55, its standard error with 1024 random points 0.0081
    assert abs(design["k"].mean() - 0.55) < 0.03
    assert design["y0"].min() >= 0.5 and design["y0"].max() <= 2.0 and design["a"].min() >= 0.0


@pytest.mark.parametrize("method", ["sobol", "halton", "random"])
def test_first_members_of_a_larger_design_are_those_of_a_smaller_one(method):
    small, large = (data.sample(SPACE, n, method=method, seed=0) for n in (100, 200))
    np.testing.assert_array_equal(large["k"][:100], small["k"])


def test_sobol_points_are_those_of_scipy():
    expected = scipy.stats.qmc.Sobol(4, rng=np.random.default_rng(7)).random_base2(5)
    np.testing.assert_allclose(data.sample(SPACE, 32, seed=7)["k"], 0.1 + 0.9 * expected[:, 0], rtol=1e-14)


def test_seed_decides_the_design():
    one, same, other = (data.sample(SPACE, 16, method="random", seed=seed)["k"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.any(one == other)


def test_a_space_survives_json():
    import json

    space = data.ParameterSpace(**SPACE, u0=data.GaussianRandomField(points=64, modes=20))
    assert data.ParameterSpace.from_json(json.loads(json.dumps(space.to_json()))) == space


def test_random_field_has_the_published_variance():
    # sum over j of 2 sigma_j^2 with sigma_j^2 = 625 / ((2 pi j)^2 + 25)^2, on the unit interval
    field = data.GaussianRandomField()
    expected = sum(2 * 625 / ((2 * np.pi * j) ** 2 + 25) ** 2 for j in range(1, 65))
    values = field.draw(0, np.arange(4000))
    assert values.shape == (4000, 256)
    np.testing.assert_allclose(values.mean(axis=1), 0.0, atol=1e-13)
    assert values.var() == pytest.approx(expected, rel=0.04)


def test_a_random_field_depends_on_seed_and_index_alone_and_not_on_the_grid():
    field = data.GaussianRandomField()
    whole = field.draw(5, np.arange(10))
    np.testing.assert_array_equal(field.draw(5, np.array([7])), whole[7:8])
    np.testing.assert_allclose(field.draw(5, np.arange(10), points=512)[:, ::2], whole, atol=1e-12)


BAD = {
    "no members": (lambda: data.sample(SPACE, 0), "at least 1; got 0"),
    "method": (lambda: data.sample(SPACE, 4, method="sobel"), "sobol, latin_hypercube, halton, random; got 'sobel'"),
    "seed": (lambda: data.sample(SPACE, 4, seed=-1), "at least 0; got -1"),
    "order": (lambda: data.Uniform(1.0, 0.0), "lower < upper, got lower=1.0, upper=0.0; swap them"),
    "log": (lambda: data.LogUniform(0.0, 1.0), "lower > 0, got lower=0.0"),
    "std": (lambda: data.Normal(0.0, -1.0), "std > 0"),
    "not a distribution": (lambda: data.ParameterSpace(k=1.0), "'k': expected a distribution"),
    "empty": (lambda: data.ParameterSpace(), "at least one parameter"),
    "missing": (lambda: SPACE.read({"k": 0.5}), "missing y0, a, b"),
    "unknown": (lambda: SPACE.read(dict.fromkeys(SPACE, 1.0) | {"z": 1.0}), "unknown z"),
    "shape": (lambda: SPACE.read(dict.fromkeys(SPACE, 1.0) | {"k": [1.0, 2.0]}), "'k': expected shape \\(\\)"),
    "lengths": (
        lambda: data.as_design(SPACE, {name: [1.0] for name in SPACE} | {"k": [1.0, 2.0]}),
        "one length, got k: 2, y0: 1",
    ),
    "no rows": (lambda: data.as_design(SPACE, {name: [] for name in SPACE}), "at least 1 member, got 0"),
    "field modes": (lambda: data.GaussianRandomField(points=64, modes=40), "modes < points / 2 = 32"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()
