"""Looking an image up in its registry, and asking its own program whether it can be a notebook.

Runs in the gate; knows no request and no person. The program runs in the tenant's namespace like
any other work of theirs, once per digest; what it says is believed to be a version or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.clock import now
from common.oci import (
    INDEXES,
    MANIFESTS,
    OLD,
    Document,
    ImageProblem,
    Login,
    Problem,
    Reference,
    Registry,
    is_digest,
)
from common.outbound import OutboundError, Trouble, policy_from_settings
from images.findings import NO_SINGLEUSER
from images.models import ImageFacts
from runtime.capabilities.programs import Attempt, Program, SupportsPrograms, Tried
from runtime.protocol import DriverError
from runtime.reasons import Reason
from runtime.spec import Placement

SECONDS = 5.0
LAYERS_MAX = 1000
WORDS_MAX = 40
GIB = 2**30
_PORT = re.compile(r"\A[0-9]{1,5}\Z")  # what Python calls a digit may be no number
COMMAND: Sequence[str] = ("jupyterhub-singleuser", "--version")
_VERSION = re.compile(r"^\s*([0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9a-z]{1,12}){0,3})\s*$", re.MULTILINE)

MISSING_FOR = timedelta(days=1)  # the word of one node on one day; a version is for ever


def look(reference: Reference, login: Login | None, architectures: Sequence[str]) -> ImageFacts:
    """Return what the image is for these machines, or raise ImageProblem."""
    try:
        with Registry(
            reference.host, policy_from_settings(), login=login, seconds=SECONDS
        ) as registry:
            facts = _facts(registry, reference, architectures)
    except OutboundError as error:
        kind = Problem.REFUSED if error.trouble is Trouble.REFUSED else Problem.UNREACHABLE
        raise ImageProblem(kind, why=error.message) from None
    limit = settings.BERTH_IMAGE_MAX_GIB
    if limit and facts.size_bytes > limit * GIB:
        size = f"{facts.size_bytes / GIB:.1f}"
        raise ImageProblem(Problem.TOO_LARGE, size=size, limit=limit)
    return facts


def _facts(registry: Registry, reference: Reference, architectures: Sequence[str]) -> ImageFacts:
    top = registry.manifest(reference)
    known = {
        row.architecture: row
        for row in ImageFacts.objects.filter(digest=top.digest, architecture__in=architectures)
    }
    for name in architectures:
        if name in known:
            return known[name]
    if top.media_type in INDEXES:
        platforms = _platforms(top)
        name = next((a for a in architectures if a in platforms), "")
        if not name:
            raise _foreign(sorted(platforms), architectures)
        manifest = registry.manifest(reference, platforms[name])
        return _learn(registry, reference, top, manifest, sorted(platforms), name)
    return _learn(registry, reference, top, top, [], "", architectures)


def _learn(
    registry: Registry,
    reference: Reference,
    top: Document,
    manifest: Document,
    platforms: list[str],
    name: str,
    architectures: Sequence[str] = (),
) -> ImageFacts:
    if manifest.media_type.startswith(OLD) or manifest.data.get("schemaVersion") == 1:
        raise ImageProblem(Problem.OLD_FORMAT)
    if manifest.media_type not in MANIFESTS:
        raise ImageProblem(Problem.NOT_AN_IMAGE)
    config = _mapping(manifest.data.get("config"))
    if "image" not in str(config.get("mediaType", "")):  # a chart, a model, a signature …
        raise ImageProblem(Problem.NOT_AN_IMAGE)
    found = registry.config(reference, str(config.get("digest", ""))).data
    has, system = str(found.get("architecture", ""))[:32], str(found.get("os", ""))
    if system != "linux":
        raise _foreign([f"{system[:32] or '?'}/{has}"], architectures)
    if not name:
        if has not in architectures:
            raise _foreign([has], architectures)
        name, platforms = has, [has]
    size = _size(manifest)
    run = _mapping(found.get("config"))
    row, _made = ImageFacts.objects.get_or_create(
        digest=top.digest,
        architecture=name,
        defaults={
            "platforms": platforms[:WORDS_MAX],
            "size_bytes": size,
            "user": _plain(run.get("User"))[:120],
            "entrypoint": _words(run.get("Entrypoint")),
            "command": _words(run.get("Cmd")),
            "ports": _ports(run.get("ExposedPorts")),
            "seen_at": now(),
        },
    )
    return row


def _platforms(index: Document) -> dict[str, str]:
    """Return architecture → digest of what an index has for Linux."""
    found: dict[str, str] = {}
    entries = index.data.get("manifests")
    for entry in entries[:LAYERS_MAX] if isinstance(entries, list) else []:
        said = _mapping(entry)
        platform = _mapping(said.get("platform"))
        name = _plain(platform.get("architecture"))[:32]
        digest = _plain(said.get("digest"))
        named = name and name != "unknown"
        if platform.get("os") == "linux" and named and is_digest(digest):
            found.setdefault(name, digest)
    return found


def _size(manifest: Document) -> int:
    layers = manifest.data.get("layers")
    if not isinstance(layers, list) or len(layers) > LAYERS_MAX:
        raise ImageProblem(Problem.NOT_AN_IMAGE)
    sizes = [_mapping(layer).get("size") for layer in layers]
    if not all(isinstance(size, int) and 0 <= size < 2**50 for size in sizes):
        raise ImageProblem(Problem.NOT_AN_IMAGE)
    return sum(size for size in sizes if isinstance(size, int))


def _foreign(has: Sequence[str], want: Sequence[str]) -> ImageProblem:
    return ImageProblem(
        Problem.WRONG_ARCHITECTURE, has=", ".join(has) or "?", want=", ".join(want) or "?"
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(value: Any) -> str:
    return "".join(c for c in value if c.isprintable()) if isinstance(value, str) else ""


def _words(value: Any) -> list[str]:
    words = value if isinstance(value, list) else []
    return [_plain(word)[:200] for word in words[:WORDS_MAX]]


def _ports(value: Any) -> list[int]:
    """``{"8080/tcp": {}}`` → [8080]"""
    names = [str(name).partition("/") for name in list(_mapping(value))[:WORDS_MAX]]
    found = {int(p) for p, _slash, kind in names if _PORT.match(p) and kind in {"", "tcp"}}
    return sorted(p for p in found if 0 < p < 2**16)


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
