"""Error against time: the surrogate among the settings of its solver."""

from collections.abc import Iterator
from typing import Any

from ._palette import COLOURS, DIM, INK, new
from ._words import count, seconds


def speed_drawings(content: dict[str, Any]) -> Iterator[Any]:
    """Work and precision for a batch, and times at equal accuracy for one member and for all."""
    from ._figures import Drawing

    if "speed" not in content:
        return
    speed = content["speed"]
    members = count(speed["members"], "member")
    caption = (
        f"Median member error against the time for {members} at once. Filled: double precision; open: single. Left and "
        "below is better."
    )
    yield Drawing("work and precision", "speed", _work_precision(speed), caption)
    caption = "Times at equal accuracy: the surrogate, and each method at its cheapest setting that is as accurate."
    yield Drawing("times at equal accuracy", "speed", _times(speed), caption)


def _work_precision(speed: dict[str, Any]) -> Any:
    from ._figures import in_percent

    figure, axes = new(size=(4.4, 3.4))
    families = dict.fromkeys(e["family"] for e in speed["entries"] if e["family"] not in ("surrogate", "own"))
    for family, colour in zip(families, COLOURS[1:], strict=False):
        points = [e for e in speed["entries"] if e["family"] == family and e["error"]["median"]]
        double = [e for e in points if e["precision"] == "double"]
        single = [e for e in points if e["precision"] == "single"]
        axes.plot(*_places(double), "o-", color=colour, markersize=5, label=family)
        axes.plot(*_places(single), "o", color=colour, markersize=5, fillstyle="none")
    mine = min((e for e in speed["entries"] if e["family"] == "surrogate"), key=lambda e: e["all_s"])
    axes.axhline(speed["target"]["median"], color=COLOURS[0], linewidth=1, linestyle="--")
    axes.plot(mine["all_s"], speed["target"]["median"], "*", color=COLOURS[0], markersize=15, label="surrogate")
    axes.set(
        xscale="log", yscale="log", xlabel=f"seconds for {speed['members']:,} members", ylabel="median member error"
    )
    axes.set_title("Error against time")
    in_percent(axes.yaxis)
    axes.legend(ncols=2, loc="best")
    return figure


def _places(entries: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    return [e["all_s"] for e in entries], [e["error"]["median"] for e in entries]


def _times(speed: dict[str, Any]) -> Any:
    """A dot for one member and one for each member of a batch, by method."""
    figure, axes = new(size=(4.4, 3.4))
    chosen = _fastest(speed)
    for row, (name, entry) in enumerate(chosen.items()):
        colour = COLOURS[0] if name == "surrogate" else INK
        pair = (entry["all_s"] / speed["members"], entry["one_s"])
        axes.plot(pair, (row, row), color=DIM, linewidth=1)
        axes.plot(pair[0], row, "o", color=colour, markersize=7)
        axes.plot(pair[1], row, "o", color=colour, markersize=7, fillstyle="none", markeredgewidth=1.5)
        for value, align in ((min(pair), "right"), (max(pair), "left")):
            shift = (-8 if align == "right" else 8, 0)
            axes.annotate(
                seconds(value),
                (value, row),
                xytext=shift,
                textcoords="offset points",
                ha=align,
                va="center",
                fontsize=8.5,
            )
    axes.set_yticks(range(len(chosen)), list(chosen))
    axes.set(xscale="log", xlabel="seconds per member", title="Times at equal accuracy")
    axes.set_ylim(len(chosen) - 0.5, -0.9)
    low, high = axes.get_xlim()
    span = (high / low) ** 0.28
    axes.set_xlim(low / span, high * span)
    axes.plot([], [], "o", color=INK, label="in a batch")
    axes.plot([], [], "o", color=INK, fillstyle="none", markeredgewidth=1.5, label="alone")
    axes.legend(ncols=2, loc="upper right")
    return figure


def _fastest(speed: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The shortest times of each method among its accurate entries, the surrogate first and the own settings last."""
    found: dict[str, Any] = {}
    for entry in speed["entries"]:
        if entry["reaches"] and entry["one_s"] is not None:
            name = "own settings" if entry["family"] == "own" else entry["family"]
            before = found.get(name, entry)
            found[name] = {mode: min(entry[mode], before[mode]) for mode in ("all_s", "one_s")}
    return found
