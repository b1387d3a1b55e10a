"""Environments of lock files that only tests need, each made once on a machine.

In a process of its own, because the tests' settings point elsewhere, and by one run at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from devcluster.programs import only_one
from tests.support.portal import ROOT, environments

MAKE = """
import sys
from tools import setup_steps as steps
from tools.setup_uv import find_uv
base, uv, name = steps.base_python(), find_uv(steps.TOOLS), sys.argv[1]
if name == "dataplane":
    steps.dataplane_environment(base, uv)
elif name in {"serving", "serving-tensorflow", "serving-pytorch"}:
    steps.serving_environment(base, uv, name)
else:
    steps.notebook_environment(base, uv, name)
"""


class MissingError(Exception):
    """Why something can't be had on this machine, in one sentence."""


def locked_environment(name: str) -> Path:
    """Return the folder of ``requirements/<name>.txt``; made again when what it is made of changed."""
    env = {**os.environ, "BERTH_ENVIRONMENTS_DIR": str(environments())}
    with only_one(name):
        done = subprocess.run(
            [sys.executable, "-c", MAKE, name],
            cwd=ROOT,
            env=env,
            umask=0o022,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise MissingError(f"requirements/{name}.txt can't be installed: {done.stderr[-500:]}")
    return (environments() / name).resolve()
