"""Makes an environment of model servers: ``python -m portal.server.environments NAME FOLDER``.

The manager runs it while it is wanted (``processes.environment_standbys``), as root where the
portal was started so: who runs in it must not be able to change it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from common.making import Making, making_file, tell
from portal.server.processes import MODEL_SERVERS
from tools import setup_steps
from tools.setup_shell import SetupError
from tools.setup_uv import find_uv

AGAIN_S = 60.0
LOOK_EVERY_S = 2.0
# Words for what people are told; what was printed may name an index with its password.
DISK, NETWORK, FAILED = "disk", "network", "failed"
_UNREACHED = re.compile(
    r"failed to fetch|could not connect|connection|dns|offline|timed out|unreachable", re.IGNORECASE
)


def main(name: str, environments: Path) -> None:
    os.umask(0o022)
    os.environ["BERTH_ENVIRONMENTS_DIR"] = str(environments)  # the set-up reads it there
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # an installer that runs is ended too
    file = making_file(environments, name)
    while (problem := make(environments, name)) is not None:
        tell(file, Making(problem=problem))
        time.sleep(AGAIN_S)
    file.unlink(missing_ok=True)
    while True:
        signal.pause()


def make(environments: Path, name: str) -> str | None:
    """Try once; return a word for why it is not there, None where it is."""
    environments.mkdir(mode=0o755, parents=True, exist_ok=True)
    before, ended = size_mib(environments, name), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_EVERY_S):
            with contextlib.suppress(OSError):  # a full disk
                made = Making(max(0, size_mib(environments, name) - before))
                tell(making_file(environments, name), made)

    looks = threading.Thread(target=look, daemon=True)
    looks.start()
    try:
        uv, base = find_uv(setup_steps.TOOLS), setup_steps.base_python()
        setup_steps.serving_environment(base, uv, name)
    except (SetupError, OSError) as error:
        traceback.print_exc()  # the log is the operator's
        text = str(error)
        if "disk is full" in text or "No space left" in text:
            return DISK
        return NETWORK if _UNREACHED.search(text) else FAILED
    finally:
        ended.set()
        looks.join()
    return None


def size_mib(environments: Path, name: str) -> int:
    """Return what its folders hold, those of before among them."""
    total = 0
    for folder in environments.iterdir():
        if re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{16}}", folder.name):
            for place, _folders, files in os.walk(folder):
                for file in files:
                    try:
                        total += (Path(place) / file).lstat().st_size
                    except OSError:  # it has just gone
                        continue
    return total // 2**20


if __name__ == "__main__":
    if sys.argv[1] not in MODEL_SERVERS:
        sys.exit(f"There is no {sys.argv[1]}.")
    main(sys.argv[1], Path(sys.argv[2]))
