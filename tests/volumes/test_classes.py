"""Classes are operators' data; a volume keeps what it lies on whatever becomes of its class."""

import re

import pytest

from clusters.models import Cluster, Pool
from tests.volumes.conftest import API, JSON
from volumes.backing import OPTIONS, clean_options
from volumes.models import ClassPlace, Volume, VolumeClass
from volumes.services import base, create

CLASSES = "/api/v1/volume-classes"
NFS = {
    "key": "fast-nfs",
    "name": "Fast NFS",
    "backing_kind": "nfs",
    "options": {"server": "nfs.example.org", "export": "/data"},
    "price": "0.05",
    "clusters": ["kube"],
}


@pytest.fixture
def kube():
    """A cluster that answers like the fake machine, but is no single machine."""
    return Cluster.objects.create(
        key="kube", name="Kube", driver="kubernetes", options={"trusted": True}
    )


def test_every_cluster_has_a_default_from_its_options(kube, project, bob):
    from volumes.services.classes import cluster_changed, default_class

    assert default_class("local").backing_kind == "directory"
    assert default_class("local").options == {}
    cluster_changed("kube")
    row = default_class("kube")
    assert (row.backing_kind, row.options) == ("directory", {"path": "/var/lib/berth/volumes"})
    kube.options = {"volume_kind": "storageclass", "storage_class": "gold"}
    kube.save()
    cluster_changed("kube")
    again = default_class("kube")
    assert again.pk == row.pk
    assert again.options == {"storage_class": "gold", "access_mode": "ReadWriteMany"}
    assert ClassPlace.objects.filter(cluster=kube, is_default=True).count() == 1


@pytest.mark.parametrize(
    ("options", "kind", "derived"),
    [
        ({"volume_kind": "storageclass"}, "storage-class", {"access_mode": "ReadWriteMany"}),
        (
            {"volume_kind": "nfs", "nfs_server": "nfs.example", "nfs_export": "/vols"},
            "nfs",
            {"server": "nfs.example", "export": "/vols"},
        ),
    ],
)
def test_the_class_of_a_cluster_may_be_its_own_default_or_an_nfs_server(
    kube, options, kind, derived
):
    from volumes.services.classes import default_class

    kube.options |= options
    kube.save()
    row = default_class("kube")
    assert (row.backing_kind, row.options) == (kind, derived)
    assert clean_options(kind, row.options) == derived  # as the form of classes gives it back


def test_operators_make_change_and_delete_and_nobody_else_does(
    as_user, operator, auditor, alice, kube
):
    assert as_user(alice).get(CLASSES).status_code == 403
    assert as_user(alice).post(CLASSES, NFS, content_type=JSON).status_code == 403
    assert as_user(auditor).post(CLASSES, NFS, content_type=JSON).status_code == 403
    client = as_user(operator)
    made = client.post(CLASSES, NFS, content_type=JSON)
    assert made.status_code == 201, made.content
    assert client.post(CLASSES, NFS, content_type=JSON).status_code == 409
    one = f"{CLASSES}/fast-nfs"
    changed = client.patch(one, {"price": "0.1", "default_on": ["kube"]}, content_type=JSON).json()
    assert (changed["price"], changed["default_on"]) == ("0.1000", ["kube"])
    assert client.delete(one).json()["code"] == "class-default"
    client.post(CLASSES, {**NFS, "key": "b", "default_on": ["kube"]}, content_type=JSON)
    assert client.get(one).json()["default_on"] == []
    assert client.delete(one).status_code == 204
    assert as_user(auditor).get(CLASSES).status_code == 200


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("nfs", {}),
        ("nfs", {"server": "a b", "export": "/x"}),
        ("nfs", {"server": "a", "export": "x"}),
        ("nfs", {"server": "a", "export": "/x/../../etc"}),
        ("nfs", {"server": "a", "export": "/x", "mountOptions": "exec"}),
        ("nfs", {"server": "-oproxy", "export": "/x"}),
        ("directory", {"path": "relative"}),
        ("directory", {"path": "/a/../b"}),
        ("directory", {"path": "/a\n/b"}),
        ("storage-class", {"storage_class": "A B"}),
        ("storage-class", {"storage_class": "x", "access_mode": "All"}),
        ("nfs-csi", {"server": "a", "export": "/x", "driver": "../x"}),
        ("hostpath", {"path": "/"}),
        ("", {}),
        ("nfs", []),
    ],
)
def test_c8_what_storage_may_lie_on_is_a_closed_list(as_user, operator, kube, kind, options):
    body = {**NFS, "backing_kind": kind, "options": options}
    answer = as_user(operator).post(CLASSES, body, content_type=JSON)
    assert answer.status_code == 400
    assert not VolumeClass.objects.filter(key="fast-nfs").exists()


def test_every_kind_has_options_that_pass():
    good = {
        "directory": {"path": "/srv/data"},
        "nfs": {"server": "10.0.0.1", "export": "/"},
        "nfs-csi": {"server": "fd00::1", "export": "/x"},
        "storage-class": {"storage_class": "gold"},
    }
    assert set(good) == set(OPTIONS)
    for kind, options in good.items():
        assert clean_options(kind, options).items() >= options.items()
    assert clean_options("directory", {}) == {}


