"""What every benchmark records beside its numbers: the machine, the versions, the date."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("emulax", "jax", "jaxlib", "diffrax", "equinox", "numpy")


def write(name: str, results: Any, packages: tuple[str, ...] = PACKAGES, folder: Path = RESULTS) -> Path:
    """Write `results` with the machine they were measured on to `<folder>/<name>.json`, and return the path.

    **Arguments:**

    - `name`: the benchmark, and the stem of the file.
    - `results`: anything JSON holds; units belong in its keys, as in `median_s`.
    - `packages`: distributions whose versions are recorded, `None` for one that is not installed.
    - `folder`: by default `benchmarks/results`.
    """
    record = {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {package: _version(package) for package in packages},
        "results": results,
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, Any]:
    """Processor and its widest vectors, usable cores, memory, system and Python of this machine."""
    return {
        "cpu": _cpu(),
        "vectors": _vectors(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _vectors() -> str:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return next((name for name in ("avx512f", "avx2", "avx") if name in flags), "unknown")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
