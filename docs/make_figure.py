"""Draw the README's figure from the main job's files: `python docs/make_figure.py` after `emulax run`."""

import sys
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

from emulax import data, simulators, surrogates

ROOT = Path(__file__).parents[1]
RUN = ROOT / "runs/lynx_hare"
COLOURS = {"hare": "#0072b2", "lynx": "#d55e00"}  # told apart by the colour-blind too

sys.path.insert(0, str(ROOT / "examples"))
from calibrate_lynx_hare import PELTS, REFERENCE  # noqa: E402


def draw(axes, years, answer, points, title):
    """The surrogate as a line with its band, and `points` to compare it with."""
    for name, colour in COLOURS.items():
        value, error = np.asarray(answer.values[name]), np.asarray(answer.error[name])
        axes.fill_between(years, value - error, value + error, color=colour, alpha=0.2, linewidth=0)
        axes.plot(years, value, color=colour, label=f"{name}, surrogate")
        axes.plot(
            years, points[name], "o", color=colour, markersize=4, fillstyle="none", label=f"{name}, {points['what']}"
        )
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xticks([1900, 1905, 1910, 1915, 1920])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center")
    axes.spines[["top", "right"]].set_visible(False)


def main():
    surrogate = surrogates.load(RUN / "surrogate.emx")
    test = data.load_ensemble(RUN / "ensembles/test.h5")
    answers = simulators.solve_ensemble(surrogate, test.design)
    errors = np.max(
        [
            np.linalg.norm(answers.values[name] - test.values[name], axis=1) / np.linalg.norm(test.values[name], axis=1)
            for name in COLOURS
        ],
        axis=0,
    )
    median = int(np.argsort(errors)[len(errors) // 2])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    truth = {name: test.values[name][median] for name in COLOURS} | {"what": "solver"}
    member = jax.tree.map(lambda leaf: np.asarray(leaf)[median], (answers.solution.values, answers.solution.error))
    held_out = data.Solution(test.times, member[0], None, None, None, member[1])
    draw(left, test.times, held_out, truth, f"Held-out member of median error, {errors[median]:.2%}")
    mean = {name: REFERENCE[name][0] for name in surrogate.parameters}
    pelts = {name: np.asarray(PELTS[name]) for name in COLOURS} | {"what": "pelt records"}
    draw(right, test.times, surrogate.solve(mean), pelts, "Posterior mean, and the Hudson Bay records")
    left.set_ylabel("thousand pelts")
    for axes in (left, right):
        axes.set_ylim(top=1.25 * axes.get_ylim()[1])
    path = ROOT / "docs/figures/lynx_hare.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
