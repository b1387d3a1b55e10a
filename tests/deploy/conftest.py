"""Images are built once per session and kept by the machine; nothing else outlives a test."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import images

# Without these runc may not raise limits on some machines, and refuses to start anything.
ENGINE = """[containers]
default_ulimits = ["nofile=1024:1024","nproc=1024:1024"]
oom_score_adj = 0
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment in which podman runs containers here."""
    if reason := images.lacking():
        pytest.skip(f"images can't be built here: {reason}")
    file = tmp_path_factory.mktemp("engine") / "containers.conf"
    file.write_text(ENGINE)
    before = os.environ.get("CONTAINERS_CONF")
    os.environ["CONTAINERS_CONF"] = str(file)
    yield dict(os.environ)
    if before is None:
        del os.environ["CONTAINERS_CONF"]
    else:
        os.environ["CONTAINERS_CONF"] = before


@pytest.fixture(scope="session")
def built(engine: dict[str, str]) -> dict[str, str]:
    """The images of the Dockerfile as it is now; answers the environment for podman."""
    images.our_images()
    return engine


def podman(env: dict[str, str], *words: str | Path, check: bool = True) -> str:
    done = subprocess.run(
        ["podman", *map(str, words)], capture_output=True, text=True, env=env, check=False
    )
    if check and done.returncode:
        message = f"podman {' '.join(map(str, words[:3]))}: {done.stderr[-2000:]}"
        raise AssertionError(message)
    return done.stdout
