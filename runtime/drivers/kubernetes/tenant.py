"""Projects on a cluster: making, watching and removing their namespaces.

``ensure`` looks first and writes only what differs: about ten objects the first time, nothing
when all is as it should be. A namespace that is not this project's is never touched.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import structlog

from runtime.capabilities.tenants import KubeToken, Settling, TenantSpec
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.answers import raise_for
from runtime.drivers.kubernetes.api_server import ApiServer, is_settling, may_look
from runtime.drivers.kubernetes.builders import tenant, tenant_access
from runtime.drivers.kubernetes.builders.pod_fields import is_meeting, is_way
from runtime.drivers.kubernetes.builders.tenant_policies import PROXY
from runtime.drivers.kubernetes.client import KubeClient, path_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied, DriverError, InvalidSpec, NotYet, Observation, Seen

log = structlog.get_logger(__name__)

Object = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")

POLICY = "NetworkPolicy"
# apiVersion, plural, kind of all that a bundle holds and a watch can see.
WATCHED: tuple[tuple[str, str, str], ...] = (
    ("v1", "namespaces", "Namespace"),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    ("v1", "resourcequotas", "ResourceQuota"),
    ("v1", "limitranges", "LimitRange"),
    ("v1", "serviceaccounts", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "roles", "Role"),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
)
_PLURALS = {kind: (version, plural) for version, plural, kind in WATCHED} | {
    "Secret": ("v1", "secrets")
}
_PORTAL = f"RoleBinding/{tenant_access.PORTAL}"
# What an API server never changes in an object that is there, by kind.
_FIXED: dict[str, Callable[[Object], Any]] = {
    "RoleBinding": lambda o: o.get("roleRef"),
    "ResourceQuota": lambda o: (o.get("spec") or {}).get("scopes") or [],
}
_PAUSES = (0.1, 0.2, 0.4, 0.8)
_PARALLEL = 8


class Tenants:
    """The tenant verbs of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options
        self._selector = names.selector(options.namespace_prefix, {names.KIND: tenant.PLACE})
        self._server = ApiServer(client, options)

    # --- make it as it should be ----------------------------------------------------------------
    def ensure(self, spec: TenantSpec) -> tuple[str, ...]:
        """Write what differs; return the ``Kind/name`` of what was put back.

        That is what was missing or otherwise than the namespace's own note says, and not what is
        wanted otherwise than before. A new namespace has no note. NotYet while an old one ends.
        """
        written: list[str] = []
        changed: set[str] = set()
        try:
            self._ensure(spec, written, changed)
        except DriverError as error:
            error.put_back = tuple(sorted(changed.intersection(written)))
            raise
        return tuple(sorted(changed.intersection(written)))

    def _ensure(self, spec: TenantSpec, written: list[str], changed: set[str]) -> None:
        found = self._own_namespace(spec)
        before = expected_of(found)
        secrets = tenant.secret_versions(spec)
        revoked = set() if found is None else _revoked(spec, before, secrets)
        left = self._revoke(spec.namespace, revoked)
        network = replace(self._server.network(), nodes=spec.closed)
        wanted = tenant.bundle(spec, self._options, network)
        live = {} if found is None else self._live(spec.namespace, found)
        expected = tenant.digests(wanted) | {
            f"Secret/{name}": tenant.short(version) for name, version in secrets.items()
        }
        changed |= _changed_by_hand(before, live, expected)
        if found is None:
            self._client.apply(wanted[0])
        todo = [o for o in wanted[1:] if not _is_same(o, live)]
        stale = ({*live, *before} - set(expected) - revoked) | left
        # The portal's own rights come first and go last; the API server may see them a moment
        # later.
        own = [o for o in todo if tenant.key_of(o) == _PORTAL]
        written += revoked - left
        self._write(own, written)
        pauses = _PAUSES if own else ()
        with self._settling(spec.namespace):
            _patient(lambda: self._lead_to_work(spec.namespace, wanted, live), pauses)
            _patient(lambda: self._prune(spec.namespace, stale - {_PORTAL}, written), pauses)
            _patient(lambda: self._write([o for o in todo if o not in own], written), pauses)
            written += _patient(lambda: self._write_secrets(spec, expected, before), pauses)
            written += self._write_namespace(spec, wanted[0], found, expected)
            self._prune(spec.namespace, stale & {_PORTAL}, written)

    def _revoke(self, namespace: str, keys: set[str]) -> set[str]:
        """End tokens before anything else is read, built or written; return what has to wait.

        The annotation by which we know of their secrets is still the old one: whoever is cut short
        here, or is refused with all the rest, finds them again.
        """
        try:
            self._prune(namespace, keys, [])
        except Denied:  # our own rights may be what is missing: they are written next
            return keys
        return set()

    @contextmanager
    def _settling(self, namespace: str) -> Iterator[None]:
        """A refusal right after our rights were given there is no refusal yet: ask again soon.

        Pauses that hold a worker are for the milliseconds that this takes when all is well.
        """
        try:
            yield
        except Denied as refusal:
            if is_settling(self._client, tenant_access.PORTAL, namespace):
                message = "The project's place on the cluster is not ready."
                raise NotYet(message, retry_in=1.0) from refusal
            raise

    def _own_namespace(self, spec: TenantSpec) -> Object | None:
        found = self._client.get("v1", "namespaces", spec.namespace)
        if found is None:
            self._refuse_beside_another()
            return None
        if names.is_foreign(found, self._options.installation):
            raise InvalidSpec(f"The namespace {spec.namespace} was made by another Berth.")
        labels = found["metadata"].get("labels") or {}
        if labels.get(names.PROJECT) != spec.project:
            raise InvalidSpec(f"The namespace {spec.namespace} exists and is not this project's.")
        if _is_ending(found):
            raise NotYet(f"The namespace {spec.namespace} is still being removed.", retry_in=2.0)
        return found

    def _refuse_beside_another(self) -> None:
        """Before the first thing is made: with one prefix two would be in each other's way."""
        whose, prefix = self._options.installation, self._options.namespace_prefix
        selector = f"{self._selector},{names.INSTALLATION},{names.INSTALLATION}!={whose}"
        if whose and (others := self._client.list("v1", "namespaces", selector=selector)):
            message = (
                f"Another Berth works on this cluster with the prefix {prefix}"
                f" ({others[0]['metadata']['name']}). An operator must choose another prefix here."
            )
            raise InvalidSpec(message)

    def _live(self, namespace: str, found: Object) -> dict[str, Object]:
        """Return what is there of the bundle, by ``Kind/name``."""

        def ask(row: tuple[str, str, str]) -> list[Object]:
            version, plural, kind = row
            rows = self._client.list(version, plural, namespace, self._selector)
            return [{**r, "kind": kind} for r in rows]

        groups = _parallel(ask, WATCHED[1:])
        return {tenant.key_of(o): o for group in groups for o in group} | {
            f"Namespace/{namespace}": {**found, "kind": "Namespace"}
        }

    def _write(self, objects: list[Object], written: list[str]) -> None:
        def put(obj: Object) -> None:
            if (key := tenant.key_of(obj)) not in written:  # asked a second time
                self._put(obj)
                written.append(key)

        _parallel(put, objects)

    def _lead_to_work(
        self, namespace: str, wanted: Iterable[Object], live: Mapping[str, Object]
    ) -> None:
        """Open what serves already to those who carry requests from now on.

        Before the policy that says who they are is changed: by it the ways to work are known.
        """
        key = f"{POLICY}/{PROXY}"
        before, now = live.get(key), next((o for o in wanted if tenant.key_of(o) == key), None)
        if before is None or (now is not None and _is_same(now, live)):
            return
        peers = None if now is None else now["spec"]["ingress"][0]["from"]
        for found in self._client.list(*_PLURALS[POLICY], namespace):
            if not is_way(found, before):
                continue
            meta, spec = found["metadata"], found["spec"]
            if peers is None:
                self._delete(POLICY, meta["name"], namespace)
                continue
            head = {k: meta[k] for k in ("name", "namespace", "labels", "annotations") if k in meta}
            ingress = [{**rule, "from": peers} for rule in spec["ingress"]]
            made = {"apiVersion": _PLURALS[POLICY][0], "kind": POLICY, "metadata": head}
            self._client.apply({**made, "spec": {**spec, "ingress": ingress}})

    def _put(self, obj: Object) -> None:
        """Apply; where that leaves what somebody added, or can't change it, put ours in its place.

        What is refused for another reason leaves the one that is there: it may be the last guard.
        """
        try:
            made = self._client.apply(obj)
            if tenant.digest({**made, "kind": obj["kind"]}) != tenant.digest(obj):
                meta = {**obj["metadata"], "resourceVersion": made["metadata"]["resourceVersion"]}
                path = path_of(*_PLURALS[obj["kind"]], meta["name"], meta["namespace"])
                params = {"fieldManager": names.MANAGER}
                raise_for(self._client.request("PUT", path, params, {**obj, "metadata": meta}))
        except InvalidSpec:
            if not self._is_fixed_otherwise(obj):
                raise
            self._replace(obj)

    def _is_fixed_otherwise(self, obj: Object) -> bool:
        """Whether the one that is there says otherwise what can't be changed in its kind."""
        of = _FIXED.get(obj["kind"])
        if of is None:
            return False
        meta = obj["metadata"]
        found = self._client.get(*_PLURALS[obj["kind"]], meta["name"], meta["namespace"])
        return found is not None and of(found) != of(obj)

    def _replace(self, obj: Object) -> None:
        """Ask by a name that nothing has whether ours would be taken, before the old one goes."""
        meta = obj["metadata"]
        again = {**obj, "metadata": {**meta, "name": f"{meta['name']}-again"}}
        self._client.apply(again, dry_run=True)
        self._delete(obj["kind"], meta["name"], meta["namespace"])
        self._client.apply(obj)

    def _write_secrets(
        self, spec: TenantSpec, expected: Mapping[str, str], before: Mapping[str, str]
    ) -> list[str]:
        """Content can't be compared without reading it: its version and its being there can."""

        def is_there(name: str) -> bool:
            key = f"Secret/{name}"
            if before.get(key) != expected[key]:
                return False
            return self._client.get("v1", "secrets", name, spec.namespace) is not None

        names = [k.removeprefix("Secret/") for k in expected if k.startswith("Secret/")]
        missing = [
            n for n, there in zip(names, _parallel(is_there, names), strict=True) if not there
        ]
        if not missing:
            return []
        made = tenant.secrets(spec, self._options)
        _parallel(self._client.apply, [made[name] for name in missing])
        return [f"Secret/{name}" for name in missing]

    def _write_namespace(
        self, spec: TenantSpec, wanted: Object, found: Object | None, expected: Mapping[str, str]
    ) -> list[str]:
        """Last: from now on what the annotation names and is missing is drift."""
        note = json.dumps(dict(expected), sort_keys=True, separators=(",", ":"))
        said = {tenant.BUNDLE: note, **({tenant.MARK: spec.mark} if spec.mark else {})}
        if found is not None and all(_annotation(found, k) == v for k, v in said.items()):
            live = {tenant.key_of(wanted): {**found, "kind": "Namespace"}}
            if _is_same(wanted, live):
                return []
        meta = wanted["metadata"]
        notes = {**meta["annotations"], **said}
        self._client.apply({**wanted, "metadata": {**meta, "annotations": notes}})
        return [tenant.key_of(wanted)]

    def _prune(self, namespace: str, keys: Iterable[str], gone: list[str]) -> None:
        def drop(key: str) -> None:
            kind, _, name = key.partition("/")
            self._delete(kind, name, namespace)
            gone.append(key)

        _parallel(drop, sorted(set(keys) - set(gone)))

    def _delete(self, kind: str, name: str, namespace: str) -> None:
        version, plural = _PLURALS[kind]
        self._client.delete(version, plural, name, namespace)

    # --- look, remove, tokens -------------------------------------------------------------------
    def look(self, uid: str) -> Observation:
        """Ask the API server now (nobody watches)."""
        rows = self._client.list("v1", "namespaces", selector=f"{names.UID}={uid}")
        if not rows:
            return place_observation(uid, None, ())
        namespace = rows[0]["metadata"]["name"]
        live = self._live(namespace, rows[0])
        policies = self._client.list(*_PLURALS[POLICY], namespace)
        live |= {tenant.key_of(o): o for o in ({**p, "kind": POLICY} for p in policies)}
        return place_observation(uid, rows[0], live.values())

    def remove(self, uid: str, namespace: str) -> None:
        """Remove the namespace with all that is in it. NotYet until it is gone."""
        found = self._client.get("v1", "namespaces", namespace)
        if found is None:
            return
        labels = found["metadata"].get("labels") or {}
        if labels.get(names.UID) != uid or names.is_foreign(found, self._options.installation):
            log.warning("tenant.foreign_namespace", namespace=namespace, uid=uid)
            return
        if not _is_ending(found):
            self._client.delete("v1", "namespaces", namespace)
        raise NotYet(retry_in=1.0)

    def token(self, *, namespace: str, user: str, grant: str, seconds: int) -> KubeToken:
        """Return a token of the user's account that ends with the grant's secret.

        Settling while the API server does not know the account's rights, which were just given.
        """
        account = tenant_access.account_name(user)
        bound = {"apiVersion": "v1", "kind": "Secret", "name": tenant_access.grant_name(grant)}
        if self._client.get("v1", "secrets", bound["name"], namespace) is None:
            raise NotYet("The rights in the cluster are being made.", retry_in=1.0)
        asked = {"expirationSeconds": seconds, "boundObjectRef": bound}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        status = self._client.post(
            path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked}
        )["status"]
        made = KubeToken(str(status["token"]), _unix(str(status["expirationTimestamp"])))
        is_new = is_settling(self._client, account, namespace)
        if is_new and not may_look(self._client, made.token, namespace):
            raise Settling("The rights in the cluster are being made.", retry_in=1.0)
        return made


