"""What an operator may set for one cluster: one closed shape, checked before it is stored."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

VOLUME_KINDS = ("directory", "storageclass")
_LABEL = re.compile(r"\A[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?-?\Z")


@dataclass(frozen=True)
class ClusterOptions:
    """Defaults fit a portal that runs inside the cluster by the chart.

    Peers are either addresses (CIDR) or ``namespace/app`` for pods of the cluster itself.
    """

    namespace_prefix: str = "berth-"
    hub_url: str = ""  # how workloads reach the portal's internal listener; "": BERTH_INTERNAL_URL
    hub_peers: tuple[str, ...] = ("berth/web",)  # where that listener is, for the NetworkPolicy
    proxy_peers: tuple[str, ...] = ("berth/proxy",)  # who carries people to workspaces
    internet: bool = True  # workloads may open connections to public addresses
    blocked_cidrs: tuple[str, ...] = ()  # never reachable, besides private ranges
    volume_kind: str = "directory"
    volume_path: str = "/var/lib/berth/volumes"  # directory: on every node (shared) or the only one
    storage_class: str = ""  # storageclass
    volume_size_gib: int = 100  # shown size of a claim without a limit of its own
    scheduler: str = ""  # name of a bin-packing profile; "": packed by affinity
    queue: str = ""  # LocalQueue that admits workloads (Kueue); "": none
    run_as_user: int = 1000
    user_namespaces: bool = False  # the runtime supports hostUsers: false
    sidecar_image: str = ""  # signs people in before a port of a container; "": no web ports
    default_image: str = ""  # for presets that name none
    trusted: bool = False  # tenants trust each other: NetworkPolicy need not be proved
    extra: Mapping[str, str] = field(default_factory=dict)  # labels for every object

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def options_of(stored: Mapping[str, Any] | None) -> ClusterOptions:
    """Read what was stored; unknown names (an older or newer version's) are left out."""
    known = {f.name: f for f in fields(ClusterOptions)}
    values = {k: v for k, v in (stored or {}).items() if k in known}
    for name in ("hub_peers", "proxy_peers", "blocked_cidrs"):
        if name in values:
            values[name] = tuple(values[name])
    return ClusterOptions(**values)


def check(options: ClusterOptions) -> ClusterOptions:
    """Return it, or raise Invalid that names the field and what is wrong."""
    bad: dict[str, list[str]] = {}
    if not _LABEL.match(options.namespace_prefix):
        bad["namespace_prefix"] = [_("Small letters, digits and “-”, at most 42 characters.")]
    if options.volume_kind not in VOLUME_KINDS:
        bad["volume_kind"] = [_("One of: %(names)s.") % {"names": ", ".join(VOLUME_KINDS)}]
    if options.volume_kind == "storageclass" and not options.storage_class:
        bad["storage_class"] = [_("Name the storage class.")]
    if options.volume_kind == "directory" and not options.volume_path.startswith("/"):
        bad["volume_path"] = [_("An absolute path on the nodes.")]
    for name in ("hub_peers", "proxy_peers", "blocked_cidrs"):
        if wrong := [p for p in getattr(options, name) if not _is_peer(p, name)]:
            bad[name] = [_("Not an address range: %(value)s.") % {"value": wrong[0]}]
    if not 1 <= options.run_as_user < 2**31:
        bad["run_as_user"] = [_("A user number from 1.")]
    if bad:
        raise Invalid(_("The cluster's settings are not valid."), fields=bad)
    return options


def _is_peer(value: str, name: str) -> bool:
    if name != "blocked_cidrs" and re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", value):
        return True
    try:
        ipaddress.ip_network(value)
    except ValueError:
        return False
    return True
