"""What the checks of images and of storage conclude from a pod, and from one that never ran."""

import os
import subprocess
import sys

import pytest

from clusters import checks
from clusters.checks import CHECKS, image, models, storage
from clusters.checks.base import Answer
from clusters.checks.probe_runner import MARK
from common.clock import now
from tests.clusters.probing import Api, bench, ended, subject, waiting

REFUSED = Answer(403, {"message": "pods is forbidden"})
NO_PROGRAM = 'exec: "python3": executable file not found in $PATH'
LAB = "registry.example/lab:1"
FULL = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}
PULLING = {
    "conditions": [
        {"type": "PodReadyToStartContainers", "status": "True"},
        {"type": "PodScheduled", "status": "True"},
        {"type": "Ready", "status": "False", "message": "containers with unready status: [main]"},
    ]
}
PLACED = {"conditions": [{"type": "PodScheduled", "status": "True"}]}


def pod(status):
    return Answer(200, {"status": status})


def asked(name, api, **options):
    """The answer as it is kept: through the runner, which catches what a check raises."""
    entry = next(check for check in CHECKS if check.name == name)
    options = {"check_image": "registry.example/python3:1", **options}
    return checks.one(entry, subject(api, **options), bench(api, **options))


@pytest.mark.parametrize(
    ("seen", "state", "words"),
    [
        (ended(0), "green", "was pulled and ran"),
        (ended(1), "red", "no python3"),
        (ended(127), "red", "no python3"),
        (ended(128, "StartError", NO_PROGRAM), "red", "no python3"),
        (waiting("CreateContainerError", NO_PROGRAM), "red", "no python3"),
        (waiting("ImagePullBackOff", "not found"), "red", "not found"),
        (waiting("InvalidImageName"), "red", "InvalidImageName"),
        (ended(137, "OOMKilled"), "unknown", "ended with 137"),
        (ended(128, "StartError", "no space left on device"), "unknown", "ended with 128"),
        (waiting("ErrImagePull", 'pulling "python3:1"'), "unknown", "pulling"),
        (pod(FULL), "unknown", "0/3 nodes"),
        (pod(PULLING), "unknown", "unready status"),
        (Answer(404, {}), "unknown", "no pod within"),
        (REFUSED, "unknown", "pods is forbidden"),
    ],
)
def test_only_what_an_image_did_itself_is_its_fault(seen, state, words):
    found = asked("image", Api(pods=seen))
    assert (found.state, words in found.text()) == (state, True), found.text()
    assert found.failed == (state == "unknown")


@pytest.mark.parametrize(
    ("seen", "state", "words"),
    [
        (ended(0), "green", "signs people in"),
        (ended(image.LACKS), "red", "lacks the Python packages"),
        (ended(128, "StartError", NO_PROGRAM), "red", "no python3"),
        (waiting("ImagePullBackOff", "not found", LAB), "red", f"{LAB}: not found"),
        (ended(1), "unknown", "ended with 1"),
        (ended(137, "OOMKilled"), "unknown", "ended with 137"),
        (pod(FULL), "unknown", "0/3 nodes"),
    ],
)
def test_an_image_that_can_not_sign_people_in_before_ports_is_found(seen, state, words):
    made = []
    api = Api(statefulsets=lambda body: made.append(body) or Answer(200, {}), pods=seen)
    found = asked("ports", api, default_image=LAB)
    assert (found.state, words in found.text()) == (state, True), found.text()
    assert found.failed == (state == "unknown")
    (container,) = made[0]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == LAB  # not the one of the check


OWN = "registry.example/berth/serving:1"
HAS_KSERVE = {"groups": [{"versions": [{"groupVersion": "serving.kserve.io/v1beta1"}]}]}
HAS_SERVICES = Answer(200, {"resources": [{"name": "inferenceservices"}]})


