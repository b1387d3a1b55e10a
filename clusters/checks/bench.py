"""Throwaway namespaces and pods for checks that have to see something happen.

Pods are made as workloads of tenants are: one-replica StatefulSets under Pod Security
*restricted*. Everything carries ``berth.dev/check`` and goes with its namespace.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from common.clock import now
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import devices
from runtime.protocol import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusters.checks.base import Answer, Asker
    from clusters.options import ClusterOptions

MARK = "berth.dev/check"
INSTANCE = "berth.dev/instance"
LEFT_OVER_S = 600.0
SETTLES_S = 20.0
PORT = 8080
NOT_FOUND = 404
_T = TypeVar("_T")
_NODE_ADDRESS = {
    "name": "NODE_ADDRESS",
    "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}},
}


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


@dataclass
class Bench:
    api: Asker
    options: ClusterOptions
    wait_s: float = 90.0
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
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

    def namespace(self, which: str) -> str:
        """Return a namespace of its own, made at the first call."""
        name = f"{self.options.namespace_prefix}check-{self.mark}-{which}"
        if name in self._made:
            return name
        restricted = {
            f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")
        }
        labels = {**self.labels(), **restricted}
        self.apply(
            f"/api/v1/namespaces/{name}",
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels},
            },
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
        claim: str = "",
        image: str = "",
    ) -> None:
        """Run ``script`` by python3 of ``image``, or of the check image."""
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
                        "spec": self._pod(script, env or {}, claim, image or self.image),
                    },
                },
            },
        )

    def address(self, namespace: str, name: str) -> str:
        """Wait until it runs; return its address."""
        return self._seen(namespace, name, _address)

    def ended(self, namespace: str, name: str, runs_s: float = 0.0) -> Ended:
        """Wait until its script ended once; a container that was started again counts too.

        ``runs_s``: how long the script itself may take.
        """
        return self._seen(namespace, name, _end, runs_s)

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
        wanted = f"{MARK},{INSTANCE}={self.labels()[INSTANCE]}"
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
        return {MARK: self.mark, INSTANCE: self.options.namespace_prefix.strip("-") or "berth"}

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

    def _pod(self, script: str, env: Mapping[str, str], claim: str, image: str) -> dict[str, Any]:
        user = self.options.run_as_user
        container: dict[str, Any] = {
            "name": "main",
            "image": image,
            "command": ["python3", "-c", script],
            # first: what follows may name it as $(NODE_ADDRESS)
            "env": [_NODE_ADDRESS, *devices.named({**env, **devices.NONE})],
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
        if claim:
            container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        return spec

    def _seen(
        self,
        namespace: str,
        name: str,
        found: Callable[[Mapping[str, Any]], _T | None],
        runs_s: float = 0.0,
    ) -> _T:
        """Look at the pod until ``found`` sees in its status what is waited for."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}-0"
        until = time.monotonic() + self.wait_s + runs_s
        while True:
            answer = self.api.ask("GET", path)
            status = (answer.body.get("status") or {}) if answer.ok else {}
            seen = found(status)
            if seen is not None:
                return seen
            self._look_at_image(status)
            if time.monotonic() >= until:
                refused = "" if answer.ok or answer.status == NOT_FOUND else answer.message
                why = refused or _hindrance(status) or f"no pod within {self.wait_s:.0f} s"
                raise TooLongError(why, status)
            time.sleep(0.3)

    def _look_at_image(self, status: Mapping[str, Any]) -> None:
        containers = status.get("containerStatuses") or ()
        for container, waiting in zip(containers, _waiting(status), strict=True):
            if waiting.get("reason") in {"ImagePullBackOff", "InvalidImageName"}:
                why = waiting.get("message") or waiting["reason"]
                raise ImageRefusedError(f"{container.get('image') or self.image}: {why}")


def _volume_uid(mark: str) -> str:
    return f"check-{mark}"


def _address(status: Mapping[str, Any]) -> str | None:
    return str(status.get("podIP") or "") or None if status.get("phase") == "Running" else None


def _end(status: Mapping[str, Any]) -> Ended | None:
    for container in status.get("containerStatuses") or ():
        for key in ("state", "lastState"):
            ended = (container.get(key) or {}).get("terminated")
            if ended:
                return Ended(int(ended.get("exitCode", 1)), str(ended.get("message") or ""))
    return None


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
