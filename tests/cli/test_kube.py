"""berth kube-config and kube-credential: what kubectl runs to get a token."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import read
from tests.projects.cluster_double import KEY, TenantFake, alpha
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["alpha"]


def test_a_kubeconfig_is_written_for_its_owner_only(
    alpha: TenantFake, project: Any, bob: Any, berth: Any, token_of: Any, tmp_path: Path
) -> None:
    target = tmp_path / "kubeconfig"
    done = berth("kube-config", "--name", "here", "-f", str(target), token=token_of(bob))
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    said = yaml.safe_load(target.read_text())
    plugin = said["users"][0]["user"]["exec"]
    assert plugin["command"] == "berth"
    assert said["current-context"] == f"vision@{KEY}"


def test_a_folder_that_is_missing_is_made_and_one_that_cannot_be_asks_for_nothing(
    alpha: TenantFake, project: Any, bob: Any, berth: Any, token_of: Any, tmp_path: Path
) -> None:
    secret = token_of(bob)
    target = tmp_path / "new" / "inner" / "kubeconfig"
    done = berth("kube-config", "-f", str(target), token=secret)
    assert done.exit_code == 0, done.output
    assert "current-context" in target.read_text()
    refused = [target / "below-a-file" / "x", tmp_path / "new"]
    for place in refused:
        assert berth("kube-config", "-f", str(place), token=secret).exit_code == 2
    assert len(read(berth("kube-config", "--list", "-o", "json", token=secret))) == 1


@pytest.mark.parametrize(
    "held",
    [
        "contexts: [{name: their-own}]",
        "contexts: [{name: vision@gpu}, {name: their-own}]",
        "some notes",
        "{broken",
        b"\xff\xfe",
    ],
)
def test_a_file_that_holds_something_else_is_not_replaced(
    alpha: TenantFake,
    project: Any,
    bob: Any,
    berth: Any,
    token_of: Any,
    tmp_path: Path,
    held: str | bytes,
) -> None:
    secret, target = token_of(bob), tmp_path / "config"
    before = (
        held if isinstance(held, bytes) else held.replace("vision@gpu", f"vision@{KEY}").encode()
    )
    target.write_bytes(before)
    done = berth("kube-config", "-f", str(target), token=secret)
    assert done.exit_code == 2
    assert "would be lost" in str(done.exception)
    assert target.read_bytes() == before
    assert not read(berth("kube-config", "--list", "-o", "json", token=secret))


def test_an_empty_file_and_one_of_the_same_place_are_written_again(
    alpha: TenantFake, project: Any, bob: Any, berth: Any, token_of: Any, tmp_path: Path
) -> None:
    secret, target = token_of(bob), tmp_path / "config"
    target.touch()
    for _time in range(2):
        assert berth("kube-config", "-f", str(target), token=secret).exit_code == 0
    assert yaml.safe_load(target.read_text())["current-context"] == f"vision@{KEY}"


def test_kubeconfigs_are_listed_and_taken_back_by_name_or_id(
    alpha: TenantFake, project: Any, bob: Any, alice: Any, berth: Any, token_of: Any
) -> None:
    secret = token_of(bob)
    for name in ("one", "two", "two"):
        assert berth("kube-config", "--name", name, token=secret).exit_code == 0
    assert "one" in berth("kube-config", "--list", token=secret).stdout
    rows = read(berth("kube-config", "--list", "-o", "json", token=secret))
    assert [row["name"] for row in rows] == ["two", "two", "one"]
    assert berth("kube-config", "--revoke", "two", token=secret).exit_code == 2
    assert berth("kube-config", "--revoke", "three", token=secret).exit_code == 4
    assert berth("kube-config", "--revoke", rows[2]["id"], token=token_of(alice)).exit_code == 4
    assert berth("kube-config", "--revoke", "one", token=secret).exit_code == 0
    assert berth("kube-config", "--revoke", rows[0]["id"], token=secret).exit_code == 0
    left = read(berth("kube-config", "--list", "-o", "json", token=secret))
    assert [row["id"] for row in left] == [rows[1]["id"]]


def test_who_has_too_many_is_told_where_to_take_one_back(
    alpha: TenantFake, project: Any, bob: Any, berth: Any, token_of: Any
) -> None:
    from projects.services import kube

    secret = token_of(bob)
    for _each in range(kube.MAX_LIVE):
        assert berth("kube-config", token=secret).exit_code == 0
    full = berth("kube-config", token=secret)
    assert full.exit_code == 5
    assert "--revoke" in str(full.exception)


def test_of_several_clusters_one_must_be_said(
    alpha: TenantFake, project: Any, bob: Any, berth: Any, token_of: Any
) -> None:
    from clusters.models import Cluster

    Cluster.objects.create(key="beta", name="Beta", driver="kubernetes", reachable=True)
    done = berth("kube-config", token=token_of(bob))
    assert done.exit_code == 2
    assert "alpha, beta" in str(done.exception)


def test_kubectl_gets_an_exec_credential(
    alpha: TenantFake,
    project: Any,
    bob: Any,
    berth: Any,
    token_of: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = token_of(bob)
    plugin = yaml.safe_load(berth("kube-config", token=secret).stdout)["users"][0]["user"]["exec"]
    driving.run_due()
    asked = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", json.dumps(asked))
    arguments = [a for a in plugin["args"] if not a.startswith("http")]
    arguments.remove("--server")
    said = read(berth(*arguments, token=secret))
    assert said["apiVersion"] == "client.authentication.k8s.io/v1"
    assert said["kind"] == "ExecCredential"
    assert said["status"]["token"].startswith("token-of-")
    assert said["status"]["expirationTimestamp"].endswith("Z")
    newest = read(berth("kube-credential", "--cluster", KEY, "-p", "vision", token=secret))
    assert newest["status"]["token"] == said["status"]["token"]


def test_another_version_of_the_protocol_is_refused(
    berth: Any, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"apiVersion": "client.authentication.k8s.io/v1beta1"}
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", json.dumps(asked))
    assert berth("kube-credential", "-p", "vision").exit_code == 1


def test_without_a_cluster_it_says_so(project: Any, bob: Any, berth: Any, token_of: Any) -> None:
    done = berth("kube-config", token=token_of(bob))
    assert done.exit_code == 4
