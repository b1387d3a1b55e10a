"""What a ``trainingInput`` is here: the fields of a job, and a line for each field that was said.

Pure. The rule: a field that decides what runs, what it sees or where its results go is refused
by name where it can't be kept; one that only places or orders work is kept and told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils.translation import gettext as _

from jobs.ai_platform import hyperparameters
from jobs.ai_platform.documents import leaves
from jobs.ai_platform.machines import GPUS_OF_TIER, ROLES, TIERS, Machine, Tables

_SECONDS = re.compile(r"(\d{1,9})(?:\.\d{1,9})?s")
_BUCKET = re.compile(r"(gs|s3)://")
PYTHON = "python3"
_SERVERS = "parameterServer"


@dataclass(frozen=True)
class Here:
    """What is known of this installation: kinds of GPU by name, whether any cluster of the project
    runs images, whether one machine takes its work, and what jobs can be told.
    """

    tables: Tables
    kinds: Mapping[str, str]
    images: bool
    machine: bool
    fields: frozenset[str]


@dataclass(frozen=True)
class Line:
    """One field as it was said, and what becomes of it."""

    field: str
    value: str
    becomes: str
    why: str
    refused: bool = False


@dataclass
class Translation:
    """``said`` is what a job is made of; ``lines`` tell each field of the file.

    ``search``: the job is the template of that search's trials.
    """

    said: dict[str, Any] = field(default_factory=dict)
    search: hyperparameters.Search | None = None
    lines: list[Line] = field(default_factory=list)

    @property
    def refused(self) -> dict[str, str]:
        return {line.field: line.why for line in self.lines if line.refused}


@dataclass(frozen=True)
class _Role:
    name: str
    count: int
    machine: Machine
    kinds: str  # of GPU; "": any


class _Sheet:
    """The lines as they come; a field without one at the end is refused."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.asked = dict(asked)
        self.made = Translation()

    def get(self, path: str) -> Any:
        found: Any = self.asked
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def tell(self, path: str, becomes: str, why: str = "", *, value: str | None = None) -> None:
        shown = _shown(self.get(path)) if value is None else value
        self.made.lines.append(Line(path, shown, becomes, why))

    def refuse(self, path: str, why: str) -> None:
        self.made.lines.append(Line(path, _shown(self.get(path)), "", why, refused=True))

    def refuse_all(self, told: Mapping[str, str]) -> None:
        """Refuse each of these that was said."""
        for path, why in told.items():
            if self.get(path) not in (None, {}, []):
                self.refuse(path, why)


def translate(asked: Mapping[str, Any], here: Here, *, package: str = "") -> Translation:
    """Return the job that a ``trainingInput`` asks for; ``package``: the code sent with it."""
    sheet = _Sheet(asked)
    roles = _roles(sheet, here)
    _sizes(sheet, roles)
    _program(sheet, here, package)
    _replicas(sheet, here, {role.name: role.count for role in roles})
    _results(sheet, here)
    _search(sheet)
    _times(sheet)
    _place(sheet)
    told = {line.field for line in sheet.made.lines}
    for path, _value in leaves(asked):
        if not any(path == name or path.startswith(f"{name}.") for name in told):
            sheet.refuse(path, _("It is not supported here. Leave it out."))
    order = {path: number for number, (path, _value) in enumerate(leaves(asked))}
    sheet.made.lines.sort(key=lambda line: order.get(line.field, -1))
    return sheet.made


def _roles(sheet: _Sheet, here: Here) -> list[_Role]:
    """Return how many replicas of which machine each role has, with their GPUs."""
    custom = any(sheet.get(f"{role}Type") for role in ROLES)
    tier = str(sheet.get("scaleTier") or ("CUSTOM" if custom else "BASIC")).upper()
    found = []
    counts = _counts(sheet, tier)
    for role in (one for one in ROLES if one not in counts and sheet.get(f"{one}Config")):
        sheet.tell(f"{role}Config", _("nothing"), _("There are none of this role."), value="")
        del sheet.asked[f"{role}Config"]
    for role, (count, name) in counts.items():
        machine = here.tables.machine(name)
        if machine is None:
            why = _(
                "No machine type of this name is known. Such as n1-standard-4; operators add "
                "others in BERTH_AI_PLATFORM."
            )
            sheet.refuse(f"{role}Type", why)
            if sheet.get(f"{role}Count") is not None:
                sheet.tell(f"{role}Count", str(count))
            continue
        kinds, gpus = _gpus(sheet, here, role, machine)
        size = replace(machine, gpus=gpus or GPUS_OF_TIER.get(tier, 0), accelerator="")
        found.append(_Role(role, count, size, kinds))
        if sheet.get(f"{role}Type"):
            sheet.tell(f"{role}Type", _size_words(machine), _("Per replica."))
    if sheet.get("scaleTier") and found:
        words = ", ".join(f"{role.count} {role.name}" for role in found)
        why = "" if tier == "CUSTOM" else ", ".join(_size_words(role.machine) for role in found)
        sheet.tell("scaleTier", words, why)
    return found


