"""The environment ``dataplane`` as ``make run`` makes it, from the code as it is now."""

import functools
from pathlib import Path

from tests.support.locked_environments import locked_environment


@functools.cache
def dataplane_environment() -> Path:
    """Return its folder; made again only when the package or its lock file changed."""
    return locked_environment("dataplane")
