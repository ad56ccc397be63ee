"""The run file: what `emulax run` is told to do, as TOML, checked key by key."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, field_validator, model_validator

from ..data import check_path
from ._problems import RunFileError, problems

Engine = Literal["auto", "lanes", "plain"]
Method = Literal["sobol", "latin_hypercube", "halton", "random"]
Distribution = Literal["uniform", "log_uniform", "normal", "log_normal", "gaussian_random_field"]


class Section(BaseModel):
    """One table of the run file: unknown keys and wrong types are errors, nothing is converted."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class ParameterSettings(Section):
    """What replaces a parameter's distribution; keys that are not given keep the simulator's own values."""

    distribution: Distribution | None = None
    """Kind of distribution; by default the simulator's own."""
    lower: float | None = None
    """Lower bound, in the parameter's unit."""
    upper: float | None = None
    """Upper bound, in the parameter's unit."""
    mean: float | None = None
    """Mean of a normal distribution."""
    std: float | None = Field(default=None, gt=0)
    """Standard deviation of a normal distribution."""
    log_mean: float | None = None
    """Mean of the logarithm of a log-normal distribution."""
    log_std: float | None = Field(default=None, gt=0)
    """Standard deviation of the logarithm of a log-normal distribution."""
    points: int | None = Field(default=None, ge=4)
    """Grid points of a random field."""
    length: float | None = Field(default=None, gt=0)
    """Length of a random field's interval."""
    variance: float | None = Field(default=None, gt=0)
    """Variance factor of a random field's covariance."""
    shift: float | None = Field(default=None, ge=0)
    """Shift of a random field's covariance."""
    exponent: float | None = Field(default=None, gt=0)
    """Exponent of a random field's covariance."""
    modes: int | None = Field(default=None, ge=1)
    """Highest wavenumber index of a random field."""

    @model_validator(mode="after")
    def _ordered(self):
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            raise ValueError(f"expected lower < upper, got lower = {self.lower:g}, upper = {self.upper:g}; swap them")
        return self


class SimulatorSettings(Section):
    """Which simulator, how it is solved, and over which parameters."""

    name: str = Field(min_length=1)
    """A name that `emulax list` shows, or "file.py:object", relative to the run file."""
    precision: Literal["double", "single"] = "double"
    """Arithmetic of the solver."""
    rtol: float | None = Field(default=None, gt=0)
    """Relative tolerance; by default the simulator's own."""
    atol: float | None = Field(default=None, gt=0)
    """Absolute tolerance, in the state's unit; by default the simulator's own."""
    solver: str | None = None
    """Class name of a solver of diffrax or emulax, such as "Tsit5", "Kvaerno5" or "Rodas5P", or "auto", which chooses
    by a few members; by default the simulator's own."""
    engine: Engine = "auto"
    """What solves the members: "lanes" gives a place that becomes free to the next member, "plain" is `vmap` of
    `diffrax.diffeqsolve`, "auto" takes lanes where it can."""
    step: float | None = Field(default=None, gt=0)
    """A fixed step, in the simulator's time unit, in place of the tolerances."""
    max_steps: int | None = Field(default=None, ge=1)
    """Steps after which a member is given up; by default the simulator's own."""
    batch_size: int | None = Field(default=None, ge=1)
    """Members solved at a time, for ensembles beyond the memory; by default all. No result depends on it."""
    check: float = Field(default=0.01, ge=0, le=1)
    """Share of the members, and at least 8, that are solved again with tolerances 100 times tighter, to state the
    solver's own error; 0 leaves it out."""
    options: dict[str, Any] = {}
    """Arguments of the simulator: constants, grid points, times."""
    parameters: dict[str, ParameterSettings] = {}
    """Distributions by parameter name, where they differ from the simulator's own."""


class DesignSettings(Section):
    """How many members are solved, for what."""

    training: int = Field(default=4096, ge=8)
    """Members that the network is trained on."""
    method: Method = "sobol"
    """How the training members are spread over the parameters."""
    calibration: int = Field(default=512, ge=8)
    """Independent random members that calibrate the stated error and nothing else."""
    test: int = Field(default=1024, ge=8)
    """Independent random members that the surrogate is judged on."""


