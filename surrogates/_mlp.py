"""The multilayer perceptron: a network from a few numbers to a few numbers."""

import math
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp

from ..data import check_kind
from ._architecture import AbstractArchitecture, Layout, check_sizes


class MLP(AbstractArchitecture):
    """Multilayer perceptron: h <- σ(W h + b), or with `residual` h <- h + σ(W h + b), `depth` times.

    The parameters are concatenated in order, fields flattened; all outputs at all times come from one linear layer.

    **Arguments:**

    - `width`: neurons in each hidden layer.
    - `depth`: hidden layers.
    - `activation`: a function of `jax.nn` by name.
    - `residual`: add every hidden layer after the first to its input.

    Cost per member: width (inputs + (depth - 1) width + outputs) multiplications. Good values: width 64 to 128, depth
    3 to 5; narrow networks, small batches and many steps do better than wide networks at equal time.
    """

    width: int = 64
    depth: int = 3
    activation: str = "silu"
    residual: bool = False

    def __check_init__(self):
        check_sizes(self, "width", "depth")
        check_kind("residual", self.residual, bool, "True or False")

    def build(self, layout: Layout, *, key: jax.Array) -> "Perceptron":
        return Perceptron(self, layout, key=key)


class Perceptron(eqx.Module):
    """The network that `MLP` builds: `{name: (*shape)}` to `(time, output, *space)`."""

    hidden: list[eqx.nn.Linear]
    last: eqx.nn.Linear
    names: tuple[str, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    residual: bool = eqx.field(static=True)

    def __init__(self, sizes: MLP, layout: Layout, *, key: jax.Array):
        keys = jax.random.split(key, sizes.depth + 1)
        widths = [layout.inputs] + [sizes.width] * sizes.depth
        self.hidden = [eqx.nn.Linear(widths[i], widths[i + 1], key=keys[i]) for i in range(sizes.depth)]
        self.names, self.shape = tuple(layout.space), layout.output_shape
        self.activation, self.residual = sizes.activation, sizes.residual
        self.last = eqx.nn.Linear(sizes.width, math.prod(self.shape), key=keys[-1])

    def __call__(self, inputs: Mapping[str, jax.Array]) -> jax.Array:
        activation = getattr(jax.nn, self.activation)
        parts = [jnp.ravel(inputs[name]) for name in self.names]
        h = jnp.concatenate(parts).astype(self.last.weight.dtype)
        first, *rest = self.hidden
        if h.shape[0] != first.in_features:
            raise ValueError(
                f"expected {first.in_features} input values, got {h.shape[0]}: this network answers on the grid that "
                "it was trained on; FNO answers on any grid."
            )
        h = activation(first(h))
        for layer in rest:
            h = h + activation(layer(h)) if self.residual else activation(layer(h))
        return self.last(h).reshape(self.shape)
