"""What the watch knows of projects' namespaces, and taking them off a cluster that Berth leaves.

A namespace goes only when every kind of object that the API server knows was looked at, and
nothing was there but what Berth put in to keep the project apart and what Kubernetes makes by
itself. What can't be looked at counts as something. People's tokens end in any case.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.answers import Answer, raise_for
from runtime.drivers.kubernetes.builders import tenant_access
from runtime.drivers.kubernetes.builders.tenant import PLACE
from runtime.drivers.kubernetes.client import KubeClient, path_of, plural_of
from runtime.drivers.kubernetes.tenant import WATCHED, expected_of, place_observation
from runtime.protocol import Denied, Observation

Object = dict[str, Any]
_NAMESPACE = "Namespace"


class NamespaceCache:
    """Not thread-safe: its ``World`` has the lock. Each change returns the uid it is about."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Object]] = {}  # namespace → Kind/name → object
        self._by_uid: dict[str, str] = {}

    def put(self, kind: str, obj: Object) -> str:
        namespace = _namespace_of(obj)
        meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
        made = {**obj, "metadata": meta, "kind": kind}
        self._rows.setdefault(namespace, {})[_name(kind, obj)] = made
        uid = self._uid(namespace)
        if uid:
            self._by_uid[uid] = namespace
        return uid

    def drop(self, kind: str, obj: Mapping[str, Any]) -> str:
        namespace = _namespace_of(obj)
        uid, rows = self._uid(namespace), self._rows.get(namespace, {})
        rows.pop(_name(kind, obj), None)
        if not rows:
            self._rows.pop(namespace, None)
        if kind == _NAMESPACE:
            self._by_uid.pop(uid, None)
        return uid

    def known(self, kind: str, obj: Mapping[str, Any]) -> Object | None:
        return self._rows.get(_namespace_of(obj), {}).get(_name(kind, obj))

    def all(self, kind: str) -> list[Object]:
        return [o for rows in self._rows.values() for o in rows.values() if o["kind"] == kind]

    def judge(self, uid: str) -> Observation | None:
        """None: there is no namespace of this uid."""
        namespace = self._by_uid.get(uid)
        if namespace is None:
            return None
        rows = self._rows[namespace]
        own = rows[f"{_NAMESPACE}/{namespace}"]
        return place_observation(uid, own, [o for o in rows.values() if o is not own])

    def everything(self) -> list[Observation]:
        return [found for uid in self._by_uid if (found := self.judge(uid)) is not None]

    def _uid(self, namespace: str) -> str:
        own = self._rows.get(namespace, {}).get(f"{_NAMESPACE}/{namespace}") or {}
        return str(((own.get("metadata") or {}).get("labels") or {}).get(names.UID, ""))


def _namespace_of(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("namespace") or obj["metadata"]["name"])


def _name(kind: str, obj: Mapping[str, Any]) -> str:
    return f"{kind}/{obj['metadata']['name']}"


BUNDLE = {(version, plural) for version, plural, _kind in WATCHED} | {("v1", "secrets")}
_KNOWN = {version for version, _plural in BUNDLE}
BY_ITSELF = {("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")}
# Only tell of other objects; what calls itself so in a group of somebody else's may hold anything.
NOTHING = {("", "events"), ("events.k8s.io", "events"), ("", "endpoints")} | {
    ("discovery.k8s.io", "endpointslices")
}
MEASURED = "metrics.k8s.io"  # numbers about pods
FIRST = ("pods", "persistentvolumeclaims")  # so that these are what is named
_NOT_THERE = frozenset({404, 405})
_FORBIDDEN = 403


class Leaving:
    """For one cluster; what kinds it has is asked once."""

    def __init__(self, client: KubeClient, installation: str = "") -> None:
        self._client = client
        self._installation = installation
        self._kinds: list[tuple[str, str]] | None = None

    def remove_if_empty(self, namespace: str, uid: str) -> str:
        """Return why it stays, or '' when it goes (or is gone)."""
        found = self._client.get("v1", "namespaces", namespace)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return ""
        if (found["metadata"].get("labels") or {}).get(names.UID) != uid:
            return "not made for this project"
        if names.is_foreign(found, self._installation):
            return "made by another Berth"
        # Also where the namespace stays: nobody is left who could end them later
        name = found["metadata"]["name"]
        keys = set(expected_of(found))
        try:
            ours = f"{names.KIND}={PLACE}"
            accounts = self._client.list("v1", "serviceaccounts", name, ours)
        except Denied:  # then what the namespace itself names must do
            accounts = []
        keys |= {f"ServiceAccount/{a['metadata']['name']}" for a in accounts}
        for key in sorted(filter(tenant_access.holds_tokens, keys)):
            kind, _, called = key.partition("/")
            self._client.delete("v1", plural_of(kind), called, name)
        if why := self._held(namespace):
            return why
        self._client.delete("v1", "namespaces", namespace, uid=found["metadata"]["uid"])
        return ""

    def remove_searches(self, namespace: str) -> str:
        """Remove the one that holds what Katib has of ended searches: all in it is Berth's."""
        found = self._client.get("v1", "namespaces", namespace)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return ""
        marked = names.INSTANCE in (found["metadata"].get("labels") or {})
        if not marked or names.is_foreign(found, self._installation):
            return "made by another Berth" if marked else "not made by Berth"
        self._client.delete("v1", "namespaces", namespace, uid=found["metadata"]["uid"])
        return ""

    def _held(self, namespace: str) -> str:
        if self._kinds is None:
            self._kinds = sorted(self._discover(), key=lambda kind: kind[1] not in FIRST)
        for version, plural in self._kinds:
            # One of the bundle's kinds may be ours; of any other kind nothing is.
            ours = f"{names.KIND}!={PLACE}" if (version, plural) in BUNDLE else ""
            path = path_of(version, plural, "", namespace)
            answer = self._client.read(path, {"limit": "5", "labelSelector": ours})
            if answer.status in _NOT_THERE:
                continue
            if answer.status == _FORBIDDEN:
                return f"{plural}: may not be listed"
            for row in _body(raise_for(answer)).get("items") or ():
                name = str((row.get("metadata") or {}).get("name"))
                if (plural, name) not in BY_ITSELF:
                    return f"{plural}/{name}"
        return ""

    def _discover(self) -> Iterator[tuple[str, str]]:
        """Each kind once, in whatever version of its group it is served."""
        seen = set(NOTHING)
        for version in self._versions():
            root = "/api/v1" if version == "v1" else f"/apis/{version}"
            group = "" if version == "v1" else version.partition("/")[0]
            for kind in _body(raise_for(self._client.read(root))).get("resources") or ():
                listed = kind.get("namespaced") and "list" in (kind.get("verbs") or ())
                name = str(kind["name"])
                if listed and "/" not in name and (group, name) not in seen:
                    seen.add((group, name))
                    yield version, name

    def _versions(self) -> Iterator[str]:
        yield "v1"
        for group in _body(raise_for(self._client.read("/apis"))).get("groups") or ():
            if group.get("name") == MEASURED:
                continue
            # What the bundle knows by one version is asked for by that one.
            served = [str(version["groupVersion"]) for version in group["versions"]]
            yield from sorted(served, key=lambda version: version not in _KNOWN)


def _body(answer: Answer) -> Object:
    found = answer.json()
    return found if isinstance(found, dict) else {}
