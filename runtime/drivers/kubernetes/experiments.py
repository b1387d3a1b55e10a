"""Katib's objects of a search: it chooses values, and is told what came of them.

A trial of Katib makes an object of its own. Here that is a Job which nothing lets start: it holds
nothing, and Katib takes it away when the trial is told how it ended. What runs with the values is
work of Berth's own (ADR 0015). They lie in one namespace of their own: Katib wants a label there
that puts it before every pod, so a Katib that is away would stop what members run.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.capabilities.experiments import EXPERIMENT, ExperimentSpec, Proposal, TrialEnd
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.answers import raise_for
from runtime.drivers.kubernetes.builders import tenant, tenant_access, tenant_policies
from runtime.drivers.kubernetes.client import MERGE, KubeClient, Object, path_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied, NotYet, Observation, Seen

VERSION = "kubeflow.org/v1beta1"
OF = "katib.kubeflow.org/experiment"  # Katib's label of all that belongs to one
NEVER = f"{names.DOMAIN}/never"  # a gate that nobody opens
INJECTED = {"katib.kubeflow.org/metrics-collector-injection": "enabled"}
# Where its manifests put its controller, which asks the pod that it makes for each search.
CONTROLLER, COMPONENT, PORT = "kubeflow/controller", "katib.kubeflow.org/component", 6789
_ENDS = frozenset(("Succeeded", "Failed", "EarlyStopped", "Killed", "MetricsUnavailable"))
_NOT_FOUND, _CONFLICT = 404, 409


class Experiments:
    """The experiment verbs of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options
        self._place = names.searches(options.namespace_prefix)

    def ensure(self, spec: ExperimentSpec) -> tuple[Proposal, ...]:
        name = name_of(spec)
        live = self._client.get(VERSION, "experiments", name, self._place)
        if live is not None and live["metadata"].get("deletionTimestamp"):
            raise NotYet("The experiment of that name is being removed.", retry_in=2.0)
        wanted = built(spec, self._options)
        if live is None:
            where = self._client.get("v1", "namespaces", self._place)
            if where is not None and names.is_foreign(where, self._options.installation):
                raise Denied(f"The namespace {self._place} was made by another Berth.")
            for one in (*place(self._options), wanted):
                self._client.apply(one)
            return ()
        change = {
            key: wanted["spec"][key]
            for key in ("maxTrialCount", "parallelTrialCount")
            if live["spec"].get(key) != wanted["spec"][key]
        }
        if change:
            self._client.patch(VERSION, "experiments", name, self._place, {"spec": change})
        found = self._client.list(VERSION, "trials", self._place, f"{OF}={name}")
        found = [one for one in found if not one["metadata"].get("deletionTimestamp")]
        found.sort(key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
        return tuple(map(_proposal, found))

    def tell(self, spec: ExperimentSpec, name: str, end: TrialEnd) -> None:
        """Katib's controller writes the same status: who was slower has to look again."""
        trial = self._client.get(VERSION, "trials", name, self._place)
        if trial is None or _is_told(trial):
            return
        change = {
            "metadata": {"resourceVersion": trial["metadata"]["resourceVersion"]},
            "status": told(trial, spec.metric, end),
        }
        path = path_of(VERSION, "trials", name, self._place) + "/status"
        answer = self._client.request("PATCH", path, {"fieldManager": names.MANAGER}, change, MERGE)
        if answer.status == _CONFLICT:
            raise NotYet("The trial is being written by Katib.", retry_in=0.5)
        if answer.status != _NOT_FOUND:
            raise_for(answer)

    def remove(self, uid: str) -> None:
        where = self._client.get("v1", "namespaces", self._place)
        if where is None or names.is_foreign(where, self._options.installation):
            return  # nothing of ours is there
        if self._is_gone():
            return
        its = f"{names.EXPERIMENT}={uid}"
        there = self._client.list(VERSION, "experiments", self._place, its)
        for one in there:
            self._client.delete(VERSION, "experiments", one["metadata"]["name"], self._place)
        left = self._client.list(VERSION, "trials", self._place, its)
        if there or left:
            text = f"{len(left)} records are left; they go when its database answers."
            raise NotYet(text, retry_in=2.0)

    def owned(self) -> list[Observation]:
        """Theirs is whose their namespace is: a mark of their own would be Katib's pods', too."""
        where = self._client.get("v1", "namespaces", self._place)
        if where is None or self._is_gone():
            return []
        whose = str((where["metadata"].get("labels") or {}).get(names.INSTALLATION, ""))
        found = {
            one["metadata"]["labels"][names.EXPERIMENT]: one["metadata"].get("deletionTimestamp")
            for kind in ("experiments", "trials")
            for one in self._client.list(VERSION, kind, self._place, names.EXPERIMENT)
        }
        return [
            Observation(
                uid, Seen.STOPPING if ends else Seen.READY, kind=EXPERIMENT, installation=whose
            )
            for uid, ends in found.items()
        ]

    def _is_gone(self) -> bool:
        """Whether Katib was taken away, and all of it with its kind; others have theirs there."""
        answer = self._client.read(f"/apis/{VERSION}")
        if answer.status == _NOT_FOUND:
            return True
        said = raise_for(answer).json() or {}
        return all(one.get("name") != "experiments" for one in said.get("resources") or [])


def name_of(spec: ExperimentSpec) -> str:
    return names.experiment(spec.name, spec.uid, spec.generation)


def place(options: KubernetesOptions) -> list[Object]:
    """Return the namespace of all searches: nobody but Katib's controller reaches its pods."""
    name = names.searches(options.namespace_prefix)
    marks = names.marks(options.namespace_prefix, options.installation)
    meta = {"name": name, "labels": {**marks, **tenant.RESTRICTED, **INJECTED}}
    rule = {"from": [tenant_policies.peer(CONTROLLER, label=COMPONENT)], "ports": [{"port": PORT}]}
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "allow-katib", "namespace": name, "labels": marks},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [rule]},
    }
    there = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    return [there, *tenant_access.portal(name, marks, options), policy]


