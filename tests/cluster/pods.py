"""Small pods for tests, allowed by the strictest Pod Security level."""

from typing import Any

STRICT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
    "runAsNonRoot": True,
    "runAsUser": 1000,
}


def pod(namespace: str, name: str, image: str, **more: Any) -> dict[str, Any]:
    """``more``: command, args, resources of its container; labels; and any field of the spec."""
    container = {"name": "main", "image": image, "securityContext": STRICT}
    for field in ("command", "args", "resources", "ports", "readinessProbe"):
        if field in more:
            container[field] = more.pop(field)
    metadata = {"name": name, "namespace": namespace, "labels": more.pop("labels", {})}
    spec = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        **more,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def phase(found: dict[str, Any] | None) -> str:
    return str((found or {}).get("status", {}).get("phase", ""))


def is_ready(found: dict[str, Any] | None) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
