"""What can be limited. GPUs of one kind are ``gpus:<flavor>``; the rest is closed."""

import re

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import mib

GPUS = "gpus"
CPU_MILLI = "cpu_milli"
MEMORY_MIB = "memory_mib"
WORKSPACES = "workspaces"
STORAGE_MIB = "storage_mib"

LABELS: dict[str, Promise] = {
    GPUS: _("GPUs"),
    CPU_MILLI: _("CPU"),
    MEMORY_MIB: _("Memory"),
    WORKSPACES: _("Running workspaces"),
    STORAGE_MIB: _("Storage"),
}
MAX_AMOUNT = 2**53 - 1  # exact in every JSON reader
_FLAVORED = re.compile(r"\Agpus:[a-z0-9][a-z0-9.-]{0,62}\Z")


def is_resource(key: str) -> bool:
    return key in LABELS or bool(_FLAVORED.match(key))


def is_kind(key: str) -> bool:
    """Whether it is GPUs of one kind."""
    return bool(_FLAVORED.match(key))


def label_of(key: str) -> str:
    if key in LABELS:
        return str(LABELS[key])
    return str(_("GPUs of the kind %(flavor)s") % {"flavor": key.partition(":")[2]})


def order_of(key: str) -> tuple[int, str]:
    """GPUs first, their kinds below them, then the rest in the order of LABELS."""
    base = key.partition(":")[0]
    return (list(LABELS).index(base), key)


def limits_in_words(message: str) -> str:
    """“gpus: - → 6” as people read it."""
    told = []
    for part in message.split(", "):
        key, _colon, change = part.partition(": ")
        amounts = change.split(" → ")
        if not is_resource(key) or not all(one == "-" or one.isdecimal() for one in amounts):
            return message
        shown = (one if one == "-" else words(key, int(one)) for one in amounts)
        told.append(f"{label_of(key)}: {' → '.join(shown)}")
    return ", ".join(told)


def words(key: str, amount: int) -> str:
    """Return an amount as people read it: 2 GPUs, 4 CPU, 16 GiB."""
    if key == CPU_MILLI:
        return f"{amount / 1000:g} CPU"
    if key in {MEMORY_MIB, STORAGE_MIB}:
        return mib(amount)
    if key == WORKSPACES:
        return str(amount)
    return f"{amount} GPU"
