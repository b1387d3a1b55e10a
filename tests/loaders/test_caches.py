"""A cache of a source: made once for a project, found again, near a pool, gone at once (G7)."""

import json

import pytest

from clusters.models import Cluster, Pool
from clusters.services import ensure_local_cluster
from common.errors import Invalid, LimitExceeded
from loaders.kind import LOAD
from loaders.models import Load
from loaders.runtime_spec import workload_spec
from loaders.services import load_create, load_ensure
from loaders.ui.form import load_form
from quotas.models import Limit
from runtime.drivers.kubernetes.options import KubernetesOptions
from tests.drivers.kubernetes.pieces import built as job
from tests.notebooks.cluster_world import attach, pool
from volumes.models import ClassPlace, Volume
from volumes.services.classes import default_class
from volumes.services.create import NewVolume, volume_create
from volumes.services.removal import volume_bring_back, volume_delete
from work.services import launch, resolve, workload_plan

BASE = "/api/v1/projects/vision/loads"
URL = "s3://bucket/sets/Images"
GIB = 1024


@pytest.fixture
def cache(load):
    """Load the source into its cache as somebody."""

    def make(user, volume="cache:", size=GIB, **more):
        return load(user, URL, volume=volume, cache_size_mib=size, **more)

    return make


@pytest.fixture
def east(monkeypatch) -> Cluster:
    """A cluster with the pools "east" and "west"; its storage stands near the first."""
    cluster = attach(monkeypatch, options={"data_image": "registry.example.org/data:1"})
    first, _other = pool(cluster, "east"), pool(cluster, "west")
    kind = default_class("gpu")
    ClassPlace.objects.get(volume_class=kind, cluster=cluster).near.add(first)
    return cluster


def caches():
    return Volume.objects.exclude(cache_mark="")


def test_the_first_load_makes_it_and_runs_into_it(cache, alice, settle):
    row = settle(cache(alice))
    made = caches().get()
    assert row.volume == made
    assert (made.name, made.size_limit_mib, made.kind) == ("cache-bucket-sets-images", GIB, "data")
    assert (made.cache_of, made.created_by) == (URL, alice)
    assert made.phase == row.phase == "running"


def test_who_loads_the_same_source_finds_it_whoever_made_it(cache, alice, bob):
    first, second = cache(alice), cache(bob, size=None)
    assert first.volume == second.volume
    assert caches().count() == 1


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("s3://bucket/sets", {}),
        ("s3://other/sets/Images", {}),
        ("gs://bucket/sets/Images", {}),
        (URL, {"version": "2"}),
        (URL, {"endpoint": "https://store.example.org"}),
    ],
)
def test_another_source_or_version_is_another_cache(cache, load, alice, url, more):
    first = cache(alice)
    other = load(alice, url, volume="cache:", cache_size_mib=GIB, **more)
    assert other.volume != first.volume
    assert caches().count() == 2


def test_the_store_of_a_credential_belongs_to_the_source(cache, credential, alice):
    here, there = credential("here"), credential("there", target="elsewhere.example.org")
    again = credential("again")  # another key of the same store
    volumes = [cache(alice, credential=str(c.uid)).volume for c in (here, there, again)]
    assert volumes[0] != volumes[1]
    assert volumes[0] == volumes[2]


def test_of_two_who_press_at_once_one_makes_it(cache, project, principal, alice, bob, monkeypatch):
    """Bob's description was made before Alice's cache was there."""
    wanted = {"url": URL, "volume": "cache:", "cache_size_mib": 2 * GIB}
    ensure_local_cluster()
    early = resolve.resolved(principal=principal(bob), project=project, kind=LOAD, said=wanted)
    first = cache(alice)
    monkeypatch.setattr(launch, "resolved", lambda **_said: early)
    second = load_create(principal=principal(bob), project=project, said=wanted)
    assert second.volume == first.volume
    assert caches().count() == 1


def test_a_load_that_is_there_is_shared(cache, project, principal, alice, bob):
    row = cache(alice)
    wanted = {"url": URL, "volume": "cache:"}
    assert load_ensure(principal=principal(bob), project=project, said=wanted) == row


def test_a_pinned_one_lies_on_storage_near_the_pool(cache, east, alice):
    anywhere, pinned = cache(alice), cache(alice, "cache:east")
    assert (anywhere.volume.cluster_key, pinned.volume.cluster_key) == ("local", "gpu")
    assert (pinned.cluster_key, pinned.volume.volume_class) == ("gpu", default_class("gpu"))
    assert cache(alice, "cache:east", size=None).volume == pinned.volume


def test_the_form_names_the_cluster_of_a_volume_where_there_are_several(
    cache, east, project, principal, alice
):
    Cluster.objects.filter(pk=east.pk).update(name="Rack one")
    for row in (cache(alice), cache(alice, "cache:east")):
        Volume.objects.filter(pk=row.volume_id).update(name=f"on-{row.volume.cluster_key}")
    named = dict(load_form(principal(alice), project, row=Load()).fields["volume"].choices)
    assert "on-gpu (Rack one)" in named.values()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"volume": "cache:west", "cache_size_mib": GIB}, "volume"),  # nothing stands near it
        ({"volume": "cache:nowhere", "cache_size_mib": GIB}, "volume"),
        ({"volume": "cache:", "cache_size_mib": None}, "cache_size_mib"),
        ({"volume": "cache:", "cache_size_mib": 1}, "cache_size_mib"),
        ({"volume": "cache:", "cache_size_mib": GIB, "folder": "a"}, "folder"),
        ({"volume": "cache:", "cache_size_mib": GIB, "direction": "out"}, "volume"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_field(load, east, alice, said, field):
    with pytest.raises(Invalid) as refused:
        load(alice, URL, **said)
    assert list(refused.value.fields) == [field]
    assert not caches().exists()
    assert not Load.objects.exists()


def test_its_job_is_drawn_to_where_it_is_to_stand(cache, east, alice, project):
    row = cache(alice, "cache:east")
    made = job(workload_spec(row), KubernetesOptions())["spec"]["template"]["spec"]["affinity"]
    carries = [{"key": "pool", "operator": "In", "values": ["east"]}]
    assert made["nodeAffinity"] == {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": carries}}
        ]
    }


