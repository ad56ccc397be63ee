"""Ensembles of simulations, AI surrogates trained on them, and solvers guarded by a stated error.

`data` describes parameters and stores results, `simulators` solves ensembles over devices, `surrogates` trains models
on them, and `pipelines` joins these into runs, reports and guarded solvers. Each package is imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data as data
    from . import pipelines as pipelines
    from . import simulators as simulators
    from . import surrogates as surrogates

    __version__: str

_PACKAGES = ("data", "pipelines", "simulators", "surrogates")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name == "__version__":
        from importlib.metadata import version

        return version("emulax")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, "__version__"})
