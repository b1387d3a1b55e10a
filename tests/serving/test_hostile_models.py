"""Models that nobody should send: bombs, and more files than there is room to look at."""

from __future__ import annotations

import os
import resource
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from common.clock import now
from dataplane.files import asking
from serving.models import ModelVersion
from tests.serving.server import run

VERSIONS = "/api/v1/projects/vision/models/digits/versions"
PIECE, TIMES = 2**25, 4_000  # 125 GiB unpacked
WITHIN_S = 60
MOST_KIB = 768 * 1024


def bomb(path: Path, *names: str) -> Path:
    """An archive of a few MiB that says honestly that it unpacks to 125 GiB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            packed.writestr(name, b"{}")
        packed.writestr("m/data/0", bytes(PIECE))
        first = packed.filelist[-1]
        for number in range(1, TIMES):  # all of them are the same bytes
            other = zipfile.ZipInfo(f"m/data/{number}", first.date_time)
            for field in ("compress_type", "CRC", "compress_size", "file_size", "header_offset"):
                setattr(other, field, getattr(first, field))
            packed.filelist.append(other)
    return path


BOMBS = {
    "model.keras": ("config.json", "metadata.json"),
    "model.pt": ("m/constants.pkl", "m/code/m.py", "m/data.pkl"),
    "model.npz": (),
}


@pytest.fixture
def register(model: Any, api: Any, alice: Any, look: Any, data: Any) -> Callable[..., ModelVersion]:
    def make(folder: str, **said: Any) -> ModelVersion:
        answer = api(alice, "POST", VERSIONS, {"origin": f"volume:data/{folder}", **said})
        assert answer.status_code == 202, answer.content
        look()
        row: ModelVersion = model.versions.get(name=answer.json()["name"])
        return row

    del data
    return make


@pytest.mark.django_db
def test_d5_bombs_that_are_models_are_known_by_name_and_size_alone(
    register: Any, tmp_path: Path
) -> None:
    for name, inside in BOMBS.items():
        file = bomb(tmp_path / "data" / Path(name).suffix[1:] / name, *inside)
        began, before = monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        row = register(file.parent.name, framework="" if name == "model.pt" else "custom")
        assert (row.files, row.size_bytes) == ("there", file.stat().st_size)
        assert monotonic() - began < WITHIN_S, "it was unpacked"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < PIECE // 1024, f"{grown} KiB for {name}"


@pytest.mark.real
@pytest.mark.parametrize(
    ("framework", "name", "sentence"),
    [
        ("pytorch", "model.pt", "model.pt needs at least 125.0 GiB of memory and this server has"),
        ("tensorflow", "model.keras", "save it as a SavedModel with model.export"),
        ("sklearn", "model.npz", "The folder has no model.joblib or model.pkl for scikit-learn"),
    ],
)
def test_d5_a_bomb_ends_its_own_server_with_a_sentence_before_it_is_unpacked(
    tmp_path: Path, framework: str, name: str, sentence: str
) -> None:
    bomb(tmp_path / name, *BOMBS[name])
    ended = run(framework, tmp_path, preexec_fn=_little)
    assert ended.returncode in {65, 66}, ended.stderr[-500:]
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr


def _little() -> None:
    """A bound as of a small pod: who unpacked the archive would die of it."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_KIB * 1024, MOST_KIB * 1024))


@pytest.mark.django_db
def test_a_model_of_a_hundred_thousand_files_is_refused_in_bounded_time(
    register: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "many"
    folder.mkdir(parents=True)
    for number in range(100_000):
        os.close(os.open(folder / f"{number}.bin", os.O_CREAT))
    began, before = monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = register("many")
    assert row.files == "failed"
    assert "more than 1000 files" in row.problem
    assert monotonic() - began < WITHIN_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024


@pytest.mark.django_db
def test_files_whose_names_are_too_long_to_be_told_are_refused_and_not_asked_for_ever(
    register: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    for _level in range(4):
        folder /= "層" * 80
    folder.mkdir(parents=True)
    for number in range(990):
        (folder / f"{'重' * 70}{number:04}").touch()
    row = register("層" * 80)
    assert row.files == "failed"
    assert "name the folder of the model alone" in row.problem


@pytest.mark.django_db
def test_folders_full_of_folders_are_not_said_to_have_too_many_files(
    register: Any, tmp_path: Path
) -> None:
    for number in range(700):
        folder = tmp_path / "data" / "m" / f"{number}"
        folder.mkdir(parents=True)
        (folder / "weights.bin").touch()
    row = register("m")
    assert row.files == "failed"
    assert "too many or too long to be looked through" in row.problem


@pytest.mark.django_db
def test_what_takes_too_long_to_look_through_is_looked_at_again(
    register: Any, look: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an hour after it was registered; then that is said."""
    folder = tmp_path / "data" / "m"
    folder.mkdir(parents=True)
    (folder / "model.joblib").write_bytes(b"\x80\x05")
    for number in range(150):
        (folder / f"{number}.txt").touch()
    with monkeypatch.context() as slow:
        slow.setattr(asking, "_ends", lambda _seconds: 0.0)
        row = register("m")
        assert (row.files, row.look_at is None) == ("coming", False)
        ModelVersion.objects.filter(pk=row.pk).update(created_at=now() - timedelta(hours=2))
        look()
        row.refresh_from_db()
        assert (row.files, row.problem) == (
            "failed",
            "To look through its files took too long: look again later.",
        )
    ModelVersion.objects.filter(pk=row.pk).update(files="coming", problem="", look_at=now())
    look()
    row.refresh_from_db()
    assert (row.files, row.framework) == ("there", "sklearn")
