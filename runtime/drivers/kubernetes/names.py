"""What things are called on a cluster. Pure: the same words always give the same names."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from runtime import pods

MANAGER = "berth"
DOMAIN = "berth.dev"
MANAGED, UID, KIND = f"{DOMAIN}/managed", f"{DOMAIN}/uid", f"{DOMAIN}/kind"
PROJECT, OWNER, LAUNCH = f"{DOMAIN}/project", f"{DOMAIN}/owner", f"{DOMAIN}/launch"
INSTANCE, GPU = f"{DOMAIN}/instance", f"{DOMAIN}/gpu"
INSTALLATION = f"{DOMAIN}/installation"
ENDED = f"{DOMAIN}/ended"
# Of what owns pods the annotation that tells their roles; of a pod the label of its own.
ROLE = f"{DOMAIN}/role"
RETRIES = f"{DOMAIN}/retries"  # annotation: how often an operator of the cluster tries again
WORKLOAD = f"{DOMAIN}/workload"  # label of a pod that an operator made: the name of its owner
BACKING, EXPORT, RESTORED = f"{DOMAIN}/backing", f"{DOMAIN}/export", f"{DOMAIN}/restored-from"
DIRECTORY, OWNER_UID = f"{DOMAIN}/directory", f"{DOMAIN}/owner-uid"
EXPERIMENT = f"{DOMAIN}/experiment"  # label: uid of the search whose values are chosen there
QUEUE = "kueue.x-k8s.io/queue-name"
OVER = "berth-over"  # a queue that does not exist: what was stopped while it waited stands here
WAITS = f"{DOMAIN}/waits"  # a Workload of Kueue that is not let in until there are GPU-hours again
PRIORITY = "kueue.x-k8s.io/priority-class"
JOB = "batch.kubernetes.io/job-name"
FAILURES = "batch.kubernetes.io/job-index-failure-count"  # annotation: of this number, before it
# And how often it was taken away before, which costs no attempt.
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
FINAL = f"{DOMAIN}/final"  # annotation: exit codes after which what serves is not begun again
INDEX = "batch.kubernetes.io/job-completion-index"  # label and annotation of a group's pod
ROLE_INDEX = "training.kubeflow.org/replica-index"  # label of a pod of the training operator

# kinds of what runs to its end
JOBS = frozenset(("Job", "JobSet", "MPIJob", "PyTorchJob", "TFJob", "TrainJob"))
SERVED = "InferenceService"  # kind of what serves
UNNAMED = JOBS | {SERVED}  # kinds whose pods have names that nobody knows before
REGISTRIES = "berth-registries"
MAIN, PORT = pods.MAIN, pods.PORT
# The training operator finds its pods' main container by these, and knows no other name.
PYTORCH, TENSORFLOW = "pytorch", "tensorflow"
KSERVE = "kserve-container"  # KServe knows it by this name only
MAINS = frozenset((MAIN, PYTORCH, TENSORFLOW, KSERVE))
NOTICE = "/dev/shm/berth-notice.json"  # noqa: S108 - memory of the pod that every runtime gives
EVENTS = "/proc/1/fd/1"  # lines of the log: these are kept when the pod has ended
CODE = "/berth-code"  # of the pod, gone with it
BRINGS = "code"  # the container that brings it
HOME, VOLUMES, SECRETS, MEMORY = pods.HOME, pods.VOLUMES, pods.SECRETS, pods.MEMORY

_LABEL_MAX = 63
_SLUG_MAX = 30
_JUNK = re.compile(r"[^a-z0-9]+")
_DNS = re.compile(r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_VALUE_JUNK = re.compile(r"[^A-Za-z0-9._-]+")


def namespace(prefix: str, slug: str, project_uid: str) -> str:
    """One per project: readable, distinct by the uid, a DNS label whatever the slug is."""
    tail = _JUNK.sub("", project_uid.lower())[:8] or "0"
    room = min(_SLUG_MAX, _LABEL_MAX - len(prefix) - len(tail) - 1)
    middle = _JUNK.sub("-", slug.lower()).strip("-")[: max(room, 0)].strip("-")
    return f"{prefix}{middle}-{tail}" if middle else f"{prefix}{tail}"


def instance(prefix: str) -> str:
    """Label value that tells the things of one portal from those of another."""
    return prefix.strip("-") or "berth"


def marks(prefix: str, installation: str) -> dict[str, str]:
    """Labels that say whose an object is: under which prefix, and of which Berth."""
    found = {INSTANCE: instance(prefix), INSTALLATION: installation}
    return {name: value for name, value in found.items() if value}


def is_foreign(obj: Mapping[str, Any], installation: str) -> bool:
    """Whether another Berth made it. What carries no mark is older than marks are."""
    whose = ((obj.get("metadata") or {}).get("labels") or {}).get(INSTALLATION, "")
    return bool(whose) and whose != installation


def workload(name: str, uid: str) -> str:
    """StatefulSet or Job, and Secret. Short enough for its pod's name and its hash labels too."""
    return f"ws-{_label(name, uid, 40)}"


