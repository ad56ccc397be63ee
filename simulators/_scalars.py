"""A small state as a tuple of scalars, so that the compiler works on one vector of lanes per unknown."""

import dataclasses
import math
from typing import Any

import diffrax
import jax
import jax.numpy as jnp

from ._problem import Problem


@dataclasses.dataclass(frozen=True)
class Scalars:
    """The structure of a state, an array or a pytree of arrays, and the way to a tuple of its numbers and back."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, state: Any) -> "Scalars":
        """The structure of `state`."""
        leaves, structure = jax.tree.flatten(state)
        return cls(structure, tuple(leaf.shape for leaf in leaves))

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def split(self, state: Any) -> tuple[jax.Array, ...]:
        """The numbers of a state, one array without dimensions each."""
        leaves = [leaf.reshape(-1) for leaf in jax.tree.leaves(state)]
        return tuple(leaf[i] for leaf in leaves for i in range(leaf.size))

    def join(self, numbers: Any) -> Any:
        """The state of numbers; what leading dimensions they have, all leaves get."""
        leaves, start = [], 0
        for shape in self.shapes:
            count = math.prod(shape)
            part = numbers[start : start + count]
            # an unknown that stands alone needs no stack
            leaf = jnp.stack(part, -1) if shape else part[0]
            leaves.append(leaf.reshape(*leaf.shape[:-1], *shape) if shape else leaf)
            start += count
        return jax.tree.unflatten(self.structure, leaves)

    def restore(self, rows: jax.Array) -> Any:
        """The state of an array with the numbers along its last axis; the other dimensions lead in every leaf."""
        leaves, start = [], 0
        for shape in self.shapes:
            count = math.prod(shape)
            leaves.append(rows[..., start : start + count].reshape(*rows.shape[:-1], *shape))
            start += count
        return jax.tree.unflatten(self.structure, leaves)


def scalarise(problem: Problem) -> tuple[Problem, Scalars]:
    """The same problem in scalars. Its terms must be one `diffrax.ODETerm`."""
    scalars = Scalars.of(problem.y0)
    field = problem.terms.vector_field

    def split_field(t, numbers, args):
        return scalars.split(field(t, scalars.join(numbers), args))

    def split_event(function):
        return lambda t, numbers, args: function(t, scalars.join(numbers), args)

    return Problem(
        terms=diffrax.ODETerm(split_field),
        y0=scalars.split(problem.y0),
        args=problem.args,
        times=problem.times,
        known=problem.known,
        event=None if problem.event is None else problem.event.moved(split_event),
        jumps=problem.jumps,
    ), scalars
