"""The Fourier neural operator: a network from fields to fields that knows no grid."""

import math
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._architecture import AbstractArchitecture, Layout, check_sizes


class FNO(AbstractArchitecture):
    """Fourier neural operator on one periodic dimension.

    Every block adds a pointwise linear map and a linear map of the lowest Fourier modes, h <- σ(W h + b + K h), between
    a pointwise lift and a pointwise two-layer projection. No coordinate enters: shifting the input shifts the output.
    A grid of any length is accepted; one of N points carries min(modes, N // 2 + 1) modes.

    Fields are input channels; scalar parameters are constant channels. Every output at every time is an output channel.

    **Arguments:**

    - `width`: channels.
    - `modes`: Fourier modes that a block mixes, the constant one included.
    - `depth`: blocks.
    - `activation`: a function of `jax.nn` by name; the last block has none.

    Cost per member and block: N width (width + 4 modes) + 4 modes width² multiplications. Good values on 256 points and
    1,000 members: the defaults, batches of 20, 90 % of the steps on 64 points.

    Reference: Li et al., Fourier neural operator for parametric partial differential equations, arXiv:2010.08895.
    """

    width: int = 64
    modes: int = 16
    depth: int = 4
    activation: str = "gelu"
    target_scaling: ClassVar[str] = "scale"

    def __check_init__(self):
        check_sizes(self, "width", "modes", "depth")

    def build(self, layout: Layout, *, key: jax.Array) -> "FourierOperator":
        shapes = {name: layout.space[name].shape for name in layout.fields}
        if not shapes or any(len(shape) != 1 for shape in (*shapes.values(), layout.space_shape)):
            raise ValueError(
                "FNO: expected at least one field among the parameters, and fields and outputs on one space dimension; "
                f"got fields of shape {shapes or 'none'} and outputs of shape {layout.space_shape}; use MLP otherwise."
            )
        return FourierOperator(self, layout, key=key)


class FourierOperator(eqx.Module):
    """The network that `FNO` builds: `{name: (point,) or ()}` to `(time, output, point)`."""

    lift: eqx.nn.Linear
    blocks: list["FourierBlock"]
    widen: eqx.nn.Linear
    project: eqx.nn.Linear
    fields: tuple[str, ...] = eqx.field(static=True)
    scalars: tuple[str, ...] = eqx.field(static=True)
    shape: tuple[int, int] = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(self, sizes: FNO, layout: Layout, *, key: jax.Array):
        first, second, third, *rest = jax.random.split(key, 3 + sizes.depth)
        self.fields, self.scalars = layout.fields, layout.scalars
        self.shape, self.activation = (len(layout.times), len(layout.outputs)), sizes.activation
        self.lift = eqx.nn.Linear(len(layout.space), sizes.width, key=first)
        self.blocks = [FourierBlock(sizes.width, sizes.modes, key=key) for key in rest]
        self.widen = eqx.nn.Linear(sizes.width, 2 * sizes.width, key=second)
        self.project = eqx.nn.Linear(2 * sizes.width, math.prod(self.shape), key=third)

    def __call__(self, inputs: Mapping[str, jax.Array]) -> jax.Array:
        activation = getattr(jax.nn, self.activation)
        h = jax.vmap(self.lift)(self._channels(inputs))  # point channel
        for block in self.blocks[:-1]:
            h = activation(block(h))
        h = activation(jax.vmap(self.widen)(self.blocks[-1](h)))
        return jax.vmap(self.project)(h).T.reshape(*self.shape, -1)

    def _channels(self, inputs: Mapping[str, jax.Array]) -> jax.Array:
        """Inputs as `(point, channel)` in the precision of the weights."""
        shapes = {name: jnp.shape(inputs[name]) for name in self.fields}
        if len(set(shapes.values())) != 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise ValueError(f"expected the fields of one member on one grid, shape (points,), got {shapes}.")
        (points,) = shapes[self.fields[0]]
        channels = [jnp.broadcast_to(inputs[name], points) for name in self.fields + self.scalars]
        return jnp.stack(channels, axis=-1).astype(self.lift.weight.dtype)


class FourierBlock(eqx.Module):
    """h -> W h + b + K h on `(point, channel)`: a pointwise linear map and a linear map of the lowest Fourier modes."""

    pointwise: eqx.nn.Linear
    spectral: "SpectralConvolution"

    def __init__(self, width: int, modes: int, *, key: jax.Array):
        first, second = jax.random.split(key)
        self.pointwise = eqx.nn.Linear(width, width, key=first)
        self.spectral = SpectralConvolution(width, width, modes, key=second)

    def __call__(self, h: jax.Array) -> jax.Array:
        return jax.vmap(self.pointwise)(h) + self.spectral(h)


class SpectralConvolution(eqx.Module):
    """Convolution on a periodic grid: Fourier mode k of the output is a complex matrix times mode k of the input.

    The transforms are real matrices with `modes` rows for the real and the imaginary part: for few modes cheaper than
    an FFT, and free of complex numbers. They are divided by the number of points, so that weights hold on every grid.

    - `weight`: `(2, mode, input channel, output channel)`, real and imaginary part.
    """

    weight: jax.Array

    def __init__(self, inputs: int, outputs: int, modes: int, *, key: jax.Array):
        bound = np.sqrt(3 / (2 * inputs))  # variance 1 / (2 inputs)
        self.weight = jax.random.uniform(key, (2, modes, inputs, outputs), minval=-bound, maxval=bound)

    def __call__(self, h: jax.Array) -> jax.Array:
        points, inputs = h.shape
        forward, backward = transforms(points, self.weight.shape[1], h.dtype)
        modes = len(forward) // 2
        real, imaginary = (forward @ h).reshape(2, modes, 1, inputs)
        a, b = self.weight[:, :modes]
        mixed = jnp.concatenate([real @ a - imaginary @ b, real @ b + imaginary @ a])
        return backward @ mixed[:, 0]


def transforms(points: int, modes: int, dtype) -> tuple[jax.Array, jax.Array]:
    """Matrices to the lowest `modes` Fourier coefficients of a real grid function and back.

    Shapes `(2 mode, point)` and `(point, 2 mode)`, real parts first. Modes that `points` does not resolve are left out.
    """
    mode = np.arange(min(modes, points // 2 + 1))
    angle = 2 * np.pi * ((mode[:, None] * np.arange(points)) % points) / points
    forward = np.concatenate([np.cos(angle), -np.sin(angle)])
    # every mode but the constant and the highest of an even grid stands for its conjugate too
    twice = np.where((mode == 0) | (2 * mode == points), 1, 2)
    backward = forward.T * np.concatenate([twice, twice])
    return jnp.asarray(forward / points, dtype), jnp.asarray(backward, dtype)
