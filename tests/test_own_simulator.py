"""A simulator in a file of the user's own: what is accepted, and what is said about everything else."""

import pytest

from emulax.pipelines._build import build_simulator
from emulax.pipelines._config import check
from emulax.pipelines._problems import RunFileError

SMALL = {"name": "tiny", "simulator": {"name": "decay"}}

MINE = """
from emulax import data, simulators
made = simulators.Decay(parameters=data.ParameterSpace(k=data.Uniform(1.0, 2.0), y0=data.Uniform(1.0, 2.0)))
def make(points: int = 3):
    return simulators.Decay(times=[float(i) for i in range(points)])
number = 3
"""


@pytest.mark.parametrize(
    ("text", "name", "options", "line"),
    [
        (
            MINE,
            "mine.py:mde",
            {},
            'simulator.name: mine.py has no object "mde"; did you mean "made"? expected one of made',
        ),
        (
            MINE,
            "mine.py:number",
            {},
            "simulator.name: expected mine.py:number to be a simulator or a function that returns one, got int",
        ),
        (MINE, "mine.py:make", {"points": "x"}, 'simulator.options.points: expected a whole number, got "x"'),
        (
            MINE,
            "mine.py:made",
            {"points": 3},
            'simulator.options: expected none, since "mine.py:made" is a finished simulator; '
            "name a function that returns one",
        ),
        (
            "x = 1\ny = nothing\n",
            "mine.py:x",
            {},
            "simulator.name: mine.py: line 2: NameError: name 'nothing' is not defined; define or import it",
        ),
        ("def f(:\n", "mine.py:x", {}, "simulator.name: mine.py: line 1: invalid syntax"),
        ("x = {}['a']\n", "mine.py:x", {}, "simulator.name: mine.py: line 1: KeyError: 'a'"),
        (
            "import nowhere\n",
            "mine.py:x",
            {},
            "simulator.name: mine.py: line 1: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("import helper\n", "mine.py:x", {}, "simulator.name: helper.py: line 2: ZeroDivisionError: division by zero"),
        (
            "raise SystemExit(3)\n",
            "mine.py:x",
            {},
            "simulator.name: mine.py: expected a file that defines a simulator, but it ends the program",
        ),
        (
            "def make():\n    return {}['a']\n",
            "mine.py:make",
            {},
            "simulator.name: mine.py: line 2: KeyError: 'a'",
        ),
        (
            MINE + "def field(t, y, p):\n    return y\n",
            "mine.py:field",
            {},
            'simulator.name: expected "mine.py:field" to be a simulator or a function that returns one; it needs '
            't, y, p: name "mine.py:made", or give its arguments in simulator.options',
        ),
    ],
)
def test_what_is_wrong_with_a_file_of_ones_own_is_named(tmp_path, text, name, options, line):
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "helper.py").write_text("one = 1\none / 0\n")
    settings = check(SMALL | {"simulator": {"name": name, "options": options}}, "tiny.toml")
    with pytest.raises(RunFileError) as caught:
        build_simulator(settings, tmp_path, "tiny.toml")
    assert str(caught.value) == f"tiny.toml: {line}"


def test_a_simulator_of_ones_own_is_made(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    settings = check(SMALL | {"simulator": {"name": "mine.py:make", "options": {"points": 5}}}, "tiny.toml")
    assert build_simulator(settings, tmp_path, "tiny.toml").times.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(RunFileError, match=r"expected a Python file at .*other.py, found nothing"):
        build_simulator(check(SMALL | {"simulator": {"name": "other.py:x"}}, "tiny.toml"), tmp_path, "tiny.toml")


SYSTEM = """\
import math

import jax.numpy as jnp
import numpy as np
from emulax import data, simulators


def field(t, y, p):
    return {field}


def start(p):
    return {start}


system = simulators.ODESimulator(
    field, start, data.ParameterSpace(k=data.Uniform(0.1, 1.0)), [0.0, 1.0], outputs={outputs}{more}
)
"""


def system(field='-p["k"] * y', start="jnp.ones(2)", outputs='("a", "b")', more=""):
    """A simulator file with a vector field on line 9 and an initial state on line 13."""
    return SYSTEM.format(field=field, start=start, outputs=outputs, more=more)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (dict(field='-p["kk"] * y'), "line 9: KeyError: there is no 'kk'; did you mean \"k\"? expected one of k"),
        (dict(field="-rate * y"), "line 9: NameError: name 'rate' is not defined; define or import it"),
        (
            dict(field='-math.exp(p["k"]) * y'),
            "line 9: ConcretizationTypeError: a value that JAX traces was used as a plain number: use jax.numpy, "
            "not math or float()",
        ),
        (
            dict(field="y if y[0] > 0 else -y"),
            "line 9: TracerBoolConversionError: a value that JAX traces was used as true or false: write "
            "jnp.where, not if",
        ),
        (
            dict(field="np.exp(y)"),
            "line 9: TracerArrayConversionError: a value that JAX traces was given to numpy: use jax.numpy there",
        ),
        (
            dict(field="[-y[0], -y[1]]"),
            "line 8: vector_field: expected an array of shape (2,), as initial_state returns, got a list of 2; "
            "return jnp.stack([...])",
        ),
        (
            dict(field="None"),
            "line 8: vector_field: expected an array of shape (2,), as initial_state returns, got nothing",
        ),
        (
            dict(field="jnp.ones(3)"),
            "line 8: vector_field: expected an array of shape (2,), as initial_state returns, got an array of "
            "shape (3,)",
        ),
        (dict(start="'ab'"), "line 12: initial_state: could not convert string to float: 'ab'"),
        (
            dict(more=", observe=lambda t, y: {}"),
            "line 17: observe: expected a function of t, y, p, got one of (t, y)",
        ),
        (
            dict(more=", observe=lambda t, y, p: [y[0], y[1]]"),
            "line 17: observe: expected a dict of the outputs a, b, got a list of 2",
        ),
        (
            dict(outputs='{"a": "mol/m3", "b": data.Output()}'),
            "line 16: outputs: 'a': expected data.Output(unit=\"mol/m3\"), got 'mol/m3'",
        ),
        (
            dict(outputs='("a",)'),
            "outputs: expected one name for each of the 2 components of the state, got 1 (a); name them all or give "
            "`observe`",
        ),
    ],
)
def test_a_mistake_in_a_function_is_named_before_anything_is_solved(tmp_path, changes, line):
    (tmp_path / "mine.py").write_text(system(**changes))
    settings = check(SMALL | {"simulator": {"name": "mine.py:system"}}, "tiny.toml")
    with pytest.raises(RunFileError) as caught:
        build_simulator(settings, tmp_path, "tiny.toml")
    assert str(caught.value) == f"tiny.toml: simulator.name: mine.py: {line}"


def test_a_system_without_mistakes_is_accepted(tmp_path):
    (tmp_path / "mine.py").write_text(system())
    made = build_simulator(check(SMALL | {"simulator": {"name": "mine.py:system"}}, "tiny.toml"), tmp_path, "tiny.toml")
    assert list(made.outputs) == ["a", "b"]
