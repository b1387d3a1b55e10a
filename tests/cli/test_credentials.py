"""berth credentials: what goes in by a file or a pipe, and never by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from credentials.decrypt import opened
from credentials.models import Credential
from tests.cli.conftest import read
from tests.credentials import samples

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asked(berth: Any, token_of: Any, project: Any, alice: Any) -> Any:
    token = token_of(alice)

    def run(*words: str, **more: Any) -> Any:
        done = berth("credentials", *words, token=token, **more)
        for kind in samples.KINDS:
            assert not any(secret in done.output for secret in samples.secrets_of(kind))
        return done

    return run


def test_every_kind_is_stored_from_a_file_or_a_pipe(asked: Any, tmp_path: Path) -> None:
    def kept(text: str) -> str:
        path = tmp_path / f"secret-{len(list(tmp_path.iterdir()))}"
        path.write_text(text)
        return str(path)

    key = samples.service_account()
    aws = f"[default]\naws_access_key_id = loader\naws_secret_access_key={samples.S3_SECRET}\n"
    calls: list[tuple[list[str], str | None]] = [
        (["gcs", "a", "--secret-file", kept(json.dumps(key))], None),
        (["ssh", "b", "--host", "git.example.com", "--secret-file", kept(samples.ssh_key())], None),
        (["git", "c", "--host", "git.example.com", "--secret-file", "-"], samples.GIT + "\n"),
        (["registry", "d", "--host", "ghcr.io", "--username", "r"], samples.REGISTRY + "\n"),
        (["s3-compatible", "e", "--endpoint", "https://s3.example.com", "--virtual-host"], aws),
        (
            ["s3", "f", "--access-key", "AKIAIOSFODNN7EXAMPLE", "--region", "eu-central-1"],
            samples.S3_SECRET,
        ),
        (["generic", "g"], f"# mine\nexport API_TOKEN={samples.VALUE}\nB=c=d\n"),
        (["generic", "h", "--file-name", "kaggle.json"], '{"key": "x"}\n'),
    ]
    for words, piped in calls:
        done = asked("add", *words, stdin=piped)
        assert done.exit_code == 0, done.output
    rows = {row.name: row for row in Credential.objects.all()}
    assert opened(rows["c"]) == {"token": samples.GIT}
    assert opened(rows["e"])["secret_key"] == samples.S3_SECRET
    assert (rows["e"].public["access_key"], rows["e"].public["path_style"]) == ("loader", False)
    assert opened(rows["g"]) == {"API_TOKEN": samples.VALUE, "B": "c=d"}
    assert opened(rows["h"]) == {"kaggle.json": '{"key": "x"}\n'}
    listed = {row["name"]: row for row in read(asked("list", "-o", "json"))}
    assert set(listed) == set("abcdefgh")
    assert asked("show", "a").exit_code == 0


def test_no_option_takes_a_secret(asked: Any) -> None:
    for words in (["add", "git", "x"], ["rotate", "x"]):
        for option in ("--token", "--secret", "--password", "--secret-key", "--key"):
            done = asked(*words, option, samples.GIT[:0] + "x")
            assert done.exit_code == 2, option
            assert "No such option" in done.output


def test_ones_own_are_apart(asked: Any) -> None:
    words = ("git", "mine", "--host", "git.example.com", "--own")
    assert asked("add", *words, stdin=samples.GIT).exit_code == 0
    assert Credential.objects.get().project is None
    assert [row["name"] for row in read(asked("list", "--own", "-o", "json"))] == ["mine"]
    assert read(asked("list", "-o", "json")) == []
    assert [row["name"] for row in read(asked("list", "--usable", "-o", "json"))] == ["mine"]
    assert asked("delete", "mine").exit_code == 4
    assert asked("delete", "mine", "--own", "--yes").exit_code == 0
    assert not Credential.objects.exists()


def test_a_secret_is_replaced_tested_and_removed(asked: Any, settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]
    asked("add", "generic", "x", stdin=f"A={samples.VALUE}")
    done = asked("rotate", "x", stdin="A=new\n")
    assert done.exit_code == 0, done.output
    row = Credential.objects.get()
    assert (row.version, opened(row)) == (2, {"A": "new"})
    said = asked("test", "x")
    assert (said.exit_code, "nobody can be asked" in said.output) == (0, True)
    assert asked("delete", "x", stdin="n\n").exit_code != 0
    assert Credential.objects.exists()
    assert asked("delete", "x", stdin="y\n").exit_code == 0
    assert not Credential.objects.exists()
    assert asked("test", "x").exit_code == 4


def test_d3_lines_that_name_another_identity_are_refused(asked: Any) -> None:
    words = ("add", "s3-compatible", "x", "--endpoint", "https://s3.example.com")
    for line in ("credential_process = sh", "role_arn = x", "source_profile = y"):
        done = asked(*words, stdin=f"[default]\naws_access_key_id = abc\n{line}\n")
        assert (done.exit_code, "key pair" in str(done.exception)) == (2, True)
    assert asked("add", "generic", "x", stdin="no pair").exit_code == 2
    done = asked("add", "generic", "x", stdin=b"A=\xff")
    assert (done.exit_code, str(done.exception)) == (2, "Standard input is not text.")
    assert not Credential.objects.exists()


def test_a_file_of_documents_holds_no_secret(
    berth: Any, token_of: Any, project: Any, alice: Any, tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("kind: Credential\nmetadata: {name: x}\nspec: {token: hello}\n")
    done = berth("apply", "-f", str(path), token=token_of(alice))
    assert (done.exit_code, "berth credentials add" in str(done.exception)) == (2, True)
