"""What a ``trainingInput`` is here: the fields of a job, and a line for each field that was said.

Pure. The rule: a field that decides what runs, what it sees or where its results go is refused
by name where it can't be kept; one that only places or orders work is kept and told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobs.ai_platform import hyperparameters
from jobs.ai_platform.documents import leaves
from jobs.ai_platform.machines import ROLES
from jobs.ai_platform.roles import add_replicas, add_sizes, roles_of
from jobs.ai_platform.sheet import Here, Sheet, Translation

_SECONDS = re.compile(r"(\d{1,9})(?:\.\d{1,9})?s")
_BUCKET = re.compile(r"(gs|s3)://")
PYTHON = "python3"


def translate(asked: Mapping[str, Any], here: Here, *, package: str = "") -> Translation:
    """Return the job that a ``trainingInput`` asks for; ``package``: the code sent with it."""
    sheet = Sheet(asked)
    roles = roles_of(sheet, here)
    add_sizes(sheet, roles)
    _program(sheet, here, package)
    add_replicas(sheet, here, {role.name: role.count for role in roles})
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


def _program(sheet: Sheet, here: Here, package: str) -> None:
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


def _image(sheet: Sheet, here: Here) -> str:
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


def _runtime(sheet: Sheet, here: Here, *, has_image: bool) -> None:
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


def _results(sheet: Sheet, here: Here) -> None:
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


def _folder(sheet: Sheet) -> str:
    """Return what the program gets as its ``--job-dir``; of a search each trial its own."""
    folder = str(sheet.get("jobDir") or "")
    is_of_trials = folder and sheet.get(hyperparameters.PATH)
    return f"{folder.rstrip('/')}/{hyperparameters.NUMBER}" if is_of_trials else folder


def _search(sheet: Sheet) -> None:
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


def _times(sheet: Sheet) -> None:
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


def _place(sheet: Sheet) -> None:
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
