"""Running one short program of an image in a tenant's namespace, to learn what it says.

A Job that removes itself: nobody has to remember it. It is asked again and again until it has
ended; asking twice makes one Job. One that failed stays for ``KEPT_S`` and is the answer for so
long. No more than ``MOST`` run at once in a namespace, and fetch images. The pod is as locked as
any other there and has no network but what the namespace's policies give everybody.
"""

import re
from collections.abc import Mapping
from typing import Any

from runtime.capabilities.programs import Attempt, Program, Tried
from runtime.drivers.kubernetes import names, observe_job
from runtime.drivers.kubernetes.builders import pod_fields
from runtime.drivers.kubernetes.builders.workload import is_for_all
from runtime.drivers.kubernetes.client import KubeClient, Object, path_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied
from runtime.reasons import Reason

PROBE = f"{names.DOMAIN}/probe"
KIND = "image-check"
MOST = 5
KEPT_S, LONGEST_S = 300, 300  # a failed one is not tried again while it is kept
OUTPUT_MAX = 4096
_OK = 200
_NO_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_NOT_FOUND = 127  # what a program says of one that it looked for
_NEVER_BEGAN = frozenset(("StartError", "ContainerCannotRun"))


def step(client: KubeClient, options: KubernetesOptions, program: Program) -> Tried:
    """Begin, or look how far it is. Call again while it is RUNNING."""
    namespace, name = program.namespace, program.name
    job = client.get("batch/v1", "jobs", name, namespace)
    if job is None:
        # Who asks about a hundred images would have every node fetch them beside everybody's work.
        known = client.list("batch/v1", "jobs", namespace, selector=f"{names.KIND}={KIND}")
        if sum(not observe_job.is_finished(job) for job in known) >= MOST:
            message = f"{MOST} images are being looked into in this project."
            raise Denied(message, reason=Reason.QUOTA_DENIED)
        client.apply(build(options, program))
        return Tried(Attempt.RUNNING)
    pods = client.list("v1", "pods", namespace, selector=f"{PROBE}={name}")
    for pod in pods:
        found = _of(pod, program.command[0])
        if found.state is Attempt.DONE:
            path = path_of("v1", "pods", pod["metadata"]["name"], namespace) + "/log"
            answer = client.read(path, {"limitBytes": str(OUTPUT_MAX), "container": names.MAIN})
            output = answer.body.decode(errors="replace") if answer.status == _OK else ""
            return Tried(Attempt.DONE, output)
        if found.state is Attempt.ABSENT:
            client.delete("batch/v1", "jobs", name, namespace)
        if found.state is not Attempt.RUNNING:
            return found
    over = {
        c["type"]: c for c in job.get("status", {}).get("conditions", []) if c["status"] == "True"
    }
    if not pods and ("Complete" in over or "Failed" in over):
        return Tried(Attempt.FAILED, str(over.get("Failed", {}).get("message", ""))[:300])
    return Tried(Attempt.RUNNING)


def build(options: KubernetesOptions, program: Program) -> Object:
    """Return the Job. Pure."""
    queued = {names.QUEUE: options.queue} if options.queue else {}
    marks = names.marks(options.namespace_prefix, options.installation)
    labels = {**marks, PROBE: program.name, names.KIND: KIND, **queued}
    container = {
        "image": program.image,
        # As for work: who asks whether an image is there must not be shown another project's.
        "imagePullPolicy": "IfNotPresent" if is_for_all(program.image, options) else "Always",
        "command": [word.replace("$(", "$$(") for word in program.command],
        "env": pod_fields.named({"HOME": "/tmp", **pod_fields.NONE}),  # noqa: S108 - inside the image
        "resources": {
            "limits": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "1Gi"},
            "requests": {"cpu": "50m", "memory": "64Mi"},
        },
    }
    return pod_fields.short_job(
        {"name": program.name, "namespace": program.namespace, "labels": labels},
        container,
        options.run_as_user,
        longest_s=LONGEST_S,
        kept_s=KEPT_S,
        imagePullSecrets=[{"name": names.REGISTRIES}],
        terminationGracePeriodSeconds=1,
        **pod_fields.nodes(program.placement, options),
    )


def _of(pod: Mapping[str, Any], program: str) -> Tried:
    for container in pod.get("status", {}).get("containerStatuses", []):
        state = container.get("state", {})
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in _NO_PULL:
            return Tried(Attempt.FAILED, str(waiting.get("message", ""))[:300])
        if ended := state.get("terminated"):
            code, text = int(ended.get("exitCode", 1)), str(ended.get("message", ""))
            if code == 0:
                return Tried(Attempt.DONE)
            began = ended.get("reason") not in _NEVER_BEGAN
            if (began and code == _NOT_FOUND) or (not began and lacks(text, program)):
                return Tried(Attempt.ABSENT)
            return Tried(Attempt.FAILED, text[:300])
    return Tried(Attempt.RUNNING)


def lacks(text: str, program: str) -> bool:
    """Whether a container runtime says that just this program is not there.

    Of a node's own trouble (a hook, a socket, a mount) it says "no such file" too.
    """
    name = rf"[\"'`]?(?:[^\s\"'`:]*/)?{re.escape(program)}[\"'`]?"
    found = rf"\b(?:exec:?|executable(?: file)?) {name}[: ].*(?:not found|no such file)"
    return re.search(found, text, re.IGNORECASE | re.DOTALL) is not None
