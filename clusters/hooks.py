"""What other apps add to the life of a cluster; called inside the transaction of the act."""

from common.hooks import Hook

# What follows when a cluster (its key) was attached, or its options changed.
cluster_changed: Hook[[str], None] = Hook()
