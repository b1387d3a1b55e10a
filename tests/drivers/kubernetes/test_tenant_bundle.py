"""The isolation bundle of a project is what it says, byte for byte, and repairs only what differs.

``BERTH_UPDATE_GOLDEN=1`` writes the files in ``golden/tenant`` anew; read the difference.
"""

import builtins
import copy
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runtime.drivers.kubernetes.access import KubeAccess
from runtime.drivers.kubernetes.answers import Answer
from runtime.drivers.kubernetes.builders import tenant as builders
from runtime.drivers.kubernetes.builders.tenant import digest, limits, policies
from runtime.drivers.kubernetes.client import plural_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.tenant import Tenants, place_observation
from runtime.protocol import (
    Denied,
    InvalidSpec,
    KubeUser,
    NotYet,
    Seen,
    TenantSpec,
    Unreachable,
)

GOLDEN = Path(__file__).parent / "golden" / "tenant"
PLACE = "0b6a4c1e-0000-4000-8000-00000000000a"
PROJECT = "7f1d2a3b-0000-4000-8000-00000000000b"
ALICE = "a11ce000-0000-4000-8000-000000000001"
GRANT = "6ea47000-0000-4000-8000-000000000002"


OPTIONS = KubernetesOptions(
    hub_url="http://10.244.0.1:8002",
    hub_peers=("10.244.0.1/32",),
    blocked_cidrs=("203.0.113.0/24",),
)
SPEC = TenantSpec(
    uid=PLACE, project=PROJECT, slug="demo", namespace="berth-demo-7f1d2a3b", generation=1
)
USERS = (
    KubeUser(ALICE, viewer=True, pods=("ws-b2-0", "ws-a1-0"), grants=(GRANT,)),
    KubeUser("b0b00000-0000-4000-8000-000000000003", viewer=True),
)


_VALUE = re.compile(r"\A(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?\Z")
# The person keeps one of two kubeconfigs, so his account stays.
GONE = "90e00000-0000-4000-8000-000000000004"
TWO_GRANTS = (replace(USERS[0], grants=(GRANT, GONE)),)
ONE_GRANT = (replace(USERS[0], grants=(GRANT,)),)
KEPT, REVOKED = "Secret/grant-6ea470000000", "Secret/grant-90e000000000"


