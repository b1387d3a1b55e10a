"""The environment ``dataplane`` as ``make run`` makes it, from the code as it is now."""

import os
from pathlib import Path

from tests.support.portal import environments
from tools import setup_steps
from tools.setup_uv import find_uv


def dataplane_environment() -> Path:
    """Return its folder; made again only when the package or its lock file changed."""
    os.environ.setdefault("BERTH_ENVIRONMENTS_DIR", str(environments()))
    umask = os.umask(0o022)
    try:
        return setup_steps.dataplane_environment(
            setup_steps.base_python(), find_uv(setup_steps.TOOLS)
        )
    finally:
        os.umask(umask)