def built(spec: ExperimentSpec, options: KubernetesOptions) -> Object:
    """Return the Experiment. Its end is Berth's to decide: no goal, no count of failures."""
    kind = "maximize" if spec.maximizes else "minimize"
    settings = [{"name": name, "value": value} for name, value in spec.settings.items()]
    known = [one["name"] for one in spec.space]
    where = {"name": name_of(spec), "namespace": names.searches(options.namespace_prefix)}
    return {
        "apiVersion": VERSION,
        "kind": "Experiment",
        # Katib gives labels to its pod: with our usual marks that would pass for a workload.
        "metadata": {**where, "labels": {names.EXPERIMENT: spec.uid}},
        "spec": {
            "objective": {"type": kind, "objectiveMetricName": spec.metric},
            "algorithm": {"algorithmName": spec.algorithm, "algorithmSettings": settings},
            "parameters": [dict(one) for one in spec.space],
            "maxTrialCount": spec.trials_max,
            "parallelTrialCount": spec.parallel,
            "resumePolicy": "LongRunning",  # it is removed when it has ended
            "metricsCollectorSpec": {"collector": {"kind": "Push"}},
            "trialTemplate": {
                "primaryContainerName": names.MAIN,
                "trialParameters": [{"name": name, "reference": name} for name in known],
                "trialSpec": standing(known),
            },
        },
    }


def standing(parameters: Sequence[str]) -> Object:
    """Return the Job that stands for a trial at Katib, and that nothing lets start."""
    # By number: a key of 63 characters has no room for a name that may have as many.
    values = {
        f"{names.DOMAIN}/parameter.{number}": f"{n}=${{trialParameters.{n}}}"
        for number, n in enumerate(parameters, 1)
    }
    container = {"name": names.MAIN, "image": "none", "command": ["none"]}
    pod = {
        "containers": [container],
        "restartPolicy": "Never",
        "schedulingGates": [{"name": NEVER}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"annotations": values},
        "spec": {"suspend": True, "backoffLimit": 0, "template": {"spec": pod}},
    }


def told(trial: Mapping[str, Any], metric: str, end: TrialEnd) -> Object:
    """Return the status of a trial that has ended, as Katib's own controller would write it."""
    at = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stamp = {"lastTransitionTime": at, "lastUpdateTime": at}
    before = (trial.get("status") or {}).get("conditions") or []
    conditions = [
        {**one, "status": "False", **stamp} if one["type"] == "Running" else one for one in before
    ]
    ended = {"type": end.state, "status": "True", "reason": f"Trial{end.state}", **stamp}
    conditions.append({**ended, "message": end.message or "As Berth's job of this trial ended."})
    found: Object = {"conditions": conditions, "completionTime": at}
    if end.curve:
        ends = {"latest": end.curve[-1], "min": min(end.curve), "max": max(end.curve)}
        said = {"name": metric, **{name: repr(value) for name, value in ends.items()}}
        found["observation"] = {"metrics": [said]}
    return found


def _proposal(trial: Mapping[str, Any]) -> Proposal:
    said = (trial.get("spec") or {}).get("parameterAssignments") or []
    values = {str(one["name"]): str(one["value"]) for one in said}
    return Proposal(str(trial["metadata"]["name"]), values, _is_told(trial))


def _is_told(trial: Mapping[str, Any]) -> bool:
    conditions = (trial.get("status") or {}).get("conditions") or []
    return any(one.get("type") in _ENDS and one.get("status") == "True" for one in conditions)
