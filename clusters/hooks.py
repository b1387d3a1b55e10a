"""What other apps add to the life of a cluster, without clusters importing them.

Filled in ``AppConfig.ready``; called inside the transaction of the act. A callback writes rows
only (intent); the world follows by the engine.
"""

from collections.abc import Callable

ClusterChanged = Callable[[str], None]

_cluster_changed: list[ClusterChanged] = []


def on_cluster_changed(callback: ClusterChanged) -> ClusterChanged:
    """Register what follows when a cluster was attached, or its options changed."""
    if callback not in _cluster_changed:
        _cluster_changed.append(callback)
    return callback


def cluster_changed(cluster_key: str) -> None:
    for callback in _cluster_changed:
        callback(cluster_key)
