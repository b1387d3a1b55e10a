"""Writing intent of volumes. The reconciler carries it out; nothing here touches a disk."""
