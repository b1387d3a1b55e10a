"""What other apps add to the life of a cluster; called inside the transaction of the act."""

from collections.abc import Collection, Mapping
from typing import Any

from clusters.models import Cluster
from common.hooks import Hook

# What follows when a cluster (its key) was attached, or its options changed.
cluster_changed: Hook[[str], None] = Hook()
# What keeps a cluster (its key) from being detached beside rows of the engine: kind → how many.
cluster_held: Hook[[str], Mapping[str, int]] = Hook()
# What follows when a machine has more devices to give out than before.
devices_added: Hook[[Cluster], None] = Hook()
# The keys of the clusters that a project (its uid) may use; empty or None: all of them.
project_clusters: Hook[[Any], Collection[str] | None] = Hook()
