"""The volume that a project has without asking."""

from clusters.models import Cluster
from projects.models import Project, ProjectNamespace
from volumes.models import Volume
from volumes.services import create


def shared(**more):
    return Volume.objects.filter(kind="project", deleted_at__isnull=True, **more)


def test_a_new_project_has_it_at_once_on_one_machine(as_user, alice, settle, machine):
    answer = as_user(alice).post(
        "/api/v1/projects", {"name": "Fresh"}, content_type="application/json"
    )
    row = shared(project__slug=answer.json()["slug"]).get()
    assert (row.name, row.cluster_key) == ("shared", "local")
    settle()
    assert machine.volume_seen(row.uid)["owner"] == ""


def test_a_limit_on_storage_refuses_the_volume_and_not_the_project(as_user, alice, limit):
    from volumes.services.classes import default_class

    chosen = default_class("local")
    chosen.default_size_mib = 4096
    chosen.save()
    limit(1024, user=alice)
    answer = as_user(alice).post(
        "/api/v1/projects", {"name": "Fresh"}, content_type="application/json"
    )
    assert answer.status_code == 201, answer.content
    made = Project.objects.get(slug=answer.json()["slug"])
    assert not shared(project=made).exists()
    limit(8192, user=alice)
    assert create.shared_volumes_repair() >= 1
    assert shared(project=made).exists()


def test_on_a_cluster_it_comes_with_the_first_place(project):
    from runtime.protocol import Phase
    from runtime.reconcilers import Outcome, Transition
    from volumes.rules import place_made

    Cluster.objects.create(key="kube", name="Kube", driver="kubernetes")
    place = ProjectNamespace.objects.create(
        project=project, cluster_key="kube", namespace="berth-x"
    )
    told = Transition(
        place, Phase.PENDING, Phase.RUNNING, Outcome(Phase.RUNNING), gone=False, seen=place
    )
    place_made(told)
    place_made(told)
    assert shared(project=project, cluster_key="kube").count() == 1


def test_projects_from_before_get_it_by_housekeeping(project):
    assert create.shared_volumes_repair() == 1
    assert create.shared_volumes_repair() == 0
    assert shared(project=project).count() == 1


def test_housekeeping_leaves_alone_what_ends_or_is_archived(project):
    from common.clock import now

    Project.objects.filter(pk=project.pk).update(archived_at=now())
    assert create.shared_volumes_repair() == 0
    Project.objects.filter(pk=project.pk).update(archived_at=None, desired="absent")
    assert create.shared_volumes_repair() == 0
