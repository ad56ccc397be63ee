"""The viscous Burgers equation on a periodic interval."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import GaussianRandomField, Output, ParameterSpace
from ._etdrk4 import ETDRK4
from ._numerics import Numerics
from ._problem import AbstractInitialValueSimulator, Problem, screen
from ._simulator import as_times, read_times

RANDOM_FIELD = ParameterSpace(u0=GaussianRandomField(points=256, variance=625.0, shift=25.0, exponent=2.0))

# (solve_points, step) from cheap to exact: steps at which none of 1,000 random members became unstable
LADDER = ((24, 0.05), (32, 0.04), (40, 0.025), (48, 0.02), (64, 0.0125), (96, 0.0125), (128, 0.00625))


class Burgers(AbstractInitialValueSimulator):
    """Viscous Burgers equation: u_t + u u_x = ν u_xx on [0, length), periodic, u(x, 0) = u0(x).

    Waves steepen into fronts of width about 4ν over the jump, which merge and decay; the mean of u is constant and its
    energy never grows. Dealiased Fourier pseudo-spectral method in space (2/3 rule), exponential Runge-Kutta in time.

    **Arguments:**

    - `parameters`: the initial condition `u0`, a field on the same interval, and optionally the viscosity as a scalar
      `nu`. The field may be given on any number of points that resolves its modes.
    - `nu`: viscosity, used unless `nu` is a parameter.
    - `length`: length of the interval.
    - `points`: equidistant output points, the end point left out.
    - `solve_points`: grid points on which products are formed; wavenumbers up to a third of it are solved.
    - `times`: saved times; the initial condition holds at time 0.
    - `numerics`: solver and fixed step.

    Good values: ν = 0.01 with the default field (rms 0.59). At time 1 the relative L2 error is 1.3e-8 in the median and
    below 4e-7 for every one of 1,000 members; around time 0.1, when fronts are steepest, it reaches 2e-4, and half the
    step and 1.5 times the points bring it to 5e-6. For a smaller ν raise `solve_points` in proportion to 1/ν.

    Reference: Basdevant et al., Comput. Fluids 14 (1986) 23, doi:10.1016/0045-7930(86)90036-8; the random field as in
    Li et al., arXiv:2010.08895.
    """

    parameters: ParameterSpace = eqx.field(static=True)
    nu: float
    length: float = eqx.field(static=True)
    points: int = eqx.field(static=True)
    solve_points: int = eqx.field(static=True)
    times: np.ndarray
    numerics: Numerics
    name: str = eqx.field(static=True)
    description: ClassVar[str] = "Viscous Burgers, periodic: u_t + u u_x = ν u_xx."
    reference: ClassVar[str] = "Basdevant et al. 1986, doi:10.1016/0045-7930(86)90036-8"

    def __init__(
        self,
        parameters: ParameterSpace = RANDOM_FIELD,
        nu: float = 0.01,
        length: float = 1.0,
        points: int = 256,
        solve_points: int = 256,
        times: Any = (1.0,),
        numerics: Numerics = Numerics(solver=ETDRK4(), step=0.005),  # noqa: B008
        name: str = "burgers",
    ):
        _check_field(parameters, length)
        if isinstance(nu, (int, float)) and not nu >= 0:
            raise ValueError(f"nu: expected a viscosity of at least 0, got {nu!r}.")
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
    def step(self) -> float | None:
        """The fixed time step."""
        return self.numerics.step

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
        self._check_resolution(p["u0"])
        dtype = p["u0"].dtype
        p = {"nu": jnp.asarray(self.nu, dtype)} | p
        times = jnp.asarray(read_times(np.zeros(1), self.times if ts is None else ts), dtype)
        positive = p["nu"] >= 0
        known, p = screen(p, dtype)
        k = jnp.asarray(self.wavenumbers, dtype)
        terms = diffrax.MultiTerm(diffrax.ODETerm(self._advection), diffrax.ODETerm(self._diffusion))
        return Problem(terms, spectrum(p["u0"], k.size), (k, p["nu"]), times, known & positive)

    def observables(self, times: jax.Array, states: Any, args: Any) -> dict[str, jax.Array]:
        return {"u": jax.vmap(lambda c: evaluate(c, self.points))(states)}

    def cheaper(self) -> Iterable[tuple[str, "Burgers"]]:
        for solve_points, step in LADDER:
            if solve_points < self.solve_points:
                numerics = Numerics(solver=ETDRK4(), step=step)
                yield (
                    f"{solve_points} points, step {step:g}",
                    self.replace(solve_points=solve_points, numerics=numerics),
                )
        yield f"{self.solve_points} points, step {self.step or 0:g}", self

    def _advection(self, t, c, args):
        """-(u²)_x / 2 in Fourier space, formed on `solve_points` grid points."""
        k, _ = args
        u = jnp.fft.irfft(_complex(c), self.solve_points, norm="forward")
        squared = jnp.fft.rfft(u * u, norm="forward")[: k.size]
        return 0.5 * k * jnp.stack([squared.imag, -squared.real])

    def _diffusion(self, t, c, args):
        """ν u_xx in Fourier space."""
        k, nu = args
        return -nu * k**2 * c

    def _check_resolution(self, u0: jax.Array) -> None:
        modes = self.parameters["u0"].modes  # type: ignore[attr-defined]
        if u0.shape[-1] <= 2 * modes:
            raise ValueError(
                f"parameter 'u0': expected more than {2 * modes} points, which resolve its {modes} modes, "
                f"got {u0.shape[-1]}."
            )


def _check_field(parameters: ParameterSpace, length: float) -> None:
    field = parameters.get("u0")
    if not isinstance(field, GaussianRandomField) or set(parameters) - {"u0", "nu"}:
        listed = ", ".join(f"{name} ({type(value).__name__})" for name, value in parameters.items())
        raise ValueError(f"parameters: expected a random field u0 and, if wanted, a scalar nu; got {listed}.")
    if field.length != length:
        raise ValueError(
            f"expected u0 on the interval of length {length:g}, got length {field.length:g}; make them equal."
        )


def _complex(c: jax.Array) -> jax.Array:
    return jax.lax.complex(c[0], c[1])


def spectrum(u: jax.Array, modes: int) -> jax.Array:
    """Fourier coefficients 0 to `modes` - 1 of a periodic field, `(2, mode)`: real and imaginary part.

    Wavenumbers that the grid of `u` does not resolve are 0.
    """
    resolved = min(modes, (u.shape[-1] + 1) // 2)
    c = jnp.fft.rfft(u, norm="forward")[:resolved]
    return jnp.pad(jnp.stack([c.real, c.imag]), ((0, 0), (0, modes - resolved)))


def evaluate(c: jax.Array, points: int) -> jax.Array:
    """The field with Fourier coefficients `c`, `(2, mode)`, at `points` equidistant points, `(points,)`."""
    fold = -(-2 * c.shape[-1] // points)
    return jnp.fft.irfft(_complex(c), fold * points, norm="forward")[::fold]
