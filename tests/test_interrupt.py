"""Ctrl-C: what is finished is kept, and one line says so."""

import json
import os
import signal
import subprocess
import sys
import time


def interrupted(process: subprocess.Popen) -> str:
    """Standard error of a process that Ctrl-C ends; again after a while, since a callback of XLA's may swallow one."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            pass
    process.kill()
    return process.communicate()[1]


def test_devices_start_and_control_c_stops_cleanly(tmp_path):
    (tmp_path / "long.toml").write_text(
        'name = "long"\n[simulator]\nname = "decay"\n[design]\ntraining = 32\ncalibration = 32\ntest = 32\n'
        "[training]\nsteps = 2000000\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    process = subprocess.Popen(
        [sys.executable, "-m", "emulax", "run", "long.toml", "--devices", "2"],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    log, deadline = tmp_path / "runs/long/log.jsonl", time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and '"started", "step": "train"' in log.read_text()):
        time.sleep(0.2)
    time.sleep(1.0)
    err = interrupted(process)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "emulax: interrupted; finished steps are kept, the same command goes on from there"
    assert "Traceback" not in err
    state = json.loads((tmp_path / "runs/long/state.json").read_text())["steps"]
    assert list(state) == ["simulate training", "simulate calibration", "simulate test"]
    assert state["simulate training"]["facts"]["devices"] == 2
