"""One of everything, so that every placeholder of every route names something real."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from common.clock import now
from tests.architecture.routes import Route


def build(project: Any, owner: Any, *, mark: str = "") -> dict[str, str]:
    """Make a workspace, its volume, an invitation … of ``owner`` in ``project``."""
    from accounts.models import ApiToken, SshKey
    from credentials.models import Credential
    from experiments.models import Experiment, Trial
    from jobs.models import Job, Run, TrainingInput
    from loaders.models import Load
    from notebooks.models import Workspace
    from notifications.models import Announcement, Notification
    from perftests.models import PerfTest
    from projects.models import Invitation, KubeGrant, ProjectNamespace
    from serving.models import BatchPrediction, Endpoint, EndpointKey, Model, ModelVersion
    from volumes.models import Volume
    from webhooks.models import Webhook

    volume, _made = Volume.objects.get_or_create(
        project=project, owner=owner, defaults={"name": f"home{mark}"}
    )
    workspace = Workspace.objects.create(
        project=project,
        owner=owner,
        name=f"lab{mark}",
        home=volume,
        launch=1,
        phase="stopped",
        desired="stopped",
    )
    invitation = Invitation.objects.create(
        project=project,
        email=f"x{mark}@example.org",
        digest=uuid4().hex,
        expires_at=now() + timedelta(days=365),
    )
    told = Notification.objects.create(user=owner, kind="workspace.failed", created_at=now())
    token = ApiToken.objects.create(user=owner, name="t", prefix="berth_x", digest=uuid4().hex)
    key = SshKey.objects.create(user=owner, name="k", public_key="x", fingerprint=uuid4().hex)
    credential = Credential.objects.create(
        project=project, kind="registry", name=f"r{mark}", target="r.example", sealed="x"
    )
    own = Credential.objects.create(owner=owner, kind="git", name=f"own{mark}", sealed="x")
    hook = Webhook.objects.create(project=project, name=f"hook{mark}", shown="https://a.example")
    own_hook = Webhook.objects.create(user=owner, name=f"own{mark}", shown="https://a.example")
    place, _made = ProjectNamespace.objects.get_or_create(
        project=project, cluster_key="guard", namespace=f"berth-{project.slug}"
    )
    grant = KubeGrant.objects.create(
        place=place,
        user=owner,
        name=f"k{mark}",
        created_at=now(),
        expires_at=now() + timedelta(days=365),
    )
    banner = Announcement.objects.create(message="m", starts_at=now())
    load = Load.objects.create(
        project=project,
        owner=owner,
        name=f"load{mark}",
        volume=volume,
        anonymous=True,
        store_kind="s3",
        bucket="bucket",
        fingerprint=mark,
        launch=1,
        phase="stopped",
        result="done",
    )
    job = Job.objects.create(
        project=project, owner=owner, name=f"job{mark}", launch=1, phase="stopped"
    )
    Run.objects.create(job=job, launch=1, asked_at=now())
    TrainingInput.objects.create(job=job)
    search = Experiment.objects.create(
        project=project,
        owner=owner,
        name=f"search{mark}",
        parameters=[],
        metric="m",
        objective="maximize",
        algorithm="tpe",
        seed=1,
        trials_max=1,
        parallel=1,
        failed_max=1,
        state="succeeded",
    )
    Trial.objects.create(experiment=search, number=1, parameters={}, state="failed")
    measured = PerfTest.objects.create(
        project=project,
        owner=owner,
        name=f"measured{mark}",
        test="all-reduce",
        replicas=2,
        gpus=0,
        max_mib=16,
        state="succeeded",
    )
    model = Model.objects.create(project=project, name=f"model{mark}".lower())
    served = ModelVersion.objects.create(
        model=model,
        name="v1",
        framework="custom",
        source="upload",
        origin="image",
    )
    endpoint = Endpoint.objects.create(
        project=project,
        owner=owner,
        name=f"endpoint{mark}".lower(),
        version=served,
        launch=1,
        phase="stopped",
    )
    called_with = EndpointKey.objects.create(
        endpoint=endpoint, name="app", prefix="bep_", digest=f"key{mark}"
    )
    predicted = BatchPrediction.objects.create(
        project=project, job=job, version=served, asked="model/v1", input="volume:a/b"
    )
    return {
        "prediction": str(predicted.uid),
        "endpoint": endpoint.short_id,
        "model": model.name,
        "version": served.name,
        "key": str(called_with.uid),
        "experiment": str(search.uid),
        "perftest": str(measured.uid),
        "number": "1",
        "project": project.slug,
        "project_slug": project.slug,
        "job": job.short_id,
        "training": job.name,
        "workspace": workspace.short_id,
        "workspace_uid": str(workspace.uid),
        "workload": str(workspace.uid),
        "load": str(load.uid),
        "volume": str(volume.uid),
        "credential": str(credential.uid),
        "own": str(own.uid),
        "webhook": str(hook.uid),
        "own_webhook": str(own_hook.uid),
        "invitation": str(invitation.uid),
        "username": owner.username,
        "user": str(owner.uid),
        "notification": str(told.uid),
        "token": str(token.uid),
        "ssh": str(key.uid),
        "banner": str(banner.uid),
        "kubeconfig": str(grant.uid),
        "project_uid": str(project.uid),
        "preset": _preset(),
        **_of_volume(volume, owner, mark),
        **_cluster(),
        **_queue(),
    }


def _of_volume(volume: Any, owner: Any, mark: str) -> dict[str, str]:
    """A copy of a volume, an offer of it, and a class of storage."""
    from volumes.models import VolumeClass, VolumeSnapshot, VolumeTransfer

    copy = VolumeSnapshot.objects.create(volume=volume, name=f"copy{mark}", created_by=owner)
    transfer = VolumeTransfer.objects.create(
        volume=volume,
        from_project=volume.project,
        to_project=volume.project,
        to_slug=volume.project.slug,
        asked_by=owner,
        asked_at=now(),
        expires_at=now() + timedelta(days=365),
    )
    kind, _made = VolumeClass.objects.get_or_create(
        key="guard", defaults={"name": "Guard", "backing_kind": "directory"}
    )
    return {
        "snapshot": str(copy.uid),
        "transfer": str(transfer.uid),
        "volume_class": kind.key,
    }


def _cluster() -> dict[str, str]:
    """A cluster with a pool, a network and a kind of GPU, one for all projects."""
    from clusters.models import Cluster, Flavor, NetworkProfile, Pool

    row, _made = Cluster.objects.get_or_create(
        key="guard", defaults={"name": "Guard", "driver": "fake", "attached_at": now()}
    )
    Pool.objects.get_or_create(cluster=row, name="guard", defaults={"node_labels": {"a": "b"}})
    NetworkProfile.objects.get_or_create(
        cluster=row, name="guard", defaults={"attachment": "a/b", "resource": "a.b/c"}
    )
    Flavor.objects.get_or_create(name="guard", defaults={"label": "Guard"})
    return dict.fromkeys(("cluster", "pool", "network", "flavor", "name"), "guard")


def _queue() -> dict[str, str]:
    """An organisation with a budget, and a class of priority."""
    from budgets.models import Budget
    from parking.models import IdlePolicy
    from queues.models import Priority, Queue

    part, _made = Queue.objects.get_or_create(name="guard", project=None)
    row, _made = Priority.objects.get_or_create(
        name="guard", defaults={"label": "Guard", "value": 1}
    )
    budget, _made = Budget.objects.get_or_create(
        organisation=part, defaults={"hours": 1, "mode": "soft"}
    )
    policy, _made = IdlePolicy.objects.get_or_create(organisation=part, kind="")
    told = {"part": part.key, "priority": row.name, "budget": str(budget.uid)}
    return {**told, "policy": str(policy.uid)}


def _preset() -> str:
    from notebooks.models import Preset

    row, _made = Preset.objects.get_or_create(slug="guard", defaults={"name": "Guard"})
    return str(row.uid)


# which object a bare <uuid:uid> means
_UIDS = (
    ("invitations", "invitation"),
    ("kubeconfigs", "kubeconfig"),
    ("kubectl", "kubeconfig"),
    ("notifications", "notification"),
    ("tokens", "token"),
    ("ssh-keys", "ssh"),
    ("announcements", "banner"),
    ("console/projects", "project_uid"),
    ("users", "user"),
)


def address(route: Route, ids: dict[str, str]) -> str:
    """Return the route's path with every placeholder filled from ``ids``."""
    path = route.path.replace("^", "").replace("\\Z", "").replace("$", "")
    for name in route.params:
        start = path.index("<")
        end = path.index(">")
        path = path[:start] + _value(route, name, path[start:end], ids) + path[end + 1 :]
    return path


def meant_by_uid(path: str, ids: dict[str, str]) -> str:
    """Return what a placeholder that says ``uid`` only stands for in ``path``."""
    return next((ids[key] for word, key in _UIDS if word in path), str(uuid4()))


def _value(route: Route, name: str, spelled: str, ids: dict[str, str]) -> str:
    if name == "uid":
        return meant_by_uid(route.path, ids)
    if name == "workspace" and spelled.startswith("<uuid"):
        return ids["workspace_uid"]
    if name in ids:
        return ids[name]
    return "1" if spelled.startswith("<int") else "unknown"


def snapshot() -> dict[str, str]:
    """Return a fingerprint of every table that a denied act must leave as it was."""
    import hashlib

    from django.apps import apps

    passed = {"events.Event", "sessions.Session", "usersessions.UserSession"}
    found: dict[str, str] = {}
    for model in apps.get_models():
        if model._meta.label in passed or not model._meta.managed:
            continue
        rows = sorted(map(str, model._base_manager.values_list()))
        found[model._meta.label] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return found
