"""What other apps add to queues."""

from collections.abc import Collection
from datetime import datetime

from common.hooks import Hook
from queues.effect import Past

# What follows when the tree, or what a part of it has, changed; in the transaction of the act.
tree_changed: Hook[[], None] = Hook()
# The latest work with GPUs on a cluster (its key) that asked for them after a moment.
past_work: Hook[[str, datetime], Collection[Past]] = Hook()
