"""Images made to run as root: under the platform's user in a real pod, and what is said before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.protocol import Seen
from tests.cluster.test_data import LATE_S, log_of, removed
from tests.cluster.test_images import asked_here, check
from tests.drivers.kubernetes.harness import Ground, ground_of

__all__ = ["asked_here"]

pytestmark = [
    pytest.mark.long(
        "what is said before: images/test_checks.py; the user in a pod: test_isolation.py"
    ),
    pytest.mark.cluster,
    pytest.mark.beside,
    pytest.mark.django_db,
    pytest.mark.timeout(600),
]
WHO = """
id -u; id -g; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status
touch /tmp/x && echo scratch; touch /usr/x 2>/dev/null || echo not the system
"""


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = ground_of()
    yield made
    made.close()


def image_of(devcluster: dict[str, Any], name: str) -> str:
    if name not in devcluster["images"]:
        pytest.skip(f"the cluster's state names no image {name} (devcluster/README.md)")
    return str(devcluster["images"][name]["reference"])


def ran(ground: Ground, image: str, command: tuple[str, ...]) -> tuple[int, str]:
    spec = ground.spec(kind="load", once=True, probe=None, image=image, command=command)
    ground.driver.ensure(spec)
    found = ground.until(spec.uid, lambda o: o.seen == Seen.EXITED, seconds=LATE_S)
    text = log_of(ground, spec)
    removed(ground, spec.uid)
    return found.exit_code, text


@pytest.mark.parametrize("name", ["asroot", "needsroot"])
def test_an_image_made_to_run_as_root_runs_under_the_platforms_user(
    ground: Ground, devcluster: dict[str, Any], name: str
) -> None:
    code, text = ran(ground, image_of(devcluster, name), ("bash", "-c", WHO))
    assert code == 0
    user, group, capabilities, privileges, *more = text.splitlines()
    assert (user, group) == ("1000", "1000")
    assert int(capabilities.split()[1], 16) == 0
    assert privileges.split()[1] == "1"
    assert more == ["scratch", "not the system"]


def test_one_that_insists_on_root_ends_at_once_and_its_log_says_why(
    ground: Ground, devcluster: dict[str, Any]
) -> None:
    code, text = ran(ground, image_of(devcluster, "needsroot"), ())
    assert code == 100
    assert text == "this image needs root and has user 1000\n"


def test_both_are_told_of_before_a_launch(
    devcluster: dict[str, Any], project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    said = check(client, image_of(devcluster, "asroot"), kind="container")
    assert (said["verdict"], said["runs_as_root"]) == ("good", True)
    assert "runs under the number 1000" in " ".join(said["warnings"])
    said = check(client, image_of(devcluster, "needsroot"), kind="container")
    assert (said["verdict"], said["runs_as_root"]) == ("good", True)
    assert "/init, which needs root" in " ".join(said["warnings"])
    assert "give another command" in " ".join(said["warnings"])
