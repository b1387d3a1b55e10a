"""Namespaces of tests are removed without waiting for the programs in them."""

from devcluster.kube import Kube, path_of

OWNERS = (
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
)


def remove(kube: Kube, namespace: str) -> None:
    """Ask for its end, and for that of its pods at once: by themselves they have up to a minute.

    What would make other pods goes first, and leaves them to us: a pod whose end has begun with
    its own time keeps that. It is not waited until all is gone.
    """
    for api_version, kind in OWNERS:
        path = path_of(api_version, kind, namespace)
        kube.request("DELETE", path, params={"propagationPolicy": "Orphan"})
    kube.request("DELETE", path_of("v1", "Pod", namespace), params={"gracePeriodSeconds": "1"})
    kube.delete("v1", "Namespace", namespace)
