"""The steps of a run: what each depends on, what it makes, and how."""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data import ADVICE, Ensemble, Status, load_ensemble, retried, sample, save_ensemble, solver_error
from ..simulators import AbstractSimulator, shard, solve_ensemble
from ..surrogates import AbstractArchitecture, MeanSquaredError, RelativeL2, Surrogate, calibrate, fit, load
from ._config import RunSettings
from ._keys import DESIGNS, design_method, design_seed, ensemble_keys, plain, section_keys
from ._progress import AbstractDisplay
from ._report import Report
from ._validate import validate

FILES = {"training": "ensembles/train.h5", "calibration": "ensembles/calibration.h5", "test": "ensembles/test.h5"}
SURROGATE = "surrogate.emx"
LOSSES = {None: None, "mean_squared_error": MeanSquaredError(), "relative_l2": RelativeL2()}


@dataclasses.dataclass
class Job:
    """A run under way: its settings, the objects they name, and what this process holds in memory already."""

    settings: RunSettings
    simulator: AbstractSimulator
    architecture: AbstractArchitecture
    folder: Path
    devices: int | None
    display: AbstractDisplay
    user_file: Path | None = None  # where the simulator is the user's own
    ensembles: dict[str, Ensemble] = dataclasses.field(default_factory=dict)
    trained: Surrogate | None = None

    def ensemble(self, design: str) -> Ensemble:
        """An ensemble where it lies: on the devices that solved it in this run, else read from its file."""
        if design not in self.ensembles:
            self.ensembles[design] = shard(load_ensemble(self.folder / FILES[design]), self.devices)
        return self.ensembles[design]

    def surrogate(self) -> Surrogate:
        """The surrogate, trained in this run or read from its file."""
        trained = self.trained or load(self.folder / SURROGATE)
        self.trained = trained
        return trained


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a run.

    - `name`: for people and for the record; `stage`: the command that ends with it.
    - `needs`: names of the steps whose results it takes.
    - `outputs`: files that it makes, relative to the run's folder.
    - `keys`: what it depends on itself, besides the keys of its `needs`.
    - `what`: its amount of work in words; `work`: does it and returns what
      is worth recording of it.
    """

    name: str
    stage: str
    needs: tuple[str, ...]
    outputs: tuple[str, ...]
    keys: Callable[[Job], dict[str, Any]]
    what: Callable[[Job], str]
    work: Callable[[Job], dict[str, Any]]


def _simulate(job: Job, design: str) -> dict[str, Any]:
    settings = job.settings
    members, seed = getattr(settings.design, design), design_seed(settings.seed, design)
    start = time.monotonic()

    def progress(done: int, total: int) -> None:
        job.display.update(done, total, f"{done / (time.monotonic() - start):.3g} members/s")

    ensemble = solve_ensemble(
        job.simulator,
        sample(job.simulator.parameters, members, method=design_method(settings, design), seed=seed),
        precision=settings.simulator.precision,
        devices=job.devices,
        batch_size=settings.simulator.batch_size,
        engine=settings.simulator.engine,
        seed=seed,
        check=settings.simulator.check,
        progress=progress,
    )
    speed = members / ensemble.metadata["seconds"]
    job.display.update(members, members, f"{speed:.3g} members/s on {ensemble.metadata['devices']} device(s)")
    _refuse_failed(ensemble, design)
    save_ensemble(ensemble, job.folder / FILES[design])
    job.ensembles[design] = ensemble
    failures = Counter(entry["status"] for entry in ensemble.failures())
    return {
        "members": len(ensemble),
        "failures": dict(failures),
        "devices": ensemble.metadata["devices"],
        "solvers": ensemble.metadata.get("solvers", {}),
        "retried": retried(ensemble.metadata),
        "solver_error": solver_error(ensemble.metadata),
        "parameters": ensemble.space.to_json(),
    }


def _refuse_failed(ensemble: Ensemble, design: str) -> None:
    if not ensemble.ok.any():
        status = Status(int(ensemble.status[0]))
        raise ValueError(f"all {len(ensemble)} {design} members failed with {status.name}. {ADVICE[status]}")


def _train(job: Job) -> dict[str, Any]:
    settings = job.settings
    start = time.monotonic()

    def progress(step: int, steps: int, loss: float) -> None:
        job.display.update(step, steps, f"loss {loss:.2e}, {step / (time.monotonic() - start):.3g} steps/s")

    given = settings.training.model_dump()
    loss = LOSSES[given.pop("loss")]
    surrogate = fit(
        job.architecture,
        job.ensemble("training"),
        seed=settings.seed,
        calibration=job.ensemble("calibration"),
        loss=loss,
        progress=progress,
        **given,
    )
    if surrogate.calibration.level != settings.validation.level:
        surrogate = calibrate(surrogate, job.ensemble("calibration"), level=settings.validation.level)
    surrogate.save(job.folder / SURROGATE)
    job.trained = surrogate
    return {}


def _validate(job: Job) -> dict[str, Any]:
    report = validate(
        job.surrogate(),
        job.simulator,
        job.ensemble("test"),
        precision=job.settings.simulator.precision,
        level=job.settings.validation.level,
        speed=job.settings.validation.speed,
        progress=job.display.update,
    )
    report.save(job.folder / "report.json")
    return {}


def _report(job: Job) -> dict[str, Any]:
    report, look = Report.load(job.folder / "report.json"), job.settings.report
    report.save(job.folder / "report.html", title=look.title or job.settings.name, figures=look.figures)
    return {}


def _ensemble_step(design: str) -> Step:
    return Step(
        name=f"simulate {design}",
        stage="simulate",
        needs=(),
        outputs=(FILES[design],),
        keys=lambda job: ensemble_keys(job.settings, job.simulator, design),
        what=lambda job: f"{getattr(job.settings.design, design)} members",
        work=lambda job: _simulate(job, design),
    )


STEPS = (
    *(_ensemble_step(design) for design in DESIGNS),
    Step(
        name="train",
        stage="train",
        needs=("simulate training", "simulate calibration"),
        outputs=(SURROGATE,),
        keys=lambda job: (
            section_keys(job.architecture.to_json(), "surrogate")
            | section_keys(job.settings.training.model_dump(), "training")
            | {"validation.level": job.settings.validation.level}
        ),
        what=lambda job: f"{job.settings.training.steps} steps",
        work=_train,
    ),
    Step(
        name="validate",
        stage="validate",
        needs=("train", "simulate test"),
        outputs=("report.json",),
        keys=lambda job: {"validation.speed": job.settings.validation.speed},
        what=lambda job: f"{job.settings.design.test} members",
        work=_validate,
    ),
    Step(
        name="report",
        stage="validate",
        needs=("validate",),
        outputs=("report.html",),
        keys=lambda job: section_keys(job.settings.report.model_dump(), "report"),
        what=lambda job: "report.html",
        work=_report,
    ),
)


def all_keys(job: Job, step: Step) -> dict[str, Any]:
    """What a step depends on, including what its `needs` depend on."""
    keys: dict[str, Any] = {}
    for other in STEPS:
        if other.name in step.needs:
            keys |= all_keys(job, other)
    return plain(keys | step.keys(job))
