"""Seeing drift: what of a live object counts, as a short hash.

The namespace carries the annotation ``berth.dev/bundle``: ``Kind/name`` → hash of every object
that belongs there. Whoever watches can tell from live objects alone what is missing or was
changed by hand; nobody needs to know what we would build.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

_CONTENT = {
    "NetworkPolicy": ("spec",),
    "ResourceQuota": ("spec",),
    "LimitRange": ("spec",),
    "ServiceAccount": ("automountServiceAccountToken",),
    "Role": ("rules",),
    "RoleBinding": ("roleRef", "subjects"),
    "Namespace": (),
}
_LABELS = frozenset(
    {
        f"berth.dev/{name}"
        for name in (
            "managed",
            "instance",
            "installation",
            "uid",
            "kind",
            "project",
            "owner",
            "queue",
        )
    }
    | {
        f"pod-security.kubernetes.io/{mode}{suffix}"
        for mode in ("audit", "enforce", "warn")
        for suffix in ("", "-version")
    }
)


def key_of(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind']}/{obj['metadata']['name']}"


def digest(obj: Mapping[str, Any]) -> str:
    """Return the hash of what matters in ``obj``; the same for what was built and what lives."""
    labels = obj["metadata"].get("labels") or {}
    said = {
        "labels": {k: v for k, v in labels.items() if k in _LABELS},
        **{name: _clean(obj.get(name)) for name in _CONTENT[obj["kind"]]},
    }
    return short(json.dumps(said, sort_keys=True, separators=(",", ":")))


def short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests(objects: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {key_of(o): digest(o) for o in objects}


def drift(expected: Mapping[str, str], live: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return ``Kind/name`` of what is missing or differs. Secrets can't be seen from here."""
    found = digests(o for o in live if o["kind"] in _CONTENT)
    return sorted(
        key
        for key, wanted in expected.items()
        if not key.startswith("Secret/") and found.get(key) != wanted
    )


def _clean(value: Any) -> Any:
    """Leave out what the API server leaves out: nulls and empty lists (never empty objects,
    which mean “everything” in a selector).
    """
    if isinstance(value, Mapping):
        return {k: _clean(v) for k, v in value.items() if v is not None and v != []}
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return value if value != [] else None
