"""The surrogate file `.emx`: a zip archive of one JSON text and plain arrays, checked to the last byte.

surrogate.emx
├── model.json                 format, version, architecture, layout, provenance; the list of arrays with checksums
├── arrays/000-network....npy  one NumPy file per array, no pickle
└── (archive comment)          "sha256:" and the digest of every byte before it
"""

import dataclasses
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Output, ParameterSpace, check_path, write_atomically
from ._architecture import Layout
from ._baselines import Baselines
from ._calibration import Calibration
from ._domain import Domain
from ._normalise import Normaliser
from ._registry import ARCHITECTURES
from ._surrogate import Surrogate

FORMAT = "emulax-surrogate"
VERSION = 1
MARK = b"sha256:"
COMMENT = len(MARK) + 64
EPOCH = (1980, 1, 1, 0, 0, 0)  # equal surrogates make equal files


def save(surrogate: Surrogate, path: str | Path) -> None:
    """Write a surrogate file, whole or not at all."""
    arrays = _network_arrays(surrogate.network)
    records: dict[str, Any] = {}
    for part in ("normaliser", "domain", "calibration", "baselines"):
        records[part], found = _take_apart(getattr(surrogate, part))
        arrays += [([part, *where], array) for where, array in found]
    model = {
        "format": FORMAT,
        "format_version": VERSION,
        "layout": _layout_json(surrogate.layout),
        **records,
        "provenance": surrogate.provenance,
        "arrays": [],
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number, (where, array) in enumerate(arrays):
            name = f"arrays/{number:03d}-{re.sub(r'[^A-Za-z0-9_.-]', '_', '.'.join(where))}.npy"
            encoded = io.BytesIO()
            np.lib.format.write_array(encoded, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(name, EPOCH), encoded.getvalue())
            digest = hashlib.sha256(encoded.getvalue()).hexdigest()
            model["arrays"].append({"path": where, "file": name, "sha256": digest})
        text = json.dumps(model, indent=1, ensure_ascii=False, allow_nan=False)
        archive.writestr(zipfile.ZipInfo("model.json", EPOCH), text, zipfile.ZIP_DEFLATED)
        archive.comment = b"0" * COMMENT
    sealed = content.getvalue()[:-COMMENT]
    sealed += MARK + hashlib.sha256(sealed).hexdigest().encode()

    def write(temporary: Path) -> None:
        temporary.write_bytes(sealed)

    write_atomically(path, write)


def load(path: str | Path) -> Surrogate:
    """Read a surrogate file.

    **Raises:** `FileNotFoundError`; `ValueError` for a folder and for a file that is foreign, damaged (one wrong byte
    is enough), of a newer format, or of an architecture that `ARCHITECTURES` does not have.
    """
    path = check_path(path, "a surrogate file (.emx)")
    if not path.exists():
        raise FileNotFoundError(f"expected a surrogate file at {path}, found nothing.")
    if path.is_dir():
        raise ValueError(f"{path}: expected a surrogate file (.emx), found a folder; a run's is surrogate.emx in it.")
    content = path.read_bytes()
    if not content.startswith(b"PK") or _is_another_archive(content):
        raise ValueError(f"{path}: expected a surrogate file (.emx) written by emulax, got another kind of file.")
    digest = hashlib.sha256(content[:-COMMENT]).hexdigest().encode()
    if content[-COMMENT:] != MARK + digest:
        raise ValueError(f"{path}: the file is damaged or incomplete, its checksum is wrong; copy or train it again.")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        model = json.loads(archive.read("model.json"))
        if model.get("format") != FORMAT:
            raise ValueError(f"{path}: expected the format {FORMAT}, got {model.get('format')!r}.")
        if model["format_version"] > VERSION:
            raise ValueError(
                f"{path}: format version {model['format_version']} is newer than this emulax reads ({VERSION}); "
                "upgrade emulax."
            )
        arrays = {tuple(entry["path"]): _read_array(archive, entry, path) for entry in model["arrays"]}
    return _rebuild(model, arrays, path)


def _is_another_archive(content: bytes) -> bool:
    """Whether this is a whole zip archive that was never a surrogate file: no seal, and no model in it."""
    if content[-COMMENT:].startswith(MARK):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return "model.json" not in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def _read_array(archive: zipfile.ZipFile, entry: dict[str, Any], path: Path) -> np.ndarray:
    encoded = archive.read(entry["file"])
    if hashlib.sha256(encoded).hexdigest() != entry["sha256"]:
        raise ValueError(f"{path}: the array {entry['file']} is damaged, its checksum is wrong.")
    return np.lib.format.read_array(io.BytesIO(encoded), allow_pickle=False)


def _rebuild(model: dict[str, Any], arrays: dict[tuple[str, ...], np.ndarray], path: Path) -> Surrogate:
    settings = dict(model["provenance"]["architecture"])
    name = settings.pop("name")
    if name not in ARCHITECTURES:
        raise ValueError(
            f"{path}: expected an architecture among {', '.join(ARCHITECTURES)}, got {name!r}; put its class into "
            f"surrogates.ARCHITECTURES[{name!r}] first."
        )
    layout = _layout(model["layout"])
    architecture = ARCHITECTURES[name].from_settings(settings)

    def part(kind: type, name: str, **others: Any) -> Any:
        return _put_together(kind, model[name], _below(arrays, name), **others)

    normaliser = part(Normaliser, "normaliser")
    return Surrogate(
        network=_network(architecture, layout, _below(arrays, "network")),
        normaliser=normaliser,
        domain=part(Domain, "domain"),
        calibration=part(Calibration, "calibration"),
        baselines=part(Baselines, "baselines", normaliser=normaliser),
        layout=layout,
        provenance=model["provenance"],
    )


def _below(arrays: dict[tuple[str, ...], np.ndarray], name: str) -> dict[tuple[str, ...], np.ndarray]:
    return {where[1:]: array for where, array in arrays.items() if where[0] == name}


def _network_arrays(network: Any) -> list[tuple[list[str], Any]]:
    leaves, _ = jax.tree.flatten_with_path(eqx.filter(network, eqx.is_array))
    return [(["network", _place(where)], leaf) for where, leaf in leaves]


def _place(where: Any) -> str:
    return jax.tree_util.keystr(where, simple=True, separator=".")


def _network(architecture: Any, layout: Layout, arrays: dict[tuple[str, ...], np.ndarray]) -> Any:
    """A network of the right structure, made without computing anything, with the weights put in."""
    with jax.enable_x64(False):
        empty = eqx.filter_eval_shape(lambda key: architecture.build(layout, key=key), jax.random.key(0))

        def fill(where, leaf):
            return jnp.asarray(arrays[(_place(where),)]) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf

        return jax.tree.map_with_path(fill, empty)


def _take_apart(module: eqx.Module) -> tuple[dict[str, Any], list[tuple[list[str], Any]]]:
    """A module's small values as JSON, and its arrays with their places. Modules inside are left out."""
    record, arrays = {}, []
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if isinstance(value, dict):
            arrays += [([field.name, name], array) for name, array in value.items()]
        elif isinstance(value, np.ndarray):
            arrays.append(([field.name], value))
        elif isinstance(value, float) and not np.isfinite(value):
            record[field.name] = str(value)
        elif not isinstance(value, eqx.Module):
            record[field.name] = list(value) if isinstance(value, tuple) else value
    return record, arrays


def _put_together(kind: type, record: dict[str, Any], arrays: dict, **others: Any) -> Any:
    """The inverse of `_take_apart`."""
    values: dict[str, Any] = dict(others)
    for field in dataclasses.fields(kind):
        if field.name in record:
            value = record[field.name]
            infinite = field.type is float and isinstance(value, str)
            values[field.name] = tuple(value) if isinstance(value, list) else float(value) if infinite else value
        elif (field.name,) in arrays:
            values[field.name] = arrays[(field.name,)]
        elif field.name not in values:
            values[field.name] = {where[1]: array for where, array in arrays.items() if where[0] == field.name}
    return kind(**values)


def _layout_json(layout: Layout) -> dict[str, Any]:
    return {
        "parameters": layout.space.to_json(),
        "outputs": {name: {"unit": output.unit, "dims": list(output.dims)} for name, output in layout.outputs.items()},
        "times": layout.times.tolist(),
        "time_unit": layout.time_unit,
        "coordinates": {name: np.asarray(axis).tolist() for name, axis in layout.coordinates.items()},
    }


def _layout(record: dict[str, Any]) -> Layout:
    return Layout(
        space=ParameterSpace.from_json(record["parameters"]),
        outputs={name: Output(o["unit"], tuple(o["dims"])) for name, o in record["outputs"].items()},
        times=np.asarray(record["times"], np.float64),
        coordinates={name: np.asarray(axis, np.float64) for name, axis in record["coordinates"].items()},
        time_unit=record["time_unit"],
    )
