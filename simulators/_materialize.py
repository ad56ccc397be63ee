"""Values that are computed once, whatever the compiler would rather repeat."""

from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata


def materialize(tree: Any) -> Any:
    """The same arrays, written to memory.

    XLA on CPUs fuses an elementwise operation with what produces its operands, and repeats a producer in every fusion
    that needs it. In a chain where each value enters all later ones, as in Gaussian elimination or in the stages of a
    Rosenbrock method, the repetitions multiply: without this the steps of `Rodas5P` on three unknowns take three to
    four times as long. `jax.lax.optimization_barrier` does not help, since it is removed before fusion; a call that is
    not inlined does. Elsewhere than on CPUs this does nothing.
    """
    return jax.lax.platform_dependent(tree, cpu=_called, default=_identity)


def _called(tree: Any) -> Any:
    with set_xla_metadata(inlineable="false"):
        return _call(tree)


def _identity(tree: Any) -> Any:
    return tree


_call = jax.jit(_identity)
