"""Rosenbrock methods against order conditions, closed forms, published end points and other solvers."""

import math
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from emulax.simulators import Rodas3, Rodas5P
from emulax.simulators._rosenbrock_tables import RODAS3, RODAS5P

METHODS = {"Rodas5P": (Rodas5P(), RODAS5P, 5, 4), "Rodas3": (Rodas3(), RODAS3, 3, 2)}
ROBERTSON_ENDS = {  # cases.md, R2
    0.4: (0.985172113861, 3.386395378975e-5, 0.01479402218522),
    40.0: (0.7158270687194, 9.185534764558e-6, 0.2841637457458),
    4e3: (0.1832022577767, 8.942371252776e-7, 0.8167968479862),
    4e7: (5.20307184412e-5, 2.081335731892e-10, 0.9999479690734),
    1e11: (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050),
}
all_methods = pytest.mark.parametrize("name", METHODS)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def solve(field, solver, y0, ts, args=None, rtol=1e-6, atol=1e-9, step=None, t0=0.0, dtmax=None, **options) -> Any:
    y0, ts = jax.tree.map(jnp.asarray, y0), jnp.asarray(ts)
    controller = diffrax.ConstantStepSize() if step else diffrax.PIDController(rtol=rtol, atol=atol, dtmax=dtmax)
    options = {"max_steps": 4096, "throw": False, "saveat": diffrax.SaveAt(ts=ts)} | options
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field), solver, t0, ts[-1], step, y0, args, stepsize_controller=controller, **options
    )


def robertson(t, y, k):
    decay, pairing, back = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return jnp.stack([back - decay, decay - back - pairing, pairing])


def nonautonomous(t, y, args):
    """y' = 2 t y² with y(0) = -1 has y = -1 / (1 + t²)."""
    return 2 * t * y**2


# Order conditions by rooted trees (Hairer and Wanner II, theorem IV.7.6): a vertex with one branch takes α + Γ, one
# with several takes α for each. A tree is the tuple of its branches.


def trees(vertices):
    def forests(left, largest):
        if left == 0:
            yield ()
        for size in range(1, min(left, largest) + 1):
            for tree in trees(size):
                for rest in forests(left - size, size):
                    yield tuple(sorted((tree, *rest)))

    return sorted(set(forests(vertices - 1, vertices - 1)))


def order_of(tree):
    return 1 + sum(map(order_of, tree))


def density(tree):
    return order_of(tree) * math.prod(map(density, tree))


def elementary_weights(tree, alpha, gamma):
    if not tree:
        return np.ones(len(alpha))
    matrix = alpha + gamma if len(tree) == 1 else alpha
    return np.prod([matrix @ elementary_weights(branch, alpha, gamma) for branch in tree], axis=0)


def classical(table):
    """α and Γ of the form with products with the Jacobian."""
    stages = len(table.nodes)
    a, c = (np.array([[*row, *[0.0] * (stages - len(row))] for row in rows]) for rows in (table.a, table.c))
    gamma = np.linalg.inv(np.eye(stages) / table.gamma - c)
    return a @ gamma, gamma


def violation(weights, table, vertices, theta=1.0):
    alpha, gamma = classical(table)
    return max(
        abs(np.asarray(weights) @ gamma @ elementary_weights(tree, alpha, gamma) - theta**vertices / density(tree))
        for tree in trees(vertices)
    )


def test_there_are_as_many_rooted_trees_as_counted_by_cayley():
    assert [len(trees(n)) for n in range(1, 7)] == [1, 1, 2, 4, 9, 20]


@all_methods
def test_tables_satisfy_the_order_conditions(name):
    _, table, order, dense_order = METHODS[name]
    weights, error = np.array(table.weights), np.array(table.error)
    alpha, gamma = classical(table)
    np.testing.assert_allclose(alpha.sum(1), table.nodes, atol=3e-14)
    np.testing.assert_allclose(gamma.sum(1), table.slopes, atol=3e-14)
    for n in range(1, order + 1):
        assert violation(weights, table, n) < 1e-13
    for n in range(1, order):
        assert violation(weights - error, table, n) < 1e-13
    assert violation(weights, table, order + 1) > 1e-4
    assert violation(weights - error, table, order) > 1e-4
    for theta in (0.1, 0.5, 0.8):
        bend = sum(theta**k * np.array(row) for k, row in enumerate(table.dense))
        dense = theta * weights + theta * (1 - theta) * bend
        for n in range(1, dense_order + 1):
            assert violation(dense, table, n, theta) < 1e-13


