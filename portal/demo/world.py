"""What the demonstration begins with: people, projects, guarantees, presets, and a past."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.utils.translation import gettext_noop

from accounts.models import User
from accounts.principal import Principal
from accounts.services.people import password_reset_by_operator, user_create
from budgets.services import budget_make
from clusters.installed import ensure_local_cluster
from clusters.models import Cluster
from clusters.services.parts import flavor_save
from common.clock import now
from notebooks.services.presets import PresetFields, preset_create
from parking.choices import State
from parking.services import policy_make
from portal.demo import script
from portal.demo.month import month_make
from portal.server.paths import Refusal
from projects.choices import Role
from projects.models import Project
from projects.services.life import project_create
from projects.services.members import member_add
from queues.models import Queue, Turn
from queues.planning import Change
from queues.services import queue_create, queues_change
from queues.sharing import Share
from runtime.models import ONE_MACHINE
from serving.choices import Framework
from serving.services.models import model_create
from serving.services.versions import version_create

# label, part of the device's name, price of an hour, weight in budgets
_KINDS = {
    script.H100: ("NVIDIA H100 80 GB", "H100", "2.50", 1),
    script.A100: ("NVIDIA A100 40 GB", "A100", "1.10", "0.4"),
}
_PAST_DAYS = 12
_IDLE_MINUTES = 2  # then it is told, and a minute later parked: the script's bursts are closer
_RESEARCH_HOURS, _ROBOTICS_HOURS = 400, 120  # of GPUs, in a week


def world_ensure(simulated: str) -> dict[str, str]:
    """Make the world of the demonstration once; return the new passwords, by person.

    ``simulated``: the GPUs, as the setting says them. The world is made in an empty database,
    never among real work.
    """
    people = [person for team in script.TEAMS for person in team.people]
    if User.objects.filter(username__in=people).count() == len(people):
        return {}
    if User.objects.count() > 1:
        message = (
            "A demonstration needs a database of its own, and this one has people. `make demo`"
            " keeps it in var/demo."
        )
        raise Refusal(message, code=2)
    with transaction.atomic():
        return _make(_counted(simulated))


def _counted(simulated: str) -> dict[str, int]:
    """Return how many GPUs of each kind of the script there are."""
    counted = dict.fromkeys(_KINDS, 0)
    for part in simulated.split(","):
        number, _x, name = part.partition("x")
        for kind, (_label, match, *_numbers) in _KINDS.items():
            counted[kind] += int(number) if match in name else 0
    return counted


def _make(exists: dict[str, int]) -> dict[str, str]:
    operator = Principal(user=User.objects.get())
    cluster = ensure_local_cluster()
    for name, (label, match, price, weight) in _KINDS.items():
        values = {"name": name, "label": label, "match": match}
        more = {"price_per_hour": price, "weight": weight}
        flavor_save(principal=operator, values={**values, **more})
    passwords: dict[str, str] = {}
    projects: dict[str, Project] = {}
    for team in script.TEAMS:
        people = [user_create(who=None, username=n, display_name=n.title()) for n in team.people]
        passwords |= {u.username: password_reset_by_operator(who=None, user=u) for u in people}
        owner = Principal(user=people[0])
        project = project_create(principal=owner, name=team.name, slug=team.slug)
        for user in people[1:]:
            member_add(principal=owner, project=project, user=user, role=Role.MEMBER)
        projects |= dict.fromkeys(team.people, project)
    _share(operator, cluster)
    _register(projects)
    policy_make(
        principal=operator,
        values={"state": State.ON, "minutes": _IDLE_MINUTES, "grace": 1, "extension": 5},
    )
    for name, label in ((script.A100, "A100"), (script.H100, "H100")):
        preset: dict[str, Any] = {
            "name": f"JupyterLab + 1 {label}",
            "description": gettext_noop("A simulated GPU: it can be held, and nothing can use it."),
            "cluster_key": ONE_MACHINE,
            "cpu_milli": 500,
            "memory_mib": 1024,
            "gpus": 1,
            "gpu_flavor": name,
            "position": 15,
        }
        preset_create(principal=operator, fields=PresetFields(preset))
    _remember(cluster, projects, exists)
    everyone = {user.username: user for user in User.objects.filter(username__in=projects)}
    month_make(cluster, everyone, projects, exists)
    return passwords


def _register(projects: dict[str, Project]) -> None:
    """Register the models of the script, which have a server of their own and no files."""
    for one in script.MODELS:
        who = Principal(user=User.objects.get(username=one.who))
        model = model_create(
            principal=who, project=projects[one.who], name=one.name, description=one.about
        )
        for metrics in one.versions:
            said = {"framework": Framework.CUSTOM, "metrics": metrics}
            version_create(principal=who, model=model, said=said)


def _share(operator: Principal, cluster: Cluster) -> None:
    """Give each project its guarantee, the organisation what its projects have, and budgets that
    last for hours of watching.
    """
    where = (cluster.key, script.H100)
    above = queue_create(principal=operator, name=script.ORGANISATION)
    inside = [team for team in script.TEAMS if team.in_organisation]
    total = Share(script.GUARANTEED * len(inside))
    changes = {above.key: Change(shares={where: total})}
    for team in script.TEAMS:
        key = str(Project.objects.get(slug=team.slug).uid)
        parent = above.key if team.in_organisation else None
        changes[key] = Change(parent=parent, shares={where: Share(script.GUARANTEED)})
    queues_change(principal=operator, changes=changes)
    robotics = Project.objects.get(slug=script.TEAMS[-1].slug)
    research = Queue.objects.get(uid=above.key)
    for whose, hours, mode in (
        ({"organisation": research}, _RESEARCH_HOURS, "soft"),
        ({"project": robotics}, _ROBOTICS_HOURS, "hard"),
    ):
        values = {"hours": hours, "days": 7, "mode": mode}
        budget_make(principal=operator, values=values, **whose)


def _remember(cluster: Cluster, projects: dict[str, Project], exists: dict[str, int]) -> None:
    """Write how days before this one went, so that waits have something to be estimated by."""
    at = now()
    Turn.objects.bulk_create(
        Turn(
            cluster=cluster,
            workload_uid=uuid4(),
            workload_kind="job",
            project_uid=projects[held.who].uid,
            gpus=held.gpus,
            gpu_flavor=held.kind,
            asked_at=at + timedelta(seconds=held.asked_s),
            granted_at=at + timedelta(seconds=held.granted_s),
            ended_at=at + timedelta(seconds=held.ended_s),
        )
        for held in script.past(_PAST_DAYS, exists)
    )


def told(passwords: dict[str, str], address: str) -> str:
    """Return what the terminal shows, once: who may sign in, and by what."""
    lines = ["", "  The people of the demonstration, shown this once; sign in as one of them:"]
    lines.append(f"    address:  {address}")
    for team in script.TEAMS:
        below = f", in {script.ORGANISATION}" if team.in_organisation else ""
        lines.append(f"    {team.name} ({script.GUARANTEED} H100 guaranteed{below})")
        lines += [f"      {person:<9} {passwords[person]}" for person in team.people]
    return "\n".join([*lines, ""])
