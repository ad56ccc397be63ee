"""The figures of a report, each one panel, drawn from a report's content."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._palette import BAND, COLOURS, DIM, INK, STYLE, TRUTH, new
from ._words import count, percent, plain_number, with_unit

MOST_GROUPS = 3
SHORT = {"mean": "mean", "linear": "least squares"}


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure with its place and its words.

    - `name`: unique within a report; `section`: where it belongs.
    - `figure`: the `matplotlib.figure.Figure`; `caption`: what it shows, in one or two sentences.
    """

    name: str
    section: str
    figure: Any
    caption: str


def draw(content: dict[str, Any]) -> list[Drawing]:
    """All figures that this content allows, in reading order."""
    import matplotlib

    from ._figures_fields import field_drawings
    from ._figures_speed import speed_drawings

    makers: list[Callable[[dict[str, Any]], Iterator[Drawing]]]
    makers = [_trajectories, field_drawings, _distribution, _error_in_time, _coverage_in_time, _multiples, _estimate]
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        return [drawing for make in [*makers, speed_drawings] for drawing in make(content)]


def units_of(content: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["unit"] for entry in content["outputs"]}


def time_label(content: dict[str, Any]) -> str:
    return with_unit("time", content["time_unit"])


def array(values: Any) -> np.ndarray:
    """Numbers from JSON: `None` is NaN."""
    return np.array(values, dtype=float)


def title_of(shown: dict[str, Any]) -> str:
    return f"{shown['which']} member ({shown['member']}): {percent(shown['error'])}"


def _trajectories(content: dict[str, Any]) -> Iterator[Drawing]:
    """Truth, surrogate and band against time: one panel per member and unit."""
    units = units_of(content)
    scalar = [entry["name"] for entry in content["outputs"] if not entry["dims"]]
    if len(content["times"]) < 2 or not scalar:
        return
    groups = {
        unit: [name for name in scalar if units[name] == unit] for unit in dict.fromkeys(units[n] for n in scalar)
    }
    for shown in content["shown"]:
        for unit, names in list(groups.items())[:MOST_GROUPS]:
            figure, axes = new()
            for name, colour in zip(names[: len(COLOURS)], COLOURS, strict=False):
                _trajectory(axes, shown, name, colour)
            axes.set(xlabel=time_label(content), ylabel=unit or ", ".join(names), title=title_of(shown))
            whole_years(axes, shown["times"])
            headroom(axes, 0.28)
            axes.legend(ncols=2, loc="upper left")
            which = shown["which"]
            caption = f"The {which} held-out member: truth (circles), surrogate (line), stated band (shade)."
            yield Drawing(f"{which} member, {', '.join(names)}", "members", figure, caption)


def _trajectory(axes: Any, shown: dict[str, Any], name: str, colour: str) -> None:
    times, values = array(shown["times"]), shown["outputs"][name]
    found, width = array(values["surrogate"]), array(values["half_width"])
    axes.fill_between(times, found - width, found + width, color=colour, alpha=BAND, linewidth=0)
    axes.plot(times, found, color=colour, label=f"{name}, surrogate")
    axes.plot(times, array(values["truth"]), "o", color=colour, **TRUTH, label=f"{name}, truth")


def whole_years(axes: Any, times: list[float]) -> None:
    """Whole numbers on a time axis of whole numbers; never 1.9e3."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=all(float(t).is_integer() for t in times)))
    axes.ticklabel_format(axis="x", useOffset=False, style="plain")


def in_percent(axis: Any) -> None:
    """Powers of ten of a relative error as percents."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10, numticks=6))
    axis.set_major_formatter(lambda value, _: percent(value, 1))
    axis.set_minor_formatter(NullFormatter())


