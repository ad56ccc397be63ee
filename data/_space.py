"""Named parameters, in order, each with a unit, bounds and a distribution."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ._check import shown
from ._distributions import AbstractDistribution, LogNormal, LogUniform, Normal, Uniform
from ._fields import GaussianRandomField

DISTRIBUTIONS: dict[str, type[AbstractDistribution]] = {
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "normal": Normal,
    "log_normal": LogNormal,
    "gaussian_random_field": GaussianRandomField,
}


class ParameterSpace(Mapping[str, AbstractDistribution]):
    """The parameters of a simulator: `ParameterSpace(k=Uniform(0.1, 1.0, unit="1/s"))`.

    A mapping from name to distribution. The order of the names is part of it.

    **Raises:** `ValueError` for a space without parameters, `TypeError` for a value that is not a distribution.
    """

    def __init__(self, **parameters: AbstractDistribution):
        if not parameters:
            raise ValueError("a parameter space needs at least one parameter, got none.")
        for name, distribution in parameters.items():
            if not isinstance(distribution, AbstractDistribution):
                raise TypeError(
                    f"parameter {name!r}: expected a distribution such as data.Uniform(0.0, 1.0), got {distribution!r}."
                )
        self._parameters = dict(parameters)

    def __getitem__(self, name: str) -> AbstractDistribution:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParameterSpace) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self.items()))

    def __repr__(self) -> str:
        return f"ParameterSpace({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def replace(self, **parameters: AbstractDistribution) -> "ParameterSpace":
        """The same space, in the same order, with some distributions exchanged; unknown names are refused."""
        unknown = [name for name in parameters if name not in self]
        if unknown:
            raise ValueError(f"expected some of the parameters {', '.join(self)}; got unknown {', '.join(unknown)}.")
        return ParameterSpace(**(self._parameters | parameters))

    def check_names(self, given: Mapping[str, Any], what: str) -> None:
        """Refuse a mapping whose keys are not this space's names, in any order.

        **Raises:** `ValueError` naming what is missing and what is unknown; `what` says what was expected.
        """
        missing = [name for name in self if name not in given]
        unknown = [str(name) for name in given if name not in self]
        if missing or unknown:
            raise ValueError(
                f"expected {what} {', '.join(self)}"
                + (f"; missing {', '.join(missing)}" if missing else "")
                + (f"; unknown {', '.join(unknown)}" if unknown else "")
                + "."
            )

    def read(self, params: Mapping[str, Any]) -> dict[str, jax.Array]:
        """One member's parameters as arrays, in this space's order, whatever the order given.

        The last axis of a field may have any length: a surrogate that knows no resolution takes it as it comes.

        **Raises:** `ValueError` for a missing or unknown name, what is no number, or a wrong number of axes.
        """
        if not isinstance(params, Mapping):
            raise ValueError(f"expected a mapping with the parameters {', '.join(self)}; got {shown(params)}.")
        self.check_names(params, "the parameters")
        values = {name: _real(name, params[name]) for name in self}
        for name, value in values.items():
            expected = self[name].shape
            if value.ndim != len(expected):
                raise ValueError(
                    f"parameter {name!r}: expected shape {expected} for one member, got {value.shape}; "
                    "for many members use jax.vmap or simulators.solve_ensemble."
                )
        return values

    def to_json(self) -> list[dict[str, Any]]:
        """The space as JSON-ready data, one entry per parameter in order."""
        kinds = {kind: name for name, kind in DISTRIBUTIONS.items()}
        return [
            {"name": name, "distribution": kinds[type(value)]} | _finite_fields(value) for name, value in self.items()
        ]

    @staticmethod
    def from_json(entries: list[dict[str, Any]]) -> "ParameterSpace":
        """The inverse of `to_json`."""
        parameters = {}
        for entry in entries:
            settings = dict(entry)
            name, kind = settings.pop("name"), settings.pop("distribution")
            parameters[name] = DISTRIBUTIONS[kind](**settings)
        return ParameterSpace(**parameters)


def _real(name: str, value: Any) -> jax.Array:
    """One parameter's value as floating-point numbers."""
    try:
        # a text would be read as the name of a data type
        array = jnp.asarray(None if isinstance(value, (str, bytes)) else value)
        if jnp.issubdtype(array.dtype, jnp.floating):
            return array
        if jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool:
            return array.astype(float)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"parameter {name!r}: expected a real number or an array of them, got {shown(value)}.")


def _finite_fields(distribution: AbstractDistribution) -> dict[str, Any]:
    """A distribution's fields without infinite bounds, which JSON cannot hold and which are the defaults."""
    fields = dataclasses.asdict(distribution)  # type: ignore[arg-type]
    return {k: v for k, v in fields.items() if v not in (float("inf"), float("-inf"))}
