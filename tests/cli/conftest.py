"""The command line against a portal that listens on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from berth_cli.client import ApiError
from berth_cli.main import cli
from click.testing import CliRunner, Result

from tests.credentials import samples


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.json"
    monkeypatch.setenv("BERTH_CONFIG", str(path))
    for name in ("BERTH_URL", "BERTH_TOKEN", "BERTH_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def berth(
    live_server: Any, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run ``berth …`` in this process; portal errors become their exit code as in ``main``."""
    monkeypatch.setenv("BERTH_URL", live_server.url)

    def run(*args: str, token: str = "", stdin: str | bytes | None = None) -> Result:
        env = {"BERTH_TOKEN": token} if token else {}
        result = CliRunner().invoke(cli, list(args), env=env, input=stdin)
        if isinstance(result.exception, ApiError):
            result.exit_code = result.exception.exit_code
        return result

    return run


@pytest.fixture
def token_of(principal: Any) -> Callable[[Any], str]:
    from accounts.services.tokens import token_create

    def make(user: Any, **extra: Any) -> str:
        return str(token_create(who=principal(user), name="cli", **extra)[1])

    return make


@pytest.fixture
def namesakes(berth: Callable[..., Result]) -> Callable[[str], dict[str, str]]:
    """Store a project's key, one's own of the same name, and another; return ids by whose."""

    def store(token: str) -> dict[str, str]:
        key = ("--access-key", "AKIAIOSFODNN7EXAMPLE", "--region", "eu-central-1", "-o", "json")
        found = {}
        for whose, words in (
            ("of the project", ("key",)),
            ("yours", ("key", "--own")),
            ("other", ("other",)),
        ):
            add = ("credentials", "add", "s3", *words, *key)
            found[whose] = str(read(berth(*add, token=token, stdin=samples.S3_SECRET))["id"])
        return found

    return store


def told_apart(said: Result, ids: dict[str, str]) -> bool:
    """Whether a command refused to choose, and named each of the two by its id."""
    told = str(said.exception).splitlines()[-2:]
    names = {f"  --credential {ids[whose]}: {whose}, s3, key" for whose in ids if whose != "other"}
    return said.exit_code == 2 and set(told) == names


def read(result: Result) -> Any:
    """Return the JSON that a command printed on standard output."""
    return json.loads(result.stdout)
