"""The pages of volumes: the list, making one, and one from every side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from common.clock import now
from common.ui.components import BAR, HEIGHT, LINE, STEP, column_left, column_scale, limit_mark
from common.ui.responses import go, to_yaml
from events import selectors as events
from projects.access import Permission
from projects.ui.base import ProjectView
from projects.ui.forms import attempt
from volumes import measuring, references, selectors, topology
from volumes.choices import VolumeKind
from volumes.models import Volume, VolumeDay
from volumes.services import create, edit, manifest
from volumes.ui.forms import NAMES, FilterForm, SettingsForm, VolumeForm
from volumes.ui.present import Tab, VolumeTable, more_of

PER_PAGE = 25
READ: Mapping[str, Permission] = {"GET": Permission.VOLUME_READ}


class List(ProjectView):
    """All volumes of the project, and those that others offer to it."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "volumes/list.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        rows = selectors.volumes_visible_to(self.principal, self.project)
        table = VolumeTable(selectors.narrowed(rows, self.principal, request.GET))
        RequestConfig(request, paginate={"per_page": PER_PAGE, "silent": True}).configure(table)
        shown = [row.record for row in table.paginated_rows]
        table.mounted = references.counts_of([row.uid for row in shown])
        context = {
            "table": table,
            "filters": FilterForm(request.GET),
            "transfers": list(selectors.transfers_asked_of(self.principal, self.project)[:20]),
            "can_create": self.can(Permission.VOLUME_CREATE) and not self.project.archived_at,
        }
        return self.render(context)


