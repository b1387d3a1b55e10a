"""The first screen: what can start now, what runs, what waits."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from budgets import selectors as budgets
from common.templatetags.berth import translated
from notebooks import selectors
from notebooks.choices import WorkspaceKind
from notebooks.kind import WORKSPACE, row_of_preset
from placement.clusters import clusters_of
from placement.fleet import Fleet
from projects.access import (
    Permission,
    keep_roles,
    permissions_of,
    projects_visible_to,
    roles_kept,
)
from projects.models import Project
from projects.ui.base import SESSION_PROJECT, PlatformView
from quotas import selectors as quotas
from runtime.protocol import Desired, Phase
from work.attached import Attached
from work.selectors import may_change, shared_with, visible_to, workload_get
from work.services.plan import cost_per_hour, prices
from work.services.resolve import Resolved, refusal_of, request_of
from work.ui.home import running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet

    from clusters.models import Cluster
    from notebooks.models import Preset, Workspace
    from placement.decision import Decision, KindRoom

MINE_SHOWN = 24
CARDS_SHOWN = 12  # presets on a page; more of them come with a search


@dataclass(frozen=True)
class Card:
    """A preset as it stands now."""

    preset: Preset
    forecast: Decision
    price: Decimal
    nonce: str
    cluster: str = ""  # said where there are several
    refusal: str = ""  # why no cluster, or which limit or budget, would not let it in now

    @property
    def kinds(self) -> list[KindRoom]:
        """The kinds of GPU that it may get, as far as there are any."""
        return [room for room in self.forecast.rooms if room.total]

    @property
    def free(self) -> int:
        return sum(kind.free for kind in self.kinds)

    @property
    def total(self) -> int:
        return sum(kind.total for kind in self.kinds)

    @property
    def starts_now(self) -> bool:
        return not self.refusal and self.forecast.starts_now


def cards(account: quotas.Account) -> list[Card]:
    """Return the presets of a project as they are for somebody, those that start now first."""
    project = account.project
    usable = clusters_of(project)
    fleet = Fleet(usable, project.uid)
    presets = list(selectors.presets_for(project))
    known = prices() if any(preset.gpus for preset in presets) else {}
    spent = budgets.Account()
    if any(preset.gpus for preset in presets):
        spent = budgets.Account.of(project, account.owner)
    made = (_card(preset, fleet, usable, account, spent, known) for preset in presets)
    return sorted((card for card in made if card), key=lambda card: not card.starts_now)


def _can_run(cluster: Cluster, preset: Preset) -> bool:
    """Whether a preset makes sense there as it is."""
    if preset.cluster_key:
        return preset.cluster_key == cluster.key
    return cluster.runs_images or preset.kind == WorkspaceKind.NOTEBOOK


def _card(
    preset: Preset,
    fleet: Fleet,
    usable: list[Cluster],
    account: quotas.Account,
    spent: budgets.Account,
    known: Mapping[str, Decimal],
) -> Card | None:
    """Return the card, None where no cluster can run the preset now.

    It tells of the cluster that a press on it would choose, and what would refuse the press.
    """
    able = [row for row in usable if _can_run(row, preset)]
    if not able:
        return None
    row = row_of_preset(preset, account.project, account.owner)
    ranked = fleet.ranked(able, request_of(WORKSPACE, row))
    asked = [(one, refusal_of(one, WORKSPACE, row, {})) for one in ranked]
    decision, error = next((pair for pair in asked if pair[1] is None), asked[0])
    found = Resolved(WORKSPACE, row, Attached(), made=decision)
    refusal = error.message if error else ""
    if error is None:
        refusal = " ".join(one.sentence for one in account.refusals(found.amounts, {}))
        budget = spent.verdict(found.amounts, row.time_limit_minutes)
        refusal = refusal or (budget.sentence if budget.refusal else "")
    return Card(
        preset=preset,
        forecast=decision,
        price=cost_per_hour(preset.resources, known),
        nonce=secrets.token_urlsafe(12),
        cluster=decision.cluster.label if len(usable) > 1 else "",
        refusal=refusal,
    )


class Home(PlatformView):
    """``GET /``; an htmx request gets the part that changes."""

    required_platform: ClassVar[Any] = {"GET": "user"}
    template_name = "portal/home.html"
    partial_name = "portal/_home.html"

    @roles_kept()
    def get(self, request: HttpRequest) -> HttpResponse:
        project = self._project(request)
        mine = (
            visible_to(self.principal, WORKSPACE)
            .filter(owner=self.principal.user)
            .exclude(desired=Desired.ABSENT)
        )
        rows, others = _latest(mine.order_by("-last_used_at", "-id"))
        keep_roles(self.principal, {row.project_id for row in rows})
        shared, others_shared = _latest(shared_with(self.principal, WORKSPACE))
        waiting = [row for row in rows if row.shown_phase == Phase.PENDING]
        context: dict[str, Any] = {
            "project": project,
            "mine": _sorted([row for row in rows if row not in waiting]),
            "waiting": waiting,
            "startable": {
                row.pk
                for row in rows
                if not row.project.archived_at and may_change(self.principal, row)
            },
            "others": others,
            "shared": shared,
            "others_shared": others_shared,
            "others_work": running(self.principal),
        }
        if project is not None:
            granted = permissions_of(self.principal, project)
            can_start = Permission.WORKSPACE_CREATE in granted and not project.archived_at
            context["can_start"] = can_start
            account = quotas.Account(project, self.principal.user)
            if can_start:
                context |= _presets(request, account)
            if Permission.QUOTA_READ in granted:
                context["share"] = account.shares()
        return self.render(context)

    def _project(self, request: HttpRequest) -> Project | None:
        """Return the project last looked at, or the first one of one's own."""
        mine = projects_visible_to(self.principal).filter(archived_at__isnull=True)
        slug = request.session.get(SESSION_PROJECT)
        found = mine.filter(slug=slug).first() if slug else None
        return found or mine.filter(memberships__user=self.principal.user).order_by("name").first()


