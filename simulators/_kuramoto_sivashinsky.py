"""The Kuramoto-Sivashinsky equation on a periodic interval."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import GaussianRandomField, Output, ParameterSpace
from ._burgers import evaluate, spectrum
from ._etdrk4 import ETDRK4
from ._numerics import Numerics
from ._problem import AbstractInitialValueSimulator, Problem, screen
from ._simulator import as_times, read_times

LENGTH = 32 * np.pi
RANDOM_START = ParameterSpace(
    u0=GaussianRandomField(points=256, length=LENGTH, variance=0.1, shift=0.25, exponent=4.0, modes=32)
)


class KuramotoSivashinsky(AbstractInitialValueSimulator):
    """Kuramoto-Sivashinsky: u_t + u u_x + u_xx + ν u_xxxx = 0 on [0, length), periodic, u(x, 0) = u0(x).

    Waves longer than 2π √ν grow, shorter ones decay, and steepening passes energy from the former to the latter: cells
    of length about 2π √(2ν) that merge and split chaotically once the interval holds a few. The mean of u is constant.
    Dealiased Fourier pseudo-spectral method in space (2/3 rule), exponential Runge-Kutta in time.

    **Arguments:**

    - `parameters`: the initial condition `u0`, a field on the same interval, and optionally the scalar `nu` > 0. The
      field may be given on any number of points that resolves its modes.
    - `nu`: strength of the fourth derivative, used unless `nu` is a parameter.
    - `length`: length of the interval.
    - `points`: equidistant output points, the end point left out.
    - `solve_points`: grid points on which products are formed; wavenumbers up to a third of it are solved.
    - `times`: saved times; the initial condition holds at time 0.
    - `numerics`: solver and fixed step.

    Good values: ν = 1, length 32π, step 0.1. The largest Lyapunov exponent is about 0.08 there: errors grow by a factor
    e in a time of 12, and no double-precision solution is exact, point by point, beyond t = 400 or so.

    Reference: Kuramoto & Tsuzuki, Prog. Theor. Phys. 55 (1976) 356, doi:10.1143/PTP.55.356; Kassam & Trefethen, SIAM J.
    Sci. Comput. 26 (2005) 1214, doi:10.1137/S1064827502410633.
    """

    parameters: ParameterSpace = eqx.field(static=True)
    nu: float
    length: float = eqx.field(static=True)
    points: int = eqx.field(static=True)
    solve_points: int = eqx.field(static=True)
    times: np.ndarray
    numerics: Numerics
    name: str = eqx.field(static=True)
    description: ClassVar[str] = "Kuramoto-Sivashinsky, periodic: u_t + u u_x + u_xx + ν u_xxxx = 0."
    reference: ClassVar[str] = "Kassam & Trefethen 2005, doi:10.1137/S1064827502410633"

    def __init__(
        self,
        parameters: ParameterSpace = RANDOM_START,
        nu: float = 1.0,
        length: float = LENGTH,
        points: int = 256,
        solve_points: int = 256,
        times: Any = np.linspace(0.0, 50.0, 51),  # noqa: B008
        numerics: Numerics = Numerics(solver=ETDRK4(), step=0.1),  # noqa: B008
        name: str = "kuramoto_sivashinsky",
    ):
        field = parameters.get("u0")
        if not isinstance(field, GaussianRandomField) or set(parameters) - {"u0", "nu"}:
            raise ValueError(
                f"parameters: expected a random field u0 and, if wanted, a scalar nu; got {', '.join(parameters)}."
            )
        if field.length != length:
            raise ValueError(
                f"expected u0 on the interval of length {length:g}, got {field.length:g}; make them equal."
            )
        if isinstance(nu, (int, float)) and not nu > 0:
            raise ValueError(f"nu: expected a positive number, got {nu!r}.")
        if points < 2 or solve_points < 8:
            raise ValueError(f"expected points >= 2 and solve_points >= 8, got {points} and {solve_points}.")
        self.parameters, self.nu, self.length = parameters, nu, length
        self.points, self.solve_points = points, solve_points
        self.times, self.numerics, self.name = as_times(times), numerics, name
        if self.times[0] < 0:
            raise ValueError(f"times: expected none before the initial condition at 0, got {self.times[0]:g}.")

    @property
    def outputs(self) -> dict[str, Output]:
        return {"u": Output(unit=self.parameters["u0"].unit, dims=("x",))}

    @property
    def coordinates(self) -> dict[str, np.ndarray]:
        return {"x": np.arange(self.points) * (self.length / self.points)}

    @property
    def time_unit(self) -> str:
        return ""

    @property
    def wavenumbers(self) -> np.ndarray:
        """The wavenumbers solved, `(mode,)`: products of two of them leave no alias on `solve_points`."""
        return 2 * np.pi / self.length * np.arange((self.solve_points - 1) // 3 + 1)

    @property
    def start(self) -> float:
        """The time of the initial condition."""
        return 0.0

    def problem(self, params: Mapping[str, Any], ts: Any = None) -> Problem:
        p = self.parameters.read(params)
        modes = self.parameters["u0"].modes  # type: ignore[attr-defined]
        if p["u0"].shape[-1] <= 2 * modes:
            raise ValueError(
                f"parameter 'u0': expected more than {2 * modes} points, which resolve its {modes} modes, "
                f"got {p['u0'].shape[-1]}."
            )
        dtype = p["u0"].dtype
        p = {"nu": jnp.asarray(self.nu, dtype)} | p
        times = jnp.asarray(read_times(np.zeros(1), self.times if ts is None else ts), dtype)
        positive = p["nu"] > 0
        known, p = screen(p, dtype)
        k = jnp.asarray(self.wavenumbers, dtype)
        terms = diffrax.MultiTerm(diffrax.ODETerm(self._advection), diffrax.ODETerm(self._linear))
        return Problem(terms, spectrum(p["u0"], k.size), (k, p["nu"]), times, known & positive)

    def observables(self, times: jax.Array, states: Any, args: Any) -> dict[str, jax.Array]:
        return {"u": jax.vmap(lambda c: evaluate(c, self.points))(states)}

    def cheaper(self) -> Iterable[tuple[str, "KuramotoSivashinsky"]]:
        own = self.numerics.step or 0.1
        for share, coarser in ((2, 4), (2, 2), (1, 2)):
            numerics = Numerics(solver=ETDRK4(), step=coarser * own)
            candidate = self.replace(solve_points=max(self.solve_points // share, 8), numerics=numerics)
            yield f"{candidate.solve_points} points, step {coarser * own:g}", candidate
        yield f"{self.solve_points} points, step {self.numerics.step or 0:g}", self

    def _advection(self, t, c, args):
        """-(u²)_x / 2 in Fourier space, formed on `solve_points` grid points."""
        k, _ = args
        u = jnp.fft.irfft(jax.lax.complex(c[0], c[1]), self.solve_points, norm="forward")
        squared = jnp.fft.rfft(u * u, norm="forward")[: k.size]
        return 0.5 * k * jnp.stack([squared.imag, -squared.real])

    def _linear(self, t, c, args):
        """-u_xx - ν u_xxxx in Fourier space."""
        k, nu = args
        return k**2 * (1 - nu * k**2) * c
