"""Finds the file of a model and refuses what is none, before a library opens it."""

from __future__ import annotations

import bz2
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Exit codes: the file does not fit, there is none, the framework is not installed here.
REFUSED, MISSING, LACKS = 65, 66, 69
PIECE = 2**20
ZLIB_AT_MOST = 1032  # zlib never makes more of a byte
SAVED_MODEL = "saved_model.pb"


class RefusedError(Exception):
    """Why a model is not served, in one sentence, and the exit code that says which kind."""

    def __init__(self, sentence: str, code: int = REFUSED) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Framework:
    """What a framework is called, how its file may be called, and what may be in it."""

    title: str
    endings: tuple[str, ...]
    holds: tuple[str, ...]

    @property
    def names(self) -> str:
        """The names under which its file is looked for, as people read them."""
        return " or ".join(f"model{ending}" for ending in self.endings) or SAVED_MODEL


PICKLE, COMPRESSED, XGBOOST, LIGHTGBM = "a pickle", "a compressed file", "XGBoost", "LightGBM"
ONNX, TORCHSCRIPT, EXPORTED, SAVED = "ONNX", "TorchScript", "an exported program", "a SavedModel"
UNKNOWN = "a file of another kind"
FRAMEWORKS = {
    "sklearn": Framework("scikit-learn", (".joblib", ".pkl"), (PICKLE, COMPRESSED)),
    "xgboost": Framework("XGBoost", (".json", ".ubj", ".bst"), (XGBOOST,)),
    "lightgbm": Framework("LightGBM", (".txt", ".lgb"), (LIGHTGBM,)),
    "onnx": Framework("ONNX", (".onnx",), (ONNX,)),
    "tensorflow": Framework("TensorFlow", (), (SAVED,)),
    "pytorch": Framework("PyTorch", (".pt", ".pt2"), (TORCHSCRIPT, EXPORTED)),
}


def model_file(framework: str, folder: Path, memory: int) -> Path:
    """Return the file of ``framework`` in ``folder``, or the folder of a SavedModel.

    Refused where it is missing, holds something else, or does not fit in ``memory`` bytes.
    """
    its = FRAMEWORKS[framework]
    if not folder.is_dir():
        raise RefusedError(f"There is no folder {folder}.", MISSING)
    found = _saved_model(folder) if framework == "tensorflow" else _by_name(its, folder)
    if found is None:
        beside = (
            path for path in sorted(folder.iterdir())[:100] if path.is_file() or path.is_dir()
        )
        there = [(path.name, kind_of(path)) for path in beside]
        others = [(name, kind) for name, kind in there if fitting(kind) or "; save it" in kind]
        has = f"; it has {others[0][0]}, which is {others[0][1]}" if others else ""
        raise RefusedError(f"The folder has no {its.names} for {its.title}{has}.", MISSING)
    size = sum(p.stat().st_size for p in found.rglob("*")) if found.is_dir() else 0
    size = size or found.stat().st_size
    if size > memory:
        raise RefusedError(_too_large(found, size, memory))
    kind = kind_of(found)
    if kind not in its.holds:
        instead = fitting(kind)
        other = f" Choose the framework {FRAMEWORKS[instead[0]].title} for it." if instead else ""
        raise RefusedError(f"{found.name} is {kind}, which {its.title} does not read.{other}")
    for unpacked in _unpacked(found, kind, memory):
        if unpacked > memory:
            raise RefusedError(_too_large(found, unpacked, memory, "at least "))
    return found


def fitting(kind: str) -> list[str]:
    """Return the frameworks that read ``kind``."""
    return [name for name, its in FRAMEWORKS.items() if kind in its.holds]


