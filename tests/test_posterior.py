"""The downstream job in short: the lynx-hare posterior through the guarded surrogate, against posteriordb's reference.

Two minutes, so it is marked slow. `validation/lynx_hare_posterior.py` is the long version, with the solver and a
fixed-step solver beside it.
"""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from emulax import data, pipelines, simulators, surrogates

pytest.importorskip("numpyro")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_guarded_surrogate_finds_the_reference_posterior():
    import calibrate_lynx_hare as example

    model = simulators.LotkaVolterra()
    ensemble = simulators.solve_ensemble(model, data.sample(model.parameters, 2048))
    network = surrogates.MLP(width=128, depth=3, residual=True)
    surrogate = surrogates.fit(network, ensemble, seed=0, steps=10_000, transform="log")
    guarded = pipelines.guard(model, surrogate, tolerance=0.1, risk=0.1)
    with jax.enable_x64(True):
        result = example.calibrate(guarded, warmup=400, samples=1000, seed=1)
    off = example.compare(result["draws"])
    assert max(abs(value) for value in off.values()) < 0.2, off
    for name, (_, std) in example.REFERENCE.items():
        assert np.std(result["draws"][name]) == pytest.approx(std, rel=0.25)
    means = {name: result["draws"][name].mean() for name in example.PRIOR}
    assert str(guarded.solve(means).source) == "surrogate"
