"""What a report says first, in words."""

from collections.abc import Iterator
from typing import Any

from ._words import count, factor, listed, percent, rate, seconds

NEAR = 1.1  # faster by less than this is no win


def verdict(content: dict[str, Any]) -> list[dict[str, str]]:
    """Sentences about accuracy, stated error, derivatives and speed, and cautions; JSON-ready."""
    said = [("accuracy", _accuracy(content)), ("stated error", _stated(content["calibration"]))]
    if content["derivatives"] is not None:
        said.append(("derivatives", _derivatives(content)))
    if "speed" in content:
        said.append(("speed", _speed(content["speed"])))
    said += [("caution", text) for text in _cautions(content)]
    return [{"about": about, "text": text} for about, text in said]


def _accuracy(content: dict[str, Any]) -> str:
    member, judged = content["errors"]["member"], content["members"]["judged"]
    text = (
        f"On {count(judged, 'held-out member')} the median error is {percent(member['median'])}; 95 % of the members are "
        f"below {percent(member['p95'])}, and the worst, member {member['worst_member']}, is at {percent(member['worst'])}."
    )
    rivals = {kind: entry["member"]["median"] for kind, entry in content["baselines"].items()}
    best = min(rivals, key=lambda kind: rivals[kind], default=None)
    if best is None or not member["median"]:
        return text
    name, ratio = content["baselines"][best]["name"], rivals[best] / member["median"]
    if ratio < NEAR:
        return f"{text} That is no better than {name} ({percent(rivals[best])}): this surrogate has learnt nothing useful."
    return f"{text} The better baseline, {name}, has {percent(rivals[best])}: {factor(ratio)} as much."


def _stated(calibration: dict[str, Any]) -> str:
    found, level = calibration["overall"], calibration["level"]
    if all(width is None for width in calibration["half_width"].values()):
        return "The stated band is infinite: there were too few calibration members to state an error."
    if level < found["low"]:
        word = "it is wider than it need be"
    elif level > found["high"]:
        word = "it is too narrow: do not rely on it"
    else:
        word = "it keeps its word"
    return (
        f"The stated {level:.0%} band holds {rate(found['share'])} of the true values "
        f"({calibration['confidence']:.0%} interval {rate(found['low'])} to {rate(found['high'])}): {word}."
    )


def _derivatives(content: dict[str, Any]) -> str:
    derivatives = content["derivatives"]
    parameters = derivatives["parameters"]
    worst = max(parameters, key=lambda name: parameters[name]["median"])
    return (
        f"Derivatives with respect to the parameters are off by {percent(derivatives['median'])} in the median "
        f"(largest for {worst}, {percent(parameters[worst]['median'])}), against {percent(content['errors']['member']['median'])} "
        "for the values."
    )


def _speed(speed: dict[str, Any]) -> str:
    batch, single = speed["batch"], speed["single"]
    whole = f"{count(speed['members'], 'member')} at once"
    if batch["solver"] is None or single["solver"] is None:
        return (
            "No setting of the solver that was tried is as accurate as the surrogate and cheaper than the solver's own. "
            f"The surrogate answers {whole} in {seconds(batch['surrogate']['seconds'])}, the solver with its own settings in "
            f"{seconds(batch['own']['seconds'])}."
        )
    parts = [_compare(batch, f"for {whole}"), _compare(single, "for one member")]
    winners = {winner(batch), winner(single)}
    end = {
        frozenset({"solver"}): "The solver wins: use it, unless the surrogate replaces something slower than this.",
        frozenset({"surrogate"}): "The surrogate wins.",
    }.get(frozenset(winners), "Neither wins everywhere.")
    return (
        f"At equal accuracy, {parts[0]}, and {parts[1]}. {end} Against the solver with its own settings, far more exact, the "
        f"surrogate is {_relation(batch['ratio_own'])} for {whole} and {_relation(single['ratio_own'])} for one."
        + _repaid(batch)
    )


def winner(mode: dict[str, Any]) -> str:
    """`"surrogate"`, `"solver"` or `"nobody"`."""
    if mode["ratio"] is None or mode["ratio"] >= NEAR:
        return "surrogate"
    return "solver" if mode["ratio"] <= 1 / NEAR else "nobody"


def _compare(mode: dict[str, Any], what: str) -> str:
    solver = mode["solver"]
    name = f"{solver['label']} in {solver['precision']} precision"
    times = f"{seconds(solver['seconds'])} against {seconds(mode['surrogate']['seconds'])}"
    if winner(mode) == "solver":
        return f"the solver ({name}) is {factor(1 / mode['ratio'])} faster than the surrogate {what} ({times})"
    if winner(mode) == "surrogate":
        return f"the surrogate is {factor(mode['ratio'])} faster than the solver ({name}) {what} ({times})"
    return f"the surrogate and the solver ({name}) are equally fast {what} ({times})"


def _relation(ratio: float) -> str:
    return f"{factor(ratio)} faster" if ratio >= 1 else f"{factor(1 / ratio)} slower"


def _repaid(mode: dict[str, Any]) -> str:
    if not mode["break_even"]:
        return ""
    members, own = mode["break_even"]["members"], mode["break_even_own"]["members"]
    text = f" It repays its ensemble and training after {members:,} members solved at equal accuracy" if members else ""
    if not members:
        text = " At equal accuracy it never repays its ensemble and training"
    return text + (f"; against the solver's own settings after {own:,}." if own else "; nor against its own settings.")


def _cautions(content: dict[str, Any]) -> Iterator[str]:
    members, truth = content["members"], content["truth"]
    if members["excluded"]:
        ids = listed([entry["member"] for entry in members["excluded"]])
        yield (
            f"The solver failed on {len(members['excluded'])} of {count(members['total'], 'held-out member')} ({ids}); they "
            "are left out everywhere."
        )
    if members["blow_ups"]:
        yield (
            f"The surrogate's answer is not finite for {count(len(members['blow_ups']), 'member')} "
            f"({listed(members['blow_ups'])}); these count as infinite errors."
        )
    if members["outside"]:
        yield (
            f"{count(members['outside'], 'held-out member')} ({percent(members['outside_share'], 2)}) lie outside the "
            "training domain; a guarded solver would send them to the solver."
        )
    if truth["check"] is None:
        yield "The truth was not checked against a more exact solve."
    elif not truth["sufficient"]:
        yield (
            f"The truth is itself off by {percent(truth['check']['median'])} in the median, less than 5 times better than the "
            "surrogate: tighten the solver before judging the surrogate by it."
        )