def _counts(sheet: _Sheet, tier: str) -> dict[str, tuple[int, str]]:
    """Return the number and machine type of each role that there is."""
    if tier not in TIERS:
        why = _("There is no such tier here. One of: %(names)s")
        sheet.refuse("scaleTier", why % {"names": ", ".join(TIERS)})
        return {}
    if tier == "CUSTOM" and not sheet.get("masterType"):
        sheet.refuse("masterType", _("With the tier CUSTOM say the machine type of the master."))
        return {}
    if tier != "CUSTOM":
        why = _("Machine types and counts go with scaleTier: CUSTOM.")
        parts = [f"{role}{part}" for role in ROLES for part in ("Type", "Count")]
        sheet.refuse_all(dict.fromkeys(parts, why))
        return dict(TIERS[tier])
    found = {"master": (1, str(sheet.get("masterType")))}
    for role in ROLES[1:]:
        if count := sheet.get(f"{role}Count"):
            found[role] = (count, str(sheet.get(f"{role}Type") or sheet.get("masterType")))
            continue
        for part in (f"{role}Type", f"{role}Count"):
            if sheet.get(part) is not None:
                sheet.tell(part, _("nothing"), _("There are none of this role."))
    return found


def _gpus(sheet: _Sheet, here: Here, role: str, machine: Machine) -> tuple[str, int]:
    """Return kinds and number of GPUs of a role: what its config says, or its machine type."""
    path = f"{role}Config.acceleratorConfig"
    wanted = str(sheet.get(f"{path}.type") or "")
    count = sheet.get(f"{path}.count")
    named = wanted or machine.accelerator
    if wanted == "ACCELERATOR_TYPE_UNSPECIFIED" or not (named or count):
        for part in ("type", "count"):
            if sheet.get(f"{path}.{part}") is not None:
                sheet.tell(f"{path}.{part}", _("no GPU"))
        return "", 0
    if named.startswith("TPU"):
        sheet.refuse(f"{path}.type", _("There are no TPUs here. Ask for a kind of GPU."))
        return "", 0
    kinds = here.tables.kinds_of(named, here.kinds) if named else ""
    if named and not kinds:
        why = _(
            "No kind of GPU here stands for %(name)s. Operators say which one does in "
            "BERTH_AI_PLATFORM. Kinds here: %(kinds)s"
        )
        said = {"name": named, "kinds": ", ".join(here.kinds) or _("none")}
        sheet.refuse(f"{path}.type" if wanted else f"{role}Type", why % said)
        return "", 0
    gpus = int(count or machine.gpus or 1)
    if wanted:
        told = _("The GPUs of this installation; any of several will do.")
        sheet.tell(f"{path}.type", kinds or _("any kind"), told)
    if count is not None:
        sheet.tell(f"{path}.count", _("GPUs: %(n)d") % {"n": gpus}, _("Per replica."))
    return kinds, gpus


def _sizes(sheet: _Sheet, roles: Sequence[_Role]) -> None:
    """Master and workers have one size, the largest that one asks for; servers have their own."""
    if not roles:
        return
    sizes = {role.machine for role in roles if role.name != _SERVERS}
    kinds = {role.kinds for role in roles if role.machine.gpus}
    if len(kinds) > 1:
        role = next(r for r in roles[1:] if r.machine.gpus and r.kinds != roles[0].kinds)
        why = _("All replicas of a job have the same kind of GPU here.")
        sheet.refuse(f"{role.name}Config.acceleratorConfig.type", why)
    cpu, memory, gpus = (
        max(getattr(size, name) for size in sizes) for name in ("cpu_milli", "memory_mib", "gpus")
    )
    said = {"cpu_milli": cpu, "memory_mib": memory, "gpus": gpus}
    sheet.made.said |= said | ({"gpu_flavor": kinds.pop()} if gpus and kinds else {})
    if servers := next((role.machine for role in roles if role.name == _SERVERS), None):
        sheet.made.said |= {
            "server_cpu_milli": servers.cpu_milli,
            "server_memory_mib": servers.memory_mib,
            "server_gpus": servers.gpus,
        }
    if len(sizes) > 1:
        words = _size_words(Machine(cpu, memory, gpus))
        why = _("Replicas of a job have one size here: the largest that a role asks for.")
        sheet.tell("", words, why, value=_("sizes"))


