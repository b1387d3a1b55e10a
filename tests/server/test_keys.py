"""``berth keys rotate`` with stored credentials, as an administrator uses it."""

import json
from pathlib import Path

import pytest

from tests.server.test_backup import Server

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("rotation in a running portal; the round trip: server/test_backup.py"),
]

STORE = """
from credentials.models import Credential
from credentials.sealing import seal
from projects.models import Project
from uuid import uuid4
project, _ = Project.objects.get_or_create(slug="p", defaults={"name": "P"})
for n in range(3):
    uid = uuid4()
    sealed, key = seal(uid, {"password": f"secret-{n}"})
    Credential.objects.create(uid=uid, project=project, kind="registry", name=f"{PREFIX}{n}",
        target=f"{PREFIX}{n}.example", sealed=sealed, sealed_with=key)
"""
READ = """
from credentials.models import Credential
from credentials.sealing import unseal
print(",".join(unseal(r.uid, r.sealed)["password"] for r in Credential.objects.order_by("id")))
"""


@pytest.fixture
def server(tmp_path: Path) -> Server:
    tmp_path.chmod(0o755)
    made = Server(tmp_path / "one")
    made.fill("alice")
    put(made, BERTH_CREDENTIAL_KEYS="the-first-key-of-this-server")
    made.shell('PREFIX = "a"' + STORE)
    return made


def put(server: Server, **values: str) -> None:
    path = server.var / "secrets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def keys(server: Server) -> list[str]:
    known = json.loads((server.var / "secrets.json").read_text())
    return str(known["BERTH_CREDENTIAL_KEYS"]).split(",")


def test_a_rotation_leaves_nothing_under_the_old_key_and_forgets_it(server: Server) -> None:
    done = server.run("keys", "rotate")
    assert done.returncode == 0, done.stderr
    assert "3 were sealed again" in done.stdout
    assert len(keys(server)) == 1
    assert keys(server) != ["the-first-key-of-this-server"]
    assert "secret-0,secret-1,secret-2" in server.shell(READ)


def test_d11_a_rotation_that_was_cut_is_finished_by_the_next(server: Server) -> None:
    put(
        server, BERTH_CREDENTIAL_KEYS="the-second-key-of-this-server,the-first-key-of-this-server"
    )  # killed just after this
    server.shell('PREFIX = "b"' + STORE)  # and the portal went on for a while
    done = server.run("keys", "rotate")
    assert done.returncode == 0, done.stderr
    assert "earlier change of keys was cut" in done.stdout
    assert "3 were sealed again" in done.stdout
    assert keys(server) == ["the-second-key-of-this-server"]
    assert server.shell(READ).strip().endswith(",".join(["secret-0,secret-1,secret-2"] * 2))


def test_d11_a_lost_key_is_said_and_nothing_is_thrown_away(server: Server) -> None:
    put(server, BERTH_CREDENTIAL_KEYS="another-key")
    done = server.run("keys", "rotate")
    assert done.returncode == 0, done.stderr
    assert "3 stored credentials can't be opened" in done.stdout
    put(server, BERTH_CREDENTIAL_KEYS="the-first-key-of-this-server")
    assert "secret-0,secret-1,secret-2" in server.shell(READ)
