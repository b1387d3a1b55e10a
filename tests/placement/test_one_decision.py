"""For random fleets and requests, card, plan, launch, limits and engine say the same.

Whether something starts now is compared with a scheduler of the test's own, which knows nothing
but the nodes and what the engine would hand to the cluster.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from accounts.principal import Principal
from clusters.models import Cluster, Flavor, Node
from clusters.services import nodes_store
from common.clock import now
from common.errors import BerthError, Conflict, LimitExceeded
from notebooks.kind import WORKSPACE, row_of_preset
from notebooks.models import Preset
from notebooks.ui.home import cards
from placement.fleet import Fleet, engine_decision
from quotas.models import Limit
from quotas.selectors import Account
from runtime.capabilities.clusters import NodeChanges
from runtime.drivers.kubernetes.nodes import tolerates
from runtime.models import ObservedWorkload
from runtime.protocol import InvalidSpec
from runtime.spec import Placement
from tests.clusters.fleet import node
from tests.engineapp.models import Thing
from tests.notebooks.cluster_world import IMAGE, attach, network, pool, spec
from tests.support.workspaces import workspace_launch, workspace_plan
from work.attached import Attached
from work.services.resolve import Resolved, request_of

pytestmark = pytest.mark.django_db
KINDS = ("h100-80", "l40s")
POOLS = ("fabric", "spot", "quiet")
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
BEARS_IT = {"key": "team", "operator": "Exists", "effect": "NoSchedule"}


def stand(chance: random.Random, cluster: Cluster, project: Any) -> None:
    """Make pools, a network, nodes, and work that holds devices of some of them."""
    rows = []
    for name in chance.sample(POOLS, chance.randint(0, 3)):
        row = pool(
            cluster,
            name,
            kinds=chance.choice([[], [], [], ["notebook"], ["container", "job"]]),
            project_uids=chance.choice([[], [], [], [str(project.uid)], [str(uuid4())]]),
            tolerations=chance.choice([[], [BEARS_IT]]),
        )
        listed = chance.choice([(), (), (), KINDS, KINDS[:1]])
        row.flavors.set(Flavor.objects.filter(name__in=listed))
        rows.append(row)
    if chance.random() < 0.5:
        network(cluster, "rdma", *chance.sample(rows, min(len(rows), chance.randint(0, 2))))
    found = []
    for number in range(chance.randint(3, 8)):
        kind, inside = chance.choice([*KINDS, *KINDS, ""]), chance.choice([*rows, None])
        labels = {**({"gpu": kind} if kind else {}), **(inside.node_labels if inside else {})}
        devices = {"nvidia.com/gpu": chance.choice([1, 2, 4])} if kind else {}
        facts = node(f"n{number}", labels=labels, accelerators=devices)
        taints = (TAINT,) if chance.random() < 0.2 else ()
        found.append(replace(facts, taints=taints, schedulable=chance.random() < 0.9))
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=tuple(found), full=True))
    for row in Node.objects.filter(cluster=cluster).exclude(offers={}):
        if chance.random() < 0.6:
            (kind, most), *_others = row.offers.items()
            held = Thing.objects.create(
                cluster_key="gpu", gpus=chance.randint(1, most), gpu_flavor=kind, phase="running"
            )
            ObservedWorkload.objects.create(
                cluster_key="gpu",
                uid=held.uid,
                seen="ready",
                data={"detail": {"node": row.name}},
                seen_at=now(),
            )


def asked(chance: random.Random) -> dict[str, Any]:
    gpus = chance.choice([0, 1, 1, 2, 2, 4, 5])
    kind = chance.choice(["notebook", "notebook", "container"])
    return {
        "kind": kind,
        "image": IMAGE if kind == "container" else "",
        "cpu_milli": chance.choice([1000, 1000, 1000, 1000, 65_000]),
        "memory_mib": 1024,
        "gpus": gpus,
        "gpu_flavor": chance.choice(["", *KINDS, ",".join(KINDS)]) if gpus else "",
        "pool": chance.choice([*[""] * 12, *POOLS, "nowhere"]),
        "network": chance.choice([*[""] * 12, "rdma", "rdma", "nothing"]),
    }


def may_come(placement: Placement, row: Node, *, devices: bool) -> bool:
    """What the scheduler of Kubernetes makes of the pod that the engine would make."""
    bears = [*placement.tolerations]
    taints = [t for t in row.taints if not devices or t["key"] not in row.accelerators]
    return (
        row.ready
        and row.schedulable
        and placement.node_labels.items() <= row.labels.items()
        and (not placement.any_of or any(t.items() <= row.labels.items() for t in placement.any_of))
        and not any(row.labels.get(k) in values for k, values in placement.avoid.items())
        and all(any(tolerates(entry, taint) for entry in bears) for taint in taints)
    )


def free_on(row: Node) -> int:
    held = Counter[str]()
    for one in ObservedWorkload.objects.filter(cluster_key="gpu"):
        for work in Thing.objects.filter(uid=one.uid):
            held[one.data["detail"]["node"]] += work.gpus
    return sum(row.offers.values()) - held[row.name]


def test_all_who_are_asked_say_the_same(
    presets: Any, settings: Any, monkeypatch: Any, project: Any, alice: Any
) -> None:
    settings.BERTH_LOCAL_CLUSTER = False
    cluster = attach(monkeypatch)
    met = Counter[str]()
    for seed in range(30):
        chance = random.Random(seed)
        with transaction.atomic():
            stand(chance, cluster, project)
            cluster.refresh_from_db()
            if (limit := chance.choice([None, 0, 3])) is not None:
                Limit.objects.create(project=project, resource="gpus:h100-80", amount=limit)
            for _turn in range(5):
                met[check_one(cluster, project, alice, asked(chance))] += 1
            transaction.set_rollback(True)
    # what is met by chance is met often enough to show something
    assert min(met[word] for word in ("refused", "never", "waits", "starts", "limited")) > 2, met


def check_one(cluster: Cluster, project: Any, alice: Any, fields: dict[str, Any]) -> str:
    """Ask all of them, and return how it would go."""
    Preset.objects.filter(slug="small").update(**fields)
    preset = Preset.objects.get(slug="small")
    who = Principal(user=alice, token=None, ip="127.0.0.1")
    wanted = row_of_preset(preset, project, alice)
    request = request_of(WORKSPACE, wanted)
    decision = Fleet([cluster], project.uid).decide(cluster, request)
    card = next(c for c in cards(Account(project, alice)) if c.preset.pk == preset.pk)

    if decision.refusal is not None:
        said = str(decision.refusal)
        assert (card.refusal, decision.fits) == (said, False)
        with pytest.raises(InvalidSpec) as heard:
            engine_decision("gpu", request, project.uid)
        assert str(heard.value) == said
        for act in (workspace_plan, workspace_launch):
            with pytest.raises(BerthError) as refused:
                act(principal=who, project=project, preset=preset, said={})
            assert refused.value.message == said
        return "refused"

    plan = workspace_plan(principal=who, project=project, preset=preset, said={})
    engine = engine_decision("gpu", request, project.uid)
    assert engine.nodes == decision.nodes
    alone = Resolved(WORKSPACE, plan.row, Attached())
    for other in (card.forecast, plan.decision, alone.decision):
        assert (other.standing, other.nodes, other.flavors, other.network) == (
            (decision.standing, decision.nodes, decision.flavors, decision.network)
        )
    assert card.refusal == plan.refusal
    most = Limit.objects.filter(project=project).values_list("amount", flat=True).first()
    is_over = most is not None and "h100-80" in engine.flavors and wanted.gpus > most
    assert bool(plan.refusal) == bool(wanted.gpus and is_over)

    fails: Any = None
    if not decision.fits:
        fails = (Conflict, decision.sentence)
    elif plan.refusal:
        fails = (LimitExceeded, plan.refusal)
    with transaction.atomic():
        if fails is not None:
            with pytest.raises(fails[0]) as error, transaction.atomic():
                workspace_launch(principal=who, project=project, preset=preset, must_fit=True)
            assert error.value.message == fails[1]
        else:
            row = workspace_launch(principal=who, project=project, preset=preset, must_fit=True)
            assert spec(row).placement.any_of == decision.nodes.any_of
            assert spec(row).placement.avoid == decision.nodes.avoid
        transaction.set_rollback(True)
    agrees_with_the_scheduler(decision, cluster)
    if not decision.fits:
        return "never"
    return "limited" if plan.refusal else "starts" if decision.starts_now else "waits"


def agrees_with_the_scheduler(decision: Any, cluster: Cluster) -> None:
    """Where every pool has a node, advice is no guess."""
    wanted, nodes = decision.request.devices.count, list(Node.objects.filter(cluster=cluster))
    inside = [n for n in nodes for b in decision.bound if b.node_labels.items() <= n.labels.items()]
    if not wanted or (decision.bound and not any(n.offers for n in inside)):
        return
    good = [n for n in nodes if n.offers and may_come(decision.nodes, n, devices=True)]
    if not decision.kinds:  # "any" where no kind is known: nobody promises anything
        assert not decision.starts_now
        return
    enough = [n for n in good if free_on(n) >= wanted and n.cpu_milli >= decision.request.cpu_milli]
    assert decision.starts_now is bool(enough), (decision, good)
