"""The chart without a cluster: what it refuses, and what no pod of it may be."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.options import ClusterOptions, check
from portal.server.web import GRACE_S
from tests.deploy import chart

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def render(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("chart")
    try:
        chart.helm()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"helm can't be built here: {error}")

    def one(*, of: Path = chart.CHART, **changes: Any) -> tuple[int, str]:
        file = Path(folder) / "values.yaml"
        file.write_text(yaml.safe_dump({**chart.values(), **changes}))
        words = ("template", "berth", of, "-n", "berth", "-f", file)
        done = chart.run_helm(None, *words, "--kube-version", "1.36.0", "-a", "v1")
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr

    return one


@pytest.fixture
def notes(render: Any, tmp_path: Path) -> Any:
    """What helm says after an installation; it says it to a cluster only, so an object has it."""
    copy = tmp_path / "chart"
    shutil.copytree(chart.CHART, copy)
    said = (copy / "templates/NOTES.txt").read_text()
    (copy / "templates/_notes.tpl").write_text('{{ define "notes" }}' + said + "{{ end }}")
    wrapped = '{{ dict "kind" "Notes" "text" (include "notes" .) | toYaml }}'
    (copy / "templates/notes.yaml").write_text(wrapped)

    def one(**changes: Any) -> str:
        made = objects(render(of=copy, **changes))
        return next(str(one["text"]) for one in made if one["kind"] == "Notes")

    return one


def objects(rendered: tuple[int, str]) -> list[dict[str, Any]]:
    code, text = rendered
    assert code == 0, text
    return [one for one in yaml.safe_load_all(text) if one]


def pods(rendered: tuple[int, str]) -> dict[str, dict[str, Any]]:
    found = {}
    for one in objects(rendered):
        if one["kind"] in {"Deployment", "StatefulSet", "Job"}:
            template = one["spec"]["template"]
            found[template["metadata"]["labels"]["app"]] = template["spec"]
    return found


def settings_of(rendered: tuple[int, str]) -> dict[str, str]:
    (settings,) = [o["data"] for o in objects(rendered) if o["kind"] == "ConfigMap"]
    return dict(settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"publicUrl": ""},
        {"publicUrl": "berth.example.org"},
        {"notebooks": {"domain": ""}},
        {"notebooks": {"domain": "example.org"}},  # above the portal's own: its cookies
        {"notebooks": {"domain": chart.HOST}},
        {"wbe": {"replicas": 3}},
        {"web": {"replicas": 0}},
        {"web": {"drainSeconds": -1}},
        {"settings": {"debug": "yes"}},
        {"settings": {"BERTH_DRAIN_SECONDS": 60}},  # it would be killed before
        {"settings": {"BERTH_OIDC_ISSUR": "mail.example"}},
        {"ca": {"configMap": "a", "secret": "b"}},
        {"ca": {"configMap": "a"}, "settings": {"BERTH_OUTBOUND_CA_FILE": "/else"}},
        {"topologySpreadConstraints": [{"maxSkew": 1}]},
        {"networkPolicies": {"ingressFrom": ["ingress-nginx"]}},
        {"networkPolicies": {"sshFrom": [{}]}},  # would be everybody
        {"cluster": {"namespacePrefix": "kube-' || true || '"}},
        {"cluster": {"storage": {"kind": "floppy"}}},
        {"cluster": {"storage": {"kind": "nfs"}}},  # of which server?
        {"cluster": {"storage": {"kind": "nfs", "nfs": {"server": "nfs.example"}}}},
        {
            "cluster": {
                "options": {"volume_kind": "nfs", "nfs_server": "x' || '", "nfs_export": "/"}
            }
        },
        {"cluster": {"storage": {"className": "A B"}}},
        {"cluster": {"storage": {"accessMode": "Many"}}},
    ],
)
def test_values_that_make_no_sense_are_refused(render: Any, changes: dict[str, Any]) -> None:
    code, text = render(**changes)
    assert code != 0, text[:500]


def test_every_pod_meets_pod_security_restricted_and_has_a_read_only_root(render: Any) -> None:
    found = pods(render())
    ours = {"web", "worker", "gate", "gateway", "proxy", "migrate", "postgresql", "redis"}
    assert ours <= set(found)
    for name, spec in found.items():
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name


def test_only_worker_and_gate_have_an_identity_and_the_key_to_clusters(render: Any) -> None:
    found = pods(render())
    identities = {n for n, s in found.items() if s.get("automountServiceAccountToken") is not False}
    assert identities == {"worker", "gate", "secrets", "migrate"}
    keyed = {
        name
        for name, spec in found.items()
        for entry in spec["containers"][0].get("env", [])
        if entry["name"] == "BERTH_CLUSTER_PRIVATE_KEY"
    }
    assert keyed == {"worker", "gate"}
    for name in ("secrets", "migrate"):  # these see one Secret, and nothing of a cluster
        assert found[name]["serviceAccountName"] != found["worker"]["serviceAccountName"]


def test_without_its_own_cluster_no_process_has_an_identity(render: Any) -> None:
    rendered = render(cluster={"enabled": False})
    found = pods(rendered)
    assert {n for n, s in found.items() if s.get("automountServiceAccountToken") is not False} == {
        "secrets",
        "migrate",
    }
    kinds = {one["kind"] for one in objects(rendered)}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding"}


def test_no_secret_is_written_into_an_object(render: Any) -> None:
    for one in objects(render()):
        assert one["kind"] != "Secret"
        if one["kind"] == "ConfigMap":
            assert not {n for n in one["data"] if "TOKEN" in n or "PASSWORD" in n or "KEY" in n}


def test_a_secret_and_servers_of_ones_own_take_the_place_of_the_generated(render: Any) -> None:
    off = {"enabled": False}
    found = pods(render(secret={"existing": "mine"}, postgresql=off, redis=off))
    assert not {"secrets", "postgresql", "redis"} & set(found)
    entries = {e["name"]: e for e in found["web"]["containers"][0]["env"]}
    wanted = {"secretKeyRef": {"name": "mine", "key": "BERTH_DATABASE_URL"}}
    assert entries["BERTH_DATABASE_URL"]["valueFrom"] == wanted


def test_a_setting_that_does_not_exist_is_named(render: Any) -> None:
    assert "settings.BERTH_OIDC_ISSUR" in render(settings={"BERTH_OIDC_ISSUR": "x"})[1]


def test_the_same_manifests_again_change_no_job_and_another_image_is_another_job(
    render: Any,
) -> None:
    """Argo CD and Flux render each time as the first revision; a Job can't be changed."""

    def job(**changes: Any) -> dict[str, Any]:
        found = objects(render(**changes))
        (one,) = [o for o in found if o["kind"] == "Job" and "migrate" in o["metadata"]["name"]]
        return one

    image = chart.values()["image"]
    newer = {**image, "server": {**image["server"], "tag": "newer"}}
    changed = [job(), job(image=newer), job(settings={"BERTH_EMAIL_HOST": "mail.example"})]
    assert job() == changed[0]
    assert len({one["metadata"]["name"] for one in changed}) == len(changed)
    more = job(priorityClassName="high")  # whatever is in its spec is in its name
    assert more["metadata"]["name"] not in {one["metadata"]["name"] for one in changed}


