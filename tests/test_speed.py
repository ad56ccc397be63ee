"""Speed at equal accuracy: the right rung is picked, the comparison says who wins; no times are asserted."""

from collections.abc import Iterator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from emulax import data, simulators
from emulax.pipelines import _speed, _timing
from emulax.pipelines._metrics import member_error, summary
from emulax.pipelines._verdict import verdict, winner
from emulax.simulators._cheaper import fixed_step_ladder, tolerance_ladder

TIMES = np.linspace(0.0, 2.0, 5)
DECAY = simulators.Decay(times=TIMES)
MEMBERS = {"k": np.linspace(0.2, 0.9, 16), "y0": np.ones(16)}
TRUTH = {"y": MEMBERS["y0"][:, None] * np.exp(-MEMBERS["k"][:, None] * TIMES)}


class Ladder(eqx.Module):
    """The decay, solved exactly enough, with chosen ladders, so that few settings are compiled."""

    rungs: tuple
    name: str = "decay"
    numerics: simulators.RungeKutta4 = simulators.RungeKutta4(64)

    def solve(self, params):
        return simulators.FixedStep(DECAY, numerics=self.numerics).solve(params)

    def cheaper(self) -> Iterator:
        return iter(self.rungs)


def error_of(model) -> dict:
    timed = _timing.prepare(model, MEMBERS, "double", batched=True)
    return summary(member_error({"y": np.asarray(timed.answer.values["y"])[:, 1:]}, {"y": TRUTH["y"][:, 1:]}))


def test_a_surrogate_that_is_the_solver_is_matched_with_itself():
    surrogate = simulators.FixedStep(DECAY, 4)
    target, costs = error_of(surrogate), {"simulate": 1.0, "train": 2.0}
    ladder = Ladder(tuple(fixed_step_ladder(DECAY, 32)))
    found = _speed.measure_speed(surrogate, ladder, MEMBERS, TRUTH, target=target, given=1, costs=costs, repeats=1)
    tried = [entry for entry in found["entries"] if entry["family"] not in ("surrogate", "own")]
    accurate = [(entry["label"], entry["precision"]) for entry in tried if entry["reaches"]]
    assert accurate[0] == ("RungeKutta4, 4 steps per saved time", "double")
    assert [entry["precision"] for entry in tried] == ["double", "double", "double", "single"]
    assert found["batch"]["solver"]["error"]["median"] <= target["median"]
    single = found["single"]
    assert single["ratio"] == pytest.approx(single["solver"]["seconds"] / single["surrogate"]["seconds"])
    assert all(entry["all_s"] > 0 and entry["compile_all_s"] >= 0 for entry in found["entries"])
    assert found["batch"]["break_even"]["members"] is None or found["batch"]["break_even"]["members"] > 0


def test_an_adaptive_solver_is_loosened_as_far_as_can_be():
    target = error_of(DECAY.replace(numerics=simulators.Numerics(rtol=1e-4, atol=1e-7)))
    ladder = list(tolerance_ladder(DECAY, DECAY.numerics.method))[::2]
    entries = _speed.climb(ladder, _speed._Judge(MEMBERS, TRUTH, given=1), target)
    tried = [(entry["label"], entry["precision"]) for entry in entries]
    assert tried == [("Tsit5, rtol 0.01", "double"), ("Tsit5, rtol 0.0001", "double"), ("Tsit5, rtol 0.0001", "single")]


class Setting:
    """A stand-in for a simulator setting: a method's name and nothing else."""

    def __init__(self, solver):
        self.numerics = self
        self.solver = solver

    def describe(self):
        return {"solver": self.solver}


def test_each_ladder_is_climbed_to_its_first_accurate_setting():
    errors = {
        "a1": (0.5, 0.6),
        "a2": (0.01, 0.9),
        "a3": (0.01, 0.02),
        "a4": (0.0, 0.0),
        "b1": (1.0, 1.0),
        "b2": (0.2, 0.3),
    }
    tried = []

    def judge(model, label, family, precision):
        tried.append((label, precision))
        return {"error": dict(zip(("median", "p95"), errors[label], strict=True)), "family": family}

    rungs = [(label, Setting(label[0])) for label in errors]
    entries = _speed.climb(rungs, judge, {"median": 0.1, "p95": 0.2})
    # a2 has the median but not the 95th percentile; a4 is never tried; b reaches nothing
    assert tried == [
        ("a1", "double"),
        ("a2", "double"),
        ("a3", "double"),
        ("a3", "single"),
        ("b1", "double"),
        ("b2", "double"),
    ]
    assert len(entries) == len(tried)


