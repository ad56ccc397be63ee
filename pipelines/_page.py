"""A report as one HTML page that needs nothing else: a template, inline figures, no outside references."""

from typing import Any

from ..data import answered_by
from . import _words
from ._palette import to_svg


def page(content: dict[str, Any], *, title: str | None = None, figures: bool = True) -> str:
    """The page's text. Same content, same text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("emulax.pipelines"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "percent", "rate", "seconds", "factor", "listed", "plain_number", "with_unit", "count"):
        environment.filters[name] = getattr(_words, name)
    environment.filters["answered_by"] = answered_by
    return environment.get_template("report.html").render(
        report=content,
        title=title or content["simulator"]["name"].replace("_", " ").capitalize(),
        drawings=_drawings(content) if figures else {},
        units={entry["name"]: entry["unit"] for entry in content["outputs"]},
        example=example(content["parameters"]),
    )


def _drawings(content: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """Figures by section, as SVG."""
    from ._figures import draw

    found: dict[str, list[dict[str, str]]] = {}
    for drawing in draw(content):
        entry = {"name": drawing.name, "caption": drawing.caption, "svg": to_svg(drawing.figure, drawing.name)}
        found.setdefault(drawing.section, []).append(entry)
    return found


def example(parameters: list[dict[str, Any]]) -> str:
    """A member in the middle of the bounds as Python source, where all parameters have some."""
    if not all("lower" in entry and "upper" in entry for entry in parameters):
        return "params"
    middle = {entry["name"]: float(f"{(entry['lower'] + entry['upper']) / 2:.3g}") for entry in parameters}
    return "{" + ", ".join(f'"{name}": {value:g}' for name, value in middle.items()) + "}"
