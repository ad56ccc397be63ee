"""Designs of experiments: which members are to be solved."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._check import check_kind, check_whole, shown
from ._fields import GaussianRandomField
from ._space import ParameterSpace

METHODS = ("sobol", "latin_hypercube", "halton", "random")


@dataclasses.dataclass(frozen=True, eq=False)
class Design(Mapping[str, np.ndarray]):
    """A mapping from parameter name to the values of all members, shape (member, *parameter shape), double precision.

    **Arguments:**

    - `columns`: the arrays, in the space's order.
    - `space`: the parameter space they were drawn from.
    - `method`, `seed`: how they were drawn; recorded with every ensemble.
    """

    columns: dict[str, np.ndarray]
    space: ParameterSpace
    method: str
    seed: int | None

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def members(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Design({self.members} members of {', '.join(self)}; {self.method}, seed {self.seed})"


def sample(space: ParameterSpace, n: int, *, method: str = "sobol", seed: int = 0) -> Design:
    """Draw a design of `n` members.

    The scalar parameters are points of a low-discrepancy or random sequence in the unit cube, sent through each
    parameter's quantile function; fields are drawn by seed and member index. The first members of a larger design
    (`sobol`, `halton`, `random`) are those of a smaller one with the same seed.

    **Arguments:**

    - `space`: the parameter space.
    - `n`: number of members, at least 1.
    - `method`: `"sobol"` (scrambled), `"latin_hypercube"`, `"halton"` (scrambled) or `"random"`.
    - `seed`: same seed, same design.

    **Raises:** `ValueError` for a member count below 1, an unknown method or a negative seed.
    """
    check_kind("space", space, ParameterSpace, "a parameter space such as simulator.parameters")
    n, seed = check_whole("members", n, 1), check_whole("seed", seed)
    if method not in METHODS:
        raise ValueError(f"expected a method among {', '.join(METHODS)}; got {method!r}.")
    fields = [name for name, distribution in space.items() if isinstance(distribution, GaussianRandomField)]
    scalars = [name for name in space if name not in fields]
    cube = _unit_cube(len(scalars), n, method, seed) if scalars else np.empty((n, 0))
    values = {name: space[name].quantile(cube[:, column]) for column, name in enumerate(scalars)}
    for number, name in enumerate(fields):
        # each field parameter has a stream of its own
        values[name] = space[name].draw(seed + number * 2**32, np.arange(n))  # type: ignore[attr-defined]
    return Design({name: values[name] for name in space}, space, method, int(seed))


def _unit_cube(dimensions: int, n: int, method: str, seed: int) -> np.ndarray:
    from scipy.stats import qmc

    generator = np.random.default_rng(seed)
    match method:
        case "random":
            return generator.random((n, dimensions))
        case "latin_hypercube":
            return qmc.LatinHypercube(dimensions, rng=generator).random(n)
        case "halton":
            return qmc.Halton(dimensions, rng=generator).random(n)
        case _:
            # drawn up to the next power of two, so that the first n are the same whatever n
            return qmc.Sobol(dimensions, rng=generator).random_base2(max(0, math.ceil(math.log2(n))))[:n]


def as_design(space: ParameterSpace, design: Mapping[str, np.ndarray]) -> Design:
    """Any mapping from parameter name to equally long arrays as a `Design`.

    **Raises:** `ValueError` for no mapping, missing or unknown names, what is no number, unequal lengths, wrong shapes
    or no members.
    """
    if not (isinstance(design, Mapping) or hasattr(design, "keys")):  # a data frame is no `Mapping`
        raise ValueError(
            f"design: expected a mapping with an array for each of the parameters {', '.join(space)}, as data.sample "
            f"returns; got {shown(design)}."
        )
    space.check_names(design, "a design with the parameters")
    values = {name: _numbers(name, design[name]) for name in space}
    for name, value in values.items():
        if value.ndim != 1 + len(space[name].shape):
            raise ValueError(
                f"design parameter {name!r}: expected shape ({', '.join(['members', *map(str, space[name].shape)])}), "
                f"got {value.shape}."
            )
    lengths = {name: len(value) for name, value in values.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"expected arrays of one length, got {listed}.")
    if 0 in lengths.values():
        raise ValueError("expected a design with at least 1 member, got 0.")
    if isinstance(design, Design):
        return dataclasses.replace(design, columns=values)
    return Design(values, space, "given", None)


def _numbers(name: str, values: Any) -> np.ndarray:
    """One parameter's values in double precision; a text or a complex number is no value."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "USc":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"design parameter {name!r}: expected an array of numbers, got {shown(values)}.")


def subset(design: Design, members: np.ndarray) -> Design:
    """The members of a design that an index or mask selects.

    **Raises:** `ValueError` for what is no design.
    """
    check_kind("design", design, Design, "a design such as data.sample returns")
    return dataclasses.replace(design, columns={name: value[members] for name, value in design.items()})
