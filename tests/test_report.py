"""Validation and its report: numbers recomputed from the closed form, pages that stand alone, words for failures."""

import html.parser
import json
import re

import jax
import numpy as np
import pytest

from emulax import data, pipelines, simulators, surrogates
from emulax.pipelines import _figures, _verdict
from emulax.pipelines._grids import grid_errors
from emulax.pipelines._headline import headline
from emulax.pipelines._palette import to_svg
from emulax.pipelines._validate import _check

DECAY = simulators.Decay(times=np.linspace(0.0, 2.0, 6))
DESIGN = data.sample(DECAY.parameters, 64, method="random", seed=5)
FAILED = {17: np.nan, 40: np.inf}


def held_out() -> dict[str, np.ndarray]:
    """64 members, two of which cannot be solved."""
    k = np.array(DESIGN["k"])
    for member, value in FAILED.items():
        k[member] = value
    return {"y0": DESIGN["y0"], "k": k}


@pytest.fixture(scope="module")
def surrogate():
    def solve(seed, members):
        return simulators.solve_ensemble(DECAY, data.sample(DECAY.parameters, members, method="random", seed=seed))

    network = surrogates.MLP(width=16, depth=2)
    return surrogates.fit(network, solve(0, 256), seed=0, steps=400, calibration=solve(1, 128))


@pytest.fixture(scope="module")
def report(surrogate):
    return pipelines.validate(surrogate, DECAY, held_out(), speed=False)


@pytest.fixture(scope="module")
def kept():
    """The members that can be solved, their exact solutions, and their parameters."""
    members = np.array([m for m in range(64) if m not in FAILED])
    p = {name: value[members] for name, value in held_out().items()}
    return members, p["y0"][:, None] * np.exp(-p["k"][:, None] * DECAY.times), p


def test_errors_are_those_of_the_closed_form(report, surrogate, kept):
    members, exact, p = kept
    answer = simulators.solve_ensemble(surrogate, p)
    # y(0) = y0 is a parameter: the first time is given and does not count
    difference = np.asarray(answer.values["y"])[:, 1:] - exact[:, 1:]
    errors = np.linalg.norm(difference, axis=1) / np.linalg.norm(exact[:, 1:], axis=1)
    found = report.content["errors"]["member"]
    assert found["median"] == pytest.approx(np.median(errors), rel=1e-4)
    assert found["p95"] == pytest.approx(np.quantile(errors, 0.95), rel=1e-4)
    assert found["worst"] == pytest.approx(errors.max(), rel=1e-4)
    assert found["worst_member"] == members[np.argmax(errors)]
    assert report.content["errors"]["outputs"]["y"]["rmse"] == pytest.approx(np.sqrt(np.mean(difference**2)), rel=1e-4)
    assert report.content["members"]["given_times"] == [0.0]
    width = np.asarray(answer.solution.error["y"])[:62, 1:]
    inside = np.mean(np.abs(difference) <= width)
    assert report.content["calibration"]["overall"]["share"] == pytest.approx(inside, abs=2e-3)


def test_members_without_truth_are_left_out_by_one_mask_and_listed(report):
    members = report.content["members"]
    assert (members["total"], members["judged"]) == (64, 62)
    assert [(entry["member"], entry["status"]) for entry in members["excluded"]] == [
        (17, "bad_parameter"), (40, "bad_parameter"),
    ]  # fmt: skip
    assert len(report.content["scatter"]["error"]) == 62
    assert "The solver failed on 2 of 64 held-out members (17, 40)" in str(report)


def test_the_mean_predictor_is_the_mean(report, kept):
    _, exact, _ = kept
    training = data.sample(DECAY.parameters, 256, method="random", seed=0)
    assert report.content["baselines"]["mean"]["member"]["median"] > 0.1
    # least squares in (k, log y0) is far better than the mean, and worse than a network
    errors = {kind: entry["member"]["median"] for kind, entry in report.content["baselines"].items()}
    assert report.content["errors"]["member"]["median"] < errors["linear"] < errors["mean"]
    # within the sampling error of a training part of 256 members
    mean = np.mean(training["y0"][:, None] * np.exp(-training["k"][:, None] * DECAY.times), axis=0)
    expected = np.linalg.norm(mean[1:] - exact[:, 1:], axis=1) / np.linalg.norm(exact[:, 1:], axis=1)
    assert errors["mean"] == pytest.approx(np.median(expected), rel=0.05)


