"""Roles of a ``trainingInput`` with their machines and GPUs, as replicas of one job. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from jobs.ai_platform.machines import GPUS_OF_TIER, ROLES, TIERS, Machine
from jobs.ai_platform.sheet import Here, Sheet

_SERVERS = "parameterServer"


@dataclass(frozen=True)
class Role:
    name: str
    count: int
    machine: Machine
    kinds: str  # of GPU; "": any


def roles_of(sheet: Sheet, here: Here) -> list[Role]:
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
        found.append(Role(role, count, size, kinds))
        if sheet.get(f"{role}Type"):
            sheet.tell(f"{role}Type", _size_words(machine), _("Per replica."))
    if sheet.get("scaleTier") and found:
        words = ", ".join(f"{role.count} {role.name}" for role in found)
        why = "" if tier == "CUSTOM" else ", ".join(_size_words(role.machine) for role in found)
        sheet.tell("scaleTier", words, why)
    return found


def _counts(sheet: Sheet, tier: str) -> dict[str, tuple[int, str]]:
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


def _gpus(sheet: Sheet, here: Here, role: str, machine: Machine) -> tuple[str, int]:
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


def add_sizes(sheet: Sheet, roles: Sequence[Role]) -> None:
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


def add_replicas(sheet: Sheet, here: Here, counts: Mapping[str, int]) -> None:
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


def _size_words(machine: Machine) -> str:
    words = _("%(cpu)g CPU, %(memory)g GiB") % {
        "cpu": machine.cpu_milli / 1000,
        "memory": round(machine.memory_mib / 1024, 1),
    }
    return f"{words}, {machine.gpus} GPU" if machine.gpus else words
