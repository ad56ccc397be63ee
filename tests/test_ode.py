"""One member of an ODE simulator: degenerate requests, gradients, the built-in systems; against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators


def decay(initial_state, times=(0.0, 1.0), field=lambda t, y, p: jax.tree.map(lambda x: -p["k"] * x, y), **options):
    return simulators.ODESimulator(
        field, initial_state, data.ParameterSpace(k=data.Uniform(0.1, 2.0)), times, **({"outputs": ("y",)} | options)
    )


def test_one_time_returns_the_initial_state():
    solution = decay(lambda p: jnp.ones(1), times=[0.0]).solve({"k": 1.0})
    assert solution.values["y"].tolist() == [1.0] and str(solution.status) == "ok"


@pytest.mark.parametrize("y0", [1, 1.0, (1,)])
def test_an_initial_state_may_be_any_number(y0):
    solution = decay(lambda p: y0).solve({"k": 1})
    assert solution.values["y"][-1] == pytest.approx(np.exp(-1), rel=1e-5)


def test_a_tuple_state_with_an_implicit_solver():
    import diffrax

    numerics = simulators.Numerics(solver=diffrax.Kvaerno5(), rtol=1e-6, atol=1e-8)
    simulator = decay(lambda p: (1.0, 1.0), outputs=("a", "b"), numerics=numerics)
    with jax.enable_x64(True):
        values = simulator.solve({"k": jnp.asarray(1.0)}).values
    assert values["a"][-1] == pytest.approx(np.exp(-1), rel=1e-5) and values["b"].shape == (2,)


def test_repeated_times_keep_their_places():
    values = decay(lambda p: jnp.ones(1)).solve({"k": 1.0}, ts=[0.0, 1.0, 1.0, 2.0]).values["y"]
    np.testing.assert_allclose(values, np.exp([0.0, -1.0, -1.0, -2.0]), rtol=1e-5)


@pytest.mark.parametrize("ts", [[1.0, 0.5], [], [np.nan], [[0.0]], [-0.5, 1.0]])
def test_times_that_cannot_be_meant_are_refused(ts):
    with pytest.raises(ValueError, match="ts: expected"):
        decay(lambda p: jnp.ones(1)).solve({"k": 1.0}, ts=ts)


def test_outputs_must_match_the_state():
    with pytest.raises(ValueError, match="each of the 2 components of the state, got 1"):
        decay(lambda p: jnp.ones(2)).solve({"k": 1.0})
    with pytest.raises(ValueError, match="rename k"):
        decay(lambda p: jnp.ones(1), outputs=("k",))


def test_gradient_jit_and_vmap():
    model = simulators.Decay()

    def last(k):
        return model.solve({"k": k, "y0": 1.0}, ts=[0.0, 2.0]).values["y"][-1]

    with jax.enable_x64(True):
        k = jnp.asarray(0.5)
        assert jax.jit(jax.grad(last))(k) == pytest.approx(-2 * np.exp(-1), rel=1e-5)
        np.testing.assert_allclose(jax.vmap(last)(jnp.array([0.1, 0.9])), np.exp([-0.2, -1.8]), rtol=1e-5)


def test_lotka_volterra_end_point_and_invariant():
    # alpha 1.5, beta 1, gamma 3, delta 1 from (1, 1): y(10) by scipy at 1e-12; u - 3 ln u + v - 1.5 ln v = 2
    space = {name: data.Uniform(0.1, 5.0) for name in simulators.LotkaVolterra().parameters}
    model = simulators.LotkaVolterra(data.ParameterSpace(**space), times=np.linspace(0.0, 10.0, 11))
    ensemble = simulators.solve_ensemble(
        model, {"alpha": [1.5], "beta": [1.0], "gamma": [3.0], "delta": [1.0], "u0": [1.0], "v0": [1.0]}, rtol=1e-10
    )
    hare, lynx = (np.asarray(ensemble.values[name][0]) for name in ("hare", "lynx"))
    np.testing.assert_allclose([hare[-1], lynx[-1]], [1.02634476758, 0.909691078136], rtol=1e-7)
    np.testing.assert_allclose(hare - 3 * np.log(hare) + lynx - 1.5 * np.log(lynx), 2.0, rtol=1e-7)


def test_the_lynx_hare_box_covers_the_posterior_by_four_standard_deviations():
    posterior = {
        "alpha": (0.546864, 0.0631), "beta": (0.0277473, 0.00415), "gamma": (0.800095, 0.0894),
        "delta": (0.0240859, 0.00353), "u0": (34.0352, 2.917), "v0": (5.93590, 0.531),
    }  # fmt: skip
    for name, (mean, std) in posterior.items():
        lower, upper = simulators.LotkaVolterra().parameters[name].bounds
        assert 0 < lower <= mean - 4 * std and upper >= mean + 4 * std


@pytest.mark.parametrize("name", simulators.REGISTRY)
def test_every_registered_simulator_solves_a_design(name):
    simulator = simulators.REGISTRY[name]()
    ensemble = simulators.solve_ensemble(simulator, data.sample(simulator.parameters, 2))
    assert ensemble.ok.all() and set(ensemble.values) == set(simulator.outputs)


class TestFingerprint:
    def test_meaning_counts_and_layout_does_not(self, tmp_path):
        def load(text):
            import importlib.util
            import uuid

            path = tmp_path / f"m{uuid.uuid4().hex}.py"
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return simulators.fingerprint(module.model)

        text = """
import jax.numpy as jnp
from emulax import data, simulators
RATE = 2.0
def scaled(x):
    return RATE * x
def field(t, y, p):
    return -scaled(p["k"]) * y
model = simulators.ODESimulator(
    field, lambda p: jnp.ones(1), data.ParameterSpace(k=data.Uniform(0.1, 1.0)), [0.0, 1.0], ("y",))
"""
        base = load(text)
        assert base == load(
            text.replace("    return -scaled", '    "A docstring."\n    # a comment\n    return -scaled')
        )
        assert base == load(text.replace("0.1, 1.0", "0.1, 2.0")) == load("\n\n" + text)
        changed = [
            ("-scaled", "scaled"),
            ("RATE = 2.0", "RATE = 3.0"),
            ("RATE * x", "RATE + x"),
            ("ones(1)", "zeros(1)"),
        ]
        others = [load(text.replace(*change)) for change in changed]
        assert base not in others and len(set(others)) == len(others)

    def test_two_lambdas_on_one_line_differ(self):
        one, two = (lambda t, y, p: -y), (lambda t, y, p: -2 * y)
        assert not simulators.same_function(one, two) and simulators.same_function(one, one)
