"""The whole job on one page: a simulator of one's own, an ensemble, a surrogate, a report, a guarded solver.

It writes decay.emx and decay.html into the current folder.
"""

import jax.numpy as jnp

from emulax import data, pipelines, simulators, surrogates

decay = simulators.ODESimulator(
    vector_field=lambda t, y, p: -p["k"] * y,
    initial_state=lambda p: jnp.stack([p["y0"]]),
    parameters=data.ParameterSpace(
        k=data.Uniform(0.1, 1.0, unit="1/s"),
        y0=data.LogUniform(0.5, 2.0, unit="mol/m3"),
    ),
    times=jnp.linspace(0.0, 2.0, 21),
    outputs=("y",),
)

# one member: the call that a surrogate will replace
solution = decay.solve({"k": 0.5, "y0": 1.0})
print(solution.times.shape, solution.values["y"].shape, solution.status)

# many members: pmap over every device, failures recorded per member
design = data.sample(decay.parameters, 1024, method="sobol", seed=0)
ensemble = simulators.solve_ensemble(decay, design)
print(ensemble)  # counts, statuses, steps, seconds
print(ensemble.to_xarray())  # dims member, time; one variable per output; parameters, status and units

# a design maps parameter names to equally long arrays; tolerances, solver and devices are the caller's choice
two = {"k": jnp.array([0.1, 0.5]), "y0": jnp.array([1.0, 1.0])}
few = simulators.solve_ensemble(decay, two, rtol=1e-8, atol=1e-10)
print(few.to_xarray()["y"].values[:, -1], few.to_xarray()["status"].values)
print(design["k"].shape)

# a surrogate, trained where the ensemble lies
surrogate = surrogates.fit(surrogates.MLP(width=64, depth=3), ensemble, seed=0)
surrogate.save("decay.emx")
surrogate = surrogates.load("decay.emx")

# held-out truth: errors per output and time, calibration, speed at matched accuracy
report = pipelines.validate(surrogate, decay, data.sample(decay.parameters, 256, method="sobol", seed=1))
print(report)
report.save("decay.html")

# the replacement: same call, same answer type; what the surrogate may not answer goes to the solver
fast = pipelines.guard(decay, surrogate, tolerance=1e-2, risk=0.05)
solution = fast.solve({"k": 0.5, "y0": 1.0})
outside = fast.solve({"k": 5.0, "y0": 1.0})
print(solution.source, outside.source)  # "surrogate", "solver"
batch = simulators.solve_ensemble(fast, design)  # anything with .solve runs as an ensemble
print(batch)
