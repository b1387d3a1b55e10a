"""What a download leaves beside its file, and what a gate that breaks off costs."""

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from berth_cli import carrying, files
from berth_cli.carrying import LONGEST, Place, _clean, send, shortened
from berth_cli.client import EXIT_UNREACHABLE, ApiError
from berth_cli.files import _found
from berth_cli.main import cli
from click.testing import CliRunner

MARK = "0123456789ab"


def parts(folder: Path, *names: str) -> set[str]:
    for name in names:
        (folder / name).write_bytes(b"begun")
    return set(names)


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_only_parts_of_the_same_file_go(tmp_path: Path) -> None:
    kept = parts(
        tmp_path,
        f".data.csv.{MARK}.part",  # of data.csv, which is another file
        f".data.{MARK}.part.bak",
        f".data.{MARK[:-1]}.part",
        ".data.part",
    )
    parts(tmp_path, f".data.{MARK}.part", ".data.ba9876543210.part")
    _clean(tmp_path / "data")
    assert left(tmp_path) == kept


def test_names_with_signs_of_patterns_are_names(tmp_path: Path) -> None:
    kept = parts(tmp_path, f".a1.{MARK}.part", f".axx.{MARK}.part")
    parts(tmp_path, f".a[1]*.{MARK}.part")
    _clean(tmp_path / "a[1]*")
    assert left(tmp_path) == kept


@pytest.mark.parametrize("name", ["カ" * 85, "a" * 255, "é" * 127 + "x", "short.csv"])
def test_the_part_of_a_name_as_long_as_may_be_is_a_name_too(name: str, tmp_path: Path) -> None:
    """File systems count bytes: 85 kana are 255 of them."""
    (tmp_path / name).touch()
    assert name.startswith(shortened(name))
    (tmp_path / f".{shortened(name)}.{MARK}.part").touch()


def test_a_name_that_was_cut_does_not_tell_whose_it_is(tmp_path: Path) -> None:
    name = "n" * (LONGEST + 1)
    kept = parts(tmp_path, f".{name[:LONGEST]}.{MARK}.part")
    _clean(tmp_path / name)
    assert left(tmp_path) == kept


Answers = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], Place]:
    """A gate that answers as a test says; it is open already."""
    monkeypatch.setattr(carrying, "RETRY_S", (0, 0))
    monkeypatch.setattr(carrying, "SMALL", 4)

    def make(answers: Answers) -> Place:
        there = object.__new__(Place)
        there.url, there.http = "http://gate", httpx.Client(transport=httpx.MockTransport(answers))
        return there

    return make


def lines(*said: Any) -> httpx.Response:
    return httpx.Response(200, text="\n".join(json.dumps(line) for line in said))


