"""Documents that people write (YAML, JSON): one shape, every key known, every value of its type.

apiVersion: berth.dev/v1
kind: …
metadata: {name: …, project: …}
spec: {…}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from common.errors import Invalid, no_such_field

API_VERSION = "berth.dev/v1"


@dataclass(frozen=True)
class Document:
    """What a document says; keys of ``spec`` that were not written are not there."""

    name: str
    project: str
    spec: Mapping[str, Any]


def parse(document: Any, *, kind: str, spec: Mapping[str, type]) -> Document:
    """Return what the document says; Invalid names the first thing that is not right."""
    top = mapping(document, "", {"apiVersion", "kind", "metadata", "spec"})
    if top.get("apiVersion") != API_VERSION:
        raise wrong("apiVersion", _("It must be “%(value)s”.") % {"value": API_VERSION})
    if top.get("kind") != kind:
        raise wrong("kind", _("It must be “%(value)s”.") % {"value": kind})
    meta = mapping(top.get("metadata"), "metadata", {"name", "project"})
    name, project = meta.get("name"), meta.get("project", "")
    if not isinstance(name, str):
        raise wrong("metadata.name", _("Give it a name."))
    if not isinstance(project, str):
        raise wrong("metadata.project", _("It must be text."))
    said = mapping(top.get("spec") or {}, "spec", set(spec))
    for key, value in said.items():
        _check_type(key, value, spec[key])
    return Document(name, project, said)


def wrap(kind: str, name: str, project: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document that ``parse`` reads."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "project": project},
        "spec": dict(spec),
    }


def require_project(named: str, slug: str) -> None:
    """Refuse a document that names another project than the one it was sent to."""
    if named not in {"", slug}:
        raise wrong("metadata.project", _("It names another project than the one it was sent to."))


def mapping(value: Any, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise wrong(where or "document", _("It must be a mapping."))
    for key in value:
        if key not in known:
            path = f"{where}.{key}" if where else key
            raise wrong(path, no_such_field(key, known))
    return value


def wrong(where: str, message: str) -> Invalid:
    return Invalid(f"{where}: {message}", fields={where: [message]})


def _check_type(key: str, value: Any, wanted: type) -> None:
    if value is None:
        return
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        names = {
            str: _("text"),
            int: _("a whole number"),
            bool: _("true or false"),
            dict: _("a mapping"),
            list: _("a list"),
        }
        raise wrong(f"spec.{key}", _("It must be %(kind)s.") % {"kind": names[wanted]})


ENV_NAME = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
# Names that change what code is loaded, which devices are seen, or who the workload is.
_PREFIXES = ("LD_", "DYLD_", "NVIDIA_", "CUDA_", "JUPYTERHUB_", "BERTH_", "GLIBC_")
_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "VIRTUAL_ENV"),
        *("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONINSPECT"),
        *("JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "JUPYTER_RUNTIME_DIR"),
        *("JUPYTER_DATA_DIR", "MEM_LIMIT", "CPU_LIMIT", "BASH_ENV", "ENV", "IFS", "GCONV_PATH"),
        *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "NODE_OPTIONS"),
    }
)


def is_env_name(text: object) -> bool:
    return isinstance(text, str) and bool(ENV_NAME.match(text))


def is_env_refused(name: str) -> bool:
    """Whether only Berth itself may set it."""
    upper = name.upper()
    return upper in _NAMES or upper.startswith(_PREFIXES)


@dataclass(frozen=True)
class Change:
    """One field that would be set or changed. Values of an environment are never shown."""

    field: str
    before: Any
    after: Any
