"""What is wrong with a run file, one line for each problem: the key's path, what was expected, what stands there."""

import difflib
import json
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError


class RunFileError(ValueError):
    """A run file that cannot be meant.

    **Arguments:**

    - `source`: the file's name.
    - `found`: one text for each problem.
    """

    def __init__(self, source: str, found: list[str]):
        self.source, self.found = source, found
        super().__init__("\n".join(f"{source}: {text}" for text in found))


def problems(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[str]:
    """A pydantic error as one text for each problem; `prefix` is the path of the model within the file."""
    schema = model.model_json_schema()
    return [_problem(entry, schema, prefix) for entry in error.errors()]


def _problem(entry: Any, schema: dict[str, Any], prefix: str) -> str:
    location, value = entry["loc"], entry["input"]
    path = ".".join([prefix] * bool(prefix) + [str(part) for part in location])
    if entry["type"] == "extra_forbidden":
        return unknown_key(path, _at(schema, location[:-1]).get("properties", {}))
    expected = _phrase(_at(schema, location))
    if entry["type"] == "missing":
        return f"{path}: expected {expected}, found nothing"
    if entry["type"] == "value_error":
        return f"{path}: {entry['ctx']['error']}"
    return f"{path}: expected {expected}, got {show(value)}"


def unknown_key(path: str, known: Iterable[str]) -> str:
    """The line for a key that nothing reads, with the nearest known one."""
    known = list(known)
    hint = nearest(path.rpartition(".")[2], known)
    return f"{path}: unknown key; {hint}expected one of {', '.join(known)}" if known else f"{path}: unknown key"


def nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean "..."? ` if a known word is close, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"? ' if close else ""


def show(value: Any) -> str:
    """A value as the run file would write it."""
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _at(schema: dict[str, Any], location: tuple[Any, ...]) -> dict[str, Any]:
    """The part of a JSON schema that describes the key at `location`; empty where it says nothing."""
    found = _resolve(schema, schema)
    for part in location:
        inner = found.get("properties", {}).get(part) or found.get("additionalProperties")
        if isinstance(part, int):
            items = found.get("prefixItems") or [found.get("items", {})]
            inner = items[min(part, len(items) - 1)]
        found = _resolve(inner if isinstance(inner, dict) else {}, schema)
    return found


def _resolve(part: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """A schema without indirection and without "or null": a key that may be left out cannot be null in TOML."""
    if "$ref" in part:
        return _resolve(root["$defs"][part["$ref"].rpartition("/")[2]], root)
    choices = [choice for choice in part.get("anyOf", []) if choice.get("type") != "null"]
    return _resolve(choices[0], root) if len(choices) == 1 else part


def _phrase(schema: dict[str, Any]) -> str:
    """What a JSON schema expects, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f"{sign} {_plain(schema[key])}" for key, sign in signs.items() if key in schema]
    match schema.get("type"):
        case "integer":
            return " ".join(["a whole number", " and ".join(limits)]).strip()
        case "number":
            return " ".join(["a number", " and ".join(limits)]).strip()
        case "string" if "pattern" in schema:
            return "a name of letters, digits, and any of _ . -"
        case "string":
            return "a text"
        case "boolean":
            return "true or false"
        case "array":
            parts = [_phrase(item) for item in schema.get("prefixItems", [])]
            return f"a list of {', '.join(parts)}" if parts else "a list"
        case "object":
            return "a table"
        case _:
            return "another value"


def _plain(limit: float) -> str:
    return str(int(limit)) if limit == int(limit) else str(limit)
