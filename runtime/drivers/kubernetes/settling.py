"""Rights that were just given: an API server knows a binding a moment after it took it.

Most often that is milliseconds, on a busy cluster seconds, and each of several servers learns it by
itself. How long ago is asked of the cluster, by its own clock: another of our processes may have
written the binding, and ours may have just begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.client import KubeClient, path_of

SETTLES_S = 20.0  # a refusal that lasts longer is one
_GOOD = 200
_UNKNOWN = 401
_RBAC = "rbac.authorization.k8s.io/v1"
_REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def is_settling(client: KubeClient, binding: str, namespace: str) -> bool:
    """Whether we wrote this RoleBinding a moment ago; False where there is none."""
    answer = client.read(path_of(_RBAC, "rolebindings", binding, namespace))
    found = answer.json()
    if answer.status != _GOOD or not isinstance(found, dict):
        return False
    written = max(_times(found), default=None)
    if written is None:
        return False
    # Servers whose clocks differ a little may put it into the future.
    return abs((_now(answer.header("date")) - written).total_seconds()) < SETTLES_S


def may_look(client: KubeClient, token: str, namespace: str) -> bool:
    """Whether who holds the token may list pods there, as every kubeconfig of ours lets him.

    He asks about himself, which takes no right of ours; True where the server won't say.
    """
    asked = {"namespace": namespace, "verb": "list", "resource": "pods"}
    with client.as_holder_of(token) as his:
        answer = his.request(
            "POST", _REVIEWS, None, {**_REVIEW, "spec": {"resourceAttributes": asked}}
        )
    if answer.status == _UNKNOWN:  # this server has not heard of the account or the grant either
        return False
    found = answer.json()
    status = found.get("status") if isinstance(found, dict) else None
    return not isinstance(status, dict) or status.get("allowed") is not False


def _times(binding: Mapping[str, Any]) -> Iterator[datetime]:
    """When it was made, and when we last changed it; what others did to it is no reason to wait."""
    meta = binding.get("metadata") or {}
    ours = [f for f in meta.get("managedFields") or () if f.get("manager") == names.MANAGER]
    for stamp in (meta.get("creationTimestamp"), *(f.get("time") for f in ours)):
        if stamp:
            yield datetime.fromisoformat(str(stamp))


def _now(date: str) -> datetime:
    try:
        return parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:  # something between us and the server left it out
        return datetime.now(UTC)
