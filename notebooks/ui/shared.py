"""What the pages of workspaces share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.errors import BerthError, Invalid
from common.ui import responses
from common.ui.responses import go, to_yaml

if TYPE_CHECKING:
    from django.http import HttpRequest

    from notebooks.ui.forms import SizeForm

__all__ = ["go", "refuse", "to_yaml", "whole"]
FORM_FIELDS = {"cpu_milli": "cpu", "memory_mib": "memory", "shm_mib": "shm"}


def refuse(request: HttpRequest, form: SizeForm, error: BerthError) -> int:
    return responses.refuse(request, form, error, FORM_FIELDS)


def whole(text: str, field: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:  # noqa: PLR2004
        raise Invalid(_("A whole number, please."), fields={field: [_("A whole number, please.")]})
    return int(text)
