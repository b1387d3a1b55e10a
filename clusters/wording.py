"""What is called how, in the language of whoever reads it."""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

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
    "endpoint": gettext_lazy("Endpoints"),
    "experiment": gettext_lazy("Searches"),
    "files": gettext_lazy("File browsers"),
    "job": gettext_lazy("Jobs"),
    "load": gettext_lazy("Loads"),
    "model": gettext_lazy("Models"),
    "place": gettext_lazy("Places of projects on clusters"),
    "queues": gettext_lazy("Queues on clusters"),
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
