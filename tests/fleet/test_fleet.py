"""Every GPU at a glance: who sees which, under which names, and how many questions that costs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from clusters.models import Cluster, Node
from common.clock import now
from common.ids import new_uid
from fleet.counts import counts
from fleet.render import FOREIGN, FREE, drawn
from fleet.selectors import Filters, look
from jobs.models import Job
from metrics.models import DeviceReading, Sample
from metrics.rollups import MINUTE, roll_up
from projects.models import Membership, Project
from tests.support.devices import KIND, a_cluster, held, kept_pool, nodes
from tests.support.queries import fewest

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(charlie: Any) -> Project:
    made = Project.objects.create(slug="secret", name="Secret", phase="running")
    Membership.objects.create(project=made, user=charlie, role="owner")
    return made


@pytest.fixture
def east(project: Any, alice: Any, other: Project, charlie: Any) -> Cluster:
    made = a_cluster()
    held(made, nodes(made, 4), [(project, alice), (other, charlie)], 20)
    return made


def test_names_are_those_that_the_reader_may_see(
    east: Cluster, alice: Any, operator: Any, auditor: Any, principal: Any, as_user: Any
) -> None:
    fleet = look(principal(alice), Filters())
    assert fleet.devices == 32
    shown = [one for one in fleet.holders.values() if one.name]
    assert len(fleet.holders) == 20
    assert {one.project for one in shown} == {"vision"}
    assert {one.owner for one in shown} == {"Alice"}
    assert len(shown) == 10
    job = Job.objects.filter(owner=alice)[0]
    assert fleet.holders[job.uid].url == job.get_absolute_url()
    for who in (operator, auditor):
        assert {one.project for one in look(principal(who), Filters()).holders.values()} == {
            "vision",
            "secret",
        }
    for url in ("/fleet/?view=table", "/fleet/data", "/api/v1/fleet", "/fleet/"):
        body = as_user(alice).get(url).content.decode()
        assert "secret" not in body.lower(), url
        assert "charlie" not in body.lower(), url


def test_clusters_are_those_that_the_readers_projects_may_use(
    east: Cluster, alice: Any, charlie: Any, make_user: Any, project: Any, principal: Any
) -> None:
    west = a_cluster("west", "West")
    held(west, nodes(west, 1), [(project, alice)], 1)
    assert {c.key for c in look(principal(alice), Filters()).clusters} >= {"east", "west"}
    project.clusters.add(west)
    assert {c.key for c in look(principal(alice), Filters()).clusters} == {"west"}
    assert {p.cluster.key for p in look(principal(alice), Filters()).places} == {"west"}
    assert {c.key for c in look(principal(charlie), Filters()).clusters} >= {"east", "west"}
    stranger = look(principal(make_user("nobody")), Filters())
    assert (stranger.clusters, stranger.places) == ([], [])


def test_filters_narrow_and_what_is_not_there_finds_nothing(
    east: Cluster, alice: Any, other: Project, project: Any, principal: Any
) -> None:
    kept_pool(east, project.uid)
    who = principal(alice)
    assert look(who, Filters(cluster="east", kind=KIND)).devices == 32
    assert look(who, Filters(kind="a100")).devices == 0
    inside = look(who, Filters(pool="kept"))
    assert [place.reserved for place in inside.places] == [True]
    assert look(who, Filters(project="vision")).devices == 10
    assert look(who, Filters(project="secret")).devices == 0, "nothing of others can be asked for"


def test_counts_say_what_is_requested_attached_used_and_in_pieces(
    east: Cluster, alice: Any, project: Any, principal: Any
) -> None:
    DeviceReading.objects.filter(uid=None).update(utilisation=0, at=now())
    DeviceReading.objects.exclude(uid=None).update(utilisation=30, at=now())
    free = list(DeviceReading.objects.filter(uid=None).order_by("node", "device"))
    DeviceReading.objects.filter(pk=free[0].pk).update(foreign=True)
    DeviceReading.objects.filter(pk=free[1].pk).update(healthy=False)
    Job.objects.create(
        project=project,
        owner=alice,
        name="waits",
        cluster_key="east",
        phase="pending",
        reason="queued",
        gpus=4,
        gpu_flavor=KIND,
        replicas=2,
    )
    asked = Filters(cluster="east")
    made = counts(principal(alice), look(principal(alice), asked), asked)
    assert (made.supply, made.attached, made.foreign, made.free) == (32, 20, 1, 10)
    assert (made.requested, made.waiting, made.utilised) == (28, 8, 30.0)
    assert (made.out, made.unhealthy, made.unknown) == (1, 1, 0)
    ((cause),) = made.causes
    assert (cause.workloads, cause.gpus) == (1, 8)
    other = Filters(project="nobody-of-hers")
    Project.objects.create(slug=other.project, name="Other", phase="running")
    Job.objects.update(project=Project.objects.get(slug=other.project))
    assert counts(principal(alice), look(principal(alice), other), other).waiting == 0
    by_node = [p.free for p in look(principal(alice), asked).places]
    assert made.largest["host"] == max(by_node)
    assert made.largest["rack"] == made.largest["unit"] == 10
    Node.objects.update(ready=False)
    away = counts(principal(alice), look(principal(alice), asked), asked)
    assert (away.free, away.unhealthy, away.largest) == (0, 32, {})


def test_e19_a_figure_that_is_old_is_unknown_and_the_page_says_when_it_is_stale(
    east: Cluster, alice: Any, principal: Any, as_user: Any
) -> None:
    with time_machine.travel(now() + timedelta(minutes=4)):
        fleet = look(principal(alice), Filters())
        cells = [cell for place in fleet.places for cell in place.cells]
        assert {cell.utilisation for cell in cells} == {None}
        made = counts(principal(alice), fleet, Filters())
        assert (made.utilised, made.unknown) == (None, 20)
        assert fleet.is_stale
        assert "nobody has looked since" in as_user(alice).get("/fleet/").content.decode()
    Cluster.objects.filter(key="east").update(reachable=False, checked_at=now())
    assert [c.key for c in look(principal(alice), Filters()).silent] == ["east"]


def test_the_past_shows_what_each_did_in_its_minute_and_who_held_it(
    east: Cluster, alice: Any, principal: Any, as_user: Any
) -> None:
    then = (now() - timedelta(hours=3)).replace(second=0, microsecond=0)
    job = Job.objects.filter(owner=alice)[0]
    name = DeviceReading.objects.first().device  # type: ignore[union-attr]
    free = DeviceReading.objects.last().device  # type: ignore[union-attr]
    for second, rate in ((0, 20.0), (20, 60.0)):
        at = then + timedelta(seconds=second)
        Sample.objects.create(uid=job.uid, device=name, at=at, gpu_utilisation=rate)
        Sample.objects.create(uid=job.uid, at=at, gpu_utilisation=rate)
    Sample.objects.create(uid=east.uid, device=free, at=then, gpu_utilisation=0, gpu_memory_mib=0)
    roll_up(MINUTE)
    fleet = look(principal(alice), Filters(), then)
    by_name = {cell.device: cell for place in fleet.places for cell in place.cells}
    assert (by_name[name].utilisation, by_name[name].uid) == (40.0, job.uid)
    assert fleet.holders[job.uid].name == job.name
    assert by_name[free].is_free
    others = [cell for device, cell in by_name.items() if device not in {name, free}]
    assert {(cell.utilisation, cell.uid) for cell in others} == {(None, None)}
    client = as_user(alice)
    assert client.get("/fleet/data", {"at": then.isoformat()}).status_code == 200
    for bad in ("yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "2020-01-01T00:00:00Z"):
        assert client.get("/api/v1/fleet", {"at": bad}).status_code == 400, bad


def test_what_is_drawn_is_short_and_says_all(east: Cluster, alice: Any, principal: Any) -> None:
    DeviceReading.objects.filter(uid=None).update(foreign=True)
    fleet = look(principal(alice), Filters())
    found = json.loads(json.dumps(drawn(fleet)))
    cells = [c for _c, _u, _r, rows in found["groups"] for row in rows for c in row[3]]
    assert len(cells) == 32
    assert found["kinds"] == ["H100 80 GB"]
    assert {c[1] for c in cells if c[1] < 0} == {FOREIGN}
    assert FREE not in {c[1] for c in cells}
    assert found["holders"].count(None) == 10
    assert all(c[2] is None or 0 <= c[2] <= 100 for c in cells)
    assert found["groups"][0][:3] == ["East", "su-00", "rack-000"]


def test_the_api_names_each_device(east: Cluster, alice: Any, as_user: Any) -> None:
    found = as_user(alice).get("/api/v1/fleet?cluster=east").json()
    assert (found["supply"], found["attached"]) == (32, 20)
    devices = [device for node in found["nodes"] for device in node["devices"]]
    mine = [one for one in devices if one["project"] == "vision"]
    assert len(mine) == 10
    kept = DeviceReading.objects.get(device=mine[0]["device"]).since
    assert kept is not None
    told = datetime.fromisoformat(mine[0]["since"])
    assert abs((told - kept).total_seconds()) < 1
    assert {one["work_kind"] for one in mine} == {"job"}
    assert sum(one["held"] and one["work"] is None for one in devices) == 10
    assert as_user(alice).get("/api/v1/fleet?cluster=%00").status_code in {200, 400, 422}
    assert as_user(alice).get("/api/v1/fleet?cluster=nowhere").json()["supply"] == 0


def test_questions_do_not_grow_with_the_fleet(
    east: Cluster, alice: Any, charlie: Any, project: Any, other: Project, as_user: Any
) -> None:
    client = as_user(alice)
    urls = ("/fleet/", "/fleet/?view=table", "/fleet/data", "/api/v1/fleet")
    before = {url: fewest(lambda url=url: client.get(url)) for url in urls}  # type: ignore[misc]
    west = a_cluster("west", "West")
    held(west, nodes(west, 40), [(project, alice), (other, charlie)], 200)
    for n in range(5):
        made = Project.objects.create(slug=f"p{n}", name=f"P {n}", phase="running")
        Membership.objects.create(project=made, user=alice, role="member")
    after = {url: fewest(lambda url=url: client.get(url)) for url in urls}  # type: ignore[misc]
    assert after == before
    assert max(after.values()) < 40


def test_the_page_is_there_for_everyone_signed_in_and_says_when_there_is_nothing(
    make_user: Any, as_user: Any, client: Any
) -> None:
    assert client.get("/fleet/").status_code == 302
    page = as_user(make_user("new")).get("/fleet/")
    assert "No GPU is known yet" in page.content.decode()
    assert str(new_uid()) not in page.content.decode()