# --- pure -----------------------------------------------------------------------------------------
def place_observation(
    uid: str, namespace: Object | None, objects: Iterable[Object], *, version: int = 0
) -> Observation:
    """Return what a namespace and the managed objects in it say of the place ``uid``."""
    if namespace is None:
        return Observation(uid, Seen.MISSING, version=version, kind=tenant.PLACE)
    name = namespace["metadata"]["name"]
    detail: dict[str, object] = {"namespace": name, "mark": _annotation(namespace, tenant.MARK)}
    expected = expected_of(namespace)
    if _is_ending(namespace):
        seen = Seen.STOPPING
    elif not expected:
        seen = Seen.STARTING
    else:
        seen = Seen.READY
        live = [*objects, {**namespace, "kind": "Namespace"}]
        ours, foreign = _openings(expected, live, namespace)
        detail["drift"] = sorted({*tenant.drift(expected, live), *ours})
        detail["foreign"] = foreign
    return Observation(uid, seen, version=version, kind=tenant.PLACE, detail=detail)


def _openings(
    expected: Mapping[str, str], objects: Iterable[Object], namespace: Object
) -> tuple[list[str], list[str]]:
    """Return policies that open something and don't belong there: with our marks, and of others.

    Policies add up: what one allows no other closes. One that opens the pods of a workload to each
    other, or to those who carry requests, and nothing else, goes with that workload.
    """
    objects = list(objects)
    proxy = next((one for one in objects if tenant.key_of(one) == f"{POLICY}/{PROXY}"), None)
    ours: list[str] = []
    foreign: list[str] = []
    marks = names.MANAGED, names.INSTANCE, names.KIND
    own = namespace["metadata"].get("labels") or {}
    for obj in objects:
        key, spec = tenant.key_of(obj), obj.get("spec") or {}
        is_opening = bool(spec.get("ingress") or spec.get("egress"))
        is_work = is_meeting(obj) or is_way(obj, proxy)
        if obj["kind"] == POLICY and key not in expected and is_opening and not is_work:
            labels = obj["metadata"].get("labels") or {}
            is_marked = all(name in own and labels.get(name) == own[name] for name in marks)
            (ours if is_marked else foreign).append(key)
    return sorted(ours), sorted(foreign)


