"""What documents tell operators to type, and to write into settings, works in that order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.portal import ROOT

# The settings that follow from those of the environment, as the check before a start has them.
TOLD = """
import json
from django.conf import settings
from django.http.request import validate_host
from portal.server.preflight import check_address
check_address(insecure_http=False)
names = ("PUBLIC_URL", "GATE_URL", "PORT", "GATE_PORT", "NOTEBOOK_SCHEME", "NOTEBOOK_DOMAIN")
told = {name: getattr(settings, f"BERTH_{name}") for name in names}
told["answers"] = [
    host
    for host in ("127.0.0.1", "berth.example.org", "evil.example")
    if validate_host(host, settings.ALLOWED_HOSTS)
]
print(json.dumps(told))
"""


GATES = """
import importlib, os, sys
from portal.settings import base
for url in sys.argv[1:]:
    os.environ["BERTH_PUBLIC_URL"] = url
    print(importlib.reload(base).BERTH_GATE_URL)
"""


def part(document: Path, heading: str) -> str:
    """What stands below this heading, up to the next one."""
    return document.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """Lines to type: indented in a page, comments in a file of settings."""
    return re.findall(r"^(?:#   |    )((?:cp|docker) .*)$", text, re.MULTILINE)


def asked(var: Path, program: list[str], **settings: str) -> str:
    """What a program says in which only these settings are given."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
    done = subprocess.run(
        [sys.executable, "-c", *program],
        cwd=ROOT,
        env={**plain, "BERTH_VAR": str(var), **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("place", ["guide", "file"])
def test_what_compose_demands_is_there_before_it_is_asked_for_the_first_time(place: str) -> None:
    """It reads its whole file for each command, and refuses it while a demanded value is missing."""
    guide, file = ROOT / "docs/deploy.md", ROOT / "deploy/env.example"
    typed = commands(part(guide, "Compose") if place == "guide" else file.read_text())
    (made,) = [n for n, line in enumerate(typed) if line.endswith("secrets >> .env")]
    (built,) = [n for n, line in enumerate(typed) if line.startswith("docker build ")]
    asked = [n for n, line in enumerate(typed) if line.startswith("docker compose ")]
    assert typed[0].startswith("cp deploy/env.example .env")
    assert built < made < asked[0]
    demanded = re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yml").read_text())
    given = re.findall(r"^(\w+)=.", file.read_text(), re.MULTILINE)
    assert set(demanded) - set(given)  # else the order would not matter


def test_the_settings_for_other_machines_lead_them_and_workspaces_to_the_portal(
    tmp_path: Path,
) -> None:
    block = part(ROOT / "docs/runbook/one-machine.md", "For other machines").split("```")[1]
    example = dict(re.findall(r"^(BERTH_\w+)=(\S+)", block, re.MULTILINE))
    env = {"DJANGO_SETTINGS_MODULE": "portal.settings.dev"}
    told: dict[str, Any] = json.loads(asked(tmp_path, [TOLD], **env, **example))
    portal, gate = urlsplit(told["PUBLIC_URL"]), urlsplit(told["GATE_URL"])
    assert (portal.scheme, portal.port) == ("https", told["PORT"])
    assert (gate.scheme, gate.hostname, gate.port) == ("https", portal.hostname, told["GATE_PORT"])
    assert told["NOTEBOOK_SCHEME"] == "https"
    assert not str(portal.hostname).endswith(told["NOTEBOOK_DOMAIN"])
    assert told["answers"] == ["127.0.0.1", "berth.example.org"]


def test_the_gate_is_where_the_portal_is_unless_it_is_said(tmp_path: Path) -> None:
    urls = ["http://localhost:9000", "https://berth.example.org:9000", "https://berth.example.org"]
    said = asked(tmp_path, [GATES, *urls, "https://berth.example.org:8443"], BERTH_PORT="9000")
    beside = ["http://localhost:9004", "https://berth.example.org:9004"]
    # what has another port, or none, is an entrance to both
    assert said.split() == [*beside, "https://berth.example.org", "https://berth.example.org:8443"]
