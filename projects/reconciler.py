"""A project's row goes last: it waits until all it held is gone, then removes itself.

For what is on a cluster that does not answer it does not wait: those rows stay, wanted no more,
and the engine removes what they stand for when the cluster answers again.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _

from clusters.selectors import node_ranges
from clusters.services import detach
from common.clock import now
from events.services import record
from projects import hooks, namespaces
from projects.models import Invitation, KubeGrant, Membership, Project, ProjectNamespace
from runtime import observe
from runtime.capabilities.tenants import KubeUser, SupportsTenants, TenantSpec
from runtime.models import ObservedWorkload, Reconcilable
from runtime.ports import cluster_provider
from runtime.protocol import (
    Desired,
    Driver,
    DriverError,
    NotYet,
    Observation,
    Phase,
    Seen,
    Unreachable,
)
from runtime.reasons import Reason
from runtime.reconcilers import Outcome, Transition

LOOK_AGAIN_S = 2.0
SILENCE = timedelta(minutes=1)  # a portal or a cluster that starts again is waited for


class ProjectReconciler:
    kind = Project.KIND
    model: type[Reconcilable] = Project

    def step(self, row: Project, observation: Observation | None) -> Outcome:
        del observation  # a project has nothing outside of its own on one machine
        if row.desired != Desired.ABSENT:
            return Outcome(Phase.RUNNING)
        left = hooks.summaries(row)
        if not left or _is_out_of_reach(row, {s.kind for s in left}):
            return Outcome(Phase.DELETED, gone=True)
        # Asked again on every pass: something may have slipped in beside the request.
        hooks.request_delete(row, None)
        return Outcome(
            Phase.DELETING,
            "contents",
            _("Waiting for: %(what)s") % {"what": "; ".join(s.text for s in left)},
            requeue_s=LOOK_AGAIN_S,
        )

    def topics(self, row: Any) -> list[str]:
        return [f"project:{row.uid}", "operators"]


def _is_out_of_reach(row: Project, kinds: set[str]) -> bool:
    """Whether all that is left is asked to go, and on clusters that don't answer for a while."""
    if row.phase_since is None or now() - row.phase_since < SILENCE:
        return False
    silent = detach.silent()
    found = [item for _reconciler, item in detach.live_rows(project=row)] if silent else []
    found += list(ProjectNamespace.objects.filter(project=row, deleted_at__isnull=True))
    return kinds <= {item.KIND for item in found} and all(
        item.cluster_key in silent
        and (item.desired == Desired.ABSENT or item.KIND not in kinds)  # goes with its volume
        for item in found
    )


def forget_people(transition: Transition) -> None:
    """When the row goes, memberships and invitations go in the same transaction."""
    row = transition.row
    if transition.gone and row.KIND == Project.KIND:
        Membership.objects.filter(project=row).delete()
        Invitation.objects.filter(project=row).delete()
        if found := [detach.left_of(item) for _reconciler, item in detach.live_rows(project=row)]:
            record(
                actor=None,
                verb="project.left-behind",
                target=row,
                project_uid=row.uid,
                **detach.told_of(found),
            )


# Keeps namespaces as they should be: makes them, puts back what was changed by hand, ends them.
#
# Writes happen only when what is wanted changed or when drift was seen. Two who fight over the same
# object meet every few seconds at most, then ever more rarely; what keeps projects apart is put
# back at once however often, and only told of more rarely, all that was in one word.


REPAIRED, OPENED = "repaired", "opened"  # words on the outcome's timeline
# Without these somebody else could come in, or take more than is his: they never wait.
ISOLATION = ("Namespace/", "NetworkPolicy/", "Role/", "RoleBinding/", "ServiceAccount/")
PAUSE_S = 3.0  # between two repairs of one place; doubles
PAUSE_MAX_S = 300.0
MEMORY_S = 600.0  # repairs that are remembered
VERIFY_S = 600.0  # looked at again when nobody watches
FORM = 3  # raised when the same wishes are to be built otherwise: every place is applied anew


