"""From a run file's words to the objects they name: simulators, their parameters and numerics, architectures."""

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import diffrax
import equinox as eqx
import jax

from .. import simulators
from ..data import DISTRIBUTIONS, AbstractDistribution
from ..simulators import REGISTRY, AbstractSimulator
from ..surrogates import ARCHITECTURES, AbstractArchitecture, Layout
from ._arguments import check_arguments
from ._config import ParameterSettings, RunSettings, SimulatorSettings
from ._problems import RunFileError, nearest, unknown_key
from ._try_out import try_out
from ._user_file import file_of, load_object, make, needed, simulators_beside

# arguments of a simulator that have tables of their own
ELSEWHERE = ("parameters", "numerics")
AUTO = "auto"  # the solver is left to the engine


def build_simulator(settings: RunSettings, base: Path, source: str) -> AbstractSimulator:
    """The simulator that a run file describes; `base` is the folder of the run file, `source` its name.

    **Raises:** `RunFileError` naming the key at fault.
    """
    chosen = settings.simulator
    simulator = _make(chosen, base, source)
    found = _check_numerics(chosen) + _check_parameters(chosen, simulator)
    if found:
        raise RunFileError(source, found)
    space = {
        name: _distribution(simulator.parameters[name], change, f"simulator.parameters.{name}", source)
        for name, change in chosen.parameters.items()
    }
    try:
        simulator = simulator.replace(parameters=simulator.parameters.replace(**space)) if space else simulator
        simulator = _with_numerics(simulator, chosen, source)
    except RunFileError:
        raise
    except ValueError as error:
        raise RunFileError(source, [f"simulator: {error}"]) from None
    path = user_file(settings, base)
    if path is not None:
        try:
            try_out(simulator, path)
        except ValueError as error:
            raise RunFileError(source, [f"simulator.name: {error}"]) from error
    return simulator


def user_file(settings: RunSettings, base: Path) -> Path | None:
    """The user's file that defines the simulator; `None` for a registered one."""
    return file_of(settings.simulator.name, base) if ":" in settings.simulator.name else None


def find_simulator(name: str, base: Path) -> Any:
    """A registered factory by name, or an object of a user's file as "file.py:object".

    **Raises:** `ValueError` for a name that is neither.
    """
    if ":" in name:
        return load_object(name, base)
    if name not in REGISTRY:
        hint = f'{nearest(name, REGISTRY)}expected one of {", ".join(REGISTRY)}, or "file.py:object"'
        raise ValueError(f'unknown simulator "{name}"; {hint}')
    return REGISTRY[name]


def build_architecture(settings: RunSettings, source: str) -> AbstractArchitecture:
    """The architecture that a run file describes, with its hyper-parameters."""
    name = settings.surrogate.name
    if name not in ARCHITECTURES:
        hint = f"{nearest(name, ARCHITECTURES)}expected one of {', '.join(ARCHITECTURES)}"
        raise RunFileError(source, [f'surrogate.name: unknown architecture "{name}"; {hint}'])
    given = settings.surrogate.hyperparameters
    found = check_arguments(ARCHITECTURES[name], given, "surrogate")
    if found:
        raise RunFileError(source, found)
    try:
        return ARCHITECTURES[name](**given)
    except (ValueError, TypeError) as error:
        raise RunFileError(source, [f"surrogate: {error}"]) from None


def check_network(architecture: AbstractArchitecture, simulator: AbstractSimulator, source: str) -> None:
    """Refuse an architecture that cannot serve a simulator, before anything is solved; nothing is computed.

    **Raises:** `RunFileError` with the architecture's own words.
    """
    layout = Layout(simulator.parameters, simulator.outputs, simulator.times, simulator.coordinates)
    try:
        eqx.filter_eval_shape(lambda key: architecture.build(layout, key=key), jax.random.key(0))
    except ValueError as error:
        raise RunFileError(source, [f"surrogate: {error}"]) from None


def _make(chosen: SimulatorSettings, base: Path, source: str) -> AbstractSimulator:
    try:
        made = find_simulator(chosen.name, base)
    except ValueError as error:
        raise RunFileError(source, [f"simulator.name: {error}"]) from error
    if isinstance(made, AbstractSimulator):
        if chosen.options:
            hint = f'expected none, since "{chosen.name}" is a finished simulator; name a function that returns one'
            raise RunFileError(source, [f"simulator.options: {hint}"])
        return made
    if ":" in chosen.name:
        return _make_users(chosen, made, base, source)
    found = check_arguments(made, chosen.options, "simulator.options", skip=ELSEWHERE)
    if found:
        raise RunFileError(source, found)
    try:
        return made(**chosen.options)
    except (ValueError, TypeError) as error:
        raise RunFileError(source, [f"simulator.options: {error}"]) from None