def test_derivatives_are_compared_with_the_closed_form(report, surrogate, kept):
    _, _, p = kept
    derivative = jax.jit(jax.vmap(jax.jacfwd(lambda k, y0: surrogate.solve({"k": k, "y0": y0}).values["y"])))
    with jax.enable_x64(True):
        found = np.asarray(derivative(p["k"][:8], p["y0"][:8]))[:, 1:]
    exact = (-DECAY.times * p["y0"][:8, None] * np.exp(-p["k"][:8, None] * DECAY.times))[:, 1:]
    errors = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
    entry = report.content["derivatives"]["parameters"]["k"]
    assert entry["median"] == pytest.approx(np.median(errors), rel=1e-3)
    assert entry["worst"] == pytest.approx(errors.max(), rel=1e-3)


def test_the_truth_is_checked_against_a_tighter_solve(report):
    truth = report.content["truth"]
    assert truth["check"]["numerics"]["rtol"] == pytest.approx(1e-8) and truth["sufficient"] is True
    assert 0 < truth["check"]["worst"] < 1e-5


def test_the_same_members_give_the_same_bytes_as_a_design_or_an_ensemble(report, surrogate):
    ensemble = simulators.solve_ensemble(DECAY, held_out())
    again = pipelines.validate(surrogate, DECAY, ensemble, speed=False, level=0.9)
    assert again.json() == report.json()
    assert again.html() == report.html()


def test_data_round_trip_and_are_strict_json(report, tmp_path):
    report.save(tmp_path / "report.json")
    text = (tmp_path / "report.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert pipelines.Report.load(tmp_path / "report.json").content == report.content


class Page(html.parser.HTMLParser):
    """Collects ids, references and the nesting of a page."""

    empty = ("meta", "br", "img", "path", "use", "rect", "line", "circle", "image", "link")

    def __init__(self, text):
        super().__init__()
        self.ids, self.references, self.open, self.tags = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.empty:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href", "srcset", "action"):
                self.references.append(value)

    def handle_endtag(self, tag):
        if tag not in self.empty:
            assert self.open.pop() == tag


def test_the_page_stands_alone(report, tmp_path):
    report.save(tmp_path / "report.html", title="Decay & <more>")
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    assert page.open == [] and page.tags.count("h1") == 1 and page.tags.count("figure") == 8
    assert len(page.ids) == len(set(page.ids))
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    assert not re.search(r"<script|@import|url\((?!#)", text)
    assert "Decay &amp; &lt;more&gt;" in text
    for said in ("mol/m3", "Clopper", "bad_parameter", "surrogates.load", "numpy"):
        assert said in text
    for name in report.content["definitions"]:
        assert f"<dt>{name}</dt>" in text
    assert text.index(report.content["verdict"][0]["text"].split(";")[0]) < text.index("<figure")
    bare = Page(report.html(figures=False))
    assert bare.tags.count("figure") == 0 and bare.open == []


def test_the_text_fits_a_terminal_and_starts_with_the_verdict(report):
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 115
    assert lines[1].startswith("  - On 62 held-out members the median error is")
    assert headline(report.content)["error"].startswith("median ")
    assert headline(report.content)["coverage"].split("%")[0].replace(".", "").isdigit()


def test_other_endings_are_refused(report, tmp_path):
    with pytest.raises(ValueError, match=r"report\.pdf: expected a file that ends with \.html or \.json"):
        report.save(tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "expected a report saved as .json, found other data"),
        ("[]", "expected a report written by emulax"),
        ('{"format": "emulax-report", "format_version": 99}', "format version 99 is newer"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, text, message):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        pipelines.Report.load(tmp_path / "r.json")
    with pytest.raises(FileNotFoundError, match="found nothing"):
        pipelines.Report.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"path: expected the path of a report saved as \.json, got None"):
        pipelines.Report.load(None)