def test_an_authority_of_the_operators_is_mounted_where_anything_goes_out(render: Any) -> None:
    rendered = render(ca={"secret": "own-ca", "key": "root.pem"})
    for name in ("web", "worker", "gate", "gateway", "migrate"):
        spec = pods(rendered)[name]
        (volume,) = [v for v in spec["volumes"] if v["name"] == "ca"]
        assert volume["secret"]["secretName"] == "own-ca"
        assert volume["secret"]["items"] == [{"key": "root.pem", "path": "ca.crt"}]
        mounts = {m["name"]: m["mountPath"] for m in spec["containers"][0]["volumeMounts"]}
        assert mounts["ca"] == "/etc/berth/ca"
    settings = next(o for o in objects(rendered) if o["metadata"]["name"] == "berth-settings")
    assert settings["data"]["BERTH_OUTBOUND_CA_FILE"] == "/etc/berth/ca/ca.crt"
    assert "/etc/berth/ca" not in render(ca={"configMap": ""})[1]


def test_the_worker_alone_has_the_sign_ins_that_projects_pull_with(render: Any) -> None:
    found = pods(render(cluster={"pullSecret": "registry"}))
    having = {n for n, s in found.items() if "pull" in {v["name"] for v in s.get("volumes", [])}}
    assert having == {"worker"}
    container = found["worker"]["containers"][0]
    file = next(e["value"] for e in container["env"] if e["name"] == "BERTH_IMAGE_SIGN_INS_FILE")
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == "pull"]
    assert file == f"{mount['mountPath']}/config.json"


