"""A first run file, and a first simulator, commented and running as they are."""

import importlib.util
import keyword
import re
import sys
from pathlib import Path

from ..data import check_kind
from ._folder import write_text

RUN_FILE = """\
# A run file of emulax. Do it with:  emulax run {name}.toml
# Running again redoes only what changed. Lines that begin with "#" show defaults: change them as you need.

name = "{name}"{pad}# results go to runs/{name}/
seed = 0                         # same seed, same result

[simulator]
name = "{simulator}"{space}# `emulax list` shows the names; "file.py:object" is a simulator of your own
# solver = "Tsit5"               # any diffrax solver: Dopri8 where high accuracy is wanted, Kvaerno5 where it is stiff
# rtol = 1e-6                    # relative and absolute tolerance
# atol = 1e-9
# precision = "double"

[simulator.parameters.k]         # bounds that replace the simulator's own
lower = 0.1
upper = 1.0

[design]
training = 256                   # members to train on, spread as scrambled Sobol points
calibration = 128                # independent random members that calibrate the stated error
test = 256                       # independent random members that the surrogate is judged on

[surrogate]
name = "MLP"                     # `emulax describe MLP` shows its hyper-parameters
width = 32
depth = 2

[training]
steps = 1500
batch_size = 64
# learning_rate = 4e-3

[validation]
speed = false                    # true: time the surrogate against the solver at equal accuracy (half a minute)
# level = 0.9                    # share of true values that the stated error is to hold

[guard]                          # when the surrogate may answer in the solver's place
tolerance = 0.02                 # relative error that you can bear
risk = 0.05                      # probability with which an accepted answer may be worse

[report]
title = "{title}"
"""

SIMULATOR = '''\
"""A simulator of one's own: change the equation, the parameters and the times.  Do it with:  emulax run {name}.toml"""

import jax.numpy as jnp
from emulax import data, simulators


def vector_field(t, y, p):
    """dy/dt at time t for the state y and one member's parameters p."""
    return -p["k"] * y


def initial_state(p):
    """The state at the first of `times`, one entry per output."""
    return jnp.stack([p["y0"]])


{name} = simulators.ODESimulator(
    vector_field=vector_field,
    initial_state=initial_state,
    parameters=data.ParameterSpace(
        k=data.Uniform(0.1, 1.0, unit="1/s"),
        y0=data.LogUniform(0.5, 2.0, unit="mol/m3"),
    ),
    times=jnp.linspace(0.0, 2.0, 21),
    outputs={{"y": data.Output(unit="mol/m3")}},
    name="{name}",
    description="First-order decay: dy/dt = -k y, y(0) = y0.",
    time_unit="s",
)
'''

USED = ("jnp", "data", "simulators", "vector_field", "initial_state")


def new(name: str, *, simulator: bool = False, folder: str | Path = ".") -> list[Path]:
    """Write NAME.toml, and NAME.py if `simulator`; nothing that exists is overwritten.

    **Returns:** the files written.

    **Raises:** `ValueError` for a name that cannot be one, or not that of a Python file; `FileExistsError` if a file is
    there already.
    """
    check_kind("name", name, str, "a text")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f'expected a name of letters, digits and _, not beginning with a digit; got "{name}"')
    if simulator:
        _check_module(name, Path(folder))
    chosen = f"{name}.py:{name}" if simulator else "decay"
    title = f"{name.replace('_', ' ').capitalize()}: first-order decay"
    space, pad = (" " * max(1, 24 - len(text)) for text in (chosen, name))
    texts = {f"{name}.toml": RUN_FILE.format(name=name, simulator=chosen, title=title, space=space, pad=pad)}
    if simulator:
        texts[f"{name}.py"] = SIMULATOR.format(name=name)
    paths = {Path(folder) / file: text for file, text in texts.items()}
    for path in paths:
        if path.exists():
            raise FileExistsError(f"{path} exists already; choose another name or remove it")
    for path, text in paths.items():
        write_text(path, text)
    return list(paths)


def _check_module(name: str, folder: Path) -> None:
    """Refuse a name that a Python file and a variable in it cannot have without hiding what others mean by it."""
    if keyword.iskeyword(name):
        raise ValueError(f'expected a name for a simulator, got "{name}", a word of Python; choose another name')
    if name in USED:
        raise ValueError(f'expected a name for a simulator, got "{name}", which its file uses; choose another name')
    if _is_module(name, folder):
        raise ValueError(f'expected a name for a simulator, got "{name}", a Python module; choose another name')


def _is_module(name: str, folder: Path) -> bool:
    if name in sys.stdlib_module_names or name in sys.builtin_module_names or name == "__main__":
        return True
    spec = importlib.util.find_spec(name)
    # a folder of that name is no module, and the file itself is refused as one that is there
    return spec is not None and spec.origin is not None and not Path(spec.origin).is_relative_to(folder.resolve())
