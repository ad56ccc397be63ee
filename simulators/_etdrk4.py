"""An exponential integrator for stiff semi-linear problems, as a diffrax solver."""

import math
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
from equinox.internal import ω

_SERIES_TERMS = 18


class _ExponentialInterpolation(diffrax.AbstractLocalInterpolation):
    """y(t0 + θh) = exp(θz) y0 + ∫ exp((θ - r) z) k(r) dr, k the parabola through the slopes at r = 0, 1/2 and 1."""

    t0: Any
    t1: Any
    y0: Any
    z: Any
    k0: Any
    k_middle: Any
    k1: Any

    def evaluate(self, t0, t1=None, left=True):
        del left
        if t1 is not None:
            return (self.evaluate(t1) ** ω - self.evaluate(t0) ** ω).ω
        fraction = (t0 - self.t0) / jnp.where(self.t1 == self.t0, 1, self.t1 - self.t0)
        return _advance(fraction, self.y0, self.z, self.k0, self.k_middle, self.k1)


class ETDRK4(diffrax.AbstractSolver):
    """Fourth-order exponential time differencing Runge-Kutta for u' = N(t, u) + L u with a constant diagonal L.

    L is integrated exactly, so its stiffness does not limit the step; N is evaluated four times per step. The
    coefficients are functions φ_k(hL), evaluated by their power series where |hL| < 1 and directly elsewhere: neither
    cancels.

    Call it with `terms=diffrax.MultiTerm(diffrax.ODETerm(nonlinear), diffrax.ODETerm(linear))`, explicit part first, as
    for `diffrax.KenCarp4`. `linear(t, y, args)` must multiply `y` elementwise by something independent of `t` and `y`.
    No error estimate: use a fixed step (`diffrax.ConstantStepSize`). Output between steps comes from the same
    integral over a part of the step and is of fourth order too.

    Real or complex state; any pytree. A complex L needs a complex state.

    Reference: Cox & Matthews, J. Comput. Phys. 176 (2002) 430, doi:10.1006/jcph.2002.6995; Kassam & Trefethen, SIAM J.
    Sci. Comput. 26 (2005) 1214, doi:10.1137/S1064827502410633.
    """

    term_structure: ClassVar = diffrax.MultiTerm[tuple[diffrax.AbstractTerm, diffrax.AbstractTerm]]
    interpolation_cls: ClassVar = _ExponentialInterpolation

    def order(self, terms):
        return 4

    def init(self, terms, t0, t1, y0, args):
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        del solver_state, made_jump
        nonlinear, linear = terms.terms
        control = nonlinear.contr(t0, t1)
        middle = t0 + (t1 - t0) / 2
        ones = jax.tree.map(jnp.ones_like, y0)
        z = linear.vf_prod(t0, ones, args, linear.contr(t0, t1))
        decay = jax.tree.map(lambda z: jnp.exp(z / 2), z)
        weight = jax.tree.map(lambda z: phi(z / 2)[0] / 2, z)

        def stage(start, slope):
            return (decay**ω * start**ω + weight**ω * slope**ω).ω

        k0 = nonlinear.vf_prod(t0, y0, args, control)
        a = stage(y0, k0)
        ka = nonlinear.vf_prod(middle, a, args, control)
        kb = nonlinear.vf_prod(middle, stage(y0, ka), args, control)
        kc = nonlinear.vf_prod(t1, stage(a, (2 * kb**ω - k0**ω).ω), args, control)
        slopes = {"k0": k0, "k_middle": ((ka**ω + kb**ω) / 2).ω, "k1": kc}
        y1 = _advance(1.0, y0, z, **slopes)
        return y1, None, {"y0": y0, "z": z} | slopes, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def phi(z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """φ_1, φ_2, φ_3 at `z`, elementwise, to rounding: φ_k(z) = Σ_j z^j / (j + k)! = (φ_{k-1}(z) - 1/(k-1)!) / z."""
    small = jnp.abs(z) < 1
    near, far = jnp.where(small, z, 0), jnp.where(small, 1, z)
    series = jnp.zeros_like(z)
    for power in reversed(range(_SERIES_TERMS)):
        series = series * near + 1 / math.factorial(power + 3)
    upward = (1 + near * (0.5 + near * series), 0.5 + near * series, series)
    first = (jnp.exp(far) - 1) / far
    second = (first - 1) / far
    downward = (first, second, (second - 0.5) / far)
    return tuple(jnp.where(small, a, b) for a, b in zip(upward, downward, strict=True))  # type: ignore[return-value]


def _advance(fraction, y0, z, k0, k_middle, k1):
    """The state at `fraction` of a step: each slope is h N at the start, the middle and the end of the step."""

    def leaf(y, z, k0, k_middle, k1):
        part = jnp.asarray(fraction, z.real.dtype)
        linear, quadratic = 4 * k_middle - 3 * k0 - k1, 2 * (k0 - 2 * k_middle + k1)
        phi1, phi2, phi3 = phi(part * z)
        return jnp.exp(part * z) * y + part * (phi1 * k0 + part * (phi2 * linear + 2 * part * phi3 * quadratic))

    return jax.tree.map(leaf, y0, z, k0, k_middle, k1)