def _make_users(chosen: SimulatorSettings, made: Any, base: Path, source: str) -> AbstractSimulator:
    """What a user's function returns."""
    if not chosen.options and needed(made):
        raise RunFileError(source, [f"simulator.name: {lacks_arguments(chosen.name, made)}"])
    found = check_arguments(made, chosen.options, "simulator.options", skip=ELSEWHERE)
    if found:
        raise RunFileError(source, found)
    try:
        return make(chosen.name, made, base, chosen.options)
    except (ValueError, TypeError) as error:
        raise RunFileError(source, [f"simulator.name: {error}"]) from error


def lacks_arguments(name: str, function: Any) -> str:
    """What to say about a user's function that cannot be called without arguments."""
    file = name.rpartition(":")[0]
    others = [f'"{file}:{other}"' for other in simulators_beside(function)]
    return (
        f'expected "{name}" to be a simulator or a function that returns one; it needs {", ".join(needed(function))}: '
        + (f"name {' or '.join(others)}, or " if others else "")
        + "give its arguments in simulator.options"
    )


def _check_parameters(chosen: SimulatorSettings, simulator: AbstractSimulator) -> list[str]:
    known = list(simulator.parameters)
    return [unknown_key(f"simulator.parameters.{name}", known) for name in chosen.parameters if name not in known]


def _distribution(old: AbstractDistribution, change: ParameterSettings, path: str, source: str) -> AbstractDistribution:
    """A parameter's distribution with the given fields exchanged; its unit stays."""
    given = change.model_dump(exclude_none=True)
    kind = DISTRIBUTIONS[given.pop("distribution")] if change.distribution else type(old)
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    found = [unknown_key(f"{path}.{key}", [f for f in fields if f != "unit"]) for key in given if key not in fields]
    kept = {key: value for key, value in vars(old).items() if key in fields}
    needed = [
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in kept | given
    ]
    found += [f"{path}.{name}: expected a number, found nothing" for name in needed]
    if found:
        raise RunFileError(source, found)
    try:
        return kind(**(kept | given))
    except ValueError as error:
        raise RunFileError(source, [f"{path}: {error}"]) from None


def _check_numerics(chosen: SimulatorSettings) -> list[str]:
    found = []
    if chosen.step is not None and (chosen.rtol is not None or chosen.atol is not None):
        found.append("simulator.step: expected either a fixed step or tolerances (rtol, atol), got both")
    if chosen.solver not in (None, AUTO) and _solver_class(chosen.solver) is None:
        names = [AUTO, *(name for name in [*dir(diffrax), *dir(simulators)] if _solver_class(name))]
        hint = nearest(chosen.solver, names) or "such as Tsit5, Dopri8 or Kvaerno5; "
        expected = f'expected "{AUTO}" or a solver of diffrax or emulax, got "{chosen.solver}"'
        found.append(f"simulator.solver: {expected}; {hint}".rstrip("; "))
    return found


def _solver_class(name: str) -> type[diffrax.AbstractSolver] | None:
    """A solver class that needs no arguments, of diffrax or of ours."""
    kind = getattr(diffrax, name, None) or getattr(simulators, name, None)
    if name.startswith("Abstract") or not (inspect.isclass(kind) and issubclass(kind, diffrax.AbstractSolver)):
        return None
    needed = [p for p in inspect.signature(kind).parameters.values() if p.default is inspect.Parameter.empty]
    return None if needed else kind


def _with_numerics(simulator: AbstractSimulator, chosen: SimulatorSettings, source: str) -> AbstractSimulator:
    names = ("rtol", "atol", "step", "max_steps")
    changes: dict[str, Any] = {name: getattr(chosen, name) for name in names if getattr(chosen, name) is not None}
    if chosen.solver is not None:
        changes["solver"] = AUTO if chosen.solver == AUTO else _solver_class(chosen.solver)()  # type: ignore[misc]
    if "rtol" in changes or "atol" in changes:
        changes["step"] = None
    if not changes:
        return simulator
    numerics = dataclasses.replace(simulator.numerics, **changes)
    if numerics.step is None and not isinstance(numerics.method, diffrax.AbstractAdaptiveSolver):
        kind = type(numerics.method).__name__
        raise RunFileError(source, [f"simulator.step: expected a fixed step, since {kind} estimates no error"])
    return simulator.replace(numerics=numerics)