def headroom(axes: Any, share: float) -> None:
    """Room above the data for a legend, as a share of their height."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + share * (high - low))


def _distribution(content: dict[str, Any]) -> Iterator[Drawing]:
    errors = array(content["scatter"]["error"])
    errors = errors[np.isfinite(errors) & (errors > 0)]
    if errors.size < 2 or errors.min() == errors.max():
        return
    member = content["errors"]["member"]
    figure, axes = new()
    bins = np.geomspace(errors.min(), errors.max(), min(40, max(8, errors.size // 20)) + 1)
    axes.hist(errors, bins, color=COLOURS[0], alpha=0.35, linewidth=0)
    marks = [(member["median"], "median"), (member["p95"], "95%")]
    marks += [(entry["member"]["median"], SHORT.get(kind, kind)) for kind, entry in content["baselines"].items()]
    marks = [(value, text) for value, text in marks if value]
    headroom(axes, 0.75)
    top = axes.get_ylim()[1]
    for number, (value, text) in enumerate(marks):
        ours = number < 2
        axes.axvline(value, color=COLOURS[0] if ours else DIM, linestyle="-" if number == 0 else "--", linewidth=1.2)
        axes.annotate(
            text, (value, top), rotation=90, va="top", ha="right",
            xytext=(-2, -2), textcoords="offset points", color=COLOURS[0] if ours else DIM, fontsize=8.5,
        )  # fmt: skip
    axes.set(xscale="log", xlabel="member error", ylabel="members", title="Error over held-out members")
    in_percent(axes.xaxis)
    caption = "How the member errors are spread, with the medians of both baselines."
    yield Drawing("member errors", "errors", figure, caption)


def _error_in_time(content: dict[str, Any]) -> Iterator[Drawing]:
    for name, entry in list(content["errors"]["times"].items())[:6]:
        if len(entry["times"]) < 2:
            continue
        figure, axes = new()
        found = entry[entry["shown"]]
        styles = {"median": "-", "p95": "--", "worst": ":"}
        for key, label in (("worst", "worst"), ("p95", "95%"), ("median", "median")):
            axes.plot(array(entry["times"]), array(found[key]), styles[key], color=COLOURS[0], label=label)
        what = "relative error" if entry["shown"] == "relative" else "error / RMS of the member"
        axes.set(yscale="log", xlabel=time_label(content), ylabel=what, title=f"{name}: error against time")
        whole_years(axes, entry["times"])
        in_percent(axes.yaxis)
        axes.legend(ncols=3)
        yield Drawing(f"error in time, {name}", "errors", figure, _error_caption(name, entry))


def _error_caption(name: str, entry: dict[str, Any]) -> str:
    first, limit = entry["first_above"]["p95"], percent(entry["threshold"])
    text = f"Error of {name} at each time, over held-out members."
    if first is None:
        return f"{text} The 95th percentile never exceeds {limit}."
    return f"{text} The 95th percentile first exceeds {limit} at time {plain_number(first)}."


def _coverage_in_time(content: dict[str, Any]) -> Iterator[Drawing]:
    stated = content["calibration"]
    times = next(iter(content["errors"]["times"].values()))["times"]
    if len(times) < 2:
        return
    figure, axes = new()
    lowest = 1.0
    for (name, entries), colour in zip(stated["times"].items(), COLOURS, strict=False):
        share, low, high = (array([entry[key] for entry in entries]) for key in ("share", "low", "high"))
        axes.fill_between(array(times), low, high, color=colour, alpha=BAND, linewidth=0)
        axes.plot(array(times), share, color=colour, label=name)
        lowest = min(lowest, float(low.min()))
    axes.axhline(stated["level"], color=INK, linestyle="--", linewidth=1, label="stated")
    axes.set(xlabel=time_label(content), ylabel="share of members inside", title="Coverage against time")
    axes.set_ylim(min(lowest, stated["level"]) - 0.03, 1.0)
    whole_years(axes, times)
    axes.legend(ncols=3, loc="lower right")
    caption = f"Share of members whose truth lies in the stated band, with {stated['confidence']:.0%} intervals."
    yield Drawing("coverage in time", "calibration", figure, caption)


def _multiples(content: dict[str, Any]) -> Iterator[Drawing]:
    stated = content["calibration"]
    figure, axes = new()
    for (name, shares), colour in zip(stated["curve"].items(), COLOURS, strict=False):
        axes.plot(array(stated["multiples"]), array(shares), "o-", color=colour, label=name, markersize=4)
    axes.plot(
        [1], [stated["level"]], "s", color=INK, markersize=7, fillstyle="none", label=f"stated: {stated['level']:.0%}"
    )
    axes.set(
        xlabel="multiple of the stated half-width", ylabel="share of values inside", title="If the band were wider"
    )
    axes.set_ylim(0, 1.02)
    axes.legend(loc="lower right")
    caption = "Share of true values inside the band scaled by a factor; at 1 it should be the stated level."
    yield Drawing("coverage by width", "calibration", figure, caption)


def _estimate(content: dict[str, Any]) -> Iterator[Drawing]:
    error, estimate = array(content["scatter"]["error"]), array(content["scatter"]["estimate"])
    kept = np.isfinite(error) & np.isfinite(estimate) & (error > 0) & (estimate > 0)
    if kept.sum() < 3:
        return
    figure, axes = new()
    axes.plot(estimate[kept], error[kept], "o", color=COLOURS[0], markersize=3, alpha=0.35, markeredgewidth=0)
    ends = np.array([min(estimate[kept].min(), error[kept].min()), max(estimate[kept].max(), error[kept].max())])
    axes.plot(ends, ends, color=INK, linestyle="--", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="estimated by the surrogate", ylabel="true member error")
    axes.set_title("Estimated and true error of each member")
    in_percent(axes.xaxis)
    in_percent(axes.yaxis)
    correlation = content["calibration"]["estimate"]["rank_correlation"]
    told = "" if correlation is None else f" Rank correlation {correlation:.2f}."
    caption = (
        f"Each point is one of {count(int(kept.sum()), 'member')}; on the dashed line the estimate is right.{told}"
    )
    yield Drawing("estimated error", "calibration", figure, caption)
