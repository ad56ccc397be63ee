"""Distributions of one parameter: how a point of the unit interval becomes a value with a unit."""

import abc
import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from scipy import special

from ._check import check_kind, check_number


class AbstractDistribution(abc.ABC):
    """The distribution of one parameter.

    `lower` and `upper` bound the values; `shape` is `()` for a scalar parameter.
    """

    unit: str
    shape: tuple[int, ...] = ()

    @property
    @abc.abstractmethod
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value; infinite where the distribution has no bound."""

    @abc.abstractmethod
    def quantile(self, probability: np.ndarray) -> np.ndarray:
        """Inverse of the cumulative distribution: points of [0, 1] to values, elementwise, in double precision."""


def check_fields(distribution: Any, *numbers: str) -> None:
    """Turn the fields `numbers` into Python numbers, which JSON can hold, and refuse what is no number; the unit is a
    text."""
    for name in numbers:
        number = check_number(name, getattr(distribution, name), "a number")
        object.__setattr__(distribution, name, number)
    check_kind("unit", distribution.unit, str, 'a text such as "1/s"')


def _check_order(lower: float, upper: float) -> None:
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise ValueError(f"bounds must be finite, got lower={lower}, upper={upper}.")
    if not lower < upper:
        raise ValueError(f"expected lower < upper, got lower={lower}, upper={upper}; swap them.")


@dataclasses.dataclass(frozen=True)
class Uniform(AbstractDistribution):
    """Uniform on [lower, upper]: density 1 / (upper - lower)."""

    lower: float
    upper: float
    unit: str = ""
    logarithmic: ClassVar[bool] = False

    def __post_init__(self):
        check_fields(self, "lower", "upper")
        _check_order(self.lower, self.upper)

    @property
    def bounds(self):
        return self.lower, self.upper

    def quantile(self, probability):
        return self.lower + (self.upper - self.lower) * np.asarray(probability, np.float64)


@dataclasses.dataclass(frozen=True)
class LogUniform(AbstractDistribution):
    """Uniform in the logarithm on [lower, upper], both positive: density proportional to 1 / x."""

    lower: float
    upper: float
    unit: str = ""
    logarithmic: ClassVar[bool] = True

    def __post_init__(self):
        check_fields(self, "lower", "upper")
        _check_order(self.lower, self.upper)
        if self.lower <= 0:
            raise ValueError(f"a log-uniform parameter needs lower > 0, got lower={self.lower}; use Uniform.")

    @property
    def bounds(self):
        return self.lower, self.upper

    def quantile(self, probability):
        low, high = math.log(self.lower), math.log(self.upper)
        return np.clip(np.exp(low + (high - low) * np.asarray(probability, np.float64)), self.lower, self.upper)


@dataclasses.dataclass(frozen=True)
class Normal(AbstractDistribution):
    """Normal with a mean and a standard deviation, truncated to [lower, upper] where these are given."""

    mean: float
    std: float
    unit: str = ""
    lower: float = -math.inf
    upper: float = math.inf
    logarithmic: ClassVar[bool] = False

    def __post_init__(self):
        check_fields(self, "mean", "std", "lower", "upper")
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std > 0):
            raise ValueError(f"expected a finite mean and std > 0, got mean={self.mean}, std={self.std}.")
        if not self.lower < self.upper:
            raise ValueError(f"expected lower < upper, got lower={self.lower}, upper={self.upper}; swap them.")

    @property
    def bounds(self):
        return self.lower, self.upper

    def quantile(self, probability):
        low, high = (special.ndtr((bound - self.mean) / self.std) for bound in self.bounds)
        inside = low + (high - low) * np.asarray(probability, np.float64)
        return np.clip(self.mean + self.std * special.ndtri(inside), self.lower, self.upper)


@dataclasses.dataclass(frozen=True)
class LogNormal(AbstractDistribution):
    """Log-normal: the logarithm is normal with the given mean `log_mean` and standard deviation `log_std`."""

    log_mean: float
    log_std: float
    unit: str = ""
    logarithmic: ClassVar[bool] = True

    def __post_init__(self):
        check_fields(self, "log_mean", "log_std")
        if not (math.isfinite(self.log_mean) and math.isfinite(self.log_std) and self.log_std > 0):
            raise ValueError(
                f"expected a finite log_mean and log_std > 0, got log_mean={self.log_mean}, log_std={self.log_std}."
            )

    @property
    def bounds(self):
        return 0.0, math.inf

    def quantile(self, probability):
        return np.exp(self.log_mean + self.log_std * special.ndtri(np.asarray(probability, np.float64)))
