"""Dense Jacobians: solutions of (σ I - ∂f/∂y) x = b against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emulax.simulators import Dense


@pytest.mark.parametrize("unknowns", [1, 2, 3, 4, 5, 40])
def test_solutions_agree_with_numpy(unknowns):
    rng = np.random.default_rng(unknowns)
    matrix, b = rng.normal(size=(unknowns, unknowns)), rng.normal(size=unknowns)
    y = rng.normal(size=unknowns)
    with jax.enable_x64(True):
        x = jax.jit(lambda y, b: Dense().factor(lambda y: matrix @ jnp.sin(y), y, 0.7)(b))(y, b)
    np.testing.assert_allclose(x, np.linalg.solve(0.7 * np.eye(unknowns) - matrix * np.cos(y), b), rtol=1e-9)


@pytest.mark.parametrize("unknowns", [3, 20])
def test_rows_are_exchanged_where_the_pivot_is_zero(unknowns):
    """σ = 0 and a cyclic shift: every diagonal entry is zero."""
    b = np.arange(1.0, unknowns + 1)
    x = Dense().factor(lambda y: jnp.roll(y, 1), jnp.zeros(unknowns), 0.0)(jnp.asarray(b, np.float32))
    np.testing.assert_allclose(x, -np.roll(b, -1), rtol=1e-6)


def test_a_small_pivot_loses_no_digits():
    """Without exchange of rows the pivot 1e-20 would make x[0] zero."""
    with jax.enable_x64(True):
        matrix = np.array([[-1e-20, -1.0], [-1.0, -1.0]])
        x = Dense().factor(lambda y: jnp.stack([matrix[0] @ y, matrix[1] @ y]), jnp.zeros(2), 0.0)(
            jnp.array([1.0, 2.0])
        )
    np.testing.assert_allclose(x, [1.0, 1.0], rtol=1e-15)


@pytest.mark.parametrize("extra", [0, 30])
def test_structure_and_shapes_stay(extra):
    y = {"a": jnp.zeros(()), "b": (jnp.zeros((2, 1)), jnp.zeros(extra))}
    b = jax.tree.map(lambda leaf: jnp.ones_like(leaf), y)
    x = Dense().factor(lambda y: jax.tree.map(lambda leaf: -3 * leaf, y), y, 1.0)(b)
    assert jax.tree.structure(x) == jax.tree.structure(y)
    assert [leaf.shape for leaf in jax.tree.leaves(x)] == [(), (2, 1), (extra,)]
    for leaf in jax.tree.leaves(x):
        np.testing.assert_allclose(leaf, 0.25, rtol=1e-6)


@pytest.mark.parametrize("unknowns", [2, 20])
def test_singular_systems_give_no_finite_solution(unknowns):
    x = Dense().factor(lambda y: y, jnp.ones(unknowns), 1.0)(jnp.ones(unknowns))
    assert not np.isfinite(x).any()


@pytest.mark.parametrize("unknowns", [3, 20])
def test_many_members_at_once_and_derivatives(unknowns):
    """x = b / (σ + c), dx/dc = -b / (σ + c)²."""

    def first(c):
        return Dense().factor(lambda y: -c * y, jnp.ones(unknowns), 1.0)(jnp.ones(unknowns))[0]

    cs = np.array([0.0, 1.0, 3.0], np.float32)
    np.testing.assert_allclose(jax.vmap(first)(cs), 1 / (1 + cs), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(first))(cs), -1 / (1 + cs) ** 2, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(first))(cs), -1 / (1 + cs) ** 2, rtol=1e-5)