class SurrogateSettings(BaseModel):
    """Which architecture; its hyper-parameters stand beside the name and are checked against it."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, use_attribute_docstrings=True)

    name: str = "MLP"
    """A name that `emulax list` shows."""

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class TrainingSettings(Section):
    """How the network is trained; keys that are not given have the defaults of `surrogates.fit`."""

    steps: int = Field(default=40_000, ge=1)
    """Optimiser steps."""
    batch_size: int = Field(default=64, ge=1)
    """Members in one step."""
    learning_rate: float = Field(default=4e-3, gt=0)
    """Largest learning rate of the schedule."""
    validation: float = Field(default=0.1, ge=0, lt=1)
    """Share of the training members that chooses the best weights."""
    transform: Literal["none", "log"] = "none"
    """Whether the outputs or their logarithms are learnt; outputs must be positive for "log"."""
    loss: Literal["mean_squared_error", "relative_l2"] | None = None
    """What training makes small; by default what suits the architecture."""
    coarse: Annotated[tuple[int, float], Strict(False)] | None = None
    """For fields: train on every n-th grid point for a share of the steps, as [n, share]."""
    augment: Literal["reflection"] | None = None
    """For fields: train on mirrored members too."""

    @field_validator("coarse")
    @classmethod
    def _sensible(cls, coarse):
        if coarse is not None and not (coarse[0] >= 2 and 0 < coarse[1] < 1):
            raise ValueError(f"expected [factor >= 2, 0 < share < 1], got {list(coarse)}")
        return coarse


class ValidationSettings(Section):
    """How the surrogate is judged."""

    level: float = Field(default=0.9, gt=0, lt=1)
    """Nominal coverage of the stated error."""
    speed: bool = True
    """Whether the surrogate is timed against the solver at equal accuracy."""


class GuardSettings(Section):
    """When the guarded solver lets the surrogate answer."""

    tolerance: float = Field(default=0.02, gt=0)
    """Relative error that the program can bear."""
    risk: float = Field(default=0.05, gt=0, lt=1)
    """Probability with which an accepted answer may be worse than that."""


class ReportSettings(Section):
    """How the report looks; changes here never solve or train again."""

    title: str | None = None
    """Title of the report; by default the name of the run."""
    figures: bool = True
    """Whether the report holds figures."""


class RunSettings(Section):
    """A run file."""

    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    """Name of the run: letters, digits, and any of _ . -"""
    seed: int = Field(default=0, ge=0, le=10**9)
    """Seed of designs, noise and training."""
    folder: str | None = None
    """Where the results go; by default runs/<name>."""
    simulator: SimulatorSettings
    design: DesignSettings = DesignSettings()
    surrogate: SurrogateSettings = SurrogateSettings()
    training: TrainingSettings = TrainingSettings()
    validation: ValidationSettings = ValidationSettings()
    guard: GuardSettings = GuardSettings()
    report: ReportSettings = ReportSettings()


def read_run_file(path: str | Path, **instead: Any) -> RunSettings:
    """Read and check a run file; `instead` are top-level values in place of the file's.

    **Raises:** `RunFileError` with one line for each problem: the file, the path of the key, what was expected and
    what stands there.
    """
    path = check_path(path, "a run file")
    return check(_read_toml(path) | instead, path.name)


def with_engine(settings: RunSettings, engine: Engine) -> RunSettings:
    """The same run with another engine."""
    return settings.model_copy(update={"simulator": settings.simulator.model_copy(update={"engine": engine})})


def folder_of(settings: RunSettings) -> Path:
    """Where a run's results go."""
    return Path(settings.folder or f"runs/{settings.name}")


def check(content: dict[str, Any], source: str) -> RunSettings:
    """A run file's content as settings; `source` names it in errors."""
    try:
        return RunSettings.model_validate(content)
    except ValidationError as error:
        raise RunFileError(source, problems(error, RunSettings)) from None


def run_schema() -> dict[str, Any]:
    """The JSON schema of run files, which editors check and complete them with; shipped as `schema/run.schema.json`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | RunSettings.model_json_schema()


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise RunFileError(str(path), ["expected a run file, found nothing; `emulax new NAME` writes one"])
    if path.is_dir():
        raise RunFileError(str(path), ["expected a run file, found a folder"])
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise RunFileError(str(path), ["expected a text file in UTF-8, found other data"]) from None
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).rstrip(")").partition(" (at ")
        raise RunFileError(path.name, [f"{where}: expected TOML: {what[:1].lower()}{what[1:]}"]) from None
