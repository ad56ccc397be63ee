"""A simulator of the user's own, named as "file.py:object"."""

import sys
import traceback
import types
from pathlib import Path
from typing import Any

from ..simulators import AbstractSimulator
from ._problems import nearest


def load_object(name: str, base: Path) -> Any:
    """The object that "file.py:object" names, with the file's path relative to `base`.

    **Returns:** a simulator, or a function that returns one.

    **Raises:** `ValueError` for a missing file, a file that does not run, or an object that is missing or no simulator.
    """
    file, _, attribute = name.rpartition(":")
    path = (base / file).resolve()
    if not path.is_file():
        raise ValueError(f"expected a Python file at {path}, found nothing")
    module = _execute(path)
    if not hasattr(module, attribute):
        known = [key for key, value in vars(module).items() if isinstance(value, AbstractSimulator)]
        listed = f"expected one of {', '.join(known)}" if known else "the file defines no simulator"
        raise ValueError(f'{path.name} has no object "{attribute}"; {nearest(attribute, known)}{listed}')
    found = getattr(module, attribute)
    if not (isinstance(found, AbstractSimulator) or callable(found)):
        kind = type(found).__name__
        raise ValueError(f"expected {name} to be a simulator or a function that returns one, got {kind}")
    return found


def _execute(path: Path) -> types.ModuleType:
    """Run a file as a module. Its bytecode is not cached: the cache misses an edit within one second."""
    module = types.ModuleType(f"emulax_user_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where `inspect` looks for the source of a class
    sys.path.insert(0, str(path.parent))
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise ValueError(f"{path.name}: line {error.lineno}: {error.msg}") from None
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f"line {lines[-1]}: " if lines else ""
        raise ValueError(f"{path.name}: {where}{type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
