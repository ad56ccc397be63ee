"""What the two main jobs reached, and the Burgers surrogate on other grids.

    emulax run examples/lynx_hare.toml && emulax run examples/burgers.toml && python validation/main_jobs.py

Bounds: the Burgers surrogate has a mean relative L2 error below 0.5 % on 200 held-out members, on every grid; its job
takes at most 300 seconds in all. Writes validation/results/main_jobs.json.
"""

import json
import sys
from pathlib import Path

import numpy as np

from emulax import data, simulators, surrogates

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from _record import write  # noqa: E402


def main():
    results = {name: reached(name) for name in ("lynx_hare", "burgers")}
    results["burgers"]["mean_error_by_points"] = other_grids()
    path = write("main_jobs", results, folder=ROOT / "validation/results")
    print(json.dumps(results, indent=1))
    print(f"written to {path}")
    worst = max(results["burgers"]["mean_error_by_points"].values())
    if worst >= 5e-3 or sum(results["burgers"]["seconds"].values()) > 300:
        sys.exit("the Burgers job is outside its bounds.")


def reached(name: str) -> dict:
    """Errors, coverage, and seconds by stage of a finished run."""
    folder = ROOT / "runs" / name
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds = {event["step"]: event["seconds"] for event in events if "seconds" in event}
    return {
        "seconds": seconds,
        "member_error": {key: report["errors"]["member"][key] for key in ("median", "p95", "worst")},
        "coverage": report["calibration"]["overall"],
    }


def other_grids() -> dict[str, float]:
    """Mean relative L2 error of the Burgers surrogate against truth on the same grid, for the test design."""
    surrogate = surrogates.load(ROOT / "runs/burgers/surrogate.emx")
    seed = data.load_ensemble(ROOT / "runs/burgers/ensembles/test.h5").design.seed
    found = {}
    for points in (256, 512, 1024):
        space = data.ParameterSpace(u0=data.GaussianRandomField(points=points))
        design = data.sample(space, 200, method="random", seed=seed)
        truth = simulators.solve_ensemble(simulators.Burgers(space, points=points), design).values["u"]
        answer = simulators.solve_ensemble(surrogate, design).values["u"]
        errors = np.linalg.norm(answer - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))
        found[str(points)] = float(errors.mean())
    return found


if __name__ == "__main__":
    main()
