"""Every GPU of every cluster at a glance, as far as a reader may see it."""
