"""What runs to its end by an operator of the cluster, which makes the pods of each role.

Its own object (``MPIJob``, ``TrainJob``, ``JobSet``) stays as the record of how it ended, like a
Job. A stop suspends it: where Kueue lets it in, its Workload is made inactive first, or Kueue would
let it go on.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.drivers.kubernetes import names, observe_job, queues
from runtime.drivers.kubernetes import observe as seeing
from runtime.drivers.kubernetes.builders import pod_fields, workload
from runtime.drivers.kubernetes.client import Object
from runtime.drivers.kubernetes.ending import ENDING, end_pods
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes.base import Hands, Pod, firsts
from runtime.protocol import NotYet, Observation
from runtime.spec import Network, PodGroup, WorkloadSpec

_POLICIES = pod_fields.KINDS[1]
_ONE_PLACE = "kueue.x-k8s.io/podset-group-name"
# How operators call what a Job calls so.
_ENDS = {"Succeeded": "Complete", "Completed": "Complete"}


@dataclass(frozen=True)
class Roles:
    """What a builder is given: the pod of each role, and the heads of its objects."""

    spec: WorkloadSpec
    options: KubernetesOptions
    meta: Mapping[str, Any]  # of what is queued
    plain: Mapping[str, Any]  # of what lies beside it
    labels: Mapping[str, str]
    files: bool

    @property
    def name(self) -> str:
        return str(self.plain["name"])

    def template(self, group: PodGroup, *, is_apart: bool = True) -> dict[str, Any]:
        """Return the pods of one role; ``is_apart``: Kueue places them by themselves.

        Two roles of which one has one pod stand together, which is all that Kueue can promise.
        """
        labels = {**self.labels, names.WORKLOAD: self.name, names.ROLE: group.role}
        spec = of_role(self.spec, group)
        made = workload.template(spec, self.options, labels=labels, files=self.files)
        if self.spec.resources.gpus and not spec.resources.gpus:  # what all are told says others
            container = made["spec"]["containers"][0]
            hidden = pod_fields.named(pod_fields.NONE)
            container["env"] = [*container.get("env", ()), *hidden]
        if is_apart and self.spec.placement.together and len(self.spec.groups) == 2:  # noqa: PLR2004
            made["metadata"]["annotations"][_ONE_PLACE] = "all"
        return made


@dataclass(frozen=True)
class Operated:
    """One operator's kind. ``made`` writes its objects, the one that owns the pods last."""

    VERSION: str
    PLURAL: str
    KIND: str
    operator: str
    made: Callable[[Roles], list[Object]]
    suspend: tuple[str, ...] = ("spec", "suspend")
    more: tuple[tuple[str, str], ...] = ()  # apiVersion and plural of what has the same name

    def build(
        self, spec: WorkloadSpec, options: KubernetesOptions, *, files: bool = False
    ) -> list[Object]:
        meta, labels = workload.head(spec, options)
        meta["annotations"] |= {
            names.ROLE: observe_job.roles_said(spec.groups),
            names.RETRIES: str(max(0, spec.retry.attempts - 1)),
        }
        plain = workload.own(spec, options)
        _service, policy = pod_fields.meeting(plain)  # the operator names its pods by a Service
        return [policy, *self.made(Roles(spec, options, meta, plain, labels, files))]

    def pods(self, owner: Mapping[str, Any], pods: Iterable[Pod]) -> list[Pod | None]:
        """By the label of the role, and the number that the operator gives inside of it."""
        roles = observe_job.roles_of(as_job(owner))
        mine: dict[int, list[Pod]] = {}
        for pod in pods:
            labels = pod["metadata"].get("labels") or {}
            role = labels.get(names.ROLE, "")
            if labels.get(names.WORKLOAD) == owner["metadata"]["name"] and role in roles:
                number = roles.index(role) + _number_in_role(pod)
                mine.setdefault(number, []).append(pod)
        job = as_job(owner)
        return [observe_job.newest(job, mine.get(number, [])) for number in range(len(roles))]

    def observe(self, sights: Sequence[Sight]) -> Observation:
        return observe_job.judge_group([replace(s, owner=as_job(s.owner)) for s in sights])

    def beside(self, owner: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        name = str(owner["metadata"]["name"])
        return [(version, plural, name) for version, plural in (*self.more, _POLICIES)]

    def must_write(self, hands: Hands, owner: Object, spec: WorkloadSpec) -> bool:
        if owner["metadata"].get("deletionTimestamp"):
            raise NotYet(ENDING, retry_in=0.3)
        if seeing.launch_of(owner) >= spec.launch:
            return False
        self.stop(hands, owner, grace_s=spec.stop_grace_s)
        self.remove(hands, owner)
        raise NotYet(ENDING, retry_in=0.2)

    def stop(self, hands: Hands, owner: Object, *, grace_s: float) -> None:
        """NotYet until no pod of it runs and none can come any more."""
        if owner["metadata"].get("deletionTimestamp"):
            raise NotYet(ENDING, retry_in=0.5)
        job = as_job(owner)
        found = [p for p in hands.pods(owner) if names.WORKLOAD in (p["metadata"]["labels"] or {})]
        is_over = observe_job.is_finished(job)
        if not is_over and names.QUEUE in (owner["metadata"].get("labels") or {}):
            queues.hold(hands.client, owner)
        if seeing.note_of(owner).get("launch") != seeing.launch_of(owner):
            self._end(hands, owner, found, is_over=is_over)
        alive = [pod for pod in found if not observe_job.is_over(pod)]
        end_pods(hands.client, alive, grace_s)
        if not (is_over or observe_job.is_suspended(job)):
            raise NotYet(ENDING, retry_in=0.3)  # a pod may just be made

    def _end(self, hands: Hands, owner: Object, found: list[Object], *, is_over: bool) -> None:
        """Note how it ended, keep the end of its log, and let no pod come any more."""
        its = self.pods(owner, found)
        end = observe_job.note_group(as_job(owner), its)
        hands.logs.keep(owner, its, firsts(self.pods, owner, found))
        note = {"launch": seeing.launch_of(owner), "at": time.time(), "reason": "stopped"}
        text = json.dumps({**note, **end}, separators=(",", ":"))
        change: dict[str, Any] = {"metadata": {"annotations": {names.ENDED: text}}}
        if not is_over:
            held: Any = True
            for step in reversed(self.suspend):
                held = {step: held}
            change |= held
        meta = owner["metadata"]
        hands.client.patch(self.VERSION, self.PLURAL, meta["name"], meta["namespace"], change)

    def remove(self, hands: Hands, owner: Object) -> None:
        """Take it away with what lies beside it, itself last: it leads to the rest."""
        meta = owner["metadata"]
        for version, plural, name in self.beside(owner):
            hands.client.delete(version, plural, name, meta["namespace"])
        hands.client.delete(
            self.VERSION, self.PLURAL, meta["name"], meta["namespace"], uid=meta["uid"]
        )


def of_role(spec: WorkloadSpec, group: PodGroup) -> WorkloadSpec:
    """Return what is asked for in one role: its own size.

    Without GPUs it stands on any node, and has no card of the networks that those have.
    """
    if group.resources is None:
        return spec
    if group.resources.gpus:
        return replace(spec, resources=group.resources)
    anywhere = replace(spec.placement, any_of=(), ranks=(), together=None)
    return replace(spec, resources=group.resources, placement=anywhere, network=Network())


def as_job(owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return it as an indexed Job would tell the same, which is judged by one set of rules."""
    spec, status = owner.get("spec") or {}, owner.get("status") or {}
    if spec.get("completionMode"):
        return dict(owner)
    notes = owner["metadata"].get("annotations") or {}
    held = spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend")
    launcher = (status.get("replicaStatuses") or {}).get("Launcher") or {}
    conditions = [
        {**one, "type": _ENDS.get(str(one.get("type")), one.get("type"))}
        for one in status.get("conditions") or []
    ]
    return {
        "kind": owner.get("kind", ""),
        "metadata": owner["metadata"],
        "spec": {
            "completionMode": "Indexed",
            "completions": len(observe_job.roles_of(owner)),
            "replicas": 1,
            "suspend": bool(held),
            "backoffLimitPerIndex": int(notes.get(names.RETRIES, "0")),
        },
        "status": {"conditions": conditions, "failed": launcher.get("failed") or 0},
    }


def _number_in_role(pod: Mapping[str, Any]) -> int:
    """A Job's pods have a label for it, others end their name with it; a launcher is alone."""
    meta = pod["metadata"]
    if names.INDEX in (meta.get("labels") or {}):
        return observe_job.index_of(pod)
    last = str(meta["name"]).rpartition("-")[2]
    alone = (meta.get("labels") or {}).get(names.ROLE) == "launcher"
    return int(last) if last.isdigit() and not alone else 0
