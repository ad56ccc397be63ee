"""The Fourier neural operator: transforms, grids, symmetry, and learning a known operator."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data
from emulax.simulators import Burgers, solve_ensemble
from emulax.surrogates import FNO, Layout, fit
from emulax.surrogates._fno import SpectralConvolution, transforms

FIELD = data.GaussianRandomField()
SMALL = FNO(width=8, modes=5, depth=2)


def layout(parameters=None, outputs=None, times=(1.0,)):
    simulator = Burgers()
    return Layout(
        space=parameters or simulator.parameters,
        outputs=outputs or simulator.outputs,
        times=np.asarray(times),
        coordinates=simulator.coordinates,
    )


@pytest.fixture(scope="module")
def network():
    return SMALL.build(layout(), key=jax.random.key(0))


@pytest.mark.parametrize("points", [16, 32, 64, 128, 256])
def test_identity_weights_are_the_identity_on_every_grid(points):
    """sin(2 pi x) + 0.5 cos(6 pi x) through 12 modes (case M08 a); 16 points carry 9 modes."""
    with jax.enable_x64(True):
        layer = SpectralConvolution(1, 1, 12, key=jax.random.key(0))
        weight = jnp.stack([jnp.ones((12, 1, 1)), jnp.zeros((12, 1, 1))])
        layer = eqx.tree_at(lambda layer: layer.weight, layer, weight)
        x = np.arange(points) / points
        u = np.sin(2 * np.pi * x) + 0.5 * np.cos(6 * np.pi * x)
        np.testing.assert_allclose(layer(jnp.asarray(u)[:, None])[:, 0], u, atol=1e-12)


@pytest.mark.parametrize(("points", "modes"), [(16, 12), (15, 12), (64, 12), (2, 3), (1, 3)])
def test_transforms_are_numpys(points, modes):
    u = np.random.default_rng(0).standard_normal((points, 3))
    expected = np.fft.rfft(u, axis=0, norm="forward")[:modes]
    with jax.enable_x64(True):
        forward, backward = transforms(points, modes, jnp.float64)
        real, imaginary = np.split(np.asarray(forward @ u), 2)
        np.testing.assert_allclose(real + 1j * imaginary, expected, atol=1e-14)
        restored = np.fft.irfft(expected, points, axis=0, norm="forward") if points > 1 else u
        np.testing.assert_allclose(backward @ (forward @ u), restored, atol=1e-13)


def test_a_convolution_with_a_known_kernel():
    """The heat kernel multiplies mode k by exp(-nu k²); a shift by s multiplies it by exp(-iks)."""
    points, modes, shift = 64, 10, 8
    with jax.enable_x64(True):
        k = 2 * np.pi * np.arange(modes)
        symbol = np.exp(-0.001 * k**2 - 1j * k * shift / points)
        layer = SpectralConvolution(1, 1, modes, key=jax.random.key(0))
        weight = jnp.asarray(np.stack([symbol.real, symbol.imag])[..., None, None])
        layer = eqx.tree_at(lambda layer: layer.weight, layer, weight)
        x = np.arange(points) / points
        u, decay = np.cos(2 * np.pi * 3 * x), np.exp(-0.001 * (6 * np.pi) ** 2)
        np.testing.assert_allclose(layer(jnp.asarray(u)[:, None])[:, 0], decay * np.roll(u, shift), atol=1e-13)


def test_shapes_and_count_of_weights(network):
    assert network({"u0": jnp.ones(256)}).shape == (1, 1, 256)
    counts = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_array)))
    block = 8 * 8 + 8 + 2 * 5 * 8 * 8
    assert counts == (8 + 8) + 2 * block + (8 * 16 + 16) + (16 + 1)


def test_shifting_and_refining_the_input(network):
    u = FIELD.draw(0, np.arange(1), points=512)[0].astype(np.float32)
    answer = network({"u0": jnp.asarray(u)})[0, 0]
    shifted = network({"u0": jnp.roll(jnp.asarray(u), 37)})[0, 0]
    np.testing.assert_allclose(shifted, jnp.roll(answer, 37), atol=1e-5)
    coarse = network({"u0": jnp.asarray(u[::2])})[0, 0]
    np.testing.assert_allclose(coarse, answer[::2], atol=1e-4)
    assert network({"u0": jnp.asarray(u[::64])}).shape == (1, 1, 8)


def test_trained_on_64_points_it_answers_at_512():
    """Smooth fields (nu = 0.1 up to time 0.2): the error against the truth is the same on all grids."""
    field = data.GaussianRandomField(points=64, modes=16)
    simulator = Burgers(data.ParameterSpace(u0=field), nu=0.1, times=(0.2,), points=64, solve_points=64)
    design = data.sample(simulator.parameters, 96, method="random", seed=0)
    ensemble = solve_ensemble(simulator, design, devices=1)
    surrogate = fit(FNO(width=16, modes=8, depth=2), ensemble, steps=300, batch_size=8, augment="reflection")
    fine = field.draw(1, np.arange(16), points=512)
    truth = np.asarray(solve_ensemble(simulator.replace(points=512), {"u0": fine}, devices=1).values["u"])
    errors = []
    for every in (8, 2, 1):
        answers = jax.vmap(lambda u: surrogate.predict({"u0": u})["u"])(jnp.asarray(fine[:, ::every], jnp.float32))
        exact = truth[..., ::every]
        errors.append(np.linalg.norm(answers - exact, axis=-1) / np.linalg.norm(exact, axis=-1))
    assert np.mean(errors[0]) < 0.05
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.02)
    np.testing.assert_allclose(errors[2], errors[0], rtol=0.02)


def test_several_fields_scalars_outputs_and_times():
    space = data.ParameterSpace(nu=data.LogUniform(0.01, 0.1), a=FIELD, b=FIELD)
    outputs = {"u": data.Output(dims=("x",)), "v": data.Output(dims=("x",))}
    network = SMALL.build(layout(space, outputs, times=(0.5, 1.0, 1.5)), key=jax.random.key(0))
    inputs = {"nu": jnp.asarray(0.3), "a": jnp.ones(32), "b": jnp.zeros(32)}
    answer = network(inputs)
    assert answer.shape == (3, 2, 32)
    np.testing.assert_allclose(answer, answer[..., :1] * np.ones(32), atol=1e-6)  # constant in, constant out
    for name in inputs:
        assert not np.allclose(answer, network(inputs | {name: inputs[name] + 1.0}))
    with pytest.raises(ValueError, match=r"expected the fields of one member on one grid"):
        network(inputs | {"b": jnp.zeros(16)})


def test_batches_and_double_input_keep_single_weights(network):
    batch = jnp.asarray(FIELD.draw(0, np.arange(3), points=256), jnp.float32)
    together = jax.vmap(lambda u: network({"u0": u}))(batch)
    np.testing.assert_allclose(together[1], network({"u0": batch[1]}), atol=1e-5)
    with jax.enable_x64(True):
        assert network({"u0": jnp.ones(16, jnp.float64)}).dtype == jnp.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": data.ParameterSpace(a=data.Uniform(0, 1))}, r"expected at least one field .* shape none"),
        (
            {"outputs": {"u": data.Output(dims=("x",)), "s": data.Output()}},
            r"on the same space dimensions, got u on \(x\), s on \(\)",
        ),
        ({"outputs": {"s": data.Output()}}, r"outputs of shape \(\); use MLP otherwise"),
    ],
)
def test_layouts_that_are_not_fields_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        SMALL.build(layout(**changes), key=jax.random.key(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, r"width: expected a whole number, at least 1; got 0"),
        ({"modes": 0}, r"modes: expected a whole number, at least 1; got 0"),
        ({"activation": "wobble"}, r"activation: expected a function of jax.nn such as 'silu', got 'wobble'"),
    ],
)
def test_sizes_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        FNO(**settings)


def test_settings_pass_through_json():
    settings = SMALL.to_json()
    assert settings == {"name": "FNO", "width": 8, "modes": 5, "depth": 2, "activation": "gelu"}
    assert FNO.from_settings({k: v for k, v in settings.items() if k != "name"}) == SMALL
