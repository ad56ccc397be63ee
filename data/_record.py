"""What an ensemble's metadata says of how it was solved, in numbers and in words."""

from collections.abc import Mapping
from typing import Any


def retried(metadata: Mapping[str, Any]) -> dict[str, int]:
    """How many members each solver answered after another one had lost them, from an ensemble's metadata."""
    return {name: len(members) for name, members in metadata.get("retried", {}).items()}


def answered_by(solvers: Mapping[str, int], again: Mapping[str, int]) -> str:
    """Who answered how many members, in words: `900 Tsit5, 100 Rodas5P (20 retried)`."""
    return ", ".join(
        f"{count:,} {name}" + (f" ({again[name]:,} retried)" if again.get(name) else "")
        for name, count in solvers.items()
    )


def solver_error(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """The largest relative change that the refinement check found: of which output, in how many members, and how much
    is allowed; `None` where nothing was checked."""
    record = metadata.get("refinement")
    if not record or not record["outputs"]:
        return None
    name, worst = max(record["outputs"].items(), key=lambda item: item[1]["worst"])
    return {"worst": worst["worst"], "output": name, "members": record["members"], "allowed": record["allowed"]}


def error_in_words(error: Mapping[str, Any]) -> str:
    """A solver's error as `solver_error` finds it: `3.8e-08 (lynx), worst of 8 members solved again`."""
    kept = "" if error["worst"] <= error["allowed"] else f"; more than {error['allowed']:.2g}"
    return f"{error['worst']:.2g} ({error['output']}), worst of {error['members']:,} members solved again{kept}"