class PlaceReconciler:
    kind = ProjectNamespace.KIND
    model: type[Reconcilable] = ProjectNamespace
    observes = True
    closes_when_denied = True  # nothing new starts where its guards may not be put back
    related = ("project",)

    def phase_on_error(self, row: ProjectNamespace) -> Phase:
        return Phase.DELETING if row.desired == Desired.ABSENT else Phase(row.phase)

    def step(self, row: ProjectNamespace, observation: Observation | None) -> Outcome:
        driver = cluster_provider().driver_for(row.cluster_key)
        if not isinstance(driver, SupportsTenants):
            message = "This process has no credential for the cluster."
            raise Unreachable(message)
        if row.desired == Desired.ABSENT:
            return self._remove(driver, row)
        return self._keep(driver, row, observation)

    # --- wanted -------------------------------------------------------------------------------
    def _keep(
        self, driver: SupportsTenants, row: ProjectNamespace, observation: Observation | None
    ) -> Outcome:
        spec = spec_of(row)
        mark = _mark(spec, driver)
        ref = dict(row.external_ref)
        is_known = ref.get("spec") == mark and row.phase == Phase.RUNNING
        is_fine = is_known and observation is not None and not _is_off(observation, mark)
        pause = _pause(ref) if is_known else 0.0
        waits = not is_fine and pause > 0 and not _is_isolation(observation)
        opened = _newly_opened(ref, observation)
        if not (is_fine or waits):
            alive = {g for u in spec.kube_users for g in u.grants}
            revoked = tuple(g for g in ref.get("grants", ()) if g not in alive)
            failed: DriverError | None = None
            try:
                put_back = driver.ensure_tenant(replace(spec, mark=mark, revoked=revoked))
            except DriverError as error:
                failed, put_back = error, error.put_back
            else:
                ref.update(spec=mark, namespace=row.namespace, name=row.namespace)
                ref["grants"] = sorted(alive)
            was_whole = "spec" in row.external_ref
            is_news = was_whole and not {*put_back} <= {*ref.get("untold", ())}
            if is_news:
                ref["untold"] = sorted({*ref.get("untold", ()), *put_back})
            if failed is not None and is_news:  # it differs no more: noted now, told with the rest
                phase = Phase(row.phase)
                return Outcome(phase, row.reason, row.message, external_ref=ref, requeue_s=0.0)
            if failed is not None:
                raise failed
        outcome = replace(self._rest(row, ref), timeline=opened)
        if waits or (pause > 0 and "untold" in ref):
            return replace(outcome, requeue_s=pause)
        if "untold" not in ref:
            return outcome
        told = ", ".join(ref.pop("untold"))
        ref["repairs"] = [*_recent(ref), time.time()]
        return replace(outcome, timeline=((REPAIRED, told), *opened))

    def _rest(self, row: ProjectNamespace, ref: dict[str, Any]) -> Outcome:
        """As it should be; come back when a kubeconfig ends, or to look where nobody watches."""
        waits = [] if observe.is_watched(row.cluster_key) else [VERIFY_S]
        ends = (
            KubeGrant.objects.filter(place=row, revoked_at__isnull=True, expires_at__gt=now())
            .order_by("expires_at")
            .values_list("expires_at", flat=True)
            .first()
        )
        if ends is not None:
            waits.append(max(1.0, (ends - now()).total_seconds() + 1.0))
        return Outcome(Phase.RUNNING, external_ref=ref, requeue_s=min(waits, default=None))

    # --- not wanted ---------------------------------------------------------------------------
    def _remove(self, driver: SupportsTenants, row: ProjectNamespace) -> Outcome:
        """After everything in it: workspaces, then volumes."""
        left = [s for s in hooks.summaries(row.project) if s.kind != self.kind]
        if left:
            text = "; ".join(s.text for s in left)
            message = _("Waiting for: %(what)s") % {"what": text}
            return Outcome(Phase.DELETING, Reason.CONTENTS_LEFT, message, requeue_s=LOOK_AGAIN_S)
        try:
            driver.remove_tenant(str(row.uid), row.namespace)
        except NotYet as wait:
            return Outcome(Phase.DELETING, requeue_s=wait.retry_in)
        ObservedWorkload.objects.filter(uid=row.uid).delete()
        return Outcome(Phase.DELETED, gone=True)

    def topics(self, row: ProjectNamespace) -> list[str]:
        return [f"project:{row.project.uid}", "operators"]


