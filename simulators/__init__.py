"""Simulators, and the engine that solves ensembles of them over devices."""

from collections.abc import Callable
from typing import Any

from ._banded import Banded as Banded
from ._burgers import Burgers as Burgers
from ._burgers_lines import BurgersLines as BurgersLines
from ._decay import Decay as Decay
from ._devices import pick_devices as pick_devices
from ._devices import shard as shard
from ._etdrk4 import ETDRK4 as ETDRK4
from ._event import Event as Event
from ._fingerprint import fingerprint as fingerprint
from ._fingerprint import same_function as same_function
from ._fixed_step import FixedStep as FixedStep
from ._fixed_step import RungeKutta4 as RungeKutta4
from ._imex import LinearKenCarp3 as LinearKenCarp3
from ._imex import LinearKenCarp4 as LinearKenCarp4
from ._jacobian import AbstractJacobian as AbstractJacobian
from ._jacobian import Dense as Dense
from ._krylov import Krylov as Krylov
from ._kuramoto_sivashinsky import KuramotoSivashinsky as KuramotoSivashinsky
from ._lorenz import Lorenz as Lorenz
from ._lotka_volterra import LotkaVolterra as LotkaVolterra
from ._numerics import Numerics as Numerics
from ._ode import ODESimulator as ODESimulator
from ._problem import AbstractInitialValueSimulator as AbstractInitialValueSimulator
from ._problem import Problem as Problem
from ._refinement import AccuracyWarning as AccuracyWarning
from ._robertson import Robertson as Robertson
from ._rosenbrock import Rodas3 as Rodas3
from ._rosenbrock import Rodas5P as Rodas5P
from ._simulator import AbstractSimulator as AbstractSimulator
from ._simulator import read_times as read_times
from ._solve import solve_ensemble as solve_ensemble
from ._sparsity import jacobian_for as jacobian_for
from ._unrolled import Unrolled as Unrolled
from ._van_der_pol import VanDerPol as VanDerPol

REGISTRY: dict[str, Callable[..., Any]] = {
    "burgers": Burgers,
    "burgers_lines": BurgersLines,
    "decay": Decay,
    "kuramoto_sivashinsky": KuramotoSivashinsky,
    "lorenz": Lorenz,
    "lotka_volterra": LotkaVolterra,
    "robertson": Robertson,
    "van_der_pol": VanDerPol,
}
