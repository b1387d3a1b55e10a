"""What the operators' acts on clusters share: who may, and how labels are cleaned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import Forbidden, wrong

if TYPE_CHECKING:
    from accounts.principal import Principal

KINDS_OF_WORK = ("notebook", "container", "job", "distributed", "trial", "endpoint")
_KEY = re.compile(
    r"\A([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z"
)
_VALUE = re.compile(r"\A([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z")
_RESOURCE = re.compile(r"\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9._-]{1,63}\Z")
_NAME = re.compile(r"\A[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?\Z")
MAX_LABELS = 20
EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def require_operator(principal: Principal) -> None:
    if not principal.is_operator:
        raise Forbidden(_("Only operators may change clusters."))


def clean_name(value: Any, field: str = "name", limit: int = 63) -> str:
    name = str(value or "").strip()
    if not _NAME.match(name) or len(name) > limit:
        raise wrong(field, _("Small letters, digits, “-” and “.”; a letter or digit first."))
    return name


def clean_resource(value: Any, *, empty: bool = False, field: str = "resource") -> str:
    name = str(value or "").strip()
    if (empty and not name) or _RESOURCE.match(name):
        return name
    raise wrong(field, _("A name such as nvidia.com/gpu."))


def clean_label(name: Any, value: Any, field: str) -> tuple[str, str]:
    key, text = str(name).strip(), str(value).strip()
    if not _KEY.match(key) or not _VALUE.match(text):
        raise wrong(field, _("Not a label: %(label)s.") % {"label": f"{key}={text}"[:200]})
    return key, text


def clean_labels(values: Any, field: str = "node_labels") -> dict[str, str]:
    """Label → value."""
    if not isinstance(values, dict) or len(values) > MAX_LABELS:
        raise wrong(field, _("Labels as name and value, at most %(n)d.") % {"n": MAX_LABELS})
    return dict(clean_label(k, v, field) for k, v in values.items())


def clean_label_sets(values: Any, field: str = "node_labels") -> dict[str, list[str]]:
    """Label → accepted values."""
    if not isinstance(values, dict) or len(values) > MAX_LABELS:
        raise wrong(field, _("Labels as name and value, at most %(n)d.") % {"n": MAX_LABELS})
    found: dict[str, list[str]] = {}
    for name, accepted in values.items():
        listed = accepted if isinstance(accepted, list) else [accepted]
        found[str(name).strip()] = sorted({clean_label(name, v, field)[1] for v in listed})
    return {name: accepted for name, accepted in found.items() if accepted}


def clean_tolerations(values: Any, field: str = "tolerations") -> list[dict[str, str]]:
    """Tolerations of taints; one for everything is refused, it would undo every reservation."""
    if not isinstance(values, list) or len(values) > MAX_LABELS:
        raise wrong(field, _("A list of tolerations, at most %(n)d.") % {"n": MAX_LABELS})
    found = []
    for entry in values:
        if not isinstance(entry, dict) or set(entry) - {"key", "operator", "value", "effect"}:
            raise wrong(field, _("A toleration has key, operator, value and effect."))
        key, value = clean_label(entry.get("key", ""), entry.get("value", ""), field)
        operator = str(entry.get("operator") or ("Equal" if value else "Exists"))
        effect = str(entry.get("effect") or "")
        if operator not in {"Equal", "Exists"} or effect not in EFFECTS:
            raise wrong(field, _("A toleration has key, operator, value and effect."))
        made = {"key": key, "operator": operator}
        if operator == "Equal":
            made["value"] = value
        found.append({**made, **({"effect": effect} if effect else {})})
    return found


def clean_uids(values: Any, field: str = "project_uids") -> list[str]:
    from uuid import UUID

    try:
        return sorted({str(UUID(str(value))) for value in values or []})
    except ValueError as error:
        raise wrong(field, _("Not a project.")) from error
