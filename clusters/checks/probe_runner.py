"""Throwaway namespaces and pods for checks that have to see something happen.

Pods are made as workloads of tenants are: one-replica StatefulSets under Pod Security
*restricted*. Everything carries ``berth.dev/check`` and goes with its namespace.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from clusters.checks.node_groups import ANYWHERE, NodeGroup, placed
from common.clock import now
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import pod_fields
from runtime.protocol import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from clusters.checks.base import Answer, Asker
    from clusters.options import ClusterOptions

MARK = "berth.dev/check"
LEFT_OVER_S = 600.0
SETTLES_S = 20.0
PORT = 8080
NOT_FOUND = 404
_T = TypeVar("_T")
_NODE_ADDRESS = {"name": "NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}


class BenchError(Exception):
    """The bench could not be set up; the text says what the cluster answered."""


class ImageRefusedError(BenchError):
    """A node says that it can't get the image."""


class TooLongError(BenchError):
    """Time ran out. Why is not known: ``status`` is the pod's as it was seen last, or empty."""

    def __init__(self, why: str, status: Mapping[str, Any]) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Ended:
    """How a script ended. ``said``: what the container's runtime says of it, if anything."""

    code: int
    said: str = ""
    node: str = ""


@dataclass(frozen=True)
class Running:
    """Where a pod is reached, and the node that it is on."""

    address: str
    node: str = ""


@dataclass(frozen=True)
class Needs:
    """What most probes do without. ``on``: the nodes that it may come to."""

    claim: str = ""
    image: str = ""
    on: NodeGroup = ANYWHERE


DEFAULT = Needs()


