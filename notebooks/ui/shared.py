"""What the pages of workspaces share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from common.errors import BerthError, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from notebooks.ui.forms import SizeForm

FORM_FIELDS = {"cpu_milli": "cpu", "memory_mib": "memory", "shm_mib": "shm"}


def show_error(form: SizeForm, error: BerthError) -> None:
    """Put what a service said where the person looks: at the field, or on top."""
    if not error.fields:
        form.add_error(None, error.message)
    for field, said in error.fields.items():
        name = FORM_FIELDS.get(field, field)
        form.add_error(name if name in form.fields else None, said)


def whole(text: str, field: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:  # noqa: PLR2004
        raise Invalid(_("A whole number, please."), fields={field: [_("A whole number, please.")]})
    return int(text)


def go(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect; an htmx form is told to go there as a whole page."""
    if getattr(request, "htmx", False):
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def to_yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
