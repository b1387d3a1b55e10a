"""What other apps, and other parts of this one, add to a change of the tree."""

from common.hooks import Hook

# What follows when organisations, guarantees, weights or priorities changed; called inside the
# transaction of the act.
tree_changed: Hook[[], None] = Hook()
