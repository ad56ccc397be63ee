"""Compiled ensemble solves, kept so that equal work never traces or compiles twice.

In one process a solve is found by what it was compiled for: simulator, times, shapes, devices, precision, engine.
Across processes XLA's executables are kept in the user's cache folder.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from ._fingerprint import describe

_COMPILED: dict[Any, Any] = {}
_MOST_COMPILED = 64


def compiled(thing: Any, rest: tuple, build: Callable[[], Any]) -> Any:
    """`build()`, or what an earlier call with an equal `thing` and `rest` built.

    `thing` is a pytree, compared by its structure and constants; arrays of JAX in it are data and count by their shape.
    Functions are equal if they are one object or have equal source and constants. `rest` is compared with `==`.
    """
    keys = []
    for of in (_identity, _content):  # reading functions' source takes time: only if these are not the same objects
        key = _key(thing, rest, of)
        if key is not None:
            keys.append(key)
            if key in _COMPILED:
                found = _COMPILED.pop(key)
                break
    else:
        found = build()
    for key in keys:
        _COMPILED[key] = found  # most recent last
    while len(_COMPILED) > _MOST_COMPILED:
        del _COMPILED[next(iter(_COMPILED))]
    return found


def compile_options(platform: str) -> dict[str, Any]:
    """XLA's options for one executable: on a CPU the widest vectors that it has."""
    return {"xla_cpu_prefer_vector_width": 512} if platform == "cpu" else {}


@contextlib.contextmanager
def persistent_cache() -> Iterator[None]:
    """Executables compiled within are kept on disk, for later processes.

    In the folder that JAX is set to use, else in the user's cache folder (`$XDG_CACHE_HOME/emulax`, `~/.cache/emulax`).
    `EMULAX_CACHE` names another folder; `EMULAX_CACHE=off` keeps nothing. JAX's own setting is left as it was.
    """
    folder = os.environ.get("EMULAX_CACHE") or str(
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "emulax" / "compiled"
    )
    settings = {"jax_compilation_cache_dir": folder, "jax_persistent_cache_min_compile_time_secs": 0.2}
    before = {name: getattr(jax.config, name) for name in settings}
    if before["jax_compilation_cache_dir"] or folder == "off" or not _writable(Path(folder)):
        yield
        return
    try:
        _configure(settings)
        yield
    finally:
        _configure(before)


def _configure(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # it looks at the folder once


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _key(thing: Any, rest: tuple, of: Callable[[Any], Any]) -> Any:
    """A key for the cache, or `None` if `thing` holds something that cannot be compared."""
    leaves, structure = jax.tree.flatten(thing)
    try:
        key = (structure, tuple(of(leaf) for leaf in leaves), rest)
        hash(key)
    except (TypeError, ValueError, OSError):
        return None
    return key


def _identity(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf.shape, leaf.dtype
    # constants such as times are NumPy arrays, compared by content
    return (leaf.shape, leaf.dtype, leaf.tobytes()) if isinstance(leaf, np.ndarray) else leaf


def _content(leaf: Any) -> Any:
    return json.dumps(describe(leaf), sort_keys=True) if callable(leaf) else _identity(leaf)


def constants_and_arrays(thing: Any) -> tuple[Any, Any]:
    """A pytree's arrays of JAX, which a compiled solve takes as data, and the rest."""
    return eqx.partition(thing, lambda leaf: isinstance(leaf, jax.Array))
