"""A run's folder: settings, finished stages and what they depended on, the log. Everything is written whole or not."""

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

from ..data import write_atomically

FORMAT = 1


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomically(path, write)


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; `None` for a file that is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def read_state(folder: Path) -> dict[str, Any]:
    """Finished steps by name, each with its keys, outputs and seconds; empty for a folder without a usable record."""
    state = read_json(folder / "state.json")
    known = isinstance(state, dict) and state.get("format") == FORMAT and isinstance(state.get("steps"), dict)
    return state["steps"] if known else {}


def write_state(folder: Path, steps: dict[str, Any]) -> None:
    """Record the finished steps, in the order in which one takes another's files."""
    write_json(folder / "state.json", {"format": FORMAT, "steps": steps})


def digest(path: Path) -> str | None:
    """SHA-256 of a file, in hexadecimal; `None` if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def log(folder: Path, event: str, **details: Any) -> None:
    """Append an event to `log.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    with (folder / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": now, "event": event} | details, ensure_ascii=False) + "\n")