def _replicas(sheet: _Sheet, here: Here, counts: Mapping[str, int]) -> None:
    """Add master and workers as replicas of one job, and how they find each other."""
    workers, servers = counts.get("worker", 0), counts.get(_SERVERS, 0)
    evaluators = counts.get("evaluator", 0)
    image = str(sheet.get("masterConfig.imageUri") or "").lower()
    framework = "pytorch" if "torch" in image else "tensorflow"
    shapes = {"framework", "parameter_servers"} <= here.fields
    sheet.made.said["replicas"] = 1 + workers + evaluators
    if workers and sheet.get("workerCount") is not None:
        why = _("Replicas of one job: the master and its workers, let in together.")
        sheet.tell("workerCount", _("replicas: %(n)d") % {"n": 1 + workers}, why)
    if (workers or servers or evaluators) and shapes:
        sheet.made.said["framework"] = framework
        told = "TF_CONFIG" if framework == "tensorflow" else "MASTER_ADDR, RANK, WORLD_SIZE"
        why = _("How replicas find each other.")
        sheet.tell("", told, why, value=_("framework %(name)s") % {"name": framework})
    path = "parameterServerCount" if sheet.get("parameterServerCount") else "scaleTier"
    if servers and not (shapes and framework == "tensorflow"):
        why = _("Parameter servers need TensorFlow. Use workers only, with scaleTier: CUSTOM.")
        sheet.refuse(path, why)
    elif servers:
        sheet.made.said["parameter_servers"] = servers
        if path != "scaleTier":
            sheet.tell(path, _("parameter servers: %(n)d") % {"n": servers})
    if evaluators > 1 or (evaluators and not (shapes and framework == "tensorflow")):
        sheet.refuse("evaluatorCount", _("TensorFlow has one evaluator, other frameworks none."))
    elif evaluators:
        sheet.made.said["evaluator"] = True
        why = _("One replica more, ended with the others. Its role stands in TF_CONFIG.")
        sheet.tell("evaluatorCount", _("the evaluator"), why)
    if (chief := sheet.get("useChiefInTfConfig")) or (chief is False and not workers):
        sheet.tell("useChiefInTfConfig", _("TF_CONFIG says chief"))
    elif chief is False:
        sheet.refuse("useChiefInTfConfig", _("TF_CONFIG says “chief” here, never “master”."))


def _program(sheet: _Sheet, here: Here, package: str) -> None:
    """What runs: a module of the package, or the program of an image."""
    said, image, module = sheet.made.said, _image(sheet, here), sheet.get("pythonModule")
    if module:
        said["command"] = [PYTHON, "-m", module]
        sheet.tell("pythonModule", f"{PYTHON} -m {module}", _("In the folder of the package."))
    elif command := sheet.get("masterConfig.containerCommand"):
        said["command"] = list(command)
        sheet.tell("masterConfig.containerCommand", " ".join(command))
    elif not image:
        sheet.refuse("pythonModule", _("Say which module runs, such as trainer.task."))
    said["args"] = []
    for path in ("masterConfig.containerArgs", "args"):
        if (words := sheet.get(path)) is not None:
            said["args"] += words
            sheet.tell(path, _("arguments"), _("As they stand; nothing is expanded."))
    if folder := _folder(sheet):
        said["args"] += ["--job-dir", folder]
    if package:
        said["code"] = f"package:{package}"
    if sheet.get("packageUris") is not None and package:
        why = _("--package-path comes first.")
        sheet.tell("packageUris", _("the package sent with it"), why)
    why = _("Packages are not fetched from a bucket. Send the folder with --package-path.")
    sheet.refuse_all(
        {
            **({} if package else {"packageUris": why}),
            "masterConfig.tpuTfVersion": _("There are no TPUs here. Ask for a kind of GPU."),
        }
    )
    _runtime(sheet, here, has_image=bool(image))


def _image(sheet: _Sheet, here: Here) -> str:
    """Return the image that was named; every replica runs the master's."""
    image = str(sheet.get("masterConfig.imageUri") or "")
    if image and here.images:
        sheet.made.said["image"] = image
        sheet.tell("masterConfig.imageUri", image, _("Its bytes are pinned when it starts."))
    elif image:
        why = _("No cluster of this project runs images. Use pythonModule with --package-path.")
        sheet.refuse("masterConfig.imageUri", why)
    for path in (f"{role}Config.imageUri" for role in ROLES[1:]):
        if (own := sheet.get(path)) == image and own:
            sheet.tell(path, _("the same image"))
        elif own:
            sheet.refuse(path, _("All replicas run the master's image here."))
    return image


