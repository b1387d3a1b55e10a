"""Who may do what in a namespace with kubectl: own roles, never ``edit`` or ``admin``.

Nobody creates anything: work starts through the portal only. Exec, logs and port-forward name
the pods that are one's own; a StatefulSet's pod is known by name before it runs.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.capabilities.tenants import KubeUser
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.options import KubernetesOptions

Object = dict[str, Any]

USER = names.OWNER
PORTAL = "berth-portal"
_READ = ["get", "list", "watch"]
_UID_DIGITS = 12


def build(namespace: str, marks: Mapping[str, str], users: Iterable[KubeUser]) -> list[Object]:
    made = [_account(namespace, marks, "default")]
    for user in users:
        if user.grants and (rules := rules_of(user)):
            mine = {**marks, USER: user.user}
            name = account_name(user.user)
            made += [
                _account(namespace, mine, name),
                _role(namespace, mine, name, rules),
                _binding(namespace, mine, name),
            ]
    return made


def portal(namespace: str, marks: Mapping[str, str], options: KubernetesOptions) -> list[Object]:
    """Return what lets the portal's own account work here, where it may not everywhere.

    Nothing for an attached kubeconfig: that brings its own rights.
    """
    if not (options.portal_role and options.portal_account):
        return []
    where, _, account = options.portal_account.partition("/")
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": PORTAL, "namespace": namespace, "labels": dict(marks)},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": options.portal_role,
            },
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": where}],
        }
    ]


def account_name(user_uid: str) -> str:
    return f"user-{_digits(user_uid)}"


def grant_name(grant_uid: str) -> str:
    return f"grant-{_digits(grant_uid)}"


def holds_tokens(key: str) -> bool:
    """Whether tokens of a person end with the object that ``Kind/name`` names."""
    return key.startswith(("ServiceAccount/user-", "Secret/grant-"))


def rules_of(user: KubeUser) -> list[Object]:
    rules: list[Object] = []
    if user.viewer:
        rules += [
            {
                "apiGroups": [""],
                "resources": ["events", "persistentvolumeclaims", "pods", "resourcequotas"],
                "verbs": list(_READ),
            },
            {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": list(_READ)},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": list(_READ)},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": list(_READ)},
        ]
    if user.pods:
        own_pods = sorted(user.pods)
        rules += [
            {
                "apiGroups": [""],
                "resources": ["pods/log"],
                "resourceNames": own_pods,
                "verbs": ["get"],
            },
            {
                "apiGroups": [""],
                "resources": ["pods/exec", "pods/portforward"],
                "resourceNames": own_pods,
                "verbs": ["create", "get"],
            },
        ]
    return rules


def grant(namespace: str, marks: Mapping[str, str], user: KubeUser, uid: str) -> Object:
    """Return what tokens of one grant are bound to: they end when it is deleted."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": grant_name(uid),
            "namespace": namespace,
            "labels": {**marks, USER: user.user},
        },
        "type": "berth.dev/grant",
        "immutable": True,
    }


def registries(
    namespace: str, marks: Mapping[str, str], logins: Mapping[str, tuple[str, str]]
) -> Object:
    """Return the sign-ins of private registries as the kubelet reads them."""
    auths = {
        host: {"username": user, "password": password, "auth": _b64(f"{user}:{password}")}
        for host, (user, password) in sorted(logins.items())
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": names.REGISTRIES, "namespace": namespace, "labels": dict(marks)},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": _b64(json.dumps({"auths": auths}, sort_keys=True))},
    }


def _account(namespace: str, marks: Mapping[str, str], name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(marks)},
        "automountServiceAccountToken": False,
    }


def _role(namespace: str, marks: Mapping[str, str], name: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(marks)},
        "rules": rules,
    }


def _binding(namespace: str, marks: Mapping[str, str], name: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(marks)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }


def _digits(uid: str) -> str:
    return uid.replace("-", "")[:_UID_DIGITS]


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
