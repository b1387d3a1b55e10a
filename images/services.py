"""Checking images before anything is started with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.core.cache import cache
from django.utils.translation import get_language

from clusters.models import Cluster
from clusters.options import options_of
from clusters.where import architectures_of, kept_to
from common.errors import BerthError, Invalid
from common.oci import BadReference, ImageProblem, Login, Problem, Reference, parse_reference
from common.streams import turn
from credentials.choices import Use
from credentials.selectors import registry_login, registry_version
from images import lookup
from images.findings import NOTEBOOK, Finding, Verdict, finding_of, judged, refused, unlearned
from images.lookup import SECONDS, look
from images.models import ImageFacts
from placement.decision import Request
from placement.fleet import decision_on
from projects.access import Permission, require
from projects.models import ProjectNamespace
from runtime import gateway
from runtime.protocol import Phase

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from runtime.spec import Placement

QUESTION = "image-check"
Chooser = Callable[["Principal", "Project", Mapping[str, Any]], str]
_choosers: list[Chooser] = []
KEPT_S = 60.0  # a tag may be moved; for so long a start believes the last look
UNSAID_S = 15.0  # of a silent registry: not every start waits for it


def register_chooser(of: Chooser) -> None:
    """``of(principal, project, said)`` → key of the cluster where such a start would go; or ''."""
    _choosers[:] = [of]


def cluster_for(principal: Principal, project: Project, said: Mapping[str, Any]) -> str:
    """Return the cluster that is said, else the one that a start would choose.

    ``said``: image and kind, and what else is known of what a start will ask for.
    """
    if cluster := str(said.get("cluster") or ""):
        return cluster
    return _choosers[0](principal, project, said) if _choosers else ""


def image_check(
    *,
    principal: Principal,
    project: Project,
    cluster_key: str,
    reference: str,
    kind: str = NOTEBOOK,
    fresh: bool = True,
    right: Permission = Permission.WORKSPACE_CREATE,
) -> Finding:
    """Say what is known of an image; asks its registry through the gate, for at most 7 s.

    ``right``: of who asks in the project. ``fresh`` False believes what was said within the last
    minute, and waits for its turn where a person has several questions under way. Call it outside
    of any transaction.
    """
    require(principal, project, right)
    try:
        name = parse_reference(reference.strip())
    except BadReference:
        return refused(reference.strip()[:200], ImageProblem(Problem.BAD_REFERENCE))
    cluster = Cluster.objects.filter(key=cluster_key).first()
    options = options_of(cluster.options if cluster else None)
    asked = {
        "reference": str(name),
        "project": str(project.uid),
        "cluster": cluster_key,
        "kind": kind,
        "run_as": options.run_as_user,
        "architectures": architectures_of(cluster),
    }
    # shared by all projects while none of their sign-ins takes part in the answer
    login = registry_version(project.uid, name.host)
    parts = {**asked, "cluster": "", "project": str(project.uid) if login else "", "login": login}
    parts["language"] = get_language()  # it is kept in words
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    key = f"image-check:{digest[:40]}"
    if not fresh and (kept := cache.get(key)):
        return finding_of(json.loads(kept))
    if fresh and kind == NOTEBOOK:
        # where the project's own work may run there; "" where it may not yet
        place = ProjectNamespace.objects.filter(
            project=project, cluster_key=cluster_key, phase=Phase.RUNNING, deleted_at__isnull=True
        ).first()
        asked["namespace"] = place.namespace if place else ""
    with turn(principal.user.pk, wait_s=0.0 if fresh else SECONDS + 3):
        if not fresh and (kept := cache.get(key)):  # another start asked meanwhile
            return finding_of(json.loads(kept))
        return _asked(name, asked, key)


def _asked(name: Reference, asked: Mapping[str, Any], key: str) -> Finding:
    """Ask the gate, and keep for a while what it said."""
    try:
        found = finding_of(gateway.ask(QUESTION, asked, timeout_s=SECONDS + 3))
    except BerthError as error:
        problem = ImageProblem(Problem.UNREACHABLE, why=error.message)
        return refused(str(name), problem)
    if not found.probing:
        unsaid = found.verdict == Verdict.UNKNOWN
        cache.set(key, json.dumps(found.as_json()), UNSAID_S if unsaid else KEPT_S)
    return found


def require_good(
    *,
    principal: Principal,
    project: Project,
    cluster_key: str,
    reference: str,
    kind: str,
    fresh: bool = False,
    right: Permission = Permission.WORKSPACE_CREATE,
) -> Finding:
    """Return the finding, or raise Invalid for an image that can't work."""
    found = image_check(
        principal=principal,
        project=project,
        cluster_key=cluster_key,
        reference=reference,
        kind=kind,
        fresh=fresh,
        right=right,
    )
    if found.bad:
        raise Invalid(
            found.message, code=f"image-{found.problem}", fields={"image": [found.message]}
        )
    return found


def pinned(reference: str, digest: str) -> str:
    """Return the name that means exactly these bytes; as it is while no digest is known."""
    if not digest or "@" in reference:
        return reference
    return parse_reference(reference).pinned(digest)


def architectures_for(cluster: Cluster, digest: str) -> tuple[str, ...]:
    """Return the kinds of machine that an image must stay on; nothing where any will do.

    What a digest has is known for ever, so a launch keeps it with the digest that it pinned.
    """
    if not digest or len(there := architectures_of(cluster)) == 1:
        return ()
    found = ImageFacts.objects.filter(digest=digest).values_list("platforms", flat=True).first()
    return kept_to(there, found or ())


def answer(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Handle the question where registries may be asked: in the gate."""
    name = parse_reference(str(asked["reference"]))
    found = registry_login(UUID(str(asked["project"])), name.host, Use.CHECK)
    login = Login(*found) if found else None
    try:
        facts = look(name, login, [str(a) for a in asked["architectures"]])
    except ImageProblem as problem:
        return refused(str(name), problem).as_json()
    lookup.forget_old(facts)
    probing, why = False, ""
    if asked.get("namespace") and not facts.singleuser:
        probing, why = lookup.learn(
            facts,
            cluster_key=str(asked["cluster"]),
            namespace=str(asked["namespace"]),
            image=name.pinned(facts.digest),
            placement=_placement(asked, facts),
        )
    finding = judged(name, facts, kind=str(asked["kind"]), run_as=int(asked["run_as"]))
    return unlearned(finding, probing=probing, why=why).as_json()


def _placement(asked: Mapping[str, Any], facts: ImageFacts) -> Placement:
    """Return where a notebook of the project may run that has this image and asks for nothing."""
    found = decision_on(str(asked["cluster"]), Request(NOTEBOOK), UUID(str(asked["project"])))
    return replace(found.nodes, architectures=kept_to(asked["architectures"], facts.platforms))
