"""From an ensemble to a surrogate."""

import dataclasses
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Ensemble, check_kind, check_number, check_whole, shown
from ..simulators import shard
from ._architecture import AbstractArchitecture, Layout
from ._baselines import fit_baselines
from ._calibration import calibrate, calibrate_on, check_same
from ._domain import fit_domain
from ._loss import MeanSquaredError, RelativeL2
from ._normalise import TRANSFORMS, Normaliser, fit_normaliser
from ._rows import Grid, lay, lay_out, split, table
from ._surrogate import Surrogate
from ._train import DEFAULT, Data, Plan, train
from ._watch import Watch

LEVEL = 0.9


def fit(
    architecture: AbstractArchitecture,
    ensemble: Ensemble,
    *,
    seed: int = 0,
    steps: int = 40_000,
    batch_size: int = 64,
    learning_rate: float = 4e-3,
    validation: float = 0.1,
    calibration: Ensemble | None = None,
    transform: str = "none",
    loss: Callable[[jax.Array, jax.Array], jax.Array] | None = None,
    optimiser: Any = None,
    coarse: tuple[int, float] | None = None,
    augment: str | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> Surrogate:
    """Train a surrogate on an ensemble, on the devices where the ensemble lies.

    Training is in single precision and data-parallel; statistics are in double precision, from the training members
    alone. Failed members are left out. A batch is the same on 1, 2, 4 and 8 devices, and so is the result up to
    rounding.

    **Arguments:**

    - `architecture`: `MLP(...)`, `FNO(...)`, or your own.
    - `ensemble`: what `simulators.solve_ensemble` returned.
    - `seed`: initial weights, split, order of members; same seed, same weights.
    - `steps`: optimiser steps. The cost is steps times the cost of a batch, whatever the number of members.
    - `batch_size`: members in one step, rounded to a multiple of the number of groups (8, or less: see `_rows`).
    - `learning_rate`: the peak, after a rise over 2 % of the steps and before a half cosine wave down to 0.
    - `validation`: share of the members that choose the best weights; 0 keeps the last.
    - `calibration`: independent random members for the stated error; by default a random tenth of the members (20 at
      least, from 80 on) is kept back for it.
    - `transform`: `"log"` learns the logarithm of the outputs, which must be positive; `"none"` the outputs.
    - `loss`: `loss(prediction, target)` of one member, both `(time, output, *space)` and normalised; by default
      `MeanSquaredError()`, for fields `RelativeL2()`.
    - `optimiser`: an `optax` transformation for learning rate 1, whose updates the schedule multiplies; by default Adam
      with the gradient clipped to norm 1.
    - `coarse`: `(factor, share)`, for fields: the first share of the steps sees every factor-th grid point.
    - `augment`: `"reflection"`, for fields on one periodic dimension: half of the members, drawn anew in each step, are
      trained on as u(x) -> -u(-x), inputs and outputs alike. Right only if the equations have that symmetry.
    - `progress`: called with (steps done, steps, latest loss) after every few hundred steps.

    **Returns:** a calibrated `Surrogate`.

    **Raises:** `ValueError` for settings that cannot be meant, too few members, or a loss that is never finite.
    """
    start = time.perf_counter()
    _check_objects(architecture, ensemble, calibration, loss, optimiser, progress)
    plan = Plan(
        steps=check_whole("steps", steps, 1),
        batch=check_whole("batch_size", batch_size, 1),
        learning_rate=check_number("learning_rate", learning_rate, "a number above 0", lambda rate: rate > 0),
        seed=check_whole("seed", seed),
        coarse=None if coarse is None else _pair(coarse),
        augment=augment,
    )
    validation = check_number("validation", validation, "a share from 0 to below 1", lambda share: 0 <= share < 1)
    layout = Layout(
        ensemble.space, ensemble.outputs, ensemble.times, ensemble.coordinates, getattr(ensemble, "time_unit", "")
    )
    loss = loss or (RelativeL2() if architecture.target_scaling == "scale" else MeanSquaredError())
    _check(layout, plan, transform, architecture, loss)
    if calibration is not None:
        check_same(layout, ensemble.metadata, calibration)
    ensemble = shard(ensemble)
    first = next(iter(ensemble.solution.values.values()))
    grid = lay_out(first, len(ensemble), plan.batch)
    parts = split(ensemble.ok, grid, validation, calibration is None, plan.seed)
    with jax.enable_x64(True):
        normaliser, domain, baselines, given = _statistics(layout, ensemble, parts["train"], architecture, transform)
        data = _data(ensemble, layout, normaliser, grid, parts)
    entries = data.train[0].shape[2]
    plan = dataclasses.replace(plan, batch=min(entries, max(1, round(plan.batch / grid.groups))))
    data = _with_validation(data, parts["validation"], grid, plan.batch)
    with jax.enable_x64(False), jax.default_matmul_precision("highest"):
        network = architecture.build(layout, key=jax.random.key(plan.seed))
        network, watch = train(network, data, grid.devices, plan, loss, optimiser or DEFAULT, progress)
    watch.finish()
    if watch.status == "failed":
        raise ValueError(
            f"training failed: the loss was never a finite number; use a learning_rate below {plan.learning_rate:g}, "
            "or look for outputs of extreme size."
        )
    if watch.status == "diverged":
        warnings.warn(
            f"training diverged after step {watch.history['step'][-1]}; the weights of step {watch.best_step} (loss "
            f"{watch.best_loss:.3g}) are kept. A smaller learning_rate helps.",
            stacklevel=2,
        )
    provenance = _provenance(architecture, ensemble, grid, parts, plan, watch) | {
        "given_times": given,
        "training": _settings(plan, grid, validation, transform, loss, optimiser),
        "seconds": time.perf_counter() - start,
    }
    surrogate = Surrogate(_settled(network), normaliser, domain, None, baselines, layout, provenance)  # type: ignore[arg-type]
    if calibration is not None:
        return calibrate(surrogate, calibration, level=LEVEL, seed=plan.seed)
    return calibrate_on(surrogate, ensemble, parts["calibration"], LEVEL, plan.seed)


def _check_objects(architecture, ensemble, calibration, loss, optimiser, progress) -> None:
    """Refuse what is of another kind: a class for an object, a simulator for its ensemble, a name for a function."""
    called = f"write {architecture.__name__}()" if isinstance(architecture, type) else ""
    check_kind("architecture", architecture, AbstractArchitecture, "an architecture such as surrogates.MLP()", called)
    solved = "simulators.solve_ensemble(simulator, design) returns one"
    check_kind("ensemble", ensemble, Ensemble, "an ensemble", solved)
    check_kind(
        "calibration", calibration, (Ensemble, type(None)), "an ensemble of members used for nothing else", solved
    )
    if loss is not None and (isinstance(loss, type) or not callable(loss)):
        raise ValueError(
            "loss: expected a function of (prediction, target), such as surrogates.MeanSquaredError(), got "
            f"{shown(loss)}."
        )
    if optimiser is not None and not (hasattr(optimiser, "init") and hasattr(optimiser, "update")):
        raise ValueError(
            f"optimiser: expected an optax transformation such as optax.adam(1.0), got {shown(optimiser)}."
        )
    if progress is not None and not callable(progress):
        raise ValueError(f"progress: expected a function of (steps done, steps, latest loss), got {shown(progress)}.")


def _check(layout: Layout, plan: Plan, transform: str, architecture, loss) -> None:
    """Refuse settings that cannot be meant."""
    if transform not in TRANSFORMS:
        raise ValueError(f"transform: expected one of {', '.join(TRANSFORMS)}; got {transform!r}.")
    if architecture.target_scaling == "scale" and transform != "none":
        raise ValueError(f"transform: expected 'none' for {type(architecture).__name__}, got {transform!r}.")
    if isinstance(loss, RelativeL2) and architecture.target_scaling != "scale":
        raise ValueError(
            f"loss: {type(architecture).__name__} learns outputs shifted by their mean, whose norm means nothing; "
            "use MeanSquaredError."
        )
    _check_fields(layout, plan)


def _check_fields(layout: Layout, plan: Plan) -> None:
    if plan.augment not in (None, "reflection"):
        raise ValueError(f"augment: expected None or 'reflection', got {plan.augment!r}.")
    if plan.coarse is None and plan.augment is None:
        return
    setting = "coarse" if plan.coarse is not None else "augment"
    if len(layout.space_shape) != 1 or any(len(layout.space[name].shape) != 1 for name in layout.fields):
        raise ValueError(f"{setting}: expected fields on one dimension as outputs, got shape {layout.space_shape}.")
    if plan.coarse is None:
        return
    factor, share = plan.coarse
    lengths = [*layout.space_shape, *(layout.space[name].shape[0] for name in layout.fields)]
    if not 0 < share < 1 or any(length % factor for length in lengths):
        raise ValueError(
            f"coarse: expected (factor, share) with a factor of at least 2 that divides {lengths[0]} points and a "
            f"share between 0 and 1, got {plan.coarse!r}."
        )


def _pair(coarse: Any) -> tuple[int, float]:
    """The setting `coarse` as numbers."""
    check_kind("coarse", coarse, (tuple, list), "(factor, share)")
    if len(coarse) != 2:
        raise ValueError(f"coarse: expected (factor, share), got {shown(coarse)}.")
    return check_whole("coarse", coarse[0], 2), check_number("coarse", coarse[1], "a share")


def _statistics(layout: Layout, ensemble: Ensemble, train: np.ndarray, architecture, transform: str):
    """Normaliser, domain, baselines and number of given times, from the training members, where they lie."""
    parameters = {name: ensemble.parameters[name] for name in layout.space}
    values = {name: ensemble.solution.values[name] for name in layout.outputs}
    chosen = np.zeros(len(next(iter(values.values()))), bool)
    chosen[train] = True
    normaliser = fit_normaliser(layout, parameters, values, chosen, architecture.target_scaling, transform)
    domain = fit_domain(layout, normaliser, parameters, chosen)
    baselines = fit_baselines(normaliser, parameters, values, chosen)
    given = len(layout.times) > 1 and all(is_given(value[:, 0], parameters, chosen) for value in values.values())
    return normaliser, domain, baselines, int(given)


def is_given(value: jax.Array, parameters: dict, chosen: np.ndarray) -> bool:
    """Whether an output at the first time is one of the parameters, or the same for all members."""
    first = int(np.argmax(chosen))
    candidates = [p for p in parameters.values() if p.shape == value.shape]
    known = [jnp.broadcast_to(value[first], value.shape), *candidates]
    mask = chosen.reshape(-1, *[1] * (value.ndim - 1))
    return any(bool(jnp.all((value == other) | ~mask)) for other in known)


def _data(ensemble: Ensemble, layout: Layout, normaliser: Normaliser, grid: Grid, parts: dict) -> Data:
    """Normalised inputs and targets in single precision, laid over the devices."""
    used = np.zeros(len(ensemble), bool)
    used[np.concatenate([parts["train"], parts["validation"]])] = True
    parameters = {name: ensemble.parameters[name] for name in layout.space}
    values = {name: ensemble.solution.values[name] for name in layout.outputs}
    inputs = lay(normaliser.inputs, grid, len(ensemble), used, parameters)
    targets = lay(normaliser.targets, grid, len(ensemble), used, values)
    rows = jax.device_put(table(parts["train"], grid), grid.sharding)
    return Data(inputs, targets, rows, rows)


def _with_validation(data: Data, members: np.ndarray, grid: Grid, batch: int) -> Data:
    """The data with its validation table, padded to whole batches."""
    rows = table(members, grid, batch)
    return dataclasses.replace(data, validation=jax.device_put(rows, grid.sharding))


def _settled(network: Any) -> Any:
    """The network with weights that belong to no particular device."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)) if eqx.is_array(leaf) else leaf, network)


def _settings(plan: Plan, grid: Grid, validation: float, transform: str, loss: Any, optimiser: Any) -> dict[str, Any]:
    return {
        "steps": int(plan.steps),
        "batch_size": plan.batch * grid.groups,
        "learning_rate": float(plan.learning_rate),
        "validation": float(validation),
        "transform": transform,
        "loss": type(loss).__name__,
        "optimiser": "default" if optimiser is None else "given",
        "coarse": None if plan.coarse is None else [int(plan.coarse[0]), float(plan.coarse[1])],
        "augment": plan.augment,
        "seed": int(plan.seed),
    }


def _provenance(architecture, ensemble: Ensemble, grid: Grid, parts: dict, plan: Plan, watch: Watch) -> dict[str, Any]:
    """JSON-ready: how the surrogate came about."""
    failures = {entry["member"]: entry["status"] for entry in ensemble.incomplete()}
    return {
        "architecture": architecture.to_json(),
        "simulator": ensemble.metadata.get("simulator", ""),
        "fingerprint": ensemble.metadata.get("fingerprint", ""),
        "ensemble": ensemble.metadata,
        "members": {"total": len(ensemble)} | {use: len(members) for use, members in parts.items()},
        "failures": [{"member": int(member), "status": failures[int(member)]} for member in parts["failed"]],
        "split": {use: parts[use].tolist() for use in ("validation", "calibration")},
        "devices": len(grid.devices),
        "platform": grid.devices[0].platform,
        "status": watch.status,
        "best_step": watch.best_step,
        "best_loss": watch.best_loss,
        "history": {name: [float(v) if np.isfinite(v) else None for v in h] for name, h in watch.history.items()},
        "versions": {name: version(name) for name in ("emulax", "jax", "equinox", "optax")}
        | {"python": platform.python_version()},
    }