def test_changing_a_class_moves_no_volume(as_user, operator, make, bob, settle, machine):
    row = make(bob)
    VolumeClass.objects.filter(key="standard-local").update(
        backing_kind="nfs", options={"server": "x", "export": "/y"}
    )
    base.volume_measure_soon(uids=[row.uid])
    settle()
    row.refresh_from_db()
    assert (row.backing_kind, row.backing_options) == ("directory", {})


def test_a_class_of_volumes_is_not_deleted_but_no_longer_offered(
    as_user, operator, make, bob, project
):
    make(bob)
    one = f"{CLASSES}/standard-local"
    client = as_user(operator)
    assert client.delete(one).json()["code"] == "class-in-use"
    assert client.patch(one, {"enabled": False}, content_type=JSON).status_code == 400  # default
    second = {
        "key": "second",
        "name": "Second",
        "backing_kind": "directory",
        "clusters": ["local"],
        "default_on": ["local"],
    }
    assert client.post(CLASSES, second, content_type=JSON).status_code == 201
    assert client.patch(one, {"enabled": False}, content_type=JSON).status_code == 200
    offered = as_user(bob).get("/api/v1/projects/vision/volume-classes").json()
    assert [(o["key"], o["is_default"]) for o in offered] == [("second", True)]
    assert "options" not in offered[0]
    refused = as_user(bob).post(
        API, {"name": "x", "size_mib": 2048, "volume_class": "standard-local"}, content_type=JSON
    )
    assert refused.status_code == 400


def test_one_machine_has_only_folders_of_its_own(as_user, operator):
    answer = as_user(operator).post(CLASSES, {**NFS, "clusters": ["local"]}, content_type=JSON)
    assert answer.status_code == 400
    assert "one machine" in answer.json()["fields"]["clusters"][0]


def test_homes_and_shared_volumes_take_the_default_size_within_limits(
    as_user, operator, project, bob, alice, principal, limit
):
    from common.errors import LimitExceeded
    from volumes.services.classes import default_class

    default_class("local")
    as_user(operator).patch(
        f"{CLASSES}/standard-local", {"default_size_mib": 2048}, content_type=JSON
    )
    limit(4096, project=project)
    home = create.home_ensure(principal=principal(bob), project=project, owner=bob)
    assert home.size_limit_mib == 2048
    create.project_volume_ensure(principal=principal(alice), project=project)
    with pytest.raises(LimitExceeded):
        create.home_ensure(principal=principal(alice), project=project, owner=alice)
    assert Volume.objects.count() == 2


def test_the_console_has_a_page_for_them(as_user, operator, auditor, kube, alice):
    assert as_user(alice).get("/console/storage/").status_code == 403
    client = as_user(operator)
    form = {
        "key": "fast-nfs",
        "name": "Fast NFS",
        "backing_kind": "nfs",
        "options": "server=nfs.example.org\nexport=/data",
        "min_size": "1",
        "price": "0.05",
        "position": "0",
        "clusters": ["kube"],
        "can_snapshot": "on",
        "enabled": "on",
    }
    assert (
        "is missing or not valid"
        in client.post("/console/storage/new", {**form, "options": "server=x"}).content.decode()
    )
    assert client.post("/console/storage/new", form).status_code == 302
    page = client.get("/console/storage/").content.decode()
    assert "nfs.example.org" in page
    edited = client.post("/console/storage/fast-nfs/", {**form, "max_size": "10"})
    assert edited.status_code == 302
    assert VolumeClass.objects.get(key="fast-nfs").max_size_mib == 10240
    shown = client.get("/console/storage/fast-nfs/").content.decode()
    assert re.findall(r'name="(?:max_size|price)" value="([^"]*)"', shown) == ["0.05", "10"]
    assert "Offered nowhere" not in client.get("/console/storage/").content.decode()
    ClassPlace.objects.filter(volume_class__key="fast-nfs").delete()
    assert "Offered nowhere" in client.get("/console/storage/").content.decode()
    assert "New class" not in as_user(auditor).get("/console/storage/").content.decode()
    assert as_user(auditor).post("/console/storage/fast-nfs/", form).status_code == 403
    assert client.post("/console/storage/fast-nfs/delete", {"confirm": "x"}).status_code == 422
    gone = client.post("/console/storage/fast-nfs/delete", {"confirm": "Fast NFS"})
    assert gone.status_code == 302


