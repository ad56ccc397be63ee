"""A run: its steps one after the other, redoing only those whose dependencies changed."""

import contextlib
import dataclasses
import os
import time
from pathlib import Path
from typing import Any, get_args

from ..data import check_kind, check_path, check_whole, shown
from ._build import build_architecture, build_simulator, check_network, user_file
from ._config import Engine, folder_of, read_run_file, with_engine
from ._folder import digest, log, read_json, read_state, write_json, write_state
from ._keys import changes, section_keys
from ._lock import locked
from ._progress import AbstractDisplay, SilentDisplay
from ._stages import STEPS, Job, Step, all_keys
from ._summary import summarise
from ._user_file import blamed

STAGES = ("simulate", "train", "validate")


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What `run` did.

    - `folder`: where everything lies.
    - `redone`: the steps that were done now, each with the reasons.
    - `kept`: the steps that stood from before.
    - `summary`: the numbers of the final table, JSON-ready.
    """

    folder: Path
    redone: dict[str, list[str]]
    kept: tuple[str, ...]
    summary: dict[str, Any]


def run(
    file: str | Path,
    *,
    until: str = "validate",
    seed: int | None = None,
    devices: int | None = None,
    engine: Engine | None = None,
    display: AbstractDisplay | None = None,
) -> RunResult:
    """Do what a run file says: simulate, train, validate, report.

    A step is done if it has not been done, if a key that it depends on has another value, if a file that it takes is
    new, or if a file that it makes is missing or damaged. Finished steps are recorded at once: an interrupted run
    goes on.

    **Arguments:**

    - `file`: the run file, TOML.
    - `until`: the last stage, `"simulate"`, `"train"` or `"validate"`.
    - `seed`: in place of the run file's.
    - `devices`: number of devices; by default all.
    - `engine`: `"auto"`, `"lanes"` or `"plain"`, in place of the run file's.
    - `display`: where progress is shown; by default nowhere.

    **Returns:** a `RunResult`.

    **Raises:** `RunFileError` for a run file that cannot be meant, with one line for each problem, and for a simulator
    file that does not work, with its line; `ValueError` if another run is under way in the folder.
    """
    if until not in STAGES:
        raise ValueError(f"until: expected one of {', '.join(STAGES)}, got {shown(until)}.")
    file, display = check_path(file, "a run file"), display or SilentDisplay()
    check_kind("display", display, AbstractDisplay, "a display of pipelines")
    devices = None if devices is None else check_whole("devices", devices, 1)
    if engine is not None and engine not in get_args(Engine):
        raise ValueError(f"engine: expected one of {', '.join(get_args(Engine))}, got {shown(engine)}.")
    job = _prepare(file, seed, devices, engine, display)
    with locked(job.folder):
        return _run(job, file, STAGES[: STAGES.index(until) + 1])


def _run(job: Job, file: Path, wanted: tuple[str, ...]) -> RunResult:
    """Do the steps of the stages `wanted`."""
    display = job.display
    for change in _record(job, file):
        display.note(f"{change}; load_guarded and `emulax predict --guard` take it, nothing is done again")
    redone: dict[str, list[str]] = {}
    kept: list[str] = []
    try:
        for step in STEPS:
            if step.stage not in wanted:
                continue
            reasons = _reasons(job, step)
            if reasons:
                if reasons not in (["not done yet"], *redone.values()):
                    display.note(f"{step.name}: again, since " + "; ".join(reasons))
                redone[step.name] = reasons
                _do(job, step, reasons)
            else:
                kept.append(step.name)
                display.note(f"{step.name}: up to date")
    except KeyboardInterrupt:
        log(job.folder, "interrupted")
        raise
    except Exception as error:
        log(job.folder, "failed", error=f"{type(error).__name__}: {error}")
        raise
    finally:
        display.close()
    return RunResult(job.folder, redone, tuple(kept), summarise(job.folder))


def _prepare(file: Path, seed: int | None, devices: int | None, engine: Engine | None, display: AbstractDisplay) -> Job:
    settings = read_run_file(file, **({} if seed is None else {"seed": seed}))
    settings = settings if engine is None else with_engine(settings, engine)
    simulator = build_simulator(settings, file.resolve().parent, file.name)
    architecture = build_architecture(settings, file.name)
    check_network(architecture, simulator, file.name)
    return Job(
        settings=settings,
        simulator=simulator,
        architecture=architecture,
        folder=folder_of(settings),
        devices=devices,
        display=display,
        user_file=user_file(settings, file.resolve().parent),
    )


def _record(job: Job, file: Path) -> list[str]:
    """Write `run.json`: the settings, and where the run file is, seen from here, for `show` and `predict`.

    **Returns:** what differs from before among the settings that no step depends on, those of the guard.
    """
    before = read_json(job.folder / "run.json")
    place = os.path.relpath(file.resolve(), job.folder.resolve())
    record = {"file": place, "settings": job.settings.model_dump(mode="json", exclude_none=True)}
    write_json(job.folder / "run.json", record)
    if not isinstance(before, dict):
        return []
    old = section_keys(before.get("settings", {}).get("guard", {}), "guard")
    return changes(old, section_keys(record["settings"]["guard"], "guard"))


def _reasons(job: Job, step: Step) -> list[str]:
    """Why a step has to be done; empty if its result stands."""
    record = read_state(job.folder).get(step.name)
    if record is None:
        return ["not done yet"]
    different = changes(record["keys"], all_keys(job, step))
    new = [f"{name} is new" for name, known in record["inputs"].items() if digest(job.folder / name) != known]
    lost = [
        f"{name} {'was changed or damaged' if (job.folder / name).exists() else 'is missing'}"
        for name, known in record["outputs"].items()
        if digest(job.folder / name) != known
    ]
    return different or new or lost


def _do(job: Job, step: Step, reasons: list[str]) -> None:
    log(job.folder, "started", step=step.name, reasons=reasons)
    job.display.start(step.name, step.what(job))
    before = time.monotonic()
    with blamed(job.user_file, job.simulator.parameters) if job.user_file else contextlib.nullcontext():
        facts = step.work(job)
    seconds = round(time.monotonic() - before, 3)
    inputs = [name for other in STEPS if other.name in step.needs for name in other.outputs]
    record = {
        "keys": all_keys(job, step),
        "inputs": {name: digest(job.folder / name) for name in inputs},
        "outputs": {name: digest(job.folder / name) for name in step.outputs},
        "seconds": seconds,
        "facts": facts,
    }
    done = read_state(job.folder) | {step.name: record}
    write_state(job.folder, {known.name: done[known.name] for known in STEPS if known.name in done})
    log(job.folder, "finished", step=step.name, seconds=seconds)
    job.display.finish(seconds)
