"""The lane engine: it does what `diffrax.diffeqsolve` does, member by member, whatever its neighbours.

References are plain `diffeqsolve` called here, published end points (`systems.py`) and closed forms.
"""

import functools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from diffrax._step_size_controller.pid import _select_initial_step
from systems import SYSTEMS, System

from emulax import data, simulators

solve = functools.partial(simulators.solve_ensemble, engine="lanes")

# the solver that each system is driven with where nothing else is said
STOCK = {
    "decay": diffrax.Tsit5(),
    "lotka_volterra": diffrax.Tsit5(),
    "brusselator": diffrax.Dopri5(),
    "forced_oscillator": diffrax.Bosh3(),
    "kepler": diffrax.Tsit5(),
    "lorenz": diffrax.Tsit5(),
    "van_der_pol": diffrax.Dopri5(),
    "arenstorf": diffrax.Dopri8(),
    "pleiades": diffrax.Dopri8(),
    "robertson": simulators.Rodas5P(),
    "orego": simulators.Rodas5P(),
    "van_der_pol_stiff": simulators.Rodas5P(),
    "hires": simulators.Rodas5P(),
    "pollution": simulators.Rodas5P(),
}
MEMBERS = 5

# Error estimates that are mostly rounding: of order 8, or after a linear solve whose operations come in another order.
# `diffeqsolve` itself takes other steps there if its first one is moved by 1e-12 of its length.
ROUNDED = (diffrax.Dopri8, simulators.Rodas5P)


def plain(system: System, solver, design) -> tuple[np.ndarray, np.ndarray]:
    """Values `(member, time, component)` and steps of one `diffeqsolve` for each member: no code of emulax in it."""
    simulator = system.simulator
    with jax.enable_x64(True):
        controller = diffrax.PIDController(rtol=system.rtol, atol=system.atol)
        saved = jnp.asarray(simulator.times)

        @jax.jit
        @jax.vmap
        def one(p):
            y0 = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), simulator.initial_state(p))
            term, save = diffrax.ODETerm(simulator.vector_field), diffrax.SaveAt(ts=saved)
            # left out, dt0 is 0.01 in diffrax 0.7.2: it does not know the term again that it has wrapped
            first = _select_initial_step(
                term, saved[0], y0, p, solver.func, solver.error_order(term), system.rtol, system.atol, controller.norm
            )
            return diffrax.diffeqsolve(
                term, solver, saved[0], saved[-1], first, y0, p, saveat=save, stepsize_controller=controller,
                max_steps=system.steps, throw=False,
            )  # fmt: skip

        solution = one({name: jnp.asarray(value) for name, value in design.items()})
        leaves = [leaf[..., None] if leaf.ndim == 2 else leaf for leaf in jax.tree.leaves(solution.ys)]
        return np.asarray(jnp.concatenate(leaves, axis=-1)), np.asarray(solution.stats["num_steps"])


def by_lanes(system: System, solver, design, **options) -> data.Ensemble:
    numerics = {"solver": solver, "rtol": system.rtol, "atol": system.atol, "max_steps": system.steps}
    return solve(system.simulator, design, **({"devices": 1} | numerics | options))


def stacked(ensemble: data.Ensemble) -> np.ndarray:
    """Values `(member, time, component)`, components in the order of the outputs."""
    return np.stack([ensemble.values[name] for name in ensemble.outputs], axis=-1)


SLOW_TO_COMPILE = ("pleiades", "orego", "hires", "pollution")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW_TO_COMPILE else ()) for name in STOCK],
)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def lanes(name):
    return by_lanes(SYSTEMS[name], STOCK[name], SYSTEMS[name].design(MEMBERS))


