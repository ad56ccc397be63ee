"""Surrogates: networks that stand for a simulator, their training, calibration and file."""

from ._architecture import AbstractArchitecture as AbstractArchitecture
from ._architecture import Layout as Layout
from ._fno import FNO as FNO
from ._mlp import MLP as MLP