class Create(ProjectView):
    """Name and size; everything else has a default."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.VOLUME_CREATE,
        "POST": Permission.VOLUME_CREATE,
    }
    template_name = "volumes/create.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        return self.render({"form": VolumeForm(project=self.project)})

    def post(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        form = VolumeForm(request.POST, project=self.project)
        if form.is_valid():
            act = partial(
                create.volume_create,
                principal=self.principal,
                project=self.project,
                wanted=form.wanted(),
            )
            if (row := attempt(form, act, NAMES)) is not None:
                messages.success(request, _("“%(name)s” is being made.") % {"name": row.name})
                return go(request, row.get_absolute_url())
        return self.render({"form": form}, status=422)


class VolumeView(ProjectView):
    """A page of one volume. An app that brings a tab builds on it and names the tab."""

    tab: ClassVar[str] = "overview"

    def volume(self) -> Volume:
        return selectors.volume_get(self.principal, self.kwargs["volume"], self.project)

    def page(self, row: Volume, context: dict[str, Any] | None = None) -> dict[str, Any]:
        granted = self.entry.granted
        return {
            "volume": row,
            "tabs": self._tabs(row),
            "may_change": selectors.changes(self.principal, row, granted),
            "may_write": selectors.writes(self.principal, row, granted),
            "may_launch_with": self._may_start(row, Permission.WORKSPACE_CREATE)
            and row.kind != VolumeKind.HOME,
            "may_load": self._may_start(row, Permission.LOAD_CREATE)
            and not row.is_full
            and selectors.writes(self.principal, row, granted),
            "may_hand_over": selectors.can_transfer(row)
            and selectors.is_owner(self.principal, self.project),
            **(context or {}),
        }

    def _may_start(self, row: Volume, right: Permission) -> bool:
        """Whether something that uses it may be started from its page."""
        usable = selectors.is_usable(self.principal, row, self.entry.granted)
        return usable and self.can(right) and not self.project.archived_at

    def _tabs(self, row: Volume) -> list[dict[str, Any]]:
        granted = self.entry.granted
        tabs = [Tab("overview", "volumes:detail", _("Overview"))]
        tabs += more_of(self.principal, row)
        if selectors.keeps(self.principal, row, granted) and not row.is_being_deleted:
            tabs.append(Tab("snapshots", "volumes:snapshots", _("Snapshots")))
        tabs.append(Tab("events", "volumes:events", _("Events")))
        tabs.append(Tab("usage", "volumes:usage", _("Usage")))
        tabs.append(Tab("yaml", "volumes:yaml", "YAML"))
        if selectors.changes(self.principal, row, granted) and not row.is_being_deleted:
            tabs.append(Tab("settings", "volumes:settings", _("Settings")))
        keys = {"project": self.project.slug, "volume": row.uid}
        return [
            {
                "label": tab.label,
                "url": reverse(tab.route, kwargs=keys),
                "current": tab.key == self.tab,
            }
            for tab in tabs
        ]


class Look(VolumeView):
    """A page that shows something of one volume."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ

    def shown(self, row: Volume) -> dict[str, Any]:
        """Return what the template shows besides the volume itself."""
        raise NotImplementedError

    def get(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        del request, kwargs
        row = self.volume()
        return self.render(self.page(row, self.shown(row)))


class Detail(Look):
    """How full it is, who has it mounted, what it is."""

    template_name = "volumes/detail.html"
    partial_name = "volumes/_state.html"

    def shown(self, row: Volume) -> dict[str, Any]:
        owns = selectors.is_owner(self.principal, self.project)
        return {
            "holders": references.holders_of(row),
            "price": selectors.price_of(row),
            "near": topology.names_near(row),
            "growth_refusal": selectors.growth_refusal(row),
            "transfer": selectors.transfer_of(row) if owns else None,
        }


class Snapshots(Look):
    """Copies of it; making one, putting one back."""

    template_name = "volumes/snapshots.html"
    tab = "snapshots"

    def shown(self, row: Volume) -> dict[str, Any]:
        copies = list(selectors.snapshots_of(self.principal, row))
        return {"snapshots": copies, "can_snapshot": selectors.can_snapshot(row)}


class Events(Look):
    template_name = "volumes/events.html"
    tab = "events"

    def shown(self, row: Volume) -> dict[str, Any]:
        here = events.of_target(row.uid).filter(project_uid=self.project.uid)
        told, more = events.newest(here)
        return {"events": told, "more_events": more}


class Yaml(Look):
    template_name = "volumes/yaml.html"
    tab = "yaml"

    def shown(self, row: Volume) -> dict[str, Any]:
        return {"manifest": to_yaml(manifest.manifest_of(row))}


class Settings(VolumeView):
    """Name, size, description, who writes; handing over; deletion."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.VOLUME_READ,
        "POST": Permission.VOLUME_READ,  # its maker, or who manages volumes: services decide
    }
    template_name = "volumes/settings.html"
    tab = "settings"

    def get(self, request: HttpRequest, project: str, volume: UUID) -> HttpResponse:  # noqa: ARG002
        row = self.volume()
        return self._page(row, SettingsForm(row=row))

    def post(self, request: HttpRequest, project: str, volume: UUID) -> HttpResponse:  # noqa: ARG002
        row = self.volume()
        form = SettingsForm(request.POST, row=row)
        if form.is_valid():
            act = partial(
                edit.volume_edit, principal=self.principal, volume=row, changes=form.changes()
            )
            if attempt(form, act, NAMES) is not None:
                messages.success(request, _("Saved."))
                return go(request, row.get_absolute_url())
        return self._page(row, form, 422)

    def _page(self, row: Volume, form: SettingsForm, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "holders": references.holders_of(row),
            "transfer": selectors.transfer_of(row),
        }
        return self.render(self.page(row, context), status=status)


LEAST_DAYS = 30  # that a drawing is wide, so that one column is not all of it


@dataclass(frozen=True)
class Column:
    day: VolumeDay
    x: int
    top: int
    height: int
    limit: int | None


@dataclass(frozen=True)
class Chart:
    columns: list[Column]
    first: date
    last: date
    height: int = HEIGHT
    bar: int = BAR  # width of a column
    mark: int = 2 * LINE  # height of the mark of the size

    @property
    def width(self) -> int:
        return ((self.last - self.first).days + 1) * STEP


def chart(days: Sequence[VolumeDay], until: date) -> Chart:
    """Draw days where they are in time: one on which nobody measured leaves a gap."""
    first = min([until - timedelta(days=LEAST_DAYS - 1), *(one.day for one in days)])
    unit = column_scale(max([max(one.used_bytes, one.size_bytes or 0) for one in days], default=0))
    columns = []
    for one in days:
        height = round(one.used_bytes * unit)
        limit = None if one.size_bytes is None else limit_mark(one.size_bytes, unit)
        columns.append(
            Column(one, column_left((one.day - first).days), HEIGHT - height, height, limit)
        )
    return Chart(columns, first, max([until, *(one.day for one in days)]))


class Usage(Look):
    """How full it was over time, who has it mounted, and where to see what takes the room."""

    template_name = "volumes/usage.html"
    tab = "usage"

    def shown(self, row: Volume) -> dict[str, Any]:
        days = measuring.days_of(row)
        return {
            "holders": references.holders_of(row),
            "days": days[::-1],
            "chart": chart(days, now().date()),
            "may_look_inside": any(tab.key == "files" for tab in more_of(self.principal, row)),
        }
