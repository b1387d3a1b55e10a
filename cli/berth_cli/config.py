"""Where the client remembers servers and tokens: one JSON file, readable by its owner only."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth_cli import inside_workspace


def path() -> Path:
    """Return BERTH_CONFIG, or $XDG_CONFIG_HOME/berth/config.json."""
    if explicit := os.environ.get("BERTH_CONFIG"):
        return Path(explicit)
    base = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
    return base / "berth" / "config.json"


@dataclass
class Profile:
    """What is used for one call, after environment and options."""

    server: str = ""
    token: str = ""
    project: str = ""


def load() -> dict[str, Any]:
    try:
        data = json.loads(path().read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        message = f"{path()} can't be read ({error}). Mend it, or remove it and sign in again."
        raise ConfigError(message) from error
    return data if isinstance(data, dict) else {}


def save(data: dict[str, Any]) -> None:
    """Write atomically with mode 0600; a crash leaves the old file."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".config-")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(data, file, indent=2)
            file.write("\n")
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def resolve(*, server: str | None, project: str | None) -> Profile:
    """Options win over environment, environment over the file, that over the workspace it is in."""
    data = load()
    chosen = (server or os.environ.get("BERTH_URL") or data.get("server") or "").rstrip("/")
    entry = data.get("servers", {}).get(chosen, {})
    known = os.environ.get("BERTH_TOKEN") or entry.get("token")
    if not known and inside_workspace.is_inside():
        here = inside_workspace.inside()
        if chosen in {"", here.server}:
            return Profile(here.server, here.token, project or here.project)
    return Profile(
        server=chosen,
        token=os.environ.get("BERTH_TOKEN") or entry.get("token", ""),
        project=project or os.environ.get("BERTH_PROJECT") or entry.get("project", ""),
    )


def remember(server: str, **values: str) -> None:
    data = load()
    servers = data.setdefault("servers", {})
    servers.setdefault(server, {}).update(values)
    data["server"] = server
    save(data)


def forget(server: str) -> None:
    data = load()
    data.get("servers", {}).pop(server, None)
    if data.get("server") == server:
        data["server"] = ""
    save(data)


class ConfigError(Exception):
    """The configuration file is broken."""