def test_requests_that_cannot_be_meant_are_refused(surrogate):
    other = simulators.ODESimulator(
        lambda t, y, p: -2 * p["k"] * y,
        DECAY.initial_state,
        DECAY.parameters,
        DECAY.times,
        outputs={"y": data.Output("mol/m3")},
    )
    with pytest.raises(ValueError, match="their equations, parameters or outputs differ"):
        pipelines.validate(surrogate, other, held_out())
    with pytest.raises(ValueError, match=r"states a 90% band, not one of 50%; surrogates\.calibrate"):
        pipelines.validate(surrogate, DECAY, held_out(), level=0.5)
    for options, message in (
        (dict(level="high"), "level: expected a coverage above 0 and below 1, got 'high'"),
        (dict(precision="half"), "precision: expected 'double' or 'single', got 'half'"),
        (dict(threshold=None), "threshold: expected an error above 0, got None"),
        (dict(seconds={"train": 1.0}), "seconds: expected .* got dict object"),
        (dict(progress="bar"), "progress: expected a function"),
    ):
        with pytest.raises(ValueError, match=message):
            pipelines.validate(surrogate, DECAY, held_out(), **options)
    with pytest.raises(ValueError, match=r"design: expected a mapping .* got ndarray of shape \(2, 2\)"):
        pipelines.validate(surrogate, DECAY, np.ones((2, 2)))
    lost = simulators.solve_ensemble(DECAY, {"k": [np.nan] * 2, "y0": [1.0] * 2})
    with pytest.raises(ValueError, match=r"none of the 2 held-out members finished \(bad_parameter\)"):
        pipelines.validate(surrogate, DECAY, lost)
    wrong = simulators.solve_ensemble(DECAY, {"k": [0.5], "y0": [1.0]}, times=[0.0, 1.0])
    with pytest.raises(ValueError, match="at the surrogate's 6 times, got 2 others"):
        pipelines.validate(surrogate, DECAY, wrong)


def test_the_training_members_are_no_held_out_members(surrogate):
    same = data.sample(DECAY.parameters, 16, method="random", seed=0)
    with pytest.warns(UserWarning, match="no held-out members; use another seed"):
        _check(surrogate, DECAY, same, None)


def test_what_went_wrong_is_said(report):
    content = json.loads(report.json())
    content["errors"]["member"]["median"] = 2 * content["baselines"]["linear"]["member"]["median"]
    content["calibration"]["overall"] = {"share": 0.7, "low": 0.6, "high": 0.8}
    content["members"] |= {"blow_ups": [3], "outside": 2, "outside_share": 0.03}
    content["truth"]["sufficient"] = False
    said = " ".join(entry["text"] for entry in _verdict.verdict(content))
    for part in (
        "this surrogate has learnt nothing useful",
        "it is too narrow: do not rely on it",
        "not finite for 1 member (3)",
        "2 held-out members (3.0%) lie outside",
        "tighten the solver before judging",
    ):
        assert part in said


@pytest.fixture(scope="module")
def smooth():
    """Burgers on 48 points with fields of 8 modes, which 24 points resolve, and a small operator trained on it."""
    field = data.GaussianRandomField(points=48, modes=8)
    simulator = simulators.Burgers(data.ParameterSpace(u0=field), nu=0.1, times=(0.2,), points=48, solve_points=48)

    def solve(seed, members):
        return simulators.solve_ensemble(
            simulator, data.sample(simulator.parameters, members, method="random", seed=seed), devices=1
        )

    network = surrogates.FNO(width=8, modes=6, depth=2)
    return simulator, surrogates.fit(network, solve(0, 64), steps=100, batch_size=8, calibration=solve(1, 16))


