"""What an architecture is: hyper-parameters that build a network for a simulator's parameters and outputs."""

import abc
import dataclasses
import math
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import numpy as np

from ..data import Output, ParameterSpace, check_whole, shown


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """What a surrogate takes and gives: the shapes that a network is built for.

    **Arguments:**

    - `space`: the parameters, in order.
    - `outputs`: the outputs, in order.
    - `times`: saved times, `(time,)`, double precision.
    - `coordinates`: grid points of each space dimension, by name.
    - `time_unit`: unit of `times`.
    """

    space: ParameterSpace
    outputs: dict[str, Output]
    times: np.ndarray
    coordinates: dict[str, np.ndarray]
    time_unit: str = ""

    @property
    def scalars(self) -> tuple[str, ...]:
        """Names of the scalar parameters, in order."""
        return tuple(name for name, distribution in self.space.items() if not distribution.shape)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parameters that are functions on a grid, in order."""
        return tuple(name for name, distribution in self.space.items() if distribution.shape)

    @property
    def inputs(self) -> int:
        """Number of input values, field points included."""
        return sum(math.prod(distribution.shape) for distribution in self.space.values())

    @property
    def space_shape(self) -> tuple[int, ...]:
        """Shape of every output at one time, `()` for scalar outputs.

        **Raises:** `ValueError` if the outputs have different space dimensions.
        """
        dims = {output.dims for output in self.outputs.values()}
        if len(dims) > 1:
            listed = ", ".join(f"{name} on ({', '.join(o.dims)})" for name, o in self.outputs.items())
            raise ValueError(
                f"expected all outputs of one surrogate on the same space dimensions, got {listed}; "
                "train one surrogate for each kind."
            )
        return tuple(len(self.coordinates[dim]) for dim in dims.pop())

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of what a network returns: `(time, output, *space)`."""
        return (len(self.times), len(self.outputs), *self.space_shape)


class AbstractArchitecture(eqx.Module):
    """Hyper-parameters of a kind of network; its fields are numbers and texts, so that they can be written as JSON.

    A network is called with one member, `network(inputs)`: `inputs` are the normalised parameters by name (scalars
    about -1 to 1, fields divided by their rms), the result is normalised and has the shape `(time, output, *space)`.

    `target_scaling` says how outputs are normalised: `"standardise"` for one mean and standard deviation per output
    and time (and point), `"scale"` for division by one rms per output, which leaves fields on any grid what they are.
    """

    target_scaling: ClassVar[str] = "standardise"

    @abc.abstractmethod
    def build(self, layout: Layout, *, key: jax.Array) -> Any:
        """A network with random weights.

        **Arguments:**

        - `layout`: parameters, outputs, times and grid.
        - `key`: randomness of the weights.

        **Returns:** an `equinox.Module`, called as the class says.

        **Raises:** `ValueError` if this kind of network cannot serve that layout.
        """

    def to_json(self) -> dict[str, Any]:
        """The class name and every hyper-parameter."""
        settings = {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return {"name": type(self).__name__} | settings

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Self:
        """The inverse of `to_json`, without the name."""
        return cls(**settings)


def _plain(value: Any) -> Any:
    """A NumPy number as Python's, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def check_sizes(architecture: AbstractArchitecture, *names: str) -> None:
    """Refuse hyper-parameters that are no whole number of at least 1, or an `activation` that `jax.nn` has not.

    **Raises:** `ValueError`.
    """
    for name in names:
        check_whole(name, getattr(architecture, name), 1)
    activation = architecture.activation  # type: ignore[attr-defined]
    if not (isinstance(activation, str) and callable(getattr(jax.nn, activation, None))):
        raise ValueError(f"activation: expected a function of jax.nn such as 'silu', got {shown(activation)}.")