def spec_of(row: ProjectNamespace) -> TenantSpec:
    logins, version = namespaces.registries_of(row.project.uid)
    return TenantSpec(
        uid=str(row.uid),
        project=str(row.project.uid),
        slug=row.project.slug,
        namespace=row.namespace,
        generation=row.generation,
        registries=logins,
        registries_version=version,
        kube_users=kube_users(row),
        closed=tuple(node_ranges(row.cluster_key)),
    )


def kube_users(row: ProjectNamespace) -> tuple[KubeUser, ...]:
    """Members who hold a kubeconfig that is alive, with what is their own."""
    grants = KubeGrant.objects.filter(
        place=row, revoked_at__isnull=True, expires_at__gt=now(), user__is_active=True
    )
    by_user: dict[Any, list[str]] = {}
    members = set(
        Membership.objects.filter(project=row.project_id).values_list("user__uid", flat=True)
    )
    for user, grant in grants.values_list("user__uid", "uid"):
        if user in members:
            by_user.setdefault(user, []).append(str(grant))
    pods = namespaces.own_pods(row.project, row.cluster_key, list(by_user)) if by_user else {}
    return tuple(
        KubeUser(
            user=str(user),
            viewer=True,
            pods=tuple(sorted(pods.get(user, ()))),
            grants=tuple(sorted(by_user[user])),
        )
        for user in sorted(by_user)
    )


def note_repairs(transition: Transition) -> None:
    """Listener: what was put back is told, in the transaction that says so."""
    row = transition.row
    if not isinstance(row, ProjectNamespace):
        return
    for word, names in transition.outcome.timeline:
        if word in {REPAIRED, OPENED}:
            record(
                actor=None,
                verb=f"place.{word}",
                target=row,
                target_name=row.namespace,
                project_uid=row.project.uid,
                message=names,
                data={"cluster": row.cluster_key, "objects": names.split(", ")[:50]},
            )


def _is_off(observation: Observation, mark: str) -> bool:
    """Whether something is missing or differs, or it is all as an older row wanted it.

    A result is fenced by the row's lease, what a worker writes on the cluster is not: one that was
    away for longer than its lease leaves an older bundle behind, with a note that it is whole.
    """
    is_another = observation.detail.get("mark", mark) != mark
    return observation.seen != Seen.READY or bool(observation.detail.get("drift")) or is_another


def _is_isolation(observation: Observation | None) -> bool:
    """Whether something is off that keeps projects apart."""
    if observation is None:
        return False
    names = _drift(observation)
    return observation.seen == Seen.MISSING or any(n.startswith(ISOLATION) for n in names)


def _drift(observation: Observation | None) -> list[str]:
    """Return what was seen to be missing, or otherwise than it was written."""
    drift = observation.detail.get("drift") if observation is not None else None
    return [str(name) for name in drift] if isinstance(drift, list) else []


def _newly_opened(
    ref: dict[str, Any], observation: Observation | None
) -> tuple[tuple[str, str], ...]:
    """Note which policies of others open pods of the project; return those not told of yet.

    They are somebody's own, who may do so: Berth tells, and does not take them away.
    """
    said = observation.detail.get("foreign") if observation is not None else None
    if not isinstance(said, list):
        return ()
    now_open = [str(name) for name in said]
    news = [name for name in now_open if name not in ref.get("foreign", ())]
    if now_open or "foreign" in ref:
        ref["foreign"] = now_open
    return ((OPENED, ", ".join(news)),) if news else ()


def _mark(spec: TenantSpec, driver: Driver | SupportsTenants) -> str:
    """Return what the namespace was made from: when it differs, it is applied anew."""
    said = (
        FORM,
        spec.namespace,
        spec.generation,
        spec.slug,
        spec.registries_version,
        spec.closed,
        [(u.user, u.viewer, u.pods, u.grants) for u in spec.kube_users],
        repr(getattr(driver, "options", "")),
    )
    return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


def _recent(ref: dict[str, Any]) -> list[float]:
    return [at for at in ref.get("repairs", ()) if time.time() - at < MEMORY_S]


def _pause(ref: dict[str, Any]) -> float:
    """Return how long to let it be, after it was put back already."""
    recent = _recent(ref)
    if not recent:
        return 0.0
    rest: float = min(PAUSE_S * 2 ** (len(recent) - 1), PAUSE_MAX_S)
    return max(0.0, recent[-1] + rest - time.time())
