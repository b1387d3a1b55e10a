"""The isolation bundle of a project is what it says, byte for byte.

``BERTH_UPDATE_GOLDEN=1`` writes the files in ``golden/tenant`` anew; read the difference.
"""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runtime.drivers.kubernetes.builders import tenant, tenant_policies
from runtime.drivers.kubernetes.builders import tenant as builders
from tests.drivers.kubernetes.tenant_world import OPTIONS, PROJECT, SPEC, USERS

_VALUE = re.compile(r"\A(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?\Z")
GOLDEN = Path(__file__).parent / "golden" / "tenant"


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
        names = {tenant.key_of(o) for o in builders.bundle(spec, OPTIONS)}
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

        blocks = [p["ipBlock"] for p in tenant_policies.internet(("203.0.113.0/24",), 4)]
        closed = [ipaddress.ip_network(c) for b in blocks for c in b["except"]]
        wanted = ipaddress.ip_network(address)
        assert any(wanted.version == c.version and wanted.subnet_of(c) for c in closed)

    def test_c10_pods_with_public_addresses_are_not_the_internet(self) -> None:
        """Else a pod that no policy of its own closes is open to every tenant."""
        options = replace(OPTIONS, pod_cidrs=("198.51.100.0/24", "2001:db8:5::/48"))
        network = tenant_policies.Network(api=("192.0.2.1",), nodes=("192.0.2.64/26",))
        made = builders.bundle(SPEC, options, network)
        (rule,) = next(o for o in made if o["metadata"]["name"] == "allow-internet")["spec"][
            "egress"
        ]
        closed = rule["to"][0]["ipBlock"]["except"]
        assert {"198.51.100.0/24", "192.0.2.1/32", "192.0.2.64/26", "203.0.113.0/24"} < set(closed)
        six = tenant_policies.build("ns", {}, options, tenant_policies.Network(family=6))
        assert "2001:db8:5::/48" in str(six[-1])

    def test_only_the_clusters_own_address_family_is_named(self) -> None:
        for family, everything in ((4, "0.0.0.0/0"), (6, "::/0")):
            (rule,) = tenant_policies.internet(("203.0.113.0/24", "2001:db8::/32"), family)
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
        spec = replace(SPEC, kube_users=USERS, labels={"given": given})
        options = replace(OPTIONS, extra=extra)
        made = [*builders.bundle(spec, options), *builders.secrets(spec, options).values()]
        for labels in (o["metadata"]["labels"] for o in made):
            assert all(_VALUE.match(value) for value in labels.values())
            assert labels["berth.dev/project"] == PROJECT

    def test_quantities_are_canonical(self) -> None:
        assert [tenant.decimal(n) for n in (0, 500, 5000, 12_345)] == ["0", "500", "5k", "12345"]
        assert [tenant.binary(n, "Gi") for n in (100, 1024, 204_800)] == ["100Gi", "1Ti", "200Ti"]