def test_pods_are_placed_as_the_operator_says(render: Any) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    rendered = pods(render(priorityClassName="high", topologySpreadConstraints=[spread]))
    own = {n: s for n, s in rendered.items() if n not in {"postgresql", "redis"}}
    assert {spec.get("priorityClassName") for spec in own.values()} == {"high"}
    (one,) = rendered["web"]["topologySpreadConstraints"]
    assert one["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "web"
    assert one["topologyKey"] == "zone"


def test_the_prometheus_operator_finds_the_service_of_web_alone(render: Any) -> None:
    found = objects(render(serviceMonitor={"enabled": True, "labels": {"release": "prom"}}))
    (monitor,) = [one for one in found if one["kind"] == "ServiceMonitor"]
    assert monitor["metadata"]["labels"]["release"] == "prom"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    chosen = [
        o for o in found if o["kind"] == "Service" and wanted <= o["metadata"]["labels"].items()
    ]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert [o["metadata"]["name"] for o in chosen] == ["berth"]
    assert endpoint["port"] in {port["name"] for port in chosen[0]["spec"]["ports"]}
    assert "ServiceMonitor" not in render()[1]


COMMANDS = re.compile(r"^ {3,4}(helm (?:template|install|upgrade) [^|\n]+)", re.MULTILINE)


def test_each_command_of_the_documents_is_taken_by_helm(render: Any, tmp_path: Path) -> None:
    """``make cluster-build``'s helm, too, which was built for no version of Kubernetes."""
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(chart.values()))
    pages = [chart.ROOT / "docs/deploy.md", *(chart.ROOT / "docs/runbook").glob("*.md")]
    found = [words for page in pages for words in COMMANDS.findall(page.read_text())]
    assert len(found) >= 2
    for words in found:
        verb, *rest = words.split()[1:]
        # what asks a cluster for its version has it from there
        rest += ["--kube-version", "1.36.0", "-a", "v1"] if verb != "template" else []
        rest = [str(tmp_path / w) if w == "values.yaml" else w for w in rest]
        done = chart.run_helm(None, "template", *[w for w in rest if w != "--create-namespace"])
        assert done.returncode == 0, (words, done.stderr)


def test_web_is_spread_and_a_drained_node_takes_one_replica_at_most(render: Any) -> None:
    rendered = render()
    assert "podAntiAffinity" in pods(rendered)["web"]["affinity"]
    budgets = {
        one["metadata"]["name"]: one["spec"]["maxUnavailable"]
        for one in objects(rendered)
        if one["kind"] == "PodDisruptionBudget"
    }
    assert budgets["berth-web"] == 1


@pytest.mark.parametrize(("web", "seconds"), [({}, 15), ({"drainSeconds": 60}, 60)])
def test_web_drains_as_long_as_is_said_and_is_not_killed_before_it_has_ended(
    render: Any, web: dict[str, Any], seconds: int
) -> None:
    rendered = render(web=web)
    settings = next(o for o in objects(rendered) if o["metadata"]["name"] == "berth-settings")
    assert settings["data"]["BERTH_DRAIN_SECONDS"] == str(seconds)
    spec = pods(rendered)["web"]
    assert spec["terminationGracePeriodSeconds"] > seconds + GRACE_S


def test_the_proxies_are_named_one_by_one_for_the_worker(render: Any) -> None:
    rendered = render(proxy={"replicas": 2})
    settings = next(o for o in objects(rendered) if o["metadata"]["name"] == "berth-settings")
    assert settings["data"]["BERTH_PROXY_API_URLS"].split(",") == [
        "http://berth-proxy-0.berth-proxy-api.berth.svc:8003",
        "http://berth-proxy-1.berth-proxy-api.berth.svc:8003",
    ]


def test_the_ingress_leads_to_portal_gate_and_workspaces(render: Any) -> None:
    made = next(o for o in objects(render(ingress={"enabled": True})) if o["kind"] == "Ingress")
    rules = {rule["host"]: rule["http"]["paths"] for rule in made["spec"]["rules"]}
    assert [p["path"] for p in rules[chart.HOST]] == ["/gate/", "/"]
    backend = rules[f"*.{chart.DOMAIN}"][0]["backend"]["service"]["name"]
    assert backend == "berth-proxy"


