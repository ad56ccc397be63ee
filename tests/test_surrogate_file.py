"""The surrogate file: what is read back is what was written, and nothing else is read."""

import io
import json
import zipfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from formula import exponential, members

from emulax import data, surrogates


@pytest.fixture(scope="module")
def surrogate():
    return surrogates.fit(surrogates.MLP(16, 2, residual=True), members(exponential(), 200), steps=50)


@pytest.fixture
def path(surrogate, tmp_path):
    surrogate.save(tmp_path / "model.emx")
    return tmp_path / "model.emx"


@pytest.mark.parametrize("wide", [True, False])
def test_a_surrogate_read_back_gives_the_same_bits(surrogate, path, wide):
    again = surrogates.load(path)
    with jax.enable_x64(wide):
        for k in (0.1, 0.5, 2.0, np.nan):
            one, other = surrogate.solve({"k": k}), again.solve({"k": k})
            for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
                assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
            assert surrogate.inside({"k": k}) == again.inside({"k": k})
            for a, b in zip(*(jax.tree.leaves(s.baselines.predict({"k": k})) for s in (surrogate, again)), strict=True):
                assert np.array_equal(a, b, equal_nan=True)


def test_everything_that_describes_a_surrogate_is_read_back(surrogate, path):
    again = surrogates.load(path)
    assert again.provenance == json.loads(json.dumps(surrogate.provenance))
    assert again.parameters == surrogate.parameters and again.outputs == surrogate.outputs
    assert again.parameters["k"].unit == "1/s" and again.times.tolist() == [1.0, 2.0]
    for name in ("scores", "errors", "reference_features", "reference_errors"):
        assert np.array_equal(getattr(again.calibration, name), getattr(surrogate.calibration, name))
    for name in ("level", "farthest", "given", "members", "failed"):
        assert getattr(again.calibration, name) == getattr(surrogate.calibration, name)
    assert again.normaliser.parameters == ("k",) and again.normaliser.names == ("y",)
    assert repr(again) == repr(surrogate)


def test_the_file_names_what_it_holds(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        model = json.loads(archive.read("model.json"))
        arrays = {e["file"]: np.load(io.BytesIO(archive.read(e["file"])), allow_pickle=False) for e in model["arrays"]}
        assert set(arrays) | {"model.json"} == set(archive.namelist())
    assert (model["format"], model["format_version"]) == ("emulax-surrogate", 1)
    record = model["provenance"]
    assert record["architecture"] == {"name": "MLP", "width": 16, "depth": 2, "activation": "silu", "residual": True}
    assert record["simulator"] == "formula" and len(record["fingerprint"]) == 64
    assert {"emulax", "jax", "equinox", "optax", "python"} <= set(record["versions"])
    assert model["layout"]["parameters"][0]["name"] == "k" and model["layout"]["times"] == [1.0, 2.0]
    assert all(len(entry["sha256"]) == 64 for entry in model["arrays"])


def test_equal_surrogates_make_equal_files(surrogate, path, tmp_path):
    surrogates.load(path).save(tmp_path / "again.emx")
    assert (tmp_path / "again.emx").read_bytes() == path.read_bytes()


def test_one_flipped_byte_anywhere_is_refused_in_one_line(path):
    content = path.read_bytes()
    for place in [*range(0, len(content), max(1, len(content) // 150)), *range(len(content) - 100, len(content))]:
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged or incomplete|another kind of file") as caught:
            surrogates.load(path)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_cut_file_is_refused(path, part):
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(ValueError, match=r"damaged or incomplete|another kind of file"):
        surrogates.load(path)


def test_a_missing_or_foreign_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a surrogate file"):
        surrogates.load(tmp_path / "none.emx")
    (tmp_path / "text.emx").write_text("not a surrogate")
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))  # a zip archive, and a whole one
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    for name in ("text.emx", "arrays.npz", "empty.zip"):
        with pytest.raises(ValueError, match=f"{name}: expected a surrogate file .* got another kind of file"):
            surrogates.load(tmp_path / name)
    with pytest.raises(ValueError, match=r"expected a surrogate file .* found a folder"):
        surrogates.load(tmp_path)
    for nothing in (None, 5, surrogates.MLP()):
        with pytest.raises(ValueError, match=r"path: expected the path of a surrogate file \(.emx\), got"):
            surrogates.load(nothing)


def test_a_newer_format_is_refused(surrogate, path, monkeypatch):
    monkeypatch.setattr("emulax.surrogates._file.VERSION", 2)
    surrogate.save(path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format version 2 is newer than this emulax reads"):
        surrogates.load(path)


def test_a_failed_write_leaves_the_old_file(surrogate, path, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        surrogate.save(path)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


class Constant(surrogates.AbstractArchitecture):
    """One number for each output and time, and a list of weights; a user's own architecture."""

    start: float = 0.0

    def build(self, layout, *, key):
        return Numbers([jnp.full(layout.output_shape, self.start), jnp.zeros(())])


class Numbers(eqx.Module):
    weights: list[jax.Array]

    def __call__(self, inputs):
        return self.weights[0] + self.weights[1] * inputs["k"]


def test_a_users_architecture_is_read_back_once_it_is_known(tmp_path, monkeypatch):
    surrogate = surrogates.fit(Constant(0.25), members(exponential(), 200), steps=20)
    surrogate.save(tmp_path / "own.emx")
    with pytest.raises(ValueError, match=r"architecture among FNO, MLP, got 'Constant'; put its class into"):
        surrogates.load(tmp_path / "own.emx")
    monkeypatch.setitem(surrogates.ARCHITECTURES, "Constant", Constant)
    again = surrogates.load(tmp_path / "own.emx")
    assert again.solve({"k": 0.3}).values["y"].tolist() == surrogate.solve({"k": 0.3}).values["y"].tolist()


def test_a_space_with_infinite_bounds_and_a_small_set_survive_the_file(tmp_path):
    from formula import Formula

    space = data.ParameterSpace(b=data.Normal(0.0, 1.0, lower=-3.0), a=data.LogNormal(0.0, 0.5))
    formula = Formula(lambda p, t: {"y": p["a"] + p["b"] * t, "x": p["b"] * t}, space, np.arange(3.0), ("y", "x"))
    with pytest.warns(UserWarning, match="too few|is constant"):
        surrogate = surrogates.fit(surrogates.MLP(8, 1), members(formula, 30), steps=20)
    surrogate.save(tmp_path / "model.emx")
    again = surrogates.load(tmp_path / "model.emx")
    assert again.parameters == space and list(again.outputs) == ["y", "x"]
    point = {"a": jnp.asarray(1.0), "b": jnp.asarray(0.5)}
    for a, b in zip(jax.tree.leaves(surrogate.solve(point)), jax.tree.leaves(again.solve(point)), strict=True):
        assert np.array_equal(a, b, equal_nan=True)
