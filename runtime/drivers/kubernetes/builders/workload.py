"""A workload's pod and Secrets, and the head of its objects, whatever its shape. Pure.

Nothing here can be privileged: every field is ours, and what a person typed only becomes an
image, a command, arguments, environment (in a Secret) and numbers (hostile cases C3, C4).
"""

import base64
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataplane import checkpoints
from runtime.drivers import mounts
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import pod_fields
from runtime.drivers.kubernetes.builders.pod_fields import gpu_labels, placing
from runtime.drivers.kubernetes.notices import at_the_end
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.mounts import placed
from runtime.spec import Mount, Probe, Sidecar, WorkloadSpec

_GROUP_READS = 0o440  # the node gives secret files to root and the pod's group
_NETWORKS = "k8s.v1.cni.cncf.io/networks"
# By whether it is required.
_TOGETHER = {
    True: "kueue.x-k8s.io/podset-required-topology",
    False: "kueue.x-k8s.io/podset-preferred-topology",
}
_EXPANDED = re.compile(r"\$\$+|\$(?=\()")
START_S = 900  # how long the node waits for the first answer before it starts the pod anew
# A link, and no mount below the home: the node would have to make folders in the home's storage,
# which may refuse its root user; and who empties his home does not empty what others share.
# What is there stays as it is, but for a link that leads nowhere here (the home came from
# elsewhere). It never fails: a full home must start.
_LINK = f'h={names.HOME}/volumes; [ -e "$h" ] || ln -sfn {names.VOLUMES} "$h" || true'
_CODE = {"mountPath": names.CODE, "name": "code"}
_SIDECAR = {
    "requests": {"cpu": "20m", "memory": "96Mi"},
    "limits": {"cpu": "500m", "memory": "256Mi"},
}


def template(
    spec: WorkloadSpec,
    options: KubernetesOptions,
    *,
    labels: Mapping[str, str],
    files: bool = False,
) -> dict[str, Any]:
    """Return the pod template of the workload's StatefulSet or Job.

    ``files``: names of its secret files.
    """
    annotations = {names.LAUNCH: str(spec.launch)}
    if spec.network.attachments:
        annotations[_NETWORKS] = ",".join(spec.network.attachments)
    if together := spec.placement.together:
        annotations[_TOGETHER[together.required]] = together.where
    name = names.workload(spec.name, spec.uid)
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [
            _main(spec, options, name, files=files),
            *(_sidecar(s, name) for s in spec.sidecars),
        ],
        "enableServiceLinks": False,
        "imagePullSecrets": [{"name": names.REGISTRIES}],
        "securityContext": pod_fields.as_user(options.run_as_user, owns_volumes=True),
        "terminationGracePeriodSeconds": grace(spec),
        **placing(spec, options),
    }
    if before := _before(spec, options):
        pod["initContainers"] = before
    if spec.once:
        pod["restartPolicy"] = "Never"
    if spec.is_group:
        pod["subdomain"] = name
    if options.user_namespaces:
        pod["hostUsers"] = False
    if volumes := _volumes(spec, name, files=files):
        pod["volumes"] = volumes
    meta = {"annotations": annotations, "labels": {**labels, **gpu_labels(spec)}}
    return {"metadata": meta, "spec": pod}


def _volumes(spec: WorkloadSpec, name: str, *, files: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": f"v{number}",
            "persistentVolumeClaim": {"claimName": names.claim(mount.volume_uid)},
        }
        for number, mount in enumerate(spec.mounts)
    ]
    if spec.shm_mib:
        memory = {"medium": "Memory", "sizeLimit": f"{spec.shm_mib}Mi"}
        found.append({"emptyDir": memory, "name": "shm"})
    if files:
        source = {"defaultMode": _GROUP_READS, "secretName": names.files_secret(name)}
        found.append({"name": "secrets", "secret": source})
    if spec.code is not None:
        found.append({"emptyDir": {}, "name": "code"})
    if spec.sealed:
        found.append({"emptyDir": {}, "name": "tmp"})
    return found


def grace(spec: WorkloadSpec) -> int:
    """The node's own is the longest: a sooner end is said with the deletion (``ending.hurry``)."""
    return max(1, math.ceil(max(spec.stop_grace_s, spec.asked_back_s)))