@pytest.mark.parametrize("reserved", [{"kinds": ["notebook"]}, {"project_uids": ["another"]}])
def test_its_job_is_not_drawn_into_a_pool_that_is_for_others(cache, east, alice, reserved):
    row = cache(alice, "cache:east")
    Pool.objects.filter(name="east").update(**reserved)
    assert workload_spec(row).placement.near == ()


def test_a_pool_of_other_projects_is_the_same_as_none(cache, east, alice, operator):
    row = cache(alice, "cache:east")
    near = row.volume.volume_class.places.get().near.get()
    near.project_uids = [str(operator.uid)]
    near.save()
    with pytest.raises(Invalid):
        cache(alice, "cache:east")


def test_the_plan_says_what_is_made_first_and_makes_nothing(project, principal, alice, east):
    wanted = {"url": URL, "volume": "cache:east", "cache_size_mib": 2048}
    plan = workload_plan(principal=principal(alice), project=project, kind=LOAD, said=wanted)
    assert plan.allowed
    made = (
        "The cache “cache-bucket-sets-images” of 2\N{NO-BREAK SPACE}GiB is made first, near east."
    )
    assert made in plan.warnings
    assert "“cache-bucket-sets-images/Images”" in plan.sentences[0]
    said = {change.field: change.after for change in plan.changes}
    assert said["volume"] == "cache:east"
    assert not caches().exists()
    load_create(principal=principal(alice), project=project, said=wanted)
    plan = workload_plan(principal=principal(alice), project=project, kind=LOAD, said=wanted)
    assert {c.field: c.after for c in plan.changes}["volume"] == "cache-bucket-sets-images"
    assert plan.same is not None


def test_a_limit_on_storage_refuses_it_in_the_plan_and_the_act(cache, project, principal, alice):
    Limit.objects.create(project=project, resource="storage_mib", amount=GIB)
    wanted = {"url": URL, "volume": "cache:", "cache_size_mib": 2048}
    plan = workload_plan(principal=principal(alice), project=project, kind=LOAD, said=wanted)
    assert not plan.allowed
    with pytest.raises(LimitExceeded):
        cache(alice, size=2048)
    assert not caches().exists()


def test_a_cache_is_dropped_without_days_of_undo_and_made_again(
    cache, end, settle, principal, alice
):
    row = cache(alice)
    settle(row)
    end(row)
    gone = row.volume
    volume_delete(principal=principal(alice), volume=gone)
    gone.refresh_from_db()
    assert gone.delete_after is None
    assert not gone.can_be_brought_back
    settle(gone)
    assert gone.deleted_at is not None
    again = cache(alice, name="again")
    assert again.volume != gone
    assert again.volume.name == gone.name


def test_another_volume_keeps_its_days_of_undo(project, principal, alice):
    ensure_local_cluster()
    wanted = NewVolume("plain", GIB)
    made = volume_create(principal=principal(alice), project=project, wanted=wanted)
    row = volume_delete(principal=principal(alice), volume=made)
    assert row.delete_after is not None
    assert volume_bring_back(principal=principal(alice), volume=row).desired == "running"


def test_a_file_may_name_it_and_is_applied_twice(as_user, project, alice, east):
    client = as_user(alice)
    spec = {"url": URL, "credential": None, "volume": "cache:east", "cache_size_mib": GIB}
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "Load",
        "metadata": {"name": "images", "project": "vision"},
        "spec": spec,
    }

    def apply(path="apply"):
        body = json.dumps(document)
        return client.post(f"{BASE}/{path}", body, content_type="application/json")

    first = apply()
    assert first.status_code in {200, 201, 202}, first.content
    assert apply("apply?plan=1").json()["action"] == "none"
    assert apply().json()["id"] == first.json()["id"]
    spec["volume"] = "cache:west"  # it stands near another pool
    assert apply().status_code == 400


def test_the_page_offers_it_and_asks_for_its_size_at_the_field(as_user, project, alice, east):
    client = as_user(alice)
    page = "/projects/vision/loads/new/"
    text = client.get(page).content.decode()
    for words in ('value="cache:"', 'value="cache:east"', "near east"):
        assert words in text
    assert "cache:west" not in text
    form = {"url": URL, "credential": "", "volume": "cache:east", "start": "load"}
    refused = client.post(page, form)
    assert refused.status_code == 422
    told = refused.content.decode()
    assert told.index("say how large it becomes") < told.index("More options")  # in sight
    assert client.post(page, {**form, "cache_size": "1.5"}).status_code == 302
    made = caches().get()
    assert made.size_limit_mib == 1536
    shown = client.get(made.get_absolute_url()).content.decode()
    assert "Cache of" in shown
    assert URL in shown
    settings = client.get(f"{made.get_absolute_url()}settings/").content.decode()
    assert "can be loaded again" in settings or "mounted" in settings


def test_the_foot_writes_the_same_thing_down(as_user, project, alice, east):
    form = {"url": URL, "credential": "", "volume": "cache:east", "cache_size": "1"}
    page = as_user(alice).post("/projects/vision/loads/new/plan/", form).content.decode()
    assert "volume: cache:east" in page
    assert "cache_size_mib: 1024" in page
    assert "--volume cache:east --cache-size 1G" in page.replace("\n", " ")
    assert not caches().exists()
