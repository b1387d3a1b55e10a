"""Parts of the cluster's set-up that need no cluster."""

import io
import json
import re
import tarfile
from pathlib import Path

import httpx
import pytest

from devcluster import fleet, network_rules, oci
from devcluster.control_plane import audit_policy
from devcluster.kube import path_of
from devcluster.layout import Layout
from devcluster.pki import CLIENTS, SERVING, make
from devcluster.programs import PROGRAMS

SAVED = """# Generated
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [1:60]
:CNI-aaaaaaaaaaaaaaaaaaaaaaaa - [0:0]
:DOCKER - [0:0]
-A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE
-A POSTROUTING -s 10.244.0.3/32 -m comment --comment "name: \\"berth\\" id: \\"x\\"" -j CNI-aaaaaaaaaaaaaaaaaaaaaaaa
-A CNI-aaaaaaaaaaaaaaaaaaaaaaaa -d 10.244.0.0/24 -j ACCEPT
COMMIT
*filter
:INPUT ACCEPT [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
"""


def test_only_the_clusters_own_rules_are_taken_out_of_a_packet_filter() -> None:
    left = network_rules.without_ours(SAVED)
    assert left is not None
    assert "CNI-" not in left
    assert "-A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE" in left
    assert "*filter" not in left, "a table without our rules is not written again"
    assert left.endswith("COMMIT\n")


def test_a_packet_filter_without_our_rules_is_left_alone() -> None:
    assert network_rules.without_ours(SAVED.replace("CNI-", "OWN-")) is None


def test_the_simulated_nodes_are_tainted_and_have_different_names() -> None:
    made = list(fleet.nodes())
    assert len({node["metadata"]["name"] for node in made}) == 33
    assert sum(int(node["status"]["capacity"]["nvidia.com/gpu"]) for node in made) == 171
    assert all(node["spec"]["taints"] for node in made)


def test_some_simulated_nodes_offer_virtual_functions_of_network_cards() -> None:
    offered = {
        (
            node["metadata"]["labels"]["nvidia.com/gpu.product"],
            node["status"]["allocatable"].get(fleet.VIRTUAL_FUNCTIONS),
        )
        for node in fleet.nodes()
    }
    assert offered == {
        ("NVIDIA-H100-80GB-HBM3", "8"),
        ("NVIDIA-A100-SXM4-80GB", "4"),
        ("NVIDIA-A100-SXM4-40GB", None),
        ("NVIDIA-A2", None),
        ("Tesla-T4", None),
    }


def test_a_jobs_end_is_timed_by_its_annotation() -> None:
    stage = "spec:\n  selector:\n    matchExpressions:\n    - key: 'a'\n  next:\n    delete: true\n"
    timed = fleet.timed(stage)
    assert "berth.dev/simulated-seconds" in timed
    assert timed.index("delay:") < timed.index("next:")
    with pytest.raises(ValueError, match="another shape"):
        fleet.timed("spec: {}")


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "name", "path"),
    [
        ("v1", "Pod", "a", "b", "/api/v1/namespaces/a/pods/b"),
        ("v1", "Node", None, None, "/api/v1/nodes"),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "a",
            None,
            "/apis/networking.k8s.io/v1/namespaces/a/networkpolicies",
        ),
    ],
)
def test_a_path_of_the_api(
    version: str, kind: str, namespace: str | None, name: str | None, path: str
) -> None:
    assert path_of(version, kind, namespace, name) == path


def test_a_layer_is_the_same_whenever_it_is_packed(tmp_path: Path) -> None:
    one = oci.write_layer(tmp_path / "1", oci.files_as_tar({"/a/b": b"content"}))
    two = oci.write_layer(tmp_path / "2", oci.files_as_tar({"/a/b": b"content"}))
    assert (one.digest, one.unpacked, one.size) == (two.digest, two.unpacked, two.size)
    assert oci.read_layer(tmp_path / "1") == one
    with tarfile.open(one.path) as tar:
        member = tar.getmember("a/b")
        assert (member.mode, member.uid) == (0o755, 0)
        source = tar.extractfile(member)
        assert source is not None
        assert io.BytesIO(source.read()).getvalue() == b"content"


def test_an_image_describes_its_layers_and_how_it_starts(tmp_path: Path) -> None:
    layer = oci.write_layer(tmp_path, oci.files_as_tar({"/x": b"1"}))
    image = oci.Image("berth/x", "1", [layer], ["/x"], user="1000:1000", ports=(8888,))
    config = json.loads(image.configuration())
    assert config["rootfs"]["diff_ids"] == [layer.unpacked]
    assert config["config"] == {
        "Entrypoint": ["/x"],
        "User": "1000:1000",
        "WorkingDir": "/",
        "ExposedPorts": {"8888/tcp": {}},
    }
    assert json.loads(image.manifest())["layers"][0]["digest"] == layer.digest


def test_certificates_are_made_once_and_closed_to_others(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "cluster").made()
    make(layout)
    before = layout.admin.read_bytes()
    make(layout)
    assert layout.admin.read_bytes() == before
    assert layout.admin.stat().st_mode & 0o777 == 0o600
    closed = [path.stat().st_mode & 0o077 for path in layout.pki.iterdir()]
    assert not any(closed)
    assert httpx.URL(json.loads(before)["clusters"][0]["cluster"]["server"]).port == 6443


def test_no_two_certificates_share_a_file() -> None:
    assert not SERVING.keys() & CLIENTS.keys()


def test_the_audit_log_keeps_everything_but_the_clusters_own_programs() -> None:
    rules = audit_policy()["rules"]
    assert isinstance(rules, list)
    assert rules[-1] == {"level": "Metadata"}
    assert "berth-cluster-admin" not in rules[0]["users"]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_each_program_is_pinned_by_its_module_files(name: str) -> None:
    program = PROGRAMS[name]
    assert f"{program.module} {program.version}" in (program.folder / "go.mod").read_text()
    assert f"{program.module} {program.version} h1:" in (program.folder / "go.sum").read_text()


@pytest.mark.parametrize("name", sorted(p.name for p in PROGRAMS.values() if p.shares))
def test_what_is_compiled_for_kubernetes_is_used_again(name: str) -> None:
    theirs, own = versions("kubernetes"), versions(name)
    shared = own.keys() & theirs.keys()
    assert len(shared) > 40 or shared == own.keys()  # a small program has no others
    assert {module: v for module, v in own.items() if theirs.get(module, v) != v} == {}


def versions(name: str) -> dict[str, str]:
    """What a module's file asks for, after its replacements."""
    text = (PROGRAMS[name].folder / "go.mod").read_text()
    asked = re.findall(r"^(?:require )?\s*(\S+) (v\S+)", text, re.MULTILINE)
    instead = re.findall(r"^(?:replace )?\s*(\S+)(?: v\S+)? => \S+ (v\S+)$", text, re.MULTILINE)
    return {module: dict(instead).get(module, version) for module, version in asked}
