"""berth kube-config and kube-credential: what kubectl runs to get a token."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime import engine
from tests.cli.conftest import read
from tests.projects.cluster_double import KEY, TenantFake, alpha

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
    engine.run_due()
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
