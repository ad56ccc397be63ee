"""The command line: every command works, and says in one line what is wrong with what it was given."""

import csv
import errno
import io
import json
import math
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from emulax.__main__ import main
from emulax.pipelines._members import members_from_csv


class Answer:
    """What a command left: exit code, standard output, standard error."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def emulax(capsys):
    """Run a command in this process."""

    def call(*arguments: object) -> Answer:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        return Answer(caught.value.code, *capsys.readouterr())  # type: ignore[arg-type]

    return call


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder in which `emulax new tiny --simulator` and `emulax run tiny.toml` were done."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (["new", "tiny", "--simulator"], ["run", "tiny.toml"]):
            with pytest.raises(SystemExit) as caught:
                main(arguments)
            assert caught.value.code == 0
    return folder


@pytest.fixture
def inside(project, monkeypatch):
    monkeypatch.chdir(project)
    return project


def test_version_and_help_start_at_once():
    script = (
        "import sys; from emulax.__main__ import main\ntry: main(sys.argv[1:])\nfinally: print('jax' in sys.modules)"
    )
    for option, expected in (("--version", f"emulax {version('emulax')}"), ("--help", "Usage: emulax")):
        done = subprocess.run([sys.executable, "-c", script, option], capture_output=True, text=True, check=True)
        assert done.stdout.strip().startswith(expected)
        assert done.stdout.split()[-1] == "False"


@pytest.mark.parametrize(
    "command", ["run", "simulate", "train", "validate", "list", "describe", "new", "show", "predict"]
)
def test_every_command_has_help(emulax, command):
    answer = emulax(command, "--help")
    assert answer.code == 0
    assert answer.out.startswith(f"Usage: emulax {command}")


def test_no_command_shows_the_commands(emulax):
    answer = emulax()
    assert answer.code == 0
    assert "predict" in answer.out


def test_list(emulax):
    answer = emulax("list")
    assert answer.code == 0
    assert re.search(r"^  lotka_volterra +Lotka-Volterra: du/dt = ", answer.out, re.MULTILINE)
    assert re.search(r"^  MLP +Multilayer perceptron", answer.out, re.MULTILINE)
    found = json.loads(emulax("list", "--json").out)
    assert set(found) == {"simulators", "surrogates"}
    assert "decay" in found["simulators"]


def test_describe(emulax, inside):
    lines = emulax("describe", "lotka_volterra").out
    assert "du/dt = (α - β v) u" in lines
    assert re.search(r"alpha +0.294 to 0.8, uniform +1/year", lines)
    assert "times      21 from 1900 to 1920 year" in lines
    assert "doi:10.1021/ja01453a010" in lines
    assert "width = 64" in emulax("describe", "MLP").out
    own = json.loads(emulax("describe", "tiny.py:tiny", "--json").out)
    assert [(p["name"], p["unit"]) for p in own["parameters"]] == [("k", "1/s"), ("y0", "mol/m3")]
    assert "GaussianRandomField" not in emulax("describe", "burgers").out


def test_new_writes_files_that_say_what_they_are(inside):
    assert "# " in (inside / "tiny.toml").read_text()
    assert "def vector_field" in (inside / "tiny.py").read_text()
    assert (inside / "runs/tiny/report.html").exists()


def test_run_again_redoes_nothing_and_shows_the_table(emulax, inside):
    answer = emulax("run", "tiny.toml")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        f"{step}: up to date"
        for step in ("simulate training", "simulate calibration", "simulate test", "train", "validate", "report")
    ]
    for label in ("members", "failures", "seconds", "error", "coverage", "surrogate", "report"):
        assert re.search(rf"^\W*{label}\b", answer.out, re.MULTILINE), answer.out
    assert 'pipelines.load_guarded("runs/tiny")' in answer.out


def test_run_quietly_and_as_json(emulax, inside):
    answer = emulax("run", "tiny.toml", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    for arguments in (("--json", "run", "tiny.toml"), ("run", "--json", "tiny.toml")):
        found = json.loads(emulax(*arguments).out)
        assert found["members"] == {"training": 256, "calibration": 128, "test": 256}
        assert found["redone"] == {}


@pytest.mark.parametrize("command", ["simulate", "train", "validate"])
def test_the_stages_one_by_one(emulax, inside, command):
    answer = emulax(command, "tiny.toml", "--json", "--devices", 1)
    assert answer.code == 0
    assert json.loads(answer.out)["redone"] == {}


def test_show_is_the_final_table(emulax, inside):
    assert emulax("show", "runs/tiny").out == emulax("run", "tiny.toml").out
    assert json.loads(emulax("show", "runs/tiny", "--json").out)["failures"]["test"] == {}


def test_a_title_from_the_run_file_is_in_the_report(inside):
    assert "Tiny: first-order decay" in (inside / "runs/tiny/report.html").read_text()


SURROGATE = "runs/tiny/surrogate.emx"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predict_one_member(emulax, inside):
    answer = emulax("predict", SURROGATE, "--param", "k=0.5", "--param", "y0=1.0")
    assert (answer.code, answer.err) == (0, "")
    rows = table(answer.out)
    assert list(rows[0]) == ["member", "k", "y0", "time", "y", "y_error", "status", "source", "bound"]
    assert [float(row["time"]) for row in rows] == pytest.approx([0.1 * i for i in range(21)])
    assert all(row["status"] == "ok" and row["source"] == "surrogate" for row in rows)
    assert all(float(row["y_error"]) > 0 for row in rows)
    exact = [math.exp(-0.5 * float(row["time"])) for row in rows]
    assert [float(row["y"]) for row in rows] == pytest.approx(exact, rel=0.05)


def test_predict_a_file_of_members_guarded(emulax, inside):
    Path("members.csv").write_text("y0,k\n1.0,0.5\n1.0,5.0\n")
    answer = emulax("predict", SURROGATE, "--input", "members.csv", "--guard", "--output", "answers.csv")
    assert (answer.code, answer.out) == (0, "")
    last = [row for row in table(Path("answers.csv").read_text()) if float(row["time"]) == 2.0]
    assert [row["source"] for row in last] == ["surrogate", "solver"]
    assert float(last[1]["y"]) == pytest.approx(math.exp(-10.0), rel=1e-3)
    assert last[1]["y_error"] == "nan"


def test_predict_outside_the_domain_warns(emulax, inside):
    answer = emulax("predict", SURROGATE, "--param", "k=5.0", "--param", "y0=1.0", "--json")
    assert "warning: 1 of 1 members lie outside the training domain (members 0)" in answer.err
    assert len(json.loads(answer.out)) == 21


def test_fields_are_columns_with_numbers(tmp_path):
    path = tmp_path / "fields.csv"
    path.write_text("u0[0],u0[1],nu,u0[2]\n1,2,0.1,3\n4,5,0.2,6\n")
    members = members_from_csv(path)
    assert members["u0"].tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert members["nu"].tolist() == [0.1, 0.2]
    path.write_text("u0[0],u0[2]\n1,2\n")
    with pytest.raises(ValueError, match=r"expected the columns u0\[0\] to u0\[1\], one for each point"):
        members_from_csv(path)


def test_predict_to_netcdf(emulax, inside):
    import xarray

    assert emulax("predict", SURROGATE, "--param", "k=0.5", "--param", "y0=1.0", "--output", "answers.nc").code == 0
    with xarray.open_dataset("answers.nc", engine="h5netcdf") as answers:
        assert answers["y"].dims == ("member", "time")
        assert answers["y"].attrs["units"] == "mol/m3"
        assert answers["y_error"].shape == (1, 21)
        assert answers["k"].values.tolist() == [0.5]


RUN_FILE_FAULTS = [
    (["none.toml"], "none.toml: expected a run file, found nothing; `emulax new NAME` writes one"),
    (["."], ".: expected a run file, found a folder"),
    (["syntax.toml"], "syntax.toml: line 2, column 8: expected TOML: invalid value"),
    (["wrong.toml"], 'wrong.toml: design.training: expected a whole number >= 8, got "many"'),
    (["tiny.toml", "--devices", "0"], "--devices: expected a whole number from 1 to 256, got 0"),
    (
        ["tiny.toml", "--devices", "64"],
        r"--devices: expected at most 4, the number of cpu devices that JAX has; got 64",
    ),
    (["tiny.toml", "--engine", "fast"], "engine: expected one of auto, lanes, plain, got 'fast'."),
    (["tiny.toml", "--seed", "-1"], "tiny.toml: seed: expected a whole number >= 0 and <= 1000000000, got -1"),
    ([], "Missing argument 'FILE'; see `emulax {command} --help`"),
]


@pytest.mark.parametrize("command", ["run", "simulate", "train", "validate"])
@pytest.mark.parametrize(("arguments", "line"), RUN_FILE_FAULTS)
def test_run_files_that_cannot_be_meant(emulax, inside, command, arguments, line):
    Path("syntax.toml").write_text('name = "a"\nseed = = 3\n')
    Path("wrong.toml").write_text('name = "a"\n[simulator]\nname = "decay"\n[design]\ntraining = "many"\n')
    answer = emulax(command, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"emulax: {line}\n".replace("{command}", command)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["list", "simulators"], "Got unexpected extra argument.*; see `emulax list --help`"),
        (["list", "--jsn"], "No such option: --jsn.*"),
        (["list", "--seed"], "No such option: --seed.*"),
        (["--devices", "0", "list"], "--devices: expected a whole number from 1 to 256, got 0"),
        (["list", "-x"], "No such option: -x; see `emulax list --help`"),
        (["lst"], "No such command 'lst'.*; see `emulax --help`"),
        (["describe"], "Missing argument 'NAME'; see `emulax describe --help`"),
        (
            ["describe", "deacy"],
            'unknown name "deacy"; did you mean "decay"\\? expected one of burgers, .*"file.py:object"',
        ),
        (["describe", ""], 'unknown name ""; expected one of .*'),
        (["describe", "none.py:x"], "expected a Python file at .*none.py, found nothing"),
        (
            ["describe", "tiny.py:vector_field"],
            'expected "tiny.py:vector_field" to be a simulator or a function that returns one; it needs t, y, p: name '
            '"tiny.py:tiny", or give its arguments in simulator.options',
        ),
        (["describe", "tiny.py:tny"], 'tiny.py has no object "tny"; did you mean "tiny"\\? .*'),
        (["new"], "Missing argument 'NAME'; see `emulax new --help`"),
        (["new", "tiny"], "tiny.toml exists already; choose another name or remove it"),
        (["new", "a/b"], 'expected a name of letters, digits and _, not beginning with a digit; got "a/b"'),
        (["new", "2d"], 'expected a name of letters, digits and _, not beginning with a digit; got "2d"'),
        (["new", "class", "--simulator"], '.* for a simulator, got "class", a word of Python; choose another name'),
        (["new", "json", "--simulator"], '.* for a simulator, got "json", a Python module; choose another name'),
        (["new", "numpy", "--simulator"], '.* for a simulator, got "numpy", a Python module; choose another name'),
        (["new", "jnp", "--simulator"], '.* for a simulator, got "jnp", which its file uses; choose another name'),
        (["new", "a", "b"], "Got unexpected extra argument.*"),
        (["show"], "Missing argument 'RUN_FOLDER'; see `emulax show --help`"),
        (["show", "runs/none"], "runs/none: expected the folder of a run, found nothing"),
        (
            ["show", "tiny.toml"],
            "tiny.toml: expected the folder of a run, found a file; its results go to runs/tiny: emulax show runs/tiny",
        ),
        (["show", SURROGATE], f"{SURROGATE}: expected the folder of a run, found a file"),
        (["show", "runs"], "runs: expected the folder of a run, found no run.json in it"),
        (["show", "runs/tiny", "--quite"], "No such option: --quite.*"),
        (["predict", "none.emx", "--param", "k=1"], "none.emx: expected a surrogate file .*, found nothing"),
        (
            ["predict", "runs/tiny", "--param", "k=1"],
            "runs/tiny: expected a surrogate file .*; try runs/tiny/surrogate.emx",
        ),
        (["predict", "tiny.toml", "--param", "k=1"], "tiny.toml: expected a surrogate.*"),
        (["predict", SURROGATE], "expected either --param NAME=VALUE, once for each parameter, or --input FILE.csv"),
        (["predict", SURROGATE, "--param", "k"], '--param: expected NAME=VALUE, such as k=0.5; got "k"'),
        (["predict", SURROGATE, "--param", "k=fast"], '--param k: expected a number, got "fast"'),
        (["predict", SURROGATE, "--param", "k=nan"], '--param k: expected a finite number, got "nan"'),
        (["predict", SURROGATE, "--param", "k=1", "--param", "k=2"], "--param: k is given twice; .*"),
        (["predict", SURROGATE, "--param", "kk=0.5"], "kk: unknown parameter; .*expected one of k, y0"),
        (["predict", SURROGATE, "--param", "k=0.5"], "y0: expected a value between 0.5 and 2 mol/m3, found nothing"),
        (
            ["predict", SURROGATE, "--input", "none.csv"],
            "none.csv: expected a CSV file with one column per parameter, .*",
        ),
        (["predict", SURROGATE, "--input", "short.csv"], "short.csv: line 3: expected 2 values, got 1"),
        (["predict", SURROGATE, "--input", "words.csv"], 'words.csv: line 2, column y0: expected a number, got "x"'),
        (
            ["predict", SURROGATE, "--param", "k=1", "--output", "a.xls"],
            "a.xls: expected a file that ends with .csv or .nc .*",
        ),
        (["predict", SURROGATE, "--param", "k=1", "--output", "no/a.nc"], "no/a.nc: expected the folder no to exist"),
        (
            ["predict", SURROGATE, "--param", "k=0.5", "--param", "y0=1", "--run", "runs/tiny"],
            "--run names the solver .*",
        ),
        (
            ["predict", SURROGATE, "--param", "k=0.5", "--param", "y0=1", "--guard", "--run", "."],
            ".: expected the folder of a run .*",
        ),
    ],
)
def test_what_cannot_be_meant_is_said_in_one_line(emulax, inside, arguments, line):
    Path("short.csv").write_text("k,y0\n0.5,1\n0.5\n")
    Path("words.csv").write_text("k,y0\n0.5,x\n")
    answer = emulax(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(f"emulax: {line}\n", answer.err), answer.err


def test_every_problem_of_a_run_file_has_a_line(emulax, inside):
    Path("two.toml").write_text('name = "a"\nsed = 1\n[simulator]\nname = "decay"\nrtol = -1\n')
    lines = emulax("run", "two.toml").err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("emulax: two.toml: ") for line in lines)


def test_the_unexpected_is_one_line_and_a_traceback_on_request(emulax, inside, monkeypatch):
    from emulax import pipelines

    def fail(*_, **__):
        raise RuntimeError("what?\nmore")

    monkeypatch.setattr(pipelines, "summarise", fail)
    answer = emulax("show", "runs/tiny")
    assert answer.code == 1
    assert answer.err == "emulax: unexpected RuntimeError: what?; `emulax --debug show runs/tiny` shows where\n"
    with pytest.raises(RuntimeError, match="what"):
        main(["--debug", "show", "runs/tiny"])


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, r"\[Errno 28\] No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "a.json"), 2, "a.json: Permission denied"),
    ],
)
def test_what_the_system_says_is_one_line(emulax, inside, monkeypatch, error, code, line):
    from emulax import pipelines

    def fail(*_):
        raise error

    monkeypatch.setattr(pipelines, "summarise", fail)
    answer = emulax("show", "runs/tiny")
    assert (answer.code, answer.out) == (code, "")
    assert re.fullmatch(f"emulax: {line}\n", answer.err), answer.err


def test_members_that_are_no_numbers_have_no_answer(inside):
    from emulax import pipelines

    with pytest.warns(UserWarning, match=r"1 of 3 members have no answer \(members 1\)\. bad_parameter: "):
        answers = pipelines.predict(SURROGATE, {"k": [0.5, math.nan, 0.7], "y0": [1.0, 1.0, 1.0]})
    assert answers.ok.tolist() == [True, False, True]
    with pytest.raises(ValueError, match=r"members: expected a mapping .* k, y0, got \[0.5\]"):
        pipelines.predict(SURROGATE, [0.5])


def test_a_fault_below_is_one_line(emulax, inside):
    text = Path("tiny.toml").read_text()
    Path("stiff.toml").write_text(
        text.replace('"tiny" ', '"stiff"').replace("[simulator]", "[simulator]\nmax_steps = 1")
    )
    answer = emulax("simulate", "stiff.toml")
    assert answer.code == 2
    assert answer.err.splitlines()[-1].startswith("emulax: all 256 training members failed with max_steps.")
