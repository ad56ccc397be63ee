"""The guard: who answers, with what promise, through every transformation; against exponential decay."""

import dataclasses

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from emulax import data, pipelines, simulators, surrogates
from emulax.pipelines import _guard
from emulax.pipelines._guard import acceptance_threshold


def vector_field(t, y, p):
    return -p["k"] * y


DECAY = simulators.ODESimulator(
    vector_field,
    lambda p: jnp.stack([p["y0"]]),
    data.ParameterSpace(k=data.Uniform(0.1, 1.0), y0=data.LogUniform(0.5, 2.0)),
    np.linspace(0.0, 2.0, 11),
    outputs=("y",),
)
INSIDE, OUTSIDE = {"k": 0.5, "y0": 1.0}, {"k": 5.0, "y0": 1.0}


@pytest.fixture(scope="module")
def surrogate():
    ensemble = simulators.solve_ensemble(DECAY, data.sample(DECAY.parameters, 512))
    return surrogates.fit(surrogates.MLP(width=32, depth=2), ensemble, seed=0, steps=3000)


@pytest.fixture(scope="module")
def fast(surrogate):
    return pipelines.guard(DECAY, surrogate, tolerance=2e-2, risk=0.1)


def exact(p):
    return p["y0"] * np.exp(-p["k"] * DECAY.times)


def test_the_surrogate_answers_inside_and_the_solver_outside(fast):
    inside, outside = fast.solve(INSIDE), fast.solve(OUTSIDE)
    assert (str(inside.source), str(outside.source)) == ("surrogate", "solver")
    np.testing.assert_allclose(inside.values["y"], exact(INSIDE), rtol=5e-2)
    np.testing.assert_allclose(outside.values["y"], exact(OUTSIDE), atol=1e-5)
    assert jax.tree.structure(inside) == jax.tree.structure(outside)
    assert np.isnan(outside.bound) and inside.bound < 2e-2


def test_jit_vmap_and_grad_say_what_plain_calls_say(fast):
    def last(k):
        return fast.solve({"k": k, "y0": 1.0}).values["y"][-1]

    rates = jnp.array([0.2, 0.5, 5.0])
    plain = jnp.stack([last(k) for k in rates])
    np.testing.assert_allclose(jax.jit(jax.vmap(last))(rates), plain, rtol=1e-5)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(last))(rates), jnp.stack([jax.grad(last)(k) for k in rates]), rtol=1e-4
    )
    assert jax.jit(jax.grad(last))(5.0) == pytest.approx(-2 * np.exp(-10), rel=1e-3)
    assert jax.jit(jax.grad(last))(0.5) == pytest.approx(-2 * np.exp(-1), rel=0.1)
    source = jax.jit(jax.vmap(lambda k: fast.solve({"k": k, "y0": 1.0}).source.code))(rates)
    assert source.tolist() == [1, 1, 0]


def test_nothing_that_is_not_finite_gets_a_surrogates_answer(fast):
    for bad in (np.nan, np.inf):
        solution = fast.solve({"k": bad, "y0": 1.0})
        assert str(solution.source) == "solver" and str(solution.status) == "bad_parameter"
        assert np.all(np.isnan(solution.values["y"]))


def test_times_that_the_surrogate_does_not_know_go_to_the_solver(fast):
    solution = fast.solve(INSIDE, ts=[0.0, 0.123])
    assert str(solution.source) == "solver"
    assert solution.values["y"][-1] == pytest.approx(np.exp(-0.5 * 0.123), rel=1e-5)
    known = fast.solve(INSIDE, ts=[0.2, 1.0])
    assert str(known.source) == "surrogate" and known.values["y"].shape == (2,)


@pytest.mark.parametrize("devices", [1, 4])
def test_an_ensemble_solves_only_what_is_rejected(fast, devices):
    design = {"k": [0.5, 5.0, 0.2, np.nan, 7.0], "y0": np.ones(5)}
    ensemble = simulators.solve_ensemble(fast, design, devices=devices)
    assert ensemble.source.tolist() == [1, 0, 1, 0, 0] and ensemble.values["y"].shape == (5, 11)
    assert ensemble.steps[[0, 2]].tolist() == [0, 0] and np.all(ensemble.steps[[1, 4]] > 0)
    np.testing.assert_allclose(ensemble.values["y"][[1, 4], -1], np.exp([-10.0, -14.0]), atol=1e-6)
    assert [f["member"] for f in ensemble.failures()] == [3]


