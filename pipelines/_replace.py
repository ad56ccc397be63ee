"""Calls written against diffrax and scipy, answered by a guarded solver where it stands for them.

A call is the one that the surrogate stands for if its vector field, its initial state and its saved times are the
simulator's. Any other call goes to the library it was written for, with the user's own settings, and a warning says
what differed.
"""

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..data import Solution, Source, label
from ..simulators import ODESimulator, same_function
from ._fallback import choose

if TYPE_CHECKING:
    from ._guard import GuardedSolver

HARMLESS = {"stepsize_controller", "max_steps", "throw", "adjoint", "progress_meter"}


def diffeqsolve(
    guarded: "GuardedSolver", terms, solver, t0, t1, dt0, y0, args=None, **options: Any
) -> diffrax.Solution:
    """`diffrax.diffeqsolve`, answered by the surrogate if it is the call that the surrogate stands for.

    The surrogate is a function of the parameters `args`, and so are its derivatives: where it answers, the derivative
    with respect to a `y0` that does not come from the parameters is 0.

    **Returns:** a `diffrax.Solution`; `stats["source"]` says who answered.
    """

    def by_diffrax(state):
        y0, args = state
        solution = diffrax.diffeqsolve(terms, solver, t0, t1, dt0, y0, args, **options)
        return _with_source(solution, Source.solver)

    saved = options.get("saveat", diffrax.SaveAt(t1=True))
    field = terms.vector_field if isinstance(terms, diffrax.ODETerm) else None
    difference = _difference(guarded, field, args, (t0, t1), _only_times(saved), y0)
    unusual = sorted(set(options) - HARMLESS - {"saveat"})
    difference = difference or (f"the option {unusual[0]} is used" if unusual else None)
    if difference is not None:
        _tell("diffeqsolve", "diffrax", difference)
        return by_diffrax((y0, args))

    args = guarded.parameters.read(args)  # type: ignore[arg-type]
    y0 = jnp.asarray(y0, jnp.result_type(y0, float))
    answer = guarded.answer(args, _only_times(saved))
    shape = eqx.filter_eval_shape(by_diffrax, (y0, args))
    fixed = eqx.filter(shape, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))
    accept = guarded.accepts(args, answer) & _same_state(guarded, y0, args)
    chosen = choose(
        accept,
        eqx.filter(_as_diffrax(answer, guarded.outputs, shape), eqx.is_array),
        lambda state: eqx.filter(by_diffrax(state), eqx.is_array),
        (y0, args),
    )
    return eqx.combine(chosen, fixed)


def _as_diffrax(answer: Solution, names: Iterable[str], shape: diffrax.Solution) -> diffrax.Solution:
    """A surrogate's answer in the shape of the diffrax solution it stands for: no steps, success."""
    blank = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, shape
    )
    times, states = answer.times.astype(shape.ts.dtype), _states(answer, names).astype(shape.ys.dtype)  # type: ignore[union-attr]
    return _with_source(eqx.tree_at(lambda s: (s.ts, s.ys), blank, (times, states)), Source.surrogate)


def solve_ivp(guarded: "GuardedSolver", fun, t_span, y0, method="RK45", t_eval=None, **options: Any):
    """`scipy.integrate.solve_ivp`, answered by the surrogate if it is the call that the surrogate stands for.

    **Returns:** scipy's result (t, y, sol, success, message, ...) with one field more, `source`.

    **Raises:** `ValueError` inside `jit`, `grad` and `vmap`, where scipy cannot run.
    """
    if _is_traced((t_span, y0, t_eval, options.get("args"))):
        raise ValueError(
            "solve_ivp: expected numbers, got traced values: scipy runs outside of jit, grad and vmap only; use "
            "`solve` or `diffeqsolve` there."
        )
    import scipy.integrate
    import scipy.optimize

    arguments = options.get("args")
    args = arguments[0] if isinstance(arguments, tuple) and len(arguments) == 1 else None
    unusual = sorted(name for name in ("events", "dense_output", "vectorized") if options.get(name))
    difference = _difference(guarded, fun, args, t_span, t_eval, np.asarray(y0))
    difference = difference or (f"the option {unusual[0]} is used" if unusual else None)
    if difference is not None:
        _tell("solve_ivp", "scipy", difference)
    else:
        answer = guarded.answer(guarded.parameters.read(args), t_eval)  # type: ignore[arg-type]
        if guarded.accepts(args, answer) & _same_state(guarded, np.asarray(y0), args):  # type: ignore[arg-type]
            states = _states(answer, guarded.outputs)
            return scipy.optimize.OptimizeResult(
                t=np.asarray(answer.times, np.float64), y=np.asarray(states, np.float64).T, sol=None,
                t_events=None, y_events=None, nfev=0, njev=0, nlu=0, status=0, success=True, source="surrogate",
                message=f"Answered by the surrogate; estimated relative error {float(jnp.asarray(answer.bound)):.2g}.",
            )  # fmt: skip
    result = scipy.integrate.solve_ivp(fun, t_span, y0, method, t_eval, **options)
    result["source"] = "solver"
    return result


