"""The run file: what is accepted, and what is said about everything else."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest

from emulax import simulators
from emulax.pipelines._build import build_architecture, build_simulator, check_network
from emulax.pipelines._config import check, read_run_file, run_schema
from emulax.pipelines._problems import RunFileError

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
SMALL = {"name": "tiny", "simulator": {"name": "decay"}}


def with_key(path: str, value):
    """The smallest run file with one key more, given by its path."""
    content = json.loads(json.dumps(SMALL))
    *tables, key = path.split("|")
    inner = content
    for table in tables:
        inner = inner.setdefault(table, {})
    inner[key] = value
    return content


def refusal(content) -> list[str]:
    """The lines that refuse a run file, from its keys to the objects that they name."""
    with pytest.raises(RunFileError) as caught:
        settings = check(content, "tiny.toml")
        build_simulator(settings, HERE, "tiny.toml")
        build_architecture(settings, "tiny.toml")
    return str(caught.value).splitlines()


def test_defaults_are_those_of_the_documentation():
    settings = check(SMALL, "tiny.toml")
    assert (settings.seed, settings.design.training, settings.design.method) == (0, 4096, "sobol")
    assert (settings.design.calibration, settings.design.test) == (512, 1024)
    assert (settings.guard.tolerance, settings.guard.risk) == (0.02, 0.05)
    assert settings.simulator.precision == "double"


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("design|training", "many", 'design.training: expected a whole number >= 8, got "many"'),
        ("design|training", 4096.0, "design.training: expected a whole number >= 8, got 4096.0"),
        ("design|training", True, "design.training: expected a whole number >= 8, got true"),
        ("design|test", 0, "design.test: expected a whole number >= 8, got 0"),
        (
            "design|trainng",
            64,
            'design.trainng: unknown key; did you mean "training"? expected one of training, method, calibration, test',
        ),
        (
            "design|method",
            "sobl",
            'design.method: expected one of "sobol", "latin_hypercube", "halton", "random", got "sobl"',
        ),
        ("name", "a/b", 'name: expected a name of letters, digits, and any of _ . -, got "a/b"'),
        ("seed", -1, "seed: expected a whole number >= 0 and <= 1000000000, got -1"),
        ("simulator", "decay", 'simulator: expected a table, got "decay"'),
        ("simulator|precision", "half", 'simulator.precision: expected one of "double", "single", got "half"'),
        ("simulator|rtol", float("nan"), "simulator.rtol: expected a number > 0, got NaN"),
        ("training|validation", 1, "training.validation: expected a number >= 0 and < 1, got 1"),
        ("training|coarse", [1, 0.5], "training.coarse: expected [factor >= 2, 0 < share < 1], got [1, 0.5]"),
        ("validation|speed", "yes", 'validation.speed: expected true or false, got "yes"'),
        ("guard|risk", 1.0, "guard.risk: expected a number > 0 and < 1, got 1.0"),
        (
            "simulator|parameters|k",
            {"lower": 2.0, "upper": 1.0},
            "simulator.parameters.k: expected lower < upper, got lower = 2, upper = 1; swap them",
        ),
    ],
)
def test_a_wrong_key_is_named_with_what_was_expected(path, value, line):
    assert refusal(with_key(path, value)) == [f"tiny.toml: {line}"]


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (
            "simulator|name",
            "decaay",
            r'simulator.name: unknown simulator "decaay"; did you mean "decay"\? .*, or "file.py:object"',
        ),
        (
            "simulator|solver",
            "Tsit6",
            r'simulator.solver: expected "auto" or a solver of diffrax or emulax, got "Tsit6"; did you mean "Tsit5"\?',
        ),
        (
            "simulator|solver",
            "HalfSolver",
            'simulator.solver: expected "auto" or a solver of diffrax or emulax, got "HalfSolver"; such as .*',
        ),
        ("simulator|solver", "AbstractERK", 'simulator.solver: expected "auto" or a solver .*, got "AbstractERK".*'),
        ("simulator|engine", "fast", 'simulator.engine: expected one of "auto", "lanes", "plain", got "fast"'),
        (
            "simulator|parameters|kk",
            {"lower": 0.2},
            "simulator.parameters.kk: unknown key; .*expected one of k, y0",
        ),
        (
            "simulator|parameters|k",
            {"lower": 2.0},
            "simulator.parameters.k: expected lower < upper, got lower=2.0, upper=1.0; swap them.",
        ),
        (
            "simulator|parameters|k",
            {"mean": 2.0},
            "simulator.parameters.k.mean: unknown key; expected one of lower, upper",
        ),
        (
            "simulator|parameters|k",
            {"distribution": "normal", "mean": 0.5},
            "simulator.parameters.k.std: expected a number, found nothing",
        ),
        ("simulator|options", {"timez": [0.0]}, 'simulator.options.timez: unknown key; did you mean "times"\\? .*'),
        ("surrogate|name", "MPL", r'surrogate.name: unknown architecture "MPL"; did you mean "MLP"\? .*'),
        ("surrogate|widht", 3, r'surrogate.widht: unknown key; did you mean "width"\? expected one of width, .*'),
        ("surrogate|width", "wide", 'surrogate.width: expected a whole number, got "wide"'),
    ],
)
def test_a_wrong_name_is_named_with_the_nearest_one(path, value, line):
    (found,) = refusal(with_key(path, value))
    assert re.fullmatch(f"tiny.toml: {line}", found), found


def test_every_problem_has_a_line():
    content = with_key("design|training", "many") | {"sed": 3}
    assert len(refusal(content)) == 2


def test_step_and_tolerance_exclude_each_other():
    content = SMALL | {"simulator": {"name": "decay", "step": 0.1, "rtol": 1e-3}}
    assert refusal(content) == [
        "tiny.toml: simulator.step: expected either a fixed step or tolerances (rtol, atol), got both"
    ]


def test_settings_reach_the_simulator():
    content = SMALL | {
        "simulator": {
            "name": "decay",
            "solver": "Kvaerno5",
            "rtol": 1e-5,
            "max_steps": 99,
            "options": {"times": [0.0, 1.0]},
            "parameters": {"k": {"upper": 3.0}, "y0": {"distribution": "uniform"}},
        }
    }
    simulator = build_simulator(check(content, "tiny.toml"), HERE, "tiny.toml")
    assert simulator.numerics.describe() == {"solver": "Kvaerno5", "rtol": 1e-5, "atol": 1e-9, "max_steps": 99}
    assert simulator.times.tolist() == [0.0, 1.0]
    assert [
        (p["name"], p["distribution"], p["lower"], p["upper"], p["unit"]) for p in simulator.parameters.to_json()
    ] == [
        ("k", "uniform", 0.1, 3.0, "1/s"),
        ("y0", "uniform", 0.5, 2.0, "mol/m3"),
    ]


def test_a_missing_file_and_bad_toml_are_named(tmp_path):
    with pytest.raises(RunFileError, match=r"none.toml: expected a run file, found nothing; `emulax new NAME`"):
        read_run_file(tmp_path / "none.toml")
    with pytest.raises(RunFileError, match="expected a run file, found a folder"):
        read_run_file(tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_text('name = "a"\nseed = = 3\n')
    with pytest.raises(RunFileError, match=r"^bad.toml: line 2, column 8: expected TOML: invalid value$"):
        read_run_file(bad)
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunFileError, match="expected a text file in UTF-8"):
        read_run_file(bad)


# posteriordb, hudson_lynx_hare-lotka_volterra: means and standard deviations
POSTERIOR = {
    "alpha": (0.546864, 0.0631),
    "beta": (0.0277473, 0.00415),
    "gamma": (0.800095, 0.0894),
    "delta": (0.0240859, 0.00353),
    "u0": (34.0352, 2.917),
    "v0": (5.93590, 0.531),
}


def test_the_lynx_hare_example_covers_the_posterior_and_is_the_simulators_own_box():
    path = EXAMPLES / "lynx_hare.toml"
    simulator = build_simulator(read_run_file(path), path.parent, path.name)
    assert simulator.parameters == simulators.LotkaVolterra().parameters
    for name, (mean, std) in POSTERIOR.items():
        lower, upper = simulator.parameters[name].bounds
        assert 0 < lower <= mean - 4 * std
        assert upper >= mean + 4 * std


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_accepted(path):
    settings = read_run_file(path)
    simulator = build_simulator(settings, path.parent, path.name)
    check_network(build_architecture(settings, path.name), simulator, path.name)


def test_an_architecture_that_cannot_serve_the_simulator_is_refused_before_anything_is_solved():
    settings = check(SMALL | {"surrogate": {"name": "FNO"}}, "tiny.toml")
    simulator = build_simulator(settings, HERE, "tiny.toml")
    with pytest.raises(RunFileError, match=r"^tiny.toml: surrogate: FNO: expected at least one field"):
        check_network(build_architecture(settings, "tiny.toml"), simulator, "tiny.toml")


def test_the_shipped_schema_is_that_of_the_models():
    shipped = resources.files("emulax.pipelines").joinpath("schema/run.schema.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == run_schema()


@pytest.mark.parametrize("name", ["auto", "Tsit5", "Kvaerno5", "Rodas5P", "Euler"])
def test_a_solver_is_named(tmp_path, name):
    content = with_key("simulator|solver", name)
    content["simulator"] |= {"step": 0.1} if name == "Euler" else {}
    made = build_simulator(check(content, "tiny.toml"), tmp_path, "tiny.toml")
    assert made.numerics.describe()["solver"] == name
