"""The page of the documentation that holds the recorded results of the ensemble benchmark."""

from pathlib import Path
from typing import Any

HEAD = """# Ensembles on one core: what was measured

Written by `benchmarks/ensemble.py` from `benchmarks/results/ensemble.json`; not edited by hand.
{machine}.
{versions}.

Times are microseconds per member after compilation, medians of five runs, or one run where that takes over 20 s. They
are compared at EQUAL error: the error that emulax has at a relative tolerance of 1e-6, the largest over members, times
and unknowns relative to each unknown's largest value. A dash stands where a contender did not reach that error.
Contenders that solve one member after the other, and the slowest ones, were given fewer members, spread evenly over the
same design.

![Time against the error reached, one panel per problem](figures/{figure})
"""


def page(record: dict[str, Any], figure: Path) -> str:
    """The page in Markdown from what `ensemble.json` holds."""
    machine = record["machine"]
    results = record["results"]
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items() if number)
    processor = f"{machine['cpu']} ({machine['vectors']}), {machine['memory_gib']:g} GiB"
    where = f"Machine: {processor}, {machine['system']}, Python {machine['python']}"
    parts = [HEAD.format(machine=where, versions=f"Versions: {versions}", figure=figure.name), _targets(results)]
    parts += [_problem(found) for found in results["problems"].values()]
    if devices := results.get("devices"):
        parts.append(_devices(devices))
    return "\n".join(parts)


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple(["---"] + ["---:"] * (len(header) - 1)), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _number(us: float) -> str:
    return f"{us:,.0f}" if us >= 1000 else f"{us:.3g}"


def _targets(results: dict[str, Any]) -> str:
    rows = []
    for t in results["targets"]:
        measured = "not measured" if t["measured"] is None else f"{t['measured']:.2f}"
        verdict = "" if t["measured"] is None else "yes" if t["met"] else "no"
        rows.append((f"{t['problem']}: times as fast as {t['against']}", f"{t['target']:g}", measured, verdict))
    return "## Targets\n\n" + _table(("emulax on", "target", "measured", "met"), rows)


def _problem(found: dict[str, Any]) -> str:
    rows = []
    for name, contender in found["contenders"].items():
        us, times = contender.get("us_at_equal_error"), contender.get("times_emulax")
        members = max(point["members"] for point in contender["points"])
        compiled = max(point["compile_s"] for point in contender["points"])
        reached = ("-", "-") if us is None or times is None else (_number(us), f"{times:.2f}")
        rows.append((name, f"{members:,}", *reached, f"{compiled:.1f}"))
    error = found.get("equal_error")
    text = f"## {found['title']}\n\n{found['members']:,} members"
    text += "" if error is None else f", error {error:.1e}"
    text += f"; reference: {found['reference']}.\n\n"
    text += _table(("contender", "members", "µs per member", "times emulax's", "first run's extra s"), rows)
    if found.get("scaling"):
        rows = [(s["contender"], f"{s['members']:,}", _number(s["us_per_member"])) for s in found["scaling"]]
        text += "\nOther numbers of members, at the nominal tolerance:\n\n"
        text += _table(("contender", "members", "µs per member"), rows)
    return text


def _devices(devices: dict[str, Any]) -> str:
    rows = [
        (name, f"{d['one_s']:.3f}", f"{d['two_s']:.3f}", f"{d['ratio']:.2f}")
        for name, d in devices.items()
        if isinstance(d, dict)
    ]
    return "## Two devices against one\n\n" + _table(("problem", "one / s", "two / s", "ratio"), rows)
