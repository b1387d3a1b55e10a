"""The policy of a group is no opening that somebody made: unless somebody made it one."""

import copy

from runtime.capabilities.tenants import TenantSpec
from runtime.drivers.kubernetes.builders import tenant as bundle
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes import job as shape
from runtime.drivers.kubernetes.tenant import place_observation
from runtime.spec import PodGroup
from tests.drivers.kubernetes.test_builders import spec as described


def openings(change=lambda _policy: None):
    given = described(once=True, groups=(PodGroup(replicas=2),))
    _service, policy, _job = shape.build(given, KubernetesOptions())
    policy = copy.deepcopy(policy)
    change(policy)
    tenant = TenantSpec("u", given.project, "demo", given.namespace, 1)
    own = bundle.namespace(tenant, KubernetesOptions())
    own["metadata"]["annotations"][bundle.BUNDLE] = '{"NetworkPolicy/default-deny": "x"}'
    found = place_observation("u", own, [policy]).detail
    return [one for one in found["foreign"] + found["drift"] if "default-deny" not in one]


def test_it_goes_with_its_workload():
    assert openings() == []


def test_one_that_lets_others_in_is_an_opening():
    def widen(policy):
        policy["spec"]["ingress"][0]["from"].append({"ipBlock": {"cidr": "0.0.0.0/0"}})

    def rename(policy):
        policy["metadata"]["labels"]["berth.dev/uid"] = "another"

    def everybody(policy):
        policy["spec"]["podSelector"] = {}

    for change in (widen, rename, everybody):
        assert [one.partition("/")[0] for one in openings(change)] == ["NetworkPolicy"]
