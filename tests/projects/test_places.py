"""A project's namespace on a cluster: made when needed, put back when changed, removed last."""

from typing import Any

import pytest

from clusters import hooks as clusters
from clusters.models import Cluster
from common.clock import now
from events.models import Event
from projects import hooks, namespaces, reconciler
from projects.hooks import ContentSummary
from projects.models import Project, ProjectNamespace
from projects.services import life
from runtime import observe, ports
from runtime.protocol import Denied, Observation, Seen, Unreachable
from runtime.reasons import Reason
from tests.projects.cluster_double import KEY, TenantFake, alpha
from tests.support import driving

pytestmark = pytest.mark.django_db
__all__ = ["alpha"]


@pytest.fixture
def place(alpha: TenantFake, project: Any) -> ProjectNamespace:
    made = namespaces.place_ensure(project=project, cluster_key=KEY)
    assert made is not None
    driving.run_due()
    made.refresh_from_db()
    return made


def _watch(
    monkeypatch: pytest.MonkeyPatch, place: ProjectNamespace, version: int, **seen: Any
) -> None:
    """Let the watch say something of the place."""
    monkeypatch.setattr(observe, "is_watched", lambda _key: True)
    said = Observation(
        str(place.uid),
        seen.pop("seen", Seen.READY),
        version=version,
        kind="place",
        detail={"namespace": place.namespace, **seen},
    )
    observe.store(KEY, [said], full=False)
    driving.run_due(horizon_s=0.0)  # what waits some seconds before it repairs again is let wait


def test_a_new_project_gets_a_namespace_on_every_cluster(
    alpha: TenantFake, alice: Any, principal: Any
) -> None:
    made = life.project_create(principal=principal(alice), name="Über Sprache / 音声")
    driving.run_due()
    place = ProjectNamespace.objects.get(project=made)
    assert place.phase == "running"
    assert place.namespace in alpha.places
    assert place.namespace.startswith("berth-")


def test_a_limited_project_gets_none_elsewhere(alpha: TenantFake, project: Any) -> None:
    other = Cluster.objects.create(key="beta", name="Beta", driver="kubernetes")
    project.clusters.add(other)
    namespaces.places_ensure(project)
    assert list(ProjectNamespace.objects.values_list("cluster_key", flat=True)) == ["beta"]


def test_the_first_launch_waits_until_the_namespace_is_there(
    alpha: TenantFake, project: Any
) -> None:
    assert ports.tenant_ready(KEY, str(project.uid))
    assert ProjectNamespace.objects.count() == 1
    driving.run_due()
    assert ports.tenant_ready(KEY, str(project.uid)) is None


def test_one_machine_needs_no_place(project: Any) -> None:
    assert namespaces.place_ensure(project=project, cluster_key="local") is None
    assert ports.tenant_ready("local", str(project.uid)) is None


