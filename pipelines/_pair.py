"""A surrogate and the simulator that it stands for."""

import inspect
from typing import Any

from ..data import shown
from ..simulators import AbstractSimulator, fingerprint
from ..surrogates import Surrogate


def check_pair(simulator: Any, surrogate: Any) -> None:
    """Refuse what is no simulator, no surrogate, or a surrogate of another simulator.

    **Raises:** `ValueError`.
    """
    if isinstance(simulator, Surrogate) and isinstance(surrogate, AbstractSimulator):
        raise ValueError("expected a simulator and its surrogate, got them in each other's place; swap them.")
    if isinstance(simulator, Surrogate) or not (hasattr(simulator, "solve") and hasattr(simulator, "parameters")):
        raise ValueError(
            f"simulator: expected the one that the surrogate stands for, got {shown(simulator)}{_made(simulator)}."
        )
    if not isinstance(surrogate, Surrogate):
        read = "; read it with surrogates.load" if not hasattr(surrogate, "solve") else ""
        raise ValueError(f"surrogate: expected what surrogates.fit or load returns, got {shown(surrogate)}{read}.")
    trained, asked = surrogate.provenance["fingerprint"], fingerprint(simulator)
    if trained != asked:
        raise ValueError(
            f"the surrogate stands for the simulator {surrogate.provenance.get('simulator')!r} with the fingerprint "
            f"{trained[:12]}, and this simulator's is {asked[:12]}: their equations, parameters or outputs differ; "
            "train a surrogate on this simulator."
        )


def _made(simulator: Any) -> str:
    return f"; write {simulator.__name__}()" if inspect.isclass(simulator) or inspect.isroutine(simulator) else ""
