"""Small integer codes with names: what became of a member, and who answered it."""

import enum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


class Status(enum.IntEnum):
    """What became of one member. The numbers are part of the file format and never change."""

    ok = 0
    max_steps = 1
    non_finite = 2
    bad_parameter = 3
    bad_output = 4
    solver_failed = 5
    event = 6


class Source(enum.IntEnum):
    """Who answered one member."""

    solver = 0
    surrogate = 1


ADVICE = {
    Status.ok: "The member finished.",
    Status.max_steps: "The solver ran out of steps: raise max_steps, loosen tolerances, or use an implicit solver.",
    Status.non_finite: "The state became infinite or NaN: check the parameters, or tighten the tolerances.",
    Status.bad_parameter: "A parameter is NaN or infinite: the member was not solved.",
    Status.bad_output: "The state is finite but an output is not (a logarithm of a negative state, say).",
    Status.solver_failed: "The solver gave up: its nonlinear solver diverged, or its step became too small.",
    Status.event: "The member ended at its event: values after that are NaN.",
}


class Label(eqx.Module):
    """An integer array whose values have names; it passes through `jit`, `vmap` and `cond` as data.

    Outside traced code it prints its name and compares with one: `solution.source == "surrogate"`.

    **Arguments:**

    - `code`: integer array of any shape.
    - `kind`: the enumeration that names the codes, `Status` or `Source`.
    """

    code: jax.Array
    kind: type[enum.IntEnum] = eqx.field(static=True)

    def __eq__(self, other):
        if isinstance(other, Label):
            return self.code == other.code
        return self.code == (self.kind[other] if isinstance(other, str) else other)

    def __ne__(self, other):
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self):
        if isinstance(self.code, Tracer):
            return f"{self.kind.__name__}<traced>"
        if np.ndim(self.code) == 0:
            return self.kind(int(self.code)).name
        return ", ".join(f"{count} {name}" for name, count in self.counts().items())

    def __repr__(self):
        return str(self)

    def counts(self) -> dict[str, int]:
        """How many members have each code, by name; only codes that occur."""
        codes, numbers = np.unique(np.asarray(self.code), return_counts=True)
        return {self.kind(int(code)).name: int(number) for code, number in zip(codes, numbers, strict=True)}


def label(code, kind: type[enum.IntEnum]) -> Label:
    """`code` (an integer, an enumeration member, or an integer array) as a `Label`."""
    return Label(jnp.asarray(code, dtype=jnp.int32), kind)