@all_methods
def test_methods_and_their_estimates_damp_infinitely_stiff_parts(name):
    _, table, _, _ = METHODS[name]
    alpha, gamma = classical(table)
    for weights in (np.array(table.weights), np.array(table.weights) - np.array(table.error)):
        at_infinity = 1 - weights @ gamma @ np.linalg.solve(alpha + gamma, np.ones(len(alpha)))
        assert abs(at_infinity) < 1e-12


@all_methods
@pytest.mark.parametrize(
    ("field", "y0", "exact"),
    [
        (lambda t, y, _: -y, 1.0, lambda t: math.exp(-t)),
        (nonautonomous, -1.0, lambda t: -1 / (1 + t**2)),
    ],
    ids=["linear", "nonautonomous"],
)
def test_errors_fall_with_the_order(name, field, y0, exact):
    solver, _, order, dense_order = METHODS[name]
    assert solver.order(diffrax.ODETerm(field)) == solver.error_order(diffrax.ODETerm(field)) == order
    ends, between = [], []
    for steps in (40, 80):
        step = 2.0 / steps
        times = np.append((np.arange(steps) + 0.37) * step, 2.0)
        values = np.asarray(solve(field, solver, y0, times, step=step).ys)
        wrong = np.abs(values - [exact(t) for t in times])
        ends.append(wrong[-1])
        between.append(wrong[:-1].max())
    assert order - 0.35 < math.log2(ends[0] / ends[1]) < order + 1.3
    assert dense_order + 0.6 < math.log2(between[0] / between[1]) < order + 1.3


@all_methods
def test_a_single_step_is_dense_to_its_order(name):
    """The local error between the ends of a step falls one power faster than the order of dense output."""
    solver, _, _, dense_order = METHODS[name]
    wrong = []
    for step in (0.04, 0.02):
        theta = np.linspace(0.1, 0.9, 9)
        times = np.append(0.5 + theta * step, 0.5 + step)
        values = np.asarray(solve(nonautonomous, solver, -0.8, times, step=step, t0=0.5).ys)
        wrong.append(np.abs(values + 1 / (1 + times**2))[:-1].max())
    assert dense_order + 0.6 < math.log2(wrong[0] / wrong[1]) < dense_order + 1.6


@all_methods
@pytest.mark.parametrize("rate", [1e2, 1e6])
def test_prothero_robinson(name, rate):
    """y' = -λ (y - cos t) - sin t from y(0) = 1 has y = cos t, however stiff; dense output follows short steps."""
    solver, _, _, _ = METHODS[name]
    field = lambda t, y, r: -r * (y - jnp.cos(t)) - jnp.sin(t)  # noqa: E731
    ends = solve(field, solver, 1.0, [10.0], rate, atol=1e-6, saveat=diffrax.SaveAt(steps=True))
    assert ends.result == diffrax.RESULTS.successful
    count = int(ends.stats["num_accepted_steps"])
    np.testing.assert_allclose(ends.ys[:count], np.cos(ends.ts[:count]), atol=2e-5)
    ts = np.linspace(0.0, 10.0, 173)
    between = solve(field, solver, 1.0, ts, rate, atol=1e-6, dtmax=0.1)
    np.testing.assert_allclose(between.ys, np.cos(ts), atol=1e-4)


def test_robertson_agrees_with_published_values():
    ts = np.array([0.0, *ROBERTSON_ENDS])
    solution = solve(robertson, Rodas5P(), np.array([1.0, 0.0, 0.0]), ts, (0.04, 3e7, 1e4), rtol=1e-8, atol=1e-20)
    assert solution.result == diffrax.RESULTS.successful
    np.testing.assert_allclose(solution.ys[1:], list(ROBERTSON_ENDS.values()), rtol=1e-6)
    np.testing.assert_allclose(solution.ys.sum(1), 1.0, rtol=1e-11)


