"""What volumes lie on, word for word, and what making, growing, moving and removing one writes."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.drivers.kubernetes import names, nfs
from runtime.drivers.kubernetes.builders import volume
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied, DriverError, InvalidSpec, NotYet
from runtime.spec import Backing, Mount
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.test_apply import spec
from tests.drivers.kubernetes.test_builders import HOME, OWNER, PROJECT
from tests.drivers.local.harness import IS_ROOT, NOBODY, PYTHON

CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
JOBS, SPACES = "/apis/batch/v1/jobs", "/api/v1/namespaces"
SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots"
NS = "berth-demo-0b7c8a52"
OPTIONS = KubernetesOptions(data_image="registry.example/berth/data:1")
WHO = {"project": PROJECT, "owner": OWNER}
SERVED = {"server": "nfs.example", "export": "/vols"}
ON_NFS = Backing("nfs", SERVED, size_mib=10240)
ON_CSI = Backing("nfs-csi", SERVED)
CLASS = Backing("storage-class", {"storage_class": "fast", "snapshot_class": "snap"}, 10240)
FOLDER = Backing("directory", {"path": "/mnt/pool"})


def quiet(act):
    try:
        return act()
    except NotYet:
        return None


# --- what is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "on"), [("nfs", ON_NFS), ("nfs-csi", ON_CSI)])
def test_a_volume_on_nfs(name, on):
    check(
        f"volume-{name}",
        volume.volume(HOME, NS, OPTIONS, **WHO, backing=on),
        volume.claim(HOME, NS, OPTIONS, **WHO, backing=on),
    )


def test_the_ground_on_which_folders_are_made():
    check("nfs-ground", *nfs.ground(ON_NFS, OPTIONS), nfs.job(nfs.MAKE, HOME, ON_NFS, OPTIONS))


def test_a_volume_of_a_storage_class_and_its_snapshot():
    made = volume.claim(HOME, NS, OPTIONS, **WHO, backing=CLASS)
    check(
        "volume-snapshot",
        made,
        volume.volume_snapshot("5nap", HOME, made, snapshot_class="snap"),
        volume.claim(HOME, NS, OPTIONS, **WHO, backing=CLASS, snapshot="5nap"),
    )


def test_a_kind_that_names_less_takes_the_clusters_own():
    found = volume.resolved(Backing("directory"), OPTIONS)
    assert found.options == {"path": "/var/lib/berth/volumes"}
    assert volume.resolved(Backing(), OPTIONS) == found
    by_class = KubernetesOptions(volume_kind="storageclass", storage_class="fast")
    assert volume.resolved(None, by_class).options["storage_class"] == "fast"
    given = volume.resolved(Backing("storage-class", {"storage_class": "x"}), by_class)
    assert given.options == {"storage_class": "x", "access_mode": "ReadWriteMany"}
    served = KubernetesOptions(volume_kind="nfs", nfs_server="nfs.example", nfs_export="/vols")
    assert volume.resolved(Backing(size_mib=10240), served) == ON_NFS


@pytest.mark.parametrize("on", [None, Backing("storage-class", {})])
def test_a_class_that_is_not_named_is_left_to_the_cluster(on):
    """An empty name would be "no class", and nothing would ever make the volume."""
    options = KubernetesOptions(volume_kind="storageclass", volume_access_mode="ReadWriteOnce")
    made = volume.claim(HOME, NS, options, **WHO, backing=on)
    assert "storageClassName" not in made["spec"]
    assert made["spec"]["accessModes"] == ["ReadWriteOnce"]
    ours = volume.claim(HOME, NS, options, **WHO, backing=ON_NFS)
    assert ours["spec"]["storageClassName"] == ""


@pytest.mark.parametrize("uid", ["../b", "a/b", "", "..", ".hidden", "a" * 200])
@pytest.mark.parametrize("on", [ON_NFS, ON_CSI, FOLDER])
def test_c8_only_a_plain_name_becomes_a_folder(uid, on):
    with pytest.raises(InvalidSpec):
        volume.volume(uid, NS, OPTIONS, **WHO, backing=on)


def test_c8_two_volumes_of_one_export_have_nothing_in_common():
    one, other = (
        volume.volume(uid, NS, OPTIONS, **WHO, backing=on)["spec"]
        for uid, on in (("v1", ON_NFS), ("v2", ON_NFS))
    )
    assert (one["nfs"]["path"], other["nfs"]["path"]) == ("/vols/v1", "/vols/v2")
    handles = [
        volume.volume(uid, NS, OPTIONS, **WHO, backing=ON_CSI)["spec"]["csi"]["volumeHandle"]
        for uid in ("v1", "v2")
    ]
    assert len(set(handles)) == 2


def test_c9_every_volume_of_ours_is_bound_in_advance_and_kept():
    for on in (ON_NFS, ON_CSI, FOLDER, Backing()):
        made = volume.volume("v1", NS, OPTIONS, **WHO, backing=on)["spec"]
        assert made["claimRef"]["namespace"] == NS
        assert made["claimRef"]["name"] == names.claim("v1")
        assert made["persistentVolumeReclaimPolicy"] == "Retain"
        assert made["storageClassName"] == ""


def test_the_export_itself_is_claimed_in_berths_own_namespace_only():
    made = {o["kind"]: o for o in nfs.ground(ON_NFS, OPTIONS)}
    assert made["PersistentVolume"]["spec"]["nfs"]["path"] == "/vols"
    assert made["PersistentVolume"]["spec"]["claimRef"]["namespace"] == "berth-volumes"
    labels = made["Namespace"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert made["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    pod = nfs.job(nfs.WIPE, "v1", ON_NFS, OPTIONS)["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == OPTIONS.run_as_user


# --- the program of the Job -----------------------------------------------------------------------


class TestWipe:
    """As somebody who is not root: that is who the Job is."""

    @pytest.fixture
    def export(self) -> Iterator[Path]:
        top = Path(tempfile.mkdtemp(prefix="berth-export-"))
        yield top
        subprocess.run(["chmod", "-R", "u+rwX", top], check=True)
        subprocess.run(["rm", "-rf", top], check=True)

    def run(self, export: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if IS_ROOT else {}
        if IS_ROOT:
            os.chown(export, NOBODY, NOBODY)
        return subprocess.run(
            [PYTHON, "-I", "-c", program.replace("/export", str(export)), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **who,
        )

    def wipe(self, export: Path) -> None:
        for _ in range(2):  # what is not there is wiped
            done = self.run(export, nfs.SCRIPT, nfs.WIPE, "v1")
            assert (done.returncode, done.stderr) == (0, "")
        assert list(export.iterdir()) == []

    def test_c9_a_folder_that_its_owner_closed_goes_too(self, export):
        fill = """
