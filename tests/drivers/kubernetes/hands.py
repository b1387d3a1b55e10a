"""What controllers and a node do, done by a thread of the test: there are none beside a bare API
server.
"""

from __future__ import annotations

import copy
import threading
from typing import Any

import httpx

from devcluster.kube import Kube, KubeError
from tests.drivers.kubernetes.pieces import pod, runs

NODE = "n1"
EVERY_S = 0.2
Object = dict[str, Any]


class Hands:
    """Each StatefulSet of the namespace has the pod that it asks for, and it is ready at once."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube, self.namespace = kube, namespace
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"conditions": [ready], "capacity": room, "allocatable": room}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": status}
        self.kube.create(node)
        self.kube.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        )
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(10)

    def sets(self) -> dict[str, Object]:
        return _by_name(self.kube.list("apps/v1", "StatefulSet", self.namespace))

    def pods(self) -> dict[str, Object]:
        return _by_name(self.kube.list("v1", "Pod", self.namespace))

    def delete_pod(self, name: str) -> None:
        self.kube.delete("v1", "Pod", name, self.namespace, gracePeriodSeconds="0")

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            try:
                self._turn()
            except (KubeError, httpx.HTTPError):
                continue  # somebody else was faster, or it ends

    def _turn(self) -> None:
        sets, pods = self.sets(), self.pods()
        wanted = {f"{name}-0": one for name, one in sets.items() if one["spec"]["replicas"]}
        for name in pods.keys() - wanted.keys():
            self.delete_pod(name)
        for name in wanted.keys() - pods.keys():
            self._make_pod(name, wanted[name])
        for name, one in sets.items():
            seen = one["metadata"]["generation"]
            if one.get("status", {}).get("observedGeneration") != seen:
                path = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{name}/status"
                status = {"observedGeneration": seen, "replicas": one["spec"]["replicas"]}
                self.kube.patch(path, {"status": status})

    def _make_pod(self, name: str, owner: Object) -> None:
        template = copy.deepcopy(owner["spec"]["template"])
        meta = {**template["metadata"], "name": name, "namespace": self.namespace}
        spec = {**template["spec"], "nodeName": NODE}
        self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        status = pod(main=runs(), node=NODE, ready=True)["status"]
        main = {"restartCount": 0, "ready": True, **status["containerStatuses"][0]}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        self.kube.patch(path, {"status": {**status, "containerStatuses": [main]}})


def _by_name(items: list[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in items}
