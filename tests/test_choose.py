"""Which solver an ensemble gets, and the parts that decide it."""

import functools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators
from emulax.simulators._choose import best_limit
from emulax.simulators._control import inverse_root
from emulax.simulators._devices import deal, exchange, gather, per_device, queues
from emulax.simulators._runner import rows_for


@pytest.mark.parametrize(
    ("slow", "fast", "limit"),
    [
        ([10, 12], [100, 100], 12),  # explicit alone: 22
        ([1000, 2000], [100, 100], 0),  # stiff alone: 200
        ([10, 20, 1000], [100, 100, 100], 20),  # 10 + 20 + 20 + 100 against 300 and 1030
        ([np.inf, np.inf], [100, 100], 0),
        ([50, 60], [np.inf, np.inf], 60),  # the stiff method solves nothing
        ([50, np.inf], [np.inf, 40], 50),  # each method solves one
        ([np.inf, np.inf], [np.inf, np.inf], 0),
    ],
)
def test_the_limit_minimises_the_cost_of_both_attempts(slow, fast, limit):
    assert best_limit(np.array(slow, float), np.array(fast, float)) == limit


@pytest.mark.parametrize("order", [3, 5, 8])
@pytest.mark.parametrize(("precision", "rounding"), [("double", 1e-14), ("single", 1e-5)])
def test_inverse_root_is_the_power(order, precision, rounding):
    with jax.enable_x64(precision == "double"):
        x = np.geomspace(1e-19, 1e19, 500)
        found = np.asarray(inverse_root(jnp.asarray(x, float), order))
    np.testing.assert_allclose(found, x ** (-1 / order), rtol=rounding)


def test_rows_are_padded_to_few_sizes_by_at_most_a_sixteenth():
    sizes = {rows_for(members, 1) for members in range(1, 100_001)}
    assert len(sizes) < 240
    assert all(members <= rows_for(members, 1) <= members * 17 / 16 for members in range(16, 100_001))
    assert rows_for(10, 4) == 3


@pytest.mark.parametrize(("members", "devices"), [(1, 1), (1, 4), (7, 2), (8, 4), (10, 4)])
def test_members_dealt_out_come_back_in_order(members, devices):
    rows = rows_for(members, devices)
    values = deal({"k": np.arange(members)}, jax.local_devices()[:devices], rows)["k"]
    assert values.shape == (devices, rows)
    queue, count = queues(np.arange(members), devices, rows)
    assert queue.shape == values.shape and count.sum() == members
    assert sorted(values[d, row] for d in range(devices) for row in queue[d, : count[d]]) == list(range(members))
    np.testing.assert_array_equal(values[:, 0], np.minimum(np.arange(devices), members - 1))
    np.testing.assert_array_equal(gather(values, members), np.arange(members))


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_devices_exchange_dealt_rows_for_blocks(devices):
    chosen = jax.local_devices()[:devices]
    for members in (*range(1, 20), 37):
        dealt = deal({"k": np.arange(members)}, chosen, rows_for(members, devices) + 1)
        blocks = jax.jit(per_device(functools.partial(_exchanged, members=members, devices=devices), chosen))((), dealt)
        size = -(-members // devices)
        np.testing.assert_array_equal(blocks["k"], np.minimum(np.arange(size * devices), members - 1))
        assert {shard.data.shape for shard in blocks["k"].addressable_shards} == {(size,)}


def _exchanged(shared, tree, members, devices):
    return exchange(tree, members, devices)


def oscillators(**numerics):
    return simulators.VanDerPol(
        times=np.array([0.0, 20.0]), numerics=simulators.Numerics(rtol=1e-5, atol=1e-7, **numerics)
    )


class TestAuto:
    """Van der Pol, t = 20: Tsit5 takes about 15 mu steps, an implicit method 100 to 200."""

    def solvers(self, mu, **numerics):
        ensemble = simulators.solve_ensemble(oscillators(**numerics), {"mu": mu}, devices=1)
        assert ensemble.ok.all()
        return ensemble.metadata["solvers"]

    def test_members_that_are_not_stiff_get_an_explicit_method(self):
        assert self.solvers(np.linspace(0.1, 5.0, 100)) == {"Tsit5": 100}

    def test_members_that_an_explicit_method_cannot_finish_get_a_stiff_one(self):
        assert self.solvers(np.linspace(1e5, 1e6, 100), max_steps=4096) == {"Rodas5P": 100}

    def test_both_kinds_in_one_design(self):
        mu = np.where(np.arange(100) % 2, 1.0, 1e6)
        assert self.solvers(mu) == {"Tsit5": 50, "Rodas5P": 50}

    def test_a_choice_does_not_change_the_answer(self):
        mu = np.geomspace(0.1, 300.0, 100)
        auto = simulators.solve_ensemble(oscillators(), {"mu": mu}, devices=1, check=0)
        stiff = simulators.solve_ensemble(oscillators(solver=simulators.Rodas5P()), {"mu": mu}, devices=1, check=0)
        np.testing.assert_allclose(auto.values["x"], stiff.values["x"], atol=2e-2)

    def test_a_solver_that_is_named_is_the_only_one(self):
        ensemble = simulators.solve_ensemble(
            oscillators(solver=diffrax.Tsit5(), max_steps=500), {"mu": [1.0, 1000.0]}, devices=1
        )
        assert ensemble.ok.tolist() == [True, False] and ensemble.metadata["solvers"] == {"Tsit5": 2}

    def test_one_stiff_member_alone(self):
        solution = oscillators(max_steps=4096).solve({"mu": 1e6})
        assert solution.status.code == data.Status.ok
        # the slow manifold: x - x³/3 falls by t/μ from 2 - 8/3, hardly at all within t = 20
        assert solution.values["x"][-1] == pytest.approx(2.0 - 20 * 2.0 / (3 * 1e6), abs=1e-4)
