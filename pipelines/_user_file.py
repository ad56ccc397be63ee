"""A simulator of the user's own, named as "file.py:object"."""

import contextlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..simulators import AbstractSimulator
from ._blame import blame, what
from ._problems import nearest


def load_object(name: str, base: Path) -> Any:
    """The object that "file.py:object" names, with the file's path relative to `base`.

    **Returns:** a simulator, or a function that returns one.

    **Raises:** `ValueError` for a missing file, a file that does not run, or an object that is missing or no simulator.
    """
    attribute = name.rpartition(":")[2]
    path = file_of(name, base)
    if not path.is_file():
        raise ValueError(f"expected a Python file at {path}, found nothing")
    module = _execute(path)
    known = [key for key, value in vars(module).items() if isinstance(value, AbstractSimulator)]
    if not hasattr(module, attribute):
        listed = f"expected one of {', '.join(known)}" if known else "the file defines no simulator"
        raise ValueError(f'{path.name} has no object "{attribute}"; {nearest(attribute, known)}{listed}')
    found = getattr(module, attribute)
    if not (isinstance(found, AbstractSimulator) or callable(found)):
        kind = type(found).__name__
        raise ValueError(f"expected {name} to be a simulator or a function that returns one, got {kind}")
    return found


def file_of(name: str, base: Path) -> Path:
    """The file that "file.py:object" names."""
    return (base / name.rpartition(":")[0]).resolve()


def make(name: str, found: Any, base: Path, options: Mapping[str, Any]) -> AbstractSimulator:
    """The simulator that a user's object is, or returns when called with `options`.

    **Raises:** `ValueError` naming file and line for a call that fails, and for what is no simulator.
    """
    if isinstance(found, AbstractSimulator):
        return found
    with blamed(file_of(name, base)):
        simulator = found(**options)
    if not isinstance(simulator, AbstractSimulator):
        raise ValueError(f'expected "{name}" to return a simulator, got {type(simulator).__name__}')
    return simulator


def needed(found: Any) -> list[str]:
    """Names of the arguments without which a function cannot be called."""
    if isinstance(found, AbstractSimulator):
        return []
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # some built-in functions have none
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind in kinds
    ]


def simulators_beside(found: Any) -> list[str]:
    """Names of the simulators in the file that defines a function."""
    module = sys.modules.get(getattr(found, "__module__", ""), None)
    return [key for key, value in vars(module).items() if isinstance(value, AbstractSimulator)] if module else []


@contextlib.contextmanager
def blamed(path: Path, names: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Turn an error that came by way of a user's file into one line that names file and line.

    **Raises:** `ValueError` in its place; an error that did not come by way of that file or its neighbours stays as it
    is.
    """
    try:
        yield
    except Exception as error:
        told = blame(error, path.parent, names)
        if told is None:
            raise
        raise told from error


def _execute(path: Path) -> types.ModuleType:
    """Run a file as a module. Its bytecode is not cached: the cache misses an edit within one second."""
    module = types.ModuleType(f"emulax_user_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where `inspect` looks for the source of a class
    sys.path.insert(0, str(path.parent))
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except SyntaxError as error:
        where = f"{Path(error.filename or path).name}: " + (f"line {error.lineno}: " if error.lineno else "")
        raise ValueError(f"{where}{error.msg}") from None
    except SystemExit as error:
        raise ValueError(f"{path.name}: expected a file that defines a simulator, but it ends the program") from error
    except Exception as error:
        raise blame(error, path.parent) or ValueError(f"{path.name}: {what(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