def test_an_operator_is_judged_on_other_grids(smooth):
    simulator, surrogate = smooth
    design = data.sample(simulator.parameters, 16, method="random", seed=2)
    report = pipelines.validate(surrogate, simulator, design, speed=False)
    grids = report.content["grids"]
    assert (grids["trained"], grids["members"]) == (48, 16)
    assert [entry["points"] for entry in grids["entries"]] == [24, 48, 96]
    for entry in grids["entries"]:
        # the same functions, drawn on that grid, and the solver's answers there
        u0 = simulator.parameters["u0"].draw(2, np.arange(16), points=entry["points"])
        exact = simulators.solve_ensemble(simulator.replace(points=entry["points"]), {"u0": u0}).values["u"][:, 0]
        found = np.asarray(jax.vmap(lambda u: surrogate.solve({"u0": u}).values["u"])(u0))[:, 0]
        errors = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
        assert entry["median"] == pytest.approx(np.median(errors), rel=1e-3)
        assert entry["mean"] == pytest.approx(np.mean(errors), rel=1e-3)
        assert entry["worst"] == pytest.approx(errors.max(), rel=1e-3)
    assert grids["entries"][1]["median"] == pytest.approx(report.content["errors"]["member"]["median"], rel=1e-3)
    assert "Does it hold on other grids?" in report.html(figures=False)
    assert "96 points" in str(report)


def test_what_knows_one_grid_only_is_judged_on_that(report, smooth):
    assert report.content["grids"] is None
    assert "other grids" not in report.html(figures=False) + str(report)
    simulator, _ = smooth
    design = data.sample(simulator.parameters, 40, method="random", seed=3)
    ensemble = simulators.solve_ensemble(simulator, design, devices=1)
    perceptron = surrogates.fit(surrogates.MLP(8, 1), ensemble, steps=5, calibration=ensemble)
    found = {"u0": design["u0"]}
    assert grid_errors(perceptron, simulator, found, {"u": ensemble.values["u"]}, 0, "double") is None


def test_a_report_says_who_solved_the_held_out_members(report):
    truth = report.content["truth"] | {"solvers": {"Tsit5": 1200, "Rodas5P": 9}, "retried": {"Rodas5P": 9}}
    page = pipelines.Report(report.content | {"truth": truth}).html(figures=False)
    assert "<dt>solved by</dt><dd>1,200 Tsit5, 9 Rodas5P (9 retried)</dd>" in page


def test_a_report_of_an_older_version_has_no_such_sections(report):
    content = {key: value for key, value in report.content.items() if key != "grids"}
    content["truth"] = {key: value for key, value in content["truth"].items() if key not in ("solvers", "retried")}
    page = pipelines.Report(content).html(figures=False)
    assert "other grids" not in page and "solved by" not in page


def fields(report, dims: int, times: int) -> dict:
    """A report's content turned into one on fields, with a wave as truth."""
    content = json.loads(report.json())
    x = np.linspace(0, 1, 12, endpoint=False)
    truth = np.sin(2 * np.pi * (x + np.arange(times)[:, None] / 10))
    truth = truth if dims == 1 else truth[:, :, None] * np.cos(2 * np.pi * x)
    values = {"truth": truth, "surrogate": truth + 0.01, "half_width": 0 * truth + 0.02}
    content["outputs"] = [{"name": "y", "unit": "K", "dims": ["x", "z"][:dims]}]
    content["times"] = content["times"][:times]
    for shown in content["shown"]:
        shown["fields"] = {"u0": np.sin(2 * np.pi * np.arange(20) / 20).tolist()}
        shown["times"] = content["times"]
        shown["coordinates"] = {"x": x.tolist(), "z": x.tolist()}
        shown["outputs"]["y"] = {name: value.tolist() for name, value in values.items()}
    return content


@pytest.mark.parametrize(("dims", "times", "axes"), [(1, 1, 2), (1, 4, 6), (2, 1, 6)])
def test_fields_are_drawn(report, dims, times, axes):
    drawings = [drawing for drawing in _figures.draw(fields(report, dims, times)) if drawing.section == "members"]
    assert [drawing.name for drawing in drawings] == ["best member, y", "median member, y", "worst member, y"]
    assert len(drawings[0].figure.axes) == axes  # images bring a colour bar each
    if dims == 1 and times == 1:
        assert [line.get_label() for line in drawings[0].figure.axes[0].lines] == ["u0, input", "truth", "surrogate"]
    svg = to_svg(drawings[0].figure, "field")
    assert svg.startswith("<svg") and "<text" in svg
