"""The programs that show the public interface run as a user runs them, and print what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(program, folder):
    alone = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    finished = subprocess.run(
        [sys.executable, EXAMPLES / program], cwd=folder, env=alone, capture_output=True, text=True, timeout=900
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout


def test_the_whole_job_on_one_page(tmp_path):
    text = run("quickstart.py", tmp_path)
    assert text.startswith("(21,) (21,) ok")
    assert "surrogate solver" in text
    # y(2) = exp(-2 k) for k = 0.1 and 0.5
    low, high = map(float, re.search(r"\[(0\.81\d+) (0\.36\d+)\] \[0 0\]", text).groups())
    assert low == pytest.approx(0.818730753078, rel=1e-8) and high == pytest.approx(0.367879441171, rel=1e-8)
    assert (tmp_path / "decay.emx").exists() and "<svg" in (tmp_path / "decay.html").read_text(encoding="utf-8")


def test_the_one_line_that_changes(tmp_path):
    text = run("replace_in_program.py", tmp_path)
    values = [float(line) for line in text.splitlines() if re.fullmatch(r"\d+\.\d+", line)]
    solver, fast = values[:2], values[2:]
    assert len(values) == 4 and fast == pytest.approx(solver, rel=2e-2)
    assert "(21, 2) (21, 2)" in text and "(21,) (2, 21) True Answered by the surrogate" in text
