"""A fingerprint of what a simulator computes, so that a surrogate knows whom it stands for.

Two simulators have one fingerprint when their equations, constants, parameter names and outputs are the same.
Comments, docstrings, layout, solver settings, grid points, parameter bounds and saved times do not count; the time at
which the initial state holds does.
"""

import ast
import functools
import hashlib
import inspect
import json
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

LIBRARIES = ("jax", "jaxlib", "numpy", "diffrax", "equinox", "scipy", "optax", "lineax", "optimistix", "jaxtyping")
LATER = ("event", "jumps")  # without them the fingerprint is what it was before there were any
NOT_PHYSICS = ("numerics", "times", "points", "solve_points", "description", "reference", "name")


def fingerprint(simulator: Any) -> str:
    """SHA-256, in hexadecimal, of what a simulator computes; see the module's docstring.

    A surrogate or a guarded solver has the fingerprint of the simulator it stands for.
    """
    if hasattr(simulator, "fingerprint"):
        return simulator.fingerprint
    return hashlib.sha256(json.dumps(describe(simulator), sort_keys=True).encode()).hexdigest()


def same_function(one: Any, other: Any) -> bool:
    """Whether two functions compute the same: one object, or equal source and constants."""
    return one is other or describe(one) == describe(other)


def describe(thing: Any) -> Any:
    """`thing` as JSON-ready data that is equal for equal meaning: functions by their source and what they refer to."""
    return _describe(thing, ())


def _describe(thing: Any, seen: tuple[int, ...]) -> Any:
    """`thing` as JSON-ready data that is equal for equal meaning; `seen` breaks cycles of functions."""
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes)):
        return repr(thing)
    if id(thing) in seen:
        return "recursive"
    seen = (*seen, id(thing))
    if isinstance(thing, (np.ndarray, jax.Array, np.generic)):
        return ["array", np.asarray(thing).tolist()]
    if isinstance(thing, (list, tuple)):
        return [_describe(item, seen) for item in thing]
    if isinstance(thing, dict):
        return {str(key): _describe(value, seen) for key, value in thing.items()}
    if type(thing).__name__ == "ParameterSpace":
        return [[name, len(d.shape), d.unit] for name, d in thing.items()]
    if isinstance(thing, (set, frozenset)):
        return sorted(json.dumps(_describe(item, seen)) for item in thing)
    if isinstance(thing, types.FunctionType):
        return _describe_function(thing, seen)
    if isinstance(thing, types.MethodType):
        return [_describe(thing.__func__, seen), _describe(thing.__self__, seen)]
    if isinstance(thing, functools.partial):
        return ["partial", *(_describe(part, seen) for part in (thing.func, thing.args, thing.keywords))]
    if hasattr(thing, "__wrapped__"):  # what jit and its like return
        return [type(thing).__qualname__, _describe(thing.__wrapped__, seen)]
    if isinstance(thing, eqx.Module):
        return _describe_module(thing, seen)
    return _describe_object(thing, seen)


def _describe_object(thing: Any, seen: tuple[int, ...]) -> Any:
    """A class by its source, an object of a user's class by its class and its fields, a library's by its name."""
    kind = thing if isinstance(thing, type) else type(thing)
    name = f"{kind.__module__}.{kind.__qualname__}:{getattr(thing, '__qualname__', '')}"
    if _is_library(kind.__module__):
        return [name, _describe(getattr(thing, "__dict__", {}), seen)] if kind is types.SimpleNamespace else name
    fields = {k: v for k, v in getattr(thing, "__dict__", {}).items() if not k.startswith("__") and not callable(v)}
    fields = _describe(fields, seen)
    return [kind.__qualname__, _source_of_class(kind), fields]


def _is_library(module: str) -> bool:
    root = module.partition(".")[0]
    return root in LIBRARIES or (root in sys.stdlib_module_names and root != "__main__")


def _describe_module(module: eqx.Module, seen: tuple[int, ...]) -> Any:
    kind = type(module)
    fields = {
        k: _describe(v, seen)
        for k, v in vars(module).items()
        if k not in NOT_PHYSICS and not (k in LATER and v is None)
    }
    # the generic ODESimulator is its functions; every other class has its equations in its own source
    source = "" if kind.__name__ == "ODESimulator" else _source_of_class(kind)
    return [kind.__qualname__, source, fields, getattr(module, "start", None)]


def _describe_function(function: types.FunctionType, seen: tuple[int, ...]) -> Any:
    if _is_library(function.__module__ or ""):
        return f"{function.__module__}.{function.__qualname__}"
    names = _names(function.__code__)
    used = {
        name: _describe_global(function.__globals__[name], names, seen)
        for name in names
        if name in function.__globals__
    }
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    used |= {name: _describe(cell.cell_contents, seen) for name, cell in cells if _is_filled(cell)}
    defaults = [list(function.__defaults__ or ()), function.__kwdefaults__ or {}]
    wrapped = _describe(getattr(function, "__wrapped__", None), seen)
    return [_source_of_function(function), used, _describe(defaults, seen), wrapped]


def _describe_global(value: Any, names: list[str], seen: tuple[int, ...]) -> Any:
    """A global that a function reads; of a user's module, those attributes whose names the function mentions."""
    if not isinstance(value, types.ModuleType):
        return _describe(value, seen)
    if _is_library(value.__name__) or value.__name__.startswith("emulax"):
        return value.__name__
    return {name: _describe(getattr(value, name), seen) for name in names if hasattr(value, name)}


def _names(code: types.CodeType) -> list[str]:
    """All names that a function and the functions inside it look up."""
    inner = [name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant)]
    return sorted({*code.co_names, *inner})


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _source_of_function(function: types.FunctionType) -> str:
    """The function's syntax tree as text, or its bytecode where no source is to be had."""
    return _source_of_code(function.__code__)


@functools.cache
def _source_of_code(code: types.CodeType) -> str:
    try:
        tree = ast.parse(Path(code.co_filename).read_text())
    except (OSError, SyntaxError, ValueError):
        return _bytecode(code)
    found = [node for node in ast.walk(tree) if _starts(node, code)]
    if not found:
        return _bytecode(code)
    return " ".join(_canonical(node) for node in found)


def _bytecode(code: types.CodeType) -> str:
    constants = [_bytecode(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return f"bytecode {code.co_code.hex()} {constants} {code.co_names}"


def _starts(node: ast.AST, code: types.CodeType) -> bool:
    """Whether `node` is the definition that compiled to `code`."""
    if isinstance(node, ast.Lambda):
        if code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
            return False
        columns = [start for _, _, start, _ in code.co_positions() if start]
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        return not columns or (node.col_offset <= min(columns) and (end is None or min(columns) < end))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    return False


@functools.cache
def _source_of_class(kind: type) -> str:
    try:
        return _canonical(ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0])
    except (OSError, SyntaxError, TypeError):
        return kind.__qualname__


def _canonical(node: ast.AST) -> str:
    """A syntax tree as text without positions, docstrings and annotations' layout."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(inner):
            inner.body = inner.body[1:] or [ast.Pass()]
    return ast.dump(node)