@pytest.mark.parametrize(
    ("seen", "state", "words"),
    [
        (
            ended(0),
            "green",
            "for: serving-tensorflow (TensorFlow), serving-pytorch (PyTorch), vllm",
        ),
        (ended(image.LACKS), "red", "named for serving in serving_images, has no model server"),
        (ended(128, "StartError", NO_PROGRAM), "red", "has no model server"),
        (waiting("ImagePullBackOff", "not found", OWN), "red", f"{OWN}: not found"),
        (ended(137, "OOMKilled"), "unknown", "ended with 137"),
        (pod(FULL), "unknown", "0/3 nodes"),
    ],
)
def test_a_model_server_that_no_image_is_named_for_or_no_node_gets_is_told(seen, state, words):
    """Images of others are large, and nothing of Berth is in them: these are not tried."""
    made = []
    api = Api(
        statefulsets=lambda body: made.append(body) or Answer(200, {}),
        pods=seen,
        v1beta1=HAS_SERVICES,
        apis=lambda _body: Answer(200, HAS_KSERVE),
    )
    found = asked("models", api, serving_images={"serving": OWN, "triton": LAB})
    assert (found.state, words in found.text()) == (state, True), found.text()
    assert found.failed == (state == "unknown")
    (container,) = made[0]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == OWN


def test_the_probe_of_model_servers_says_by_its_end_that_ours_is_lacking(tmp_path):
    asked_of = [sys.executable, "-I", "-S", "-c", models.PROGRAM_THERE]
    assert subprocess.run(asked_of, check=False).returncode == image.LACKS
    package = tmp_path / "serving/programs"
    package.mkdir(parents=True)
    (tmp_path / "serving/__init__.py").touch()
    (package / "__init__.py").touch()
    asked_of = [sys.executable, "-S", "-c", models.PROGRAM_THERE]
    assert subprocess.run(asked_of, cwd=tmp_path, check=False).returncode == 0


def test_the_probe_of_ports_says_by_its_end_that_packages_are_lacking():
    lacking = [sys.executable, "-I", "-S", "-c", image.GUARD]
    assert subprocess.run(lacking, check=False).returncode == image.LACKS


def test_without_an_image_before_ports_it_is_said_what_to_set():
    api = Api()
    found = asked("ports", api)
    assert (found.state, found.failed, api.asked) == ("unknown", False, [])
    assert "sidecar_image" in found.text()
    assert "image.notebook" in found.fix


def event(kind, reason, message, level="Warning"):
    name = "writer-0" if kind == "Pod" else "CLAIM"
    about = {"kind": kind, "name": name}
    return {"involvedObject": about, "type": level, "reason": reason, "message": message}


NO_PROVISIONER = event(
    "PersistentVolumeClaim", "ExternalProvisioning", "verify that it is running", "Normal"
)
PROVISIONING = event("PersistentVolumeClaim", "Provisioning", "is provisioning", "Normal")
REFUSES = event("PersistentVolumeClaim", "ProvisioningFailed", "quota of the pool")
UNMOUNTED = event("Pod", "FailedMount", "no such directory")
CROWDED = event("Pod", "FailedScheduling", "0/3 nodes")
CLAIM_OF = {"spec": {"storageClassName": "standard"}}


