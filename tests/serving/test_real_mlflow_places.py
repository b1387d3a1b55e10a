"""MLflow behind a token and a private authority, and models whose files it has in S3."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.jobs.test_real_outputs import berth
from tests.loaders.test_real_load import portal_open_to
from tests.support import mlflow as servers
from tests.support.certificates import Authority
from tests.support.mlflow import Mlflow
from tests.support.portal import Portal
from tests.support.store_fixtures import begun
from tests.support.store_front import Answer, Front, Request
from tests.support.stores import RcloneS3

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.long("two servers and a front; MLflow with sign-in: test_real_mlflow.py"),
]
TOKEN = f"of-tests-{secrets.token_hex(8)}"
SHELF = "projects/demo/credentials"


@pytest.fixture(scope="module")
def mlflow() -> Iterator[Mlflow]:
    with servers.begun(signs_in=False) as server:
        yield server


@pytest.fixture(scope="module")
def store() -> Iterator[RcloneS3]:
    server = begun(RcloneS3)
    assert isinstance(server, RcloneS3)
    with server:
        yield server


def token_asked(request: Request) -> Answer | None:
    said = {name.lower(): value for name, value in request.headers.items()}.get("authorization")
    return None if said == f"Bearer {TOKEN}" else Answer(401, b"{}")


@pytest.fixture(scope="module")
def front(mlflow: Mlflow) -> Iterator[tuple[Front, Authority]]:
    """What stands before MLflow: https by an authority that no system knows."""
    authority = Authority(mlflow.folder)
    mlflow.folder.chmod(0o755)
    authority.certificate.chmod(0o644)
    with Front(mlflow.port, rules=[token_asked], tls=authority.context()) as before:
        yield before, authority


@pytest.fixture(scope="module")
def portal(store: RcloneS3, front: tuple[Front, Authority]) -> Iterator[Portal]:
    before, authority = front
    opened = store.outbound()
    opened["allow"] += [f"127.0.0.0/8:{before.port}"]
    opened["ports"] += [before.port]
    trusted = str(authority.certificate)
    with portal_open_to(opened, BERTH_OUTBOUND_CA_FILE=trusted) as running:
        yield running


def imported(portal: Portal, what: str, *words: str) -> dict[str, Any]:
    done = berth(portal, "model", "import", what, *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return dict(found[0] if isinstance(found, list) else found)


def test_a_token_a_private_authority_and_files_in_s3(
    portal: Portal, mlflow: Mlflow, store: RcloneS3, front: tuple[Front, Authority]
) -> None:
    before, _authority = front
    mlflow.log("iris", 0.97)
    bucket = store.make_bucket(f"mlflow-{secrets.token_hex(4)}")
    logged = next(mlflow.data.rglob("artifacts/**/MLmodel")).parent
    shutil.copytree(logged, store.data / bucket / "iris")
    api = f"{mlflow.url}/api/2.0/mlflow"
    version = {"name": "away", "source": f"s3://{bucket}/iris"}
    for path, said in (
        ("registered-models/create", {"name": "away"}),
        ("model-versions/create", version),
    ):
        assert httpx.post(f"{api}/{path}", json=said).status_code == 200

    with portal.api(portal.token("admin")) as client:
        server = {"kind": "mlflow", "endpoint": before.url}
        for name, token in (("team", TOKEN), ("wrong", "another-token")):
            made = client.post(SHELF, json={**server, "name": name, "password": token})
            assert made.status_code == 201, made.text
        lake = {"kind": "s3-compatible", "name": "lake", "endpoint": store.url}
        lake |= {"region": "us-east-1", "path_style": True}
        lake |= {"access_key": store.keys.access, "secret_key": store.keys.secret}
        assert client.post(SHELF, json=lake).status_code == 201
        client.post("projects/demo/models", json={"name": "x"})
        refused = client.post(
            "projects/demo/models/x/versions", json={"origin": "mlflow:wrong/iris/1"}
        )
        assert (refused.status_code, "does not accept" in refused.text) == (409, True), refused.text

    by_token = imported(portal, "team/iris/1")
    assert (by_token["files"], by_token["framework"]) == ("there", "sklearn")
    assert by_token["metrics"] == {"accuracy": 0.97}
    from_s3 = imported(portal, "team/away/1", "--credential", "lake")
    assert (from_s3["files"], from_s3["framework"]) == ("there", "sklearn")
    for row in (by_token, from_s3):
        there = portal.var / "volumes" / row["volume_id"] / row["folder"] / "model.pkl"
        assert there.read_bytes() == (logged / "model.pkl").read_bytes()
