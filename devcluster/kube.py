"""A small client of the API server over plain dicts, for set-up and tests (not for the portal)."""

import json
import ssl
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

Object = dict[str, Any]
APPLY = "application/apply-patch+yaml"
# Kinds whose plural is not the kind in lower case with an s.
PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "StorageClass": "storageclasses",
    "RuntimeClass": "runtimeclasses",
    "PriorityClass": "priorityclasses",
    "IngressClass": "ingressclasses",
    "GatewayClass": "gatewayclasses",
    "VolumeSnapshotClass": "volumesnapshotclasses",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "Topology": "topologies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "Endpoints": "endpoints",
    "EndpointSlice": "endpointslices",
}


class KubeError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


def path_of(
    api_version: str, kind: str, namespace: str | None = None, name: str | None = None
) -> str:
    """``/api/v1/namespaces/a/pods/b``."""
    parts = ["api" if "/" not in api_version else "apis", api_version]
    if namespace:
        parts += ["namespaces", namespace]
    parts.append(PLURALS.get(kind, kind.lower() + "s"))
    if name:
        parts.append(name)
    return "/" + "/".join(parts)


class Kube:
    def __init__(self, kubeconfig: Path, *, timeout_s: float = 30) -> None:
        content = json.loads(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        context = ssl.create_default_context(
            cadata=b64decode(cluster["certificate-authority-data"]).decode()
        )
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile(dir=kubeconfig.parent) as pair:
                pair.write(b64decode(user["client-certificate-data"]))
                pair.write(b64decode(user["client-key-data"]))
                pair.flush()
                context.load_cert_chain(pair.name)
        self.http = httpx.Client(
            base_url=cluster["server"],
            headers={"Authorization": f"Bearer {user['token']}"} if "token" in user else {},
            verify=context,
            timeout=timeout_s,
            trust_env=False,
        )

    def close(self) -> None:
        self.http.close()

    def request(self, method: str, path: str, **options: Any) -> Any:
        answer = self.http.request(method, path, **options)
        if answer.status_code >= httpx.codes.BAD_REQUEST:
            raise KubeError(answer.status_code, message_of(answer))
        kind = answer.headers.get("content-type", "")
        return answer.json() if "json" in kind else answer.text

    def ready(self, path: str = "/readyz") -> bool:
        try:
            return self.http.get(path, timeout=10).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def get(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> Object | None:
        """None when it is not there."""
        try:
            found: Object = self.request("GET", path_of(api_version, kind, namespace, name))
        except KubeError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise
        return found

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, **parameters: str
    ) -> list[Object]:
        """``labelSelector=…`` and the like may be given."""
        path = path_of(api_version, kind, namespace)
        items: list[Object] = self.request("GET", path, params=parameters)["items"]
        return items

    def apply(self, item: Object, *, manager: str = "devcluster") -> Object:
        """Server-side apply of one object, ours whatever others say."""
        metadata = item["metadata"]
        path = path_of(
            item["apiVersion"], item["kind"], metadata.get("namespace"), metadata["name"]
        )
        applied: Object = self.request(
            "PATCH",
            path,
            params={"fieldManager": manager, "force": "true"},
            content=json.dumps(item),
            headers={"content-type": APPLY},
        )
        return applied

    def create(self, item: Object) -> Object:
        path = path_of(item["apiVersion"], item["kind"], item["metadata"].get("namespace"))
        created: Object = self.request("POST", path, json=item)
        return created

    def patch(self, path: str, body: Object, *, kind: str = "merge") -> Object:
        """``kind`` is merge, json or strategic-merge."""
        headers = {"content-type": f"application/{kind}-patch+json"}
        patched: Object = self.request("PATCH", path, content=json.dumps(body), headers=headers)
        return patched

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        **parameters: str,
    ) -> bool:
        """False when it was gone already."""
        try:
            self.request("DELETE", path_of(api_version, kind, namespace, name), params=parameters)
        except KubeError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    def watch(
        self, path: str, version: str, timeout_s: int = 240, **parameters: str
    ) -> Iterator[Object]:
        """``labelSelector=…`` and the like may be given."""
        parameters |= {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        limits = httpx.Timeout(10, read=timeout_s + 30)
        with self.http.stream("GET", path, params=parameters, timeout=limits) as answer:
            if answer.status_code >= httpx.codes.BAD_REQUEST:
                answer.read()
                raise KubeError(answer.status_code, message_of(answer))
            for line in answer.iter_lines():
                if line:
                    yield json.loads(line)

    def until(self, what: str, probe: Callable[[], Any], timeout_s: float = 120) -> Any:
        """The first true answer of ``probe``; a missing thing or a refusal is asked again."""
        deadline, last = time.monotonic() + timeout_s, ""
        while time.monotonic() < deadline:
            try:
                found = probe()
            except (KubeError, httpx.HTTPError) as error:
                found, last = None, str(error)
            if found:
                return found
            time.sleep(0.1)
        raise TimeoutError(f"{what}: not within {timeout_s:.0f} s. {last}".strip())


def answers(address: str) -> bool:
    """Whether a program says of itself that it is ready."""
    try:
        return httpx.get(address, timeout=10, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def message_of(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500]
