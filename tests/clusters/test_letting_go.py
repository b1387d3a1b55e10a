"""Letting go of a cluster: files stay and are listed; a dead one can be forgotten."""

from datetime import timedelta
from typing import Any

import pytest

from clusters.models import Cluster
from common.clock import now
from events.models import Event
from notebooks.models import Workspace
from projects.models import Project, ProjectNamespace
from quotas.models import Reservation
from runtime.models import Route
from runtime.protocol import Unreachable
from tests.architecture.world import build
from tests.projects.cluster_double import KEY, TenantFake, alpha
from tests.support import driving
from volumes.models import Volume
from volumes.services import create

pytestmark = pytest.mark.django_db
__all__ = ["alpha"]
API = f"/api/v1/clusters/{KEY}"


@pytest.fixture
def attached(alpha: TenantFake) -> Cluster:
    Cluster.objects.filter(key=KEY).update(attached_at=now(), checked_at=now())
    return Cluster.objects.get(key=KEY)


@pytest.fixture
def home(attached: Cluster, project: Any, alice: Any, principal: Any) -> Volume:
    """Somebody's home there, as full as it was measured last."""
    made = create.home_ensure(
        principal=principal(alice), project=project, owner=alice, cluster_key=KEY
    )
    driving.run_due()
    Volume.objects.filter(pk=made.pk).update(used_bytes=7, size_limit_mib=2048)
    return Volume.objects.get(pk=made.pk)


def dies(monkeypatch: pytest.MonkeyPatch, driver: TenantFake) -> None:
    """It does not answer from now on, and that was seen."""
    for name in ("remove_tenant", "remove_volume", "remove", "observe", "ensure_tenant", "stop"):
        monkeypatch.setattr(driver, name, _silence)
    Cluster.objects.filter(key=KEY).update(reachable=False, checked_at=now())


def _silence(*_args: Any, **_more: Any) -> Any:
    raise Unreachable("No route to host.")


def test_a_cluster_with_homes_is_detached_and_it_is_said_where_the_files_are(
    home: Volume, as_user: Any, operator: Any, alpha: TenantFake
) -> None:
    answer = as_user(operator).delete(f"{API}?confirm=Alpha")
    assert answer.status_code == 200, answer.content
    told = {row["name"]: row for row in answer.json()["left"]}[home.name]
    assert (told["kind"], told["project"], told["cluster"]) == ("volume", "vision", KEY)
    assert told["namespace"].startswith("berth-")
    assert str(home.uid)[:8] in told["object"]
    assert (told["size_mib"], told["used_bytes"]) == (2048, 7)
    assert not Cluster.objects.filter(key=KEY).exists()
    home.refresh_from_db()
    assert home.deleted_at is not None
    assert alpha.volume_usage(str(home.uid)) is not None  # the driver was never asked to remove it
    whole = Event.objects.get(verb="cluster.detached").data["left"]
    assert told in whole
    of_project = Event.objects.get(verb="cluster.left-there", project_uid=home.project.uid)
    assert told in of_project.data["left"]
    assert not Reservation.objects.filter(workload_uid=home.uid).exists()


def test_a_cluster_that_answers_is_not_forgotten_and_its_work_is_in_the_way(
    home: Volume, as_user: Any, operator: Any, project: Any, alice: Any
) -> None:
    build(project, alice)
    Workspace.objects.update(cluster_key=KEY)
    op = as_user(operator)
    refused = op.delete(f"{API}?confirm=Alpha")
    assert (refused.status_code, list(refused.json()["there"])) == (409, ["workspace"])
    assert op.delete(f"{API}?confirm=Alpha&forget=true").status_code == 409
    assert Cluster.objects.filter(key=KEY).exists()


def test_a_dead_cluster_is_forgotten_with_all_that_was_there(
    home: Volume,
    as_user: Any,
    operator: Any,
    project: Any,
    alice: Any,
    alpha: TenantFake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build(project, alice)
    Workspace.objects.update(cluster_key=KEY)
    work = Workspace.objects.get()
    Route.objects.create(key="/x/", uid=work.uid, target="10.0.0.1:1")
    dies(monkeypatch, alpha)
    op = as_user(operator)
    page = op.get(f"/console/clusters/{KEY}/").content.decode()
    assert "Forget this cluster" in page
    refused = op.delete(f"{API}?confirm=Alpha")
    assert refused.status_code == 409
    assert "forget it" in refused.json()["detail"]
    assert op.delete(f"{API}?confirm=wrong&forget=true").status_code == 400
    answer = op.delete(f"{API}?confirm=Alpha&forget=true")
    assert answer.status_code == 200, answer.content
    kinds = {row["kind"] for row in answer.json()["left"]}
    assert {"volume", "workspace"} <= kinds
    for row in (work, home):
        row.refresh_from_db()
        assert (row.phase, row.next_reconcile_at) == ("deleted", None)
    assert not Route.objects.exists()
    assert not ProjectNamespace.objects.filter(cluster_key=KEY, deleted_at=None).exists()
    assert Event.objects.get(verb="cluster.forgotten").data["left"] == answer.json()["left"]


def delete(client: Any, project: Project, ago: timedelta) -> None:
    url = f"/api/v1/projects/{project.slug}?confirm={project.slug}"
    answer = client.delete(url)
    assert answer.status_code in {202, 204}, answer.content
    driving.run_due()
    Project.objects.filter(pk=project.pk).update(phase_since=now() - ago, next_reconcile_at=now())
    driving.run_due(horizon_s=0.0)
    project.refresh_from_db()


def test_a_project_is_deleted_while_a_cluster_is_silent_and_cleaned_when_it_is_back(
    home: Volume,
    as_user: Any,
    alice: Any,
    operator: Any,
    project: Any,
    alpha: TenantFake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as during:
        dies(during, alpha)
        delete(as_user(alice), project, timedelta(seconds=1))
        assert project.deleted_at is None  # a moment's silence is waited for
        delete(as_user(alice), project, timedelta(minutes=2))
        assert project.deleted_at is not None
    told = Event.objects.get(verb="project.left-behind")
    assert home.name in {row["name"] for row in told.data["left"]}
    page = as_user(operator).get(f"/console/clusters/{KEY}/").content.decode()
    assert project.name in page
    assert alpha.volume_usage(str(home.uid)) is not None
    Volume.objects.update(next_reconcile_at=now())
    ProjectNamespace.objects.update(next_reconcile_at=now())
    driving.run_due()
    driving.run_due()
    assert alpha.volume_usage(str(home.uid)) is None
    assert alpha.places == {}
    assert not ProjectNamespace.objects.filter(deleted_at=None).exists()
