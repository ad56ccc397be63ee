"""A run: what it leaves behind, and what is done again when something changes (case U04)."""

import dataclasses
import errno
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from emulax import data, pipelines, surrogates
from emulax.pipelines import _stages
from emulax.pipelines._final_table import table_rows
from emulax.pipelines._lock import locked
from emulax.pipelines._progress import SilentDisplay
from emulax.simulators import solve_ensemble

STEPS = ["simulate training", "simulate calibration", "simulate test", "train", "validate", "report"]

RUN_FILE = """\
name = "tiny"
seed = 7
[simulator]
name = "decay.py:decay"
rtol = 1e-6
solver = "Tsit5"
[simulator.parameters.k]
lower = 0.2
upper = 1.0
[design]
training = 32
calibration = 32
test = 32
[surrogate]
width = 8
depth = 1
[training]
steps = 20
batch_size = 8
[validation]
speed = false
[report]
title = "One title"
"""

SIMULATOR = """\
import jax.numpy as jnp
from emulax import data, simulators

decay = simulators.ODESimulator(
    vector_field=lambda t, y, p: -p["k"] * y,  # a comment
    initial_state=lambda p: jnp.stack([p["y0"]]),
    parameters=data.ParameterSpace(k=data.Uniform(0.1, 1.0), y0=data.Uniform(0.5, 2.0)),
    times=jnp.linspace(0.0, 2.0, 5),
    outputs=("y",),
)
"""


def run(folder: Path, **options) -> pipelines.RunResult:
    return pipelines.run(folder / "tiny.toml", **options)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a run file, a simulator and the finished run."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "tiny.toml").write_text(RUN_FILE)
    (folder / "decay.py").write_text(SIMULATOR)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = run(folder)
    assert list(result.redone) == STEPS
    return folder


@pytest.fixture
def again(finished, tmp_path, monkeypatch):
    """A copy of it to change, as the working folder."""
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def quick(again, monkeypatch):
    """The same, with the work of a step replaced by its old result, freshly written: what is done again is tested, not
    how."""
    ensembles = {path.stem: data.load_ensemble(path) for path in (again / "runs/tiny/ensembles").iterdir()}
    by_seed = {ensemble.design.seed: ensemble for ensemble in ensembles.values()}
    surrogate = surrogates.load(again / "runs/tiny/surrogate.emx")
    report = pipelines.Report.load(again / "runs/tiny/report.json")

    def anew(**record):
        return record | {"again": os.urandom(4).hex()}

    def solve(simulator, design, **_):
        ensemble = by_seed.get(design.seed, ensembles["test"])
        return dataclasses.replace(ensemble, metadata=anew(**ensemble.metadata))

    monkeypatch.setattr(_stages, "solve_ensemble", solve)
    monkeypatch.setattr(
        _stages, "fit", lambda *_, **__: dataclasses.replace(surrogate, provenance=anew(**surrogate.provenance))
    )
    monkeypatch.setattr(_stages, "validate", lambda *_, **__: pipelines.Report(anew(**report.content)))
    return again


def test_a_run_leaves_every_file(finished):
    folder = finished / "runs/tiny"
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    ensembles = {f"ensembles/{name}.h5" for name in ("train", "calibration", "test")}
    assert left == ensembles | {
        "run.json", "state.json", "log.jsonl", "surrogate.emx", "report.json", "report.html", ".lock",
    }  # fmt: skip
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "finished"] == STEPS
    assert all(event["seconds"] >= 0 for event in events if event["event"] == "finished")


def test_the_three_designs_are_independent_and_as_documented(finished):
    found = {n: data.load_ensemble(finished / f"runs/tiny/ensembles/{n}.h5") for n in ("train", "calibration", "test")}
    space = found["train"].space
    assert (found["train"].design.method, found["train"].design.seed) == ("sobol", 21)
    for name, seed in (("calibration", 22), ("test", 23)):
        expected = data.sample(space, 32, method="random", seed=seed)
        assert found[name].design["k"].tolist() == expected["k"].tolist()
    assert 0.2 <= found["train"].design["k"].min() <= 0.23
    y = found["test"].values["y"][:, -1]
    assert y == pytest.approx(expected["y0"] * _exp(-2 * expected["k"]), rel=1e-5)


def _exp(x):
    import numpy as np

    return np.exp(x)


