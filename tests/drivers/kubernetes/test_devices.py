"""Which devices the containers see that Berth makes, whatever their image says (C4)."""

import base64

import pytest

from clusters.checks.base import Answer
from clusters.checks.probe_runner import Bench, Needs
from clusters.options import ClusterOptions
from runtime.capabilities.programs import Program
from runtime.drivers.kubernetes import measuring, nfs, oneshot
from runtime.drivers.kubernetes.builders import workload
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.spec import Backing, Placement, Resources, Sidecar
from tests.drivers.kubernetes.pieces import built
from tests.drivers.kubernetes.test_builders import OPTIONS, spec

CUDA = "nvcr.io/nvidia/cuda:12.8.1-runtime-ubuntu24.04"  # says NVIDIA_VISIBLE_DEVICES=all
EVIL = {"NVIDIA_VISIBLE_DEVICES": "all", "LD_PRELOAD": "/x.so"}
NONE = {"LD_AUDIT": "", "LD_PRELOAD": "", "NVIDIA_VISIBLE_DEVICES": "void"}


def of_workload(**options):
    given = spec(image=CUDA, **options)
    return built(given, OPTIONS), workload.secrets(given, OPTIONS, {})


def with_sidecars(**options):
    """A helper of an image of CUDA's, whose own settings say what they like."""
    said = Sidecar("port-7860", CUDA, ("p",), 8889, EVIL, lambda: EVIL)
    return of_workload(sidecars=(said,), **options)


def of_measuring():
    return measuring.job("v", "ns", KubernetesOptions(data_image=CUDA), Placement()), []


def of_folders():
    on = Backing("nfs", {"server": "10.0.0.9", "export": "/e"})
    return nfs.job(nfs.MAKE, "v", on, KubernetesOptions(default_image=CUDA)), []


def of_looking_into_an_image():
    return oneshot.build(OPTIONS, Program("ns", "n", CUDA, ["x"], Placement())), []


def of_the_self_check():
    asked = []

    class Asks:
        def ask(self, _method, _path, body=None, _params=None):
            asked.append(body)
            return Answer(200, {})

    Bench(Asks(), ClusterOptions()).start("ns", "c", "print()", env=EVIL, needs=Needs(image=CUDA))
    return asked[0], []


MADE = {
    "a workload": of_workload,
    "what runs to its end": lambda: of_workload(once=True),
    "a sign-in": with_sidecars,
    "a sign-in beside GPUs": lambda: with_sidecars(resources=Resources(gpus=2)),
    "measuring": of_measuring,
    "folders of an export": of_folders,
    "looking into an image": of_looking_into_an_image,
    "the self-check": of_the_self_check,
}


def told(container, secrets):
    """The container's environment as its node puts it together."""
    data = {one["metadata"]["name"]: one["data"] for one in secrets}
    found = {}
    for source in container.get("envFrom", ()):
        kept = data[source["secretRef"]["name"]]
        found |= {name: base64.b64decode(value).decode() for name, value in kept.items()}
    return found | {one["name"]: one.get("value") for one in container.get("env", ())}


@pytest.mark.parametrize("which", MADE)
def test_c4_a_container_without_gpus_sees_none_of_the_nodes(which):
    made, secrets = MADE[which]()
    pod = made["spec"]["template"]["spec"]
    all_of_it = [*pod["containers"], *pod.get("initContainers", ())]
    without = [one for one in all_of_it if not {"nvidia.com/gpu"} & set(one["resources"]["limits"])]
    assert without
    for one in without:
        seen = told(one, secrets)
        assert {name: seen.get(name) for name in NONE} == NONE


def test_c4_what_has_gpus_is_told_which_by_its_node_only():
    made, secrets = of_workload(resources=Resources(gpus=2))
    seen = told(made["spec"]["template"]["spec"]["containers"][0], secrets)
    assert "NVIDIA_VISIBLE_DEVICES" not in seen
    assert seen["LD_PRELOAD"] == seen["LD_AUDIT"] == ""
