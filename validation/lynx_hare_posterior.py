"""The lynx-hare posterior with the adaptive solver, a tuned fixed-step solver and the guarded surrogate, side by side.

    python validation/lynx_hare_posterior.py [--surrogate runs/lynx_hare/surrogate.emx]

The reference is posteriordb's posterior `hudson_lynx_hare-lotka_volterra`; every posterior mean must lie within 0.2
reference standard deviations of it. Writes validation/results/lynx_hare_posterior.json. Takes about ten minutes.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import numpyro

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks")]

import calibrate_lynx_hare as example  # noqa: E402
from _record import write  # noqa: E402

MODELS = {"solver": "adaptive Tsit5", "fixed-step": "fixed-step RK4", "guarded": "guarded surrogate"}
BOUND = 0.2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surrogate", default=str(ROOT / "runs/lynx_hare/surrogate.emx"))
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=4000)
    arguments = parser.parse_args()
    numpyro.enable_x64()
    results = {}
    for name, title in MODELS.items():
        model = example.build(name, arguments.surrogate)
        result = example.calibrate(model, warmup=arguments.warmup, samples=arguments.samples)
        draws = result.pop("draws")
        results[name] = result | {
            "title": title,
            "mean": {key: float(value.mean()) for key, value in draws.items()},
            "std": {key: float(value.std()) for key, value in draws.items()},
            "off_by_reference_std": example.compare(draws),
            "effective_samples": {key: float(effective(value)) for key, value in draws.items()},
        }
        print(f"{title}: {1e3 * result['seconds_per_leapfrog']:.3f} ms per leapfrog step", flush=True)
    show(results)
    path = write("lynx_hare_posterior", {"bound": BOUND, "models": results}, folder=ROOT / "validation/results")
    print(f"written to {path}")
    worst = max(abs(value) for r in results.values() for value in r["off_by_reference_std"].values())
    if worst > BOUND:
        sys.exit(f"a posterior mean is off by {worst:.3f} reference standard deviations, above {BOUND}.")


def effective(draws: np.ndarray) -> float:
    """Effective sample size of one chain."""
    return numpyro.diagnostics.effective_sample_size(draws[None])


def show(results: dict) -> None:
    """The table: distance of every mean from the reference, and the cost."""
    print(f"\n{'off by, in reference std':26}" + "".join(f"{r['title']:>20}" for r in results.values()))
    for key in example.REFERENCE:
        print(f"{key:26}" + "".join(f"{r['off_by_reference_std'][key]:+20.3f}" for r in results.values()))
    print(
        f"{'ms per leapfrog step':26}" + "".join(f"{1e3 * r['seconds_per_leapfrog']:20.3f}" for r in results.values())
    )
    adaptive = results["solver"]["seconds_per_leapfrog"]
    print(
        f"{'relative to adaptive':26}"
        + "".join(f"{r['seconds_per_leapfrog'] / adaptive:20.2f}" for r in results.values())
    )


if __name__ == "__main__":
    main()