def port_of(spec: WorkloadSpec) -> int:
    """Where the workload itself listens."""
    return spec.port or names.PORT


def environment(spec: WorkloadSpec, secret: Mapping[str, str]) -> dict[str, str]:
    """Everything the main container is told, later ones win. Kept in a Secret."""
    ours = {"HOME": names.HOME} if any(m.role == "home" for m in spec.mounts) else {}
    ours |= pod_fields.GIVEN if spec.resources.gpus else pod_fields.NONE
    if any(m.role == "data" for m in spec.mounts):
        ours["BERTH_VOLUMES"] = names.VOLUMES
    ours["BERTH_NOTICE_FILE"] = names.NOTICE
    if spec.tells:
        ours["BERTH_EVENTS"] = names.EVENTS
    if folder := _checkpoints(spec):
        ours["BERTH_CHECKPOINTS"] = folder
        ours["BERTH_CHECKPOINT_LATEST"] = f"{folder}/{checkpoints.LATEST}"
    if spec.output:
        ours["BERTH_OUTPUT"] = _output(spec)
    if spec.code is not None:
        ours["BERTH_CODE"] = names.CODE
        ours["PYTHONPATH"] = ":".join(filter(None, [names.CODE, spec.env.get("PYTHONPATH")]))
    port = str(port_of(spec))
    asked = {
        key: value if spec.verbatim else placed(value, names.SECRETS).replace("{port}", port)
        for key, value in spec.env.items()
        if not pod_fields.is_refused(key)
    }
    # a secret is what it is: a password may hold any text
    return {**asked, **spec.network.env, **secret, **ours, **pod_fields.environment(spec)}


def _checkpoints(spec: WorkloadSpec) -> str:
    return f"{names.VOLUMES}/{spec.checkpoints}" if spec.checkpoints else ""


def _output(spec: WorkloadSpec) -> str:
    return f"{names.VOLUMES}/{spec.output}" if spec.output else ""


def _before(spec: WorkloadSpec, options: KubernetesOptions) -> list[dict[str, Any]]:
    """Return what runs before the main container: folders in its volumes, and its code."""
    if not options.data_image:
        return []
    found: list[dict[str, Any]] = []
    common: dict[str, Any] = {
        "image": options.data_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": _SIDECAR,
        "securityContext": pod_fields.LOCKED,
    }
    if spec.checkpoints or spec.output:
        text = Path(checkpoints.__file__).read_text()
        said = [_checkpoints(spec), str(spec.checkpoints_since), *filter(None, [_output(spec)])]
        mounted = [m for m in _mounts(spec, files=False) if m["name"] not in {"shm", "code"}]
        made: dict[str, Any] = {"command": ["python3", "-c", text, *said]}
        made |= {"env": pod_fields.named(pod_fields.NONE), "volumeMounts": mounted}
        found.append({"name": "checkpoints", **made, **common})
    if (code := spec.code) is not None:
        key = {"key": code.secret, "name": names.workload(spec.name, spec.uid)}
        env: list[Any] = pod_fields.named({**code.env, **pod_fields.NONE})
        env.append({"name": code.secret, "valueFrom": {"secretKeyRef": key}})
        made = {"command": [*code.command, names.CODE], "env": env}
        # Why it did not come is a sentence of ours, without the address of anything.
        made["terminationMessagePolicy"] = "FallbackToLogsOnError"
        found.append({"name": names.BRINGS, **made, "volumeMounts": [_CODE], **common})
    return found


def beside(sidecar: Sidecar) -> dict[str, str]:
    """Everything a helper is told; GPUs are the main container's. Kept in a Secret."""
    return {**sidecar.env, **sidecar.secret_env(), **pod_fields.NONE}


