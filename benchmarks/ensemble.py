"""Ensembles of differential equations: emulax against plain and tuned diffrax and the peers that pip installs.

    python benchmarks/ensemble.py [--quick] [--problems lorenz robertson] [--contenders emulax diffrax] [--members 1000]

Every contender solves the same members on one core with a sweep of tolerances; the error of each run is measured
against tight reference solutions, and times are compared at EQUAL error. Runs of all contenders are interleaved; a
time is the median of five runs that block until ready, or one run where that takes over 20 s. The first run, which
compiles, is stated apart. Prints tables; writes `results/ensemble.json`, problem by problem, the page
`docs/benchmarks.md` and its figure. `--quick` takes Lorenz, Van der Pol and Robertson; it, `--members` and
`--contenders` write nothing unless `--output` is given. `--draw` only draws the figure and writes the page from what is
recorded.
"""

import os
import sys

CORES = sorted(os.sched_getaffinity(0))
if "--devices-only" not in sys.argv:
    os.sched_setaffinity(0, CORES[:1])  # before any library starts its threads
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import argparse  # noqa: E402
import dataclasses  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from _contenders import Contender, contenders, missing  # noqa: E402
from _page import page  # noqa: E402
from _problems import Problem, problems  # noqa: E402
from _record import PACKAGES, RESULTS, machine, write  # noqa: E402
from _references import reference  # noqa: E402
from _work_precision import draw, error, time_at  # noqa: E402

PEERS = ("scipy", "numba", "numbalsoda", "heyoka", "torch", "torchode")
DOCS = Path(__file__).parent.parent / "docs"
ONCE_S = 20.0  # a run that takes longer is timed once
LONGEST_S = 6.0  # a contender whose run takes longer is not given finer tolerances
# members for stock diffrax, where one takes 10 ms or more
FEWER = {"van_der_pol_stiff": 32, "pollution": 64, "burgers": 64, "kuramoto_sivashinsky": 4}

# (problem, faster, slower, how many times): the contender `faster` is to be so many times as fast at equal error
TARGETS = (
    ("lorenz", "emulax", "diffrax", 7.0),
    ("lorenz", "emulax", "heyoka", 1.0),
    ("lorenz_end", "emulax", "C, SIMD", 0.5),
    ("van_der_pol", "emulax", "diffrax", 9.0),
    ("van_der_pol", "emulax", "heyoka", 2.0),
    ("robertson", "emulax", "diffrax, tuned", 20.0),
    ("robertson", "emulax", "numbalsoda LSODA", 4.0),
)
NOMINAL = 1e-6  # the tolerance of emulax whose error the others are to reach


@dataclasses.dataclass
class Entry:
    """One contender at one tolerance: what is timed and what was found."""

    contender: Contender
    rtol: float
    solve: Any
    members: int
    record: dict[str, Any]
    seconds: list[float] = dataclasses.field(default_factory=list)


def rows(everyone: int, wanted: int, known: np.ndarray) -> np.ndarray:
    """`wanted` of `everyone` members spread evenly, among them those with a reference."""
    if wanted >= everyone:
        return np.arange(everyone)
    if wanted <= len(known):
        return known
    spread = np.linspace(0, everyone - 1, wanted - len(known)).round().astype(int)
    return np.unique(np.concatenate([spread, known]))


