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
    from accounts.services import token_create

    def make(user: Any, **extra: Any) -> str:
        return str(token_create(who=principal(user), name="cli", **extra)[1])

    return make


def read(result: Result) -> Any:
    """Return the JSON that a command printed on standard output."""
    return json.loads(result.stdout)
