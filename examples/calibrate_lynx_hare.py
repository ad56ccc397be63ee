"""Bayesian calibration of Lotka-Volterra against the Hudson Bay pelt counts, 1900-1920, with NUTS.

The program is written against `model.solve`. Which model answers is one name:

    python examples/calibrate_lynx_hare.py --model solver
    python examples/calibrate_lynx_hare.py --model guarded --surrogate runs/lynx_hare/surrogate.emx

Data: thousands of pelts, Hewitt 1921 as compiled by Howard 2009. The prior and the reference posterior are those of
posteriordb's `hudson_lynx_hare-lotka_volterra` (Magnusson et al. 2024, doi:10.48550/arXiv.2407.04967).
Needs the extra `calibration` (numpyro).
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from emulax import pipelines, simulators, surrogates

# fmt: off
HARE = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1,
        40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7]
LYNX = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4,
        8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6]
# fmt: on
PELTS = {"hare": jnp.array(HARE), "lynx": jnp.array(LYNX)}

# posterior mean and standard deviation of every parameter by posteriordb
REFERENCE = {
    "alpha": (0.546864, 0.0631),
    "beta": (0.0277473, 0.00415),
    "gamma": (0.800095, 0.0894),
    "delta": (0.0240859, 0.00353),
    "u0": (34.0352, 2.917),
    "v0": (5.93590, 0.531),
    "sigma_hare": (0.248057, 0.0433),
    "sigma_lynx": (0.251017, 0.0436),
}

PRIOR = {
    "alpha": dist.TruncatedNormal(1.0, 0.5, low=0.0),
    "beta": dist.TruncatedNormal(0.05, 0.05, low=0.0),
    "gamma": dist.TruncatedNormal(1.0, 0.5, low=0.0),
    "delta": dist.TruncatedNormal(0.05, 0.05, low=0.0),
    "u0": dist.LogNormal(np.log(10.0), 1.0),
    "v0": dist.LogNormal(np.log(10.0), 1.0),
}


def posterior(model):
    """The statistical model: prior, populations by `model.solve`, log-normal observation errors."""
    params = {name: numpyro.sample(name, prior) for name, prior in PRIOR.items()}
    populations = model.solve(params).values
    for name, pelts in PELTS.items():
        sigma = numpyro.sample(f"sigma_{name}", dist.LogNormal(-1.0, 1.0))
        # a failed solve is NaN: NUTS counts it as a divergence and moves on
        numpyro.sample(f"{name}_pelts", dist.LogNormal(jnp.log(populations[name]), sigma), obs=pelts)


def calibrate(model, *, warmup: int = 1000, samples: int = 2000, seed: int = 0) -> dict:
    """Sample the posterior with NUTS, started at the prior's centre.

    **Returns:** `draws` by parameter, and the cost: leapfrog steps, and seconds per leapfrog step without compiling
    (the second of two equal runs is timed).
    """
    with numpyro.validation_enabled(False):
        start = {"alpha": 0.6, "beta": 0.03, "gamma": 0.8, "delta": 0.03, "u0": 30.0, "v0": 5.0}
        kernel = numpyro.infer.NUTS(
            posterior, init_strategy=numpyro.infer.init_to_value(values=start | {"sigma_hare": 0.3, "sigma_lynx": 0.3})
        )
        mcmc = numpyro.infer.MCMC(kernel, num_warmup=warmup, num_samples=samples // 2, progress_bar=False)
        keys = jax.random.split(jax.random.key(seed), 3)
        mcmc.warmup(keys[0], model)
        mcmc.run(keys[1], model, extra_fields=("num_steps",))
        first = mcmc.get_samples()
        mcmc.post_warmup_state = mcmc.last_state
        began = time.perf_counter()
        mcmc.run(keys[2], model, extra_fields=("num_steps",))
        second = jax.block_until_ready(mcmc.get_samples())
        seconds = time.perf_counter() - began
        steps = int(mcmc.get_extra_fields()["num_steps"].sum())
    draws = {name: np.concatenate([first[name], second[name]]) for name in REFERENCE}
    return {"draws": draws, "leapfrog_steps": steps, "seconds_per_leapfrog": seconds / steps}


def compare(draws: dict[str, np.ndarray]) -> dict[str, float]:
    """Distance of every posterior mean from the reference, in reference standard deviations."""
    return {name: float((draws[name].mean() - mean) / std) for name, (mean, std) in REFERENCE.items()}


def build(name: str, surrogate: str):
    """The model of that name; this is the line that changes when a surrogate takes the solver's place."""
    solver = simulators.LotkaVolterra(numerics=simulators.Numerics(rtol=1e-6, atol=1e-6))
    if name == "solver":
        return solver
    if name == "fixed-step":
        return simulators.FixedStep(solver, substeps=2)  # as accurate as the surrogate
    return pipelines.guard(solver, surrogates.load(surrogate), tolerance=2e-2, risk=0.05)


def main():
    parser = argparse.ArgumentParser(description="Calibrate Lotka-Volterra against the Hudson Bay pelt counts.")
    parser.add_argument("--model", choices=["solver", "guarded", "fixed-step"], default="guarded")
    parser.add_argument("--surrogate", default="runs/lynx_hare/surrogate.emx", help="file written by `emulax run`")
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    numpyro.enable_x64()
    model = build(arguments.model, arguments.surrogate)
    result = calibrate(model, warmup=arguments.warmup, samples=arguments.samples, seed=arguments.seed)
    distance = compare(result["draws"])
    print(f"{'parameter':12}{'mean':>11}{'std':>11}{'reference':>11}{'off by':>10} std")
    for name, draws in result["draws"].items():
        print(f"{name:12}{draws.mean():11.5g}{draws.std():11.3g}{REFERENCE[name][0]:11.5g}{distance[name]:+10.3f}")
    print(f"{1e3 * result['seconds_per_leapfrog']:.3f} ms per leapfrog step ({result['leapfrog_steps']} steps timed)")


if __name__ == "__main__":
    main()
