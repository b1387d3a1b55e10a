"""Machines with their GPUs and who holds them; the queue."""

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from common.errors import NotFound
from console import selectors, work
from console.forms import MachineFilter, ReasonForm
from console.views.base import ConsoleView
from events.services import record
from projects.others import tell_owner
from queues import local


class Machines(ConsoleView):
    """What is there, what is used, by whom; refreshed while somebody looks."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/machines.html"
    partial_name = "console/_machines.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        form = MachineFilter(request.GET or None)
        words = form.cleaned_data["q"] if form.is_valid() else ""
        found = selectors.machines_matching(words.strip())
        return self.render({"machines": found, "form": form, "sought": words.strip()})


class Queue(ConsoleView):
    """Who waits, in order, each with its one sentence."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/queue.html"
    partial_name = "console/_queue.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render({"waiting": selectors.queue(), "flavors": selectors.flavors()})


class QueueAct(ConsoleView):
    """Hold back what waits, let it stand in line again, or cancel it.

    A page asks why it is held back or cancelled; its owner is told (``projects.others``).
    """

    required_platform: ClassVar[Any] = {"GET": "operator", "POST": "operator"}
    template_name = "console/form.html"
    act = ""

    def get(self, request: HttpRequest, uid: UUID) -> HttpResponse:  # noqa: ARG002
        if self.act == "release":  # nothing is asked before it
            return HttpResponseRedirect(reverse("console:queue"))
        return self._asked(self._row(uid), ReasonForm())

    def post(self, request: HttpRequest, uid: UUID) -> HttpResponse:
        row = self._row(uid)
        said = ""
        if self.act != "release":
            form = ReasonForm(request.POST)
            if not form.is_valid():
                return self._asked(row, form, status=422)
            said = form.cleaned_data["reason"]
        if self.act == "cancel":
            work.ways()[row.KIND].end(principal=self.principal, row=row, said=said)
        else:
            self._hold(row, said)
        done = {
            "hold": _("“%(name)s” is held back: others pass it."),
            "release": _("“%(name)s” stands in line again."),
            "cancel": _("“%(name)s” is cancelled."),
        }
        messages.success(request, done[self.act] % {"name": row.name})
        return HttpResponseRedirect(reverse("console:queue"))

    def _hold(self, row: Any, said: str) -> None:
        if not local.hold(row.uid, held=self.act == "hold"):
            raise NotFound(_("It does not wait any more."))
        verb = "queue.held" if self.act == "hold" else "queue.let-go"
        record(
            actor=self.principal, verb=verb, target=row, project_uid=row.project.uid, message=said
        )
        if row.owner != self.principal.user:
            tell_owner(self.principal, row.owner, "work.held", row, said)

    def _asked(self, row: Any, form: ReasonForm, status: int = 200) -> HttpResponse:
        if self.act == "hold":
            heading, submit = _("Hold “%(name)s” back"), _("Hold it back")
            note = _("Others pass it until it is let in line again. %(owner)s is told why.")
        else:
            heading, submit = _("Cancel “%(name)s”"), _("Take it out of the queue")
            note = _("It leaves the queue and does not start. %(owner)s is told why.")
        context = {
            "form": form,
            "heading": heading % {"name": row.name},
            "note": note % {"owner": row.owner.label},
            "submit": submit,
            "back_url": reverse("console:queue"),
            "back_label": _("Queue"),
        }
        return self.render(context, status=status)

    def _row(self, uid: UUID) -> Any:
        for way in work.ways().values():
            rows = way.model.objects.filter(uid=uid, deleted_at__isnull=True)
            if row := rows.select_related("project", "owner").first():
                return row
        raise NotFound(_("It does not wait any more."))
