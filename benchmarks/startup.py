"""Seconds from nothing to ready: imports and the command line, each in fresh processes.

    python benchmarks/startup.py [--repeats 7]

Prints a table and writes `results/startup.json`. The first run of each command is not counted: it compiles bytecode
and fills the file cache.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _record import write

EMULAX = str(Path(sys.executable).with_name("emulax"))
COMMANDS = {
    "python (baseline)": [sys.executable, "-c", "pass"],
    "import emulax": [sys.executable, "-c", "import emulax"],
    "import jax (reference)": [sys.executable, "-c", "import jax"],
    "from emulax import four packages": [
        sys.executable,
        "-c",
        "from emulax import data, simulators, surrogates, pipelines",
    ],
    "emulax --version": [EMULAX, "--version"],
    "emulax --help": [EMULAX, "--help"],
}


def seconds(command: list[str]) -> float:
    """Wall-clock time of one fresh process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(command: list[str], repeats: int) -> dict[str, float | int]:
    """Median and range over `repeats` processes."""
    seconds(command)
    times = [seconds(command) for _ in range(repeats)]
    return {"median_s": statistics.median(times), "min_s": min(times), "max_s": max(times), "repeats": repeats}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure start-up times in fresh processes.")
    parser.add_argument("--repeats", type=int, default=7, help="counted processes per command, at least 5 (default 7)")
    repeats = parser.parse_args().repeats
    if repeats < 5:
        parser.error(f"--repeats: expected at least 5, got {repeats}.")
    results = {}
    print(f"{'command':<34}{'median':>10}{'min':>10}{'max':>10}")
    for name, command in COMMANDS.items():
        row = results[name] = measure(command, repeats)
        print(f"{name:<34}{row['median_s']:>8.3f} s{row['min_s']:>8.3f} s{row['max_s']:>8.3f} s")
    print(f"written: {write('startup', results)}")


if __name__ == "__main__":
    main()
