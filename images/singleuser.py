"""Whether an image can be a notebook: its own program is asked, once per digest.

The program runs in the tenant's namespace like any other work of his; what it says is only
believed to be a version or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.clock import now
from images.findings import NO_SINGLEUSER
from images.models import ImageFacts
from runtime.capabilities import Attempt, Program, SupportsPrograms, Tried
from runtime.protocol import DriverError, Placement
from runtime.reasons import Reason

COMMAND: Sequence[str] = ("jupyterhub-singleuser", "--version")
_VERSION = re.compile(r"^\s*([0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9a-z]{1,12}){0,3})\s*$", re.MULTILINE)

MISSING_FOR = timedelta(days=1)  # the word of one node on one day; a version is for ever


def forget_old(facts: ImageFacts) -> None:
    """Count what was not there long ago as not tried; nothing is written until it is."""
    at = facts.singleuser_at
    if facts.singleuser == NO_SINGLEUSER and at is not None and at < now() - MISSING_FOR:
        facts.singleuser = ""


def learn(
    facts: ImageFacts, *, cluster_key: str, namespace: str, image: str, placement: Placement
) -> tuple[bool, str]:
    """Ask, or look how far it is: (still under way, why nothing could be learned)."""
    try:
        found = _tried(facts, cluster_key, namespace, image, placement)
    except DriverError as error:
        return False, _why(error)
    if found is None:
        return False, ""
    if found.state is Attempt.RUNNING:
        return True, ""
    if found.state is Attempt.FAILED:
        return False, found.text
    said = _VERSION.search(found.text)
    if found.state is Attempt.DONE and said is None:
        return False, ""
    facts.singleuser = NO_SINGLEUSER if said is None else said[1][:32]
    facts.singleuser_at = now()
    facts.save(update_fields=["singleuser", "singleuser_at"])
    return False, ""


def _why(error: DriverError) -> str:
    if error.reason == Reason.QUOTA_DENIED:
        return _("too many are under way in this project; try again later.")
    return str(error)


def _tried(
    facts: ImageFacts, cluster_key: str, namespace: str, image: str, placement: Placement
) -> Tried | None:
    driver = driver_for(cluster_key)
    if not isinstance(driver, SupportsPrograms):
        return None
    program = Program(
        namespace=namespace,
        name=f"probe-{facts.digest.partition(':')[2][:20]}",
        image=image,
        command=COMMAND,
        placement=placement,
    )
    return driver.try_program(program)