@dataclass
class Bench:
    api: Asker
    options: ClusterOptions
    wait_s: float = 90.0
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    tolerations: tuple[Mapping[str, str], ...] = ()  # of every pod, as work has them
    installation: str = ""
    _made: list[str] = field(default_factory=list)
    _volumes: list[str] = field(default_factory=list)

    @property
    def image(self) -> str:
        options = self.options
        return options.check_image or options.guard_image or options.data_image

    @property
    def settles_s(self) -> float:
        """How long an API server may take to hear of a right that was just given."""
        return min(self.wait_s, SETTLES_S)

    def namespace(self, which: str, more: Mapping[str, str] | None = None) -> str:
        """Return a namespace of its own, made at the first call, with ``more`` labels."""
        name = f"{self.options.namespace_prefix}check-{self.mark}-{which}"
        if name in self._made:
            return name
        restricted = {
            f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")
        }
        labels = {**self.labels(), **restricted, **(more or {})}
        self.apply(
            f"/api/v1/namespaces/{name}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
        )
        self._made.append(name)
        self._let_in(name)
        return name

    def apply(self, path: str, obj: Mapping[str, Any]) -> Answer:
        answer = self.api.ask("APPLY", path, obj)
        if not answer.ok:
            raise BenchError(answer.message)
        return answer

    def policy(self, namespace: str, name: str, spec: Mapping[str, Any]) -> None:
        self.apply(
            f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/{name}",
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": name, "namespace": namespace, "labels": self.labels()},
                "spec": dict(spec),
            },
        )

    def start(
        self,
        namespace: str,
        name: str,
        script: str,
        *,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        needs: Needs | None = None,
    ) -> None:
        """Run ``script`` by python3 of the check image, or of the one that it needs."""
        marks = {**self.labels(), "app": name, **(labels or {})}
        self.apply(
            f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}",
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": name, "namespace": namespace, "labels": marks},
                "spec": {
                    "replicas": 1,
                    "serviceName": name,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": marks},
                        "spec": self.pod(script, env, needs or DEFAULT),
                    },
                },
            },
        )

    def running(self, namespace: str, names: Iterable[str]) -> dict[str, Running | BenchError]:
        """Wait until they run, all within the one time; of each return where, or why not."""
        return self._seen_of(namespace, names, _running)

    def ends(
        self, namespace: str, names: Iterable[str], runs_s: float = 0.0
    ) -> dict[str, Ended | BenchError]:
        """``ended`` of several, all within the one time."""
        return self._seen_of(namespace, names, _end, runs_s)

    def ended(self, namespace: str, name: str, runs_s: float = 0.0) -> Ended:
        """Wait until its script ended once; a container that was started again counts too.

        ``runs_s``: how long the script itself may take.
        """
        found = self.ends(namespace, [name], runs_s)[name]
        if isinstance(found, BenchError):
            raise found
        return found

    def exit_code(self, namespace: str, name: str, runs_s: float = 0.0) -> int:
        return self.ended(namespace, name, runs_s).code

    @property
    def volume_uid(self) -> str:
        return _volume_uid(self.mark)

    def remember_volume(self, name: str) -> None:
        self._volumes.append(name)

    def close(self) -> None:
        """Remove all of it; what the cluster still does afterwards is not waited for."""
        for name in self._made:
            self._quietly(f"/api/v1/namespaces/{name}")
        for name in self._volumes:
            self._quietly(f"/api/v1/persistentvolumes/{name}")

    def sweep(self) -> None:
        """Remove what a run that was killed has left."""
        whose = names.marks(self.options.namespace_prefix, self.installation)
        wanted = ",".join([MARK, *(f"{name}={value}" for name, value in whose.items())])
        answer = self.api.ask("GET", "/api/v1/namespaces", params={"labelSelector": wanted})
        for found in answer.body.get("items") or () if answer.ok else ():
            meta = found.get("metadata") or {}
            if _age_s(str(meta.get("creationTimestamp", ""))) > LEFT_OVER_S:
                mark = str((meta.get("labels") or {}).get(MARK, ""))
                # before what it is known by: volumes can't be listed
                self._quietly(f"/api/v1/persistentvolumes/{names.volume(_volume_uid(mark))}")
                self._quietly(f"/api/v1/namespaces/{meta.get('name')}")

    def _quietly(self, path: str) -> None:
        try:
            self.api.ask("DELETE", path)
        except DriverError:
            return  # the next run sweeps

    def labels(self) -> dict[str, str]:
        return {MARK: self.mark, **names.marks(self.options.namespace_prefix, self.installation)}

    def _let_in(self, namespace: str) -> None:
        """Where the portal's rights hold only inside projects, they are needed here too."""
        account = self.options.portal_account
        if not self.options.portal_role or not account:
            return
        where, _slash, name = account.partition("/")
        group = "rbac.authorization.k8s.io"
        self.apply(
            f"/apis/{group}/v1/namespaces/{namespace}/rolebindings/berth-portal",
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "berth-portal", "namespace": namespace},
                "roleRef": {
                    "apiGroup": group,
                    "kind": "ClusterRole",
                    "name": self.options.portal_role,
                },
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": where}],
            },
        )
        until = time.monotonic() + self.settles_s
        path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/none"
        while self.api.ask("GET", path).status != NOT_FOUND and time.monotonic() < until:
            time.sleep(0.2)

    def pod(
        self, script: str, env: Mapping[str, str] | None = None, needs: Needs = DEFAULT
    ) -> dict[str, Any]:
        """Return the description of a pod as work's, that runs a script."""
        user = self.options.run_as_user
        container: dict[str, Any] = {
            "name": "main",
            "image": needs.image or self.image,
            "command": ["python3", "-c", script],
            # first: what follows may name it as $(NODE_ADDRESS)
            "env": [_NODE_ADDRESS, *pod_fields.named({**(env or {}), **pod_fields.NONE})],
            "resources": {
                "requests": {"cpu": "10m", "memory": "32Mi"},
                "limits": {"cpu": "500m", "memory": "128Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        spec: dict[str, Any] = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        }
        if self.options.user_namespaces:
            # as workloads have it: a volume that can't be mapped keeps their pods from starting
            spec["hostUsers"] = False
        if claim := needs.claim:
            container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        return spec | placed(needs.on, self.tolerations)

    def _seen_of(
        self,
        namespace: str,
        names: Iterable[str],
        found: Callable[[Mapping[str, Any]], _T | None],
        runs_s: float = 0.0,
    ) -> dict[str, _T | BenchError]:
        """Look at the pods until ``found`` sees in each what is waited for, or says why not."""
        until = time.monotonic() + self.wait_s + runs_s
        known: dict[str, _T | BenchError] = {}
        waited = list(names)
        while True:
            for name in waited:
                try:
                    seen = self._look(namespace, name, found, until)
                except BenchError as error:
                    known[name] = error
                else:
                    if seen is not None:
                        known[name] = seen
            waited = [name for name in waited if name not in known]
            if not waited:
                return known
            time.sleep(0.3)

    def _look(
        self,
        namespace: str,
        name: str,
        found: Callable[[Mapping[str, Any]], _T | None],
        until: float,
    ) -> _T | None:
        answer = self.api.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{name}-0")
        pod = answer.body if answer.ok else {}
        seen = found(pod)
        if seen is not None:
            return seen
        status = pod.get("status") or {}
        self._look_at_image(status)
        if time.monotonic() >= until:
            refused = "" if answer.ok or answer.status == NOT_FOUND else answer.message
            why = refused or _hindrance(status) or f"no pod within {self.wait_s:.0f} s"
            raise TooLongError(why, status)
        return None

    def _look_at_image(self, status: Mapping[str, Any]) -> None:
        containers = status.get("containerStatuses") or ()
        for container, waiting in zip(containers, _waiting(status), strict=True):
            if waiting.get("reason") in {"ImagePullBackOff", "InvalidImageName"}:
                why = waiting.get("message") or waiting["reason"]
                raise ImageRefusedError(f"{container.get('image') or self.image}: {why}")


def _volume_uid(mark: str) -> str:
    return f"check-{mark}"


def _running(pod: Mapping[str, Any]) -> Running | None:
    status = pod.get("status") or {}
    address = str(status.get("podIP") or "") if status.get("phase") == "Running" else ""
    return Running(address, _node(pod)) if address else None


def _end(pod: Mapping[str, Any]) -> Ended | None:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        for key in ("state", "lastState"):
            ended = (container.get(key) or {}).get("terminated")
            if ended:
                code, said = int(ended.get("exitCode", 1)), str(ended.get("message") or "")
                return Ended(code, said, _node(pod))
    return None


def _node(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _waiting(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    containers = status.get("containerStatuses") or ()
    return [(container.get("state") or {}).get("waiting") or {} for container in containers]


def _hindrance(status: Mapping[str, Any]) -> str:
    """What the cluster says of a pod that does not run: of its container, else of the pod."""
    said = [str(waiting.get("message") or "") for waiting in _waiting(status)]
    lacking = (c for c in status.get("conditions") or () if c.get("status") == "False")
    said += [str(condition.get("message") or "") for condition in lacking]
    return next(filter(None, said), "")


def _age_s(stamp: str) -> float:
    from datetime import datetime

    try:
        return (now() - datetime.fromisoformat(stamp)).total_seconds()
    except ValueError:
        return 0.0
