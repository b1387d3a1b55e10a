"""Any cluster's kubeconfig will do for what needs the API alone; the rest is left out by name."""

import base64
from pathlib import Path

import pytest
import yaml

from devcluster import state
from devcluster.kube import Kube
from runtime.drivers.kubernetes import kubeconfig
from tests.drivers.kubernetes.stub import Stub
from tests.support import cluster_state as support
from tests.support.plain_kubeconfig import plain

Skipped = pytest.skip.Exception


def document(**user):
    """As kind writes one, with a second cluster beside it."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {"name": "other", "cluster": {"server": "https://other.example.org"}},
            {
                "name": "kind-a",
                "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "ca.pem"},
            },
        ],
        "users": [{"name": "kind-a", "user": user or {"token": "good"}}],
        "contexts": [{"name": "kind-a", "context": {"cluster": "kind-a", "user": "kind-a"}}],
        "current-context": "kind-a",
    }


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """KUBECONFIG as YAML with its certificate in a file, and nothing else known."""
    stub = Stub(tmp_path)
    (tmp_path / "ca.pem").write_text(stub.ca)
    made = document()
    made["clusters"][1]["cluster"]["server"] = f"https://127.0.0.1:{stub.port}"
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(made))
    for name in ("BERTH_TEST_CLUSTER", "BERTH_TEST_CLUSTER_WORD", "BERTH_TEST_CLUSTER_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr(state, "read", lambda _layout: None)
    monkeypatch.setattr("shutil.which", lambda _name: None)  # no kubectl on the path
    support._alone.cache_clear()
    yield stub
    support._alone.cache_clear()
    stub.stop()


def test_the_tests_client_and_the_drivers_parser_read_it(alone):
    alone.put("/api/v1/namespaces", {"metadata": {"name": "default"}})
    found = support.cluster_state()
    kube = Kube(Path(found["kubeconfig"]))
    assert [row["metadata"]["name"] for row in kube.list("v1", "Namespace")] == ["default"]
    kube.close()
    access = kubeconfig.parse(Path(found["kubeconfig"]).read_text())
    assert (access.token, access.ca_pem) == ("good", alone.ca)


@pytest.mark.parametrize("name", ["host", "images", "registry", "volumes", "programs", "node"])
def test_what_is_not_known_leaves_the_test_out_by_name(alone, name):
    with pytest.raises(Skipped, match=f"“{name}”"):
        support.cluster_state()[name]


def test_an_image_may_be_named(alone, monkeypatch):
    monkeypatch.setenv("BERTH_TEST_CLUSTER_IMAGE", "python:3.13-slim")
    found = support.cluster_state()
    assert found["images"]["tool"]["reference"] == "python:3.13-slim"
    with pytest.raises(Skipped, match="jupyterlab"):
        found["images"]["jupyterlab"]


def test_certificates_in_files_are_taken_along(tmp_path):
    for name in ("ca.pem", "user.crt", "user.key"):
        (tmp_path / name).write_text(name)
    given = {"client-certificate": "user.crt", "client-key": "user.key"}
    user = plain(document(**given), tmp_path)["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == b"user.key"
    assert set(user) == {"client-certificate-data", "client-key-data"}


def test_a_user_who_signs_in_by_a_program_is_left_out(tmp_path):
    with pytest.raises(Skipped, match="exec"):
        plain(document(exec={"command": "aws"}), tmp_path)