def _compare(name: str, objects: list[dict[str, Any]]) -> None:
    text = yaml.safe_dump_all(objects, sort_keys=True)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("BERTH_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


class TestGolden:
    def test_a_plain_project(self) -> None:
        secrets = builders.secrets(SPEC, OPTIONS).values()
        _compare("plain", [*builders.bundle(SPEC, OPTIONS), *secrets])

    def test_a_project_with_a_kubeconfig_and_a_private_registry(self) -> None:
        spec = replace(
            SPEC,
            kube_users=USERS,
            registries=lambda: {"registry.example.org": ("robot", "s3cret")},
            registries_version="v7",
        )
        objects = builders.bundle(spec, replace(OPTIONS, internet=False, queue="main"))
        _compare("kubeconfig", [*objects, *builders.secrets(spec, OPTIONS).values()])


class TestRules:
    def test_a_member_without_a_kubeconfig_gets_no_account(self) -> None:
        spec = replace(SPEC, kube_users=USERS[1:])
        names = {digest.key_of(o) for o in builders.bundle(spec, OPTIONS)}
        assert not any("user-" in name for name in names)

    def test_c6_no_role_creates_changes_or_reads_secrets(self) -> None:
        spec = replace(SPEC, kube_users=USERS)
        roles = [o for o in builders.bundle(spec, OPTIONS) if o["kind"] == "Role"]
        assert roles
        for rule in (r for role in roles for r in role["rules"]):
            assert "secrets" not in rule["resources"]
            assert "*" not in (*rule["resources"], *rule["verbs"], *rule["apiGroups"])
            if not set(rule["verbs"]) <= {"get", "list", "watch"}:
                assert set(rule["resources"]) == {"pods/exec", "pods/portforward"}
                assert rule["resourceNames"] == ["ws-a1-0", "ws-b2-0"]

    def test_gpus_are_never_in_the_quota(self) -> None:
        quota = next(o for o in builders.bundle(SPEC, OPTIONS) if o["kind"] == "ResourceQuota")
        assert not any("gpu" in name for name in quota["spec"]["hard"])

    @pytest.mark.parametrize(
        "address",
        ["169.254.169.254/32", "10.0.0.0/8", "203.0.113.7/32", "192.168.1.0/24", "100.64.0.1/32"],
    )
    def test_the_internet_rule_leaves_out_what_is_not_public(self, address: str) -> None:
        import ipaddress

        blocks = [p["ipBlock"] for p in policies.internet(("203.0.113.0/24",), 4)]
        closed = [ipaddress.ip_network(c) for b in blocks for c in b["except"]]
        wanted = ipaddress.ip_network(address)
        assert any(wanted.version == c.version and wanted.subnet_of(c) for c in closed)

    def test_c10_pods_with_public_addresses_are_not_the_internet(self) -> None:
        """Else a pod that no policy of its own closes is open to every tenant."""
        options = replace(OPTIONS, pod_cidrs=("198.51.100.0/24", "2001:db8:5::/48"))
        network = policies.Network(api=("192.0.2.1",), nodes=("192.0.2.64/26",))
        made = builders.bundle(SPEC, options, network)
        (rule,) = next(o for o in made if o["metadata"]["name"] == "allow-internet")["spec"][
            "egress"
        ]
        closed = rule["to"][0]["ipBlock"]["except"]
        assert {"198.51.100.0/24", "192.0.2.1/32", "192.0.2.64/26", "203.0.113.0/24"} < set(closed)
        six = policies.build("ns", {}, options, policies.Network(family=6))
        assert "2001:db8:5::/48" in str(six[-1])

    def test_only_the_clusters_own_address_family_is_named(self) -> None:
        for family, everything in ((4, "0.0.0.0/0"), (6, "::/0")):
            (rule,) = policies.internet(("203.0.113.0/24", "2001:db8::/32"), family)
            assert rule["ipBlock"]["cidr"] == everything
            assert all((":" in c) == (family == 6) for c in rule["ipBlock"]["except"])

    @pytest.mark.parametrize("blocked", [("0.0.0.0/0",), ("0.0.0.0/1", "128.0.0.0/1")])
    def test_who_blocks_everything_opens_nothing(self, blocked: tuple[str, ...]) -> None:
        """As without the internet: a range that excepts all of itself is refused by the server."""
        made = builders.bundle(SPEC, replace(OPTIONS, blocked_cidrs=blocked))
        none = builders.bundle(SPEC, replace(OPTIONS, blocked_cidrs=blocked, internet=False))
        assert made == none

    def test_the_portal_of_a_chart_gets_its_rights_first_and_here_only(self) -> None:
        options = replace(OPTIONS, portal_role="berth-projects", portal_account="berth/worker")
        binding = builders.bundle(SPEC, options)[1]
        assert binding["roleRef"]["name"] == "berth-projects"
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "worker", "namespace": "berth"}
        ]

    @given(
        st.dictionaries(st.from_regex(r"\A[a-z]{1,8}\Z"), st.text(max_size=100), max_size=4),
        st.text(max_size=100),
    )
    def test_any_text_of_an_operator_makes_labels_that_a_cluster_takes(
        self, extra: dict[str, str], given: str
    ) -> None:
        spec = replace(SPEC, kube_users=TWO_GRANTS, labels={"given": given})
        options = replace(OPTIONS, extra=extra)
        made = [*builders.bundle(spec, options), *builders.secrets(spec, options).values()]
        for labels in (o["metadata"]["labels"] for o in made):
            assert all(_VALUE.match(value) for value in labels.values())
            assert labels["berth.dev/project"] == PROJECT

    def test_quantities_are_canonical(self) -> None:
        assert [limits.decimal(n) for n in (0, 500, 5000, 12_345)] == ["0", "500", "5k", "12345"]
        assert [limits.binary(n, "Gi") for n in (100, 1024, 204_800)] == ["100Gi", "1Ti", "200Ti"]


