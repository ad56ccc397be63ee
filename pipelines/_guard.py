"""A surrogate where the solver was: the surrogate answers where it may, the solver everywhere else."""

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Ensemble, Solution, Source, Status, as_design, check_number, check_times, label, subset
from ..simulators import AbstractSimulator, solve_ensemble
from ..surrogates import Surrogate
from ._fallback import choose
from ._pair import check_pair

SOLVE_OPTIONS = ("precision", "devices", "batch_size", "progress", "seed")


def guard(simulator: AbstractSimulator, surrogate: Surrogate, *, tolerance: float, risk: float) -> "GuardedSolver":
    """Put a surrogate in a simulator's place, with a promise and with the simulator as the fallback.

    A member is answered by the surrogate if its parameters are finite and inside the training domain, and if the
    surrogate's own estimate of its error is at most a threshold. The threshold is the largest one, tau, for which

        (1 + number of calibration members accepted with an error above the tolerance) / (1 + number accepted) <= risk,

    so that a new member, drawn as the calibration members were, is accepted with an error above `tolerance` with a
    probability of at most `risk` (conformal risk control: Angelopoulos et al. 2022, doi:10.48550/arXiv.2208.02814).
    A member's error is its relative L2 error over all times and points, for the worst output.

    **Arguments:**

    - `simulator`: what the program calls today.
    - `surrogate`: trained on an ensemble of that simulator; the fingerprints are compared.
    - `tolerance`: relative error that the program can bear, above 0.
    - `risk`: probability, above 0 and below 1, with which an accepted answer may be worse than that.

    **Returns:** a `GuardedSolver`, with the simulator's call.

    **Raises:** `ValueError` for what is no simulator or no surrogate, a surrogate of another simulator, and a tolerance
    or risk out of range.
    """
    check_pair(simulator, surrogate)
    tolerance = check_number("tolerance", tolerance, "a relative error above 0", lambda error: error > 0)
    risk = check_number("risk", risk, "a probability above 0 and below 1", lambda share: 0 < share < 1)
    calibration = surrogate.calibration
    threshold = acceptance_threshold(np.asarray(calibration.scores), np.asarray(calibration.errors), tolerance, risk)
    if threshold == -math.inf:
        few = len(calibration.errors) < 1 / risk - 1
        warnings.warn(
            f"no answer of this surrogate can be promised within {tolerance:g} at risk {risk:g}; the solver answers "
            "every call. Raise the tolerance or the risk, or "
            + (f"calibrate on at least {2 * math.ceil(1 / risk)} members." if few else "train longer."),
            stacklevel=2,
        )
    return GuardedSolver(simulator, surrogate, tolerance, risk, float(threshold))


def acceptance_threshold(scores: np.ndarray, errors: np.ndarray, tolerance: float, risk: float) -> float:
    """The largest score up to which answers may be accepted; minus infinity if there is none. See `guard`."""
    order = np.argsort(scores, kind="stable")
    violations = np.cumsum(~(errors[order] <= tolerance))  # an error that is NaN is a violation
    kept = (violations + 1) / (np.arange(len(scores)) + 2) <= risk
    # equal scores are accepted together: only the last of them counts
    last = np.append(np.diff(scores[order]) > 0, True) if len(scores) else np.zeros(0, bool)
    good = np.flatnonzero(kept & last)
    return float(scores[order][good[-1]]) if good.size else -math.inf