def test_routes_by_a_gateway_bring_their_settings_and_no_more_rights_than_they_need(
    render: Any,
) -> None:
    gateway = {"enabled": True, "parentRefs": [{"name": "public", "namespace": "edge"}]}
    found = objects(render(settings={"BERTH_ROUTER": "gateway"}, gatewayApi=gateway))
    (settings,) = [one["data"] for one in found if one["kind"] == "ConfigMap"]
    assert settings["BERTH_GATEWAY"] == "edge/public"
    assert settings["BERTH_GATEWAY_PROXY"] == "berth/berth-proxy:8001"
    roles = {one["metadata"]["name"]: one["rules"] for one in found if one["kind"] == "Role"}
    (rule,) = roles["berth-routes"]
    assert (rule["resources"], rule["verbs"]) == (["httproutes"], ["create", "patch", "delete"])
    rules = {one["metadata"]["name"]: one["rules"] for one in found if one["kind"] == "ClusterRole"}
    (anywhere,) = [rule for rule in rules["berth"] if rule["resources"] == ["httproutes"]]
    assert anywhere["verbs"] == ["list"]
    fences = {o["metadata"]["name"]: o for o in found if o["kind"] == "ValidatingAdmissionPolicy"}
    fence = fences["berth-projects-only"]["spec"]
    assert "startsWith('route-')" in fence["validations"][0]["expression"]

    without = render()[1]
    assert "httproutes" not in without
    assert "BERTH_GATEWAY:" not in without
    assert "BERTH_GATEWAY_PROXY" not in without


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        ({}, {"image.notebook", "web ports", "kube_api_url"}),
        ({"sidecar_image": "r.example/guard:1"}, {"image.notebook", "kube_api_url"}),
        ({"default_image": "r.example/lab:1", "kube_api_url": "https://api.example:6443"}, set()),
    ],
)
def test_the_notes_name_what_people_will_lack(
    notes: Any, options: dict[str, str], lacking: set[str]
) -> None:
    text = notes(cluster={"options": options})
    words = {"image.notebook", "web ports", "kube_api_url"}
    assert {word for word in words if word in text} == lacking, text


LAB = {"repository": "registry.example/notebook", "tag": "7"}
OWN = "registry.example/own:1"


@pytest.mark.parametrize(
    ("notebook", "options", "expected"),
    [
        ({}, {}, (None, None)),
        (LAB, {}, ("registry.example/notebook:7", "registry.example/notebook:7")),
        (LAB, {"default_image": OWN}, (OWN, "registry.example/notebook:7")),
        (LAB, {"sidecar_image": OWN}, ("registry.example/notebook:7", OWN)),
        ({}, {"default_image": OWN}, (OWN, None)),  # which is taken for both
    ],
)
def test_one_image_is_for_notebooks_and_signs_people_in_before_ports(
    render: Any, notebook: dict[str, str], options: dict[str, str], expected: tuple[str | None, ...]
) -> None:
    image = {**chart.values()["image"], "notebook": notebook}
    rendered = render(image=image, cluster={"options": options})
    (settings,) = [one["data"] for one in objects(rendered) if one["kind"] == "ConfigMap"]
    made = json.loads(settings["BERTH_IN_CLUSTER_OPTIONS"])
    assert (made.get("default_image"), made.get("sidecar_image")) == expected
    assert made["data_image"] == "127.0.0.1:5000/berth/server:test"


def test_values_of_an_earlier_chart_that_are_kept_name_no_notebook_image(
    render: Any, notes: Any
) -> None:
    """``helm upgrade --reuse-values``: what that chart did not know is not there at all."""
    image = {**chart.values()["image"], "notebook": None}
    assert objects(render(image=image))
    assert "image.notebook" in notes(image=image)


def stored(rendered: tuple[int, str]) -> dict[str, Any]:
    """What the release says of its own cluster's storage."""
    (settings,) = [one["data"] for one in objects(rendered) if one["kind"] == "ConfigMap"]
    made = json.loads(settings["BERTH_IN_CLUSTER_OPTIONS"])
    check(replace(ClusterOptions(), **{name: made[name] for name in STORED if name in made}))
    return {name: made[name] for name in STORED if name in made}


