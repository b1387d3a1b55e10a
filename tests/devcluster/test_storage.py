"""The storage with snapshots that grows, as far as it needs no cluster."""

from pathlib import Path

from devcluster import storage
from devcluster.kube import path_of
from devcluster.layout import Layout
from devcluster.pki import CLIENTS
from devcluster.programs import OF_THE_CLUSTER, PROGRAMS


def test_its_programs_are_those_that_are_built_for_it_and_no_cluster_waits_for_them(
    tmp_path: Path,
) -> None:
    started = set(storage.commands(Layout(tmp_path)))
    assert started == {name for needed in storage.NEEDED for name in PROGRAMS[needed].names}
    assert not set(storage.NEEDED) & set(OF_THE_CLUSTER)


def test_its_classes_name_the_driver_as_it_names_itself() -> None:
    source = (PROGRAMS["csi-directory"].folder / "main.go").read_text()
    assert f'"{storage.DRIVER}"' in source
    named = {
        i.get("provisioner") or i.get("driver") or i["metadata"]["name"] for i in storage.objects()
    }
    assert named == {storage.DRIVER}


def test_one_class_grows_and_one_does_not() -> None:
    found = {
        item["metadata"]["name"]: item["allowVolumeExpansion"]
        for item in storage.objects()
        if item["kind"] == "StorageClass"
    }
    assert found == {storage.CLASS: True, storage.FIXED: False}
    source = (PROGRAMS["csi-directory"].folder / "services.go").read_text()
    assert "RPC_EXPAND_VOLUME" in source


def test_its_identity_is_its_own_and_its_kinds_are_found(tmp_path: Path) -> None:
    own = f"--kubeconfig={Layout(tmp_path).kubeconfig('storage')}"
    asking = [words for name, words in storage.commands(Layout(tmp_path)).items() if own in words]
    assert len(asking) == 4  # the driver itself asks nobody
    assert CLIENTS["storage"].name == "berth-cluster:storage"
    path = path_of(f"{storage.GROUP}/v1", "VolumeSnapshotClass")
    assert path == f"/apis/{storage.GROUP}/v1/volumesnapshotclasses"


def test_sockets_lie_where_the_kubelet_looks(tmp_path: Path) -> None:
    words = [str(word) for word in storage.commands(Layout(tmp_path))["csi-directory"]]
    assert f"--registry={tmp_path}/kubelet/plugins_registry" in words
    assert f"--socket={tmp_path}/storage/csi.sock" in words
