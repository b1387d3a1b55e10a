"""The gateway of endpoints in the chart: how requests come to it, and what it may reach."""

import json
from typing import Any

import pytest

from serving.gateway.control import FINISHES_WITHIN_S
from tests.deploy import chart
from tests.deploy.test_chart_rendered import (  # noqa: F401 - the fixture
    EDGE,
    objects,
    own_pods,
    pods,
    render,
    settings_of,
)

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]
OFF = {"enabled": False}
NGINX = "nginx.ingress.kubernetes.io"


def one_of(rendered: tuple[int, str], kind: str, name: str = "berth-gateway") -> dict[str, Any]:
    (one,) = [o for o in objects(rendered) if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return one


def test_it_is_ready_when_haproxy_answers_and_holds_no_key_to_a_cluster(render: Any) -> None:  # noqa: F811
    spec = pods(render())["gateway"]
    (container,) = spec["containers"]
    assert container["readinessProbe"]["httpGet"] == {
        "path": "/readyz",
        "port": "http",
        "scheme": "HTTP",
    }
    assert spec["automountServiceAccountToken"] is False
    known = {entry["name"] for entry in container["env"]}
    assert "BERTH_SECRET_KEY" in known
    assert not known & {"BERTH_CLUSTER_PRIVATE_KEY", "BERTH_PROXY_TOKEN", "BERTH_GATE_TOKEN"}


@pytest.mark.parametrize(("gateway", "seconds"), [({}, 15), ({"drainSeconds": 60}, 60)])
def test_it_answers_while_others_look_away_and_then_ends_its_streams(
    render: Any,  # noqa: F811
    gateway: dict[str, Any],
    seconds: int,
) -> None:
    rendered = render(gateway=gateway)
    spec = pods(rendered)["gateway"]
    hook = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert hook == ["sleep", str(seconds)]
    assert spec["terminationGracePeriodSeconds"] > seconds + FINISHES_WITHIN_S
    deployment = one_of(rendered, "Deployment")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert one_of(rendered, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_its_number_follows_the_cpu_where_that_is_said(render: Any) -> None:  # noqa: F811
    assert "HorizontalPodAutoscaler" not in render()[1]
    rendered = render(gateway={"autoscaling": {"enabled": True}})
    assert "replicas" not in one_of(rendered, "Deployment")["spec"]  # two would set it
    spec = one_of(rendered, "HorizontalPodAutoscaler")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 10)
    assert spec["scaleTargetRef"]["name"] == "berth-gateway"


@pytest.mark.parametrize(
    ("host", "leads", "secret"),
    [("", chart.HOST, "portal-tls"), ("models.example.org", "models.example.org", "models-tls")],
)
def test_what_is_below_e_comes_to_it_in_its_own_time_and_size(
    render: Any,  # noqa: F811
    host: str,
    leads: str,
    secret: str,
) -> None:
    tls = {"portalSecret": "portal-tls", "gatewaySecret": "models-tls"}
    ingress = {"enabled": True, "annotations": {"own": "yes", f"{NGINX}/proxy-body-size": "8m"}}
    rendered = render(ingress={**ingress, "tls": tls}, gateway={"host": host})
    made = one_of(rendered, "Ingress")
    assert made["spec"]["rules"] == [
        {
            "host": leads,
            "http": {
                "paths": [
                    {
                        "path": "/e/",
                        "pathType": "Prefix",
                        "backend": {"service": {"name": "berth-gateway", "port": {"name": "http"}}},
                    }
                ]
            },
        }
    ]
    assert made["spec"]["tls"] == [{"hosts": [leads], "secretName": secret}]
    told = made["metadata"]["annotations"]
    assert told["own"] == "yes"
    assert told[f"{NGINX}/proxy-body-size"] == "0"
    assert told[f"{NGINX}/proxy-request-buffering"] == "off"
    pages = one_of(rendered, "Ingress", "berth")["metadata"]["annotations"]
    assert pages[f"{NGINX}/proxy-body-size"] == "8m"
    assert settings_of(rendered)["BERTH_GATEWAY_URL"] == f"https://{leads}"


BY_TLS = {
    "host": "models.example.org",
    "tls": {"secret": "models-tls"},
    "service": {"type": "LoadBalancer", "annotations": {"own": "yes"}},
}


def test_by_tls_callers_come_straight_to_its_service(render: Any) -> None:  # noqa: F811
    by = {"enabled": True, "parentRefs": [{"name": "public"}]}
    fences: dict[str, Any] = {
        "ingressFrom": [EDGE],
        "gatewayFrom": [{"ipBlock": {"cidr": "0.0.0.0/0"}}],
    }
    rendered = render(
        gateway=BY_TLS, ingress={"enabled": True}, gatewayApi=by, networkPolicies=fences
    )
    spec = pods(rendered)["gateway"]
    (container,) = spec["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    told = {one["name"]: one.get("value") for one in container["env"]}
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "tls"]
    assert told["BERTH_TLS_CERT"] == f"{mount['mountPath']}/tls.crt"
    assert told["BERTH_TLS_KEY"] == f"{mount['mountPath']}/tls.key"
    assert {"name": "tls", "secret": {"secretName": "models-tls"}} in spec["volumes"]
    service = one_of(rendered, "Service")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["annotations"] == {"own": "yes"}
    assert [port["port"] for port in service["spec"]["ports"]] == [443]
    (rule,) = one_of(rendered, "NetworkPolicy")["spec"]["ingress"]
    assert fences["gatewayFrom"][0] in rule["from"]
    assert EDGE not in rule["from"]
    assert settings_of(rendered)["BERTH_GATEWAY_URL"] == "https://models.example.org"
    kinds = {o["kind"] for o in objects(rendered) if o["metadata"]["name"] == "berth-gateway"}
    assert not kinds & {"Ingress", "HTTPRoute"}


@pytest.mark.parametrize(
    ("service", "policy", "url"),
    [
        ({}, None, "https://models.example.org"),
        ({"type": "LoadBalancer"}, "Local", "https://models.example.org"),
        ({"type": "NodePort", "nodePort": 30443}, "Local", "https://models.example.org:30443"),
    ],
)
def test_it_sees_the_address_that_a_caller_comes_from(
    render: Any,  # noqa: F811
    service: dict[str, Any],
    policy: str | None,
    url: str,
) -> None:
    """Else a node's: gatewayFrom would refuse callers, or let everybody in."""
    rendered = render(gateway={**BY_TLS, "service": service})
    made = one_of(rendered, "Service")["spec"]
    assert made.get("externalTrafficPolicy") == policy
    assert made["ports"][0].get("nodePort") == service.get("nodePort")
    assert settings_of(rendered)["BERTH_GATEWAY_URL"] == url


def test_the_address_that_somebody_says_is_the_only_one(render: Any) -> None:  # noqa: F811
    said = {"BERTH_GATEWAY_URL": "https://edge.example.org:8443"}
    rendered = render(gateway={**BY_TLS, "service": {"type": "NodePort"}}, settings=said)
    assert rendered[1].count("BERTH_GATEWAY_URL:") == 1
    assert settings_of(rendered)["BERTH_GATEWAY_URL"] == said["BERTH_GATEWAY_URL"]
    assert "nodePort" not in one_of(rendered, "Service")["spec"]["ports"][0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gateway": {"service": {"type": "LoadBalancer"}}}, "set gateway.tls.secret"),
        ({"gateway": {"service": {"type": "NodePort", "nodePort": 30443}}}, "in clear"),
        ({"networkPolicies": {"gatewayFrom": [EDGE]}}, "name it in ingressFrom"),
        ({"gateway": {**BY_TLS, "service": {"type": "NodePort"}}}, "gateway.service.nodePort"),
    ],
)
def test_what_would_send_keys_in_clear_or_lead_nowhere_is_refused(
    render: Any,  # noqa: F811
    changes: dict[str, Any],
    words: str,
) -> None:
    code, said = render(**changes)
    assert code != 0
    assert words in said


