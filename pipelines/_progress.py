"""How a run is watched: bars on a terminal, lines elsewhere, or nothing."""

import abc
import sys
import time


class AbstractDisplay(abc.ABC):
    """Shows the steps of a run on standard error, one after the other."""

    @abc.abstractmethod
    def note(self, text: str) -> None:
        """Say something between steps."""

    @abc.abstractmethod
    def start(self, step: str, what: str) -> None:
        """A step begins; `what` is its amount of work in words."""

    @abc.abstractmethod
    def update(self, done: int, total: int, figures: str) -> None:
        """The running step has done `done` of `total`; `figures` are its latest numbers."""

    @abc.abstractmethod
    def finish(self, seconds: float) -> None:
        """The running step is done."""

    @abc.abstractmethod
    def close(self) -> None:
        """The run is over, whether it went well or not."""


class SilentDisplay(AbstractDisplay):
    """Says nothing."""

    def note(self, text):
        pass

    def start(self, step, what):
        pass

    def update(self, done, total, figures):
        pass

    def finish(self, seconds):
        pass

    def close(self):
        pass


class PlainDisplay(AbstractDisplay):
    """A line when a step begins and ends, and at most one every `interval` seconds in between."""

    def __init__(self, interval: float = 10.0):
        self.interval = interval
        self.step, self.figures, self.last = "", "", 0.0

    def note(self, text):
        print(text, file=sys.stderr, flush=True)

    def start(self, step, what):
        self.step, self.figures, self.last = step, "", time.monotonic()
        self.note(f"{step}: {what}")

    def update(self, done, total, figures):
        self.figures = figures
        if time.monotonic() - self.last >= self.interval:
            self.last = time.monotonic()
            self.note(f"{self.step}: {done} of {total}" + (f", {figures}" if figures else ""))

    def finish(self, seconds):
        self.note(f"{self.step}: done in {seconds:.1f} s" + (f", {self.figures}" if self.figures else ""))

    def close(self):
        pass


class TerminalDisplay(AbstractDisplay):
    """A bar for each step, with its latest numbers."""

    def __init__(self):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self.progress = Progress(
            TextColumn("{task.description:<21}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[figures]}"),
            console=Console(stderr=True, highlight=False),
        )
        self.task = TaskID(0)

    def note(self, text):
        self.progress.console.print(text, markup=False)

    def start(self, step, what):
        self.task = self.progress.add_task(step, total=None, figures=what)
        self.progress.start()

    def update(self, done, total, figures):
        self.progress.update(self.task, completed=done, total=total, figures=figures)

    def finish(self, seconds):
        self.progress.update(self.task, completed=1, total=1)
        self.progress.stop_task(self.task)

    def close(self):
        self.progress.stop()


def pick_display(quiet: bool) -> AbstractDisplay:
    """The display that suits where standard error goes."""
    if quiet:
        return SilentDisplay()
    return TerminalDisplay() if sys.stderr.isatty() else PlainDisplay()
