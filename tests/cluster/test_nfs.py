"""The data of an NFS volume from pods and from the NFS server alike (C5, C8).

Where the node's kernel has no NFS client the volume's object leads to the exported folder on this
machine instead; everything else (claim, binding, user, rights) is as Berth makes it for NFS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from devcluster.kube import Kube
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import volume
from tests.cluster.pods import phase, pod
from tests.drivers.nfs.test_nfs import ON, OPTIONS, USER, make, path_of
from tests.support.nfs import NOBODY_ELSE, NfsServer, RefusedError, serving

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.beside,
    pytest.mark.real,
    pytest.mark.root,
    pytest.mark.long(
        "the same server without pods: drivers/nfs/test_nfs.py; the objects: test_data.py"
    ),
]
LATE_S = 180
Run = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[NfsServer]:
    with serving(USER) as made:
        yield made


@pytest.fixture
def uid(server: NfsServer, namespace: str, kube: Kube, devcluster: dict[str, Any]) -> Iterator[str]:
    """A volume of the export with its claim, bound."""
    made = f"n{namespace}"
    make(server, made)
    about = {"project": "p", "owner": "o", "backing": ON}
    one = volume.volume(made, namespace, OPTIONS, **about)
    spec = one["spec"]
    assert spec.pop("nfs")["path"] == path_of(made)
    del spec["mountOptions"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [devcluster["node"]]}
    kube.apply(
        {
            **one,
            "spec": {
                **spec,
                "local": {"path": str(server.top / made)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }
    )
    kube.apply(volume.claim(made, namespace, OPTIONS, **about))
    try:
        kube.until(
            "the claim is bound",
            lambda: (
                phase(kube.get("v1", "PersistentVolumeClaim", names.claim(made), namespace))
                == "Bound"
            ),
            LATE_S,
        )
        yield made
    finally:
        for one_pod in kube.list("v1", "Pod", namespace):
            kube.delete("v1", "Pod", one_pod["metadata"]["name"], namespace)
        kube.delete("v1", "PersistentVolumeClaim", names.claim(made), namespace)
        kube.delete("v1", "PersistentVolume", names.volume(made))


@pytest.fixture
def run(kube: Kube, namespace: str, uid: str, devcluster: dict[str, Any]) -> Run:
    """Run a script in a pod with the volume at /data, as ``user``; return what it wrote."""

    def start(name: str, script: str, *, user: int = USER, read_only: bool = False) -> str:
        image = devcluster["images"]["tool"]["reference"]
        claim = {"claimName": names.claim(uid), "readOnly": read_only}
        one = pod(
            namespace,
            name,
            image,
            command=["sh", "-c", script],
            volumes=[{"name": "data", "persistentVolumeClaim": claim}],
        )
        (main,) = one["spec"]["containers"]
        main["volumeMounts"] = [{"name": "data", "mountPath": "/data", "readOnly": read_only}]
        main["securityContext"] = {**main["securityContext"], "runAsUser": user}
        kube.create(one)
        kube.until(
            f"{name} ended",
            lambda: phase(kube.get("v1", "Pod", name, namespace)) in {"Succeeded", "Failed"},
            LATE_S,
        )
        return str(kube.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}/log"))

    return start


def test_c5_pods_and_the_server_have_the_same_files(server: NfsServer, uid: str, run: Run) -> None:
    server.write(f"{path_of(uid)}/by-server", "from the server", USER)
    assert run("first", "cat /data/by-server; echo from a pod > /data/by-pod") == "from the server"
    assert server.read(f"{path_of(uid)}/by-pod", USER) == "from a pod\n"
    assert run("second", "cat /data/by-pod; rm /data/by-server") == "from a pod\n"
    assert server.names(path_of(uid), USER) == ["by-pod"]


def test_who_only_reads_writes_nothing_there(server: NfsServer, uid: str, run: Run) -> None:
    server.write(f"{path_of(uid)}/kept", "kept", USER)
    said = run(
        "reader", "exec 2>&1; cat /data/kept; echo x > /data/kept || echo; ls /data", read_only=True
    )
    assert said.splitlines()[0].startswith("kept")
    assert server.read(f"{path_of(uid)}/kept", USER) == "kept"
    assert server.names(path_of(uid), USER) == ["kept"]


def test_c8_another_user_gets_nothing_by_either_way(server: NfsServer, uid: str, run: Run) -> None:
    server.write(f"{path_of(uid)}/secret", "secret", USER)
    said = run("other", "cat /data/secret; echo x > /data/mine; echo tried", user=NOBODY_ELSE)
    assert "tried" in said
    assert "Permission denied" in said
    with pytest.raises(RefusedError):
        server.read(f"{path_of(uid)}/secret", NOBODY_ELSE)
    assert server.names(path_of(uid), USER) == ["secret"]