class GuardedSolver(eqx.Module):
    """What `guard` returns: the simulator's call, answered by the surrogate where it may. Build it with `guard`."""

    simulator: AbstractSimulator
    surrogate: Surrogate
    tolerance: float = eqx.field(static=True)
    risk: float = eqx.field(static=True)
    threshold: float = eqx.field(static=True)

    @property
    def name(self):
        return f"guarded {self.simulator.name}"

    @property
    def parameters(self):
        return self.simulator.parameters

    @property
    def times(self):
        return self.surrogate.times

    @property
    def outputs(self):
        return self.simulator.outputs

    @property
    def coordinates(self):
        return self.simulator.coordinates

    @property
    def time_unit(self):
        return self.simulator.time_unit

    def solve(self, params: Mapping[str, Any], ts: Any = None, *, key: jax.Array | None = None) -> Solution:
        """Answer one member; `solution.source` says who did. Times that the surrogate does not know go to the solver,
        and so do traced times, with a warning.

        Under `vmap` both are computed and one is chosen, as with any `lax.cond`: for many members use
        `simulators.solve_ensemble`, which solves only the rejected ones.
        """
        ts = self.times if ts is None else ts
        known = self.knows_times(ts)
        if known is None:
            warnings.warn(
                "solve: the solver answers, since ts is known only while the program runs, as what jax.numpy makes "
                "inside jit is: make ts with numpy or outside of jit, or leave it out.",
                stacklevel=2,
            )

        def solve(params):
            return unstated(self.simulator.solve(params, ts, key=key), self.outputs)

        params = self.parameters.read(params)
        if not known:
            return solve(params)
        answer = self.answer(params, ts)
        return choose(self.accepts(params, answer), answer, solve, params)

    def answer(self, params: Mapping[str, jax.Array], ts: Any) -> Solution:
        """What the surrogate says, asked at an ordinary member instead where `params` are outside its domain: an answer
        that is not given must not spoil derivatives."""
        return self.surrogate.solve(self.surrogate.ordinary_outside(params), ts)

    def accepts(self, params: Mapping[str, Any], answer: Solution) -> jax.Array:
        """Whether the surrogate's `answer` for `params` may be given, as data."""
        trusted = jnp.asarray(answer.bound) <= self.threshold
        return (answer.status.code == Status.ok) & self.surrogate.inside(params) & trusted

    def knows_times(self, ts: Any) -> bool | None:
        """Whether every one of `ts` is a time of the surrogate; `None` if they are traced, and nobody can tell."""
        ts = check_times(ts)
        if ts is None:
            return None
        return bool(np.all(np.isclose(ts[:, None], self.times, rtol=1e-6, atol=1e-12).any(axis=1)))

    @property
    def fingerprint(self):
        return self.surrogate.provenance["fingerprint"]

    def diffeqsolve(self, terms, solver, t0, t1, dt0, y0, args=None, **options):
        """`diffrax.diffeqsolve`, answered by the surrogate if it is the call that the surrogate stands for."""
        from ._replace import diffeqsolve

        return diffeqsolve(self, terms, solver, t0, t1, dt0, y0, args, **options)

    def solve_ivp(self, fun, t_span, y0, method="RK45", t_eval=None, **options):
        """`scipy.integrate.solve_ivp`, answered by the surrogate if it is the call that the surrogate stands for."""
        from ._replace import solve_ivp

        return solve_ivp(self, fun, t_span, y0, method, t_eval, **options)

    def solve_members(self, design: Mapping[str, Any], *, times: Any = None, **options: Any) -> Ensemble:
        """Answer a whole design: the surrogate for all members at once, then the solver for the rejected ones."""
        run = {name: options.pop(name) for name in SOLVE_OPTIONS if name in options}
        design = as_design(self.parameters, design)
        if times is not None and not self.knows_times(times):
            return solve_ensemble(self.simulator, design, times=times, **run, **options)
        screened = solve_ensemble(_Screen(self), design, times=times, **run)
        rejected = np.flatnonzero(screened.source == Source.solver)
        if rejected.size == 0:
            return screened
        # padded to a power of two, so that few batch sizes are ever compiled
        padded = np.resize(rejected, 2 ** math.ceil(math.log2(rejected.size)))
        times = self.times if times is None else times
        solved = solve_ensemble(self.simulator, subset(design, padded), times=times, check=0, **run, **options)
        return _merge(screened, solved, rejected)


class _Screen(eqx.Module):
    """The surrogate alone, with `source` telling whether its answer may be given; one compiled ensemble."""

    guarded: GuardedSolver

    name = property(lambda self: self.guarded.name)
    parameters = property(lambda self: self.guarded.parameters)
    outputs = property(lambda self: self.guarded.outputs)
    coordinates = property(lambda self: self.guarded.coordinates)
    time_unit = property(lambda self: self.guarded.time_unit)
    fingerprint = property(lambda self: self.guarded.fingerprint)

    def solve(self, params, ts=None, *, key=None):
        answer = self.guarded.surrogate.solve(params, ts)
        accepted = self.guarded.accepts(params, answer)
        source = label(jnp.where(accepted, int(Source.surrogate), int(Source.solver)), Source)
        return dataclasses.replace(answer, source=source)


def unstated(solution: Solution, outputs: Mapping[str, Any]) -> Solution:
    """A solver's answer in the shape of a surrogate's: the stated errors are NaN, since a solver states none, and a
    surrogate counts no time reached."""
    error = {name: jnp.full_like(solution.values[name], jnp.nan) for name in outputs}
    bound = jnp.asarray(jnp.nan, next(iter(error.values())).dtype)
    return dataclasses.replace(solution, error=error, bound=bound, reached=None, event_time=None, event_values=None)


def _merge(screened: Ensemble, solved: Ensemble, rejected: np.ndarray) -> Ensemble:
    """The screened ensemble with its rejected members replaced by the solver's answers."""
    count = len(rejected)

    def put(whole, part):
        return jnp.asarray(whole).at[rejected].set(jnp.asarray(part)[:count].astype(whole.dtype))

    with jax.enable_x64(True):
        old, new = screened.solution, solved.solution
        new = dataclasses.replace(new, times=new.steps)
        new = jax.vmap(lambda member: unstated(member, screened.outputs))(new)
        members = jax.tree.map(put, dataclasses.replace(old, times=old.steps), new)
    record = {"numerics": solved.metadata["numerics"]} | _answered_by(solved.metadata, rejected)
    record |= {name: screened.metadata[name] + solved.metadata[name] for name in ("seconds", "compile_seconds")}
    return dataclasses.replace(
        screened,
        solution=dataclasses.replace(members, times=old.times),
        metadata=screened.metadata | record,
    )


def _answered_by(metadata: Mapping[str, Any], rejected: np.ndarray) -> dict[str, Any]:
    """Which solver answered which of the rejected members, without padding, in the numbers of the whole design."""
    again = {
        name: [int(rejected[row]) for row in rows if row < len(rejected)]
        for name, rows in metadata.get("retried", {}).items()
    }
    counts = {name: len(members) for name, members in again.items()}
    first = {name: len(rejected) - sum(counts.values()) for name in metadata.get("solvers", {}) if name not in counts}
    return {
        "solvers": {name: count for name, count in (first | counts).items() if count},
        "retried": {name: members for name, members in again.items() if members},
    }