def test_nothing_is_written_while_nothing_changes(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = alpha.ensured
    for version in range(1, 6):
        _watch(monkeypatch, place, version)
    assert alpha.ensured == asked


def test_what_was_changed_by_hand_is_put_back_and_told_once(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha.broken = ["ResourceQuota/objects"]
    _watch(monkeypatch, place, 1, drift=["ResourceQuota/objects"])
    event = Event.objects.get(verb="place.repaired")
    assert event.message == "ResourceQuota/objects"
    assert event.project_uid == place.project.uid
    asked = alpha.ensured
    alpha.broken = ["ResourceQuota/objects"]
    _watch(monkeypatch, place, 2, drift=["ResourceQuota/objects"])
    place.refresh_from_db()
    assert alpha.ensured == asked  # again so soon: it waits some seconds
    assert place.next_reconcile_at is not None


def test_what_was_put_back_before_an_error_is_told_with_the_rest(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure, ends = alpha.ensure_tenant, Unreachable("The cluster does not answer.")
    ends.put_back = ("ResourceQuota/objects",)

    def away(_spec: Any) -> Any:
        raise ends

    monkeypatch.setattr(alpha, "ensure_tenant", away)
    both = ["LimitRange/defaults", "ResourceQuota/objects"]
    _watch(monkeypatch, place, 1, drift=both)
    place.refresh_from_db()
    assert (place.phase, place.reason) == ("running", Reason.UNREACHABLE)
    assert place.external_ref["untold"] == ["ResourceQuota/objects"]
    monkeypatch.setattr(alpha, "ensure_tenant", ensure)
    alpha.broken = both[:1]
    ProjectNamespace.objects.update(next_reconcile_at=now())
    _watch(monkeypatch, place, 2, drift=both[:1])
    assert Event.objects.get(verb="place.repaired").message == ", ".join(both)


def test_what_was_put_back_once_the_cluster_let_us_again_is_told(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_spec: Any) -> Any:
        raise Denied("no")

    with monkeypatch.context() as refused:
        refused.setattr(alpha, "ensure_tenant", refuse)
        _watch(monkeypatch, place, 1, drift=["NetworkPolicy/default-deny"])
    place.refresh_from_db()
    assert place.phase == "pending"
    alpha.broken = ["NetworkPolicy/default-deny"]
    ProjectNamespace.objects.update(next_reconcile_at=now())
    _watch(monkeypatch, place, 2, drift=["NetworkPolicy/default-deny"])
    assert Event.objects.get(verb="place.repaired").message == "NetworkPolicy/default-deny"


def test_what_keeps_projects_apart_is_put_back_at_once_however_often(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = alpha.ensured
    for version in range(1, 12):
        alpha.broken = ["NetworkPolicy/default-deny"]
        _watch(monkeypatch, place, version, drift=["NetworkPolicy/default-deny"])
    assert alpha.ensured == asked + 11
    told = Event.objects.filter(verb="place.repaired")
    assert told.count() == 1  # told more rarely
    place.refresh_from_db()
    ref = place.external_ref
    long_ago = [at - reconciler.PAUSE_S for at in ref["repairs"]]
    ProjectNamespace.objects.update(external_ref={**ref, "repairs": long_ago})
    _watch(monkeypatch, place, 12, drift=[])
    assert [one.message for one in told] == ["NetworkPolicy/default-deny"] * 2
    _watch(monkeypatch, place, 13, drift=[])
    assert told.count() == 2


def test_a_policy_of_others_that_opens_pods_is_told_once_and_left_alone(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = alpha.ensured, Event.objects.filter(verb="place.opened")
    _watch(monkeypatch, place, 1, drift=[], foreign=["NetworkPolicy/open-all"])
    _watch(monkeypatch, place, 2, drift=[], foreign=["NetworkPolicy/open-all"])
    event = told.get()
    assert (event.message, event.project_uid) == ("NetworkPolicy/open-all", place.project.uid)
    assert alpha.ensured == asked
    _watch(monkeypatch, place, 3, drift=[], foreign=[])
    _watch(monkeypatch, place, 4, drift=[], foreign=["NetworkPolicy/open-all"])
    assert told.count() == 2


def test_e1_what_a_worker_without_its_lease_wrote_is_put_right(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is missing of what its note names: that note is of an older row."""
    made = alpha.places[place.namespace]
    asked = alpha.ensured
    _watch(monkeypatch, place, 1, mark=made.mark)
    assert (made.mark, alpha.ensured) == (place.external_ref["spec"], asked)
    _watch(monkeypatch, place, 2, mark="of an older row")
    assert alpha.ensured == asked + 1
    assert alpha.places[place.namespace].mark == made.mark
    assert not Event.objects.filter(verb="place.repaired").exists()  # a mark is nobody's hand
    _watch(monkeypatch, place, 3, mark=made.mark)
    assert alpha.ensured == asked + 1


def test_a_namespace_deleted_by_hand_is_made_again(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha.places.clear()
    _watch(monkeypatch, place, 1, seen=Seen.MISSING)
    assert place.namespace in alpha.places
    assert Event.objects.filter(verb="place.repaired").count() == 1


def test_changed_options_are_applied_to_every_namespace(
    alpha: TenantFake, place: ProjectNamespace
) -> None:
    asked = alpha.ensured
    alpha.options = "options 2"
    clusters.cluster_changed(KEY)
    place.refresh_from_db()
    assert place.next_reconcile_at is not None  # after the workers have heard of it
    ProjectNamespace.objects.update(next_reconcile_at=place.created_at)
    driving.run_due()
    assert alpha.ensured == asked + 1
    assert not Event.objects.filter(verb="place.repaired").exists()


def test_what_was_changed_by_hand_is_told_when_more_is_wanted_in_the_same_moment(
    alpha: TenantFake, place: ProjectNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the watch has not said so yet."""
    alpha.options = "options 2"
    alpha.broken = ["ResourceQuota/objects"]
    _watch(monkeypatch, place, 1, drift=[])
    assert Event.objects.get(verb="place.repaired").message == "ResourceQuota/objects"


def test_a_deleted_project_goes_with_its_namespace_after_all_that_is_in_it(
    alpha: TenantFake, place: ProjectNamespace, alice: Any, principal: Any, monkeypatch: Any
) -> None:
    left = [ContentSummary("workspace", "1 workspace", 1)]
    source = hooks.Source(lambda _p: left, lambda _p, _w: None)
    monkeypatch.setitem(hooks._sources, "test", source)
    life.project_request_delete(principal=principal(alice), project=place.project, confirm="vision")
    driving.run_due()
    place.refresh_from_db()
    assert place.phase == "deleting"
    assert place.namespace in alpha.places
    left.clear()
    alpha.ending = 2
    driving.run_due()
    assert alpha.places == {}
    assert Project.objects.get(pk=place.project_id).deleted_at is not None


def test_a_detached_cluster_takes_its_places_along(place: ProjectNamespace) -> None:
    Cluster.objects.filter(key=KEY).delete()
    clusters.cluster_changed(KEY)
    place.refresh_from_db()
    assert place.deleted_at is not None


class TestClustersOfAProject:
    API = "/api/v1/projects/vision/clusters"

    def test_an_operator_limits_it_by_api_and_page(
        self, alpha: TenantFake, project: Any, operator: Any, as_user: Any
    ) -> None:
        Cluster.objects.create(key="beta", name="Beta", driver="kubernetes")
        client = as_user(operator)
        done = client.put(self.API, {"clusters": ["beta"]}, content_type="application/json")
        assert done.status_code == 200, done.content
        assert namespaces.place_ensure(project=project, cluster_key="beta")
        assert [w["cluster"] for w in client.get("/api/v1/projects/vision/places").json()] == [
            "beta"
        ]
        assert Event.objects.get(verb="project.clusters-changed").message == "beta"
        assert "Beta" in client.get("/projects/vision/settings").content.decode()
        client.post("/projects/vision/clusters", {"clusters": []})
        assert client.get(self.API).json() == {"clusters": []}

    def test_members_see_it_and_do_not_change_it(
        self, alpha: TenantFake, project: Any, alice: Any, as_user: Any
    ) -> None:
        client = as_user(alice)
        assert client.get(self.API).json() == {"clusters": []}
        done = client.put(self.API, {"clusters": [KEY]}, content_type="application/json")
        assert done.status_code == 403
        assert 'id="reach"' not in client.get("/projects/vision/settings").content.decode()

    def test_an_unknown_cluster_is_refused_by_name(
        self, alpha: TenantFake, project: Any, operator: Any, as_user: Any
    ) -> None:
        done = as_user(operator).put(
            self.API, {"clusters": ["nowhere"]}, content_type="application/json"
        )
        assert done.status_code == 400
        assert "clusters" in done.json()["fields"]
