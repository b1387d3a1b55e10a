"""The commands that make the small account of an attached cluster, as the runbook prints them.

Roles and fence are templates of the chart, shown by ``helm template``: there is no second copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.installed import is_own
from clusters.options import NFS, STORAGE_CLASS, ClusterOptions

if TYPE_CHECKING:
    from clusters.models import Cluster

_SHOWN = ("rbac", "admission")
_FILE = """\
kubectl config set-credentials berth --token=TOKEN
kubectl config set-context berth --cluster=CLUSTER --user=berth
kubectl config view --context=berth --minify --flatten --raw > file"""
_USUAL = ClusterOptions(volume_kind=STORAGE_CLASS)  # what the chart's values say


def small_account(options: ClusterOptions = _USUAL) -> str:
    """Return the lines that make the account, with its roles and its fence, and print a token."""
    namespace, name = _account(options)
    return "\n".join(
        (
            f"kubectl create namespace {namespace}",
            roles_and_fence(options),
            f"kubectl create token {name} -n {namespace} --duration 8760h",
        )
    )


def steps() -> str:
    """Return all of it, with the file that is pasted, for who attaches a cluster; not too wide."""
    account = small_account().replace(" --show-only", " \\\n  --show-only", 1)
    return f"{account}\n{_FILE}"


def fence(cluster: Cluster, options: ClusterOptions) -> str:
    """Return the line that puts the fence around the account that Berth has there."""
    if is_own(cluster):
        namespace, _name = _account(options)
        return (
            f"helm upgrade {_release(options)} deploy/helm/berth -n {namespace} --reuse-values"
            " --set admission.enabled=true"
        )
    return roles_and_fence(options)


def roles_and_fence(options: ClusterOptions = _USUAL) -> str:
    """Return the line that applies both. The chart is told nothing else of a portal: what it wants
    to know before it shows anything is in the file.
    """
    namespace, name = _account(options)
    words = [f"helm template {_release(options)} deploy/helm/berth -n {namespace}"]
    words.append("-f deploy/helm/rights.yaml")
    words += [f"--set {key}={value}" for key, value in _values(options, name).items()]
    words += [f"--show-only templates/{name}.yaml" for name in _SHOWN]
    words.append(
        "--kube-version 1.30.0"
    )  # helm asks no cluster, and may itself be for an older one
    return " ".join((*words, f"| kubectl apply -n {namespace} -f -"))


def _account(options: ClusterOptions) -> tuple[str, str]:
    namespace, _slash, name = (options.portal_account or "berth/berth").partition("/")
    return namespace, name


def scale_policy(options: ClusterOptions) -> str:
    """Return the name of the policy that keeps what stands in a queue from being scaled."""
    return f"{_release(options)}-statefulset-scale"


def _release(options: ClusterOptions) -> str:
    """Return the release whose roles have the name that the options say."""
    return options.portal_role.removesuffix("-projects") or "berth"


def _values(options: ClusterOptions, account: str) -> dict[str, str]:
    """Return what the fence must know where it is not as usual: whom it holds, in which namespaces,
    and where volumes may lie.
    """
    found = {}
    if account != _release(options):
        found["serviceAccount.name"] = account
    if options.namespace_prefix != _USUAL.namespace_prefix:
        found["cluster.namespacePrefix"] = options.namespace_prefix
    if options.volume_path != _USUAL.volume_path:
        found["cluster.volumePath"] = options.volume_path
    if options.manages_queues:
        found["cluster.options.manages_queues"] = "true"
    if options.volume_kind == NFS:
        found["cluster.storage.kind"] = NFS
        found["cluster.storage.nfs.server"] = options.nfs_server
        found["cluster.storage.nfs.export"] = options.nfs_export
    return found
