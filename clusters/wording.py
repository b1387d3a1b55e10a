"""Why something waits, and what is called how, in the language of whoever reads it."""

from collections.abc import Iterable, Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from runtime.protocol import Resources

# What pools are reserved for (clusters.services.base.KINDS_OF_WORK), and what claims are for.
WORK: dict[str, Promise] = {
    "notebook": gettext_lazy("Notebooks"),
    "container": gettext_lazy("Containers"),
    "job": gettext_lazy("Jobs"),
    "distributed": gettext_lazy("Distributed jobs"),
    "trial": gettext_lazy("Trials of a study"),
    "endpoint": gettext_lazy("Served models"),
}

# What the engine looks after, what is counted and written down.
OBJECTS: dict[str, Promise] = {
    "credential": gettext_lazy("Credentials"),
    "files": gettext_lazy("File browsers"),
    "load": gettext_lazy("Loads"),
    "place": gettext_lazy("Places of projects on clusters"),
    "project": gettext_lazy("Projects"),
    "volume": gettext_lazy("Volumes"),
    "volume-snapshot": gettext_lazy("Snapshots"),
    "volume-transfer": gettext_lazy("Offers of volumes"),
    "workspace": gettext_lazy("Workspaces"),
}


def work_words(kind: str) -> str:
    """Return what people call a kind of work or of object; one without words stays as it is."""
    return str(WORK.get(kind) or OBJECTS.get(kind) or kind)


def counted(there: Mapping[str, int]) -> str:
    """Return how many of each kind: ``Loads: 1, Workspaces: 2``."""
    return ", ".join(sorted(f"{work_words(kind)}: {count}" for kind, count in there.items()))


def waiting_sentence(lacking: Iterable[str], position: int, size: Resources) -> str:
    """Return what a waiting workload waits for. ``lacking`` as in ``runtime.ports.Waiting``."""
    words = {"things": things(lacking, size), "position": position, "n": position - 1}
    if position > 1:  # there may be enough: who came first waits for more of it
        text = ngettext(
            "Waiting for %(things)s, as %(n)d ahead of it does; position %(position)d.",
            "Waiting for %(things)s, as %(n)d ahead of it do; position %(position)d.",
            position - 1,
        )
        return text % words
    return _("Waiting for %(things)s; position %(position)d in the queue.") % words


def never_sentence(place: str, lacking: Iterable[str], size: Resources, most: Resources) -> str:
    """Return what ``place`` will never have enough of, and the most that it has."""
    lacking = list(lacking)
    return _("%(place)s has less than it asks for: %(things)s. The most here: %(most)s.") % {
        "place": place,
        "things": things(lacking, size),
        "most": things(lacking, most),
    }


def things(lacking: Iterable[str], size: Resources) -> str:
    return ", ".join(_thing(word, size) for word in lacking)


def _thing(word: str, size: Resources) -> str:
    if word == "cpu":
        return _("%(n)g CPU") % {"n": size.cpu_milli / 1000}
    if word == "memory":
        return _("%(n)g\N{NO-BREAK SPACE}GiB of memory") % {"n": round(size.memory_mib / 1024, 1)}
    if not size.gpu_flavor:
        return ngettext("%(n)d GPU", "%(n)d GPUs", size.gpus) % {"n": size.gpus}
    return _("%(n)d × %(flavor)s") % {"n": size.gpus, "flavor": size.gpu_flavor}  # noqa: RUF001 - the sign
