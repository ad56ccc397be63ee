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
    "no rows of numbers": (
        lambda: data.as_design(SPACE, {key: ["a"] for key in SPACE}),
        "'k': expected an array of numbers",
    ),
    "complex": (
        lambda: data.as_design(SPACE, {key: [1j] for key in SPACE}),
        r"'k': expected an array of numbers, got \[1j\]",
    ),
    "array": (
        lambda: data.as_design(SPACE, np.ones((4, 4))),
        r"design: expected a mapping .* got ndarray of shape \(4, 4",
    ),
    "one member": (lambda: data.as_design(SPACE, dict.fromkeys(SPACE, 1.0)), r"expected shape \(members\), got \(\)"),
    "a simulator": (lambda: data.sample(object(), 4), "space: expected a parameter space .* got object object"),
    "half a member": (lambda: data.sample(SPACE, 1.5), "members: expected a whole number, at least 1; got 1.5"),
    "no seed": (lambda: data.sample(SPACE, 4, seed=None), "seed: expected a whole number, at least 0; got None"),
    "bounds": (lambda: data.Uniform("a", 1.0), "lower: expected a number, got 'a'"),
    "missing bound": (lambda: data.Normal(None, 1.0), "mean: expected a number, got None"),
    "unit": (lambda: data.Uniform(0.0, 1.0, unit=3), 'unit: expected a text such as "1/s", got 3'),
    "points": (lambda: data.GaussianRandomField(points=64.5), "points: expected a whole number, at least 1; got 64.5"),
    "text": (lambda: SPACE.read(dict.fromkeys(SPACE, "a")), "parameter 'k': expected a real number .* got 'a'"),
    "none": (lambda: SPACE.read(dict.fromkeys(SPACE, None)), "parameter 'k': expected a real number .* got None"),
    "complex value": (lambda: SPACE.read(dict.fromkeys(SPACE, 1j)), "parameter 'k': expected a real number .* got 1j"),
    "no mapping": (lambda: SPACE.read(0.5), "a mapping with the parameters k, y0, a, b; got 0.5"),
    "class": (lambda: SPACE.read(dict), "a mapping with the parameters k, y0, a, b; got the class dict"),
    "subset": (lambda: data.subset({"k": np.ones(2)}, np.ones(2, bool)), "design: expected a design"),
    "units as texts": (lambda: data.as_outputs({"y": "m"}), r'expected data.Output\(unit="m"\), got \'m\''),
    "no outputs": (lambda: data.as_outputs(3), "outputs: expected names, .* got 3"),
    "one output twice": (lambda: data.as_outputs(("y", "x", "y")), "different names, got 'y' twice"),
    "letters as dimensions": (lambda: data.Output(dims="xy"), r"dims: expected a tuple of names .* got 'xy'"),
    "field modes": (lambda: data.GaussianRandomField(points=64, modes=40), "modes < points / 2 = 32"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_numbers_of_every_library_are_numbers():
    import json

    import jax.numpy as jnp

    space = data.ParameterSpace(k=data.Uniform(np.float32(0.5), jnp.asarray(1.0)), n=data.Uniform(0, 4))
    assert json.loads(json.dumps(space.to_json()))[0]["lower"] == 0.5
    assert data.sample(space, np.int64(3), seed=np.int32(1)).members == 3
    read = space.read({"k": np.float64(0.5), "n": True})
    assert float(read["k"]) == 0.5 and float(read["n"]) == 1.0
