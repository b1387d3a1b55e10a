"""What runs models there, and whether nodes can pull the model servers that the options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, probe_ended, red
from clusters.checks.image import LACKS, PROGRAM, tried
from clusters.checks.training import operators_in
from clusters.options import MODEL_SERVERS
from runtime.training import KSERVE, KSERVE_LEAST

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench

NAME = "models"
OURS = "serving"  # how the words of our own model servers begin: those of others are not tried
# What serving.runtime_spec starts in them; to import it would take the memory of its libraries.
PROGRAM_THERE = f"""
from importlib.util import find_spec
if not find_spec("serving") or not find_spec("serving.programs"):
    raise SystemExit({LACKS})
"""


def act(subject: Subject, bench: Bench) -> Finding:
    """Nobody must have KServe, or each server: what lacks is told and is no fault."""
    there = operators_in(subject, NAME)
    if isinstance(there, Finding):
        return there
    if KSERVE not in there:
        return green(NAME, _n("KServe is missing: no endpoint can be placed here."))
    images = subject.options.serving_images
    for word in filter(images.get, MODEL_SERVERS):
        if word.startswith(OURS) and (fault := _fault(bench, word, images[word])):
            return fault
    lacking = [f"{word} ({loads})" for word, loads in MODEL_SERVERS.items() if word not in images]
    if not lacking:
        said = _n("KServe runs models behind endpoints; it must be %(least)s or newer.")
        return green(NAME, said, least=KSERVE_LEAST)
    said = _n(
        "KServe runs models behind endpoints; it must be %(least)s or newer. No image is named in"
        " serving_images for: %(lacking)s."
    )
    return green(NAME, said, least=KSERVE_LEAST, lacking=", ".join(lacking))


def _fault(bench: Bench, word: str, image: str) -> Finding | None:
    found = tried(bench, NAME, image, PROGRAM_THERE, pod=word)
    if isinstance(found, Finding):
        return found
    if not found.code:
        return None
    if found.code == LACKS or PROGRAM.search(found.said):
        said = _n("%(image)s, named for %(word)s in serving_images, has no model server of Berth.")
        return red(NAME, said, image=image, word=word)
    return probe_ended(NAME, found.code)
