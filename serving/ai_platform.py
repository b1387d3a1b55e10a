"""Models and versions by the words of AI Platform Prediction. Pure.

``versions create`` there made a version and put it behind an address; here it registers one, and
deploys it as an endpoint that is called as its model, where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from jobs.ai_platform.documents import leaves
from jobs.ai_platform.sheet import Line
from serving.choices import Framework

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs.ai_platform.machines import Tables

FRAMEWORKS = {
    "TENSORFLOW": Framework.TENSORFLOW,
    "SCIKIT_LEARN": Framework.SKLEARN,
    "XGBOOST": Framework.XGBOOST,
}
# Machine types of that service, with its own sizes.
_MLS1 = {
    "mls1-c1-m2": (1000, 2048),
    "mls1-c4-m2": (4000, 2048),
    "mls1-c4-m4": (4000, 4096),
}


@dataclass
class Translation:
    """``version`` and ``endpoint`` are what they are made of; ``lines`` tell each field."""

    version: dict[str, Any] = field(default_factory=dict)
    endpoint: dict[str, Any] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    @property
    def refused(self) -> dict[str, str]:
        return {line.field: line.why for line in self.lines if line.refused}

    def tell(self, name: str, value: object, becomes: object, why: str = "") -> None:
        self.lines.append(Line(name, str(value), str(becomes), why))

    def refuse(self, name: str, value: object, why: str) -> None:
        self.lines.append(Line(name, str(value), "", why, refused=True))


def translate(
    asked: Mapping[str, Any], *, model: str, tables: Tables, kinds: Mapping[str, str]
) -> Translation:
    """Return the version and the endpoint that the fields of a version ask for.

    ``kinds``: the kinds of GPU here with their labels.
    """
    made, left = Translation(), dict(asked)
    name = str(left.pop("name", ""))
    made.version["name"], made.endpoint["name"] = name, model
    made.endpoint["model"] = f"{model}/{name}"
    made.tell("name", name, f"{model}/{name}")
    _origin(made, left)
    said = left.pop("framework", None)
    known = FRAMEWORKS.get(str(said or "TENSORFLOW").upper().replace("-", "_"))
    own = str(said).lower()
    if known is None and own in Framework.values:  # a word of its own, which that service had not
        known = Framework(own)
    if known is None:
        made.refuse("framework", said, _("One of: %s.") % ", ".join(Framework.values))
    else:
        made.version["framework"] = str(known)
        usual = "" if said else _("As that service did where none was said.")
        made.tell("framework", said or "", f"framework: {known}", usual)
    for field_name in ("runtimeVersion", "pythonVersion"):
        if value := left.pop(field_name, None):
            why = _("The server of this framework that is here loads it.")
            made.tell(field_name, value, _("nothing"), why)
    _size(made, left, tables, kinds)
    _scaling(made, left)
    if (text := left.pop("description", None)) is not None:
        made.tell("description", text, _("nothing"), _("A version has its metrics and its origin."))
    for path, value in leaves(left):
        made.refuse(path, value, _("It is not supported here. Leave it out."))
    return made


def _origin(made: Translation, left: dict[str, Any]) -> None:
    origin = left.pop("deploymentUri", None) or ""
    if not origin:
        made.refuse("deploymentUri", "", _("Say where its files are: --origin gs://…."))
        return
    made.version["origin"] = origin
    is_copied = str(origin).startswith(("gs://", "s3://"))
    becomes = _("copied into the volume of models") if is_copied else _("served where it is")
    made.tell("deploymentUri", origin, becomes)
    if credential := left.pop("credential", ""):  # a word of ours
        made.version["credential"] = credential


def _size(
    made: Translation, left: dict[str, Any], tables: Tables, kinds: Mapping[str, str]
) -> None:
    if name := left.pop("machineType", None):
        machine = tables.machine(str(name))
        size = _MLS1.get(str(name)) or (machine and (machine.cpu_milli, machine.memory_mib))
        if not size:
            made.refuse("machineType", name, _("No machine type of this name is known."))
        else:
            made.endpoint |= {"cpu_milli": size[0], "memory_mib": size[1]}
            made.tell("machineType", name, f"{size[0] / 1000:g} CPU, {size[1] / 1024:g} GiB")
    if (asked := left.pop("acceleratorConfig", None)) is not None:
        kind = tables.kinds_of(str(asked.get("type", "")), kinds)
        if not kind:
            why = _("No kind of GPU here carries this name.")
            made.refuse("acceleratorConfig", asked.get("type"), why)
        else:
            count = int(asked.get("count", 1))
            made.endpoint |= {"gpus": count, "gpu_flavor": kind}
            made.tell("acceleratorConfig", asked.get("type"), f"gpus: {count}, gpu_flavor: {kind}")


def _scaling(made: Translation, left: dict[str, Any]) -> None:
    if (manual := left.pop("manualScaling", None)) is not None:
        nodes = int(manual.get("nodes", 1))
        made.endpoint |= {"min_replicas": nodes, "max_replicas": nodes}
        made.tell("manualScaling.nodes", nodes, f"min_replicas, max_replicas: {nodes}")
    if (auto := left.pop("autoScaling", None)) is not None:
        least, most = int(auto.get("minNodes", 0)), int(auto.get("maxNodes", 0) or 0)
        made.endpoint["min_replicas"] = max(1, least)
        made.endpoint["max_replicas"] = max(1, least, most)
        made.tell("autoScaling.minNodes", least, f"min_replicas: {max(1, least)}")
        if least == 0:
            made.endpoint["sleep_after_minutes"] = 15
            made.lines[-1] = Line(
                "autoScaling.minNodes", "0", "sleep_after_minutes: 15", _("It sleeps while idle.")
            )
        if most:
            made.tell("autoScaling.maxNodes", most, f"max_replicas: {most}")
