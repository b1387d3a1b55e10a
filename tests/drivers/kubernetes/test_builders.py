"""What is asked of a cluster, word for word."""

import base64
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import volume, workload
from runtime.drivers.kubernetes.notices import at_the_end
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.spec import Brought, Mount, Network, Placement, Probe, Resources, Sidecar, WorkloadSpec
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.pieces import built

PROJECT = "0b7c8a52-3f5e-4a55-9a5e-0f6a9f7f3c11"
OWNER = "5a4f1c0e-8d7b-4c56-8a4e-2d4f6f1e9b02"
UID = "9d2c7b11-64a0-4b7e-9d0f-7a1b2c3d4e5f"
HOME = "1f2e3d4c-5b6a-4978-8a6b-5c4d3e2f1a0b"
OPTIONS = KubernetesOptions()


def spec(**options) -> WorkloadSpec:
    defaults = {
        "uid": UID,
        "kind": "workspace",
        "name": "k7mn2p",
        "launch": 3,
        "generation": 7,
        "project": PROJECT,
        "owner": OWNER,
        "environment": "",
        "namespace": "berth-demo-0b7c8a52",
        "image": "registry.example/berth/jupyterlab@sha256:" + "a" * 64,
        "command": ("jupyterhub-singleuser", "--port={port}"),
        "env": {"COLOUR": "blue"},
        "resources": Resources(cpu_milli=2500, memory_mib=4096),
        "mounts": (Mount(HOME, "home"),),
        "probe": Probe("/user/k7mn2p/api"),
    }
    return WorkloadSpec(**{**defaults, **options})


def container(made: dict) -> dict:
    return made["spec"]["template"]["spec"]["containers"][0]


def test_a_notebook():
    given = spec(
        secret_env=lambda: {"JUPYTERHUB_API_TOKEN": "t0ken"},
        mounts=(Mount(HOME, "home"), Mount("data-1", name="shared")),
        links_volumes=True,
    )
    secrets = workload.secrets(given, OPTIONS, given.secret_env())
    check("notebook", *secrets, built(given, OPTIONS))


