"""The few numbers of a report that a final table shows."""

from typing import Any

from ._verdict import winner
from ._words import count, factor, percent, rate, seconds


def headline(content: dict[str, Any]) -> dict[str, str]:
    """Label and text of each line, from a report's content."""
    member, stated = content["errors"]["member"], content["calibration"]
    lines = {
        "error": f"median {percent(member['median'])}, 95% below {percent(member['p95'])}, "
        f"worst {percent(member['worst'])}",
        "baselines": ", ".join(
            f"{kind} {percent(entry['member']['median'])}" for kind, entry in content["baselines"].items()
        ),
        "coverage": f"{rate(stated['overall']['share'])} of a stated {stated['level']:.0%} "
        f"({rate(stated['overall']['low'])} to {rate(stated['overall']['high'])})",
    }
    if content["derivatives"] is not None:
        lines["derivatives"] = f"median error {percent(content['derivatives']['median'])}"
    if "speed" in content:
        batch, single = content["speed"]["batch"], content["speed"]["single"]
        lines["equal accuracy"] = (
            f"{_line(single, 'one member')}; {_line(batch, count(content['speed']['members'], 'member'))}"
        )
        lines["own settings"] = (
            f"{_relation(single['ratio_own'])} than the solver's own settings for one member, "
            f"{_relation(batch['ratio_own'])} for all"
        )
    return lines


def _line(mode: dict[str, Any], what: str) -> str:
    if mode["solver"] is None:
        return f"{what}: no cheaper solver as accurate"
    solver = f"{mode['solver']['label']} {seconds(mode['solver']['seconds'])}"
    times = f"surrogate {seconds(mode['surrogate']['seconds'])}, {solver}"
    ratio = max(mode["ratio"], 1 / mode["ratio"])
    who = winner(mode)
    return f"{what}: " + ("equally fast" if who == "nobody" else f"{who} {factor(ratio)} faster") + f" ({times})"


def _relation(ratio: float) -> str:
    return f"{factor(ratio)} faster" if ratio >= 1 else f"{factor(1 / ratio)} slower"
