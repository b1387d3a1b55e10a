"""Fills every list of the product with ``n`` rows, straight into the tables."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from common.clock import now
from tests.support.workloads import insert


def fill(n: int, *, project: Any, user: Any, mark: str) -> None:
    people = _people(n, mark)
    _projects(n, project, user, people, mark)
    _workspaces(n, project, user, people, mark)
    _own(n, user, mark)
    _webhooks(n, project, user, mark)
    _happened(n, project, user)
    _clusters(n, project, mark)
    _queues(mark)


def _clusters(n: int, project: Any, mark: str) -> None:
    from clusters.models import CheckResult, Cluster, Flavor, NetworkProfile, Node, Pool

    n = max(n, 2)  # of a single one nothing has to be chosen
    kinds = {"total": 8, "out": 0, "nodes": 1, "largest": 8}
    flavors = Flavor.objects.bulk_create(
        Flavor(name=f"f{mark}-{i}", label=f"F {mark} {i}") for i in range(n)
    )
    made = Cluster.objects.bulk_create(
        Cluster(
            key=f"k{mark}-{i}",
            name=f"K {mark} {i}",
            driver="kubernetes",
            options={"trusted": True},
            kinds={f.name: kinds for f in flavors},
        )
        for i in range(n)
    )
    Node.objects.bulk_create(
        Node(cluster=c, name=f"n{i}", offers={f.name: 8 for f in flavors}, seen_at=now())
        for c in made
        for i in range(2)
    )
    Pool.objects.bulk_create(
        Pool(cluster=c, name="p", node_labels={"a": "b"}, project_uids=[str(project.uid)])
        for c in made
    )
    NetworkProfile.objects.bulk_create(
        NetworkProfile(cluster=c, name="n", attachment="a/b") for c in made
    )
    CheckResult.objects.bulk_create(
        CheckResult(cluster=c, name="network", state="red", at=now()) for c in made
    )


def _queues(mark: str) -> None:
    """An organisation above each project, with something guaranteed to both."""
    from budgets.models import Budget
    from clusters.models import Cluster, Flavor
    from parking.models import IdlePolicy
    from projects.models import Project
    from queues.models import Guarantee, Priority, Queue

    cluster = Cluster.objects.get(key=f"k{mark}-0")
    flavor = Flavor.objects.get(name=f"f{mark}-0")
    projects = list(Project.objects.filter(slug__startswith=f"q{mark}-"))
    above = Queue.objects.bulk_create(Queue(name=f"org {p.slug}") for p in projects)
    own = Queue.objects.bulk_create(
        Queue(name=p.slug, project=p, parent=org) for p, org in zip(projects, above, strict=True)
    )
    Guarantee.objects.bulk_create(
        Guarantee(queue=queue, cluster=cluster, flavor=flavor, guaranteed=1)
        for queue in [*above, *own]
    )
    Budget.objects.bulk_create(
        Budget(organisation=org, hours=10, mode="soft", days=n + 1) for n, org in enumerate(above)
    )
    Budget.objects.bulk_create(Budget(project=p, hours=10, mode="hard") for p in projects)
    IdlePolicy.objects.bulk_create(IdlePolicy(project=p) for p in projects)
    IdlePolicy.objects.bulk_create(IdlePolicy(organisation=org) for org in above)
    Priority.objects.bulk_create(
        Priority(name=f"p{mark}-{i}", label="P", value=i) for i in range(len(projects))
    )


def _people(n: int, mark: str) -> list[Any]:
    from accounts.models import User

    return User.objects.bulk_create(
        User(username=f"p{mark}-{i}", email=f"p{mark}-{i}@example.org") for i in range(n)
    )


def _projects(n: int, project: Any, user: Any, people: list[Any], mark: str) -> None:
    from projects.models import Invitation, Membership, Project
    from quotas.models import Limit

    made = Project.objects.bulk_create(
        Project(slug=f"q{mark}-{i}", name=f"Q {mark} {i}") for i in range(n)
    )
    Membership.objects.bulk_create(Membership(project=p, user=user, role="owner") for p in made)
    Membership.objects.bulk_create(
        Membership(project=project, user=p, role="member") for p in people
    )
    Invitation.objects.bulk_create(
        Invitation(
            project=project,
            email=f"i{mark}-{i}@example.org",
            digest=uuid4().hex,
            invited_by=user,
            expires_at=now() + timedelta(days=1),
        )
        for i in range(n)
    )
    Limit.objects.bulk_create(
        Limit(project=project, user=p, resource="gpus", amount=1) for p in people
    )
    _kubeconfigs(project, [user, *people], mark)


def _kubeconfigs(project: Any, people: list[Any], mark: str) -> None:
    from projects.models import KubeGrant, ProjectNamespace

    place, _made = ProjectNamespace.objects.get_or_create(
        project=project, cluster_key="rows", namespace="berth-rows"
    )
    at = now()
    KubeGrant.objects.bulk_create(
        KubeGrant(
            place=place,
            user=p,
            name=f"g{mark}-{i}",
            created_at=at,
            expires_at=at + timedelta(days=1),
        )
        for p in people
        for i in range(len(people) if p == people[0] else 1)
    )


def _workspaces(n: int, project: Any, user: Any, people: list[Any], mark: str) -> None:
    from credentials.models import Credential
    from experiments.models import Experiment
    from jobs.models import Job
    from loaders.models import Load
    from notebooks.models import Preset, Workspace
    from perftests.models import PerfTest
    from serving.models import BatchPrediction, Endpoint, EndpointKey, Model, ModelVersion
    from volumes.models import Volume
    from work.models import Share

    presets = Preset.objects.bulk_create(
        Preset(slug=f"s{mark}-{i}", name=f"S {mark} {i}", position=i) for i in range(n)
    )
    Credential.objects.bulk_create(
        Credential(project=project, kind="registry", name=f"c{mark}{i}", target=f"c{mark}{i}.ex")
        for i in range(n)
    )
    Credential.objects.bulk_create(
        Credential(owner=user, kind="git", name=f"o{mark}{i}") for i in range(n)
    )
    _volumes(n, project, user, people, mark)
    homes = Volume.objects.bulk_create(
        Volume(project=project, owner=p, name=f"h{mark}{i}") for i, p in enumerate(people)
    )
    rows = insert(
        Workspace(
            project=project,
            owner=user if i % 2 else p,
            name=f"w{mark}-{i}",
            home=homes[i],
            preset=presets[i],
            launch=1,
            phase="running" if i % 3 else "pending",
        )
        for i, p in enumerate(people)
    )
    insert(
        Load(
            project=project,
            owner=p,
            name=f"l{mark}-{i}",
            volume=homes[i],
            anonymous=True,
            store_kind="s3",
            bucket="bucket",
            launch=1,
            phase="running" if i % 3 else "pending",
            stage="copying",
        )
        for i, p in enumerate(people)
    )
    insert(
        Job(
            project=project,
            owner=user if i % 2 else p,
            name=f"j{mark}-{i}",
            command=["true"],
            launch=1,
            phase="running" if i % 3 else "pending",
        )
        for i, p in enumerate(people)
    )
    models = Model.objects.bulk_create(
        Model(project=project, name=f"m{mark}-{i}", created_by=p) for i, p in enumerate(people)
    )
    versions = ModelVersion.objects.bulk_create(
        ModelVersion(
            model=model,
            name="v1",
            framework="sklearn",
            source="volume",
            origin="volume:h",
            volume=homes[i],
            created_by=model.created_by,
        )
        for i, model in enumerate(models)
    )
    insert(
        Endpoint(
            project=project,
            owner=user if i % 2 else p,
            name=f"e{mark}-{i}",
            model=f"m{mark}-{i}/v1",
            version=versions[i],
            launch=1,
            phase="running" if i % 3 else "pending",
        )
        for i, p in enumerate(people)
    )
    jobs = Job.objects.filter(project=project, name__startswith=f"j{mark}-").order_by("pk")
    BatchPrediction.objects.bulk_create(
        BatchPrediction(project=project, job=job, version=versions[i], asked=f"m{mark}-{i}/v1")
        for i, job in enumerate(jobs)
    )
    EndpointKey.objects.bulk_create(
        EndpointKey(endpoint=row, name="k", prefix="bep_", digest=f"{mark}-{row.pk}")
        for row in Endpoint.objects.filter(name__startswith=f"e{mark}-")
    )
    Experiment.objects.bulk_create(
        Experiment(
            project=project,
            owner=person,
            name=f"s{mark}-{i}",
            parameters=[],
            metric="m",
            objective="maximize",
            algorithm="tpe",
            seed=1,
            trials_max=1,
            parallel=1,
            failed_max=1,
        )
        for i, person in enumerate(people)
    )
    PerfTest.objects.bulk_create(
        PerfTest(
            project=project,
            owner=person,
            name=f"t{mark}-{i}",
            test="all-reduce",
            replicas=2,
            gpus=0,
            max_mib=16,
        )
        for i, person in enumerate(people)
    )
    Share.objects.bulk_create(Share(workload=w, user=p) for w, p in zip(rows, people, strict=True))


def _volumes(n: int, project: Any, user: Any, people: list[Any], mark: str) -> None:
    from clusters.models import Cluster
    from volumes.models import ClassPlace, Volume, VolumeClass, VolumeTransfer

    classes = VolumeClass.objects.bulk_create(
        VolumeClass(key=f"c{mark}-{i}", name=f"C {mark} {i}", backing_kind="directory")
        for i in range(n)
    )
    cluster, _made = Cluster.objects.get_or_create(
        key="stored", defaults={"name": "Stored", "driver": "fake"}
    )
    ClassPlace.objects.bulk_create(ClassPlace(volume_class=c, cluster=cluster) for c in classes)
    made = Volume.objects.bulk_create(
        Volume(
            project=project,
            created_by=p,
            last_used_by=p,
            last_used_at=now(),
            kind="data",
            name=f"d{mark}-{i}",
            volume_class=classes[i],
            size_limit_mib=1024,
        )
        for i, p in enumerate(people)
    )
    VolumeTransfer.objects.bulk_create(
        VolumeTransfer(
            volume=row,
            from_project=project,
            to_project=project,
            to_slug=project.slug,
            asked_by=user,
            asked_at=now(),
            expires_at=now() + timedelta(days=1),
        )
        for row in made
    )


def _own(n: int, user: Any, mark: str) -> None:
    from accounts.models import ApiToken, SshKey
    from notifications.models import Announcement, Notification

    at = now()
    Notification.objects.bulk_create(
        Notification(user=user, kind="workspace.failed", params={"name": i}, created_at=at)
        for i in range(n)
    )
    ApiToken.objects.bulk_create(
        ApiToken(user=user, name=f"t{i}", prefix="berth_x", digest=uuid4().hex) for i in range(n)
    )
    SshKey.objects.bulk_create(
        SshKey(user=user, name=f"k{i}", public_key="x", fingerprint=f"{mark}{i}") for i in range(n)
    )
    Announcement.objects.bulk_create(
        Announcement(message=f"a{i}", starts_at=at - timedelta(days=2), ends_at=at)
        for i in range(n)
    )


def _webhooks(n: int, project: Any, user: Any, mark: str) -> None:
    from webhooks.models import Delivery, Webhook

    made = Webhook.objects.bulk_create(
        Webhook(
            project=project if of else None, user=None if of else user, name=f"w{mark}-{of}-{i}"
        )
        for of in (0, 1)
        for i in range(n)
    )
    everything = Webhook.objects.filter(pk__in=[row.pk for row in made])
    Delivery.objects.bulk_create(
        Delivery(webhook=row, event=uuid4(), kind="load.done", created_at=now(), due_at=now())
        for row in everything
        for _ in range(n)
    )


def _happened(n: int, project: Any, user: Any) -> None:
    from events.models import Event
    from usage.models import Interval

    at = now()
    Event.objects.bulk_create(
        Event(at=at, verb="workspace.launched", actor_name="x", project_uid=project.uid)
        for _ in range(n)
    )
    Interval.objects.bulk_create(
        Interval(
            uid=uuid4(),
            launch=1,
            kind="workspace",
            project_uid=project.uid,
            project_slug=project.slug,
            owner_uid=user.uid,
            owner_name=user.username,
            cluster_key="local",
            gpus=1,
            started_at=at - timedelta(hours=1),
        )
        for _ in range(n)
    )
