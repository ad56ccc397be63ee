"""Published end points of stiff and non-stiff problems, reached by the ensemble engine with no solver named.

    python validation/stiff_endpoints.py [--quick]

Problems and references stand in tests/systems.py: HIRES, Robertson, OREGO, Van der Pol in both scalings, Pollution,
Pleiades, the ring modulator, the Arenstorf orbit, Lotka-Volterra, Lorenz. Bound: every component within 100 rtol of the
reference, more where the problem amplifies errors, plus atol. Then three that go wrong quietly: an explicit method out
of steps, single precision on a stiff problem, and an absolute tolerance above the solution. Writes
validation/results/stiff_endpoints.json. Takes a minute or two; --quick leaves out the ring modulator and
writes nothing.
"""

import argparse
import sys
from pathlib import Path

import diffrax
import numpy as np

from emulax import data, simulators

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from _record import write  # noqa: E402
from systems import SYSTEMS, System, ready_made  # noqa: E402

PROBLEMS = {
    "HIRES": SYSTEMS["hires"],
    "Robertson": SYSTEMS["robertson"],
    "OREGO": SYSTEMS["orego"],
    "Van der Pol, scaled": SYSTEMS["van_der_pol_stiff"],
    "Van der Pol, mu = 1000": ready_made(
        simulators.VanDerPol(times=np.array([0.0, 2000.0])),
        [1.70616773217, -8.92809701025e-4],
        {"mu": 1000.0},
        atol=1e-12,
        stiff=True,
    ),
    "Pollution": SYSTEMS["pollution"],
    "Pleiades": SYSTEMS["pleiades"],
    "Ring modulator": SYSTEMS["ring_modulator"],
    "Arenstorf": SYSTEMS["arenstorf"],
    "Lotka-Volterra": SYSTEMS["lotka_volterra"],
    "Lorenz": SYSTEMS["lorenz"],
}

