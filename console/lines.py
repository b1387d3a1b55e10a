"""Small texts that operators type: one label, toleration or variable on each line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def pairs(text: str, field: str) -> dict[str, str]:
    """``name=value`` on each line."""
    found: dict[str, str] = {}
    for line in lines_of(text):
        name, sign, value = line.partition("=")
        if not sign:
            message = _("Write name=value on each line; this is not: %(line)s") % {"line": line}
            raise Invalid(message, fields={field: [message]})
        found[name.strip()] = value.strip()
    return found


def pairs_text(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in sorted((values or {}).items()))


def sets(text: str, field: str) -> dict[str, list[str]]:
    """``name=value,value`` on each line: any of the values will do."""
    found = pairs(text, field)
    return {name: [v.strip() for v in value.split(",")] for name, value in found.items()}


def sets_text(values: Mapping[str, Iterable[str]]) -> str:
    return "\n".join(f"{name}={','.join(v)}" for name, v in sorted((values or {}).items()))


def cards(text: str, field: str) -> list[dict[str, str]]:
    """``attachment resource`` on each line; without a resource it takes nothing of the node."""
    found = []
    for line in lines_of(text):
        attachment, _space, resource = line.partition(" ")
        if " " in resource.strip():
            message = _("Write attachment and resource on each line; this is not: %(line)s") % {
                "line": line
            }
            raise Invalid(message, fields={field: [message]})
        found.append({"attachment": attachment, "resource": resource.strip()})
    return found


def cards_text(values: Iterable[Mapping[str, str]]) -> str:
    return "\n".join(f"{entry['attachment']} {entry['resource']}".strip() for entry in values or ())


def tolerations(text: str) -> list[dict[str, str]]:
    """``key=value:Effect`` or ``key:Effect`` on each line, as kubectl writes taints."""
    found = []
    for line in lines_of(text):
        rest, _colon, effect = line.rpartition(":")
        if effect not in EFFECTS:
            rest, effect = line, ""
        key, _sign, value = rest.partition("=")
        entry = {"key": key, "value": value, "effect": effect}
        found.append({name: part for name, part in entry.items() if part})
    return found


def tolerations_text(values: Iterable[Mapping[str, str]]) -> str:
    lines = []
    for entry in values or ():
        value = f"={entry['value']}" if entry.get("value") else ""
        effect = f":{entry['effect']}" if entry.get("effect") else ""
        lines.append(f"{entry.get('key', '')}{value}{effect}")
    return "\n".join(lines)