@pytest.mark.parametrize(("held", "shown"), [(100, "0.1"), (1, "0.01"), (1030, "1.01")])
def test_saving_what_the_page_shows_changes_no_size(as_user, operator, kube, held, shown):
    client = as_user(operator)
    row = VolumeClass.objects.create(
        key="odd",
        name="Odd",
        backing_kind="storage-class",
        options={"storage_class": "gold"},
        min_size_mib=held,
        max_size_mib=2049,
    )
    form = client.get("/console/storage/odd/").context["form"]
    fields = ("key", "name", "backing_kind", "options", "min_size", "max_size", "position", "price")
    said = {name: form[name].value() for name in fields}
    assert str(said["min_size"]) == shown
    assert client.post("/console/storage/odd/", {**said, "name": "Even"}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.min_size_mib, row.max_size_mib) == ("Even", held, 2049)
    assert client.post("/console/storage/odd/", {**said, "max_size": ""}).status_code == 302
    row.refresh_from_db()
    assert (row.min_size_mib, row.max_size_mib) == (held, None)


def test_g7_operators_say_which_pools_a_class_stands_near(as_user, operator, bob, project, kube):
    east, west = (
        Pool.objects.create(cluster=kube, name=name, node_labels={"pool": name})
        for name in ("east", "west")
    )
    theirs = Pool.objects.create(
        cluster=kube, name="theirs", node_labels={"pool": "t"}, project_uids=[str(kube.uid)]
    )
    client = as_user(operator)
    near = [f"kube/{pool.name}" for pool in (west, east, theirs)]
    made = client.post(CLASSES, {**NFS, "near": near}, content_type=JSON)
    assert made.json()["near"] == ["kube/east", "kube/theirs", "kube/west"]
    one = f"{CLASSES}/fast-nfs"
    assert client.patch(one, {"speed": "fast"}, content_type=JSON).json()["near"] == sorted(near)
    offered = as_user(bob).get("/api/v1/projects/vision/volume-classes").json()
    told = {entry["key"]: entry["near"] for entry in offered}
    assert told["fast-nfs"] == ["east", "west"]  # another project's pool is the same as none
    for wrong in (["kube/none"], ["east"], ["nowhere/east"], "kube/east"):
        answer = client.patch(one, {"near": wrong}, content_type=JSON)
        assert answer.status_code == 400, wrong
    assert client.patch(one, {"clusters": []}, content_type=JSON).json()["near"] == []
    answer = client.patch(one, {"near": ["kube/east"]}, content_type=JSON)
    assert answer.status_code == 400  # it is not offered there


def test_g7_a_volume_stands_near_what_its_class_does_while_it_lies_on_the_same(
    as_user, operator, bob, project, make, kube
):
    Pool.objects.create(cluster=kube, name="east", node_labels={"pool": "east"})
    client = as_user(operator)
    assert client.post(CLASSES, NFS, content_type=JSON).status_code == 201
    row = make(bob, cluster="kube", volume_class="fast-nfs")
    one = f"{API}/{row.uid}"
    assert as_user(bob).get(one).json()["near"] == []
    change = f"{CLASSES}/fast-nfs"
    client.patch(change, {"near": ["kube/east"]}, content_type=JSON)
    assert as_user(bob).get(one).json()["near"] == ["east"]
    assert "Stands near" in as_user(bob).get(row.get_absolute_url()).content.decode()
    moved = {"options": {**NFS["options"], "server": "other.example.org"}}
    client.patch(change, moved, content_type=JSON)
    assert as_user(bob).get(one).json()["near"] == []  # the new server stands there, not its own


def test_the_form_of_a_class_folds_what_is_as_usual(as_user, operator, kube):
    client = as_user(operator)

    def is_open(address, **sent):
        answer = client.post(address, sent) if sent else client.get(address)
        return [open_ for *_words, open_ in answer.context["form"].groups()]

    assert is_open("/console/storage/new") == [False, False, False]
    usual = {"name": "Fast", "backing_kind": "nfs", "options": NFS["options"]}
    VolumeClass.objects.create(key="usual", **usual)
    assert is_open("/console/storage/usual/") == [False, False, False]
    VolumeClass.objects.create(key="told", speed="3 GB/s", can_snapshot=False, **usual)
    assert is_open("/console/storage/told/") == [True, True, False]
    assert is_open("/console/storage/new", key="x", position="-1")[2]


def test_g7_the_page_of_a_class_offers_the_pools_and_keeps_what_was_chosen(as_user, operator, kube):
    client = as_user(operator)
    page = "/console/storage/new"
    assert "Stands near" not in client.get(page).content.decode()  # no cluster has parts
    Pool.objects.create(cluster=kube, name="east", node_labels={"pool": "east"})
    form = {
        "key": "fast",
        "name": "Fast",
        "price": "0",
        "backing_kind": "nfs",
        "options": "server=nfs.example.org\nexport=/data",
        "min_size": "1",
        "clusters": ["kube"],
        "near": ["kube/east"],
        "position": "0",
    }
    answer = client.post(page, form)
    assert answer.status_code == 302, answer.content.decode()
    row = VolumeClass.objects.get(key="fast")
    assert [p.name for p in row.places.get().near.all()] == ["east"]
    text = client.get(f"/console/storage/{row.key}/").content.decode()
    assert 'value="kube/east"' in text
    assert "checked" in text[text.index('value="kube/east"') :][:200]