class TestAgreementWithDiffeqsolve:
    def test_equal_steps_and_values(self, name, lanes):
        values, steps = plain(SYSTEMS[name], STOCK[name], SYSTEMS[name].design(MEMBERS))
        assert lanes.ok.all() and lanes.metadata["solvers"] == {type(STOCK[name]).__name__: MEMBERS}
        size = np.abs(values).max(axis=(0, 1))
        allowed = SYSTEMS[name].rtol * SYSTEMS[name].loss
        if isinstance(STOCK[name], ROUNDED):
            assert (np.abs(lanes.steps - steps) <= 0.01 * steps).all()
        else:
            assert lanes.steps.tolist() == steps.tolist()
            # the error estimate is a small difference: its rounding moves step ends, and with them values, a little
            allowed *= 1e-5
        np.testing.assert_allclose(stacked(lanes) / size, values / size, rtol=0, atol=allowed)

    def test_published_end_point(self, name, lanes):
        system = SYSTEMS[name]
        assert system.excess(system.state(lanes.values)[0]).max() < 1


class TestEndPointsBySolverAuto:
    """Nobody says which method suits: explicit, stiff, small, 28 unknowns."""

    @pytest.mark.parametrize(
        "which",
        ["robertson", "van_der_pol_stiff"] + [pytest.param(which, marks=pytest.mark.slow) for which in SLOW_TO_COMPILE],
    )
    def test_published_end_point(self, which):
        system = SYSTEMS[which]
        ensemble = by_lanes(system, "auto", system.design(2))
        assert ensemble.ok.all()
        assert system.excess(system.state(ensemble.values)[0]).max() < 1

    @pytest.mark.slow
    def test_ring_modulator(self):
        # a trial step overflows its exponentials: the member must survive it
        system = SYSTEMS["ring_modulator"]
        ensemble = by_lanes(system, simulators.Rodas5P(), system.design(1))
        assert ensemble.ok.all()
        assert system.excess(system.state(ensemble.values)[0]).max() < 1


STIFFER = {"mu": [1.0, 10.0, 100.0, 1000.0]}
STIFFER_ENDS = [  # Radau at 1e-12
    [2.00814976217, -0.0425088752732],
    [1.93935853278, -0.0700815057358],
    [1.85823449009, -0.00757501675529],
    [1.98659191716, -6.74209925308e-4],
]


class TestRetry:
    """Van der Pol to t = 20 within 4096 steps: Tsit5 does not reach it at mu = 1000."""

    def solve(self, solver, design=STIFFER):
        simulator = simulators.VanDerPol(times=np.arange(0.0, 21.0, 4.0))
        return solve(simulator, design, solver=solver, rtol=1e-6, atol=1e-9, max_steps=4096, devices=1)

    def test_a_member_out_of_steps_is_nan_and_leaves_the_others_alone(self):
        ensemble = self.solve(diffrax.Tsit5())
        assert [(f["member"], f["status"]) for f in ensemble.failures()] == [(3, "max_steps")]
        system = System(simulators.VanDerPol(times=np.arange(0.0, 21.0, 4.0)), {}, np.zeros(2), 1e-6, 1e-9, steps=4096)
        assert ensemble.steps.tolist() == plain(system, diffrax.Tsit5(), STIFFER)[1].tolist()
        assert ensemble.steps[3] == 4096
        assert np.isnan(stacked(ensemble)[3]).all()
        np.testing.assert_allclose(stacked(ensemble)[:3, -1], STIFFER_ENDS[:3], rtol=2e-4)
        easy = self.solve(diffrax.Tsit5(), {"mu": [1.0, 10.0, 100.0, 1.0]})
        np.testing.assert_array_equal(stacked(easy)[:3], stacked(ensemble)[:3])

    def test_auto_solves_it_with_a_stiff_method_and_records_which(self):
        ensemble = self.solve("auto")
        assert ensemble.ok.all()
        retried = ensemble.metadata["retried"]["Rodas5P"]
        assert 3 in retried and 0 not in retried  # those between are a matter of cost
        assert ensemble.metadata["solvers"] == {"Tsit5": 4 - len(retried), "Rodas5P": len(retried)}
        np.testing.assert_allclose(stacked(ensemble)[:, -1], STIFFER_ENDS, rtol=2e-4)


def decaying(numerics=None, times=(0.0, 1.0), start=lambda p: jnp.ones(1)):
    """y' = -k y."""
    return simulators.ODESimulator(
        vector_field=lambda t, y, p: jax.tree.map(lambda leaf: -p["k"] * leaf, y),
        initial_state=start,
        parameters=data.ParameterSpace(k=data.LogUniform(1e-2, 1e12)),
        times=np.asarray(times),
        outputs=("y",),
        numerics=numerics or simulators.Numerics(solver=diffrax.Tsit5(), rtol=1e-8, atol=1e-10),
    )


