"""Surrogates: networks that stand for a simulator, their training, calibration and file."""

from ._architecture import AbstractArchitecture as AbstractArchitecture
from ._architecture import Layout as Layout
from ._baselines import Baselines as Baselines
from ._calibration import Calibration as Calibration
from ._calibration import calibrate as calibrate
from ._domain import Domain as Domain
from ._errors import member_error as member_error
from ._file import load as load
from ._fit import fit as fit
from ._fno import FNO as FNO
from ._loss import MeanSquaredError as MeanSquaredError
from ._loss import RelativeL2 as RelativeL2
from ._mlp import MLP as MLP
from ._normalise import Normaliser as Normaliser
from ._registry import ARCHITECTURES as ARCHITECTURES
from ._surrogate import Surrogate as Surrogate
