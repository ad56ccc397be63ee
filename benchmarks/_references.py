"""Reference solutions, by methods and codes that are not under test."""

import numpy as np
from _contenders import field_of, start_of
from _problems import Problem
from scipy.integrate import solve_ivp


def reference(problem: Problem, design: dict[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """The members of `design` at all saved times, `(member, time, unknown)`, and how they were computed."""
    if problem.name == "van_der_pol_stiff" or problem.name == "robertson" or problem.name == "pollution":
        method, rtol, atol = "Radau", 1e-11, 1e-16 if problem.name == "robertson" else 1e-13
    else:
        method, rtol, atol = "DOP853", 1e-12, 1e-13
    field, times = field_of(problem), problem.times
    members = []
    for y0, p in zip(start_of(problem, design), problem.constants(design), strict=True):
        found = solve_ivp(field, (times[0], times[-1]), y0, method, times, args=(p,), rtol=rtol, atol=atol)
        if not found.success:
            raise RuntimeError(f"{problem.name}: no reference solution: {found.message}")
        members.append(found.y.T)
    return np.stack(members), f"scipy {method}, rtol {rtol:g}, atol {atol:g}"