def test_a_certificate_needs_the_host_that_it_is_for(render: Any) -> None:  # noqa: F811
    code, said = render(gateway={**BY_TLS, "host": ""})
    assert code != 0
    assert "set gateway.host" in said


def test_a_route_leads_to_it_instead_of_an_ingress(render: Any) -> None:  # noqa: F811
    by = {"enabled": True, "parentRefs": [{"name": "public", "namespace": "edge"}]}
    spec = one_of(render(gatewayApi=by), "HTTPRoute")["spec"]
    assert spec["hostnames"] == [chart.HOST]
    assert spec["rules"][0]["matches"] == [{"path": {"type": "PathPrefix", "value": "/e/"}}]
    assert spec["rules"][0]["backendRefs"] == [{"name": "berth-gateway", "port": 8007}]


def test_it_is_among_those_who_come_to_what_serves(render: Any) -> None:  # noqa: F811
    rendered = render()
    options = json.loads(settings_of(rendered)["BERTH_IN_CLUSTER_OPTIONS"])
    labels = one_of(rendered, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert f"berth/{labels['app']}" in options["proxy_peers"]
    for name in ("postgresql", "redis"):
        (rule,) = one_of(rendered, "NetworkPolicy", f"berth-{name}")["spec"]["ingress"]
        assert own_pods("gateway") in rule["from"]


def test_it_reaches_projects_and_its_servers_and_nothing_else(render: Any) -> None:  # noqa: F811
    spec = one_of(render(), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    to = [peer for rule in spec["egress"] for peer in rule.get("to", ["names"])]
    projects = {"namespaceSelector": {"matchLabels": {"berth.dev/instance": "deploytest"}}}
    assert to == [projects, "names", own_pods("postgresql"), own_pods("redis")]


def test_where_its_servers_are_others_only_those_named_close_it(render: Any) -> None:  # noqa: F811
    """Nobody knows where they are: shut, it would know of no endpoint."""
    assert one_of(render(postgresql=OFF), "NetworkPolicy")["spec"]["policyTypes"] == ["Ingress"]
    named = render(postgresql=OFF, networkPolicies={"gatewayTo": [EDGE]})
    spec = one_of(named, "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert {"to": [EDGE]} in spec["egress"]


MADE = {"repository": "r.example/serving", "tag": "7"}


@pytest.mark.parametrize(
    ("image", "options", "expected"),
    [
        ({}, {}, None),
        ({"serving": MADE}, {}, {"serving": "r.example/serving:7"}),
        (
            {"serving": MADE, "servingPytorch": {"repository": "r.example/torch", "tag": "1"}},
            {"serving_images": {"serving": "own:1", "vllm": "r.example/vllm:2"}},
            {
                "serving": "own:1",
                "serving-pytorch": "r.example/torch:1",
                "vllm": "r.example/vllm:2",
            },
        ),
    ],
)
def test_model_servers_are_those_of_the_values_unless_the_options_name_others(
    render: Any,  # noqa: F811
    image: dict[str, Any],
    options: dict[str, Any],
    expected: dict[str, str] | None,
) -> None:
    rendered = render(image={**chart.values()["image"], **image}, cluster={"options": options})
    made = json.loads(settings_of(rendered)["BERTH_IN_CLUSTER_OPTIONS"])
    assert made.get("serving_images") == expected


def test_values_of_an_earlier_chart_that_are_kept_have_no_gateway(render: Any) -> None:  # noqa: F811
    """``helm upgrade --reuse-values``: what that chart did not know is not there at all."""
    image = {**chart.values()["image"], "serving": None, "servingTensorflow": None}
    image["servingPytorch"] = None
    rendered = render(gateway=None, image=image, ingress={"enabled": True})
    assert "gateway" not in pods(rendered)
    assert "BERTH_GATEWAY_URL" not in settings_of(rendered)
