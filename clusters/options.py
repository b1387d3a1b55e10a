"""What an operator may set for one cluster: one closed shape, checked before it is stored."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from common.errors import Invalid
from common.oci import BadReference, parse_reference
from dataplane.addresses import PORT_MAX, opening

if TYPE_CHECKING:
    from collections.abc import Mapping

STORAGE_CLASS, NFS, DIRECTORY = "storageclass", "nfs", "directory"
VOLUME_KINDS = (STORAGE_CLASS, NFS, DIRECTORY)  # the most usual first
ACCESS_MODES = ("ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
# The words of model servers, with what each loads as its makers write it; ours are the first three.
MODEL_SERVERS = {
    "serving": "scikit-learn, XGBoost, LightGBM, ONNX",
    "serving-tensorflow": "TensorFlow",
    "serving-pytorch": "PyTorch",
    "triton": "NVIDIA Triton",
    "vllm": "vLLM",
}
MAX_PREFIX = 20  # the project's short name and its number must fit behind it
MAX_PEERS = 50
MAX_OVERCOMMIT = 100
MAX_GIB = 1024 * 1024
UNIT, RACK, HOST = "unit", "rack", "host"  # what may be asked to hold all replicas of work
HOST_LABEL = "kubernetes.io/hostname"
_PATH = re.compile(r"\A/[A-Za-z0-9._/-]{1,200}\Z")
_HOST = re.compile(r"\A(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?\Z")
_URL = re.compile(r"\Ahttps?://[A-Za-z0-9.\[\]:-]+(:\d+)?(/[A-Za-z0-9._/-]*)?\Z")
_NAME = re.compile(r"\A[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?\Z")
_ROLE = re.compile(r"\A[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?\Z")
_ACCOUNT = re.compile(r"\A[a-z0-9][a-z0-9-]{0,62}/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_LABEL = re.compile(r"\A[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?-?\Z")
_DNS = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_PODS = re.compile(rf"\A{_DNS}/{_DNS}\Z")
# The name of a label: up to 63 characters, behind a domain if it likes; ours are ours to give.
_NODE_KEY = rf"({_DNS}(\.{_DNS})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
_KEY = re.compile(rf"\A(?!berth\.dev/)(?=[^/]{{1,253}}/|[^/]*\Z){_NODE_KEY}\Z")


@dataclass(frozen=True)
class ClusterOptions:
    """Defaults fit a portal that runs inside the cluster by the chart.

    Peers are either addresses (CIDR) or ``namespace/app`` for pods of the cluster itself.
    """

    namespace_prefix: str = "berth-"
    hub_url: str = ""  # how workloads reach the portal's internal listener; "": BERTH_INTERNAL_URL
    hub_peers: tuple[str, ...] = ("berth/web",)  # where that listener is, for the NetworkPolicy
    # who carries people to workspaces and to the files of volumes, and requests to endpoints
    proxy_peers: tuple[str, ...] = ("berth/proxy", "berth/gate", "berth/gateway")
    dns_peers: tuple[str, ...] = ("kube-system/kube-dns",)  # namespace/k8s-app, or addresses
    internet: bool = True  # workloads may open connections to public addresses
    blocked_cidrs: tuple[str, ...] = ()  # never reachable, besides private ranges
    allowed_cidrs: tuple[str, ...] = ()  # range[:port] reachable besides public ones (a store)
    pod_cidrs: tuple[str, ...] = ()  # where its pods are; (): anywhere but the portal itself
    volume_kind: str = DIRECTORY  # of a row that says nothing; forms and the chart say another
    volume_path: str = "/var/lib/berth/volumes"  # directory: on every node (shared) or the only one
    storage_class: str = ""  # storageclass; "": the one that the cluster takes by itself
    nfs_server: str = ""  # nfs
    nfs_export: str = ""  # nfs: its top must be writable for run_as_user
    volume_size_gib: int = 100  # shown size of a claim without a limit of its own
    volume_access_mode: str = "ReadWriteMany"  # ReadWriteOnce where the storage can't share
    scratch_gib: int = 20  # what a workload may write outside its volumes; 0: no limit
    scheduler: str = ""  # name of a bin-packing profile; "": packed by affinity
    queue: str = ""  # LocalQueue of others that admits workloads (Kueue); "": none
    manages_queues: bool = False  # Berth writes Kueue's objects from its own tree of queues
    training_operator: bool = False  # its PyTorchJobs and TFJobs, also where newer ones are there
    # Labels of nodes: in which scalable unit and which rack one stands; "": nobody says
    unit_label: str = ""
    rack_label: str = ""
    run_as_user: int = 1000
    user_namespaces: bool = False  # the runtime supports hostUsers: false
    sidecar_image: str = ""  # signs people in before a port of a container; "": the default one
    default_image: str = ""  # for presets that name none
    data_image: str = ""  # copies data and serves files: has python3 and the package dataplane
    # By the word of a model server, the image that has it
    serving_images: Mapping[str, str] = field(default_factory=dict)
    check_image: str = ""  # has python3, for the self-check; "": another one of these
    portal_role: str = ""  # ClusterRole that is ours only inside projects; "": ours everywhere
    portal_account: str = ""  # namespace/name of the account that gets it there
    cpu_overcommit: int = 1  # asked CPUs are reserved by this part; the limit stays what was asked
    trusted: bool = False  # tenants trust each other: NetworkPolicy need not be proved
    kube_api_url: str = ""  # the API server as people's kubectl reaches it; "": as attached
    kube_api_ca: str = ""  # its certificate authority (PEM) there; "": as attached
    extra: Mapping[str, str] = field(default_factory=dict)  # labels for every object

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def levels(self) -> dict[str, str]:
        """Return the label of each level at which nodes stand together, the widest first.

        None where nobody says how they stand.
        """
        said = {UNIT: self.unit_label, RACK: self.rack_label}
        found = {level: label for level, label in said.items() if label}
        return {**found, HOST: HOST_LABEL} if found else {}

    @property
    def guard_image(self) -> str:
        """What signs people in before a port of a container; "": none, so no web ports here."""
        return self.sidecar_image or self.default_image


RANGES = ("blocked_cidrs", "allowed_cidrs", "pod_cidrs")  # addresses only
PEERS = ("hub_peers", "proxy_peers", "dns_peers", *RANGES)


def options_of(stored: Mapping[str, Any] | None) -> ClusterOptions:
    """Read what was stored; unknown names (an older or newer version's) are left out."""
    known = {f.name: f for f in fields(ClusterOptions)}
    values = {k: v for k, v in (stored or {}).items() if k in known}
    for name in PEERS:
        if name in values:
            values[name] = tuple(values[name])
    return ClusterOptions(**values)


def changed(options: ClusterOptions, values: Mapping[str, Any]) -> ClusterOptions:
    """Return checked options with some values changed; refuses names and types that don't fit."""
    clean: dict[str, Any] = {}
    bad: dict[str, list[str]] = {}
    for name, value in values.items():
        try:
            clean[name] = _typed(name, value)
        except (TypeError, ValueError, KeyError):
            bad[name] = [_("This is not a value for it.")]
    if bad:
        raise Invalid(_("The cluster's settings are not valid."), fields=bad)
    return check(replace(options, **clean))


def _typed(name: str, value: Any) -> Any:
    default = {f.name: getattr(ClusterOptions(), f.name) for f in fields(ClusterOptions)}[name]
    if isinstance(default, bool | str | int):
        if type(value) is not type(default):
            raise TypeError(name)
        return value.strip() if isinstance(value, str) else value
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple) or len(value) > MAX_PEERS:
            raise TypeError(name)
        return tuple(str(item).strip() for item in value if str(item).strip())
    if not isinstance(value, dict):
        raise TypeError(name)
    return {str(k): str(v) for k, v in value.items()}


