"""Settings of a simulator from cheap to exact, in ladders: what a surrogate is compared with at equal accuracy."""

import dataclasses
from collections.abc import Iterator

import diffrax

from ._fixed_step import FixedStep
from ._numerics import Numerics, solver_name
from ._ode import ODESimulator
from ._rosenbrock import Rodas5P
from ._simulator import AbstractSimulator

MOST_STEPS = 2048  # of the fixed-step ladder, over all saved times
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


def ode_ladder(simulator: ODESimulator) -> Iterator[tuple[str, AbstractSimulator]]:
    """Ladders for an ODE, one after the other: the fixed-step method, then adaptive ones by tolerance.

    Where the choice of a solver is left to the engine, explicit and stiff ones are tried.

    A system whose own solver is implicit is compared with that solver and `Kvaerno3` alone; explicit methods would
    spend their steps on stability.
    """
    own = simulator.numerics.method
    if isinstance(own, diffrax.AbstractImplicitSolver):
        solvers = [diffrax.Kvaerno3(), own]
    else:
        if simulator.event is None and simulator.jumps is None:
            yield from fixed_step_ladder(simulator, max(32, MOST_STEPS // len(simulator.times)))
        solvers = [diffrax.Bosh3(), diffrax.Tsit5(), Rodas5P() if simulator.numerics.automatic else own]
    adaptive = {type(solver): solver for solver in solvers if isinstance(solver, diffrax.AbstractAdaptiveSolver)}
    for solver in adaptive.values():
        yield from tolerance_ladder(simulator, solver)


def fixed_step_ladder(simulator: ODESimulator, most: int) -> Iterator[tuple[str, FixedStep]]:
    """`FixedStep` with 1, 2, 4, ... steps between saved times, up to `most`."""
    substeps = 1
    while substeps <= most:
        yield f"RungeKutta4, {substeps} step{'s' * (substeps > 1)} per saved time", FixedStep(simulator, substeps)
        substeps *= 2


def tolerance_ladder(
    simulator: ODESimulator, solver: diffrax.AbstractSolver
) -> Iterator[tuple[str, AbstractSimulator]]:
    """One adaptive solver with relative tolerances from 0.01 to 1e-8; the absolute one keeps its ratio to it."""
    own = simulator.numerics
    for rtol in TOLERANCES:
        atol = rtol * own.atol / own.rtol
        numerics = Numerics(solver=solver, rtol=rtol, atol=atol, max_steps=own.max_steps)
        yield f"{solver_name(solver)}, rtol {rtol:g}", dataclasses.replace(simulator, numerics=numerics)
