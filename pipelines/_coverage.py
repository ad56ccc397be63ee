"""Does the stated error keep its word? Coverage of the band and worth of the estimate, on held-out members."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
CONFIDENCE = 0.95
MULTIPLES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)


def clopper_pearson(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Exact binomial confidence interval for a share.

    Reference: Clopper & Pearson, Biometrika 26 (1934) 404, doi:10.1093/biomet/26.4.404.
    """
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.ppf(1 - tail, successes + 1, trials - successes))
    return low, high


def share(covered: np.ndarray) -> dict[str, Any]:
    """The share of values inside, `covered` being `(member, ...)`, with its confidence interval.

    Values of one member are not independent: the interval is that of as many trials as there are members, which is
    never too short.
    """
    members = len(covered)
    found = float(np.mean(covered))
    low, high = clopper_pearson(round(found * members), members)
    return {"share": found, "low": low, "high": high}


def coverage(prediction: Arrays, half_width: Arrays, truth: Arrays, level: float) -> dict[str, Any]:
    """How often the band holds the truth, arrays `(member, time, *space)` by output; a NaN is outside.

    **Returns:** JSON-ready: overall, by output, by output and time, for whole members, and for multiples of the band.
    """
    ratio = {name: _ratio(prediction[name], half_width[name], truth[name]) for name in truth}
    inside = {name: value <= 1 for name, value in ratio.items()}
    flat = {name: value.reshape(len(value), -1) for name, value in ratio.items()}
    pooled = np.concatenate(list(flat.values()), axis=1)
    return {
        "level": level,
        "confidence": CONFIDENCE,
        "overall": share(pooled <= 1),
        "members": share(np.all(pooled <= 1, axis=1)),
        "outputs": {name: share(value) for name, value in inside.items()},
        "times": {name: [share(value[:, i]) for i in range(value.shape[1])] for name, value in inside.items()},
        "half_width": {name: _median_finite(value) for name, value in half_width.items()},
        "multiples": list(MULTIPLES),
        "curve": {name: [float(np.mean(value <= multiple)) for multiple in MULTIPLES] for name, value in flat.items()},
    }


def _ratio(prediction: np.ndarray, half_width: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """|difference| / half-width; infinite where something is not a number, and 0 where nothing is off."""
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.abs(np.asarray(prediction, np.float64) - truth)
        ratio = difference / half_width
    ratio = np.where(difference == 0, 0.0, ratio)
    return np.where(np.isnan(ratio), np.inf, ratio)


def _median_finite(values: np.ndarray) -> float | None:
    finite = np.isfinite(values)
    return float(np.median(values[finite])) if finite.any() else None


def estimate_worth(bound: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """What the estimated relative error of each member says about its true one, both `(member,)`."""
    from scipy.stats import spearmanr

    kept = np.isfinite(bound) & np.isfinite(errors) & (bound > 0) & (errors > 0)
    if kept.sum() < 3 or np.ptp(bound[kept]) == 0:
        return {"members": int(kept.sum()), "rank_correlation": None, "ratio_median": None, "ratio_p95": None}
    ratio = errors[kept] / bound[kept]
    return {
        "members": int(kept.sum()),
        "rank_correlation": float(spearmanr(bound[kept], errors[kept])[0]),  # type: ignore[arg-type]
        "ratio_median": float(np.median(ratio)),
        "ratio_p95": float(np.quantile(ratio, 0.95)),
    }