class Storage(Api):
    """Tells events of the claim under the name that the check gave it."""

    def __init__(self, pod, events=(), phase="Pending", **more):
        super().__init__(**more, pods=pod)
        self.events, self.phase, self.claim = events, phase, ""

    def ask(self, method, path, body=None, params=None):
        if "persistentvolumeclaims" in path:
            self.claim = path.rpartition("/")[2]
            return Answer(200, {**CLAIM_OF, "status": {"phase": self.phase}})
        if path.endswith("/events"):
            told = [self._named(event) for event in self.events]
            return Answer(200, {"items": told})
        return super().ask(method, path, body, params)

    def _named(self, event):
        name = event["involvedObject"]["name"].replace("CLAIM", self.claim)
        return event | {"involvedObject": event["involvedObject"] | {"name": name}}


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["storageclass", "nfs", "directory"])
@pytest.mark.parametrize(
    ("api", "state", "words"),
    [
        (Storage(ended(0)), "green", "A pod wrote"),
        (Storage(ended(10)), "red", "can't write"),
        (Storage(ended(1)), "unknown", "ended with 1"),
        (Storage(ended(137, "OOMKilled")), "unknown", "ended with 137"),
        (Storage(pod(FULL), [REFUSES]), "red", "quota of the pool"),
        (Storage(pod({}), [NO_PROVISIONER]), "red", "verify that it is running"),
        (Storage(pod(PLACED), [UNMOUNTED], "Bound"), "red", "no such directory"),
        # the image's check tells of the image, with what helps there
        (Storage(waiting("ImagePullBackOff", "not found")), "unknown", "not found"),
        # slow, or there is no room, and the volume is well as far as anybody says
        (Storage(pod(FULL), [CROWDED]), "unknown", "0/3 nodes"),
        (Storage(pod(FULL), [REFUSES, CROWDED], "Bound"), "unknown", "0/3 nodes"),
        (Storage(pod({}), [NO_PROVISIONER, PROVISIONING]), "unknown", "no pod within"),
        (Storage(pod(PULLING), [UNMOUNTED], "Bound"), "unknown", "unready status"),
        (Storage(REFUSED), "unknown", "pods is forbidden"),
    ],
)
def test_only_what_is_said_of_a_volume_is_its_fault(kind, api, state, words):
    found = asked("storage", api, volume_kind=kind, storage_class="fast")
    assert (found.state, words in found.text()) == (state, True), found.text()
    assert found.failed == (state == "unknown")


@pytest.mark.django_db
def test_e11_what_a_killed_check_left_goes_with_its_volume():
    """Its volume was asked for by the name by which it is removed."""
    api = Storage(ended(0))
    begun = bench(api, check_image="registry.example/python3:1")
    storage.act(subject(api, check_image="registry.example/python3:1"), begun)
    volume = f"/api/v1/persistentvolumes/berth-check-{begun.mark}"
    assert ("APPLY", volume) in api.asked
    meta = {"name": "berth-check-x-a", "labels": {MARK: begun.mark}}
    old = meta | {"creationTimestamp": "2026-01-01T00:00:00Z"}
    young = meta | {"creationTimestamp": now().isoformat()}
    left = Api(namespaces=Answer(200, {"items": [{"metadata": old}, {"metadata": young}]}))
    bench(left).sweep()
    deleted = [path for method, path in left.asked if method == "DELETE"]
    assert deleted == [volume, "/api/v1/namespaces/berth-check-x-a"]


UNMAPPED = (
    "failed to create shim task: OCI runtime create failed: failed to set MOUNT_ATTR_IDMAP on"
    " /var/lib/kubelet/pods/x/volumes/y: invalid argument (maybe the filesystem used doesn't"
    " support idmap mounts on this kernel?)"
)


@pytest.mark.django_db
@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(
    "seen", [ended(128, "StartError", UNMAPPED), waiting("RunContainerError", UNMAPPED)]
)
def test_a_volume_that_pods_with_users_of_their_own_can_not_have_is_its_fault(seen, on):
    found = asked("storage", Storage(seen), volume_kind="directory", user_namespaces=on)
    told = (found.state, "doesn't support idmap mounts" in found.text(), "nfs" in found.fix)
    assert told == ("red", True, True) if on else found.state != "red"


