"""The final table of a run, from the files in its folder."""

import os
from pathlib import Path
from typing import Any

from ..data import check_path
from ._config import folder_of, read_run_file
from ._folder import digest, read_json, read_state
from ._headline import headline
from ._problems import RunFileError

STAGES = {"simulate": "simulate", "train": "train", "validate": "validate", "report": "validate"}


def summarise(folder: str | Path) -> dict[str, Any]:
    """The numbers of the final table, JSON-ready: members, failures, seconds, and, where there is a valid report, the
    error, coverage and speed of the surrogate.

    **Raises:** `FileNotFoundError` or `ValueError` for a folder that is no run's.
    """
    folder = check_path(folder, "a run's folder")
    if folder.is_file():
        raise ValueError(f"{folder}: expected the folder of a run, found a file{_folder_of(folder)}")
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: expected the folder of a run, found nothing")
    record = read_json(folder / "run.json")
    if record is None:
        raise ValueError(f"{folder}: expected the folder of a run, found no run.json in it")
    steps = read_state(folder)
    current = _standing(folder, steps)
    report = read_json(folder / "report.json") if "validate" in current else None
    return {
        "name": record["settings"]["name"],
        "folder": str(folder),
        "run_file": os.path.relpath(folder / record["file"]),
        "finished": current,
        "members": _facts(steps, "members"),
        "failures": _facts(steps, "failures"),
        "solvers": _facts(steps, "solvers"),
        "retried": _facts(steps, "retried"),
        "solver_error": _facts(steps, "solver_error"),
        "devices": max(_facts(steps, "devices").values(), default=None),
        "seconds": _seconds(steps),
        "guard": record["settings"]["guard"],
        "headline": None if report is None else headline(report),
        "validation": None if report is None else _numbers(report),
        "surrogate": str(folder / "surrogate.emx") if "train" in current else None,
        "report": str(folder / "report.html") if "report" in current else None,
        "parameters": steps.get("simulate training", {}).get("facts", {}).get("parameters", []),
    }


def _folder_of(file: Path) -> str:
    """What to do with a run file in place of its folder."""
    if file.suffix != ".toml":
        return ""
    try:
        settings = read_run_file(file)
    except RunFileError:
        return ""
    return f"; its results go to {folder_of(settings)}: emulax show {folder_of(settings)}"


def _numbers(report: dict[str, Any]) -> dict[str, Any]:
    """The report's main numbers: relative error of members, coverage of the stated error, how many times faster the
    surrogate is than the fastest solver that is as accurate; `None` where no solver was, or nothing was timed."""
    speed = report.get("speed", {})
    return {
        "error": {key: report["errors"]["member"][key] for key in ("median", "p95", "worst")},
        "coverage": {"stated": report["calibration"]["level"], "found": report["calibration"]["overall"]["share"]},
        "times_faster": {mode: speed[mode]["ratio"] for mode in ("batch", "single") if mode in speed},
        "verdict": [entry["text"] for entry in report["verdict"]],
    }


def _standing(folder: Path, steps: dict[str, Any]) -> list[str]:
    """The finished steps whose files, and all those that they were made from, are the ones on record."""
    names, good = [], set()
    for name, entry in steps.items():
        files = entry["inputs"] | entry["outputs"]
        if set(entry["inputs"]) <= good and all(digest(folder / file) == known for file, known in files.items()):
            names.append(name)
            good |= set(entry["outputs"])
    return names


def _facts(steps: dict[str, Any], fact: str) -> dict[str, Any]:
    """One fact of each ensemble; ensembles of earlier versions have fewer."""
    prefix = "simulate "
    found = {name.removeprefix(prefix): e["facts"] for name, e in steps.items() if name.startswith(prefix)}
    return {name: facts[fact] for name, facts in found.items() if fact in facts}


def _seconds(steps: dict[str, Any]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for name, entry in steps.items():
        stage = STAGES[name.partition(" ")[0]]
        seconds[stage] = round(seconds.get(stage, 0.0) + entry["seconds"], 3)
    return seconds