def _main(
    spec: WorkloadSpec, options: KubernetesOptions, name: str, *, files: bool
) -> dict[str, Any]:
    port = port_of(spec)
    found: dict[str, Any] = {
        "envFrom": [{"secretRef": {"name": name}}],
        "image": spec.image,
        # Asked at the registry each time: what another project pulled with its sign-in must not
        # start here from the node's store without one.
        "imagePullPolicy": "IfNotPresent" if is_for_all(spec.image, options) else "Always",
        "name": names.MAIN,
        "resources": _resources(spec, options),
        "securityContext": {
            **pod_fields.LOCKED,
            **({"readOnlyRootFilesystem": True} if spec.sealed else {}),
        },
        # Not the end of the log: the pod's status is seen by the whole project, logs by the owner.
        "terminationMessagePolicy": "File",
    }
    told = pod_fields.own_number(spec)
    if spec.code is not None:
        found["workingDir"] = names.CODE
        told.append({"name": spec.code.secret, "value": ""})
    if told:
        found["env"] = told
    if spec.command:
        found["command"] = [_said(word, spec) for word in spec.command]
    if spec.args:
        found["args"] = [_said(word, spec) for word in spec.args]
    listens = [port_of(spec)] if spec.probe is not None or spec.port else []
    wanted = dict.fromkeys([*listens, *spec.ports])
    if ports := [{"containerPort": p, "name": f"p{p}", "protocol": "TCP"} for p in wanted]:
        found["ports"] = ports
    if spec.probe is not None:
        found["startupProbe"] = _probe(spec.probe, port)
    if mounts := _mounts(spec, files=files):
        found["volumeMounts"] = mounts
    found["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", at_the_end(grace(spec))]}}}
    if first := _first(spec):
        # Beside the command and not before it: the runtime says itself when a program is not
        # there.
        found["lifecycle"]["postStart"] = {"exec": {"command": ["sh", "-c", first]}}
    return found