class TestTimes:
    def test_a_late_origin_costs_no_digits_in_single_precision(self):
        ensemble = solve(decaying(times=(1e6, 1e6 + 1)), {"k": [1.0]}, rtol=1e-5, atol=1e-8, precision="single")
        assert ensemble.values["y"][0, -1] == pytest.approx(0.367879441171, rel=1e-5)

    @pytest.mark.parametrize("tau", [1.0, 1e-9, 1e-11])
    def test_a_thousand_fixed_steps_on_any_time_scale(self, tau):
        euler = simulators.Numerics(solver=diffrax.Euler(), step=tau / 1000, max_steps=1000)
        ensemble = solve(decaying(euler, times=(0.0, tau)), {"k": [1 / tau]}, devices=1)
        assert ensemble.ok.all() and ensemble.steps.tolist() == [1000]
        assert ensemble.values["y"][0, -1] == pytest.approx(0.367695424771, rel=1e-11)

    def test_more_saves_than_steps_cost_no_step(self):
        many = decaying(times=np.linspace(0.0, 2.0, 1000))
        few, many = (solve(simulator, {"k": [0.3, 1.0]}, devices=1) for simulator in (decaying(times=(0.0, 2.0)), many))
        assert many.steps.tolist() == few.steps.tolist() and max(many.steps) < 25
        np.testing.assert_allclose(many.values["y"][:, -1], few.values["y"][:, -1], rtol=1e-14)
        np.testing.assert_allclose(many.values["y"], np.exp(-np.outer([0.3, 1.0], many.times)), rtol=2e-8)

    @pytest.mark.parametrize("times", [[0.0], [0.0, 0.0], [2.0], [0.5, 0.5, 1.0, 1.0], [0.0, 1e-12, 1.0]])
    def test_degenerate_times(self, times):
        ensemble = solve(decaying(), {"k": [1.0, 0.5]}, times=times, devices=1)
        assert ensemble.ok.all() and ensemble.values["y"].shape == (2, len(times))
        np.testing.assert_allclose(ensemble.values["y"], np.exp(-np.outer([1.0, 0.5], times)), rtol=1e-8)

    @pytest.mark.parametrize("times", [[0.5, -1.0], [], [1.0, 0.5], [np.nan]])
    def test_times_that_cannot_be_meant(self, times):
        with pytest.raises(ValueError, match="ts: expected"):
            solve(decaying(), {"k": [1.0]}, times=times)


@pytest.mark.parametrize("start", [1, (1, 1.0), {"a": {"b": 1}, "c": [1.0]}], ids=["int", "tuple", "nested"])
@pytest.mark.parametrize("solver", [diffrax.Tsit5(), simulators.Rodas5P()], ids=["Tsit5", "Rodas5P"])
def test_a_state_may_be_any_pytree_of_numbers(start, solver):
    names = ("y", "z")[: len(jax.tree.leaves(start))]
    simulator = decaying(start=lambda p: start).replace(outputs={name: data.Output() for name in names})
    ensemble = solve(simulator, {"k": [1.0]}, solver=solver, devices=1)
    for name in names:
        assert ensemble.values[name][0, -1] == pytest.approx(np.exp(-1), rel=1e-7)
        assert ensemble.values[name].dtype == np.float64


UNEVEN = {"mu": np.random.default_rng(0).permutation(np.geomspace(0.1, 30.0, 300))}


OSCILLATOR = simulators.VanDerPol(times=np.linspace(0.0, 10.0, 7))


def uneven(design=UNEVEN, **options):
    return solve(OSCILLATOR, design, **({"solver": diffrax.Tsit5(), "devices": 1} | options))


@pytest.fixture(scope="module")
def one_device():
    return uneven()


def assert_same(found, expected):
    assert found.ok.all() and found.steps.tolist() == expected.steps.tolist()
    np.testing.assert_allclose(stacked(found), stacked(expected), rtol=1e-11, atol=1e-12)