def test_nothing_changed_redoes_nothing(quick):
    result = run(quick)
    assert (result.redone, list(result.kept)) == ({}, STEPS)


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("tiny.toml", "rtol = 1e-6", "rtol = 1e-8", "simulator.rtol: 1e-06 -> 1e-08"),
        ("tiny.toml", "upper = 1.0", "upper = 1.5", "simulator.parameters.k.upper: 1.0 -> 1.5"),
        ("tiny.toml", '"Tsit5"', '"Heun"', "simulator.solver: Tsit5 -> Heun"),
        ("tiny.toml", "rtol = 1e-6", 'rtol = 1e-6\nprecision = "single"', "simulator.precision: double -> single"),
        ("tiny.toml", "rtol = 1e-6", 'rtol = 1e-6\nengine = "plain"', "simulator.engine: auto -> plain"),
        ("decay.py", '-p["k"] * y', '-1.5 * p["k"] * y', "simulator.fingerprint: "),
    ],
)
def test_what_changes_the_solutions_redoes_everything_and_is_named(quick, file, old, new, reason):
    edit(quick / file, old, new)
    result = run(quick)
    assert list(result.redone) == STEPS
    for reasons in result.redone.values():
        assert len(reasons) == 1
        assert reasons[0].startswith(reason)
    assert run(quick).redone == {}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tiny.toml", "[design]", "# only a comment\n[design]"),
        ("tiny.toml", "training = 32\ncalibration = 32", "calibration = 32\ntraining = 32"),
        ("tiny.toml", "rtol = 1e-6", "rtol = 0.000001\natol = 1e-9  # the default, written down"),
        ("tiny.toml", "[report]", "[guard]\ntolerance = 0.5\n[report]"),
        ("decay.py", "# a comment", "# another comment"),
    ],
)
def test_what_changes_no_number_redoes_nothing(quick, file, old, new):
    edit(quick / file, old, new)
    assert run(quick).redone == {}


