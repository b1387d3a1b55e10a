"""Berth's daily work with the roles of the chart and no more, on the real API server."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.checks import rights, simple
from clusters.checks.asking import ClientAsker
from clusters.checks.base import Subject
from clusters.checks.bench import Bench
from clusters.models import Cluster
from clusters.options import ClusterOptions
from devcluster.kube import Kube
from runtime.drivers.kubernetes import addresses, kubeconfig
from runtime.drivers.kubernetes.builders.tenant.access import PORTAL
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.watch import kinds_of
from runtime.protocol import KubeUser, NotYet, TenantSpec
from tests.cluster.tenants import World, when_there, world
from tests.cluster.test_tenants import ALICE, GRANT, TOUCHED
from tests.deploy import chart

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.long("needs helm; the rights of a small account: test_self_check.py"),
]
MEMBER = KubeUser(ALICE, viewer=True, pods=("ws-a1-0",), grants=(GRANT,))


def roles(release: str, namespace: str, folder: Path) -> list[dict[str, Any]]:
    try:
        chart.helm()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"helm can't be built here: {error}")
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(chart.values()))
    words = ("template", release, chart.CHART, "-n", namespace, "-f", file)
    shown = ("--kube-version", "1.36.0", "--show-only", "templates/rbac.yaml")
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
    made += roles(name, name, tmp_path_factory.mktemp("chart"))
    try:
        for one in made:
            if one["kind"] == "ServiceAccount":
                one["metadata"]["namespace"] = name
            kube.apply(one)
        kube.until("its rights", lambda: all(is_given(kube, name, rule) for rule in granted(made)))
        opened = as_account(devcluster, kube, name)
        try:
            yield opened
        finally:
            opened.close()
    finally:
        for one in reversed(made):
            if one["kind"] in {"Namespace", "ClusterRole", "ClusterRoleBinding"}:
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


def as_account(state: dict[str, Any], kube: Kube, name: str) -> World:
    path = f"/api/v1/namespaces/{name}/serviceaccounts/{name}/token"
    token = kube.request("POST", path, json={"spec": {"expirationSeconds": 3600}})
    opened = world(state, kube, portal_role=f"{name}-projects", portal_account=f"{name}/{name}")
    admin = kubeconfig.parse(Path(state["kubeconfig"]).read_text())
    itself = replace(admin, token=token["status"]["token"], client_cert_pem="", client_key_pem="")
    opened.driver.close()
    opened.driver = KubernetesDriver(
        itself, opened.driver.options, "test", check=addresses.check_for(loopback=True)
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


def test_the_self_check_finds_no_right_lacking_and_none_too_many(here: World) -> None:
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
        found = [act(subject, bench) for act in (rights.needed, rights.restraint)]
        found.append(simple.pod_security(subject, bench))
    finally:
        bench.close()
    assert [one.state for one in found] == ["green"] * 3, [one.text() for one in found]
    assert "was refused" in found[-1].text()  # tried with a pod, not only warned of


def test_a_project_goes_with_its_namespace(here: World) -> None:
    spec = here.ensure(here.tenant("going"))
    with pytest.raises(NotYet):
        here.driver.remove_tenant(spec.uid, spec.namespace)
