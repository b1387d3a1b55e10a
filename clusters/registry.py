"""Which driver and router serve a cluster (the engine owner completes this)."""

from runtime.protocol import Driver, Router


def driver_for(cluster_key: str) -> Driver:
    """Return the (cached) driver of a cluster; Unreachable when the key is unknown."""
    raise NotImplementedError


def router() -> Router:
    """Return the (cached) router chosen by settings."""
    raise NotImplementedError