class Notes(SilentDisplay):
    """Keeps what it is told."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_another_tolerance_of_the_guard_is_told_and_taken(quick):
    edit(quick / "tiny.toml", "[report]", "[guard]\ntolerance = 5.0\nrisk = 0.2\n[report]")
    display = Notes()
    assert run(quick, display=display).redone == {}
    told = "; load_guarded and `emulax predict --guard` take it, nothing is done again"
    assert display.notes[:2] == [f"guard.tolerance: 0.02 -> 5.0{told}", f"guard.risk: 0.05 -> 0.2{told}"]
    guarded = pipelines.load_guarded(quick / "runs/tiny")
    assert (guarded.tolerance, guarded.risk) == (5.0, 0.2)


def test_one_run_at_a_time_in_one_folder(quick):
    message = rf"found one under way \(process {os.getpid()}\); wait for it"
    with locked(quick / "runs/tiny"), pytest.raises(ValueError, match=message):
        run(quick)
    assert run(quick).redone == {}


def test_a_file_system_without_locks_holds_nothing(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path), locked(tmp_path):
        pass


def test_an_engine_of_the_caller_is_a_change(quick):
    redone = run(quick, until="simulate", engine="plain").redone
    assert redone == {step: ["simulator.engine: auto -> plain"] for step in STEPS[:3]}
    with pytest.raises(ValueError, match="engine: expected one of auto, lanes, plain, got 'fast'"):
        run(quick, engine="fast")


def test_who_solved_the_members_is_on_record(again, monkeypatch):
    def solve(*arguments, **options):
        ensemble = solve_ensemble(*arguments, **options)
        known = {"solvers": {"Tsit5": 29, "Rodas5P": 3}, "retried": {"Rodas5P": [1, 30]}}
        return dataclasses.replace(ensemble, metadata=ensemble.metadata | known)

    monkeypatch.setattr(_stages, "solve_ensemble", solve)
    summary = run(again, until="simulate", seed=8).summary
    assert summary["solvers"]["training"] == {"Tsit5": 29, "Rodas5P": 3}
    assert dict(table_rows(summary))["solved by"] == "87 Tsit5, 9 Rodas5P (6 retried)"


def test_a_record_without_solvers_is_shown_without(again):
    state = json.loads((again / "runs/tiny/state.json").read_text())
    for step in STEPS[:3]:
        del state["steps"][step]["facts"]["solvers"], state["steps"][step]["facts"]["retried"]
    (again / "runs/tiny/state.json").write_text(json.dumps(state))
    summary = pipelines.summarise(again / "runs/tiny")
    assert (summary["solvers"], summary["retried"]) == ({}, {})
    assert "solved by" not in dict(table_rows(summary))


def test_a_mistake_that_shows_while_solving_has_a_line(again):
    edit(again / "tiny.toml", "rtol = 1e-6", 'rtol = 1e-6\nprecision = "single"')
    edit(
        again / "decay.py",
        "decay = ",
        "def field(t, y, p):\n    if y.dtype != jnp.float64:\n        raise TypeError('double only')\n"
        "    return -p['k'] * y\n\n\ndecay = ",
    )
    edit(again / "decay.py", 'lambda t, y, p: -p["k"] * y', "field")
    with pytest.raises(ValueError, match=r"^decay\.py: line 6: TypeError: double only$"):
        run(again)


def test_reordered_sections_redo_nothing(quick):
    head, *sections = RUN_FILE.split("\n[")
    (quick / "tiny.toml").write_text("\n[".join([head, *reversed(sections)]))
    assert run(quick).redone == {}


def test_a_change_gives_the_numbers_of_the_new_settings(again):
    edit(again / "tiny.toml", "rtol = 1e-6", "rtol = 1e-8")
    edit(again / "tiny.toml", "upper = 1.0", "upper = 2.0")
    before = data.load_ensemble(again / "runs/tiny/ensembles/train.h5")
    result = run(again)
    after = data.load_ensemble(again / "runs/tiny/ensembles/train.h5")
    assert list(result.redone) == STEPS
    assert result.redone["train"] == [
        "simulator.rtol: 1e-06 -> 1e-08",
        "simulator.parameters.k.upper: 1.0 -> 2.0",
    ]
    assert after.design["k"].max() > 1.9 > before.design["k"].max()
    assert after.metadata["numerics"]["rtol"] == 1e-8
    assert surrogates.load(again / "runs/tiny/surrogate.emx").parameters["k"].bounds == (0.2, 2.0)


def test_a_title_renders_the_report_again_and_nothing_else(quick):
    edit(quick / "tiny.toml", "One title", "Another title")
    assert run(quick).redone == {"report": ["report.title: One title -> Another title"]}
    assert "Another title" in (quick / "runs/tiny/report.html").read_text()


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        ("test = 32", "test = 40", ["simulate test", "validate", "report"]),
        ("steps = 20", "steps = 21", ["train", "validate", "report"]),
        ("speed = false", "speed = false\nlevel = 0.8", ["train", "validate", "report"]),
    ],
)
def test_only_what_builds_on_a_change_is_done_again(quick, old, new, steps):
    edit(quick / "tiny.toml", old, new)
    assert list(run(quick).redone) == steps


def test_a_seed_of_the_caller_is_a_change(quick):
    assert run(quick, until="simulate", seed=8).redone == {step: ["seed: 7 -> 8"] for step in STEPS[:3]}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "surrogate.emx is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "surrogate.emx was changed or damaged"),
    ],
)
def test_a_lost_file_is_made_again(quick, damage, reason):
    damage(quick / "runs/tiny/surrogate.emx")
    result = run(quick)
    assert result.redone["train"] == [reason]
    assert list(result.kept)[:3] == STEPS[:3]


def test_a_lost_record_redoes_everything(quick):
    (quick / "runs/tiny/state.json").write_text("{")
    assert list(run(quick).redone) == STEPS


def test_an_interrupted_run_keeps_finished_steps_and_goes_on(quick, monkeypatch):
    shutil.rmtree(quick / "runs")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_stages, "fit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(quick)
    assert not (quick / "runs/tiny/surrogate.emx").exists()
    result = run(quick)
    assert (list(result.kept), list(result.redone)) == (STEPS[:3], STEPS[3:])
    events = [json.loads(line)["event"] for line in (quick / "runs/tiny/log.jsonl").read_text().splitlines()]
    assert "interrupted" in events


def test_an_interrupted_change_is_still_named(quick, monkeypatch):
    edit(quick / "tiny.toml", "steps = 20", "steps = 30")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_stages, "fit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(quick)
    assert run(quick, until="train").redone == {"train": ["training.steps: 20 -> 30"]}


def test_members_that_all_fail_are_explained(again):
    edit(again / "tiny.toml", "rtol = 1e-6", "rtol = 1e-6\nmax_steps = 1")
    with pytest.raises(ValueError, match=r"all 32 training members failed with max_steps\. The solver ran out"):
        run(again, until="simulate")
    assert json.loads((again / "runs/tiny/log.jsonl").read_text().splitlines()[-1])["event"] == "failed"


def test_an_unknown_stage_is_refused(again):
    with pytest.raises(ValueError, match="until: expected one of simulate, train, validate, got 'trian'"):
        run(again, until="trian")


def test_a_stale_surrogate_is_no_result(quick):
    edit(quick / "tiny.toml", "rtol = 1e-6", "rtol = 1e-8")
    summary = run(quick, until="simulate").summary
    assert (summary["surrogate"], summary["validation"], summary["report"]) == (None, None, None)


def test_a_run_is_called_like_the_solver(again):
    with pytest.warns(UserWarning, match="no answer of this surrogate can be promised"):  # 20 steps are no training
        fast = pipelines.load_guarded(again / "runs/tiny")
    solution = fast.solve({"k": 50.0, "y0": 1.0})
    assert str(solution.source) == "solver"
    edit(again / "decay.py", '-p["k"] * y', '-2 * p["k"] * y')
    with pytest.raises(ValueError, match="fingerprint"):
        pipelines.load_guarded(again / "runs/tiny")
