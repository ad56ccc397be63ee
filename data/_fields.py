"""Random fields as parameters: an initial condition on a periodic grid, drawn by member index."""

import dataclasses
import math
from typing import ClassVar

import numpy as np

from ._check import check_whole
from ._distributions import AbstractDistribution, check_fields


@dataclasses.dataclass(frozen=True)
class GaussianRandomField(AbstractDistribution):
    """Zero-mean Gaussian field N(0, variance (-d2/dx2 + shift I)^-exponent) on the periodic interval [0, length].

    In the orthonormal Fourier basis of the interval, the coefficient of wavenumber k = 2 pi j / length is normal with
    variance `variance / (k^2 + shift)^exponent`; the constant mode is left out. Modes up to j = `modes` are drawn, so
    one member is the same function on every grid that resolves them.

    **Arguments:**

    - `points`: number of equidistant grid points, the end point left out.
    - `length`: length of the periodic interval.
    - `variance`, `shift`, `exponent`: the covariance above.
    - `modes`: highest wavenumber index drawn; at most `points / 2 - 1`.
    - `unit`: unit of the field's values.
    """

    points: int = 256
    length: float = 1.0
    variance: float = 625.0
    shift: float = 25.0
    exponent: float = 2.0
    modes: int = 64
    unit: str = ""
    logarithmic: ClassVar[bool] = False

    def __post_init__(self):
        for name in ("points", "modes"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        check_fields(self, "length", "variance", "shift", "exponent")
        if self.length <= 0 or self.variance <= 0 or self.shift < 0:
            raise ValueError(
                "expected length > 0, variance > 0 and shift >= 0, "
                f"got length={self.length}, variance={self.variance}, shift={self.shift}."
            )
        if not 1 <= self.modes < self.points / 2:
            raise ValueError(f"expected 1 <= modes < points / 2 = {self.points / 2}, got modes={self.modes}.")

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.points,)

    @property
    def bounds(self):
        return -math.inf, math.inf

    def quantile(self, probability):
        raise NotImplementedError("a random field has no quantile function; it is drawn with `draw`.")

    def draw(self, seed: int, indices: np.ndarray, points: int | None = None) -> np.ndarray:
        """Fields of the members `indices`, shape (member, points), in double precision.

        A member's field depends on the seed and its index alone. `points` changes the grid, not the function.
        """
        points = self.points if points is None else points
        if points <= 2 * self.modes:
            raise ValueError(f"expected points > 2 * modes = {2 * self.modes}, got points={points}.")
        wavenumber = 2 * np.pi * np.arange(1, self.modes + 1) / self.length
        scale = np.sqrt(self.variance) * (wavenumber**2 + self.shift) ** (-self.exponent / 2)
        normals = np.stack(
            [
                np.random.Generator(np.random.Philox(key=[seed, int(i)])).standard_normal((2, self.modes))
                for i in indices
            ]
        )
        # basis sqrt(2/L) cos, sqrt(2/L) sin: irfft gives (2/n) Re(c exp(ikx)), hence the factor n/2
        coefficients = np.sqrt(2 / self.length) * scale * (normals[:, 0] - 1j * normals[:, 1]) * points / 2
        spectrum = np.zeros((len(indices), points // 2 + 1), np.complex128)
        spectrum[:, 1 : self.modes + 1] = coefficients
        return np.fft.irfft(spectrum, n=points, axis=-1)