def check(options: ClusterOptions) -> ClusterOptions:
    """Return it, or raise Invalid that names the field and what is wrong."""
    bad: dict[str, list[str]] = {}
    if not _LABEL.match(options.namespace_prefix) or len(options.namespace_prefix) > MAX_PREFIX:
        bad["namespace_prefix"] = [_("Small letters, digits and “-”, at most 20 characters.")]
    if not 1 <= options.run_as_user < 2**31:
        bad["run_as_user"] = [_("A user number from 1.")]
    for name in ("hub_url", "kube_api_url"):
        if (value := getattr(options, name)) and not _is_url(value):
            bad[name] = [_("An address that starts with http:// or https://.")]
    for name in ("scheduler", "queue", "storage_class"):
        if (value := getattr(options, name)) and not _NAME.match(value):
            bad[name] = [_("Not a name that a cluster accepts.")]
    if options.queue and options.manages_queues:
        bad["queue"] = [_("Either others manage its queues, or Berth does: leave this empty.")]
    if bad := _volumes(options) | _account(options) | _words(options) | _levels(options) | bad:
        raise Invalid(_("The cluster's settings are not valid."), fields=bad)
    return options


def _account(options: ClusterOptions) -> dict[str, list[str]]:
    """Half of it would bind nothing, and only the self-check would say so."""
    role, account = options.portal_role, options.portal_account
    bad: dict[str, list[str]] = {}
    if role and not _ROLE.match(role):
        bad["portal_role"] = [_("Not a name that a cluster accepts.")]
    if account and not _ACCOUNT.match(account):
        bad["portal_account"] = [_("The namespace and the name: namespace/name.")]
    if role and not account:
        bad["portal_account"] = [_("Name the account that has the role.")]
    if account and not role:
        bad["portal_role"] = [_("Name the role of the account.")]
    return bad