import os
for name, mode in (("cache", 0o555), ("shut", 0)):
    os.makedirs(f"/export/v1/{name}/inner")
    open(f"/export/v1/{name}/inner/file", "w").close()
    os.chmod(f"/export/v1/{name}/inner", mode)
    os.chmod(f"/export/v1/{name}", mode)
os.symlink("/", "/export/v1/root")
os.chmod("/export/v1", 0o555)
"""
        assert self.run(export, fill).returncode == 0
        self.wipe(export)

    def test_c9_folders_deeper_than_a_stack_go_too(self, export):
        fill = """
import os
os.mkdir("/export/v1")
os.chdir("/export/v1")
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
"""
        assert self.run(export, fill).returncode == 0
        self.wipe(export)

    @pytest.mark.root
    @pytest.mark.skipif(not IS_ROOT, reason="needs a folder of somebody else's")
    def test_what_can_not_be_wiped_is_said(self, export):
        (export / "v1").mkdir(mode=0o700)
        (export / "v1/file").touch()
        done = self.run(export, nfs.SCRIPT, nfs.WIPE, "v1")
        assert done.returncode == 1
        assert "Permission denied" in done.stderr.splitlines()[-1]


# --- what is written --------------------------------------------------------------------------------


@pytest.fixture
def driver(stub):
    made = stub.driver(data_image="data:1")
    yield made
    made.close()


def ensure(driver, on, uid="v1", **options):
    driver.ensure_volume(uid, project="p", owner="", backing=on, **options)


def end_jobs(stub, word="Complete"):
    for (collection, _key), found in list(stub.objects.items()):
        if collection == JOBS:
            found["status"] = {"conditions": [{"type": word, "status": "True"}]}


def claim_of(stub, uid="v1", namespace="ns"):
    return stub.objects.get((CLAIMS, f"{namespace}/vol-{uid}"))


class TestNfs:
    def made(self, stub, driver, on=ON_NFS):
        with pytest.raises(NotYet):
            ensure(driver, on)
        end_jobs(stub)
        ensure(driver, on)

    def test_its_folder_is_there_before_its_claim(self, stub, driver):
        with pytest.raises(NotYet):
            ensure(driver, ON_NFS)
        assert claim_of(stub) is None
        with pytest.raises(NotYet):
            ensure(driver, ON_NFS)
        (job,) = [o for (c, _k), o in stub.objects.items() if c == JOBS]
        words = job["spec"]["template"]["spec"]["containers"][0]["command"]
        assert words[-2:] == ["make", "v1"]
        end_jobs(stub)
        ensure(driver, ON_NFS)
        assert claim_of(stub)["spec"]["volumeName"] == "berth-v1"
        assert [o for (c, _k), o in stub.objects.items() if c == JOBS] == []
        stub.seen.clear()
        ensure(driver, ON_NFS)
        assert stub.seen == []

    def test_a_workload_waits_for_it(self, stub, driver):
        given = spec(mounts=(Mount("v1", name="data", backing=ON_NFS),))
        with pytest.raises(NotYet):
            driver.ensure(given)
        assert ("/apis/apps/v1/statefulsets", "ns/ws-k7") not in stub.objects
        end_jobs(stub)
        driver.ensure(given)
        assert ("/apis/apps/v1/statefulsets", "ns/ws-k7") in stub.objects

    def test_a_server_that_refuses_is_said_and_asked_again(self, stub, driver):
        with pytest.raises(NotYet):
            ensure(driver, ON_NFS)
        end_jobs(stub, "Failed")
        pod = {
            "metadata": {
                "name": "make-1",
                "namespace": "berth-volumes",
                "labels": {"job-name": nfs.job_name(nfs.MAKE, "v1")},
            },
            "status": {
                "containerStatuses": [
                    {"state": {"terminated": {"message": "a\nPermissionError: /export\n"}}}
                ]
            },
        }
        stub.put("/api/v1/pods", pod)
        with pytest.raises(DriverError, match="PermissionError"):
            ensure(driver, ON_NFS)
        with pytest.raises(NotYet):
            ensure(driver, ON_NFS)

    def test_without_an_image_that_is_said(self, stub):
        driver = stub.driver()
        with pytest.raises(InvalidSpec, match="data_image"):
            ensure(driver, ON_NFS)
        driver.close()

    @pytest.mark.parametrize("on", [ON_NFS, ON_CSI])
    def test_c9_it_is_wiped_before_it_goes(self, stub, driver, on):
        self.made(stub, driver, on)
        for _ in range(3):
            with pytest.raises(NotYet):
                driver.remove_volume("v1")
        assert claim_of(stub) is None
        assert (VOLUMES, "/berth-v1") in stub.objects  # until its folder is wiped
        (job,) = [o for (c, _k), o in stub.objects.items() if c == JOBS]
        words = job["spec"]["template"]["spec"]["containers"][0]["command"]
        assert words[-2:] == ["wipe", "v1"]
        end_jobs(stub)
        with pytest.raises(NotYet):
            driver.remove_volume("v1")
        assert (VOLUMES, "/berth-v1") not in stub.objects
        driver.remove_volume("v1")

    def test_c9_nobody_else_can_have_it(self, stub, driver):
        self.made(stub, driver)
        with pytest.raises(InvalidSpec):
            ensure(driver, ON_NFS, namespace="other")


class TestSize:
    def bound(self, stub, size, **status):
        found = claim_of(stub)
        found["status"] = {"phase": "Bound", "capacity": {"storage": size}, **status}

    def larger(self, gib):
        return Backing("storage-class", CLASS.options, gib * 1024)

    def test_a_storage_class_gives_what_is_asked(self, stub, driver):
        ensure(driver, CLASS)
        assert claim_of(stub)["spec"]["resources"]["requests"]["storage"] == "10Gi"
        assert claim_of(stub)["spec"]["storageClassName"] == "fast"
        assert (VOLUMES, "/berth-v1") not in stub.objects

    def test_it_grows_and_waits_until_it_has(self, stub, driver):
        ensure(driver, CLASS)
        self.bound(stub, "10Gi")
        for _ in range(2):
            with pytest.raises(NotYet, match="larger"):
                ensure(driver, self.larger(20))
        assert claim_of(stub)["spec"]["resources"]["requests"]["storage"] == "20Gi"
        self.bound(stub, "20Gi")
        ensure(driver, self.larger(20))

    def test_what_grows_with_the_next_pod_is_not_waited_for(self, stub, driver):
        ensure(driver, CLASS)
        waits = [{"type": "FileSystemResizePending", "status": "True"}]
        self.bound(stub, "10Gi", conditions=waits)
        quiet(lambda: ensure(driver, self.larger(20)))
        ensure(driver, self.larger(20))

    def test_it_never_shrinks(self, stub, driver):
        ensure(driver, CLASS)
        self.bound(stub, "10Gi")
        ensure(driver, self.larger(5))
        assert claim_of(stub)["spec"]["resources"]["requests"]["storage"] == "10Gi"

    def test_a_class_that_can_not_is_said(self, stub, driver):
        ensure(driver, CLASS)
        self.bound(stub, "10Gi")

        def forbidden(handler, method, _path, _query):
            if method == "PATCH":
                handler.refuse(403, "only dynamically provisioned pvc can be resized")
            return method == "PATCH"

        stub.fault = forbidden
        with pytest.raises(Denied, match="resized"):
            ensure(driver, self.larger(20))


class TestMoves:
    def test_c9_the_claim_changes_and_no_third_one_can_come_between(self, stub, driver):
        ensure(driver, FOLDER, namespace="old")
        stub.objects[VOLUMES, "/berth-v1"]["spec"]["claimRef"]["uid"] = "bound"

        def move():
            driver.move_volume("v1", project="q", owner="", backing=FOLDER, namespace="new")
            return True

        assert quiet(move) is None
        assert claim_of(stub, namespace="old") is None
        refs = [stub.objects[VOLUMES, "/berth-v1"]["spec"]["claimRef"]]
        assert refs[-1]["namespace"] == "old"  # still nobody else's
        assert move()
        found = stub.objects[VOLUMES, "/berth-v1"]
        assert found["spec"]["claimRef"]["namespace"] == "new"
        assert "uid" not in found["spec"]["claimRef"]
        assert found["metadata"]["labels"][names.PROJECT] == "q"
        assert claim_of(stub, namespace="new")["metadata"]["labels"][names.PROJECT] == "q"
        assert move()
        with pytest.raises(InvalidSpec):
            ensure(driver, FOLDER, namespace="old")

    def test_a_claim_in_use_is_waited_for(self, stub, driver):
        ensure(driver, FOLDER, namespace="old")
        claim_of(stub, namespace="old")["metadata"]["deletionTimestamp"] = "2026-11-21T06:00:00Z"
        with pytest.raises(NotYet):
            driver.move_volume("v1", project="q", owner="", backing=FOLDER, namespace="new")
        assert stub.objects[VOLUMES, "/berth-v1"]["spec"]["claimRef"]["namespace"] == "old"

    def test_what_a_storage_class_made_stays(self, driver):
        assert not driver.can_move(CLASS)
        assert all(driver.can_move(on) for on in (FOLDER, ON_NFS, ON_CSI, Backing()))
        with pytest.raises(InvalidSpec):
            driver.move_volume("v1", project="q", owner="", backing=CLASS)


class TestSnapshots:
    def snapshot(self, driver):
        return driver.ensure_snapshot("s1", volume_uid="v1", backing=CLASS)

    def restore(self, driver):
        driver.restore_snapshot("s1", volume_uid="v1", backing=CLASS)
        return True

    def ready(self, stub, **status):
        found = stub.objects[SNAPSHOTS, "ns/snap-s1"]
        found["status"] = {"readyToUse": True, "restoreSize": "2Gi", **status}

    def test_only_storage_that_can_does(self, driver):
        can = [driver.can_snapshot(on) for on in (CLASS, FOLDER, ON_NFS, ON_CSI, Backing())]
        assert can == [True, False, False, False, False]
        assert not driver.can_snapshot(Backing("storage-class", {"storage_class": "x"}))
        with pytest.raises(InvalidSpec):
            driver.ensure_snapshot("s1", volume_uid="v1", backing=FOLDER)

    def test_it_is_made_once_and_waited_for(self, stub, driver):
        ensure(driver, CLASS)
        for _ in range(2):
            with pytest.raises(NotYet):
                self.snapshot(driver)
        self.ready(stub)
        assert self.snapshot(driver) == 2 * 2**30
        made = stub.objects[SNAPSHOTS, "ns/snap-s1"]
        assert made["spec"]["source"] == {"persistentVolumeClaimName": "vol-v1"}

    def test_an_error_of_the_storage_is_said(self, stub, driver):
        ensure(driver, CLASS)
        quiet(lambda: self.snapshot(driver))
        found = stub.objects[SNAPSHOTS, "ns/snap-s1"]
        found["status"] = {"readyToUse": False, "error": {"message": "out of space"}}
        with pytest.raises(DriverError, match="out of space"):
            self.snapshot(driver)

    def test_a_restore_makes_the_claim_anew_and_may_be_repeated(self, stub, driver):
        ensure(driver, CLASS)
        quiet(lambda: self.snapshot(driver))
        with pytest.raises(InvalidSpec):
            self.restore(driver)  # not ready
        self.ready(stub)
        assert quiet(lambda: self.restore(driver)) is None
        assert claim_of(stub) is None
        assert quiet(lambda: self.restore(driver)) is None
        assert claim_of(stub)["spec"]["dataSource"]["name"] == "snap-s1"
        assert quiet(lambda: self.restore(driver)) is None  # until it is bound
        claim_of(stub)["status"] = {"phase": "Bound"}
        assert self.restore(driver)
        assert names.RESTORED not in claim_of(stub)["metadata"]["annotations"]
        assert quiet(lambda: self.restore(driver)) is None  # once more from the beginning
        assert claim_of(stub) is None

    def test_removal(self, stub, driver):
        ensure(driver, CLASS)
        quiet(lambda: self.snapshot(driver))
        quiet(lambda: driver.remove_snapshot("s1", volume_uid="v1", backing=CLASS))
        assert (SNAPSHOTS, "ns/snap-s1") not in stub.objects
        driver.remove_snapshot("s1", volume_uid="v1", backing=CLASS)