def _runtime(sheet: _Sheet, here: Here, *, has_image: bool) -> None:
    """Find what brings Python and its libraries, where that is not an image of its own."""
    version, python = sheet.get("runtimeVersion"), sheet.get("pythonVersion")
    runtimes = here.tables.runtimes
    both = f"{version}/{python}"
    found = runtimes.get(both) or runtimes.get(str(version)) or {}
    known = {"runtimeVersion": bool(found), "pythonVersion": both in runtimes}
    if has_image:
        picked = _("the image")
    elif found.get("image") and here.images:
        picked = sheet.made.said["image"] = found["image"]
    elif found.get("environment") and here.machine:
        picked = sheet.made.said["environment"] = found["environment"]
    elif here.machine:
        picked = _("the environment of this machine")
    else:
        why = _(
            "No image is known for it. Say masterConfig.imageUri, or ask an operator to name one "
            "in BERTH_AI_PLATFORM."
        )
        sheet.refuse("runtimeVersion", why)
        return
    for path, is_known in known.items():
        if sheet.get(path) is not None:
            why = "" if is_known else _("It has the Python and the libraries that it has.")
            sheet.tell(path, picked, why)


def _results(sheet: _Sheet, here: Here) -> None:
    """``jobDir`` is handed to the program, and where results go that it leaves in a folder."""
    folder = _folder(sheet)
    if not folder:
        return
    why = _("Its program writes there itself; give it a credential with --credential.")
    if _BUCKET.match(folder) and "output" in here.fields:
        sheet.made.said["output"] = folder
        why = _("And what it leaves in its output folder goes there when it ends.")
    elif not _BUCKET.match(folder):
        why = _("A path of a volume, given with --volume, survives the job.")
    if sheet.get(hyperparameters.PATH):
        why = " ".join((_("Each trial has a folder of its own there, called by its number."), why))
    sheet.tell("jobDir", f"--job-dir {folder}", why)


def _folder(sheet: _Sheet) -> str:
    """Return what the program gets as its ``--job-dir``; of a search each trial its own."""
    folder = str(sheet.get("jobDir") or "")
    is_of_trials = folder and sheet.get(hyperparameters.PATH)
    return f"{folder.rstrip('/')}/{hyperparameters.NUMBER}" if is_of_trials else folder


def _search(sheet: _Sheet) -> None:
    """Tell what its ``hyperparameters`` become; each trial has their values as arguments."""
    if not (asked := sheet.get(hyperparameters.PATH)):
        return
    found = hyperparameters.search_of(asked)
    for path, (becomes, why) in found.told.items():
        sheet.tell(path, becomes, why, value="" if path.endswith(".params") else None)
    for path, why in found.refused.items():
        sheet.refuse(path, why)
    if not found.refused:
        sheet.made.search = found
        sheet.made.said["args"] += found.args


def _times(sheet: _Sheet) -> None:
    path = "scheduling.maxRunningTime"
    if (text := sheet.get(path)) is not None:
        found = _SECONDS.fullmatch(text)
        if found is None or not int(found[1]):
            sheet.refuse(path, _("Seconds with an s, such as 7200s."))
        else:
            minutes = -(-int(found[1]) // 60)
            sheet.made.said["time_limit_minutes"] = minutes
            words = _("time limit: %(n)d min") % {"n": minutes}
            sheet.tell(path, words, _("From the start of its first attempt."))
    if sheet.get("scheduling.priority") is not None:
        why = _("Who is first follows from the guarantees of the project's queue.")
        sheet.tell("scheduling.priority", _("nothing"), why)
    path = "scheduling.maxWaitTime"
    sheet.refuse_all({path: _("Nothing gives up waiting by itself here. Cancel the job.")})


def _place(sheet: _Sheet) -> None:
    if sheet.get("region") is not None:
        why = _("A cluster of this installation is chosen; --cluster says which.")
        sheet.tell("region", _("nothing"), why)
    if network := sheet.get("network"):
        sheet.made.said["network"] = network.rpartition("/")[2]
        sheet.tell("network", sheet.made.said["network"], _("The extra network of that name."))
    if sheet.get("enableWebAccess") is not None:
        sheet.tell("enableWebAccess", _("nothing"), _("Its log is on the job's page."))
    for path in (f"{role}Config.diskConfig" for role in ROLES):
        if sheet.get(path):
            sheet.tell(path, _("nothing"), _("Disks belong to volumes here: use --volume."))
    sheet.refuse_all(
        {
            "serviceAccount": _("Attach a credential of the project: --credential NAME."),
            "encryptionConfig.kmsKeyName": _("What is kept here has its own keys. Leave it out."),
        }
    )


def _size_words(machine: Machine) -> str:
    words = _("%(cpu)g CPU, %(memory)g GiB") % {
        "cpu": machine.cpu_milli / 1000,
        "memory": round(machine.memory_mib / 1024, 1),
    }
    return f"{words}, {machine.gpus} GPU" if machine.gpus else words


def _shown(value: Any) -> str:
    """Return a value as a table has it."""
    text = " ".join(value) if isinstance(value, list) else "" if value is None else str(value)
    if isinstance(value, bool):
        text = str(value).lower()
    return text if len(text) <= 120 else f"{text[:117]}…"  # noqa: PLR2004 - of a line
