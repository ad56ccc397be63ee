"""Solving again with equal shapes: nothing is traced or compiled again, and memory does not grow."""

import functools
import gc
import logging
import os

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators

solve = functools.partial(simulators.solve_ensemble, engine="lanes")


@pytest.fixture(scope="module")
def traces():
    return []


@pytest.fixture(scope="module")
def counting(traces):
    def field(t, y, p):
        traces.append(1)
        return -p["k"] * y

    return simulators.ODESimulator(
        vector_field=field,
        initial_state=lambda p: jnp.ones(1),
        parameters=data.ParameterSpace(k=data.LogUniform(1e-2, 1e12)),
        times=[0.0, 1.0],
        outputs=("y",),
        numerics=simulators.Numerics(solver=diffrax.Tsit5(), rtol=1e-8, atol=1e-10),
    )


class TestRetracing:
    def test_equal_shapes_never_trace_again_nor_grow(self, counting, traces):
        resident = []
        for run in range(30):
            design = {"k": np.linspace(0.1, 1.0 + run / 30, 100)}
            ensemble = solve(counting, design)
            np.testing.assert_allclose(ensemble.values["y"][:, -1], np.exp(-design["k"]), rtol=1e-6)
            if run == 0:
                first = len(traces)
            if run in (4, 29):
                gc.collect()
                resident.append(resident_bytes())
        assert first > 0 and len(traces) == first
        assert resident[1] < 1.05 * resident[0]

    def test_a_new_member_count_traces_once_at_most(self, counting, traces):
        def run(members):
            before = len(traces)
            ensemble = solve(counting, {"k": np.linspace(0.1, 1.0, members)}, devices=1)
            assert len(ensemble) == members and ensemble.ok.all()
            return len(traces) - before

        once = run(6)
        assert once > 0
        assert max(run(members) for members in (7, 8, 9, 10, 11)) <= once
        assert [run(members) for members in (7, 8, 9, 10, 11)] == [0] * 5
        run(1000)
        assert run(995) == 0  # padded to one size

    @pytest.mark.parametrize("devices", [1, 2, 4])
    def test_equal_shapes_compile_nothing_again(self, counting, devices, caplog):
        def run():
            caplog.clear()
            with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
                ensemble = solve(counting, {"k": np.linspace(0.1, 1.0, 37)}, devices=devices)
            assert ensemble.ok.all()
            return [record.message for record in caplog.records if record.message.startswith("Compiling")]

        jax.clear_caches()
        assert run()
        assert run() == []


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