def _words(options: ClusterOptions) -> dict[str, list[str]]:
    """What goes into objects of every project: the cluster would refuse all of them at once."""
    bad: dict[str, list[str]] = {}
    for name in PEERS:
        if wrong := [p for p in getattr(options, name) if not _is_peer(p, name)]:
            sentence = (
                _("Not an address range: %(value)s.")
                if name in RANGES
                else _("Neither an address range nor namespace/app: %(value)s.")
            )
            bad[name] = [sentence % {"value": wrong[0][:80]}]
    if odd := [key for key in options.extra if not _KEY.match(key)]:
        bad["extra"] = [_("Not a name of a label of your own: %(value)s.") % {"value": odd[0][:80]}]
    return bad | _servers(options)


def _servers(options: ClusterOptions) -> dict[str, list[str]]:
    """An image that no node can pull would be said by the first endpoint only."""
    for word, image in options.serving_images.items():
        told = {"value": word[:80], "names": ", ".join(MODEL_SERVERS)}
        if word not in MODEL_SERVERS:
            said = _("There is no model server “%(value)s”. There are: %(names)s.")
            return {"serving_images": [said % told]}
        try:
            parse_reference(image)
        except BadReference:
            said = _("Not the name of an image, for %(value)s: %(image)s.")
            return {"serving_images": [said % {**told, "image": image[:80] or "-"}]}
    return {}


def _levels(options: ClusterOptions) -> dict[str, list[str]]:
    bad: dict[str, list[str]] = {}
    for name in ("unit_label", "rack_label"):
        value = getattr(options, name)
        if value and not re.fullmatch(_NODE_KEY, value):
            bad[name] = [_("Not the name of a label of nodes.")]
        elif value and not options.manages_queues:
            bad[name] = [_("Only where Berth manages the queues of Kueue.")]
    labels = list(options.levels.values())
    if len(set(labels)) < len(labels):
        bad["rack_label"] = [_("Each level has a label of its own.")]
    return bad


def _volumes(options: ClusterOptions) -> dict[str, list[str]]:
    bad: dict[str, list[str]] = {}
    if options.volume_kind not in VOLUME_KINDS:
        bad["volume_kind"] = [_("One of: %(names)s.") % {"names": ", ".join(VOLUME_KINDS)}]
    if options.volume_kind == DIRECTORY and not _is_path(options.volume_path):
        bad["volume_path"] = [_("An absolute path on the nodes.")]
    if options.volume_kind == NFS:
        bad |= _export(options)
    if options.volume_access_mode not in ACCESS_MODES:
        bad["volume_access_mode"] = [_("One of: %(names)s.") % {"names": ", ".join(ACCESS_MODES)}]
    if not 1 <= options.volume_size_gib <= MAX_GIB:
        bad["volume_size_gib"] = [_("At least 1.")]
    if not 1 <= options.cpu_overcommit <= MAX_OVERCOMMIT:
        bad["cpu_overcommit"] = [
            _("A whole number from %(low)d to %(high)d.") % {"low": 1, "high": MAX_OVERCOMMIT}
        ]
    if not 0 <= options.scratch_gib <= MAX_GIB:
        bad["scratch_gib"] = [_("A whole number from 0.")]
    return bad


def _export(options: ClusterOptions) -> dict[str, list[str]]:
    bad: dict[str, list[str]] = {}
    if not _HOST.match(options.nfs_server):
        bad["nfs_server"] = [_("The name or address of the server.")]
    if options.nfs_export != "/" and not _is_path(options.nfs_export):
        bad["nfs_export"] = [_("An absolute path that the server exports.")]
    return bad


def _is_path(value: str) -> bool:
    return bool(_PATH.match(value)) and not {".", ".."} & set(value.split("/"))


def _is_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return bool(_URL.match(value) and parts.hostname and parts.port != 0)
    except ValueError:  # a port beyond the last one, half an IPv6 address
        return False


def _is_peer(value: str, name: str) -> bool:
    if name == "allowed_cidrs":
        return _is_opening(value)
    if name not in RANGES and _PODS.match(value):
        return True
    try:
        ipaddress.ip_network(value)
    except ValueError:
        return False
    return "%" not in value  # a zone is one machine's own word for its network


def _is_opening(value: str) -> bool:
    try:
        found = opening(value)
    except ValueError:
        return False
    whole = not found.network.prefixlen  # everything: that is what ``internet`` is for
    return not whole and (found.port is None or 0 < found.port <= PORT_MAX)
