"""The bundle of a project is made once, and only what differs from it is written again."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import pod_fields, tenant_policies
from runtime.drivers.kubernetes.builders import tenant as builders
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.tenant import Tenants, place_observation
from runtime.protocol import (
    Denied,
    InvalidSpec,
    NotYet,
    Seen,
    Unreachable,
)
from tests.drivers.kubernetes.tenant_world import (
    GRANT,
    OPTIONS,
    SPEC,
    USERS,
    Api,
    DyingApi,
    KilledError,
)

# The person keeps one of two kubeconfigs, so his account stays.
GONE = "90e00000-0000-4000-8000-000000000004"
TWO_GRANTS = (replace(USERS[0], grants=(GRANT, GONE)),)
ONE_GRANT = (replace(USERS[0], grants=(GRANT,)),)
KEPT, REVOKED = "Secret/grant-6ea470000000", "Secret/grant-90e000000000"


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

    def test_what_was_changed_by_hand_is_told_apart_from_what_is_wanted_otherwise(self) -> None:
        api = Api()
        _tenants(api).ensure(replace(SPEC, kube_users=ONE_GRANT))
        keys = "NetworkPolicy/default-deny", "Secret/berth-registries"
        for key in keys:
            del api.objects[key]
        wanted = replace(OPTIONS, internet=False, blocked_cidrs=(), dns_peers=("kube-system/x",))
        api.writes.clear()
        assert _tenants(api, wanted).ensure(replace(SPEC, mark="another")) == keys
        assert {"delete " + KEPT, "apply NetworkPolicy/allow-dns"} <= set(api.writes)
        more = replace(SPEC, kube_users=TWO_GRANTS, registries_version="2", mark="more")
        assert _tenants(api, wanted).ensure(more) == ()
        assert {KEPT, REVOKED} <= set(api.objects)

    def test_what_an_earlier_try_took_away_before_it_was_cut_short_was_nobodys_hand(self) -> None:
        api = Api()
        _tenants(api).ensure(replace(SPEC, kube_users=ONE_GRANT))
        wanted = _tenants(api, replace(OPTIONS, internet=False))
        away = Unreachable("The cluster does not answer.")
        api.refuse = lambda act: away if act.startswith("apply Namespace/") else None
        with pytest.raises(Unreachable) as refused:
            wanted.ensure(SPEC)
        assert refused.value.put_back == ()
        api.refuse = lambda _act: None
        assert wanted.ensure(SPEC) == ()

    def test_what_serves_is_reached_by_those_who_carry_requests_from_now_on(self) -> None:
        api = DyingApi()
        _tenants(api).ensure(SPEC)
        own = {"name": "ws-a", "namespace": SPEC.namespace, "labels": {names.UID: "u-1"}}
        old = map(tenant_policies.peer, OPTIONS.proxy_peers)
        api.apply(pod_fields.way({**own, "annotations": {}}, old, [8000, 8002]))
        assert _seen(api).detail["foreign"] == []
        moved = Tenants(api, replace(OPTIONS, proxy_peers=("10.1.0.0/16",)))
        for nth in itertools.count(1):  # whoever dies at any write leaves what the next one mends
            api.dies_at(nth, lost=False)
            try:
                moved.ensure(SPEC)
            except KilledError:
                continue
            break
        assert nth > 2
        (rule,) = api.objects["NetworkPolicy/ws-a"]["spec"]["ingress"]
        assert rule["from"] == [tenant_policies.peer("10.1.0.0/16")]
        assert [one["port"] for one in rule["ports"]] == [8000, 8002]
        assert _seen(api).detail["foreign"] == []
        api.dies_at(0, lost=False)
        Tenants(api, replace(OPTIONS, proxy_peers=())).ensure(SPEC)
        assert "NetworkPolicy/ws-a" not in api.objects

    def test_what_was_put_back_before_an_error_is_named_by_it(self) -> None:
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(SPEC)
        del api.objects["NetworkPolicy/default-deny"]
        del api.objects["LimitRange/defaults"]
        del api.objects["ResourceQuota/objects"]
        away = Unreachable("The cluster does not answer.")
        api.refuse = lambda act: away if act == "apply NetworkPolicy/default-deny" else None
        with pytest.raises(Unreachable) as refused:
            tenants.ensure(SPEC)
        assert refused.value.put_back == ("LimitRange/defaults", "ResourceQuota/objects")
        api.refuse = lambda _act: None
        assert tenants.ensure(SPEC) == ("NetworkPolicy/default-deny",)

    def test_an_account_whose_grants_are_gone_is_removed_with_its_secret(self) -> None:
        api = Api()
        tenants = _tenants(api)
        tenants.ensure(replace(SPEC, kube_users=USERS))
        assert "Secret/grant-6ea470000000" in api.objects
        assert tenants.ensure(SPEC) == ()  # nobody changed it by hand
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
        assert tenants.ensure(replace(SPEC, kube_users=ONE_GRANT)) == ()
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
        assert _tenants(api).ensure(newer) == ()
        assert REVOKED not in api.objects
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
        assert tenants.ensure(replace(SPEC, kube_users=ONE_GRANT)) == (own,)
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


@pytest.mark.parametrize(
    ("spec", "is_seen"),
    [
        ({"podSelector": {}, "ingress": [{}]}, True),
        ({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}, True),
        ({"podSelector": {}, "policyTypes": ["Ingress"]}, False),  # it only closes
    ],
)
def test_a_policy_of_others_that_opens_something_is_seen(
    spec: dict[str, Any], is_seen: bool
) -> None:
    api = Api()
    tenants = _tenants(api)
    tenants.ensure(SPEC)
    meta = {"name": "open-all", "namespace": SPEC.namespace}
    key = "NetworkPolicy/open-all"
    api.objects[key] = {"kind": "NetworkPolicy", "metadata": meta, "spec": spec}
    found = _seen(api).detail
    assert (found["foreign"], found["drift"]) == ([key] if is_seen else [], [])
    labels = api.objects["NetworkPolicy/default-deny"]["metadata"]["labels"]
    api.objects[key] = {**api.objects[key], "metadata": {**meta, "labels": labels}}
    found = _seen(api).detail
    assert (found["foreign"], found["drift"]) == ([], [key] if is_seen else [])


def _tenants(api: Any, options: KubernetesOptions = OPTIONS) -> Tenants:
    return Tenants(api, options)


def _seen(api: Api) -> Any:
    namespace = api.objects.get(f"Namespace/{SPEC.namespace}")
    return place_observation(SPEC.uid, namespace, api.objects.values())
