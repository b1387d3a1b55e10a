"""Which size a model is likely to need: a rule with its reason, to begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from serving.choices import Framework

if TYPE_CHECKING:
    from collections.abc import Iterable

GIB = 1024
_TREES = (Framework.SKLEARN, Framework.XGBOOST, Framework.LIGHTGBM)
# What a server holds besides the model, in MiB: its libraries.
_BESIDE = {Framework.TENSORFLOW: 3 * GIB, Framework.PYTORCH: 3 * GIB, Framework.TRITON: 4 * GIB}
SMALL_MIB = 2 * GIB  # a network up to here answers well on CPUs
WEIGHTS = 1.2  # of a GPU's memory for each byte of weights: the rest is its cache and workspace
_MOST = 8  # GPUs of one replica: more are more than one node


@dataclass(frozen=True)
class GpuKind:
    name: str
    label: str
    memory_mib: int


@dataclass(frozen=True)
class Size:
    """Of one replica. ``kind`` "": of any kind. ``fits`` False: nothing here is large enough."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    kind: str
    why: str
    fits: bool = True
    kind_label: str = ""


def recommended(framework: str, size_bytes: int | None, kinds: Iterable[GpuKind] = ()) -> Size:
    """Return the size for a model of so many bytes, with ``kinds`` of GPU there are."""
    mib = -(-(size_bytes or 0) // 2**20)
    known = "" if size_bytes else " " + _("How large it is isn't known yet.")
    beside = _BESIDE.get(Framework(framework), GIB)
    memory = -(-(beside + 2 * mib) // GIB) * GIB  # whole ones
    if framework in _TREES:
        why = _("It computes on CPUs. While it is loaded its file is held about twice.")
        return Size(1000, memory, 0, "", why + known)
    if framework == Framework.CUSTOM:
        return Size(1000, 2 * GIB, 0, "", _("A server of its own: it knows what it needs."))
    wants_gpu = framework in {Framework.HUGGINGFACE, Framework.TRITON}
    if not wants_gpu and mib <= SMALL_MIB:
        return Size(2000, memory, 0, "", _("A network of this size answers on CPUs.") + known)
    needs = round(mib * WEIGHTS)
    by_size = sorted((one for one in kinds if one.memory_mib), key=lambda one: one.memory_mib)
    for gpus in (1, 2, 4, _MOST):
        for one in by_size:
            if needs <= one.memory_mib * gpus:
                why = _why(one, gpus, mib) + known
                return Size(4000 * gpus, memory, gpus, one.name, why, kind_label=one.label)
    if not by_size:
        return Size(4000, memory, 1, "", _("Its server needs a GPU.") + known)
    most = by_size[-1]
    said = _("Its weights, %(size)s GiB, fit on no %(n)d GPUs that there are here.")
    why = said % {"size": round(mib / GIB, 1), "n": _MOST}
    found = Size(4000 * _MOST, memory, _MOST, most.name, why, kind_label=most.label)
    return replace(found, fits=False)


def _why(kind: GpuKind, gpus: int, mib: int) -> str:
    if not mib:
        return _("The smallest GPU that there is here.")
    said = ngettext(
        "Its weights, %(size)s GiB, and a fifth more for what it keeps of requests fit on "
        "%(n)d %(kind)s of %(each)s GiB.",
        "Its weights, %(size)s GiB, and a fifth more for what it keeps of requests fit on "
        "%(n)d %(kind)s of %(each)s GiB each.",
        gpus,
    )
    told = {"size": round(mib / GIB, 1), "n": gpus, "kind": kind.label}
    return said % {**told, "each": round(kind.memory_mib / GIB)}
