"""A portal that runs inside the cluster it uses: by the operator's settings only."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from accounts.models import User
from clusters import installed
from clusters.checks import simple
from clusters.models import Cluster
from clusters.registry import access_of
from common.clock import now
from common.errors import Invalid
from projects.models import ProjectNamespace
from runtime.drivers.kubernetes.access import Bearer, own_access
from tests.clusters.probing import Api, bench, subject


def mounted(folder: Path, token: str = "first") -> Path:
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    return folder


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    monkeypatch.setattr("runtime.drivers.kubernetes.access.MOUNT", tmp_path)
    return tmp_path


def test_the_row_is_made_once_and_follows_the_operators_settings(db: None, settings: Any) -> None:
    settings.BERTH_IN_CLUSTER = "here"
    settings.BERTH_IN_CLUSTER_OPTIONS = {"run_as_user": 2000}
    first = installed.ensure_in_cluster()
    assert first is not None
    assert (first.driver, first.options["run_as_user"]) == ("kubernetes", 2000)
    assert not first.is_attached, "nobody can detach or repaste it"
    revision = first.revision
    assert installed.ensure_in_cluster() == first
    assert Cluster.objects.get(key="here").revision == revision
    settings.BERTH_IN_CLUSTER_OPTIONS = {"run_as_user": 3000}
    installed.ensure_in_cluster()
    assert Cluster.objects.get(key="here").revision == revision + 1


def test_without_the_setting_there_is_no_such_row(db: None) -> None:
    assert installed.ensure_in_cluster() is None
    assert not Cluster.objects.filter(driver="kubernetes").exists()


def test_the_first_project_has_its_place_there_from_the_start(db: None, settings: Any) -> None:
    """Whoever is first, the worker or the bootstrap: the row is there before the project."""
    settings.BERTH_IN_CLUSTER = "here"
    settings.BERTH_ADMIN_PASSWORD = "chosen by the operator"
    call_command("berth_bootstrap")
    place = ProjectNamespace.objects.get(project__slug="demo")
    assert place.cluster_key == "here"
    assert User.objects.get(username="admin").check_password("chosen by the operator")


def test_changed_options_apply_the_projects_namespaces_anew(db: None, settings: Any) -> None:
    settings.BERTH_IN_CLUSTER = "here"
    call_command("berth_bootstrap")
    ProjectNamespace.objects.update(next_reconcile_at=None)
    installed.ensure_in_cluster()
    assert ProjectNamespace.objects.get().next_reconcile_at is None
    settings.BERTH_IN_CLUSTER_OPTIONS = {"internet": False}
    installed.ensure_in_cluster()
    assert ProjectNamespace.objects.get().next_reconcile_at is not None


def test_changed_options_are_checked_at_once(db: None, settings: Any) -> None:
    settings.BERTH_IN_CLUSTER = "here"
    installed.ensure_in_cluster()
    Cluster.objects.update(checks_ran_at=now())
    settings.BERTH_IN_CLUSTER_NAME = "Our own"
    installed.ensure_in_cluster()
    assert Cluster.objects.get(key="here").checks_asked_at is None
    settings.BERTH_IN_CLUSTER_OPTIONS = {"internet": False}
    installed.ensure_in_cluster()
    row = Cluster.objects.get(key="here")
    assert row.checks_asked_at is not None
    assert row.checks_ran_at is not None
    assert row.checks_asked_at > row.checks_ran_at


def test_options_that_make_no_sense_stop_the_start_with_a_sentence(db: None, settings: Any) -> None:
    settings.BERTH_IN_CLUSTER = "here"
    settings.BERTH_IN_CLUSTER_OPTIONS = {"volume_kind": "floppy"}
    with pytest.raises(Invalid):
        installed.ensure_in_cluster()


def test_only_the_own_cluster_gets_the_mounted_identity(db: None, settings: Any, pod: Path) -> None:
    mounted(pod)
    settings.BERTH_IN_CLUSTER = "here"
    own = installed.ensure_in_cluster()
    other = Cluster.objects.create(key="other", name="other", driver="kubernetes")
    assert own is not None
    assert access_of(own).server == "https://10.96.0.1:443"
    assert access_of(other) is None


def test_a_process_without_a_mounted_token_has_no_identity(
    db: None, settings: Any, pod: Path
) -> None:
    settings.BERTH_IN_CLUSTER = "here"
    own = installed.ensure_in_cluster()
    assert own is not None
    assert access_of(own) is None


def test_a_rotated_token_is_read_again_after_a_refusal(pod: Path) -> None:
    mounted(pod)
    access = own_access()
    assert access is not None
    bearer = Bearer(access)
    assert bearer.headers() == {"Authorization": "Bearer first"}
    (pod / "token").write_text("second")
    assert bearer.refused()
    assert bearer.headers() == {"Authorization": "Bearer second"}
    assert "second" not in repr(access)


URL = "https://api.example.org:6443"


@pytest.mark.parametrize(
    ("own", "url", "state"),
    [("c", "", "unknown"), ("c", URL, "green"), ("another", "", "green"), ("", URL, "green")],
)
def test_the_self_check_says_where_people_get_no_kubeconfig(
    settings: Any, own: str, url: str, state: str
) -> None:
    settings.BERTH_IN_CLUSTER = own
    api, options = Api(), {"kube_api_url": url}
    asked = subject(api, **options)
    asked.cluster.options = options
    found = simple.kubectl(asked, bench(api))
    assert (found.state, found.failed, api.asked) == (state, False, [])
    assert ("kube_api_url" in found.fix) == (state == "unknown")
