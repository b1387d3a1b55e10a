"""Berth's daily work with the roles of the chart and no more, on the real API server."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.checks import rights, simple
from clusters.checks.base import ClientAsker, Finding, Subject
from clusters.checks.probe_runner import Bench
from clusters.models import Cluster
from clusters.options import ClusterOptions
from devcluster.kube import Kube
from runtime.capabilities.tenants import KubeUser, TenantSpec
from runtime.drivers.kubernetes import access, kubeconfig
from runtime.drivers.kubernetes.builders.tenant_access import PORTAL
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.watch import kinds_of
from runtime.protocol import NotYet
from tests.cluster.tenants import PREFIX, World, when_there, world
from tests.cluster.test_tenants import ALICE, GRANT, TOUCHED
from tests.deploy import chart

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.long("needs helm; the rights of a small account: test_self_check.py"),
]
MEMBER = KubeUser(ALICE, viewer=True, pods=("ws-a1-0",), grants=(GRANT,))


def roles_and_fence(
    release: str, namespace: str, folder: Path, cluster: dict[str, str]
) -> list[dict[str, Any]]:
    try:
        chart.helm()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"helm can't be built here: {error}")
    file = folder / "values.yaml"
    values = chart.values()
    values["cluster"] |= cluster
    file.write_text(yaml.safe_dump(values))
    words = ("template", release, chart.CHART, "-n", namespace, "-f", file)
    shown = ["--kube-version", "1.36.0"]
    for template in ("rbac", "admission"):
        shown += ["--show-only", f"templates/{template}.yaml"]
    done = chart.run_helm(None, *words, *shown)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


@pytest.fixture(scope="module")
def here(
    devcluster: dict[str, Any], kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A driver that is the chart's service account; the release's processes are not installed."""
    name = f"berth-{secrets.token_hex(4)}"
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}]
    told = {"namespacePrefix": f"{PREFIX}{secrets.token_hex(2)}-"}
    told |= {"volumePath": devcluster["volumes"]} if devcluster.get("volumes") else {}
    made += roles_and_fence(name, name, tmp_path_factory.mktemp("chart"), told)
    try:
        for one in made:
            if one["kind"] == "ServiceAccount":
                one["metadata"]["namespace"] = name
            kube.apply(one)
        kube.until("its rights", lambda: all(is_given(kube, name, rule) for rule in granted(made)))
        opened = as_account(devcluster, kube, name, told["namespacePrefix"])
        try:
            yield opened
        finally:
            opened.close()
    finally:
        for one in reversed(made):
            if one["kind"] == "Namespace" or "namespace" not in one["metadata"]:
                kube.delete(one["apiVersion"], one["kind"], one["metadata"]["name"])


def granted(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules of the roles that are bound in all namespaces."""
    bound = {one["roleRef"]["name"] for one in made if one["kind"] == "ClusterRoleBinding"}
    found = [one for one in made if one["kind"] == "ClusterRole"]
    rules = [rule for one in found if one["metadata"]["name"] in bound for rule in one["rules"]]
    assert rules
    return rules


def is_given(kube: Kube, name: str, rule: dict[str, Any]) -> bool:
    """Whether the API server, which learns of rights by a watch of its own, knows of this one."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": f"system:serviceaccount:{name}:{name}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": rule["verbs"][0],
                "group": rule["apiGroups"][0],
                "resource": rule["resources"][0],
                "name": rule.get("resourceNames", [""])[0],
            },
        },
    }
    return bool(kube.create(review)["status"]["allowed"])


def as_account(state: dict[str, Any], kube: Kube, name: str, prefix: str) -> World:
    path = f"/api/v1/namespaces/{name}/serviceaccounts/{name}/token"
    token = kube.request("POST", path, json={"spec": {"expirationSeconds": 3600}})
    account = {"portal_role": f"{name}-projects", "portal_account": f"{name}/{name}"}
    opened = world(state, kube, namespace_prefix=prefix, **account)
    admin = kubeconfig.parse(Path(state["kubeconfig"]).read_text())
    itself = replace(admin, token=token["status"]["token"], client_cert_pem="", client_key_pem="")
    opened.driver.close()
    opened.driver = KubernetesDriver(
        itself, opened.driver.options, "test", check=access.check_for(loopback=True)
    )
    return opened


@pytest.fixture(scope="module")
def demo(here: World) -> TenantSpec:
    return here.ensure(here.tenant("demo"), kube_users=(MEMBER,))


