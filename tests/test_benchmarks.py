"""The ensemble benchmark's own arithmetic and equations."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from _page import page
from _problems import POLLUTION_RATES, lorenz, pollution, robertson
from _work_precision import error, time_at

# Pollution at t = 60, test set for initial value problem solvers (Bari)
POLLUTION_END = (
    0.5646255480022769e-1, 0.1342484130422339, 0.4139734331099427e-8, 0.5523140207484359e-2, 0.2018977262302196e-6,
    0.1464541863493966e-6, 0.7784249118997964e-1, 0.3245075353396018, 0.7494013383880406e-2, 0.1622293157301561e-7,
    0.1135863833257075e-7, 0.2230505975721359e-2, 0.2087162882798630e-3, 0.1396921016840158e-4, 0.8964884856898295e-2,
    0.4352846369330103e-17, 0.6899219696263405e-2, 0.1007803037365946e-3, 0.1772146513969984e-5, 0.5682943292316392e-4,
)  # fmt: skip


def power_law(errors):
    """us = 3 error^(-1/5): a method of order 5."""
    return [{"error": e, "us_per_member": 3 * e**-0.2} for e in errors]


def test_time_at_equal_error_follows_a_power_law():
    points = power_law([1e-3, 1e-5, 1e-9])
    for e in (1e-4, 3e-6, 1e-8):
        assert time_at(e, points) == pytest.approx(3 * e**-0.2, rel=1e-12)


def test_time_at_is_none_where_nothing_is_accurate_enough_and_the_fastest_where_all_are():
    points = power_law([1e-3, 1e-5])
    assert time_at(1e-6, points) is None
    assert time_at(1e-1, points) == pytest.approx(3 * 1e-3**-0.2)
    assert time_at(1e-3, [{"error": None, "us_per_member": 1.0}]) is None


def test_a_slower_and_coarser_point_does_not_count():
    points = [*power_law([1e-4]), {"error": 1e-2, "us_per_member": 100.0}]
    assert time_at(1e-2, points) == pytest.approx(3 * 1e-4**-0.2)


def test_error_is_relative_to_each_component_and_none_where_a_member_failed():
    reference = np.array([[[0.0, 0.0], [10.0, 1e-5]]])
    values = reference + np.array([0.1, 1e-6])
    assert error(values, reference) == pytest.approx(0.1)
    assert error(np.where(values > 9, np.nan, values), reference) is None


def test_the_page_says_what_was_missed_not_reached_and_not_measured():
    point = {"members": 10_000, "compile_s": 2.5}
    reached = {"points": [point], "us_at_equal_error": 20.0, "times_emulax": 1.0}
    coarse = {"points": [point | {"members": 64}], "us_at_equal_error": None, "times_emulax": None}
    lorenz = {
        "title": "Lorenz", "members": 10_000, "reference": "scipy", "equal_error": 5e-5,
        "contenders": {"emulax": reached, "peer": coarse},
    }  # fmt: skip
    targets = [
        {"problem": "lorenz", "against": "diffrax", "target": 7.0, "measured": 5.79, "met": False},
        {"problem": "lorenz", "against": "heyoka", "target": 1.0, "measured": None, "met": False},
    ]
    machine = {"cpu": "Abacus", "vectors": "avx2", "memory_gib": 1.5, "system": "Linux", "python": "3.11.7"}
    record = {
        "machine": machine, "versions": {"jax": "0.10.2", "torch": None},
        "results": {"problems": {"lorenz": lorenz}, "targets": targets},
    }  # fmt: skip
    lines = page(record, Path("docs/figures/curves.png")).splitlines()
    assert "Machine: Abacus (avx2), 1.5 GiB, Linux, Python 3.11.7." in lines
    assert "Versions: jax 0.10.2." in lines
    assert "| lorenz: times as fast as diffrax | 7 | 5.79 | no |" in lines
    assert "| lorenz: times as fast as heyoka | 1 | not measured |  |" in lines
    assert "| emulax | 10,000 | 20 | 1.00 | 2.5 |" in lines
    assert "| peer | 64 | - | - | 2.5 |" in lines


def test_pollution_reaches_the_published_end_point():
    start = np.zeros(20)
    start[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
    end = solve_ivp(pollution, (0, 60), start, "Radau", args=([POLLUTION_RATES[0]],), rtol=1e-10, atol=1e-22)
    np.testing.assert_allclose(end.y[:, -1], POLLUTION_END, rtol=1e-7)


def test_robertson_and_lorenz_reach_published_end_points():
    end = solve_ivp(robertson, (0, 1e11), [1.0, 0, 0], "Radau", args=([0.04, 3e7, 1e4],), rtol=1e-9, atol=1e-22)
    np.testing.assert_allclose(
        end.y[:, -1], (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050), rtol=1e-6
    )
    end = solve_ivp(lorenz, (0, 10), [1.0, 1.0, 1.0], "DOP853", args=([28.0],), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(end.y[:, -1], (-4.902687541134636, -3.743872921802920, 24.69085810279056), rtol=1e-6)
