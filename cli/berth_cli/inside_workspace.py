"""The command line in a terminal of a workspace: it needs no sign-in there.

The workspace's own token is exchanged for one that may run jobs of its project as its owner.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx

from berth_cli.client import EXIT_SIGN_IN, EXIT_UNREACHABLE, ApiError, opened


@dataclass(frozen=True)
class Inside:
    """Where this is: the portal, what it may be asked with, project and workspace."""

    server: str
    token: str
    project: str
    workspace: str


def is_inside() -> bool:
    return bool(os.environ.get("JUPYTERHUB_API_TOKEN") and os.environ.get("JUPYTERHUB_API_URL"))


@cache
def inside() -> Inside:
    """Ask the portal who this is; once in a process."""
    url, token = os.environ["JUPYTERHUB_API_URL"], os.environ["JUPYTERHUB_API_TOKEN"]
    headers = {"Authorization": f"token {token}"}
    try:
        with opened(base_url=url, headers=headers, timeout=20.0) as http:
            answer = http.post("berth/token")
        told = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise ApiError(f"The portal can't be reached: {error}", EXIT_UNREACHABLE) from error
    if not answer.is_success:
        message = str(told.get("message") or "This workspace may not ask the portal.")
        raise ApiError(message, EXIT_SIGN_IN)
    return Inside(told["url"], told["token"], told["project"], told["workspace"])


def workdir() -> str | None:
    """Return this folder as a path below the home; None: it lies elsewhere."""
    home, here = Path.home().resolve(), Path.cwd().resolve()
    if not here.is_relative_to(home):
        return None
    found = str(here.relative_to(home))
    return "" if found == "." else found
