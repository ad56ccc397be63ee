"""A program that calls a solver today, and the one line that changes when a surrogate takes its place.

`estimate` neither knows nor cares what answers. What JAX does to the solver it does to the replacement.
"""

import diffrax
import jax
import jax.numpy as jnp

from emulax import data, pipelines, simulators, surrogates


def vector_field(t, y, p):
    prey, predator = y
    return jnp.stack([(p["alpha"] - p["beta"] * predator) * prey, (-p["gamma"] + p["delta"] * prey) * predator])


population = simulators.ODESimulator(
    vector_field=vector_field,
    initial_state=lambda p: jnp.array([30.0, 4.0]),
    parameters=data.ParameterSpace(
        alpha=data.Uniform(0.4, 0.7, unit="1/year"),
        beta=data.Uniform(0.02, 0.035, unit="1/year"),
        gamma=data.Uniform(0.6, 1.0, unit="1/year"),
        delta=data.Uniform(0.015, 0.03, unit="1/year"),
    ),
    times=jnp.arange(0.0, 21.0),
    outputs=("hare", "lynx"),
)
ensemble = simulators.solve_ensemble(population, data.sample(population.parameters, 4096, method="sobol", seed=0))
surrogate = surrogates.fit(surrogates.MLP(width=128, depth=4), ensemble, seed=0)
fast = pipelines.guard(population, surrogate, tolerance=2e-2, risk=0.05)

params = {"alpha": 0.55, "beta": 0.028, "gamma": 0.8, "delta": 0.024}


def estimate(model, p):
    return jnp.sum(jnp.log(model.solve(p).values["hare"]))


for model in (population, fast):
    print(estimate(model, params))
    print(jax.jit(lambda p, model=model: estimate(model, p))(params))
    print(jax.grad(lambda p, model=model: estimate(model, p))(params))
    print(jax.vmap(lambda a, model=model: estimate(model, params | {"alpha": a}))(jnp.linspace(0.45, 0.65, 5)))

# code written against diffrax: `diffrax.diffeqsolve` becomes `fast.diffeqsolve`, nothing else changes
arguments = (diffrax.ODETerm(vector_field), diffrax.Tsit5(), 0.0, 20.0, 0.1, jnp.array([30.0, 4.0]), params)
options = dict(
    saveat=diffrax.SaveAt(ts=population.times), stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8)
)
print(diffrax.diffeqsolve(*arguments, **options).ys.shape, fast.diffeqsolve(*arguments, **options).ys.shape)

# code written against scipy: `scipy.integrate.solve_ivp` becomes `fast.solve_ivp`
result = fast.solve_ivp(vector_field, (0.0, 20.0), [30.0, 4.0], t_eval=population.times, args=(params,))
print(result.t.shape, result.y.shape, result.success, result.message)