class Api:
    """An API server in memory: keeps what it is given, counts what it is asked."""

    access = KubeAccess("https://192.0.2.9:6443", "")

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.refuse: Callable[[str], Exception | None] = lambda _act: None
        self._version = 0

    def write(self, act: str) -> None:
        if error := self.refuse(act):
            raise error
        self.writes.append(act)

    def apply(self, obj: Any) -> dict[str, Any]:
        key = digest.key_of(obj)
        self.write(f"apply {key}")
        return self._keep(key, {**self.objects.get(key, {}), **copy.deepcopy(dict(obj))})

    def request(self, method: str, path: str, params: Any, body: Any) -> Answer:
        del path, params
        key = digest.key_of(body)
        self.write(f"{method} {key}")
        self._keep(key, copy.deepcopy(dict(body)))
        return Answer(method, 200, b"{}")

    def _keep(self, key: str, obj: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self.objects[key] = obj
        return copy.deepcopy(obj)

    def get(self, api_version: str, plural: str, name: str, namespace: str = "") -> Any:
        del api_version, namespace
        found = [o for o in self._all(plural) if o["metadata"]["name"] == name]
        return copy.deepcopy(found[0]) if found else None

    def list(
        self, api_version: str, plural: str, namespace: str = "", selector: str = ""
    ) -> list[dict[str, Any]]:
        del api_version, namespace, selector
        return copy.deepcopy(self._all(plural))

    def _all(self, plural: str) -> builtins.list[dict[str, Any]]:
        return [o for o in self.objects.values() if plural_of(o["kind"]) == plural]

    def delete(self, api_version: str, plural: str, name: str, namespace: str = "") -> None:
        del api_version, namespace
        for key in [digest.key_of(o) for o in self._all(plural)]:
            if key.endswith(f"/{name}"):
                self.write(f"delete {key}")
                del self.objects[key]

    def post(self, path: str, body: Any) -> dict[str, Any] | None:
        raise AssertionError((path, body))


class KilledError(BaseException):
    """What a SIGKILL is to a test that goes on."""


class DyingApi(Api):
    """Whoever writes to it dies at one of its writes."""

    _left = 0
    _lost = False

    def dies_at(self, nth: int, *, lost: bool) -> None:
        self._left, self._lost = nth, lost

    def apply(self, obj: Any) -> dict[str, Any]:
        with self._write():
            return super().apply(obj)

    def delete(self, *args: Any, **kwargs: Any) -> None:
        with self._write():
            super().delete(*args, **kwargs)

    @contextmanager
    def _write(self) -> Iterator[None]:
        self._left -= 1
        dies = not self._left
        if dies and not self._lost:
            raise KilledError
        yield
        if dies:
            raise KilledError


class TestEnsure:
    def test_the_first_time_needs_at_most_twelve_writes_and_the_second_none(self) -> None:
        api = Api()
        tenants = _tenants(api)
        assert "NetworkPolicy/default-deny" in tenants.ensure(SPEC)
        assert len(api.writes) <= 12
        api.writes.clear()
        assert tenants.ensure(SPEC) == ()
        assert api.writes == []

    def test_what_was_removed_or_changed_by_hand_is_put_back_and_named(self) -> None:
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(SPEC)
        del api.objects["NetworkPolicy/default-deny"]
        api.objects["ResourceQuota/objects"]["spec"]["hard"]["pods"] = "1M"
        labels = api.objects[f"Namespace/{SPEC.namespace}"]["metadata"]["labels"]
        labels["pod-security.kubernetes.io/enforce"] = "privileged"
        expected = (
            f"Namespace/{SPEC.namespace}",
            "NetworkPolicy/default-deny",
            "ResourceQuota/objects",
        )
        assert tuple(_seen(api).detail["drift"]) == expected
        assert tenants.ensure(SPEC) == expected
        assert _seen(api).detail["drift"] == []

    def test_an_account_whose_grants_are_gone_is_removed_with_its_secret(self) -> None:
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(replace(SPEC, kube_users=USERS))
        assert "Secret/grant-6ea470000000" in api.objects
        written = tenants.ensure(SPEC)
        assert "Secret/grant-6ea470000000" in written
        assert not any("user-" in key or "grant-" in key for key in api.objects)

    @pytest.mark.parametrize("lost", [False, True])
    def test_e1_a_revoked_grant_is_found_again_wherever_the_worker_was_killed(
        self, *, lost: bool
    ) -> None:
        """``lost``: the cluster did it, and the worker died before it heard so."""
        for nth in itertools.count(1):
            api = DyingApi()
            _tenants(api).ensure(replace(SPEC, kube_users=TWO_GRANTS))
            api.dies_at(nth, lost=lost)
            try:
                _tenants(api).ensure(replace(SPEC, kube_users=ONE_GRANT))
            except KilledError:
                _tenants(api).ensure(replace(SPEC, kube_users=ONE_GRANT))
                assert REVOKED not in api.objects, nth
                assert KEPT in api.objects
            else:
                assert nth > 2  # it was killed at every write there is
                return

    def test_e7_a_revoked_grant_is_found_again_after_its_removal_failed(self) -> None:
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(replace(SPEC, kube_users=TWO_GRANTS))
        api.refuse = lambda act: (
            Unreachable("The cluster answers with an error (500): no") if "delete" in act else None
        )
        with pytest.raises(Unreachable):
            tenants.ensure(replace(SPEC, kube_users=ONE_GRANT))
        api.refuse = lambda _act: None
        assert REVOKED in tenants.ensure(replace(SPEC, kube_users=ONE_GRANT))
        assert REVOKED not in api.objects
        assert tenants.ensure(replace(SPEC, kube_users=ONE_GRANT)) == ()

    def test_a3_a_revocation_waits_for_no_other_write(self) -> None:
        """One object that the cluster does not take must not keep a token alive."""
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(replace(SPEC, kube_users=TWO_GRANTS))
        del api.objects["NetworkPolicy/allow-dns"]
        api.refuse = lambda act: InvalidSpec("not a label") if "apply" in act else None
        with pytest.raises(InvalidSpec):
            tenants.ensure(replace(SPEC, kube_users=ONE_GRANT))
        assert REVOKED not in api.objects

    def test_a3_a_revocation_does_not_wait_for_a_bundle_that_can_not_be_built(self) -> None:
        api = Api()
        _tenants(api).ensure(replace(SPEC, kube_users=TWO_GRANTS))
        wrong = _tenants(api, replace(OPTIONS, blocked_cidrs=("nowhere",)))
        with pytest.raises(ValueError, match="nowhere"):
            wrong.ensure(replace(SPEC, kube_users=ONE_GRANT))
        assert REVOKED not in api.objects

    def test_a3_a_registry_sign_in_that_can_not_be_opened_keeps_no_token_alive(self) -> None:
        def sealed() -> dict[str, tuple[str, str]]:
            raise RuntimeError("the key is gone")

        api = Api()
        tenants = _tenants(api)
        tenants.ensure(replace(SPEC, kube_users=TWO_GRANTS))
        spec = replace(SPEC, kube_users=ONE_GRANT, registries=sealed, registries_version="2")
        with pytest.raises(RuntimeError):
            tenants.ensure(spec)
        assert REVOKED not in api.objects

    def test_e1_what_a_late_worker_wrote_is_seen_and_put_right(self) -> None:
        """It has lost the row, but not its connection to the cluster."""
        api = Api()
        older = replace(SPEC, kube_users=TWO_GRANTS, mark="older")
        newer = replace(SPEC, kube_users=ONE_GRANT, mark="newer")
        _tenants(api).ensure(newer)
        _tenants(api).ensure(older)
        assert (_seen(api).detail["mark"], _seen(api).detail["drift"]) == ("older", [])
        assert REVOKED in _tenants(api).ensure(newer)
        assert _seen(api).detail["mark"] == "newer"
        assert _tenants(api).ensure(newer) == ()

    def test_a3_a_grant_that_a_late_worker_left_out_is_revoked_all_the_same(self) -> None:
        api = Api()
        _tenants(api).ensure(replace(SPEC, kube_users=TWO_GRANTS, mark="newer"))
        note = api.objects[f"Namespace/{SPEC.namespace}"]["metadata"]["annotations"]
        said = json.loads(note[builders.BUNDLE])
        del said[REVOKED]
        note[builders.BUNDLE] = json.dumps(said)
        spec = replace(SPEC, kube_users=ONE_GRANT, mark="newest", revoked=(GONE,))
        _tenants(api).ensure(spec)
        assert REVOKED not in api.objects
        assert KEPT in api.objects

    def test_what_is_not_wanted_any_more_goes_before_anything_is_written(self) -> None:
        api = Api()
        _tenants(api).ensure(replace(SPEC, kube_users=TWO_GRANTS))
        api.writes.clear()
        options = replace(OPTIONS, internet=False, blocked_cidrs=(), dns_peers=("kube-system/x",))
        _tenants(api, options).ensure(SPEC)
        words = [w.partition(" ")[0] for w in api.writes]
        assert words.count("delete") == 6  # two secrets; account, role, binding; the internet
        assert "delete" not in words[6:]

    def test_our_own_rights_go_last(self) -> None:
        api = Api()
        given = replace(OPTIONS, portal_role="berth-projects", portal_account="berth/worker")
        _tenants(api, given).ensure(SPEC)
        api.writes.clear()
        _tenants(api).ensure(SPEC)
        assert api.writes[-1] == "delete RoleBinding/berth-portal"

    def test_a3_a_revocation_that_our_own_missing_rights_refuse_comes_after_them(self) -> None:
        api = Api()
        given = replace(OPTIONS, portal_role="berth-projects", portal_account="berth/worker")
        tenants = _tenants(api, given)
        tenants.ensure(replace(SPEC, kube_users=TWO_GRANTS))
        del api.objects["RoleBinding/berth-portal"]
        own = "RoleBinding/berth-portal"
        api.refuse = lambda act: None if own in act or own in api.objects else Denied("no")
        assert REVOKED in tenants.ensure(replace(SPEC, kube_users=ONE_GRANT))
        assert REVOKED not in api.objects

    def test_a_registry_password_is_opened_only_when_its_version_changed(self) -> None:
        api, opened = Api(), []

        def logins() -> dict[str, tuple[str, str]]:
            opened.append(1)
            return {"r.example.org": ("u", "p")}

        tenants = _tenants(api)
        spec = replace(SPEC, registries=logins, registries_version="1")
        tenants.ensure(spec)
        tenants.ensure(spec)
        assert len(opened) == 1
        tenants.ensure(replace(spec, registries_version="2"))
        assert len(opened) == 2

    def test_a_namespace_of_somebody_else_is_never_taken(self) -> None:
        api = Api()
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPEC.namespace}})
        with pytest.raises(InvalidSpec):
            _tenants(api).ensure(SPEC)
        _tenants(api).remove(SPEC.uid, SPEC.namespace)
        assert f"Namespace/{SPEC.namespace}" in api.objects

    def test_one_that_is_being_removed_is_waited_for(self) -> None:
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(SPEC)
        meta = api.objects[f"Namespace/{SPEC.namespace}"]["metadata"]
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert _seen(api).seen == Seen.STOPPING
        with pytest.raises(NotYet):
            tenants.ensure(SPEC)

    def test_removing_asks_once_and_waits_until_it_is_gone(self) -> None:
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(SPEC)
        with pytest.raises(NotYet):
            tenants.remove(SPEC.uid, SPEC.namespace)
        tenants.remove(SPEC.uid, SPEC.namespace)
        assert _seen(api).seen == Seen.MISSING