def expected_of(namespace: Object | None) -> dict[str, str]:
    """Return ``Kind/name`` → hash of what belongs into it; empty while it is being made."""
    text = "" if namespace is None else _annotation(namespace, tenant.BUNDLE)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _revoked(spec: TenantSpec, before: Mapping[str, str], secrets: Mapping[str, str]) -> set[str]:
    """Return ``Secret/name`` of grants that were made and are not wanted any more.

    The annotation knows what was made under an older row, the row what an older worker left out.
    """
    made = {k for k in before if k.startswith("Secret/")}
    known = {f"Secret/{tenant_access.grant_name(g)}" for g in spec.revoked}
    return (made | known) - {f"Secret/{name}" for name in secrets}


def _changed_by_hand(
    before: Mapping[str, str], live: Mapping[str, Object], expected: Mapping[str, str]
) -> set[str]:
    """Return ``Kind/name`` of what is otherwise than the note ``before`` says; all without one.

    A secret's content is not read: one that is wanted as it was made is written only where missing.
    """
    have = tenant.digests(live.values())
    have |= {k: v for k, v in before.items() if k.startswith("Secret/") and v != expected.get(k)}
    keys = {*have, *expected}  # what is neither went with an earlier try, which was cut short
    return {key for key in keys if not before or before.get(key) != have.get(key)}


def _annotation(namespace: Object, name: str) -> str:
    return str((namespace["metadata"].get("annotations") or {}).get(name, ""))


def _is_same(wanted: Object, live: Mapping[str, Object]) -> bool:
    found = live.get(tenant.key_of(wanted))
    return found is not None and tenant.digest(found) == tenant.digest(wanted)


def _is_ending(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _parallel(act: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Do them side by side; the first error is raised after all have ended."""
    todo = list(items)
    if len(todo) < 2:  # noqa: PLR2004 - one needs no thread
        return [act(item) for item in todo]
    with ThreadPoolExecutor(max_workers=min(_PARALLEL, len(todo))) as pool:
        futures = [pool.submit(act, item) for item in todo]
    return [f.result() for f in futures]


def _patient(act: Callable[[], R], pauses: Iterable[float]) -> R:
    """Do it; rights that were given a moment ago may not be known yet."""
    for pause in pauses:
        try:
            return act()
        except Denied:
            time.sleep(pause)
    return act()


def _unix(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
