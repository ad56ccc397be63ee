"""What an argument must be, and the one line that refuses anything else."""

import inspect
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

LONGEST = 60
TEXTS = (str, bytes, bytearray)


def check_kind(name: str, value: Any, kind: type | tuple[type, ...], expected: str, advice: str = "") -> None:
    """Refuse a value of another type.

    **Arguments:**

    - `name`: of the argument.
    - `expected`: what it should have been, in words; `advice`: what to do, after a semicolon.

    **Raises:** `ValueError`.
    """
    if not isinstance(value, kind):
        raise ValueError(_refusal(name, expected, value, advice))


def check_number(name: str, value: Any, expected: str, holds: Callable[[float], bool] = lambda _: True) -> float:
    """A real number, of Python, NumPy or JAX, for which `holds` is true, as a `float`; texts and truth values are none.

    **Raises:** `ValueError`.
    """
    return _checked(name, value, expected, holds, float)


def check_whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number, at least `least`, as an `int`.

    **Raises:** `ValueError`.
    """
    return _checked(name, value, f"a whole number, at least {least}", lambda number: number >= least, operator.index)


def check_path(path: Any, expected: str) -> Path:
    """A path from a text or a path; `expected` says of what.

    **Raises:** `ValueError`.
    """
    check_kind("path", path, (str, os.PathLike), f"the path of {expected}")
    return Path(path)


def check_times(ts: Any) -> np.ndarray | None:
    """Times as `(time,)` in double precision; `None` where they are traced, known only while the program runs.

    **Raises:** `ValueError` for what is no number, for no times, or more than one dimension.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(ts)):
        return None
    try:
        times = np.asarray(ts, np.float64)
    except (TypeError, ValueError):
        raise ValueError(_refusal("ts", "times as numbers", ts)) from None
    if times.ndim != 1 or times.size == 0:
        raise ValueError(f"ts: expected at least one time in one dimension, got shape {times.shape}.")
    return times


def shown(value: Any) -> str:
    """A value in an error message: itself if that is short, else what it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    if isinstance(value, Tracer):
        return "a traced value"
    if value is None or isinstance(value, (bool, int, float, complex, *TEXTS, np.generic, tuple, list)):
        text = repr(value)
        if len(text) <= LONGEST and "\n" not in text:
            return text
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    return f"{kind} of shape {shape}" if isinstance(shape, tuple) else f"{kind} object"


def _checked(name: str, value: Any, expected: str, holds: Callable, convert: Callable) -> Any:
    try:
        refused = isinstance(value, (bool, np.bool_, *TEXTS)) or getattr(value, "ndim", 0) != 0
        number = None if refused else convert(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not holds(number):
        raise ValueError(_refusal(name, expected, value))
    return number


def _refusal(name: str, expected: str, value: Any, advice: str = "") -> str:
    got = "; got" if "," in expected else ", got"
    return f"{name}: expected {expected}{got} {shown(value)}" + (f"; {advice}" if advice else "") + "."
