"""Pipelines: the run file and its stages, validation and reports, and surrogates in the solver's place."""

from ._describe import describe as describe
from ._describe import list_names as list_names
from ._guard import GuardedSolver as GuardedSolver
from ._guard import guard as guard
from ._new import new as new
from ._predict import load_guarded as load_guarded
from ._predict import predict as predict
from ._problems import RunFileError as RunFileError
from ._report import Report as Report
from ._run import RunResult as RunResult
from ._run import run as run
from ._summary import summarise as summarise
from ._validate import validate as validate
