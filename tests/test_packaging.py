"""What `pyproject.toml` says about the package, against the tree and the installation."""

import fnmatch
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import emulax

ROOT = Path(__file__).parents[1]
FOLDERS = ("data", "simulators", "surrogates", "pipelines")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def shipped(folder: str) -> list[Path]:
    """The files of a folder, without what Python caches."""
    return [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_the_installed_version_is_that_of_the_project():
    assert emulax.__version__ == version("emulax") == PROJECT["project"]["version"]


def test_no_module_states_a_version():
    sources = [path for folder in ("src/emulax", *FOLDERS) for path in shipped(folder) if path.suffix == ".py"]
    stating = re.compile(r"""^__version__\s*=\s*["']""", re.MULTILINE)
    assert [path for path in sources if stating.search(path.read_text(encoding="utf-8"))] == []


def test_every_package_is_listed():
    found = [
        path.parent.relative_to(ROOT) for folder in FOLDERS for path in shipped(folder) if path.name == "__init__.py"
    ]
    assert sorted(SETUPTOOLS["packages"]) == sorted(["emulax", *(".".join(("emulax", *path.parts)) for path in found)])


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_is_mapped_and_linked(folder: str):
    assert SETUPTOOLS["package-dir"][f"emulax.{folder}"] == folder
    assert (ROOT / "src/emulax" / folder).readlink() == Path("../..") / folder


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_lies_in_a_package(folder: str):
    modules = [path for path in shipped(folder) if path.suffix == ".py"]
    assert [path for path in modules if not path.with_name("__init__.py").exists()] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_other_file_is_package_data(folder: str):
    patterns = SETUPTOOLS["package-data"].get(f"emulax.{folder}", [])
    others = [path.relative_to(ROOT / folder).as_posix() for path in shipped(folder) if path.suffix != ".py"]
    assert [name for name in others if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)] == []


def test_the_types_are_announced():
    assert (ROOT / "src/emulax/py.typed").exists()
