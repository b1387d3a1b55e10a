"""Where a pod's own program finds things. Plain words: what runs in one is told them."""

from runtime.drivers import mounts

MAIN = "main"  # the container that is the workload
HOME = "/home/berth"
VOLUMES = "/volumes"
SECRETS = "/var/run/berth/secrets"
MEMORY = "/dev/shm"  # noqa: S108 - the pod's own
PORT = 8888


def with_secrets(text: str) -> str:
    """Put the folder of a pod's secret files where ``{secrets}`` stands."""
    return mounts.placed(text, SECRETS)
