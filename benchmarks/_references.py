"""Reference solutions: by scipy, or by Taylor's method where scipy takes minutes.

Van der Pol with μ from 50 to 1000 costs scipy's Radau half a minute a member. heyoka agrees with Radau at rtol 1e-9
within 3e-9 of the largest value (μ = 50 and 247), and with itself at a finer tolerance within 3e-12. It is a contender
on that problem too: its own error there is a difference from itself.
"""

from importlib.util import find_spec

import numpy as np
from _contenders import field_of, start_of
from _problems import Problem
from scipy.integrate import solve_ivp

# relative and absolute tolerance of scipy's Radau
STIFF = {"van_der_pol_stiff": (1e-9, 1e-11), "robertson": (1e-11, 1e-16), "pollution": (1e-11, 1e-13)}


def reference(problem: Problem, design: dict[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """The members of `design` at all saved times, `(member, time, unknown)`, and how they were computed."""
    starts, constants = start_of(problem, design), problem.constants(design)
    if problem.name == "van_der_pol_stiff" and find_spec("heyoka"):
        return _taylor(problem, starts, constants), "heyoka Taylor, tol 1e-15"
    method = "Radau" if problem.name in STIFF else "DOP853"
    rtol, atol = STIFF.get(problem.name, (1e-12, 1e-13))
    field, times = field_of(problem), problem.times
    members = []
    for y0, p in zip(starts, constants, strict=True):
        found = solve_ivp(field, (times[0], times[-1]), y0, method, times, args=(p,), rtol=rtol, atol=atol)
        if not found.success:
            raise RuntimeError(f"{problem.name}: no reference solution: {found.message}")
        members.append(found.y.T)
    return np.stack(members), f"scipy {method}, rtol {rtol:g}, atol {atol:g}"


def _taylor(problem: Problem, starts: np.ndarray, constants: np.ndarray) -> np.ndarray:
    import heyoka as hy

    unknowns = hy.make_vars(*problem.outputs)
    parameters = [hy.par[i] for i in range(constants.shape[1])]
    system = list(zip(unknowns, problem.rates(None, unknowns, parameters), strict=True))
    taylor = hy.taylor_adaptive(system, starts[0].copy(), pars=constants[0].copy(), tol=1e-15)
    members = []
    for y0, p in zip(starts, constants, strict=True):
        taylor.time = problem.times[0]
        taylor.state[:], taylor.pars[:] = y0, p
        members.append(taylor.propagate_grid(problem.times)[-1].copy())
    if not np.all(np.isfinite(members)):
        raise RuntimeError(f"{problem.name}: no reference solution by heyoka.")
    return np.stack(members)
