"""MPI: an MPIJob whose launcher is one of the replicas, so that all are alike and counted alike.

The launcher runs ``mpirun``, which starts the program on each replica over ssh. The image brings
``mpirun``, ``ssh`` and ``sshd``; how they meet is said here, so it needs no set-up of its own: a
port that needs no right, keys that the operator makes, and the launcher's variables passed on.
"""

from typing import Any

from runtime import training
from runtime.drivers.kubernetes.shapes.operated import Operated, Roles
from runtime.spec import PodGroup

VERSION = "kubeflow.org/v2beta1"
_KEYS = "/tmp/berth-ssh"  # noqa: S108 - in a container of its own
_PORT = 2222
_SSH = (
    f"ssh -p {_PORT} -i {_KEYS}/id_rsa -oSendEnv=* -oStrictHostKeyChecking=no"
    " -oUserKnownHostsFile=/dev/null -oLogLevel=ERROR"
)
_OPTIONS = (
    *(f"-p {_PORT}", "-o PidFile=none", "-o StrictModes=no", "-o UsePAM=no"),
    *(f"-o AuthorizedKeysFile={_KEYS}/authorized_keys", "-o PasswordAuthentication=no"),
    *("-o AcceptEnv=*", "-h /tmp/berth-host-key", "-f /dev/null"),
)
# A key of the host lives as long as its pod; nobody outside of the job reaches the port.
_SERVE = (
    "ssh-keygen -q -t ed25519 -N '' -f /tmp/berth-host-key </dev/null && exec $(command -v sshd ||"
    f" echo /usr/sbin/sshd) -De {' '.join(_OPTIONS)}"
)


def _made(roles: Roles) -> list[dict[str, Any]]:
    spec = roles.spec
    slots = max(1, spec.resources.gpus)
    replicas = {
        name: {
            "replicas": group.replicas,
            "restartPolicy": "Never",
            "template": _pod(roles, group),
        }
        for name, group in zip(("Launcher", "Worker"), spec.groups, strict=False)
    }
    made = {
        "apiVersion": VERSION,
        "kind": "MPIJob",
        "metadata": dict(roles.meta),
        "spec": {
            "mpiImplementation": "OpenMPI",
            "mpiReplicaSpecs": replicas,
            "runLauncherAsWorker": True,
            "runPolicy": {
                "backoffLimit": max(0, spec.retry.attempts - 1),
                "cleanPodPolicy": "Running",
            },
            "slotsPerWorker": slots,
            "sshAuthMountPath": _KEYS,
        },
    }
    return [made]


def _pod(roles: Roles, group: PodGroup) -> dict[str, Any]:
    pod = roles.template(group)
    pod["spec"].pop("restartPolicy", None)  # said for the role
    container = pod["spec"]["containers"][0]
    agent = {"name": "OMPI_MCA_plm_rsh_agent", "value": _SSH}
    container["env"] = [*container.get("env", ()), agent]
    if group.role != training.LAUNCHER:
        container["command"], container["args"] = ["sh", "-c", _SERVE], []
    return pod


MPIJOB = Operated(
    VERSION,
    "mpijobs",
    "MPIJob",
    training.MPI_OPERATOR,
    _made,
    ("spec", "runPolicy", "suspend"),
)
