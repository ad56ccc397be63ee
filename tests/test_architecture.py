"""Imports point one way: data <- simulators <- surrogates <- pipelines <- the command line. And they stay light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("data", "simulators", "surrogates", "pipelines")
LAYERS = (*FOLDERS, "__main__")  # each may import itself and what stands before it
HEAVY = ("matplotlib", "pandas", "jinja2", "dask", "onnx", "sklearn", "numpyro")


def modules() -> dict[str, Path]:
    """Every module of the tree by its import name; a package is named `emulax.data.__init__`."""
    found = {f"emulax.{path.stem}": path for path in (ROOT / "src/emulax").glob("*.py")}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            found[".".join(("emulax", *path.relative_to(ROOT).with_suffix("").parts))] = path
    return found


def imported(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that the module `name` imports, wherever in the module it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")[: -node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from ((node.lineno, ".".join((*base, alias.name))) for alias in node.names)


def wrong_arrows(name: str, source: str) -> list[str]:
    """One line for each import of `source` that the layers forbid."""
    layer = name.split(".")[1]
    # `import emulax` and `from .. import *` reach every layer
    allowed = LAYERS[: LAYERS.index(layer) + 1] if layer in LAYERS else FOLDERS
    forbidden = {*LAYERS, "*", ""} - {*allowed}
    return [
        f"{name}, line {line}: imports {target}"
        for line, target in imported(name, source)
        if target.split(".")[0] == "emulax" and (*target.split("."), "")[1] in forbidden
    ]


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_point_one_way(name: str):
    assert not wrong_arrows(name, modules()[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("emulax.data._store", "from ..simulators import solve_ensemble"),
        ("emulax.data._store", "from .. import simulators"),
        ("emulax.data._store", "from .. import *"),
        ("emulax.data.__init__", "from ..pipelines._run import run"),
        ("emulax.data.formats._csv", "from ...surrogates import MLP"),
        ("emulax.data._store", "import emulax"),
        ("emulax.data._store", "import emulax.pipelines._run as run"),
        ("emulax.simulators._solve", "from emulax.surrogates import MLP"),
        ("emulax.simulators._solve", "from emulax import data, surrogates"),
        ("emulax.surrogates._fit", "def fit():\n    from ..pipelines import run"),
        ("emulax.surrogates._fit", "if TYPE_CHECKING:\n    from ..pipelines import run"),
        ("emulax.pipelines._run", "from emulax.__main__ import main"),
        ("emulax.pipelines._run", "from ..__main__ import main"),
        ("emulax.__init__", "from .__main__ import main"),
    ],
)
def test_a_wrong_arrow_is_found(name: str, source: str):
    assert len(wrong_arrows(name, source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("emulax.data._store", "import numpy as np\nfrom ._space import ParameterSpace\nfrom . import _label"),
        ("emulax.data.formats._csv", "from .._space import ParameterSpace"),
        ("emulax.simulators._solve", "from ..data import Ensemble\nfrom .. import data"),
        ("emulax.surrogates._fit", "from emulax.simulators import fingerprint\nimport emulax.data"),
        ("emulax.pipelines._run", "from .. import __version__\nfrom emulax import data, simulators, surrogates"),
        ("emulax.__main__", "from . import pipelines\nfrom emulax.data import sample"),
        ("emulax.__init__", "from . import data as data\nfrom . import pipelines as pipelines"),
    ],
)
def test_a_right_arrow_is_passed(name: str, source: str):
    assert wrong_arrows(name, source) == []


def test_every_layer_has_modules():
    assert {name.split(".")[1] for name in modules()} >= {*FOLDERS, "__init__"}


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter holds after `statement`."""
    script = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_emulax_imports_no_library():
    assert loaded_by("import emulax").isdisjoint({"jax", "numpy", "diffrax", "equinox", "typer", *HEAVY})


def test_importing_the_packages_imports_nothing_heavy():
    loaded = loaded_by("from emulax import data, simulators, surrogates, pipelines")
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_package_is_an_attribute_without_its_own_import(folder: str):
    assert f"emulax.{folder}" in loaded_by(f"import emulax; emulax.{folder}.__doc__")
