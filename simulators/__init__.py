"""Simulators, and the engine that solves ensembles of them over devices."""

from collections.abc import Callable
from typing import Any

from ._burgers import Burgers as Burgers
from ._decay import Decay as Decay
from ._devices import pick_devices as pick_devices
from ._devices import shard as shard
from ._etdrk4 import ETDRK4 as ETDRK4
from ._fingerprint import fingerprint as fingerprint
from ._fingerprint import same_function as same_function
from ._fixed_step import FixedStep as FixedStep
from ._fixed_step import RungeKutta4 as RungeKutta4
from ._lotka_volterra import LotkaVolterra as LotkaVolterra
from ._numerics import Numerics as Numerics
from ._ode import ODESimulator as ODESimulator
from ._simulator import AbstractSimulator as AbstractSimulator
from ._simulator import read_times as read_times
from ._solve import solve_ensemble as solve_ensemble

REGISTRY: dict[str, Callable[..., Any]] = {
    "burgers": Burgers,
    "decay": Decay,
    "lotka_volterra": LotkaVolterra,
}
