"""A report as text for the terminal."""

import textwrap
from collections.abc import Iterator
from typing import Any

from ._words import number, percent, rate, seconds, with_unit

WIDTH = 110
GRID = ("median", "mean", "95%", "worst")


def as_text(content: dict[str, Any]) -> str:
    """Verdict, errors, coverage and speed as lines of at most 110 characters."""
    return "\n".join(_lines(content))


def _lines(content: dict[str, Any]) -> Iterator[str]:
    surrogate = content["surrogate"]
    architecture = surrogate["architecture"]["name"]
    weights = f", {surrogate['weights']:,} weights" if surrogate["weights"] else ""
    yield f"Report on a surrogate of {content['simulator']['name']} ({architecture}{weights})"
    for entry in content["verdict"]:
        yield from textwrap.wrap(entry["text"], WIDTH, initial_indent="  - ", subsequent_indent="    ")
    yield ""
    yield from _table(["relative L2 error", "median", "95%", "worst", "RMSE", "nRMSE", "VRMSE"], _error_rows(content))
    yield ""
    yield from _table(["stated error", "band", "holds", "95% interval", "half-width"], _coverage_rows(content))
    if content.get("grids"):
        yield ""
        yield from _table([f"on other grids than {content['grids']['trained']} points", *GRID], _grid_rows(content))
    if "speed" in content:
        yield ""
        title = [
            "speed",
            "precision",
            "median error",
            "one member",
            f"{content['speed']['members']:,} members",
            "as accurate",
        ]
        yield from _table(title, _speed_rows(content["speed"]))


def _error_rows(content: dict[str, Any]) -> Iterator[list[str]]:
    errors = content["errors"]
    units = {entry["name"]: entry["unit"] for entry in content["outputs"]}

    def quantiles(entry):
        return [percent(entry[key]) for key in ("median", "p95", "worst")]

    yield ["member (largest output)", *quantiles(errors["member"]), "", "", ""]
    for name, entry in errors["outputs"].items():
        scores = [number(entry["rmse"]), number(entry["nrmse"]), number(entry["vrmse"])]
        yield [with_unit(name, units[name]), *quantiles(entry), *scores]
    for entry in content["baselines"].values():
        yield [entry["name"], *quantiles(entry["member"]), "", "", ""]


def _coverage_rows(content: dict[str, Any]) -> Iterator[list[str]]:
    stated = content["calibration"]
    for name, entry in {
        "all values": stated["overall"],
        **stated["outputs"],
        "whole members": stated["members"],
    }.items():
        width = stated["half_width"].get(name)
        level = "" if name == "whole members" else f"{stated['level']:.0%}"
        interval = f"{rate(entry['low'])} to {rate(entry['high'])}"
        yield [name, level, rate(entry["share"]), interval, "" if width is None else f"± {number(width)}"]


def _grid_rows(content: dict[str, Any]) -> Iterator[list[str]]:
    for entry in content["grids"]["entries"]:
        yield [f"{entry['points']} points", *(percent(entry[key]) for key in ("median", "mean", "p95", "worst"))]


def _speed_rows(speed: dict[str, Any]) -> Iterator[list[str]]:
    for entry in speed["entries"]:
        accurate = "" if entry["family"] == "surrogate" else ("yes" if entry["reaches"] else "no")
        one = "" if entry["one_s"] is None else seconds(entry["one_s"])
        error = percent(entry["error"]["median"])
        yield [entry["label"], entry["precision"], error, one, seconds(entry["all_s"]), accurate]


def _table(titles: list[str], rows: Iterator[list[str]]) -> Iterator[str]:
    lines = [titles, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    for line in lines:
        cells = [
            text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()
