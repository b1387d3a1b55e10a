"""What an operator opens to the pods of projects, and what stays closed all the same."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.drivers.kubernetes.builders import tenant as builders
from runtime.drivers.kubernetes.builders import tenant_policies
from tests.drivers.kubernetes.tenant_world import OPTIONS, SPEC


class TestOpenings:
    """``allowed_cidrs`` opens exactly what it names, and never what must stay closed."""

    def rules(
        self, *openings: str, network: tenant_policies.Network | None = None, **more: Any
    ) -> Any:
        options = replace(OPTIONS, allowed_cidrs=openings, **more)
        return tenant_policies.named(options, network or tenant_policies.Network())

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
        network = tenant_policies.Network(api=("10.244.0.1",), nodes=("10.9.0.0/24",))
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
        network = tenant_policies.Network(api=("10.244.0.1",), api_ports=(6443,))
        assert self.rules(text, network=network, pod_cidrs=("10.244.0.0/16",)) == []

    def test_one_address_with_one_port_is_meant_as_it_stands(self) -> None:
        network = tenant_policies.Network(api=("10.244.0.1",), api_ports=(6443,))
        (rule,) = self.rules("10.244.0.1:9000", network=network, pod_cidrs=("10.244.0.0/16",))
        assert rule == {
            "to": [{"ipBlock": {"cidr": "10.244.0.1/32"}}],
            "ports": [{"port": 9000, "protocol": "TCP"}],
        }

    def test_a_range_of_the_other_family_is_left_out(self) -> None:
        assert self.rules("[fd00:1::/64]:443") == []
        six = tenant_policies.Network(family=6)
        assert self.rules("[fd00:1::/64]:443", "10.0.0.1", network=six) == [
            {
                "to": [{"ipBlock": {"cidr": "fd00:1::/64"}}],
                "ports": [{"port": 443, "protocol": "TCP"}],
            }
        ]