def kind_of(path: Path) -> str:
    """Return what ``path`` holds, by its first bytes: a name says nothing."""
    if path.is_dir():
        return SAVED if (path / SAVED_MODEL).is_file() else "a folder"
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_zip(path)
    text = head.lstrip()
    kinds = {
        PICKLE: head[:1] == b"\x80" and head[1:2] <= b"\x05",
        COMPRESSED: bool(_packing(head)),
        LIGHTGBM: text.startswith(b"tree"),
        # JSON, and its binary form: an object whose first key has a length
        XGBOOST: text.startswith(b"{") and b"learner" in head,
        "a Keras file in HDF5": head.startswith(b"\x89HDF"),
        # its first field is a number, the version of the format; then who made it
        ONNX: head[:1] == b"\x08" and head[2:3] in {b"\x12", b"\x1a", b"\x3a", b"\x42"},
        "an old binary file of XGBoost, which no release since 3.1 reads; save it as "
        "model.ubj": head.startswith((b"binf", b"bs64")) or path.suffix == ".bst",
    }
    return next((kind for kind, fits in kinds.items() if fits), UNKNOWN)


def _kind_of_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as packed:
            names = [name.partition("/")[2] or name for name in packed.namelist()[:10_000]]
    except (zipfile.BadZipFile, OSError):
        return "a damaged zip archive"
    kinds = {
        TORCHSCRIPT: "constants.pkl" in names and any(n.startswith("code/") for n in names),
        EXPORTED: "archive_format" in names or "serialized_exported_program.json" in names,
        "weights or a pickle of PyTorch without its program; save it with torch.jit.save or "
        "torch.export.save": "data.pkl" in names,
        "a Keras file; save it as a SavedModel with model.export": "config.json" in names,
    }
    return next((kind for kind, fits in kinds.items() if fits), "a zip archive")


def _by_name(its: Framework, folder: Path) -> Path | None:
    for ending in its.endings:
        if (folder / f"model{ending}").is_file():
            return folder / f"model{ending}"
    found = [p for p in sorted(folder.iterdir()) if p.suffix in its.endings and p.is_file()]
    if len(found) > 1:
        names = ", ".join(p.name for p in found[:5])
        raise RefusedError(f"The folder has several files ({names}): call one {its.names}.")
    return found[0] if found else None


def _saved_model(folder: Path) -> Path | None:
    """Return where the SavedModel is: the folder itself, or its highest numbered version."""
    versions = sorted((int(p.name), p) for p in folder.iterdir() if p.name.isdecimal())
    places = [folder, *(path for _number, path in reversed(versions))]
    return next((place for place in places if (place / SAVED_MODEL).is_file()), None)


def _unpacked(path: Path, kind: str, memory: int) -> Iterator[int]:
    """Tell how much of ``path`` is unpacked so far; nothing of it is kept."""
    if kind in {TORCHSCRIPT, EXPORTED}:
        with zipfile.ZipFile(path) as archive:
            yield sum(entry.file_size for entry in archive.infolist())
    elif kind == COMPRESSED:
        with path.open("rb") as file:
            packing = _packing(file.read(8))
        if packing == "zlib" and path.stat().st_size * ZLIB_AT_MOST < memory:
            return
        total = 0
        try:
            for size in _inflated(path) if packing == "zlib" else _decompressed(path, packing):
                total += size
                yield total
        except (zlib.error, lzma.LZMAError, OSError, EOFError) as problem:
            raise RefusedError(f"{path.name} is damaged: it can't be unpacked.") from problem


def _packing(head: bytes) -> str:
    """Return how a file with these first bytes is compressed, of the ways that joblib has."""
    starts = {
        "zlib": (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"),
        "bz2": (b"BZh",),
        "lzma": (b"\xfd7zXZ", b"\x5d\x00\x00"),
    }
    return next((name for name, its in starts.items() if head.startswith(its)), "")


def _inflated(path: Path) -> Iterator[int]:
    unpacks = zlib.decompressobj(wbits=47)  # gzip's header or zlib's
    with path.open("rb") as file:
        while piece := unpacks.unconsumed_tail or file.read(PIECE):
            yield len(unpacks.decompress(piece, PIECE))


def _decompressed(path: Path, packing: str) -> Iterator[int]:
    with bz2.open(path) if packing == "bz2" else lzma.open(path) as file:
        while made := file.read(PIECE):
            yield len(made)


def _too_large(path: Path, size: int, memory: int, least: str = "") -> str:
    said = f"{least}{size / 2**30:.1f} GiB"
    return f"{path.name} needs {said} of memory and this server has {memory / 2**30:.1f} GiB."
