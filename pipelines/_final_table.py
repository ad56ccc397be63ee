"""The final table of a run, on the terminal."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..data import answered_by, error_in_words
from ._words import percent

PLAIN_WIDTH = 140  # where output is no terminal


def print_summary(summary: dict[str, Any]) -> None:
    """Print a summary as a table and a snippet that uses the result."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in table_rows(summary):
        table.add_row(label, text)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    console.print(f"\n{summary['name']}", style="bold")
    console.print(table)
    if summary["surrogate"] is not None:
        print("\n" + snippet(summary))


def table_rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and text of each line."""
    members, failures = summary["members"], summary["failures"]
    if members:
        yield "members", ", ".join(f"{number:,} {name}" for name, number in members.items())
        yield "failures", _failures(failures)
    if any(summary["solvers"].values()):
        yield "solved by", answered_by(*(_total(summary[key]) for key in ("solvers", "retried")))
    errors = [error for error in summary["solver_error"].values() if error]
    if errors:
        yield "solver error", error_in_words(max(errors, key=lambda error: error["worst"]))
    if summary["seconds"]:
        yield "seconds", ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in summary["seconds"].items())
    yield from (summary["headline"] or {}).items()
    if summary["surrogate"] is not None:
        yield "guard", f"tolerance {percent(summary['guard']['tolerance'])}, risk {percent(summary['guard']['risk'])}"
    for name in ("surrogate", "report"):
        if summary[name] is not None:
            yield name, summary[name]
    if "report" not in summary["finished"]:
        yield "to do", f"emulax run {summary['run_file']}"


def _total(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    """Counts of all ensembles together."""
    return dict(sum((Counter(entry) for entry in counts.values()), Counter()))


def _failures(failures: dict[str, dict[str, int]]) -> str:
    listed = [f"{number} {name} ({status})" for name, counts in failures.items() for status, number in counts.items()]
    return ", ".join(listed) or "none"


def snippet(summary: dict[str, Any]) -> str:
    """How to use the result, as a program."""
    return f"""\
from emulax import pipelines
fast = pipelines.load_guarded("{summary["folder"]}")  # the surrogate where it may answer, else the solver
solution = fast.solve({_example(summary["parameters"])})  # the solver's own call
"""


def _example(parameters: list[dict[str, Any]]) -> str:
    """A member in the middle of the bounds, where all parameters have some."""
    if not all("lower" in entry and "upper" in entry for entry in parameters):
        return "params"
    middle = {entry["name"]: float(f"{(entry['lower'] + entry['upper']) / 2:.3g}") for entry in parameters}
    return json.dumps(middle)