def pod(statefulset: str) -> str:
    return f"{statefulset}-0"


def log_secret(workload_name: str) -> str:
    """Keeps the end of the log of a run that is over."""
    return f"{workload_name}-log"


def sidecar_secret(workload_name: str, sidecar: str) -> str:
    return f"{workload_name}-{sidecar}"


def files_secret(workload_name: str) -> str:
    return f"{workload_name}-files"


def experiment(name: str, uid: str, generation: int) -> str:
    """Katib wants a letter first and 40 at most: it names pods after it. Each begin has its own."""
    tail = hashlib.sha256(f"{uid}/{generation}".encode()).hexdigest()[:8]
    return f"s-{_label(name, uid, 24)}-{tail}"


def searches(prefix: str) -> str:
    """Namespace of all that chooses values of searches; no project's ends so (``namespace``)."""
    return f"{prefix}searches"


def volume(volume_uid: str) -> str:
    return f"berth-{_label(volume_uid, volume_uid, 50)}"


def claim(volume_uid: str) -> str:
    return f"vol-{_label(volume_uid, volume_uid, 50)}"


def snapshot(snapshot_uid: str) -> str:
    return f"snap-{_label(snapshot_uid, snapshot_uid, 50)}"


def queue_object(prefix: str, word: str) -> str:
    """What a queue, a flavor or a priority of Berth is called in the whole cluster; "": the root.

    What is too long, or no plain name, gets a digest: no two words share one.
    """
    whose = instance(prefix)
    return f"{whose}-{_label(word, word, _LABEL_MAX - len(whose) - 1)}" if word else whose


def label_value(text: str) -> str:
    """Any text as a label value; what can't be said is left out."""
    return _VALUE_JUNK.sub("-", text)[:_LABEL_MAX].strip("-._")


def labels(
    prefix: str,
    installation: str,
    *,
    uid: str,
    kind: str,
    project: str = "",
    owner: str = "",
    **more: str,
) -> dict[str, str]:
    """Carried by everything that is ours."""
    found = {
        MANAGED: "true",
        **marks(prefix, installation),
        UID: label_value(uid),
        KIND: label_value(kind),
        PROJECT: label_value(project),
        OWNER: label_value(owner),
        **{f"{DOMAIN}/{name}": label_value(value) for name, value in more.items()},
    }
    return {name: value for name, value in found.items() if value}


def selector(prefix: str, extra: Mapping[str, str] | None = None) -> str:
    """What finds everything of this portal."""
    terms = {MANAGED: "true", INSTANCE: instance(prefix), **(extra or {})}
    return ",".join(f"{name}={value}" for name, value in terms.items())


def others(prefix: str) -> str:
    """What finds everything that is not this portal's."""
    return f"{INSTANCE}!={instance(prefix)}"


def _label(text: str, uid: str, limit: int) -> str:
    if _DNS.match(text) and len(text) <= limit:
        return text
    digest = hashlib.sha256(f"{uid}/{text}".encode()).hexdigest()[:10]
    slug = _JUNK.sub("-", text.lower()).strip("-")[: limit - 11].strip("-")
    return f"{slug}-{digest}" if slug else digest


Key = tuple[str, str]  # namespace, name


def key_of(obj: Mapping[str, Any]) -> Key:
    return (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def owner_key(pod: Mapping[str, Any]) -> Key:
    """Return the key of the StatefulSet, Job or operator's object that a pod belongs to."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    job = labels.get(WORKLOAD) or labels.get(JOB)
    return (meta.get("namespace", ""), job or set_name(meta["name"]))


def set_name(pod_name: str) -> str:
    return pod_name.removesuffix("-0")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the uid of the row that it stands for, "" when it is nobody's."""
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(UID, ""))


def version_of(obj: Mapping[str, Any] | None) -> int:
    text = str(((obj or {}).get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0