def test_a_gpu_container_with_everything():
    given = spec(
        command=("python", "-c", "print('$(HOME)')"),
        args=("--listen", "{port}"),
        probe=None,
        ports=(7860, 6006),
        resources=Resources(cpu_milli=8000, memory_mib=65536, gpus=2),
        shm_mib=8192,
        mounts=(Mount(HOME, "home"), Mount("data-1", name="sets", read_only=True)),
        placement=Placement(
            node_labels={"berth.dev/pool": "shared"},
            any_of=(
                {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
                {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
            ),
            tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
            avoid={"berth.dev/reserved": ("distributed", "project-x")},
        ),
        network=Network(
            attachments=("net-a/rail0", "net-a/rail1"),
            resources={"nvidia.com/mlnx_sriov_rdma": 2},
            env={"NCCL_IB_HCA": "mlx5"},
        ),
        sidecars=(
            Sidecar(
                name="port-7860",
                image="registry.example/berth/jupyterlab:6.1",
                command=("jupyter-standaloneproxy", "--port", "{port}"),
                port=8889,
                env={"JUPYTERHUB_BASE_URL": "/"},
                secret_env=lambda: {"JUPYTERHUB_API_TOKEN": "other"},
                probe=Probe("/ready"),
            ),
        ),
    )
    options = KubernetesOptions(queue="default", user_namespaces=True, extra={"team": "ml infra"})
    check("container", *workload.secrets(given, options, {}), built(given, options))


def test_a_home_in_a_directory():
    given = {"project": PROJECT, "owner": OWNER}
    check(
        "volume-directory",
        volume.volume(HOME, "berth-demo-0b7c8a52", OPTIONS, **given),
        volume.claim(HOME, "berth-demo-0b7c8a52", OPTIONS, **given),
    )


def test_a_home_of_a_storage_class():
    options = KubernetesOptions(volume_kind="storageclass", storage_class="fast")
    check("volume-class", volume.claim(HOME, "ns", options, project=PROJECT, owner=""))


# --- ~/volumes --------------------------------------------------------------------------------


def test_without_volumes_besides_the_home_no_link_is_made():
    given = spec(links_volumes=True)
    assert "postStart" not in container(built(given, OPTIONS))["lifecycle"]


def test_a_container_of_any_image_needs_no_shell_to_begin():
    given = spec(mounts=(Mount(HOME, "home"), Mount("data-1", name="shared")))
    assert list(container(built(given, OPTIONS))["lifecycle"]) == ["preStop"]


def test_g13_the_folder_of_checkpoints_is_made_in_its_volume_before_the_program():
    asked = {"once": True, "probe": None, "shm_mib": 64, "checkpoints": "shared/runs/k7"}
    given = spec(**asked, mounts=(Mount("data-1", name="shared"),))
    pod = built(given, replace(OPTIONS, data_image="registry.example/data"))["spec"]["template"]
    (first,) = pod["spec"]["initContainers"]
    assert first["image"] == "registry.example/data"
    assert first["command"][-2:] == [f"{names.VOLUMES}/shared/runs/k7", "0"]
    assert first["volumeMounts"] == [{"mountPath": f"{names.VOLUMES}/shared", "name": "v0"}]
    assert {"cpu", "memory"} <= first["resources"]["requests"].keys()  # or a queue lets none in
    told = workload.environment(given, {})
    assert told["BERTH_CHECKPOINT_LATEST"] == f"{told['BERTH_CHECKPOINTS']}/.latest"
    assert "initContainers" not in built(given, OPTIONS)["spec"]["template"]["spec"]
    assert "BERTH_CHECKPOINTS" not in workload.environment(spec(once=True), {})


def test_the_folder_of_what_a_program_leaves_is_made_before_it_starts():
    asked = {"once": True, "probe": None, "shm_mib": 64, "output": "shared/job-outputs/k7/1"}
    given = spec(**asked, mounts=(Mount("data-1", name="shared"),))
    pod = built(given, replace(OPTIONS, data_image="registry.example/data"))["spec"]["template"]
    (first,) = pod["spec"]["initContainers"]
    folder = f"{names.VOLUMES}/shared/job-outputs/k7/1"
    assert first["command"][-3:] == ["", "0", folder]  # no checkpoints
    assert workload.environment(given, {})["BERTH_OUTPUT"] == folder
    assert "BERTH_OUTPUT" not in workload.environment(spec(once=True), {})


def test_code_is_brought_into_a_folder_that_its_program_begins_in_without_the_key_to_it():
    code = Brought(("python3", "-c", "text", "sha"), {"BERTH_CODE_URL": "http://h/c"}, "KEY")
    asked = {"once": True, "probe": None, "checkpoints": "shared/k7", "code": code}
    given = spec(**asked, env={"PYTHONPATH": "/mine"}, mounts=(Mount("data-1", name="shared"),))
    pod = built(given, replace(OPTIONS, data_image="registry.example/data"))["spec"]["template"]
    first, brings = pod["spec"]["initContainers"]
    (main,) = pod["spec"]["containers"]
    assert [one["name"] for one in first["volumeMounts"]] == ["v0"]
    assert brings["command"] == ["python3", "-c", "text", "sha", names.CODE]
    assert brings["volumeMounts"] == [{"mountPath": names.CODE, "name": "code"}]
    key = {"key": "KEY", "name": names.workload(given.name, given.uid)}
    assert {"name": "KEY", "valueFrom": {"secretKeyRef": key}} in brings["env"]
    assert (main["workingDir"], {"name": "KEY", "value": ""} in main["env"]) == (names.CODE, True)
    assert {"emptyDir": {}, "name": "code"} in pod["spec"]["volumes"]
    told = workload.environment(given, {})
    assert (told["BERTH_CODE"], told["PYTHONPATH"]) == (names.CODE, f"{names.CODE}:/mine")


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_at_the_end_of_a_pod_its_program_can_read_until_when_and_its_owners_hook_runs(
    shell, tmp_path
):
    if not (program := shutil.which(shell)):
        pytest.skip(f"no {shell} here")
    words = [program, "sh"] if shell == "busybox" else [program]
    hook, told = tmp_path / ".berth/on-park", tmp_path / "notice.json"
    env = {"HOME": str(tmp_path), "BERTH_NOTICE_FILE": str(told), "PATH": os.environ["PATH"]}
    script = at_the_end(40).replace("/proc/1/fd/1", str(tmp_path / "log"))

    def end() -> None:
        subprocess.run([*words, "-c", script], env=env, check=True, timeout=15)

    end()  # there is no hook
    said = json.loads(told.read_text())
    left = datetime.fromisoformat(said["until"]) - datetime.now(UTC)
    assert said["why"] == "ending"
    assert 20 < left.total_seconds() <= 40
    told.write_text('{"why": "parked"}')  # by Berth, before
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nsleep 0.5; cat $BERTH_NOTICE_FILE\n")
    hook.chmod(0o755)
    end()
    assert (tmp_path / "log").read_text() == '{"why": "parked"}'


def test_a_secret_file_is_copied_to_where_its_program_looks(tmp_path):
    secrets, there = tmp_path / "secrets", tmp_path / "lab/@berth/notices"
    secrets.mkdir()
    (secrets / "lab-package.json").write_text("{}")
    unpacked = {"lab-package.json": f"{there}/package.json", "gone": f"{there}/gone"}
    made = container(built(spec(unpacked=unpacked), OPTIONS))
    *shell, script = made["lifecycle"]["postStart"]["exec"]["command"]
    script = script.replace(names.SECRETS, str(secrets))
    for _ in range(2):
        subprocess.run([*shell, script], check=True, timeout=60)  # what is missing fails nothing
    assert [(one.name, one.is_symlink()) for one in there.iterdir()] == [("package.json", False)]


@pytest.fixture
def linked(tmp_path):
    """Run the hook of a notebook as its node would, with folders of the test's own."""
    home, volumes = tmp_path / "home", tmp_path / "data"
    home.mkdir()
    (volumes / "shared").mkdir(parents=True)
    mounts = (Mount(HOME, "home"), Mount("data-1", name="shared"))
    made = container(built(spec(mounts=mounts, links_volumes=True), OPTIONS))
    *shell, script = made["lifecycle"]["postStart"]["exec"]["command"]
    script = script.replace(names.HOME, str(home)).replace(f" {names.VOLUMES} ", f" {volumes} ")

    def run():
        subprocess.run([*shell, script], check=True, timeout=60)
        return home / "volumes"

    return run


def test_the_link_leads_to_the_volumes_however_often_it_is_made(linked):
    for _ in range(2):
        assert [entry.name for entry in linked().iterdir()] == ["shared"]


def test_a_link_that_a_home_brought_from_elsewhere_is_turned(linked, tmp_path):
    (tmp_path / "home/volumes").symlink_to("/no/such/place")
    assert (linked() / "shared").is_dir()


def test_what_somebody_keeps_under_that_name_stays(linked, tmp_path):
    own = tmp_path / "home/volumes"
    own.mkdir()
    (own / "mine").touch()
    assert [entry.name for entry in linked().iterdir()] == ["mine"]
    (own / "mine").unlink()
    own.rmdir()
    own.symlink_to(tmp_path)  # to somewhere that is there
    assert linked().readlink() == tmp_path
    own.unlink()
    own.write_text("a file")
    assert linked().read_text() == "a file"


def test_a_home_that_takes_no_link_starts_all_the_same(linked, tmp_path):
    (tmp_path / "home").rmdir()
    assert not linked().exists()


# --- what a tenant can never have ---------------------------------------------------------------


def test_c3_nothing_privileged_can_be_said():
    made = json.dumps(built(spec(command=("sh", "-c", "privileged: true")), OPTIONS)["spec"])
    for word in ("hostNetwork", "hostPID", "hostIPC", "hostPath", "runtimeClassName", "sysctls"):
        assert word not in made
    for given in (spec(), spec(resources=Resources(gpus=1))):
        pod = built(given, OPTIONS)["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for one in pod["containers"]:
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_c4_a_pod_without_gpus_sees_none_whatever_is_asked():
    given = spec(env={"NVIDIA_VISIBLE_DEVICES": "all"})
    secret = workload.secrets(given, OPTIONS, {"NVIDIA_VISIBLE_DEVICES": "all"})[0]
    assert base64.b64decode(secret["data"]["NVIDIA_VISIBLE_DEVICES"]) == b"void"


def test_c4_what_reaches_into_the_node_is_left_out():
    given = spec(
        env={
            "LD_PRELOAD": "/home/x.so",
            "NVIDIA_DRIVER_CAPABILITIES": "all",
            "LD_LIBRARY_PATH": "/l",
        },
        resources=Resources(gpus=1),
    )
    data = workload.secrets(given, OPTIONS, {})[0]["data"]
    told = {name: base64.b64decode(value).decode() for name, value in data.items()}
    assert told == {
        "BERTH_NOTICE_FILE": "/dev/shm/berth-notice.json",
        "HOME": "/home/berth",
        "LD_LIBRARY_PATH": "/l",
        "LD_AUDIT": "",  # also what the image itself sets
        "LD_PRELOAD": "",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }


def test_what_a_person_typed_as_environment_stands_in_the_secret_only():
    given = spec(env={"PASSWORD": "hunter2"})
    assert "hunter2" not in json.dumps(built(given, OPTIONS))
    assert "PASSWORD" not in json.dumps(built(given, OPTIONS))


def test_a_secret_is_not_a_template():
    given = spec(env={"ADDRESS": "http://0.0.0.0:{port}/"})
    told = workload.environment(given, {"PASSWORD": "a{port}b{secrets}c"})
    assert told["PASSWORD"] == "a{port}b{secrets}c"
    assert told["ADDRESS"] == "http://0.0.0.0:8888/"


def test_a_dollar_sign_in_a_command_is_meant_as_it_stands():
    made = built(spec(command=("echo", "$(HOME)", "$HOME")), OPTIONS)
    assert container(made)["command"] == ["echo", "$$(HOME)", "$HOME"]
    words = ("$$", "kill $$; $$$(x) $$(y)", "a$", "$$$", "$($(z))", "${x}$$y")
    made = built(spec(command=words), OPTIONS)
    assert tuple(map(expanded, container(made)["command"])) == words


def expanded(word: str) -> str:
    """What a kubelet makes of it, where every variable is known."""
    return re.sub(r"\$(?:\$|\([^)]*\))", lambda found: "$" if found[0] == "$$" else "!", word)


def test_nothing_is_put_into_the_words_of_a_person():
    said = ("sh", "-c", "port=5; echo ${port} ${secrets}")
    for verbatim, wanted in ((True, said[2]), (False, "port=5; echo $8888 $" + names.SECRETS)):
        given = spec(command=said, args=said, env={"SAID": said[2]}, verbatim=verbatim)
        main = container(built(given, OPTIONS))
        assert (main["command"][2], main["args"][2]) == (wanted, wanted)
        assert workload.environment(given, {})["SAID"] == wanted


# --- placement ------------------------------------------------------------------------------------


def test_gpu_work_uses_the_packing_scheduler_where_there_is_one():
    given = spec(resources=Resources(gpus=1))
    pod = built(given, KubernetesOptions(scheduler="gpu-binpack"))["spec"]
    assert pod["template"]["spec"]["schedulerName"] == "gpu-binpack"
    assert "affinity" not in pod["template"]["spec"]


def test_other_work_never_does():
    pod = built(spec(), KubernetesOptions(scheduler="gpu-binpack"))["spec"]
    assert "schedulerName" not in pod["template"]["spec"]
    assert names.GPU not in pod["template"]["metadata"]["labels"]


def test_reserved_nodes_are_kept_off_also_when_any_kind_will_do():
    given = spec(placement=Placement(avoid={"berth.dev/reserved": ("x",)}))
    pod = built(given, OPTIONS)["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "berth.dev/reserved", "operator": "NotIn", "values": ["x"]}]}
    ]


def test_c9_an_image_stays_on_machines_that_it_is_made_for():
    """By itself, and in each of several terms."""
    alone = spec(placement=Placement(architectures=("arm64", "amd64")))
    kinds = ({"gpu": "h100"}, {"gpu": "a100"})
    placement = Placement(any_of=kinds, architectures=("amd64",), avoid={"pool": ("x",)})
    gpus = spec(resources=Resources(gpus=1), placement=placement)
    check("machines", *(built(given, OPTIONS) for given in (alone, gpus)))


@pytest.mark.parametrize(("milli", "text"), [(1000, "1"), (2500, "2500m"), (500, "500m")])
def test_cpu_is_written_as_the_api_server_writes_it(milli, text):
    made = container(built(spec(resources=Resources(cpu_milli=milli)), OPTIONS))
    assert made["resources"]["requests"]["cpu"] == text


def test_a_probe_without_a_path_asks_for_an_open_port():
    made = container(built(spec(probe=Probe("")), OPTIONS))
    assert made["startupProbe"]["tcpSocket"] == {"port": 8888}
    assert "httpGet" not in made["startupProbe"]


def test_processors_may_be_promised_several_times_memory_never():
    options = KubernetesOptions(cpu_overcommit=10)
    made = container(built(spec(resources=Resources(1000, 512)), options))
    asked, most = made["resources"]["requests"], made["resources"]["limits"]
    assert (asked["cpu"], most["cpu"]) == ("100m", "1")
    assert asked["memory"] == most["memory"] == "512Mi"


def test_another_kind_of_accelerator_is_only_a_name():
    given = spec(resources=Resources(gpus=4), placement=Placement(resource="amd.com/gpu"))
    limits = container(built(given, OPTIONS))["resources"]["limits"]
    assert limits["amd.com/gpu"] == "4"
    assert "nvidia.com/gpu" not in limits


def test_a3_an_order_of_kinds_becomes_weights_that_fall_by_a_factor():
    kinds = tuple({"gpu": name} for name in ("h100", "a100-80", "a100-40", "t4"))
    asked = Resources(gpus=1)
    placement = Placement(any_of=kinds, ranks=(0, 1, 2, 3))
    made = built(spec(resources=asked, placement=placement), OPTIONS)
    made = made["spec"]["template"]["spec"]
    affinity = made["affinity"]["nodeAffinity"]
    liked = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    told = [(p["weight"], p["preference"]["matchExpressions"][0]["values"]) for p in liked]
    assert told == [(100, ["h100"]), (10, ["a100-80"]), (1, ["a100-40"])]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert len(required["nodeSelectorTerms"]) == 4
    assert "podAffinity" not in made["affinity"]  # it would outweigh the order


def test_a3_without_an_order_nothing_is_preferred():
    kinds, asked = ({"gpu": "h100"}, {"gpu": "t4"}), Resources(gpus=1)
    for ranks in ((), (0, 0)):
        placement = Placement(any_of=kinds, ranks=ranks)
        made = built(spec(resources=asked, placement=placement), OPTIONS)
        made = made["spec"]["template"]["spec"]
        assert set(made["affinity"]["nodeAffinity"]) == {
            "requiredDuringSchedulingIgnoredDuringExecution"
        }
        assert "podAffinity" in made["affinity"]


NEAR = ({"berth.dev/pool": "east"}, {"berth.dev/pool": "west", "rack": "7"})


def test_g7_work_near_its_data():
    """Drawn to the nodes of two pools, kept off none; beside GPU work it counts the same."""
    plain = spec(placement=Placement(near=NEAR))
    kinds = ({"gpu": "h100"}, {"gpu": "a100"}, {"gpu": "t4"})
    gpus = spec(resources=Resources(gpus=1), placement=Placement(any_of=kinds, near=NEAR[:1]))
    check("near", built(plain, OPTIONS), built(gpus, OPTIONS))


def test_g7_an_order_of_kinds_goes_before_being_near():
    kinds = ({"gpu": "h100"}, {"gpu": "a100"}, {"gpu": "t4"})
    placement = Placement(any_of=kinds, ranks=(0, 1, 2), near=NEAR)
    made = built(spec(resources=Resources(gpus=1), placement=placement), OPTIONS)
    affinity = made["spec"]["template"]["spec"]["affinity"]
    liked = affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [entry["weight"] for entry in liked] == [100, 1]  # of kinds alone
    assert "podAffinity" not in affinity