def measure(problem: Problem, who: dict[str, Contender], repeats: int, quick: bool) -> dict[str, Any]:
    """The work-precision curves of one problem."""
    members = problem.members // 4 if quick else problem.members
    design = problem.design(members)
    known = np.linspace(0, members - 1, problem.references // 4 if quick else problem.references).round().astype(int)
    truth, how = reference(problem, {name: value[known] for name, value in design.items()})
    print(f"\n{problem.title}: {members} members, {len(known)} references by {how}", flush=True)
    entries = []
    for contender in (c for c in who.values() if c.suits(problem)):
        for rtol in problem.rtols[:2] if quick else problem.rtols:
            if rtol < contender.finest:
                break
            entry = prepare(problem, contender, design, members, known, truth, rtol)
            entries.append(entry)
            if entry.record["first_s"] - entry.record["compile_s"] > (LONGEST_S / 4 if quick else LONGEST_S):
                break
    for _ in range(repeats):
        for entry in entries:
            if entry.seconds and entry.seconds[0] > ONCE_S:
                continue
            before = time.perf_counter()
            entry.solve()
            entry.seconds.append(time.perf_counter() - before)
    found: dict[str, Any] = {}
    for entry in entries:
        entry.record["us_per_member"] = round(statistics.median(entry.seconds) / entry.members * 1e6, 3)
        entry.record["spread_us"] = [round(f(entry.seconds) / entry.members * 1e6, 3) for f in (min, max)]
        entry.record["repeats"] = len(entry.seconds)
        found.setdefault(entry.contender.name, {"points": []})["points"].append(entry.record)
    result = {"title": problem.title, "members": members, "reference": how, "contenders": found}
    compare(result)
    show(result)
    return result


def prepare(problem, contender, design, members, known, truth, rtol) -> Entry:
    """A contender ready to be timed, and its error."""
    wanted = members if contender.whole else len(known)
    if contender.name.startswith("diffrax"):
        wanted = min(wanted, FEWER.get(problem.name, members))
    if contender.name == "torchode":
        wanted = min(wanted, 1000)
    chosen = rows(members, wanted, known)
    relative, absolute = problem.tolerances(rtol)
    before = time.perf_counter()
    made = contender.prepare(problem, {name: value[chosen] for name, value in design.items()}, relative, absolute)
    first = made.run()
    first_s = time.perf_counter() - before
    before = time.perf_counter()
    first = made.run()
    second_s = time.perf_counter() - before
    values = made.read(first)[np.searchsorted(chosen, known)]
    record = {
        "rtol": relative, "atol": absolute, "members": len(chosen), "error": error(values, truth),
        "first_s": round(first_s, 3), "compile_s": round(max(first_s - second_s, 0.0), 3),
    }  # fmt: skip
    if contender.name == "emulax":
        record["solvers"] = first[1]["solvers"]
    return Entry(contender, rtol, made.run, len(chosen), record)


def compare(result: dict[str, Any]) -> None:
    """Times at the error that emulax has at the nominal tolerance, and ratios."""
    own = [p for p in result["contenders"].get("emulax", {"points": []})["points"] if p["error"]]
    if not own:
        return
    goal = min(own, key=lambda p: abs(np.log(p["rtol"] / NOMINAL)))["error"]
    result["equal_error"] = goal
    base = time_at(goal, own)
    for found in result["contenders"].values():
        reached = time_at(goal, found["points"])
        found["us_at_equal_error"] = reached if reached is None else round(reached, 3)
        found["times_emulax"] = reached if reached is None or base is None else round(reached / base, 2)


def show(result: dict[str, Any]) -> None:
    """The table of one problem."""
    for name, found in result["contenders"].items():
        points = "  ".join(
            f"{p['rtol']:.0e}: {'failed' if p['error'] is None else format(p['error'], '.1e')} {p['us_per_member']:.4g}"
            for p in found["points"]
        )
        times = found.get("times_emulax")
        print(f"  {name:18} {'' if times is None else f'{times:7.2f}x'}  {points}", flush=True)


def scaling(problem: Problem, who: dict[str, Contender], repeats: int) -> list[dict[str, Any]]:
    """Microseconds per member for other numbers of members, at the nominal tolerance."""
    found = []
    for members in problem.scaling:
        design = problem.design(members)
        for name in ("emulax", "emulax, single", "diffrax"):
            slow = name == "diffrax" and members > 10_000
            contender = who.get(name)
            if contender is None or not contender.suits(problem) or (name == "diffrax" and problem.stiff):
                continue
            solve = contender.prepare(problem, design, *problem.tolerances(max(NOMINAL, contender.finest))).run
            solve()
            seconds = []
            for _ in range(1 if slow else repeats):
                before = time.perf_counter()
                solve()
                seconds.append(time.perf_counter() - before)
            us = round(statistics.median(seconds) / members * 1e6, 3)
            found.append({"contender": name, "members": members, "us_per_member": us, "repeats": len(seconds)})
            print(f"  {name:18} {members:7} members: {us:.4g} µs each", flush=True)
    return found


def devices(repeats: int) -> dict[str, Any]:
    """Two host devices against one, on two cores, in a process of its own."""
    if len(CORES) < 2:
        return {"skipped": "one core"}
    command = [sys.executable, __file__, "--devices-only", str(repeats)]
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    os.sched_setaffinity(0, CORES)
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    os.sched_setaffinity(0, CORES[:1])
    return json.loads(process.stdout.splitlines()[-1])


def devices_only(repeats: int) -> None:
    """What `devices` runs: times of one and two devices, interleaved, as JSON."""
    from emulax import simulators

    found = {}
    for name in ("lorenz", "robertson"):
        problem = problems()[name]
        design = problem.design(40_000 if name == "lorenz" else 10_000)
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for repeat in range(repeats + 1):
            for count in (1, 2):
                before = time.perf_counter()
                ensemble = simulators.solve_ensemble(problem.simulator, design, devices=count)
                for value in ensemble.solution.values.values():
                    value.block_until_ready()
                if repeat:
                    seconds[count].append(time.perf_counter() - before)
        one, two = (statistics.median(seconds[count]) for count in (1, 2))
        found[name] = {"one_s": round(one, 4), "two_s": round(two, 4), "ratio": round(one / two, 2)}
    print(json.dumps(found))


def check_targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets, what was measured or `None`, and whether they are met."""
    found = []
    for problem, _, slower, times in TARGETS:
        measured = results.get(problem, {}).get("contenders", {}).get(slower, {}).get("times_emulax")
        met = measured is not None and measured >= times
        found.append({"problem": problem, "against": slower, "target": times, "measured": measured, "met": met})
    return found


def keep(folder: Path, found: dict[str, Any]) -> None:
    """Write what was found, at once, beside what the file holds of other problems on the same machine."""
    path = folder / "ensemble.json"
    record: dict[str, Any] = {"problems": {}}
    if path.exists() and (old := json.loads(path.read_text()))["machine"] == machine() | {"cores": len(CORES)}:
        record = old["results"]
    record["problems"] |= found.pop("problems", {})
    record |= found
    record["targets"] = check_targets(record["problems"])
    os.sched_setaffinity(0, CORES)  # for the machine's record, not for the timings
    write("ensemble", record, packages=(*PACKAGES, *PEERS), folder=folder)
    os.sched_setaffinity(0, CORES[:1])


def publish(folder: Path, docs: Path) -> None:
    """Draw the figure and write the page from what is recorded in `folder`."""
    record = json.loads((folder / "ensemble.json").read_text())
    found = record["results"]["problems"]
    record["results"]["problems"] = {name: found[name] for name in problems() if name in found}
    figure = docs / "figures" / "work_precision.png"
    draw(record["results"]["problems"], figure, record["machine"]["cpu"])
    (docs / "benchmarks.md").write_text(page(record, figure), encoding="utf-8")
    print(docs / "benchmarks.md", figure)


def positive(text: str) -> int:
    """A command-line argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time ensembles at equal error.")
    parser.add_argument("--quick", action="store_true", help="Lorenz, Van der Pol and Robertson within a minute")
    parser.add_argument("--problems", nargs="+", default=[], choices=list(problems()), help="only these")
    parser.add_argument("--contenders", nargs="+", default=[], help="only these")
    parser.add_argument("--members", type=positive, help="members of every problem, instead of its own number")
    parser.add_argument("--repeats", type=positive, default=5, help="timed runs, at least 5 for a record (default 5)")
    parser.add_argument("--no-devices", action="store_true", help="leave out the comparison of two devices with one")
    parser.add_argument("--output", type=Path, help="folder for ensemble.json, the page and the figure")
    parser.add_argument("--draw", action="store_true", help="write figure and page from what is recorded, and stop")
    parser.add_argument("--devices-only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.devices_only:
        return devices_only(options.devices_only)
    recorded, docs = options.output or RESULTS, options.output or DOCS
    if options.draw:
        if not (recorded / "ensemble.json").exists():
            parser.error(f"argument --draw: expected ensemble.json in {recorded}, found none; run without --draw first")
        return publish(recorded, docs)
    partial = options.quick or options.members or options.contenders  # not what the record is made of
    folder = None if partial and options.output is None else recorded
    if unknown := [name for name in options.contenders if name not in contenders()]:
        installed = ", ".join(map(repr, contenders()))
        parser.error(f"argument --contenders: expected some of {installed}; got {', '.join(map(repr, unknown))}")
    start = time.perf_counter()
    os.environ.setdefault("EMULAX_CACHE", "off")  # compile times are stated, so they are measured
    who = contenders(tuple(options.contenders) or (("emulax", "diffrax", "numbalsoda LSODA") if options.quick else ()))
    for name in missing():
        print(f"{name}: not installed, left out")
    chosen = options.problems or (["lorenz", "van_der_pol", "robertson"] if options.quick else list(problems()))
    repeats = 3 if options.quick else options.repeats
    results = {}
    for name in chosen:
        problem = problems()[name]
        if options.members:
            problem = dataclasses.replace(problem, members=options.members, scaling=())
        results[name] = measure(problem, who, repeats, options.quick)
        if folder is not None:
            keep(folder, {"problems": {name: results[name]}})
        if not options.quick and problem.scaling and folder is not None:
            results[name]["scaling"] = scaling(problem, who, repeats)
            keep(folder, {"problems": {name: results[name]}})
    targets = check_targets(results)
    print("\nTargets at equal error")
    for t in targets:
        against = f"times {t['against']:18} target {t['target']:g}"
        if t["measured"] is None:
            print(f"  {t['problem']:18}       - {against}  not measured")
        else:
            print(f"  {t['problem']:18} {t['measured']:7.2f} {against}  {'met' if t['met'] else 'MISSED'}")
    two = None if options.quick or options.no_devices else devices(repeats)
    if two is not None:
        print("Two devices against one:", two)
        if folder is not None:
            keep(folder, {"devices": two})
    print(f"{time.perf_counter() - start:.1f} s in all")
    if folder is not None:
        publish(folder, docs)


if __name__ == "__main__":
    main()
