"""A report: what validation found, as numbers, as text and as a page."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ..data import check_path, write_atomically
from ._text import as_text

FORMAT = "emulax-report"
VERSION = 1
DIGITS = 5  # of arrays, which are drawn


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """What `validate` found. `print` it, or `save` it as a page or as data.

    - `content`: JSON-ready; what is not finite or not defined is `None`. `content["verdict"]` says it in words, and
      `content["definitions"]` says what each number means.
    """

    content: dict[str, Any]

    @staticmethod
    def from_sections(sections: dict[str, Any]) -> "Report":
        """A report from sections that may hold arrays and infinities."""
        return Report({"format": FORMAT, "format_version": VERSION} | plain(sections))

    @staticmethod
    def load(path: str | Path) -> "Report":
        """Read a report saved as `.json`.

        **Raises:** `FileNotFoundError`, or `ValueError` for a file that is no report or of a newer format.
        """
        path = check_path(path, "a report saved as .json")
        if not path.is_file():
            raise FileNotFoundError(f"{path}: expected a report saved as .json, found nothing")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: expected a report saved as .json, found other data ({error})") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"{path}: expected a report written by emulax, found other JSON")
        if content["format_version"] > VERSION:
            raise ValueError(
                f"{path}: format version {content['format_version']} is newer than this emulax reads ({VERSION}); "
                "upgrade emulax"
            )
        return Report(content)

    def save(self, path: str | Path, *, title: str | None = None, figures: bool = True) -> None:
        """Write the report, whole or not at all: `.html`, one page that needs nothing else, or `.json`.

        **Arguments:**

        - `path`: where to.
        - `title`: of the page; by default the simulator's name.
        - `figures`: whether the page holds figures.

        **Raises:** `ValueError` for another ending.
        """
        path = check_path(path, "a report, .html or .json")
        if path.suffix not in (".html", ".json"):
            raise ValueError(f"{path}: expected a file that ends with .html or .json.")
        text = self.html(title=title, figures=figures) if path.suffix == ".html" else self.json()
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))  # type: ignore[arg-type]

    def json(self) -> str:
        """The content as JSON text."""
        return json.dumps(self.content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def html(self, *, title: str | None = None, figures: bool = True) -> str:
        """The report as one self-contained page."""
        from ._page import page

        return page(self.content, title=title, figures=figures)

    def figures(self) -> dict[str, Any]:
        """The page's figures by name, as `matplotlib.figure.Figure`."""
        from ._figures import draw

        return {drawing.name: drawing.figure for drawing in draw(self.content)}

    def __str__(self) -> str:
        return as_text(self.content)


def plain(value: Any) -> Any:
    """JSON-ready: arrays as lists of a few digits, what is not finite as `None`."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(significant(value).tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def significant(values: np.ndarray, digits: int = DIGITS) -> np.ndarray:
    """Rounded to significant digits."""
    if not np.issubdtype(values.dtype, np.floating):
        return values
    values = values.astype(np.float64)
    flat = [float(f"{v:.{digits}g}") for v in values.ravel().tolist()]
    return np.array(flat).reshape(values.shape)
