"""Executables on disk: the second process compiles nothing."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from emulax import simulators
from emulax.simulators._compiled import persistent_cache

PROGRAM = """
import numpy as np
from emulax import simulators
print(simulators.solve_ensemble(simulators.Decay(), {"k": np.linspace(0.1, 1, 8), "y0": np.ones(8)}).ok.all())
"""


def run(**environment):
    inherited = {name: value for name, value in os.environ.items() if name != "EMULAX_CACHE"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=inherited | environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "True"


def test_a_second_process_finds_what_the_first_compiled(tmp_path):
    run(XDG_CACHE_HOME=str(tmp_path))
    first = {path.name for path in (tmp_path / "emulax" / "compiled").iterdir() if not path.name.endswith("atime")}
    run(XDG_CACHE_HOME=str(tmp_path))
    second = {path.name for path in (tmp_path / "emulax" / "compiled").iterdir() if not path.name.endswith("atime")}
    assert first and second == first


@pytest.mark.parametrize("folder", ["off", "/proc/no/such/folder"])
def test_no_folder_no_cache(folder, tmp_path):
    run(EMULAX_CACHE=folder, XDG_CACHE_HOME=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_jax_keeps_its_setting(tmp_path, monkeypatch):
    monkeypatch.setenv("EMULAX_CACHE", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    with persistent_cache():
        assert before or jax.config.jax_compilation_cache_dir == str(tmp_path)
    assert jax.config.jax_compilation_cache_dir == before
    simulators.solve_ensemble(simulators.Decay(), {"k": np.array([0.5]), "y0": np.ones(1)})
    assert jax.config.jax_compilation_cache_dir == before
