"""Fields: input, truth, surrogate and error of the best, median and worst member."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._palette import BAND, COLOURS, DIM, INK, new


def field_drawings(content: dict[str, Any]) -> Iterator[Any]:
    """One panel per member and field output: curves on a line at one time, images otherwise."""
    from ._figures import Drawing

    fields = [entry for entry in content["outputs"] if entry["dims"]]
    for shown in content["shown"]:
        for entry in fields[:4]:
            curves = len(entry["dims"]) == 1 and len(shown["times"]) == 1
            figure = (_curves if curves else _images)(content, shown, entry)
            which, name = shown["which"], entry["name"]
            caption = f"The {which} held-out member: {name} as truth and surrogate, and their difference"
            caption += ", with the stated band (shade)." if curves else "."
            yield Drawing(f"{which} member, {name}", "members", figure, caption)


def _curves(content: dict[str, Any], shown: dict[str, Any], entry: dict[str, Any]) -> Any:
    from ._figures import array, headroom, time_label, title_of
    from ._words import plain_number, with_unit

    name, dim = entry["name"], entry["dims"][0]
    x, values = array(shown["coordinates"][dim]), shown["outputs"][name]
    truth, found, width = (array(values[key])[0] for key in ("truth", "surrogate", "half_width"))
    figure, (above, below) = new(2, (4.0, 4.0), sharex=True, gridspec_kw={"height_ratios": [2.2, 1]})
    for field, input_values in shown["fields"].items():
        grid = np.linspace(x[0], x[0] + (x[-1] - x[0]) * len(x) / max(len(x) - 1, 1), len(input_values), endpoint=False)
        above.plot(grid, array(input_values), color=DIM, linewidth=1, linestyle=":", label=f"{field}, input")
    above.plot(x, truth, color=INK, linewidth=2.6, alpha=0.55, label="truth")
    above.plot(x, found, color=COLOURS[1], linewidth=1.3, label="surrogate")
    headroom(above, 0.22)
    above.legend(ncols=3, loc="upper left")
    when = time_label(content).replace("time", f"time {plain_number(shown['times'][0])}", 1)
    above.set(ylabel=with_unit(name, entry["unit"]), title=f"{title_of(shown)}, {when}")
    below.fill_between(x, -width, width, color=COLOURS[1], alpha=BAND, linewidth=0)
    below.plot(x, found - truth, color=COLOURS[1], linewidth=1.3)
    below.axhline(0, color=INK, linewidth=0.8)
    below.set(xlabel=dim, ylabel="difference")
    figure.align_ylabels()
    return figure


def _images(content: dict[str, Any], shown: dict[str, Any], entry: dict[str, Any]) -> Any:
    """Truth, surrogate and difference as images: time against place on a line, a plane at the last time."""
    from ._figures import array, time_label, title_of

    name, dims = entry["name"], entry["dims"]
    truth, found = (array(shown["outputs"][name][key]) for key in ("truth", "surrogate"))
    if len(dims) > 1:
        truth, found = (value[-1].reshape(value[-1].shape[0], -1) for value in (truth, found))
        labels, ends = (dims[1], dims[0]), (shown["coordinates"][dims[1]], shown["coordinates"][dims[0]])
    else:
        labels, ends = (dims[0], time_label(content)), (shown["coordinates"][dims[0]], shown["times"])
    extent = (ends[0][0], ends[0][-1], ends[1][0], ends[1][-1])
    figure, rows = new(3, (4.0, 5.8), sharex=True, sharey=True)
    limits = {"vmin": float(np.nanmin(truth)), "vmax": float(np.nanmax(truth))}
    largest = float(np.nanmax(np.abs(found - truth))) or 1.0
    panels = [(truth, "truth", limits, "cividis"), (found, "surrogate", limits, "cividis")]
    panels.append((found - truth, "difference", {"vmin": -largest, "vmax": largest}, "PuOr"))
    for axes, (values, title, scale, colours) in zip(rows, panels, strict=True):
        image = axes.imshow(
            values, origin="lower", aspect="auto", extent=extent, cmap=colours, interpolation="nearest", **scale
        )
        figure.colorbar(image, ax=axes, label=entry["unit"] or None, pad=0.02)
        axes.set(ylabel=labels[1], title=f"{name}, {title}")
        axes.grid(False)
    rows[-1].set_xlabel(labels[0])
    figure.suptitle(title_of(shown), x=0.02, ha="left", fontsize=10, fontweight="bold", color=INK)
    return figure
