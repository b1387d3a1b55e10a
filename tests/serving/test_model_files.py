"""Files that are no model, or not of the framework that is said: refused before they are opened."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest

from serving.programs.files import MISSING, REFUSED, RefusedError, kind_of, model_file

MIB = 2**20
MEMORY = 64 * MIB


def refused(framework: str, folder: Path, memory: int = MEMORY) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        model_file(framework, folder, memory)
    return caught.value


def archive(path: Path, *names: str, size: int = 10) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in names:
            made.writestr(name, b"\0" * size)


def test_a_folder_without_a_model_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("hello")
    problem = refused("sklearn", tmp_path)
    assert problem.code == MISSING
    assert str(problem) == "The folder has no model.joblib or model.pkl for scikit-learn."
    (tmp_path / "trees.txt").write_text("tree\nversion=v4\n")
    assert "it has trees.txt, which is LightGBM" in str(refused("sklearn", tmp_path))
    assert "There is no folder" in str(refused("onnx", tmp_path / "nothing"))


def test_what_is_no_file_beside_a_model_is_not_looked_into(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    assert refused("sklearn", tmp_path).code == MISSING


@pytest.mark.parametrize(
    ("framework", "name", "content", "sentence"),
    [
        ("onnx", "model.onnx", pickle.dumps([1]), "a pickle, which ONNX does not read. Choose the framework scikit-learn"),
        ("sklearn", "model.joblib", b"tree\nversion=v4\n", "LightGBM, which scikit-learn does not read. Choose the framework LightGBM"),
        ("lightgbm", "model.txt", b'{"learner":{', "XGBoost, which LightGBM does not read"),
        ("xgboost", "model.json", b'{"class_name": "Sequential"}', "a file of another kind, which XGBoost"),
        ("xgboost", "model.bst", b"binf\0\0", "an old binary file of XGBoost, which no release since 3.1 reads"),
        ("pytorch", "model.pt", pickle.dumps({}), "a pickle, which PyTorch does not read"),
        ("sklearn", "model.pkl", b"", "a file of another kind"),
        ("onnx", "model.onnx", b"\x89HDF\r\n\x1a\n", "a Keras file in HDF5"),
    ],
)  # fmt: skip
def test_a_file_of_another_framework_is_named(
    tmp_path: Path, framework: str, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    problem = refused(framework, tmp_path)
    assert sentence in str(problem)
    assert problem.code == REFUSED


def test_weights_of_pytorch_are_not_its_program(tmp_path: Path) -> None:
    archive(tmp_path / "model.pt", "model/data.pkl", "model/version")
    assert "save it with torch.jit.save" in str(refused("pytorch", tmp_path))
    archive(tmp_path / "model.pt", "model/data.pkl", "model/constants.pkl", "model/code/a.py")
    assert model_file("pytorch", tmp_path, MEMORY) == tmp_path / "model.pt"


def test_of_several_files_the_one_called_model_is_meant(tmp_path: Path) -> None:
    (tmp_path / "iris.pkl").write_bytes(pickle.dumps(1))
    assert model_file("sklearn", tmp_path, MEMORY).name == "iris.pkl"
    (tmp_path / "other.pkl").write_bytes(pickle.dumps(1))
    assert "several files (iris.pkl, other.pkl)" in str(refused("sklearn", tmp_path))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(1))
    assert model_file("sklearn", tmp_path, MEMORY).name == "model.pkl"


def test_the_highest_version_of_a_saved_model_is_meant(tmp_path: Path) -> None:
    for version in ("2", "10", "notes"):
        (tmp_path / version).mkdir()
    (tmp_path / "2/saved_model.pb").write_bytes(b"x")
    assert model_file("tensorflow", tmp_path, MEMORY) == tmp_path / "2"
    (tmp_path / "10/saved_model.pb").write_bytes(b"x")
    assert model_file("tensorflow", tmp_path, MEMORY) == tmp_path / "10"


def test_d5_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    names = ("model/constants.pkl", "model/code/a.py", "model/data/0")
    archive(tmp_path / "model.pt", *names, size=40 * MIB)
    assert (tmp_path / "model.pt").stat().st_size < MIB
    problem = str(refused("pytorch", tmp_path))
    assert problem == "model.pt needs at least 0.1 GiB of memory and this server has 0.1 GiB."


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, bz2.compress, lzma.compress])
def test_d5_a_packed_pickle_is_unpacked_to_the_limit_and_not_kept(tmp_path: Path, pack) -> None:
    (tmp_path / "model.joblib").write_bytes(pack(b"\x80\x04" + b"\0" * 200 * MIB))
    tracemalloc.start()
    try:
        assert "needs at least" in str(refused("sklearn", tmp_path))
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    (tmp_path / "model.joblib").write_bytes(pack(b"\x80\x04" + b"\0" * MIB))
    assert model_file("sklearn", tmp_path, MEMORY)
    (tmp_path / "model.joblib").write_bytes(pack(os.urandom(20_000))[:-5000] + b"?" * 5000)
    found = kind_of(tmp_path / "model.joblib")
    assert found == "a compressed file"


def test_a_file_of_20_gib_does_not_fit(tmp_path: Path) -> None:
    with (tmp_path / "model.joblib").open("wb") as file:
        file.write(b"\x80\x04")
        file.truncate(20 * 2**30)
    said = "model.joblib needs 20.0 GiB of memory and this server has 2.0 GiB."
    assert str(refused("sklearn", tmp_path, 2 * 2**30)) == said


def test_what_is_unpacked_is_json_of_xgboost_only_with_a_learner(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"learner": {}, "version": [3, 0, 0]}))
    assert model_file("xgboost", tmp_path, MEMORY)