def test_the_threshold_keeps_the_promise_on_its_own_members():
    # 19 right answers and one wrong one with the largest score: (0 + 1) / (19 + 1) = 0.05
    scores, errors = np.arange(20.0), np.where(np.arange(20) == 19, 1.0, 0.0)
    assert acceptance_threshold(scores, errors, tolerance=0.1, risk=0.05) == 18.0
    assert acceptance_threshold(scores, errors, tolerance=0.1, risk=0.1) == 19.0
    assert acceptance_threshold(scores, errors, tolerance=0.1, risk=0.01) == -np.inf
    assert acceptance_threshold(np.zeros(20), errors, tolerance=0.1, risk=0.05) == -np.inf  # all or none
    assert acceptance_threshold(scores, np.full(20, np.nan), tolerance=0.1, risk=0.5) == -np.inf


def test_accepted_answers_break_the_tolerance_no_more_often_than_promised(fast):
    design = data.sample(DECAY.parameters, 2000, method="random", seed=11)
    ensemble = simulators.solve_ensemble(fast, design)
    truth = design["y0"][:, None] * np.exp(-design["k"][:, None] * DECAY.times)
    error = np.linalg.norm(ensemble.values["y"] - truth, axis=1) / np.linalg.norm(truth, axis=1)
    accepted = ensemble.source == 1
    assert accepted.mean() > 0.5
    # 0.1 and three binomial standard deviations
    assert np.mean(error[accepted] > 2e-2) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / accepted.sum())


class TestOtherLibrariesCalls:
    saveat = diffrax.SaveAt(ts=DECAY.times)
    controller = diffrax.PIDController(rtol=1e-6, atol=1e-8)

    def call(self, solve, p=INSIDE, y0=None, field=vector_field, **options):
        y0 = jnp.array([p["y0"]]) if y0 is None else y0
        options = dict(saveat=self.saveat, stepsize_controller=self.controller) | options
        return solve(diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 2.0, 0.1, y0, p, **options)

    @pytest.mark.parametrize(("p", "source"), [(INSIDE, "surrogate"), (OUTSIDE, "solver")])
    def test_diffrax(self, fast, p, source):
        ours, theirs = self.call(fast.diffeqsolve, p), self.call(diffrax.diffeqsolve, p)
        assert str(ours.stats["source"]) == source and ours.result == diffrax.RESULTS.successful
        assert (
            ours.ys.shape == theirs.ys.shape and ours.ts.shape == theirs.ts.shape and ours.ys.dtype == theirs.ys.dtype
        )
        np.testing.assert_allclose(ours.ys, theirs.ys, rtol=5e-2, atol=1e-5)

    def test_diffrax_under_jit_and_vmap(self, fast):
        def last(k):
            solution = self.call(fast.diffeqsolve, {"k": k, "y0": 1.0})
            return solution.ys[-1, 0], solution.stats["source"].code

        values, sources = jax.jit(jax.vmap(last))(jnp.array([0.5, 5.0]))
        np.testing.assert_allclose(values, np.exp([-1.0, -10.0]), rtol=2e-2)
        assert sources.tolist() == [1, 0]

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (dict(field=lambda t, y, p: -2 * p["k"] * y), "the vector field is not the simulator's"),
            (dict(saveat=diffrax.SaveAt(t1=True)), "the saved times are not times of the surrogate"),
            (dict(saveat=diffrax.SaveAt(ts=[0.0, 0.33])), "the saved times are not times of the surrogate"),
            (dict(p={"k": 0.5}, y0=jnp.ones(1)), "args are not the parameters k, y0"),
            (dict(y0=jnp.ones(2)), "y0 has not the shape"),
        ],
    )
    def test_another_call_goes_to_diffrax_with_the_reason(self, fast, options, why):
        with pytest.warns(UserWarning, match=why):
            solution = self.call(fast.diffeqsolve, **options)
        assert str(solution.stats["source"]) == "solver"

    def test_another_initial_state_goes_to_diffrax(self, fast):
        solution = self.call(fast.diffeqsolve, y0=jnp.array([1.5]))
        assert str(solution.stats["source"]) == "solver"
        assert solution.ys[-1, 0] == pytest.approx(1.5 * np.exp(-1), rel=1e-5)

    @pytest.mark.parametrize(("p", "source"), [(INSIDE, "surrogate"), (OUTSIDE, "solver")])
    def test_scipy(self, fast, p, source):
        arguments = (vector_field, (0.0, 2.0), [p["y0"]])
        ours = fast.solve_ivp(*arguments, t_eval=DECAY.times, args=(p,))
        theirs = scipy.integrate.solve_ivp(*arguments, t_eval=DECAY.times, args=(p,))
        assert ours.source == source and ours.success and ours.y.shape == theirs.y.shape
        np.testing.assert_allclose(ours.t, theirs.t)
        np.testing.assert_allclose(ours.y[0], exact(p), rtol=5e-2, atol=1e-3)