def test_a_gate_that_breaks_off_at_the_end_is_an_error_in_words(place: Any, tmp_path: Path) -> None:
    def answers(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/finish"):
            raise httpx.ReadError("broke off")
        return httpx.Response(200, json={"id": "u", "offset": 0})

    file = tmp_path / "f"
    file.write_bytes(b"longer than small")
    with pytest.raises(ApiError, match="can't be reached") as caught:
        send(place(answers), file, "f", "refuse")
    assert caught.value.exit_code == EXIT_UNREACHABLE


@pytest.mark.parametrize("code", ["in-use", "checksum", "short", "busy"])
def test_a_piece_that_was_damaged_or_came_too_early_is_sent_again(
    place: Any, tmp_path: Path, code: str
) -> None:
    pieces: list[bytes] = []

    def answers(request: httpx.Request) -> httpx.Response:
        if request.method == "PATCH":
            pieces.append(request.content)
            if len(pieces) == 1:
                return httpx.Response(409, json={"code": code, "detail": "no"})
        if request.url.path.endswith("/finish"):
            return lines({"done": {"path": "f"}})
        return httpx.Response(200, json={"id": "u", "offset": 0})

    file = tmp_path / "f"
    file.write_bytes(b"longer than small")
    assert send(place(answers), file, "f", "refuse") == {"done": {"path": "f"}}
    assert pieces == [b"longer than small"] * 2


def test_a_search_says_when_it_is_not_whole(place: Any, capsys: Any) -> None:
    entry = {"name": "a"}
    done = {"looked": 1, "hits": 1, "complete": False}
    there = place(lambda _request: lines({"entries": [entry]}, {"done": done, "entries": [entry]}))
    assert list(_found(there, "", "a")) == [entry, entry]
    assert "This is not all" in capsys.readouterr().err


def test_a_search_that_fails_is_an_error(place: Any) -> None:
    refused = {"code": "io", "detail": "The storage reports an error."}
    there = place(lambda _request: lines({"entries": []}, {"error": refused}))
    with pytest.raises(ApiError, match="storage reports"):
        list(_found(there, "", "a"))

    def break_off(_request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("broke off")

    with pytest.raises(ApiError, match="can't be reached"):
        list(_found(place(break_off), "", "a"))


def _refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """This machine lets nobody open or list what has this name."""

    def refusing(real: Any) -> Any:
        def ask(path: Any, *args: Any, **named: Any) -> Any:
            if Path(path).name == name:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *args, **named)

        return ask

    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    monkeypatch.setattr(Path, "open", refusing(Path.open))


@pytest.fixture
def volume(place: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """The commands find a volume whose files are open."""

    def make(answers: Answers) -> None:
        there = place(answers)
        monkeypatch.setattr(Place, "open", lambda _self: None)
        monkeypatch.setattr(files, "Place", lambda _s, _name: there)

    return make


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, ["volumes", *words])


@pytest.mark.parametrize("name", ["closed", "a.txt"])
def test_what_cannot_be_read_here_is_named_and_the_rest_uploaded(
    volume: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sent: list[str] = []

    def answers(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            sent.append(request.url.params["path"])
        return httpx.Response(200, json={})

    top = tmp_path / "top"
    (top / "closed").mkdir(parents=True)
    for file in ("a.txt", "b.txt", "closed/c.txt"):
        (top / file).write_text("x")
    volume(answers)
    _refuse(monkeypatch, name)
    done = run("upload", "data", str(top))
    assert isinstance(done.exception, ApiError), done.exception
    assert str(done.exception) == "1 of them could not be uploaded."
    assert f"{name}: Permission denied" in done.stderr
    every = {"top/a.txt", "top/b.txt", "top/closed/c.txt"}
    assert set(sent) == {path for path in every if name not in path}


def test_what_cannot_be_written_here_is_named_and_the_rest_downloaded(
    volume: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [{"name": n, "path": n, "kind": "file"} for n in ("a.txt", "b.txt")]

    def answers(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/list"):
            return httpx.Response(200, json={"entries": entries, "total": 2})
        headers = {"ETag": '"1"', "Content-Length": "1"}
        return httpx.Response(200, stream=httpx.ByteStream(b"x"), headers=headers)

    volume(answers)
    mark = hashlib.sha256(b'"1"').hexdigest()[:12]
    _refuse(monkeypatch, f".a.txt.{mark}.part")
    done = run("download", "data", str(tmp_path))
    assert isinstance(done.exception, ApiError), done.exception
    assert str(done.exception) == "1 of them were not downloaded."
    assert "a.txt: " in done.stderr
    assert "Permission denied" in done.stderr
    assert left(tmp_path / "data") == {"b.txt"}


def test_a_volume_that_is_looked_through_by_too_many_is_asked_again(place: Any) -> None:
    asked: list[str] = []

    def answers(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if len(asked) < 3:
            return httpx.Response(503, json={"code": "busy", "detail": "Too much at once."})
        return httpx.Response(200, json={"entries": []})

    assert place(answers).json("GET", "list") == {"entries": []}
    assert len(asked) == 3


def test_who_never_gets_a_turn_is_told_so(place: Any) -> None:
    there = place(lambda _request: httpx.Response(503, json={"code": "busy", "detail": "Busy."}))
    with pytest.raises(ApiError, match="Busy") as refused:
        there.json("GET", "list")
    assert refused.value.problem["code"] == "busy"
