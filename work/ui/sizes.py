"""The size of work in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from clusters.installed import has_simulated_gpus
from common.templatetags.berth import cpus, mib
from work import kinds

if TYPE_CHECKING:
    from work.models import Ask, Workload


def size_words(row: Ask) -> str:
    """2 CPU · 4 GiB · 1 H100."""
    parts = [f"{cpus(row.cpu_milli)} CPU", mib(row.memory_mib)]
    if row.gpus:
        kind = " / ".join(row.resources.kinds) or ngettext(
            "GPU of any kind", "GPUs of any kind", row.gpus
        )
        gpus = f"{row.gpus}\N{NO-BREAK SPACE}{kind}"  # a number never ends a line alone
        if has_simulated_gpus(getattr(row, "cluster_key", "")):
            gpus = _t("%(gpus)s (simulated)") % {"gpus": gpus}
        parts.append(gpus)
    return " · ".join(parts)


def whole_size_words(row: Workload) -> str:
    """Return the size of each replica, how many there are, and what others of it have."""
    kind = kinds.kind_of(row.kind)
    found = [_times(kind.replicas_of(row), size_words(row))]
    if (others := kind.others_of(row)) is not None and (size := others.resources) is not None:
        words = [f"{cpus(size.cpu_milli)} CPU", mib(size.memory_mib)]
        words += [f"{size.gpus}\N{NO-BREAK SPACE}GPU"] if size.gpus else []
        found.append(_times(others.replicas, " · ".join(words)))
    return " + ".join(found)


def _times(count: int, size: str) -> str:
    times = f"{count}\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}"
    return f"{times}{size}" if count > 1 else size