@pytest.mark.filterwarnings("ignore:output")
def test_components_keep_their_places_whatever_their_names():
    def field(t, y, p):
        return jnp.stack([-p["k"] * y[0], p["k"] * y[0]])

    chain = simulators.ODESimulator(
        field, lambda p: jnp.array([1.0, 0.5]), data.ParameterSpace(k=data.Uniform(0.1, 1.0)),
        np.linspace(0.0, 2.0, 5), outputs=("prey", "agent"),
    )  # fmt: skip
    ensemble = simulators.solve_ensemble(chain, data.sample(chain.parameters, 256))
    fast = pipelines.guard(chain, surrogates.fit(surrogates.MLP(16, 2), ensemble, steps=2000), tolerance=0.1, risk=0.1)
    exact = [np.exp(-1.0), 1.5 - np.exp(-1.0)]
    saveat = diffrax.SaveAt(ts=chain.times)
    arguments = (diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 2.0, 0.1, jnp.array([1.0, 0.5]), {"k": 0.5})
    solution = fast.diffeqsolve(*arguments, saveat=saveat)
    result = fast.solve_ivp(field, (0.0, 2.0), [1.0, 0.5], t_eval=chain.times, args=({"k": 0.5},))
    assert str(solution.stats["source"]) == result.source == "surrogate"
    np.testing.assert_allclose(solution.ys[-1], exact, rtol=0.05)
    np.testing.assert_allclose(result.y[:, -1], exact, rtol=0.05)
    assert list(fast.solve({"k": 0.5}).values) == ["prey", "agent"]


def test_a_surrogate_that_cannot_answer_does_not_spoil_the_solvers_gradient(fast):
    # y0 is learned as its logarithm: -1 has none
    gradient = jax.jit(jax.grad(lambda p: fast.solve(p).values["y"][-1]))({"k": 0.5, "y0": -1.0})
    assert gradient["k"] == pytest.approx(2 * np.exp(-1), rel=1e-4)
    assert gradient["y0"] == pytest.approx(np.exp(-1), rel=1e-4)


def test_a_surrogate_that_starts_at_another_time_is_refused(surrogate):
    with pytest.raises(ValueError, match="their equations, parameters or outputs differ"):
        pipelines.guard(DECAY.replace(times=np.linspace(1.0, 3.0, 11)), surrogate, tolerance=1e-2, risk=0.05)


def test_members_of_another_system_validate_nothing(surrogate):
    other = simulators.solve_ensemble(simulators.Decay(), data.sample(DECAY.parameters, 4))
    with pytest.raises(ValueError, match="expected held-out members of this simulator"):
        pipelines.validate(surrogate, DECAY, other)


@pytest.mark.filterwarnings("ignore:solve_ivp. scipy answered")
def test_a_call_that_scipy_refuses_is_refused(fast):
    for span, times in (((0.0, 1.0), DECAY.times), ((0.0, 2.0), [2.0, 0.0])):
        with pytest.raises(ValueError, match="t_eval"):
            fast.solve_ivp(vector_field, span, [1.0], t_eval=times, args=(INSIDE,))


def test_a_surrogate_of_another_system_is_refused(surrogate):
    other = DECAY.replace(vector_field=lambda t, y, p: -2.0 * p["k"] * y)
    with pytest.raises(ValueError, match="their equations, parameters or outputs differ"):
        pipelines.guard(other, surrogate, tolerance=1e-2, risk=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(tolerance=0.0, risk=0.1), "tolerance: expected a relative error above 0, got 0.0"),
        (dict(tolerance=-1.0, risk=0.1), "tolerance"),
        (dict(tolerance=0.1, risk=0.0), "risk: expected a probability above 0 and below 1, got 0.0"),
        (dict(tolerance=0.1, risk=1.5), "risk"),
        (dict(tolerance=np.nan, risk=0.1), "tolerance"),
        (dict(tolerance="a", risk=0.1), "tolerance: expected a relative error above 0, got 'a'"),
        (dict(tolerance=None, risk=0.1), "tolerance: expected a relative error above 0, got None"),
        (dict(tolerance=[0.1], risk=0.1), r"tolerance: expected a relative error above 0, got \[0\.1\]"),
        (dict(tolerance=0.1, risk="low"), "risk: expected a probability above 0 and below 1, got 'low'"),
    ],
)
def test_promises_that_mean_nothing_are_refused(surrogate, options, message):
    with pytest.raises(ValueError, match=message):
        pipelines.guard(DECAY, surrogate, **options)


def test_what_is_no_simulator_or_no_surrogate_is_refused(surrogate):
    for arguments, message in (
        ((DECAY, "decay.emx"), "surrogate: expected what .* got 'decay.emx'; read it with surrogates.load"),
        ((DECAY, None), "surrogate: expected what .* got None"),
        ((DECAY, DECAY), "surrogate: expected what surrogates.fit or load returns, got ODESimulator object"),
        ((surrogate, DECAY), "got them in each other's place; swap them"),
        ((surrogate, surrogate), "simulator: expected the one that the surrogate stands for, got Surrogate object"),
        (("decay", surrogate), "simulator: expected the one that the surrogate stands for, got 'decay'"),
        ((simulators.Decay, surrogate), "simulator: expected the one .* got the function Decay"),
    ):
        with pytest.raises(ValueError, match=message):
            pipelines.guard(*arguments, tolerance=0.1, risk=0.1)
        with pytest.raises(ValueError, match=message):
            pipelines.validate(*reversed(arguments), {"k": [0.5], "y0": [1.0]})


