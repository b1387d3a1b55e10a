"""Renaming, resizing, who may, and what is in the way."""

from tests.volumes.conftest import API, JSON
from tests.volumes.test_making import reserved
from volumes.choices import BackingKind


def patch(client, row, **body):
    return client.patch(f"{API}/{row.uid}", body, content_type=JSON)


def test_the_maker_and_managers_change_it_and_others_are_told_why(
    as_user, make, bob, mona, vera, charlie, make_user, project
):
    from projects.models import Membership

    dora = make_user("dora")
    Membership.objects.create(project=project, user=dora, role="member")
    row = make(bob)
    for user, code in ((bob, 202), (mona, 202), (dora, 403), (vera, 403), (charlie, 404)):
        answer = patch(as_user(user), row, description=user.username)
        assert answer.status_code == code, user
        assert code != 403 or "Only who made the volume" in answer.json()["detail"]


def test_renaming_is_refused_while_mounted_and_names_who_holds_it(as_user, make, bob, held):
    row = make(bob)
    client = as_user(bob)
    with held(row):
        answer = patch(client, row, name="other")
        assert answer.status_code == 409
        assert "lab (Alice)" in answer.json()["detail"]
        assert patch(client, row, description="still").status_code == 202
    assert patch(client, row, name="other").json()["name"] == "other"
    assert patch(client, row, name="../x").status_code == 400


def test_growing_reserves_and_shrinking_gives_back(
    as_user, make, bob, limit, project, machine, settle
):
    limit(4096, project=project)
    row, client = make(bob), as_user(bob)
    assert patch(client, row, size_limit_mib=4096).status_code == 202
    assert reserved(row) == 4096
    assert patch(client, row, size_limit_mib=4097).status_code == 409
    assert patch(client, row, size_limit_mib=1024).status_code == 202
    assert reserved(row) == 1024
    settle()
    assert machine.volume_seen(row.uid)["size_mib"] == 1024


def test_it_does_not_shrink_below_what_is_used_nor_where_the_class_cannot(
    as_user, make, bob, machine, settle
):
    row, client = make(bob, size_mib=4096), as_user(bob)
    machine.fill_volume(row.uid, 3 * 1024**3)
    settle(horizon_s=700, rounds=1)
    small = patch(client, row, size_limit_mib=2048)
    assert small.status_code == 400
    assert "3\N{NO-BREAK SPACE}GiB of it are used" in small.json()["detail"]
    type(row).objects.filter(pk=row.pk).update(backing_kind=BackingKind.STORAGE_CLASS)
    only = patch(client, row, size_limit_mib=3500)
    assert "can only grow" in only.json()["detail"]
    assert patch(client, row, size_limit_mib=5000).status_code == 202


def test_sizes_stay_within_the_class(as_user, make, bob):
    from volumes.models import VolumeClass

    row, client = make(bob), as_user(bob)
    VolumeClass.objects.update(max_size_mib=4096)
    assert patch(client, row, size_limit_mib=8192).status_code == 400
    assert patch(client, row, size_limit_mib=512).status_code == 400
    assert patch(client, row, size_limit_mib=None).status_code == 400


def test_a5_nobody_sets_columns_he_was_not_offered(as_user, make, bob):
    row, client = make(bob), as_user(bob)
    for field, value in (
        ("project", "sound"),
        ("owner", "bob"),
        ("created_by", "vera"),
        ("kind", "home"),
        ("used_bytes", 0),
        ("backing_kind", "nfs"),
        ("backing_options", {"server": "x"}),
        ("delete_after", None),
        ("abilities", {}),
        ("desired", "absent"),
        ("volume_class", "other"),
        ("cluster", "other"),
    ):
        assert patch(client, row, **{field: value}).status_code == 400, field
    before = row.__dict__.copy()
    row.refresh_from_db()
    assert {k: v for k, v in row.__dict__.items() if not k.startswith("_")} == {
        k: v for k, v in before.items() if not k.startswith("_") and k in row.__dict__
    }


def test_two_people_do_not_overwrite_each_other(as_user, make, bob):
    row, client = make(bob), as_user(bob)
    tag = client.get(f"{API}/{row.uid}")["ETag"]
    assert patch(client, row, description="first").status_code == 202
    late = client.patch(
        f"{API}/{row.uid}", {"description": "late"}, content_type=JSON, headers={"If-Match": tag}
    )
    assert late.status_code == 412
    assert client.delete(f"{API}/{row.uid}", headers={"If-Match": tag}).status_code == 412


def test_the_shared_volume_keeps_its_name_and_is_changed_by_managers(
    as_user, project, bob, mona, settle
):
    from volumes.services import create

    row = create.project_volume_ensure(principal=None, project=project)
    settle()
    assert patch(as_user(bob), row, description="x").status_code == 403
    assert patch(as_user(mona), row, description="x").status_code == 202
    assert patch(as_user(mona), row, name="other").status_code == 409
    assert patch(as_user(mona), row, size_limit_mib=4096).status_code == 202
    assert patch(as_user(mona), row, size_limit_mib=None).json()["size_limit_mib"] is None
    assert as_user(mona).delete(f"{API}/{row.uid}").status_code == 409


def test_people_are_told_once_when_it_is_nearly_full(make, bob, machine, settle):
    from notifications.models import Notification

    row = make(bob, size_mib=1024)
    told = Notification.objects.filter(user=bob, kind="volume.nearly-full")
    machine.fill_volume(row.uid, 1000 * 1024**2)
    settle(horizon_s=700, rounds=1)
    settle(horizon_s=700, rounds=1)
    assert told.count() == 1
    machine.fill_volume(row.uid, 100 * 1024**2)
    settle(horizon_s=700, rounds=1)
    machine.fill_volume(row.uid, 1024**3)
    settle(horizon_s=700, rounds=1)
    assert told.count() == 2
    row.refresh_from_db()
    assert row.is_full