def _resources(spec: WorkloadSpec, options: KubernetesOptions) -> dict[str, Any]:
    # Requests equal limits, so that nobody slows another and nobody is thrown out first. Only
    # processors may be promised several times, where the operator says so.
    asked = {"cpu": cpu(spec.resources.cpu_milli), "memory": f"{spec.resources.memory_mib}Mi"}
    if spec.resources.gpus:
        asked[spec.placement.resource] = str(spec.resources.gpus)
    asked |= {key: str(count) for key, count in sorted(spec.network.resources.items())}
    requests, limits = dict(asked), dict(asked)
    requests["cpu"] = cpu(max(10, spec.resources.cpu_milli // max(1, options.cpu_overcommit)))
    if options.scratch_gib:
        # A limit alone would become a request too, which simulated and small nodes lack.
        requests["ephemeral-storage"] = "0"
        limits["ephemeral-storage"] = f"{options.scratch_gib}Gi"
    return {"limits": limits, "requests": requests}


def _first(spec: WorkloadSpec) -> str:
    """Return what the image's shell does when the container begins; it never fails."""
    found = []
    if spec.links_volumes and {"home", "data"} <= {mount.role for mount in spec.mounts}:
        found.append(_LINK)
    for name, path in spec.unpacked.items():  # copies: Jupyter gives out nothing that is a link
        folder = path.rpartition("/")[0]
        found.append(f"mkdir -p {folder} && cp {names.SECRETS}/{name} {path} || true")
    return "; ".join(found)


def is_for_all(image: str, options: KubernetesOptions) -> bool:
    """Whether it is one of the cluster's own images, which every project may have."""
    own = {_repository(one) for one in (options.default_image, options.data_image) if one}
    return _repository(image) in own


def _repository(image: str) -> str:
    """Without digest and tag; a colon before the last slash is a port's."""
    head, slash, last = image.partition("@")[0].rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _sidecar(sidecar: Sidecar, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "command": [_with_port(word, sidecar.port) for word in sidecar.command],
        "envFrom": [{"secretRef": {"name": names.sidecar_secret(name, sidecar.name)}}],
        "image": sidecar.image,
        "imagePullPolicy": "IfNotPresent",
        "name": sidecar.name,
        "ports": [{"containerPort": sidecar.port, "name": f"p{sidecar.port}", "protocol": "TCP"}],
        "resources": _SIDECAR,
        "securityContext": pod_fields.LOCKED,
    }
    if sidecar.probe is not None:
        found["startupProbe"] = _probe(sidecar.probe, sidecar.port)
    return found


def _probe(probe: Probe, port: int) -> dict[str, Any]:
    """Only until it first answers: a busy kernel must not make its pod look broken.

    Without a path a connection is enough.
    """
    asks: dict[str, Any] = (
        {"httpGet": {"path": probe.path, "port": port, "scheme": "HTTP"}}
        if probe.path
        else {"tcpSocket": {"port": port}}
    )
    return {**asks, "failureThreshold": START_S, "periodSeconds": 1, "timeoutSeconds": 2}


def cpu(milli: int) -> str:
    """The API server's own spelling, so that what comes back equals what was sent."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def _mounts(spec: WorkloadSpec, *, files: bool) -> list[dict[str, Any]]:
    """Each volume at its place. Nothing of a path is said by a person (C8)."""
    mounts.check(spec.mounts)
    found = [
        {
            "mountPath": where(mount),
            "name": f"v{number}",
            **({"readOnly": True} if mount.read_only else {}),
        }
        for number, mount in enumerate(spec.mounts)
    ]
    if spec.shm_mib:
        found.append({"mountPath": "/dev/shm", "name": "shm"})  # noqa: S108 - shared memory
    if files:
        found.append({"mountPath": names.SECRETS, "name": "secrets", "readOnly": True})
    if spec.sealed:
        found.append({"mountPath": "/tmp", "name": "tmp"})  # noqa: S108 - the pod's own
    return [*found, _CODE] if spec.code is not None else found


def where(mount: Mount) -> str:
    """Homes at one place, all others by name below one folder."""
    if mount.role == "home":
        return names.HOME
    return f"{names.VOLUMES}/{mount.name}"


def _said(word: str, spec: WorkloadSpec) -> str:
    if spec.verbatim:
        return _literal(word)
    return placed(_with_port(word, port_of(spec)), names.SECRETS)


def _with_port(word: str, port: int) -> str:
    return _literal(word.replace("{port}", str(port)))


def _literal(word: str) -> str:
    """The kubelet would expand ``$(NAME)`` and make one of ``$$``, which is a shell's own number;
    what a person wrote is meant as it stands.
    """
    return _EXPANDED.sub(lambda found: found[0] * 2, word)


def head(spec: WorkloadSpec, options: KubernetesOptions) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the metadata of what owns the pods, and the pods' labels: only the owner is queued."""
    meta = own(spec, options)
    meta["annotations"] = {names.LAUNCH: str(spec.launch)}
    pod_labels = dict(meta["labels"])
    waits = {names.QUEUE: spec.queue or options.queue, names.PRIORITY: spec.priority}
    meta["labels"] = {**meta["labels"], **{name: value for name, value in waits.items() if value}}
    return meta, pod_labels


def own(spec: WorkloadSpec, options: KubernetesOptions) -> dict[str, Any]:
    """Return the metadata of an object that has the workload's own name."""
    return _meta(spec, options, names.workload(spec.name, spec.uid))


def secrets(
    spec: WorkloadSpec,
    options: KubernetesOptions,
    secret_env: Mapping[str, str],
    files: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The main container's environment, its files, and one Secret for each helper beside it.

    Files have one of their own: all keys of the first one become variables.
    """
    name = names.workload(spec.name, spec.uid)
    found = [secret(_meta(spec, options, name), environment(spec, secret_env))]
    if files is not None:
        found.append(secret(_meta(spec, options, names.files_secret(name)), files))
    for sidecar in spec.sidecars:
        meta = _meta(spec, options, names.sidecar_secret(name, sidecar.name))
        found.append(secret(meta, beside(sidecar)))
    return found


def secret(meta: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """``data`` and not ``stringData``: what is left out of a later apply goes away."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": dict(meta),
        "type": "Opaque",
        "data": {k: base64.b64encode(v.encode()).decode() for k, v in sorted(values.items())},
    }


def _meta(spec: WorkloadSpec, options: KubernetesOptions, name: str) -> dict[str, Any]:
    labels = names.labels(
        options.namespace_prefix,
        options.installation,
        uid=spec.uid,
        kind=spec.kind,
        project=spec.project,
        owner=spec.owner,
    )
    extra = {key: names.label_value(value) for key, value in options.extra.items()}
    return {"labels": {**extra, **labels}, "name": name, "namespace": spec.namespace}
