"""Pipelines: the run file and its stages, validation and reports, and surrogates in the solver's place."""

from ._guard import GuardedSolver as GuardedSolver
from ._guard import guard as guard