@pytest.mark.django_db
@pytest.mark.parametrize("on", [True, False])
def test_the_probing_pods_have_users_of_their_own_where_workloads_do(on):
    made = []
    api = Storage(ended(0), statefulsets=lambda body: made.append(body) or Answer(200, {}))
    found = asked("storage", api, volume_kind="directory", user_namespaces=on)
    assert found.state == "green"
    assert [one["spec"]["template"]["spec"].get("hostUsers") for one in made] == (
        [False] if on else [None]
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (Answer(404, {}), "red", "There is no storage class “fast”"),
        (Answer(403, {"message": "may not"}), "green", "made as homes are."),
        (Answer(200, {"allowVolumeExpansion": False}), "green", "allowVolumeExpansion"),
    ],
)
def test_a_class_that_may_not_be_read_is_tried_all_the_same(answer, state, words):
    api = Api(storageclasses=answer, pods=ended(0))
    found = asked("storage", api, volume_kind="storageclass", storage_class="fast")
    assert (found.state, words in found.text()) == (state, True), found.text()
    assert ("can't be made larger" in found.text()) == (answer.status == 200)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("claim", "class_", "state", "words"),
    [
        (Answer(200, CLAIM_OF), {"allowVolumeExpansion": True}, "green", "made as homes are."),
        (Answer(200, CLAIM_OF), {}, "green", "“standard” does not allow it"),
        (Answer(200, {"spec": {}}), {}, "red", "no default storage class"),
        (
            lambda body: Answer(200 if body else 403, {"message": "may not be read"}),
            {},
            "green",
            "made as homes are.",
        ),
    ],
)
def test_a_class_that_is_not_named_is_the_one_that_the_cluster_takes(claim, class_, state, words):
    api = Api(persistentvolumeclaims=claim, storageclasses=Answer(200, class_), pods=ended(0))
    found = asked("storage", api, volume_kind="storageclass")
    assert (found.state, words in found.text()) == (state, True), found.text()
    assert ("cluster.storage.className" in found.text()) == (state == "red")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"volume_kind": "directory", "volume_path": "/mnt/all"}, ("/mnt/all", "a program of")),
        (
            {"volume_kind": "storageclass", "volume_access_mode": "ReadWriteOnce"},
            ("ReadWriteOnce",),
        ),
        ({"volume_kind": "nfs"}, ("mount the export",)),
    ],
)
def test_a_volume_that_can_not_be_used_says_what_to_set_and_where(options, told):
    api = Storage(pod(PLACED), [UNMOUNTED], "Bound")
    text = asked("storage", api, **options).text()
    for words in ("no such directory", "Settings → Storage", "cluster.storage", *told):
        assert words in text, text


@pytest.mark.django_db
def test_of_an_export_the_top_is_tried_and_left_as_it_was():
    """The folder of a volume is made by a Job in another namespace; nothing of that is here yet."""
    made = []
    api = Storage(ended(0), persistentvolumes=lambda body: made.append(body) or Answer(200, {}))
    options = {"volume_kind": "nfs", "nfs_server": "nfs.example", "nfs_export": "/vols"}
    options |= {"check_image": "registry.example/python3:1"}
    one = subject(api, **options)
    one.cluster.options = options
    assert storage.act(one, bench(api, **options)).state == "green"
    (volume,) = [body for body in made if body]
    assert volume["spec"]["nfs"] == {"server": "nfs.example", "path": "/vols"}
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_the_writer_leaves_nothing_behind(tmp_path):
    (tmp_path / "probe").write_text("of others")
    script = storage.WRITER.replace("/data", str(tmp_path))
    subprocess.run([sys.executable, "-c", script], env=os.environ, check=True)
    assert [one.name for one in tmp_path.iterdir()] == ["probe"]
    assert (tmp_path / "probe").read_text() == "of others"


def test_the_writer_says_by_its_end_that_it_may_not_write(tmp_path):
    """Its own code, so that nothing else that ends a pod is taken for it."""
    script = storage.WRITER.replace("/data", str(tmp_path / "data"))
    written = [sys.executable, "-c", script]
    assert subprocess.run(written, env=os.environ, check=False).returncode == storage.DENIED
    (tmp_path / "data").mkdir()
    assert subprocess.run(written, env=os.environ, check=False).returncode == 0


def test_the_image_that_copies_data_is_enough_for_the_self_check():
    """A chart names it always, so that the network can be proved and work may start."""
    assert bench(Api(), data_image="registry.example/server:1").image == "registry.example/server:1"


def test_without_an_image_nothing_is_said_of_images():
    api = Api()
    assert image.act(subject(api), bench(api)).state == "unknown"
    assert api.asked == []