def entry(family, error, all_s, one_s, reaches=True, precision="double"):
    return {
        "label": f"{family} setting", "family": family, "precision": precision, "numerics": None, "reaches": reaches,
        "error": {"median": error, "p95": error, "worst": error, "blow_ups": 0},
        "all_s": all_s, "all_spread_s": [all_s, all_s], "one_s": one_s, "one_spread_s": [one_s, one_s],
    }  # fmt: skip


def compared(solver_s: float) -> dict:
    """Batches of 100: a surrogate of 0.2 s, the solver's own settings at 200 s."""
    entries = [entry("surrogate", 0.01, 0.2, 0.002), entry("RungeKutta4", 0.009, solver_s, solver_s / 100)]
    entries.append(entry("own", 0.0, 200.0, 2.0))
    return _speed.compare(entries, 100, {"median": 0.01, "p95": 0.01}, {"simulate": 2000.0, "train": 600.0}, 7)


def test_break_even_is_counted_in_members():
    # U03, in batches of 100: (2000 + 600) / (2 - 0.002)
    assert compared(1.0)["batch"]["break_even_own"] == {"members": 1302}
    assert compared(1.0)["single"]["break_even_own"] == {"members": 1302}
    assert compared(0.01)["batch"]["break_even"] == {"members": None}


@pytest.mark.parametrize(
    ("solver_s", "who", "said"),
    [
        (0.01, "solver", "At equal accuracy the solver wins. For 100 members at once, the solver is 20 times faster"),
        (
            4.0,
            "surrogate",
            "At equal accuracy the surrogate wins. For 100 members at once, the surrogate is 20 times faster",
        ),
        (0.2, "nobody", "At equal accuracy neither wins."),
    ],
)
def test_the_verdict_says_who_wins(solver_s, who, said):
    speed = compared(solver_s)
    assert winner(speed["batch"]) == who
    share = {"share": 0.9, "low": 0.88, "high": 0.92}
    content = {
        "errors": {"member": {"median": 0.01, "p95": 0.02, "worst": 0.03, "worst_member": 5}},
        "baselines": {}, "derivatives": None, "speed": speed,
        "calibration": {"overall": share, "level": 0.9, "confidence": 0.95, "half_width": {"y": 1.0}},
        "members": {"judged": 100, "total": 100, "excluded": [], "blow_ups": [], "outside": 0},
        "truth": {"check": {"median": 1e-9}, "sufficient": True},
    }  # fmt: skip
    texts = {line["about"]: line["text"] for line in verdict(content)}
    assert texts["speed at equal accuracy"].startswith(said)
    assert texts["stated error"].endswith("it keeps its word.")
    repaid = {0.01: "at equal accuracy, never.", 4.0: f"at equal accuracy, after {68422:,}."}
    assert texts["against the solver as it is set"].endswith(repaid.get(solver_s, "at equal accuracy, never."))


def test_no_cheaper_setting_is_said():
    entries = [entry("surrogate", 1e-9, 0.2, 0.002), entry("RungeKutta4", 0.1, 1.0, None, reaches=False)]
    entries.append(entry("own", 1e-3, 5.0, 0.1, reaches=False))
    found = _speed.compare(entries, 100, {"median": 1e-9, "p95": 1e-9}, None, 7)
    assert found["batch"]["solver"] is None and found["batch"]["ratio"] is None and found["batch"]["break_even"] == {}


def test_timings_are_waited_for_and_interleaved(monkeypatch):
    order = []

    def timed(name):
        return _timing.Timed(lambda: order.append(name) or jnp.zeros(1), "single", None, 0.0, 1.0)

    entries = [timed("a"), timed("b")]
    _timing.interleave(entries, repeats=3)
    assert order == ["a", "b"] * 3 and [len(e.samples) for e in entries] == [3, 3]


def test_precision_is_that_of_the_call():
    for precision, dtype in (("double", jnp.float64), ("single", jnp.float32)):
        timed = _timing.prepare(simulators.FixedStep(DECAY, 1), MEMBERS, precision, batched=False)
        assert timed.answer.values["y"].dtype == dtype
        assert isinstance(timed.answer, data.Solution)
