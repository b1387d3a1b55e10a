"""What writes of models have in common: what may be said, and what stands in the way of an end."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import Conflict, Invalid, wrong
from serving.fields import SLUG
from serving.models import Endpoint, ModelVersion
from work.fields import is_storable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from django.db.models import QuerySet

TEXT_MAX = 500
METRICS_MOST, NAME_MOST, SIGNATURE_MOST = 50, 80, 64 * 1024
AXES_MOST, SIZE_MOST = 32, 2**53  # of a tensor
_NAMED = 5


def require_unserved(name: str, **which: Any) -> None:
    """Raise Conflict that names the endpoints which serve such versions, asleep or not."""
    rows = Endpoint.objects.filter(deleted_at__isnull=True, **which).order_by("name")
    if names := list(rows.values_list("name", flat=True)[: _NAMED + 1]):
        shown = ", ".join(names[:_NAMED])
        message = ngettext(
            "“%(name)s” is served by the endpoint %(names)s: delete that, or let it serve another.",
            "“%(name)s” is served by the endpoints %(names)s: delete them, or let them serve "
            "others.",
            len(names),
        )
        raise Conflict(message % {"name": name, "names": shown}, code="model-serves")


def serves_from(volume: UUID) -> bool:
    """Whether an endpoint serves files of this volume."""
    return _served(volume).exists()


def require_folders_unserved(volume: UUID, paths: Sequence[str]) -> None:
    """Raise Conflict where a path holds, is, or is in the folder of a version that is served."""
    gone = [f"{path}/".lstrip("/") for path in paths]
    for row in _served(volume).select_related("model"):
        kept = f"{row.folder}/".lstrip("/")
        if any(kept.startswith(path) or path.startswith(kept) for path in gone):
            require_unserved(str(row), version=row)


def _served(volume: UUID) -> QuerySet[ModelVersion]:
    there = Endpoint.objects.filter(version=OuterRef("pk"), deleted_at__isnull=True)
    return ModelVersion.objects.filter(Exists(there), volume__uid=volume)


def clean_name(value: str) -> str:
    text = str(value).strip()
    if not re.fullmatch(SLUG, text):
        raise wrong("name", _("Small letters, digits and hyphens, at most 50 of them."))
    return text


def clean_description(value: str) -> str:
    text = " ".join(str(value).split())
    if len(text) > TEXT_MAX or not text.isprintable():
        message = _("At most %(n)d printable characters.") % {"n": TEXT_MAX}
        raise wrong("description", message)
    return text


def clean_metrics(said: Mapping[str, Any]) -> dict[str, float]:
    """Return names and finite numbers."""
    if len(said) > METRICS_MOST:
        raise wrong("metrics", _("At most %(n)d of them.") % {"n": METRICS_MOST})
    found = {}
    for name, value in said.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not abs(value) <= sys.float_info.max:  # nor NaN
            raise wrong("metrics", _("“%(name)s” is no number.") % {"name": str(name)[:NAME_MOST]})
        if not 1 <= len(name) <= NAME_MOST or not name.isprintable():
            raise wrong("metrics", _("Names of 1 to %(n)d characters.") % {"n": NAME_MOST})
        found[name] = float(value)
    return found


def clean_signature(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what goes in and comes out, as the metadata of Open Inference v2 has it."""
    text = json.dumps(said, ensure_ascii=False)
    if len(text) > SIGNATURE_MOST:
        raise wrong("signature", _("The signature is too long."))
    if "\\u0000" in text or not is_storable(text):
        raise wrong("signature", _("It has characters that are no text."))
    for name in ("inputs", "outputs"):
        tensors = said.get(name, [])
        if not isinstance(tensors, list) or not all(map(_is_tensor, tensors)):
            message = _("“%(name)s” is a list of objects with a name, a datatype and a shape.")
            raise wrong("signature", message % {"name": name})
    return dict(said)


def fitting_signature(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return one that a program found; {} where it is too long or odd: that refuses nothing."""
    try:
        return clean_signature(found)
    except (Invalid, RecursionError):
        return {}


def _is_tensor(said: object) -> bool:
    if not isinstance(said, dict):
        return False
    shape, more = said.get("shape", []), said.get("parameters", {})
    if not isinstance(shape, list) or not isinstance(more, dict) or len(shape) > AXES_MOST:
        return False
    columns = more.get("columns", [])
    return (
        isinstance(said.get("name"), str)
        and isinstance(said.get("datatype", ""), str)
        and all(type(size) is int and -1 <= size <= SIZE_MOST for size in shape)
        and isinstance(columns, list)
        and all(isinstance(column, str) for column in columns)
    )
