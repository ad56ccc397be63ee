"""The contenders of the ensemble benchmark: each turns a problem, members and tolerances into a timeable solve.

A contender is `prepare(problem, design, rtol, atol)`; it does what need not be repeated and returns a function without
arguments whose result is `(member, time, unknown)`, NaN for a member that it could not solve. The first call compiles.
"""

import ctypes
import dataclasses
import functools
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from _problems import Problem

from emulax import simulators

MOST_STEPS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to solve an ensemble.

    - `name`: in the record and on the figure.
    - `prepare`: see the module's docstring.
    - `suits`: which problems it can do.
    - `whole`: whether the time of a member depends on how many are solved at once; if not, the members with a reference
      are enough.
    - `finest`: the smallest relative tolerance that it can meet.
    """

    name: str
    prepare: Callable
    suits: Callable[[Problem], bool] = lambda problem: True
    whole: bool = True
    finest: float = 1e-12


def contenders(names: tuple[str, ...] = ()) -> dict[str, Contender]:
    """Those that are installed, or of those the ones named."""
    table = [
        Contender("emulax", functools.partial(_emulax, precision="double")),
        Contender("emulax, single", functools.partial(_emulax, precision="single"), _survives_single, finest=1e-5),
        Contender("diffrax", functools.partial(_plain, tuned=False)),
        Contender(
            "diffrax, single", functools.partial(_plain, tuned=False, double=False), _survives_single, finest=1e-5
        ),
        Contender("diffrax, tuned", functools.partial(_plain, tuned=True)),
        Contender("scipy", _scipy, whole=False),
    ]
    if find_spec("numbalsoda"):
        table += [
            Contender("numbalsoda LSODA", functools.partial(_numbalsoda, method="lsoda"), _has_rates, whole=False),
            Contender(
                "numbalsoda DOP853", functools.partial(_numbalsoda, method="dop853"),
                lambda problem: _has_rates(problem) and not problem.stiff, whole=False,
            ),
        ]  # fmt: skip
    if find_spec("heyoka"):
        table.append(
            Contender("heyoka", _heyoka, lambda p: _has_rates(p) and p.name not in ("robertson", "pollution"), False)
        )
    if find_spec("torchode"):
        table.append(Contender("torchode", _torchode, lambda problem: _has_rates(problem) and not problem.stiff))
    if shutil.which("gcc"):
        table.append(Contender("C, SIMD", _c, lambda problem: problem.name == "lorenz_end"))
    return {c.name: c for c in table if not names or c.name in names}


def missing() -> list[str]:
    """What is not installed."""
    found = {name: find_spec(name) is not None for name in ("numbalsoda", "heyoka", "torchode")}
    found["gcc"] = shutil.which("gcc") is not None
    return [name for name, there in found.items() if not there]


def _has_rates(problem: Problem) -> bool:
    return problem.rates is not None


def _survives_single(problem: Problem) -> bool:
    """Robertson's y2 and Pollution's traces are lost in single precision, and so is a chaotic PDE."""
    return problem.name in ("lorenz", "lorenz_end", "van_der_pol", "burgers")


def _emulax(problem: Problem, design: dict, rtol: float, atol: float, precision: Any) -> Callable:
    changes = {"rtol": rtol, "atol": atol, "max_steps": MOST_STEPS}
    if problem.simulator.numerics.step is not None:
        # a method of order 4 with fixed steps: the step goes with the fourth root of the tolerance
        changes = {"step": float(np.clip(0.1 * (rtol / 1e-5) ** 0.25, 0.002, 0.5)), "max_steps": MOST_STEPS}

    def run():
        ensemble = simulators.solve_ensemble(problem.simulator, design, devices=1, precision=precision, **changes)
        values = jax.block_until_ready(ensemble.solution.values)
        return values, ensemble.metadata

    return _Result(run, lambda found: stack({name: np.asarray(v) for name, v in found[0].items()}, problem))


class _Result:
    """A solve whose result is turned into an array only after the clock has stopped."""

    def __init__(self, run: Callable, read: Callable):
        self.run, self.read = run, read

    def __call__(self):
        return self.run()


def stack(values: dict[str, np.ndarray], problem: Problem) -> np.ndarray:
    """Outputs by name as `(member, time, unknown)`."""
    if len(problem.outputs) == 1:
        return values[problem.outputs[0]]
    return np.stack([values[name] for name in problem.outputs], -1)


def _plain(problem: Problem, design: dict, rtol: float, atol: float, tuned: bool, double: bool = True) -> Callable:
    """`jit(vmap(diffeqsolve))`; tuned: the best stock solver and controller, sorted by cost, in chunks of 256."""
    simulator = problem.simulator
    solver = (diffrax.Kvaerno4() if tuned else diffrax.Kvaerno5()) if problem.stiff else diffrax.Tsit5()
    pi = dict(pcoeff=0.3, icoeff=0.4) if tuned and problem.stiff else {}
    controller = diffrax.PIDController(rtol=rtol, atol=atol, **pi)
    ordinary = isinstance(simulator, simulators.ODESimulator)
    field = simulator.vector_field if ordinary else field_of(problem, jnp)

    def one(p):
        start = simulator.initial_state(p) if ordinary else p["u0"]
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field), solver, simulator.times[0], simulator.times[-1], None, start, args=p,
            saveat=diffrax.SaveAt(ts=jnp.asarray(simulator.times)), stepsize_controller=controller,
            max_steps=MOST_STEPS, throw=False,
        )  # fmt: skip
        return solution.ys, solution.stats["num_steps"]

    solve = jax.jit(jax.vmap(one))
    with jax.enable_x64(double):
        inputs = {name: jnp.asarray(value, float) for name, value in design.items()}
    count = len(next(iter(design.values())))
    chunk = min(256, count) if tuned else count
    ranks: list[np.ndarray] = []

    def run():
        with jax.enable_x64(double):
            if chunk == count:
                return [jax.block_until_ready(solve(inputs))]
            if not ranks:  # the cost is known only after a first solve, which is not timed
                steps = [np.asarray(solve(_rows(inputs, rows))[1]) for rows in _chunks(np.arange(count), chunk)]
                ranks.append(np.argsort(np.concatenate(steps)[:count], kind="stable"))
            return [jax.block_until_ready(solve(_rows(inputs, rows))) for rows in _chunks(ranks[0], chunk)]

    def read(parts):
        values = np.concatenate([np.asarray(part[0]) for part in parts])[:count]
        if chunk == count:
            return values
        result = np.empty_like(values)
        result[ranks[0]] = values
        return result

    return _Result(run, read)


def _chunks(numbers: np.ndarray, size: int) -> list[np.ndarray]:
    padded = np.append(numbers, np.repeat(numbers[-1:], (-len(numbers)) % size))
    return list(padded.reshape(-1, size))


def _rows(inputs: dict, rows: np.ndarray) -> dict:
    return {name: value[rows] for name, value in inputs.items()}


def field_of(problem: Problem, xp: Any = np) -> Callable:
    """`f(t, y, p)` on arrays of `xp`, NumPy or `jax.numpy`."""
    if problem.rates is not None:
        return problem.rates
    if problem.name == "burgers":
        return functools.partial(_burgers, xp=xp)
    return _KuramotoSivashinsky(problem.simulator, xp)


def _burgers(t, u, p, nu=0.01, xp=np):
    spacing = 1.0 / u.size
    before, after = xp.roll(u, 1), xp.roll(u, -1)
    return nu * (before - 2 * u + after) / spacing**2 - (before + u + after) * (after - before) / (6 * spacing)


class _KuramotoSivashinsky:
    """u_t = -u u_x - u_xx - u_xxxx by a Fourier pseudo-spectral method, products cut at two thirds."""

    def __init__(self, simulator: Any, xp: Any):
        self.xp = xp
        self.k = 2 * np.pi / simulator.length * np.arange(simulator.points // 2 + 1)
        self.kept = np.arange(self.k.size) < (simulator.solve_points - 1) // 3 + 1
        self.linear = self.k**2 - simulator.nu * self.k**4

    def __call__(self, t, u, p):
        fft = self.xp.fft
        c = fft.rfft(u) * self.kept
        square = fft.rfft(fft.irfft(c, u.size) ** 2) * self.kept
        return fft.irfft(self.linear * c - 0.5j * self.k * square, u.size)


def start_of(problem: Problem, design: dict) -> np.ndarray:
    """Initial states, `(member, unknown)`."""
    return np.asarray(design["u0"]) if "u0" in design else problem.start(design)


def _scipy(problem: Problem, design: dict, rtol: float, atol: float) -> Callable:
    from scipy.integrate import solve_ivp

    field, times = field_of(problem), problem.times
    states, constants = start_of(problem, design), problem.constants(design)
    method = "LSODA" if problem.stiff else "DOP853"

    def run():
        results = np.full((len(states), len(times), states.shape[1]), np.nan)
        for row, (y0, p) in enumerate(zip(states, constants, strict=True)):
            found = solve_ivp(
                field, (times[0], times[-1]), y0, method, times, args=(p,), rtol=max(rtol, 3e-14), atol=atol
            )
            results[row, : found.y.shape[1]] = found.y.T
        return results

    return _Result(run, lambda results: results)


def _numbalsoda(problem: Problem, design: dict, rtol: float, atol: float, method: str) -> Callable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        address = _numba_field(problem.rates, len(problem.outputs)).address
    solve = _numba_loop(method)
    states, constants = start_of(problem, design), problem.constants(design)
    return _Result(lambda: solve(address, states, problem.times, constants, rtol, atol), lambda results: results)


@functools.cache
def _numba_field(rates: Callable, size: int) -> Any:
    import numba
    import numbalsoda

    compiled = numba.njit(rates)

    @numba.cfunc(numbalsoda.lsoda_sig)
    def field(t, u, du, p):
        found = compiled(t, u, p)
        for i in range(size):
            du[i] = found[i]

    return field


@functools.cache
def _numba_loop(name: str) -> Callable:
    import numba
    import numbalsoda

    method = getattr(numbalsoda, name)

    @numba.njit
    def loop(address, states, times, constants, rtol, atol):
        results = np.full((states.shape[0], times.shape[0], states.shape[1]), np.nan)
        for i in range(states.shape[0]):
            found, success = method(address, states[i], times, constants[i], rtol, atol)
            if success:
                results[i] = found
        return results

    return loop


def _heyoka(problem: Problem, design: dict, rtol: float, atol: float) -> Callable:
    """Taylor's method, as many members at once as the processor's vectors hold; the tolerance is `rtol`."""
    import heyoka as hy

    names = problem.outputs
    unknowns = hy.make_vars(*names)
    parameters = [hy.par[i] for i in range(problem.constants(design).shape[1])]
    system = list(zip(unknowns, problem.rates(None, unknowns, parameters), strict=True))
    width = hy.recommended_simd_size()
    states, constants = start_of(problem, design), problem.constants(design)
    states, constants = (np.concatenate([a, np.repeat(a[-1:], (-len(a)) % width, 0)]) for a in (states, constants))
    grid = np.repeat(problem.times[:, None], width, 1)
    taylor = hy.taylor_adaptive_batch(
        system, state=np.zeros((len(names), width)), pars=np.zeros((len(parameters), width)), tol=rtol
    )

    def run():
        results = []
        for start in range(0, len(states), width):
            taylor.set_time(0.0)
            taylor.state[:] = states[start : start + width].T
            taylor.pars[:] = constants[start : start + width].T
            results.append(taylor.propagate_grid(grid)[1])
        return results

    count = len(next(iter(design.values())))

    def read(results):
        return np.concatenate([np.moveaxis(r, -1, 0) for r in results])[:count]

    return _Result(run, read)


def _torchode(problem: Problem, design: dict, rtol: float, atol: float) -> Callable:
    import torch
    import torchode as to

    torch.set_num_threads(1)
    states = torch.tensor(start_of(problem, design))
    constants = torch.tensor(problem.constants(design))
    times = torch.tensor(problem.times).repeat(len(states), 1)

    def field(t, y, p):
        return torch.stack(problem.rates(t, y.unbind(1), p.unbind(1)), 1)

    term = to.ODETerm(field, with_args=True)
    solver = to.AutoDiffAdjoint(
        to.Tsit5(term=term), to.IntegralController(atol=atol, rtol=rtol, term=term), max_steps=MOST_STEPS
    )
    value = to.InitialValueProblem(y0=states, t_eval=times)

    def run():
        with torch.no_grad():
            return solver.solve(value, args=constants).ys

    return _Result(run, lambda ys: ys.numpy())


@functools.cache
def _c_library() -> ctypes.CDLL:
    source = Path(__file__).with_name("lorenz_simd.c")
    target = Path(tempfile.mkdtemp()) / "lorenz_simd.so"
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", str(source), "-o", str(target)], check=True
    )
    library = ctypes.CDLL(str(target))
    library.solve.restype = ctypes.c_long
    return library


def _c(problem: Problem, design: dict, rtol: float, atol: float) -> Callable:
    rho = np.ascontiguousarray(design["rho"])
    result = np.empty((len(rho), 3))

    def run():
        _c_library().solve(
            rho.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(len(rho)), ctypes.c_double(problem.times[-1]),
            ctypes.c_double(rtol), ctypes.c_double(atol), result.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        return result

    def read(ends):
        return np.stack([np.broadcast_to(problem.start(design), ends.shape), ends], 1)

    return _Result(run, read)