def _tenants(api: Any, options: KubernetesOptions = OPTIONS) -> Tenants:
    return Tenants(api, options)


def _seen(api: Api) -> Any:
    namespace = api.objects.get(f"Namespace/{SPEC.namespace}")
    return place_observation(SPEC.uid, namespace, api.objects.values())


class TestOpenings:
    """``allowed_cidrs`` opens exactly what it names, and never what must stay closed."""

    def rules(self, *openings: str, network: policies.Network | None = None, **more: Any) -> Any:
        options = replace(OPTIONS, allowed_cidrs=openings, **more)
        return policies.named(options, network or policies.Network())

    def test_nothing_is_opened_without_one(self) -> None:
        made = [o["metadata"]["name"] for o in builders.bundle(SPEC, OPTIONS)]
        assert "allow-named" not in made
        assert self.rules() == []

    def test_a_range_with_a_port(self) -> None:
        assert self.rules("10.20.0.0/16:9000", "10.30.0.1") == [
            {
                "to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}],
                "ports": [{"port": 9000, "protocol": "TCP"}],
            },
            {"to": [{"ipBlock": {"cidr": "10.30.0.1/32"}}]},
        ]

    def test_c10_what_must_stay_closed_is_left_out_of_it(self) -> None:
        network = policies.Network(api=("10.244.0.1",), nodes=("10.9.0.0/24",))
        (rule,) = self.rules(
            "10.0.0.0/8:443",
            network=network,
            pod_cidrs=("10.244.0.0/16",),
            blocked_cidrs=("10.7.0.0/16",),
        )
        assert rule["to"] == [
            {
                "ipBlock": {
                    "cidr": "10.0.0.0/8",
                    "except": ["10.7.0.0/16", "10.9.0.0/24", "10.244.0.0/16"],
                }
            }
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "169.254.169.254:80",
            "203.0.113.7",  # blocked by the operator
            "203.0.113.7:443",
            "10.244.0.1:6443",  # the API server
            "10.244.0.1",
            "10.244.0.9",  # a pod
            "10.244.0.0/24:443",
        ],
    )
    def test_c10_all_of_it_must_stay_closed(self, text: str) -> None:
        network = policies.Network(api=("10.244.0.1",), api_ports=(6443,))
        assert self.rules(text, network=network, pod_cidrs=("10.244.0.0/16",)) == []

    def test_one_address_with_one_port_is_meant_as_it_stands(self) -> None:
        network = policies.Network(api=("10.244.0.1",), api_ports=(6443,))
        (rule,) = self.rules("10.244.0.1:9000", network=network, pod_cidrs=("10.244.0.0/16",))
        assert rule == {
            "to": [{"ipBlock": {"cidr": "10.244.0.1/32"}}],
            "ports": [{"port": 9000, "protocol": "TCP"}],
        }

    def test_a_range_of_the_other_family_is_left_out(self) -> None:
        assert self.rules("[fd00:1::/64]:443") == []
        six = policies.Network(family=6)
        assert self.rules("[fd00:1::/64]:443", "10.0.0.1", network=six) == [
            {
                "to": [{"ipBlock": {"cidr": "fd00:1::/64"}}],
                "ports": [{"port": 443, "protocol": "TCP"}],
            }
        ]