STORED = ("volume_kind", "storage_class", "volume_access_mode", "nfs_server", "nfs_export")
SERVED = {"server": "nfs.example", "export": "/homes"}


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({}, ("storageclass", "", "ReadWriteOnce", None, None)),
        (
            {"storage": {"className": "fast", "accessMode": "ReadWriteMany"}},
            ("storageclass", "fast", "ReadWriteMany", None, None),
        ),
        (
            {"storage": {"kind": "nfs", "nfs": SERVED}},
            ("nfs", None, "ReadWriteOnce", "nfs.example", "/homes"),
        ),
        ({"storage": {"kind": "directory"}}, ("directory", None, "ReadWriteOnce", None, None)),
        # options go first; an earlier chart, whose values are kept, had directories only
        (
            {"options": {"storage_class": "gold", "volume_access_mode": "ReadWriteMany"}},
            ("storageclass", "gold", "ReadWriteMany", None, None),
        ),
        ({"storage": None}, ("directory", None, None, None, None)),
    ],
)
def test_homes_lie_on_the_clusters_default_class_unless_another_storage_is_said(
    render: Any, cluster: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    found = stored(render(cluster=cluster))
    assert tuple(found.get(name) for name in STORED) == expected


def test_c6_the_fence_lets_volumes_lie_on_the_export_of_homes_and_on_no_other(render: Any) -> None:
    def fence(**storage: Any) -> str:
        found = objects(render(cluster={"storage": storage}))
        (one,) = [
            o
            for o in found
            if o["metadata"]["name"] == "berth-own-volumes"
            and "spec" in o
            and o["kind"] == "ValidatingAdmissionPolicy"
        ]
        return str(one["spec"]["validations"][1]["expression"])

    assert "object.spec.nfs" not in fence()
    made = fence(kind="nfs", nfs=SERVED)
    assert "object.spec.nfs.server == 'nfs.example'" in made
    assert "object.spec.nfs.path.startsWith('/homes/')" in made


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        ({}, ("default storage class", "ReadWriteOnce", "accessMode: ReadWriteMany")),
        ({"storage": {"className": "fast"}}, ("the storage class fast",)),
        ({"storage": {"kind": "nfs", "nfs": SERVED}}, ("nfs.example:/homes", "user 1000")),
        ({"storage": {"kind": "directory"}}, ("/var/lib/berth/volumes", "Nothing in this release")),
    ],
)
def test_the_notes_say_what_homes_lie_on_and_what_that_needs(
    notes: Any, cluster: dict[str, Any], told: tuple[str, ...]
) -> None:
    text = notes(cluster=cluster)
    assert all(words in text for words in told), text
    shared = notes(cluster={"storage": {"accessMode": "ReadWriteMany"}})
    assert "on one node" not in shared


@pytest.mark.parametrize(
    ("kind", "policy"), [("ClusterIP", None), ("NodePort", "Local"), ("LoadBalancer", "Local")]
)
def test_ssh_sees_the_address_that_somebody_comes_from(
    render: Any, kind: str, policy: str | None
) -> None:
    rendered = render(gate={"ssh": {"serviceType": kind}})
    service = next(o for o in objects(rendered) if o["metadata"]["name"] == "berth-ssh")
    assert service["spec"].get("externalTrafficPolicy") == policy


EDGE = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "edge"}}}
OFFICE = {"ipBlock": {"cidr": "192.0.2.0/24"}}


def own_pods(process: str) -> dict[str, Any]:
    labels = {"app": process, "app.kubernetes.io/component": process}
    return {"podSelector": {"matchLabels": {**labels, "app.kubernetes.io/instance": "berth"}}}


def let_in(rendered: tuple[int, str]) -> dict[int, list[Any]]:
    """Who may connect to each port of web, gate, gateway and proxy; nothing: everybody."""
    return {
        port["port"]: rule.get("from", [])
        for one in objects(rendered)
        if one["kind"] == "NetworkPolicy"
        if one["metadata"]["name"] in {f"berth-{n}" for n in ("web", "gate", "gateway", "proxy")}
        for rule in one["spec"]["ingress"]
        for port in rule["ports"]
    }


def test_who_carries_people_to_the_portal_is_let_in_and_nobody_else(render: Any) -> None:
    found = let_in(render(networkPolicies={"ingressFrom": [EDGE]}))
    assert all(found[port] == [EDGE] for port in (8000, 8001, 8004, 8005)), found
    assert found[8007] == [EDGE, own_pods("web")]  # people try endpoints on its pages
    projects = {"namespaceSelector": {"matchLabels": {"berth.dev/instance": "deploytest"}}}
    assert projects in found[8002]  # what workspaces ask, whoever carries people
    assert EDGE not in found[8002] + found[8003] + found[8006]


def test_ssh_goes_past_what_carries_pages(render: Any) -> None:
    found = let_in(render(networkPolicies={"ingressFrom": [EDGE], "sshFrom": [OFFICE]}))
    assert (found[8004], found[8005]) == ([EDGE], [OFFICE])
    kept = let_in(render(networkPolicies={"ingressFrom": [EDGE], "sshFrom": None}))
    assert kept[8005] == [EDGE]  # values of an earlier chart name none


def test_the_notes_say_where_everybody_may_connect(notes: Any) -> None:
    assert "ingressFrom" in notes()
    assert "ingressFrom" not in notes(networkPolicies={"ingressFrom": [EDGE]})
