"""The chart's roles against what Berth does: all that it needs, and nothing else that changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.checks.recipe import small_account
from clusters.checks.rights import NEEDED, QUEUES, ROUTES, TRAINING, VOLUMES, Act
from clusters.options import ClusterOptions
from runtime.capabilities.tenants import KubeUser
from runtime.drivers.kubernetes.builders.tenant_access import rules_of
from tests.deploy import chart

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]
GATEWAY = {
    "settings": {"BERTH_ROUTER": "gateway"},
    "gatewayApi": {"enabled": True, "parentRefs": [{"name": "public", "namespace": "edge"}]},
}
KUEUE = {"cluster": {**chart.values()["cluster"], "options": {"manages_queues": True}}}
SHOWN = ("--kube-version", "1.36.0", "--show-only", "templates/rbac.yaml")
READS = {"get", "list", "watch"}
Right = tuple[str, str, str]  # verb, group, resource
RBAC, PROJECTS = "rbac.authorization.k8s.io", "berth-projects"
# What changes something and is not asked for by the self-check, with its reason.
BESIDES = {
    ("create", "", "pods"),  # a dry run in the self-check itself; without it there is a warning
    ("bind", RBAC, "clusterroles"),  # of the second role, by its name
    *((verb, RBAC, "rolebindings") for verb in ("create", "patch", "delete")),  # which gives it
    # where the cluster has them
    *((act.verb, act.group, act.resource) for acts in TRAINING.values() for act in acts),
    *(
        (verb, "snapshot.storage.k8s.io", "volumesnapshots")
        for verb in ("create", "patch", "delete")
    ),
}


def rights(rules: list[dict[str, Any]]) -> Iterator[Right]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from ((verb, group, resource) for verb in rule["verbs"])


def right(act: Act) -> Right:
    return act.verb, act.group, act.resource


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Answers, by the name of the role, what the chart grants."""
    file = tmp_path_factory.mktemp("chart") / "values.yaml"
    try:
        chart.helm()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"helm can't be built here: {error}")

    def roles(**changes: Any) -> dict[str, set[Right]]:
        file.write_text(yaml.safe_dump({**chart.values(), **changes}))
        words = ("template", "berth", chart.CHART, "-n", "berth", "-f", file)
        done = chart.run_helm(None, *words, *SHOWN)
        assert done.returncode == 0, done.stderr
        found = [one for one in yaml.safe_load_all(done.stdout) if one and "rules" in one]
        return {one["metadata"]["name"]: set(rights(one["rules"])) for one in found}

    return roles


@pytest.mark.parametrize(("changes", "acts"), [({}, ()), (GATEWAY, ROUTES), (KUEUE, QUEUES)])
def test_the_roles_grant_what_the_self_check_asks_for(
    granted: Any, changes: dict[str, Any], acts: tuple[Act, ...]
) -> None:
    found = granted(**changes)
    anywhere, inside = found["berth"], found[PROJECTS] | found["berth"]
    for act in (*NEEDED, *VOLUMES, *acts):
        assert right(act) in (inside if act.inside else anywhere), act.words


@pytest.mark.parametrize(("changes", "acts"), [({}, ()), (GATEWAY, ROUTES), (KUEUE, QUEUES)])
def test_c6_the_roles_change_nothing_that_berth_does_not_change(
    granted: Any, changes: dict[str, Any], acts: tuple[Act, ...]
) -> None:
    found = granted(**changes)
    asked = {True: set(BESIDES), False: set(BESIDES)}
    for act in (*NEEDED, *VOLUMES, *acts):
        asked[act.inside].add(right(act))
    writes = {role: {one for one in all_ if one[0] not in READS} for role, all_ in found.items()}
    assert not writes["berth"] - asked[False]
    assert not writes[PROJECTS] - asked[True]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (ClusterOptions(), {}),
        (
            ClusterOptions(
                portal_role="lab-berth-projects",
                portal_account="ops/portal",
                namespace_prefix="lab-",
                volume_kind="nfs",
                nfs_server="nas.example",
                nfs_export="/homes",
            ),
            {
                "serviceAccount": {"name": "portal"},
                "cluster": {
                    "namespacePrefix": "lab-",
                    "storage": {
                        "kind": "nfs",
                        "nfs": {"server": "nas.example", "export": "/homes"},
                    },
                },
            },
        ),
    ],
)
def test_c6_the_recipe_makes_the_charts_account_with_its_roles_and_its_fence(
    granted: Any, tmp_path: Path, options: ClusterOptions, values: dict[str, Any]
) -> None:
    """As it is printed, with the helm that ``make cluster-build`` makes too."""
    del granted  # helm can be built
    namespace, roles, token = small_account(options).splitlines()
    printed, _pipe, apply = roles.partition(" | ")
    done = chart.run_helm(None, *printed.split()[1:])
    assert done.returncode == 0, done.stderr
    where = namespace.split()[-1]
    release = options.portal_role.removesuffix("-projects") or "berth"
    file = tmp_path / "values.yaml"
    told = yaml.safe_load((chart.ROOT / "deploy/helm/rights.yaml").read_text())
    file.write_text(yaml.safe_dump({**told, **values}))
    shown = (*SHOWN, "--show-only", "templates/admission.yaml")
    whole = chart.run_helm(None, "template", release, chart.CHART, "-n", where, "-f", file, *shown)
    assert whole.returncode == 0, whole.stderr
    made = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert made == [one for one in yaml.safe_load_all(whole.stdout) if one]
    kinds = [one["kind"] for one in made]
    assert kinds.count("ClusterRole") == 2
    assert kinds.count("ValidatingAdmissionPolicy") == 3
    assert kinds.count("ValidatingAdmissionPolicyBinding") == 3
    account = next(one for one in made if one["kind"] == "ServiceAccount")["metadata"]["name"]
    assert f"system:serviceaccount:{where}:{account}" in done.stdout
    assert f"{release}-projects" in {one["metadata"]["name"] for one in made}
    assert apply == f"kubectl apply -n {where} -f -"
    assert token.startswith(f"kubectl create token {account} -n {where} ")


def test_berth_has_every_right_that_it_gives_to_members(granted: Any) -> None:
    """Else the API server takes no kubeconfig's role: nobody hands on what he has not."""
    found = granted()
    of_members = set(rights(rules_of(KubeUser(user="u", viewer=True, pods=("a-0",)))))
    assert of_members
    assert not of_members - found[PROJECTS] - found["berth"]