def _latest(found: QuerySet[Workspace]) -> tuple[list[Workspace], list[Project]]:
    """Return as many as are shown, and if there are more, the projects that have any of them."""
    rows = list(found[: MINE_SHOWN + 1])
    if len(rows) <= MINE_SHOWN:
        return rows, []
    places = Project.objects.filter(pk__in=found.order_by().values("project_id"))
    return rows[:MINE_SHOWN], list(places.order_by("name", "id"))


class PresetSearch(forms.Form):
    use_required_attribute = False

    q = forms.CharField(
        label=_("Search presets"),
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs={"type": "search"}),
    )


def _presets(request: HttpRequest, account: quotas.Account) -> dict[str, Any]:
    """Return a page of the cards, and the search where one page is not all of them."""
    found, form = cards(account), PresetSearch(request.GET or None)
    many = len(found) > CARDS_SHOWN
    if many and form.is_valid() and (sought := form.cleaned_data["q"]):
        found = [card for card in found if _matches(card.preset, sought.casefold())]
    page = Paginator(found, CARDS_SHOWN).get_page(request.GET.get("page"))
    return {"cards": page, "form": form if many else None}


def _matches(preset: Preset, sought: str) -> bool:
    said = (preset.name, preset.description)
    words = (*said, *map(translated, said), preset.slug, *preset.resources.kinds)
    return any(sought in word.casefold() for word in words)


_ORDER = {Phase.RUNNING: 0, Phase.STARTING: 1, Phase.STOPPING: 2, Phase.FAILED: 3}


def _sorted(rows: list[Workspace]) -> list[Workspace]:
    return sorted(rows, key=lambda row: _ORDER.get(row.shown_phase, 4))


class Find(PlatformView):
    """The short address of a workspace leads to its page, for who may see it."""

    required_platform: ClassVar[Any] = {"GET": "user"}

    def get(self, request: HttpRequest, workspace: str) -> HttpResponse:  # noqa: ARG002
        row = workload_get(self.principal, WORKSPACE, workspace)
        return HttpResponseRedirect(row.get_absolute_url())
