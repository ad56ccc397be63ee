"""Where in a user's own files an error comes from, in one line."""

import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from ._problems import nearest

# what happened to a value that JAX traces; the last one is the base class of some before it
TRACED = {
    jax.errors.TracerBoolConversionError: "used as true or false: write jnp.where, not if",
    jax.errors.TracerIntegerConversionError: "used as an index or count of Python's",
    jax.errors.TracerArrayConversionError: "given to numpy: use jax.numpy there",
    jax.errors.UnexpectedTracerError: "kept beyond its function: return it instead",
    jax.errors.ConcretizationTypeError: "used as a plain number: use jax.numpy, not math or float()",
}


def blame(error: Exception, folder: Path, names: Mapping[str, Any] | None = None) -> ValueError | None:
    """An error that a user's file caused, as one line: file, line, what went wrong, what to do.

    **Arguments:**

    - `folder`: where the user's files lie.
    - `names`: the keys that a mapping in question has, for a key that is missing.

    **Returns:** `None` if the error passed no line of a file of the user's.
    """
    place = _place(error, folder)
    if place is None:
        return None
    return ValueError(f"{place}: {what(error, names)}")


def what(error: Exception, names: Mapping[str, Any] | None = None) -> str:
    """What an error says, in one line, and what to do about it where that is known."""
    first = str(error).partition("\n")[0].rstrip(".") or "no message"
    kind = type(error).__name__
    for traced, meaning in TRACED.items():
        if isinstance(error, traced):
            return f"{kind}: a value that JAX traces was {meaning}"
    if isinstance(error, KeyError) and names:
        key = error.args[0] if error.args else ""
        return f"KeyError: there is no {key!r}; {nearest(str(key), names)}expected one of {', '.join(names)}"
    if isinstance(error, NameError):
        return f"{kind}: {first}; define or import it"
    # what this package says is complete
    return first if isinstance(error, ValueError) else f"{kind}: {first}"


def place_of(function: Callable, folder: Path) -> str:
    """File and line of a function's definition, as a message begins; its name where it is none of the user's."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if not isinstance(code, types.CodeType) or not _is_users(code.co_filename, "", folder):
        return getattr(function, "__name__", "the simulator")
    return _named(code.co_filename, code.co_firstlineno, folder)


def _place(error: BaseException, folder: Path) -> str | None:
    """The innermost line of the user's that an error passed."""
    places = [_named(file, line, folder) for file, line, module in _frames(error) if _is_users(file, module, folder)]
    return places[-1] if places else None


def _frames(error: BaseException) -> Iterator[tuple[str, int, str]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line, str(frame.f_globals.get("__name__", ""))


def _is_users(file: str, module: str, folder: Path) -> bool:
    """Whether a file is one of the user's: in the folder, and neither installed nor this package's or Python's own."""
    root = module.partition(".")[0]
    if root == "emulax" or root in sys.stdlib_module_names or "site-packages" in Path(file).parts:
        return False
    return Path(file).is_relative_to(folder) and not Path(file).is_relative_to(Path(__file__).parent)


def _named(file: str, line: int, folder: Path) -> str:
    return f"{Path(file).relative_to(folder)}: line {line}"