class TestLayouts:
    """Members of very different cost, more of them than lanes: the answer is the member's own."""

    def test_steps_are_those_of_diffeqsolve(self, one_device):
        system = System(OSCILLATOR, {}, np.zeros(2), rtol=1e-6, atol=1e-9)
        values, steps = plain(system, diffrax.Tsit5(), UNEVEN)
        assert one_device.steps.tolist() == steps.tolist() and max(steps) > 4 * min(steps)
        np.testing.assert_allclose(stacked(one_device), values, rtol=0, atol=1e-9)  # roundings in step ends

    @pytest.mark.parametrize("devices", [2, 4])
    def test_devices(self, one_device, devices):
        assert_same(uneven(devices=devices), one_device)

    @pytest.mark.parametrize("batch_size", [64, 299])
    def test_batches(self, one_device, batch_size):
        assert_same(uneven(batch_size=batch_size), one_device)

    def test_order(self, one_device):
        backwards = uneven({"mu": UNEVEN["mu"][::-1]})
        assert backwards.steps.tolist() == one_device.steps.tolist()[::-1]
        np.testing.assert_allclose(stacked(backwards)[::-1], stacked(one_device), rtol=1e-11, atol=1e-12)

    def test_running_again_gives_the_same_bits(self, one_device):
        np.testing.assert_array_equal(stacked(uneven()), stacked(one_device))


class TestMemberCounts:
    @pytest.mark.parametrize("members", [1, 2, 3, 4, 5, 7, 8, 9, 10])
    def test_every_count_returns_its_rows_in_order_on_four_devices(self, members):
        k = np.linspace(0.1, 1.0, 10)[:members]
        ensemble = solve(decaying(times=(0.0, 2.0)), {"k": k}, devices=4)
        assert len(ensemble) == members and ensemble.values["y"].shape == (members, 2)
        assert ensemble.steps.tolist() == [4, 6, 8, 10, 11, 13, 15, 17, 18, 20][:members]
        np.testing.assert_allclose(ensemble.values["y"][:, -1], np.exp(-2 * k), rtol=0, atol=5e-10)

    def test_no_member_is_refused(self):
        with pytest.raises(ValueError, match="at least 1 member, got 0"):
            solve(decaying(), {"k": []}, devices=4)

    def test_lanes_vmap_pmap_and_one_by_one_agree(self):
        simulator, k = decaying(times=(0.0, 2.0)), np.linspace(0.1, 1.0, 10)
        one = jax.jit(lambda rate: simulator.solve({"k": rate}))
        with jax.enable_x64(True):
            alone = [one(jnp.asarray(rate)) for rate in k]
        expected = np.stack([solution.values["y"] for solution in alone])
        assert [int(solution.steps) for solution in alone] == [4, 6, 8, 10, 11, 13, 15, 17, 18, 20]
        ways = {("plain", 1): 1e-15, ("plain", 4): 1e-15, ("lanes", 1): 1e-11, ("lanes", 4): 1e-11}
        for (engine, devices), difference in ways.items():
            ensemble = solve(simulator, {"k": k}, engine=engine, devices=devices)
            assert ensemble.steps.tolist() == [4, 6, 8, 10, 11, 13, 15, 17, 18, 20]
            np.testing.assert_allclose(ensemble.values["y"], expected, rtol=0, atol=difference)


KINDS = {
    "good": lambda t, y, k: -k * y,
    "infinite in finite time": lambda t, y, k: y * y,
    "NaN from a time on": lambda t, y, k: jnp.where(t > 1, jnp.nan, -y),
    "NaN below a state": lambda t, y, k: jnp.where(y < 0.5, jnp.nan, -y),
    "NaN at once": lambda t, y, k: jnp.nan * y,
    "chattering": lambda t, y, k: -jnp.sign(y - 0.5),
    "singular in time": lambda t, y, k: jnp.ones_like(y) / (1 - t),
    "overflowing": lambda t, y, k: 1e308 * jnp.ones_like(y),
}


