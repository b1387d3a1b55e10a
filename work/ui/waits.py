"""A press on what would start work sooner: it is changed so, and can be changed back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from common.errors import Conflict, wrong
from common.ui.responses import go
from work.fields import Count
from work.services import workload_edit
from work.ui.base import OneView

_DIGITS = 6


class Change(OneView):
    """Change what one that waits asks for: GPUs, replicas, the kind, what keeps it together."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        said = self._said(request.POST)
        generation = request.POST.get("generation", "")
        before = {name: getattr(row, name) for name in said}

        def check(locked: Any) -> None:
            if not (locked.is_waiting or locked.is_held_back):
                raise Conflict(_("It does not wait any more: nothing was changed."))
            if str(locked.generation) != generation:
                raise Conflict(_("It was changed meanwhile. Look at it as it is now."))

        after = workload_edit(principal=self.principal, row=row, said=said, check=check)
        undo = {
            "text": _("“%(name)s” is changed.") % {"name": after.name},
            "url": self.pages.address("change", after),
            "said": {**before, "generation": after.generation},
        }
        messages.success(request, render_to_string("work/_undo.html", undo, request))
        return go(request, self.pages.address("detail", after))

    def _said(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is to change; nothing else of it can be changed here."""
        said: dict[str, Any] = {}
        for field in self.kind.table:
            if not field.sooner or field.name not in given:
                continue
            text = said[field.name] = given[field.name][:255]
            if isinstance(field, Count):
                if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
                    raise field.wrong(_("A whole number, please."))
                said[field.name] = int(text)
        if not said:
            raise wrong("gpus", _("Say what to change."))
        return said
