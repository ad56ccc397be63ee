"""The members of an ensemble as engines take them."""

from typing import Any

import equinox as eqx


class Members(eqx.Module):
    """Rows to solve: arrays of NumPy on the host, of JAX on devices.

    - `parameters`: one array `(row, *shape)` per parameter, by name.
    - `number`: the member's number in its design, `(row,)`; its randomness depends on that and a seed alone.
    - `refined`: whether the row is a copy to be solved with `Numerics.refined()`, `(row,)`; see `_refinement`.
    """

    parameters: dict[str, Any]
    number: Any
    refined: Any
