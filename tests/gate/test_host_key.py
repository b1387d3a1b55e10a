"""The SSH server's own key: told by the portal, believed by ``berth workspace ssh``."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from clusters.models import Cluster
from common import sealing
from gate.ssh.server import SshServer
from tests.gate.test_command_line import Of, berth
from tests.gate.test_ssh import key_of, ssh

__all__ = ["berth", "key_of", "ssh"]


@pytest.fixture
def portal_with_ssh(settings: Any, ssh: SshServer) -> SshServer:
    private, public = sealing.new_pair()
    settings.BERTH_CLUSTER_PRIVATE_KEY, settings.BERTH_CLUSTER_PUBLIC_KEY = private, public
    settings.BERTH_SSH_HOST, settings.BERTH_SSH_PORT = "127.0.0.1", ssh.port
    return ssh


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client here")
async def test_ssh_believes_the_key_that_the_portal_names_and_no_other(
    portal_with_ssh: SshServer,
    berth: Of,
    workspace: Any,
    alice: Any,
    key_of: Any,
    settings: Any,
    tmp_path: Path,
) -> None:
    client = await berth(alice)
    own = ["-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]
    words = [workspace.short_id, "-i", str(await key_of(alice)), *own, "echo -t $((6*7))"]
    for _time in range(2):
        code, out, err = await client.run("ssh", *words)
        assert (code, out) == (0, b"-t 42\n"), err
    known = tmp_path / "own files" / "known_hosts"
    assert len(known.read_text().splitlines()) == 1
    settings.BERTH_SSH_HOST_KEY_FILE = str(await key_of(alice, "another"))
    code, _out, err = await client.run("ssh", *words)
    assert code == 255
    assert b"Host key verification failed" in err
    assert len(known.read_text().splitlines()) == 1


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
async def test_the_fingerprint_of_the_gate_is_on_the_page_and_in_the_api(
    portal_with_ssh: SshServer, workspace: Any, alice: Any, as_user: Any, settings: Any
) -> None:
    file = settings.BERTH_SSH_HOST_KEY_FILE
    asked = await asyncio.create_subprocess_exec(
        "ssh-keygen", "-lf", file, stdout=asyncio.subprocess.PIPE
    )
    fingerprint = (await asked.communicate())[0].split()[1].decode()

    def look() -> tuple[str, dict[str, Any]]:
        client = as_user(alice)
        ways = f"/api/v1/projects/vision/workspaces/{workspace.short_id}/ways"
        return client.get("/settings/ssh-keys").content.decode(), client.get(ways).json()["ssh"]

    page, said = await sync_to_async(look)()
    assert fingerprint in page
    assert said["fingerprint"] == fingerprint
    assert said["host_key"].startswith("ssh-ed25519 AAAA")
    await sync_to_async(Path(file).unlink)()
    page, said = await sync_to_async(look)()
    assert "SHA256:" not in page
    assert (said["host_key"], said["fingerprint"]) == (None, None)


def test_where_no_key_opens_anything_none_is_asked_for(
    alice: Any, as_user: Any, settings: Any
) -> None:
    settings.BERTH_SSH_PORT = 2222
    page = as_user(alice).get("/settings/ssh-keys").content.decode()
    assert 'name="public_key"' not in page
    assert "no cluster is attached" in page
    Cluster.objects.create(key="east", name="East", driver="kubernetes")
    page = as_user(alice).get("/settings/ssh-keys").content.decode()
    assert 'name="public_key"' in page
