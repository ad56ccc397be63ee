"""Which weights to keep, and when to stop."""

import math
from typing import Any


class Watch:
    """Keeps the weights of the least validation loss and stops a training that diverges.

    A loss that is not a finite number never improves; two of them in a row end the training with the status
    `"diverged"`. Without validation members the last finite weights are kept.

    - `params`: the weights kept; those given at first if no loss was ever finite.
    - `status`: `"running"`, `"finished"`, `"diverged"`, or `"failed"` if no weights are worth keeping.
    - `best_step`, `best_loss`: when the kept weights were reached, and their loss.
    - `history`: step, training loss and validation loss by call.
    """

    def __init__(self, params: Any, chooses: bool):
        self.params, self.chooses = params, chooses
        self.status, self.best_step, self.best_loss, self.bad = "running", 0, math.inf, 0
        self.history: dict[str, list[float]] = {"step": [], "training_loss": [], "validation_loss": []}

    @property
    def last(self) -> float:
        """The latest loss that weights are judged by."""
        return self.history["validation_loss" if self.chooses else "training_loss"][-1]

    def update(self, step: int, params: Any, training: float, validation: float) -> None:
        """Take note of the losses after `step` steps."""
        for name, value in zip(self.history, (step, training, validation), strict=True):
            self.history[name].append(value)
        if not math.isfinite(self.last):
            self.bad += 1
            if self.bad == 2:
                self.status = "diverged"
            return
        self.bad = 0
        if not self.chooses or self.last < self.best_loss:
            self.params, self.best_step, self.best_loss = params, step, self.last

    def finish(self) -> None:
        """The end of training: settle the status."""
        if not math.isfinite(self.best_loss):
            self.status = "failed"
        elif self.status == "running":
            self.status = "finished"
