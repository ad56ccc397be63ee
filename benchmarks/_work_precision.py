"""Work-precision curves: the time at equal error, and the figure."""

from pathlib import Path
from typing import Any

import numpy as np


def error(values: np.ndarray, reference: np.ndarray) -> float | None:
    """The worst |difference| over each component's largest |reference|; `None` if any member failed.

    Both `(member, time, unknown)`.
    """
    if not np.all(np.isfinite(values)):
        return None
    scale = np.max(np.abs(reference), axis=(0, 1))
    return float(np.max(np.abs(values - reference) / np.where(scale > 0, scale, 1)))


def time_at(error: float, points: list[dict[str, Any]]) -> float | None:
    """Microseconds per member at which a contender reaches `error`, between its points on logarithmic scales.

    The fastest point counts where all are more accurate; `None` where none is accurate enough.
    """
    known = sorted((p["error"], p["us_per_member"]) for p in points if p["error"] is not None and p["error"] > 0)
    front: list[tuple[float, float]] = []
    for e, us in known:  # from fine to coarse: only what is faster than all that is finer
        if not front or us < front[-1][1]:
            front.append((e, us))
    if not front or front[0][0] > error:
        return None
    errors, times = np.log(np.array(front)).T
    return float(np.exp(np.interp(np.log(error), errors, times)))


def draw(results: dict[str, Any], path: Path, machine: str) -> None:
    """Time against error, one panel per problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    names = list(results)
    columns = 3 if len(names) in (5, 6) else min(4, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.5 * rows + 0.7), squeeze=False)
    everyone = list(dict.fromkeys(name for result in results.values() for name in result["contenders"]))
    style = {name: _style(name, index) for index, name in enumerate(everyone)}
    for axis, name in zip(axes.flat, names, strict=False):
        for contender, found in results[name]["contenders"].items():
            points = [p for p in found["points"] if p["error"]]
            if points:
                axis.loglog(
                    [p["error"] for p in points], [p["us_per_member"] for p in points], label=contender,
                    **style[contender],
                )  # fmt: skip
        axis.invert_xaxis()
        low, high = axis.get_ylim()
        steps = (1, 2, 5) if high < 100 * low else (1,)
        axis.yaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us:,.12g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.set_title(results[name]["title"], fontsize=9.5)
        axis.grid(which="major", alpha=0.3)
        axis.tick_params(labelsize=8)
    for axis in list(axes.flat)[len(names) :]:
        axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel("largest relative error", fontsize=9)
    for axis in axes[:, 0]:
        axis.set_ylabel("time per member / µs", fontsize=9)
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="lower center", ncols=5, fontsize=9, frameon=False)
    figure.suptitle(f"Ensembles on one core: time at the error reached ({machine})", fontsize=11)
    figure.tight_layout(rect=(0, 0.3 / figure.get_figheight() + 0.03, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _style(name: str, index: int) -> dict[str, Any]:
    if name.startswith("emulax"):
        single = {"linestyle": "--", "markerfacecolor": "white"} if "single" in name else {}
        return {"color": "#c1272d", "linewidth": 2.2, "marker": "o", "markersize": 5} | single
    colours = ("#1f77b4", "#17becf", "#7f7f7f", "#2ca02c", "#98df8a", "#9467bd", "#bcbd22", "#000000", "#8c564b")
    return {"color": colours[index % len(colours)], "linewidth": 1.2, "marker": "s", "markersize": 3.5}
