"""The file of ``ai-platform jobs submit training``: read safely, each field known and of its type.

Every value of YAML is the text that stands there, so no version becomes another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from django.utils.translation import gettext as _

from common.errors import Invalid, no_such_field, wrong
from jobs.ai_platform.machines import ROLES
from work.fields import is_storable

MAX_BYTES = 256 * 1024
_MOST = 20_000  # parts of a file
_DEEPEST = 16
_LONGEST = 64  # of a name that is told again

TEXT, COUNT, FLAG = "text", "count", "flag"
LIST = ("text",)
TEXTS: dict[str, Any] = {"*": TEXT}  # any names

_ACCELERATOR: dict[str, Any] = {"count": COUNT, "type": TEXT}
_REPLICA: dict[str, Any] = {
    "imageUri": TEXT,
    "acceleratorConfig": _ACCELERATOR,
    "containerCommand": LIST,
    "containerArgs": LIST,
    "diskConfig": {"bootDiskType": TEXT, "bootDiskSizeGb": COUNT},
    "tpuTfVersion": TEXT,
}
_PARAMETER: dict[str, Any] = {
    **dict.fromkeys(("parameterName", "type", "minValue", "maxValue", "scaleType"), TEXT),
    **dict.fromkeys(("categoricalValues", "discreteValues"), LIST),
}
TRAINING: dict[str, Any] = {
    **dict.fromkeys(("scaleTier", *(f"{role}Type" for role in ROLES)), TEXT),
    **dict.fromkeys((f"{role}Count" for role in ROLES[1:]), COUNT),
    **{f"{role}Config": _REPLICA for role in ROLES},
    **dict.fromkeys(("packageUris", "args"), LIST),
    **dict.fromkeys(("pythonModule", "region", "runtimeVersion", "pythonVersion"), TEXT),
    **dict.fromkeys(("jobDir", "network", "serviceAccount"), TEXT),
    **dict.fromkeys(("useChiefInTfConfig", "enableWebAccess"), FLAG),
    "scheduling": {"maxRunningTime": TEXT, "maxWaitTime": TEXT, "priority": COUNT},
    "encryptionConfig": {"kmsKeyName": TEXT},
    "hyperparameters": {
        **dict.fromkeys(("goal", "hyperparameterMetricTag", "algorithm"), TEXT),
        **dict.fromkeys(("maxTrials", "maxParallelTrials", "maxFailedTrials"), COUNT),
        "enableTrialEarlyStopping": FLAG,
        "resumePreviousJobId": TEXT,
        "params": [_PARAMETER],
    },
}
FILE: dict[str, Any] = {"jobId": TEXT, "labels": TEXTS, "trainingInput": TRAINING}


def read(text: str) -> dict[str, Any]:
    """Return what a file says; Invalid says where it is wrong."""
    return cleaned(loaded(text), FILE)


def loaded(text: str) -> Any:
    """Return what one document of YAML says, each value as it stands; Invalid: it is none."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        message = _("It is larger than %(n)d KiB, which no such file is.")
        raise wrong("config", message % {"n": MAX_BYTES // 1024})
    try:
        _check_events(text)
        found = [one for one in yaml.load_all(text, Loader=_Loader) if one]
    except yaml.YAMLError as error:
        raise wrong("config", _said(error)) from error
    if len(found) > 1:
        raise wrong("config", _("It holds several documents; one job is submitted at a time."))
    return found[0] if found else {}


def cleaned(value: Any, shape: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a mapping in its types, or raise Invalid that names each field that is wrong."""
    faults: dict[str, list[str]] = {}
    found = _cleaned(value, shape, path, faults)
    if faults:
        raise refusal({path: said[0] for path, said in faults.items()})
    return dict(found)


def refusal(said: Mapping[str, str]) -> Invalid:
    """Return the error that names each field that can't be taken."""
    top = "\n".join(f"{path}: {text}" for path, text in said.items())
    return Invalid(top, fields={path: [text] for path, text in said.items()})


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says with what was said otherwise on top, field by field."""
    found = dict(below)
    for name, value in above.items():
        old = found.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            found[name] = merged(old, value)
        else:
            found[name] = value
    return found


def leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each field with its path; a list is one, as is what has no shape."""
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if isinstance(inner, Mapping):
            yield from leaves(inner, here)
        else:
            yield here, inner


def _cleaned(value: Any, shape: Any, path: str, faults: dict[str, list[str]]) -> Any:
    where = path or "config"
    if isinstance(shape, dict):
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            faults[where] = [_("It must be a mapping.")]
            return {}
        found = {}
        for name, inner in value.items():
            below = f"{path}.{name[:_LONGEST]}" if path else name[:_LONGEST]
            kind = shape.get(name, shape.get("*", faults))
            if kind is faults:
                faults[below] = [_unknown(name, shape)]
            elif inner is not None and inner != "":
                found[name] = _cleaned(inner, kind, below, faults)
        return found
    if shape is LIST:
        if isinstance(value, list) and all(_is_scalar(one) for one in value):
            return [str(one) for one in value]
        faults[where] = [_("It must be a list of words.")]
        return []
    if isinstance(shape, list):
        return _listed(value, shape[0], path, faults)
    return _scalar(value, shape, where, faults)


def _listed(
    value: Any, shape: Mapping[str, Any], path: str, faults: dict[str, list[str]]
) -> list[Any]:
    """Return a list of mappings, each in its types."""
    if not isinstance(value, list):
        faults[path] = [_("It must be a list of mappings.")]
        return []
    return [_cleaned(one, shape, f"{path}[{n}]", faults) for n, one in enumerate(value)]


def _scalar(value: Any, shape: str, where: str, faults: dict[str, list[str]]) -> Any:
    if shape == FLAG and str(value).lower() in {"true", "false"}:
        return str(value).lower() == "true"
    if shape == COUNT and _is_scalar(value) and str(value).isdecimal() and len(str(value)) < 10:  # noqa: PLR2004
        return int(value)
    if shape == TEXT and _is_scalar(value):
        return str(value)
    words = {
        FLAG: _("true or false."),
        COUNT: _("It must be a whole number."),
        TEXT: _("It must be text."),
    }
    faults[where] = [words[shape]]
    return None


def _is_scalar(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number or is_storable(value)


def _unknown(name: str, shape: Mapping[str, Any]) -> str:
    """Say that there is no such field, and where one of that name belongs, or which is meant."""
    for path, inner in (("trainingInput", TRAINING), ("scheduling", TRAINING["scheduling"])):
        if name in inner and inner is not shape:
            return _("It belongs below “%(path)s”.") % {"path": path}
    if name in _REPLICA:
        return _("It belongs below “%(path)s”.") % {"path": "masterConfig"}
    return no_such_field(name, shape)


def _check_events(text: str) -> None:
    """Refuse what grows when it is read: anchors, tags that make objects, depth, sheer number."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.BaseLoader)):
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(problem=_("anchors are not taken here"), problem_mark=mark)
        if str(getattr(event, "tag", None) or "!").strip("!"):
            raise yaml.MarkedYAMLError(problem=_("tags are not taken here"), problem_mark=mark)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST or number > _MOST:
            problem = _("it is deeper or longer than any such file")
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _said(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error).splitlines()[0]
    if "'\\t'" in problem:
        problem = _("a tab stands where YAML wants spaces")
    if mark is None:
        return _("It is not YAML: %(why)s") % {"why": problem}
    said = {"line": mark.line + 1, "column": mark.column + 1, "why": problem}
    return _("Line %(line)d, column %(column)d: %(why)s") % said


class _Loader(yaml.BaseLoader):
    """Each value as it stands there, each key once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        known: set[str] = set()
        for key, _value in node.value:
            name = str(key.value)
            if name in known:
                problem = _("“%(name)s” stands twice") % {"name": name[:_LONGEST]}
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            known.add(name)
        return super().construct_mapping(node, deep)
