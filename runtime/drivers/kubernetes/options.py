"""What the driver must know of one cluster; ``clusters.options`` is where operators say it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KubernetesOptions:
    """Field names are those of ``ClusterOptions``; what it lacks has its default here."""

    namespace_prefix: str = "berth-"
    hub_url: str = ""
    hub_peers: tuple[str, ...] = ("berth/web",)
    proxy_peers: tuple[str, ...] = ("berth/proxy", "berth/gate", "berth/gateway")
    dns_peers: tuple[str, ...] = ("kube-system/kube-dns",)
    internet: bool = True
    blocked_cidrs: tuple[str, ...] = ()
    allowed_cidrs: tuple[str, ...] = ()  # range[:port] that pods may reach besides public ones
    pod_cidrs: tuple[str, ...] = ()  # where its pods are; (): anywhere but here
    volume_kind: str = "directory"
    volume_path: str = "/var/lib/berth/volumes"
    storage_class: str = ""  # "": the one that the cluster takes by itself
    nfs_server: str = ""
    nfs_export: str = ""
    volume_size_gib: int = 100
    volume_access_mode: str = "ReadWriteMany"
    scheduler: str = ""
    queue: str = ""
    manages_queues: bool = False  # its queues are made from Berth's rows
    run_as_user: int = 1000
    default_image: str = ""  # for presets that name none; every project may have it
    data_image: str = ""  # has python3 and the package dataplane
    user_namespaces: bool = False
    scratch_gib: int = 20  # what a workload may write outside its volumes; 0: no limit
    cpu_overcommit: int = 1  # so many times a node's processors may be promised
    portal_role: str = ""  # ClusterRole of the portal's account, bound in each project only
    portal_account: str = ""  # namespace/name
    kube_api_url: str = ""
    kube_api_ca: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    operators: tuple[str, ...] = ()  # of training, that are there (runtime.training.OPERATORS)
    installation: str = ""  # no operator's choice: which Berth this is
