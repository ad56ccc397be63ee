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
        said += _speed(content["speed"])
    said += [("caution", text) for text in _cautions(content)]
    return [{"about": about, "text": text} for about, text in said]


def _accuracy(content: dict[str, Any]) -> str:
    member, judged = content["errors"]["member"], content["members"]["judged"]
    text = (
        f"On {count(judged, 'held-out member')} the median error is {percent(member['median'])}; 95% of the members "
        f"are below {percent(member['p95'])}, and the worst, member {member['worst_member']}, is at "
        f"{percent(member['worst'])}."
    )
    rivals = {kind: entry["member"]["median"] for kind, entry in content["baselines"].items()}
    best = min(rivals, key=lambda kind: rivals[kind], default=None)
    if best is None or not member["median"]:
        return text
    name, ratio = content["baselines"][best]["name"], rivals[best] / member["median"]
    if ratio < NEAR:
        return (
            f"{text} That is no better than {name} ({percent(rivals[best])}): this surrogate has learnt nothing useful."
        )
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
    values = percent(content["errors"]["member"]["median"])
    return (
        f"Derivatives with respect to the parameters are off by {percent(derivatives['median'])} in the median "
        f"(largest for {worst}, {percent(parameters[worst]['median'])}), against {values} for the values."
    )


def _speed(speed: dict[str, Any]) -> Iterator[tuple[str, str]]:
    batch, single, whole = speed["batch"], speed["single"], f"{count(speed['members'], 'member')} at once"
    if batch["solver"] is None or single["solver"] is None:
        yield (
            "speed at equal accuracy",
            "No cheaper setting of the solver that was tried is as accurate as the surrogate.",
        )
    else:
        who = [winner(batch), winner(single)]
        wins = {"solver": "the solver wins", "surrogate": "the surrogate wins", "nobody": "neither wins"}
        first = (
            f"At equal accuracy {wins[who[0]] if who[0] == who[1] else 'it depends on how many members are asked for'}"
        )
        yield (
            "speed at equal accuracy",
            f"{first}. For {whole}, {_compare(batch)}. For one member, {_compare(single)}. {_named(batch, single)}",
        )
    yield (
        "against the solver as it is set",
        f"Compared with the solver's own settings, far more exact, the surrogate is {_relation(batch['ratio_own'])} "
        f"for {whole} and {_relation(single['ratio_own'])} for one.{_repaid(batch)}",
    )


def _named(batch: dict[str, Any], single: dict[str, Any]) -> str:
    names = [f"{mode['solver']['label']}, {mode['solver']['precision']} precision" for mode in (batch, single)]
    if names[0] == names[1]:
        return f"The solver is {names[0]}."
    return f"The solver is {names[0]}, for all and {names[1]}, for one."


def winner(mode: dict[str, Any]) -> str:
    """`"surrogate"`, `"solver"` or `"nobody"`."""
    if mode["ratio"] is None or mode["ratio"] >= NEAR:
        return "surrogate"
    return "solver" if mode["ratio"] <= 1 / NEAR else "nobody"


def _compare(mode: dict[str, Any]) -> str:
    solver, surrogate = seconds(mode["solver"]["seconds"]), seconds(mode["surrogate"]["seconds"])
    who = winner(mode)
    if who == "nobody":
        return f"both take about as long (solver {solver}, surrogate {surrogate})"
    loser = "surrogate" if who == "solver" else "solver"
    ratio = max(mode["ratio"], 1 / mode["ratio"])
    return f"the {who} is {factor(ratio)} faster than the {loser} (solver {solver}, surrogate {surrogate})"


def _relation(ratio: float) -> str:
    return f"{factor(ratio)} faster" if ratio >= 1 else f"{factor(1 / ratio)} slower"


def _repaid(mode: dict[str, Any]) -> str:
    if not mode["break_even_own"]:
        return ""
    own, equal = mode["break_even_own"]["members"], mode["break_even"].get("members")
    if own is None:
        return " It never repays its ensemble and training."
    text = f" It repays its ensemble and training after {own:,} members"
    return text + (f"; at equal accuracy, after {equal:,}." if equal else "; at equal accuracy, never.")


def _cautions(content: dict[str, Any]) -> Iterator[str]:
    members, truth = content["members"], content["truth"]
    if members["excluded"]:
        ids = listed([entry["member"] for entry in members["excluded"]])
        yield (
            f"The solver failed on {len(members['excluded'])} of {count(members['total'], 'held-out member')} ({ids}); "
            "they are left out everywhere."
        )
    if members["blow_ups"]:
        yield (
            f"The surrogate's answer is not finite for {count(len(members['blow_ups']), 'member')} "
            f"({listed(members['blow_ups'])}); these count as infinite errors."
        )
    if members["outside"]:
        lie, them = ("lies", "it") if members["outside"] == 1 else ("lie", "them")
        yield (
            f"{count(members['outside'], 'held-out member')} ({percent(members['outside_share'], 2)}) {lie} outside "
            f"the training domain; a guarded solver would send {them} to the solver."
        )
    if truth["check"] is None:
        yield "The truth was not checked against a more exact solve."
    elif not truth["sufficient"]:
        yield (
            f"The truth is itself off by {percent(truth['check']['median'])} in the median, less than 5 times better "
            "than the surrogate: tighten the solver before judging the surrogate by it."
        )