TROUBLED = simulators.ODESimulator(
    vector_field=lambda t, y, p: jnp.select(
        [p["kind"] == i for i in range(len(KINDS))], [f(t, y, p["k"]) for f in KINDS.values()]
    ),
    initial_state=lambda p: jnp.ones(1),
    parameters=data.ParameterSpace(kind=data.Uniform(0.0, 10.0), k=data.Uniform(0.0, 10.0)),
    times=np.linspace(0.0, 2.0, 9),
    outputs=("y",),
)
MIXED = np.array([value for kind in range(1, len(KINDS)) for value in (0, kind, 0)], float)
GOOD = MIXED == 0
RATES = np.linspace(0.1, 3.0, len(MIXED))


def solve_kinds(kinds, k=RATES, **options):
    settings = {"solver": diffrax.Tsit5(), "max_steps": 1000, "devices": 1}
    return solve(TROUBLED, {"kind": kinds, "k": k}, **(settings | options))


@pytest.fixture(scope="module")
def troubled():
    return solve_kinds(MIXED)


@pytest.fixture(scope="module")
def clean():
    return solve_kinds(np.zeros_like(MIXED))


class TestTrouble:
    """One member in three does not end, each in its own way; the members between must not notice."""

    def test_troubled_members_are_nan_with_a_reason_within_the_step_limit(self, troubled):
        assert troubled.ok.tolist() == GOOD.tolist()
        assert np.isnan(troubled.values["y"][~GOOD]).all()
        assert max(troubled.steps) <= 1000
        reasons = {failure["status"] for failure in troubled.failures()}
        assert reasons <= {"max_steps", "non_finite", "solver_failed"}

    def test_good_members_are_those_of_an_ensemble_without_trouble_bit_for_bit(self, troubled, clean):
        assert clean.ok.all()
        np.testing.assert_allclose(clean.values["y"][:, -1], np.exp(-2 * RATES), rtol=1e-4)
        np.testing.assert_array_equal(troubled.values["y"][GOOD], clean.values["y"][GOOD])
        np.testing.assert_array_equal(troubled.steps[GOOD], clean.steps[GOOD])

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_a_parameter_that_is_not_finite(self, value, clean):
        ensemble = solve_kinds(np.zeros_like(MIXED), k=np.where(GOOD, RATES, value))
        assert (ensemble.status[~GOOD] == data.Status.bad_parameter).all()
        np.testing.assert_array_equal(ensemble.values["y"][GOOD], clean.values["y"][GOOD])
        assert np.isnan(ensemble.values["y"][~GOOD]).all()

    def test_every_member_in_trouble(self):
        ensemble = solve_kinds(np.repeat(np.arange(1.0, len(KINDS)), 3))
        assert not ensemble.ok.any() and np.isnan(ensemble.values["y"]).all()

    def test_no_method_saves_them(self):
        ensemble = solve_kinds(MIXED, solver="auto")
        assert ensemble.ok.tolist() == GOOD.tolist() and np.isnan(ensemble.values["y"][~GOOD]).all()
        np.testing.assert_allclose(ensemble.values["y"][GOOD, -1], np.exp(-2 * RATES[GOOD]), rtol=1e-4)


class TestSinglePrecision:
    @pytest.mark.parametrize("which", ["decay", "lotka_volterra", "van_der_pol"])
    def test_end_points(self, which):
        system = SYSTEMS[which]
        ensemble = by_lanes(system, diffrax.Tsit5(), system.design(3), precision="single", rtol=1e-5, atol=1e-6)
        assert ensemble.ok.all() and stacked(ensemble).dtype == np.float32
        np.testing.assert_allclose(system.state(ensemble.values)[0], system.end, rtol=1e-3)

    def test_robertson_is_right_or_marked_failed(self):
        # plain single precision returns 0.6485 at t = 100, a plausible number
        simulator = simulators.Robertson(times=np.array([0.0, 100.0]))
        published = {"k1": [0.04], "k2": [3e7], "k3": [1e4]}
        ensemble = solve(simulator, published, precision="single", rtol=1e-5, atol=1e-8, devices=1)
        end = stacked(ensemble)[0, -1]
        if ensemble.ok[0]:
            np.testing.assert_allclose(end, [0.6172348823961, 6.153591274639e-6, 0.3827589640126], rtol=1e-3)
        else:
            assert np.isnan(end).all()