# the Robertson solution on its way, Radau at 1e-12
ROBERTSON_WAY = {
    0.4: (0.985172113861, 3.386395378975e-5, 0.01479402218522),
    40.0: (0.7158270687194, 9.185534764558e-6, 0.2841637457458),
    4e3: (0.1832022577767, 8.942371252776e-7, 0.8167968479862),
    4e7: (5.20307184412e-5, 2.081335731892e-10, 0.9999479690734),
}
VAN_DER_POL_ENDS = {  # mu: x and v at t = 20, Radau at 1e-12
    1.0: (2.00814976217, -0.0425088752732),
    10.0: (1.93935853278, -0.0700815057358),
    100.0: (1.85823449009, -0.00757501675529),
    1000.0: (1.98659191716, -6.74209925308e-4),
}
ROBERTSON_100 = (0.6172348823961, 6.153591274639e-6, 0.3827589640126)
PUBLISHED_RATES = {name: [value] for name, value in SYSTEMS["robertson"].published.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the ring modulator and record nothing")
    quick = parser.parse_args().quick
    names = [name for name in PROBLEMS if not (quick and name == "Ring modulator")]
    results = {"end_points": {name: reach(name, PROBLEMS[name]) for name in names}}
    traps = {"out_of_steps": out_of_steps(), "single_precision": single_precision(), "atol_above_y": atol_above_y()}
    for name, found in traps.items():
        print(f"{name}: {'right' if found['right'] else 'WRONG'}: {found['what']}")
    results |= traps
    if not quick:
        print(f"written to {write('stiff_endpoints', results, folder=ROOT / 'validation/results')}")
    wrong = [name for group in (results["end_points"], traps) for name, found in group.items() if not found["right"]]
    if wrong:
        sys.exit(f"outside the bound: {', '.join(wrong)}.")


def reach(name: str, system: System) -> dict:
    """The published member of a system, with the solver left to the engine."""
    ensemble = simulators.solve_ensemble(
        system.simulator,
        system.design(1),
        solver="auto",
        rtol=system.rtol,
        atol=system.atol,
        max_steps=system.steps,
        devices=1,
    )
    value = system.state(ensemble.values)[0]
    excess = system.excess(value)
    found = {
        "right": bool(ensemble.ok.all() and excess.max() < 1),
        "status": data.Status(int(ensemble.status[0])).name,
        "rtol": system.rtol,
        "atol": system.atol,
        "reference": system.end.tolist(),
        "value": finite(value),
        "relative_error": finite(relative(value, system.end, system.floor)),
        "error_over_allowed": finite(excess),
        "steps": int(ensemble.steps[0]),
        "solver": answered(ensemble),
        "seconds": ensemble.metadata["seconds"],
        "compile_seconds": ensemble.metadata["compile_seconds"],
    }
    if name == "Robertson":
        way = np.stack([ensemble.values[key][0, 1:-1] for key in ("y1", "y2", "y3")], axis=-1)
        found["relative_error_on_the_way"] = finite(relative(way, np.array(list(ROBERTSON_WAY.values()))).max(axis=1))
        found["sum_minus_one"] = float(np.abs(sum(ensemble.values.values()) - 1).max())
    show(name, found)
    return found


def show(name: str, found: dict) -> None:
    """One problem as a table."""
    print(
        f"{name}: {'right' if found['right'] else 'WRONG'}, {found['status']}, rtol {found['rtol']:g}, "
        f"{found['steps']} steps of {found['solver']}, {found['seconds']:.3g} s, "
        f"{found['compile_seconds']:.3g} s compiling"
    )
    print(f"  {'reference':>24} {'value':>24} {'relative error':>15} {'over allowed':>13}")
    columns = zip(*(found[key] for key in ("reference", "value", "relative_error", "error_over_allowed")), strict=True)
    for reference, value, error, over in columns:
        print(f"  {reference:24.16e} {number(value)} {error or 0:15.2e} {over or 0:13.2e}")
    print(flush=True)


def out_of_steps() -> dict:
    """Van der Pol within 4096 steps of Tsit5: mu = 1000 must fail visibly, and be solved once no solver is named."""
    simulator = simulators.VanDerPol(times=np.arange(0.0, 21.0, 4.0))
    settings = {"rtol": 1e-6, "atol": 1e-9, "max_steps": 4096, "devices": 1}
    design, ends = {"mu": list(VAN_DER_POL_ENDS)}, np.array(list(VAN_DER_POL_ENDS.values()))
    explicit = simulators.solve_ensemble(simulator, design, solver=diffrax.Tsit5(), **settings)
    retried = simulators.solve_ensemble(simulator, design, **settings)
    last = np.stack([retried.values[name][:, -1] for name in ("x", "v")], axis=-1)
    error = relative(last, ends).max(axis=1)
    failed = [f"{f['member']}: {f['status']}" for f in explicit.failures()]
    lost = np.isnan(explicit.values["x"][3]).all()
    return {
        "right": failed == ["3: max_steps"] and bool(lost) and bool(retried.ok.all() and error.max() < 2e-4),
        "what": f"Tsit5 fails {failed}, steps {explicit.steps.tolist()}; named none: {answered(retried)}",
        "relative_error": finite(error),
        "steps": retried.steps.tolist(),
    }


def single_precision() -> dict:
    """Robertson to t = 100 in single precision: right or failed, but no plausible wrong number (0.6485 elsewhere)."""
    simulator = simulators.Robertson(times=np.array([0.0, 100.0]))
    ensemble = simulators.solve_ensemble(
        simulator, PUBLISHED_RATES, precision="single", rtol=1e-5, atol=1e-8, devices=1
    )
    value = np.array([ensemble.values[name][0, -1] for name in ("y1", "y2", "y3")])
    error = relative(value, np.array(ROBERTSON_100))
    status = data.Status(int(ensemble.status[0])).name
    return {
        "right": bool(np.isnan(value).all() if status != "ok" else error.max() < 1e-3),
        "what": f"{status}, {ensemble.steps[0]} steps, y1 = {value[0]:.7g} for {ROBERTSON_100[0]:.7g}",
        "relative_error": finite(error),
    }


def atol_above_y() -> dict:
    """Robertson to t = 1e11 with atol far above y1 and y2: a run at 100 times tighter tolerances must give it away."""
    simulator, end = SYSTEMS["robertson"].simulator, SYSTEMS["robertson"].end
    settings = {"max_steps": 100_000, "devices": 1}

    def last(rtol, atol):
        ensemble = simulators.solve_ensemble(simulator, PUBLISHED_RATES, rtol=rtol, atol=atol, **settings)
        return np.array([ensemble.values[name][0, -1] for name in ("y1", "y2", "y3")])

    loose, tighter = last(1e-6, 1e-8), last(1e-8, 1e-10)
    good, check = last(1e-6, 1e-16), last(1e-8, 1e-18)
    return {
        "right": bool(relative(good, check).max() < 1e-4 and relative(good, end).max() < 1e-4),
        "what": f"atol 1e-8: change {relative(loose, tighter).max():.1e}, error {relative(loose, end).max():.1e} (over "
        f"the norm {np.linalg.norm(loose - end):.1e}); atol 1e-16: change {relative(good, check).max():.1e}, error "
        f"{relative(good, end).max():.1e}",
        "change_at_100_times_tighter": {
            "atol 1e-8": finite(relative(loose, tighter)),
            "atol 1e-16": finite(relative(good, check)),
        },
        "relative_error": {"atol 1e-8": finite(relative(loose, end)), "atol 1e-16": finite(relative(good, end))},
    }


def relative(value: np.ndarray, reference: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """|value - reference| / max(|reference|, floor), per component."""
    return np.abs(value - reference) / np.maximum(np.abs(reference), floor)


def answered(ensemble: data.Ensemble) -> str:
    """Which solver answered how many members."""
    return ", ".join(f"{solver} {count}" for solver, count in ensemble.metadata["solvers"].items())


def finite(numbers: np.ndarray) -> list:
    """Numbers for JSON, `None` for those that are not finite."""
    return [float(x) if np.isfinite(x) else None for x in np.atleast_1d(numbers)]


def number(value: float | None) -> str:
    return f"{value:24.16e}" if value is not None else f"{'-':>24}"


if __name__ == "__main__":
    main()