def test_what_is_no_parameter_and_no_time_is_refused(fast):
    with pytest.raises(ValueError, match="parameter 'k': expected a real number"):
        fast.solve({"k": "fast", "y0": 1.0})
    with pytest.raises(ValueError, match="ts: expected times as numbers, got 'now'"):
        fast.solve(INSIDE, "now")
    with pytest.raises(ValueError, match=r"design: expected a mapping .* got ndarray of shape \(2, 2\)"):
        simulators.solve_ensemble(fast, np.ones((2, 2)))


def test_who_solved_the_rejected_members_is_told_in_the_numbers_of_the_design(fast, monkeypatch):
    def solve(simulator, design, **options):
        solved = simulators.solve_ensemble(simulator, design, **options)
        if simulator is not DECAY:
            return solved
        known = {"solvers": {"Tsit5": 2, "Rodas5P": 2}, "retried": {"Rodas5P": [1, 3]}}  # the last one is padding
        return dataclasses.replace(solved, metadata=solved.metadata | known)

    monkeypatch.setattr(_guard, "solve_ensemble", solve)
    design = {"k": [5.0, 0.5, 5.5, 0.6, 6.0], "y0": np.ones(5)}
    answers = fast.solve_members(design)
    rejected = np.flatnonzero(answers.source == 0).tolist()
    assert rejected == [0, 2, 4]
    assert answers.metadata["solvers"] == {"Tsit5": 2, "Rodas5P": 1}
    assert answers.metadata["retried"] == {"Rodas5P": [2]}


class TestTracedTimes:
    """Times that jax.numpy makes inside jit are known only while the program runs."""

    def test_of_solve_go_to_the_solver_with_a_warning(self, fast):
        with pytest.warns(
            UserWarning, match="solve: the solver answers, since ts is known only while the program runs"
        ):
            solution = jax.jit(lambda: fast.solve(INSIDE, jnp.linspace(0.0, 2.0, 11)))()
        assert str(solution.source) == "solver"
        np.testing.assert_allclose(solution.values["y"], exact(INSIDE), rtol=1e-5)
        known = jax.jit(lambda: fast.solve(INSIDE, np.linspace(0.0, 2.0, 11)))()
        assert str(known.source) == "surrogate"

    def test_of_diffeqsolve_go_to_diffrax_with_the_reason(self, fast):
        def call(saveat):
            arguments = (diffrax.ODETerm(vector_field), diffrax.Tsit5(), 0.0, 2.0, 0.1, jnp.ones(1), INSIDE)
            return fast.diffeqsolve(*arguments, saveat=saveat).stats["source"]

        with pytest.warns(UserWarning, match=r"its SaveAt was made inside jit, .* make it outside of jit"):
            source = jax.jit(lambda: call(diffrax.SaveAt(ts=DECAY.times)))()
        assert str(source) == "solver"
        outside = diffrax.SaveAt(ts=DECAY.times)
        assert str(jax.jit(lambda: call(outside))()) == "surrogate"

    def test_of_the_interval_go_to_diffrax_with_the_reason(self, fast):
        saveat = diffrax.SaveAt(ts=DECAY.times)

        def last(t1):
            arguments = (diffrax.ODETerm(vector_field), diffrax.Tsit5(), 0.0, t1, 0.1, jnp.ones(1), INSIDE)
            return fast.diffeqsolve(*arguments, saveat=saveat).ys[-1, 0]

        with pytest.warns(UserWarning, match="t0 or t1 is known only while the program runs; pass Python numbers"):
            assert jax.jit(last)(2.0) == pytest.approx(np.exp(-1.0), rel=1e-4)

    def test_scipy_is_refused_where_it_cannot_run(self, fast):
        def last(k):
            return fast.solve_ivp(vector_field, (0.0, 2.0), [1.0], args=({"k": k, "y0": 1.0},), t_eval=DECAY.times).y

        with pytest.raises(ValueError, match="scipy runs outside of jit, grad and vmap only; use `solve`"):
            jax.jit(last)(0.5)


def test_a_promise_that_cannot_be_kept_hands_everything_to_the_solver(surrogate):
    with pytest.warns(UserWarning, match="the solver answers every call"):
        careful = pipelines.guard(DECAY, surrogate, tolerance=1e-9, risk=0.05)
    assert str(careful.solve(INSIDE).source) == "solver"
