"""The architectures by name: what a run file may ask for and what a surrogate file may hold."""

from ._architecture import AbstractArchitecture
from ._fno import FNO
from ._mlp import MLP

ARCHITECTURES: dict[str, type[AbstractArchitecture]] = {"FNO": FNO, "MLP": MLP}
"""Add your own class under its name before loading a surrogate that was trained with it."""