def test_a_project_is_made_and_a_member_gets_kubectl_there(here: World, demo: TenantSpec) -> None:
    def ask() -> Any:
        return here.driver.kube_token(
            namespace=demo.namespace, user=ALICE, grant=GRANT, seconds=600
        )

    assert when_there(ask).token


@pytest.mark.parametrize("act", TOUCHED)
def test_what_was_touched_by_hand_is_put_back(here: World, demo: TenantSpec, act: str) -> None:
    touch, expected = TOUCHED[act]
    touch(here.kube, demo)
    assert here.put(demo) == (expected + (demo.namespace if expected.endswith("/") else ""),)
    assert here.driver._tenants.look(demo.uid).detail["drift"] == []


def test_whoever_leaves_loses_the_rights(here: World) -> None:
    spec = here.ensure(here.tenant("leaving"), kube_users=(MEMBER,))
    assert "Role/user-a11ce0000000" in here.put(replace(spec, kube_users=()))


def test_its_own_binding_is_put_back_when_it_was_changed(here: World, demo: TenantSpec) -> None:
    """The one object that the role for namespaces alone must be enough for."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{demo.namespace}/rolebindings/{PORTAL}"
    here.kube.patch(path, {"subjects": None, "metadata": {"labels": {"a": "b"}}})
    assert here.driver._tenants.look(demo.uid).detail["drift"] == [f"RoleBinding/{PORTAL}"]
    here.put(demo)  # where the rights are not known at once it is done again, and writes less
    assert here.driver._tenants.look(demo.uid).detail["drift"] == []


def test_a_home_comes_and_goes(here: World, demo: TenantSpec) -> None:
    home = str(uuid.uuid4())
    here.driver.ensure_volume(home, project=demo.project, owner=ALICE, namespace=demo.namespace)

    def remove() -> None:
        here.driver.remove_volume(home)

    when_there(remove)


def test_all_that_the_watch_follows_may_be_listed(here: World) -> None:
    for kind in kinds_of(replace(here.driver.options, queue="q")):
        if "kueue" not in kind.api_version or here.kube.get(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", "workloads.kueue.x-k8s.io"
        ):
            here.driver.client.list(kind.api_version, kind.plural, "", kind.selector, kind.fields)


def checked(here: World, *acts: Callable[[Subject, Bench], Finding]) -> list[Finding]:
    given = here.driver.options
    options = ClusterOptions(
        namespace_prefix=given.namespace_prefix,
        portal_role=given.portal_role,
        portal_account=given.portal_account,
    )
    asker = ClientAsker(here.driver.client)
    bench = Bench(asker, options, wait_s=30.0)
    subject = Subject(Cluster(key="c", name="C", driver="kubernetes"), options, asker)
    try:
        return [act(subject, bench) for act in acts]
    finally:
        bench.close()


def test_the_self_check_finds_no_right_lacking_and_none_too_many(here: World) -> None:
    found = checked(here, rights.needed, rights.restraint, simple.pod_security)
    assert [one.state for one in found] == ["green"] * 3, [one.text() for one in found]
    assert "was refused" in found[-1].text()  # tried with a pod, not only warned of


def test_c6_without_the_fence_the_self_check_shows_how_the_cluster_is_taken(here: World) -> None:
    api, kind = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"
    name = here.driver.options.portal_role.removesuffix("-projects")
    bindings = [one for one in here.kube.list(api, kind) if name in one["metadata"]["name"]]
    assert len(bindings) == 3
    try:
        for one in bindings:
            here.kube.delete(api, kind, one["metadata"]["name"])

        def is_told() -> bool:  # the API server hears of it a moment later
            (found,) = checked(here, rights.restraint)
            acts = found.values.get("acts", "")
            wanted = ("-n kube-system", "-n default", "patch namespaces", "hostPath /")
            return found.state == "red" and all(words in acts for words in wanted)

        here.kube.until("the fence is gone", is_told)
    finally:
        for one in bindings:
            plain = {key: one["metadata"][key] for key in ("name", "labels")}
            here.kube.apply({**one, "metadata": plain, "apiVersion": api, "kind": kind})

    here.kube.until(
        "the fence is back", lambda: checked(here, rights.restraint)[0].state == "green"
    )


def test_a_project_goes_with_its_namespace(here: World) -> None:
    spec = here.ensure(here.tenant("going"))
    with pytest.raises(NotYet):
        here.driver.remove_tenant(spec.uid, spec.namespace)
