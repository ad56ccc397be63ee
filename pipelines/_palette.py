"""How figures look: one size, one style, colours that colour-blind readers tell apart (Okabe & Ito), text as text."""

import io
import re
from typing import Any

INK, DIM, GRID = "#1f2328", "#6b7280", "#e3e6ea"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b")
BAND = 0.18
TRUTH: dict[str, Any] = {"fillstyle": "none", "markersize": 4.5, "markeredgewidth": 1.1}
SIZE = (4.0, 2.9)
FONTS = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"

STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 9.5,
    "axes.edgecolor": DIM,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "xtick.color": DIM,
    "ytick.color": DIM,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.0,
    "image.cmap": "cividis",
    "svg.fonttype": "none",
}


def new(rows: int = 1, size: tuple[float, float] = SIZE, **options: Any) -> tuple[Any, Any]:
    """A figure with its axes, independent of any window system."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, 1, **options)


def to_svg(figure: Any, name: str) -> str:
    """A figure as an inline SVG element: same figure, same text; scales with its container; text in the page's font."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):  # type: ignore[arg-type]
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # groups are named axes_1, text_2, ... in every figure, and a page must not repeat an id
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r"(font: [^;\"]*?px) [^;\"]*", rf"\1 {FONTS}", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.strip()
