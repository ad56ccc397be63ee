"""Ensemble files: round trips against the ensemble in memory, other readers, damage, units and metadata."""

import dataclasses
import json
import shutil
import subprocess

import h5py
import numpy as np
import pytest
import xarray

from emulax import data, simulators

DECAY = simulators.Decay()


@pytest.fixture
def ensemble():
    design = data.sample(DECAY.parameters, 6)
    return simulators.solve_ensemble(DECAY, {"k": [*design["k"][:5], np.nan], "y0": design["y0"]})


@pytest.fixture
def path(ensemble, tmp_path):
    data.save_ensemble(ensemble, tmp_path / "ensemble.h5")
    return tmp_path / "ensemble.h5"


def test_what_was_written_is_what_is_read(ensemble, path):
    xarray.testing.assert_identical(data.load_ensemble(path).to_xarray(), ensemble.to_xarray())
    xarray.testing.assert_identical(data.open_ensemble(path), ensemble.to_xarray())


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_xarray_opens_it_with_names_units_and_dtypes(ensemble, path, engine):
    with xarray.open_dataset(path, engine=engine) as dataset:
        assert dataset["y"].dims == ("member", "time") and dataset["y"].dtype == np.float64
        assert dataset["member"].dtype == np.int64 and dataset["k"].dims == ("member",)
        assert dataset["k"].attrs["units"] == "1/s" and dataset["y"].attrs["units"] == "mol/m3"
        # seconds of simulation time stay numbers
        assert dataset["time"].dtype == np.float64 and dataset["time"].attrs["units"] == "s"
        np.testing.assert_array_equal(dataset["y"], ensemble.values["y"])
        assert dataset["status"].values.tolist() == [0, 0, 0, 0, 0, 3]
        assert "bad_parameter" in dataset["status"].attrs["flag_meanings"]


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="ncdump is not installed")
def test_ncdump_reads_it(path):
    text = subprocess.run(["ncdump", "-h", path], capture_output=True, text=True, check=True).stdout
    assert "double y(member, time)" in text


def test_a_file_of_one_member_keeps_double_precision(tmp_path):
    exact = 0.7123456789012345
    data.save_ensemble(simulators.solve_ensemble(DECAY, {"k": [exact], "y0": [1.0]}), tmp_path / "one.h5")
    assert data.open_ensemble(tmp_path / "one.h5")["k"].values[0] == exact


def test_metadata_of_every_kind_comes_back(ensemble, tmp_path):
    metadata = {"none": None, "nested": {"a": [True, "", "nu"]}, "long": "x" * 70_000, "many": list(range(10_000))}
    data.save_ensemble(dataclasses.replace(ensemble, metadata=metadata), tmp_path / "m.h5")
    assert data.load_ensemble(tmp_path / "m.h5").metadata == metadata


def test_who_solved_which_member_is_kept_and_told(ensemble, tmp_path):
    known = {"solvers": {"Tsit5": 19_310, "Rodas5P": 690}, "retried": {"Rodas5P": list(range(20_000))}}
    told = dataclasses.replace(ensemble, metadata=ensemble.metadata | known)
    assert "  solvers  19,310 Tsit5, 690 Rodas5P (20,000 retried)\n" in repr(told)
    data.save_ensemble(told, tmp_path / "m.h5")
    again = data.load_ensemble(tmp_path / "m.h5")
    assert again.metadata["retried"] == known["retried"] and repr(again) == repr(told)
    attributes = json.loads(data.open_ensemble(tmp_path / "m.h5").attrs["metadata"])
    assert attributes["solvers"] == known["solvers"] and attributes["retried"] == known["retried"]
    silent = {key: value for key, value in ensemble.metadata.items() if key not in known}
    assert "solvers" not in repr(dataclasses.replace(ensemble, metadata=silent))
    told.to_xarray().to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "x.nc") as dataset:
        assert json.loads(dataset.attrs["metadata"])["retried"] == known["retried"]


def test_fields_keep_their_axes(tmp_path):
    space = data.ParameterSpace(u0=data.GaussianRandomField(points=16, modes=4))
    solution = data.Solution(
        np.array([0.0, 1.0]), {"u": np.arange(96.0).reshape(3, 2, 16)}, data.label([0, 0, 0], data.Status),
        np.zeros(3, int), data.label([0, 0, 0], data.Source),
    )  # fmt: skip
    ensemble = data.Ensemble(
        {"u0": space["u0"].draw(0, np.arange(3))}, solution, 3, space, {"u": data.Output("m/s", ("x",))},
        {"x": np.arange(16) / 16}, {},
    )  # fmt: skip
    data.save_ensemble(ensemble, tmp_path / "f.h5")
    with xarray.open_dataset(tmp_path / "f.h5") as dataset:
        assert dataset["u"].dims == ("member", "time", "x") and dataset["u0"].dims == ("member", "x")
        np.testing.assert_array_equal(dataset["x"], np.arange(16) / 16)
    xarray.testing.assert_identical(data.load_ensemble(tmp_path / "f.h5").to_xarray(), ensemble.to_xarray())


def test_no_failed_write_leaves_a_file_or_harms_the_old_one(path):
    before = path.read_bytes()

    def write(temporary):
        temporary.write_text("half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        data.write_atomically(path, write)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


class TestBadFiles:
    def test_absent(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"nothing\.h5, found nothing"):
            data.load_ensemble(tmp_path / "nothing.h5")

    def test_truncated(self, path):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ValueError, match=r"ensemble\.h5: expected a whole HDF5 file"):
            data.load_ensemble(path)

    def test_foreign(self, tmp_path):
        with h5py.File(tmp_path / "other.h5", "w") as file:
            file["x"] = 1.0
        with pytest.raises(ValueError, match="expected an ensemble written by emulax"):
            data.load_ensemble(tmp_path / "other.h5")

    def test_folder(self, tmp_path):
        with pytest.raises(ValueError, match="expected an ensemble file, found a folder"):
            data.load_ensemble(tmp_path)

    def test_no_path_and_no_ensemble(self, tmp_path):
        with pytest.raises(ValueError, match="path: expected the path of an ensemble file, got None"):
            data.load_ensemble(None)
        with pytest.raises(ValueError, match=r"ensemble: expected an ensemble .* got dict object"):
            data.save_ensemble({}, tmp_path / "a.h5")

    def test_newer(self, path):
        with h5py.File(path, "a") as file:
            file.attrs["format_version"] = 99
        with pytest.raises(ValueError, match="version 99 is newer"):
            data.load_ensemble(path)