def _difference(guarded: "GuardedSolver", field, args, span, times, y0) -> str | None:
    """What makes a call another one than the surrogate stands for, or `None`."""
    simulator = guarded.simulator
    if not isinstance(simulator, ODESimulator) or simulator.observe is not None:
        return "the simulator's outputs are not its state"
    if field is None or not same_function(field, simulator.vector_field):
        return "the vector field is not the simulator's"
    if not isinstance(args, Mapping) or set(args) != set(guarded.parameters):
        return f"args are not the parameters {', '.join(guarded.parameters)}"
    if _is_traced(times):
        return "its SaveAt was made inside jit, which hides its times until the program runs; make it outside of jit"
    if times is None or not _knows(guarded, times):
        return "the saved times are not times of the surrogate"
    if np.any(np.diff(np.asarray(times, np.float64)) < 0):
        return "the saved times do not increase"
    t0, t1 = span
    if _is_traced(span):
        return "t0 or t1 is known only while the program runs; pass Python numbers"
    last = float(np.asarray(times)[-1])
    if float(t1) < last and not np.isclose(float(t1), last, rtol=1e-6):
        return "the saved times do not lie between t0 and t1"
    if not np.isclose(float(t0), guarded.times[0], rtol=1e-6, atol=1e-12):
        return f"t0 is not {guarded.times[0]:g}"
    if jnp.shape(y0) != (len(guarded.outputs),):
        return f"y0 has not the shape ({len(guarded.outputs)},)"
    return None


def _is_traced(values: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def _knows(guarded: "GuardedSolver", times: Any) -> bool:
    """Whether the surrogate can be asked at these times; the library says what is wrong with times that are none."""
    try:
        return bool(guarded.knows_times(times))
    except ValueError:
        return False


def _tell(call: str, library: str, difference: str) -> None:
    warnings.warn(f"{call}: {library} answered, since {difference}.", stacklevel=4)


def _only_times(saveat: diffrax.SaveAt):
    """The times of a `SaveAt(ts=...)` that saves nothing else, or `None`."""
    save = saveat.subs
    plain = isinstance(save, diffrax.SubSaveAt) and not (save.t0 or save.t1 or save.steps or saveat.dense)
    return save.ts if plain and save.fn is diffrax.SubSaveAt(t1=True).fn else None


def _same_state(guarded: "GuardedSolver", y0, args) -> jax.Array:
    """Whether `y0` is the simulator's initial state for these parameters, to rounding, as data."""
    expected = guarded.simulator.initial_state(guarded.parameters.read(args))  # type: ignore[attr-defined]
    return jnp.all(jnp.abs(jnp.asarray(y0) - expected) <= 1e-6 * jnp.abs(expected))


def _states(answer: Solution, names: Iterable[str]) -> jax.Array:
    """The outputs as the state of the simulator, `(time, component)`; `jit` has sorted their names."""
    return jnp.stack([answer.values[name] for name in names], axis=-1)


def _with_source(solution: diffrax.Solution, source: Source) -> diffrax.Solution:
    stats = {name: value for name, value in solution.stats.items() if name != "source"}
    return eqx.tree_at(lambda s: s.stats, solution, stats | {"source": label(source, Source)})
