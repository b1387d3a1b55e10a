"""Why something waits, in the words and the language of whoever reads it."""

from collections.abc import Iterable

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runtime.protocol import Resources


def waiting_sentence(lacking: Iterable[str], position: int, size: Resources) -> str:
    """Return what a waiting workload waits for. ``lacking`` as in ``runtime.ports.Waiting``."""
    return _("Waiting for %(things)s; position %(position)d in the queue.") % {
        "things": things(lacking, size),
        "position": position,
    }


def never_sentence(place: str, lacking: Iterable[str], size: Resources) -> str:
    """Return what ``place`` will never have enough of."""
    return _("%(place)s has less than it asks for: %(things)s.") % {
        "place": place,
        "things": things(lacking, size),
    }


def things(lacking: Iterable[str], size: Resources) -> str:
    return ", ".join(_thing(word, size) for word in lacking)


def _thing(word: str, size: Resources) -> str:
    if word == "cpu":
        return _("%(n)g CPU") % {"n": size.cpu_milli / 1000}
    if word == "memory":
        return _("%(n)g GiB of memory") % {"n": round(size.memory_mib / 1024, 1)}
    if not size.gpu_flavor:
        return ngettext("%(n)d GPU", "%(n)d GPUs", size.gpus) % {"n": size.gpus}
    return _("%(n)d x %(flavor)s") % {"n": size.gpus, "flavor": size.gpu_flavor}