def test_rodas3_solves_robertson_roughly():
    solution = solve(
        robertson, Rodas3(), np.array([1.0, 0.0, 0.0]), [0.4, 40.0], (0.04, 3e7, 1e4), rtol=1e-4, atol=1e-10
    )
    np.testing.assert_allclose(solution.ys, [ROBERTSON_ENDS[0.4], ROBERTSON_ENDS[40.0]], rtol=1e-3)


def diffusion(t, y, args):
    """Heat on a rod with a reaction and a source that moves: n unknowns, stiff, not autonomous."""
    padded = jnp.pad(y, 1)
    flow = y.size**2 * (padded[2:] - 2 * y + padded[:-2])
    return flow + y * (1 - y) + jnp.cos(3 * t) * jnp.linspace(0.0, 1.0, y.size)


@all_methods
@pytest.mark.parametrize("unknowns", [1, 3, 20, 40])
def test_agreement_with_radau(name, unknowns):
    solver, _, order, _ = METHODS[name]
    rtol = 1e-9 if order == 5 else 1e-6
    start, ts = np.linspace(1.0, 0.2, unknowns), np.linspace(0.0, 1.0, 7)
    field = jax.jit(diffusion)
    reference = scipy.integrate.solve_ivp(
        lambda t, y: np.asarray(field(t, y, None)), (0.0, 1.0), start, "Radau", ts, rtol=1e-10, atol=1e-12
    )
    solution = solve(diffusion, solver, start, ts, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(solution.ys, reference.y.T, atol=100 * rtol)


def test_a_state_of_any_structure_takes_the_same_steps():
    def split(t, y, k):
        rates = robertson(t, jnp.stack([y["a"], *y["bc"][0]]), k)
        return {"a": rates[0], "bc": (rates[1:],)}

    def scalars(t, y, k):
        return tuple(robertson(t, jnp.stack(y), k))

    k, ts = (0.04, 3e7, 1e4), [1.0, 40.0]
    whole = solve(robertson, Rodas5P(), np.array([1.0, 0.0, 0.0]), ts, k)
    tree = solve(split, Rodas5P(), {"a": 1.0, "bc": (np.zeros(2),)}, ts, k)
    single = solve(scalars, Rodas5P(), (1.0, 0.0, 0.0), ts, k)
    np.testing.assert_allclose(np.column_stack([tree.ys["a"], tree.ys["bc"][0]]), whole.ys, rtol=1e-11)
    np.testing.assert_allclose(np.column_stack(single.ys), whole.ys, rtol=1e-11)
    assert int(tree.stats["num_steps"]) == int(single.stats["num_steps"]) == int(whole.stats["num_steps"])


@pytest.mark.parametrize("adjoint", [diffrax.RecursiveCheckpointAdjoint(), diffrax.DirectAdjoint()], ids=repr)
def test_gradients_agree_with_differences_of_scipy(adjoint):
    def end(k):
        options = {"adjoint": adjoint, "max_steps": 256}
        return solve(robertson, Rodas5P(), np.array([1.0, 0.0, 0.0]), [40.0], k, rtol=1e-7, atol=1e-12, **options).ys[
            -1, 0
        ]

    def radau(k):
        field = jax.jit(robertson)
        solution = scipy.integrate.solve_ivp(
            lambda t, y: np.asarray(field(t, y, k)), (0.0, 40.0), [1.0, 0.0, 0.0], "Radau", rtol=1e-11, atol=1e-16
        )
        return solution.y[0, -1]

    k = np.array([0.04, 3e7, 1e4])
    steps = np.diag(1e-3 * k)
    expected = np.array([(radau(k + step) - radau(k - step)) / 2e-3 for step in steps])
    np.testing.assert_allclose(jax.grad(end)(jnp.asarray(k)) * k, expected, rtol=1e-4)


def test_forward_mode_gives_the_closed_derivative():
    def end(rate):
        field, adjoint = (lambda t, y, r: -r * y), diffrax.ForwardMode()
        return solve(field, Rodas5P(), 1.0, [1.0], rate, rtol=1e-9, atol=1e-12, adjoint=adjoint).ys[-1]

    np.testing.assert_allclose(jax.jacfwd(end)(2.0), -math.exp(-2), rtol=1e-7)


def test_dense_solutions_and_vmap():
    def path(rate):
        solution = solve(lambda t, y, r: -r * y, Rodas5P(), 1.0, [1.0], rate, saveat=diffrax.SaveAt(dense=True))
        return jax.vmap(solution.evaluate)(jnp.linspace(0.0, 1.0, 5))

    rates = np.array([1.0, 30.0, 1e3])
    expected = np.exp(-rates[:, None] * np.linspace(0.0, 1.0, 5))
    np.testing.assert_allclose(jax.vmap(path)(jnp.asarray(rates)), expected, atol=3e-6)


def test_backwards_in_time():
    solution = solve(nonautonomous, Rodas5P(), -0.2, [1.0, 0.0], t0=2.0, rtol=1e-9)
    np.testing.assert_allclose(solution.ys, [-0.5, -1.0], rtol=1e-7)


@all_methods
def test_single_precision(name):
    solver, _, _, _ = METHODS[name]
    ts = np.linspace(0.0, 5.0, 6, dtype=np.float32)
    start = np.array([1.0, 0.0], np.float32)
    # x'' + 1001 x' + 1000 x = 0: rates 1 and 1000
    solution = solve(
        lambda t, y, _: jnp.stack([y[1], -1001 * y[1] - 1000 * y[0]]), solver, start, ts, rtol=1e-4, atol=1e-5, t0=ts[0]
    )
    assert solution.ys.dtype == np.float32
    expected = (1000 * np.exp(-ts.astype(float)) - np.exp(-1000 * ts.astype(float))) / 999
    np.testing.assert_allclose(solution.ys[:, 0], expected, atol=3e-4)


@pytest.mark.filterwarnings("ignore:Complex dtype")
def test_complex_arguments():
    """|c|² = 2: y' = -2 y."""
    solution = solve(lambda t, y, c: -(c * jnp.conj(c)).real * y, Rodas5P(), 1.0, [1.0], jnp.asarray(1 + 1j), rtol=1e-8)
    np.testing.assert_allclose(solution.ys, math.exp(-2), rtol=1e-7)


@all_methods
def test_a_step_of_length_zero_stays(name):
    solver, _, _, _ = METHODS[name]
    y0 = jnp.array([1.0, 1e-5, 0.0])
    term, k = diffrax.ODETerm(robertson), (0.04, 3e7, 1e4)
    y1, error, dense, _, _ = solver.step(term, 1.0, 1.0, y0, k, None, False)
    np.testing.assert_array_equal(y1, y0)
    np.testing.assert_array_equal(error, 0)
    np.testing.assert_array_equal(solver.interpolation_cls(t0=1.0, t1=1.0, **dense).evaluate(1.0), y0)


@pytest.mark.filterwarnings("ignore:.*not marked as converging")
def test_terms_with_a_control_are_refused():
    noise = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-2, (), jax.random.key(0))
    drift = diffrax.ODETerm(lambda t, y, args: -y)
    terms = diffrax.MultiTerm(drift, diffrax.ControlTerm(lambda t, y, args: 0.1 * y, noise))
    with pytest.raises(ValueError, match=r"Rodas5P: expected an ordinary differential equation"):
        diffrax.diffeqsolve(terms, Rodas5P(), 0.0, 1.0, 0.1, 1.0)
    both = diffrax.MultiTerm(drift, diffrax.ODETerm(lambda t, y, args: -y))
    np.testing.assert_allclose(diffrax.diffeqsolve(both, Rodas5P(), 0.0, 1.0, 0.02, 1.0).ys, math.exp(-2), rtol=1e-8)
