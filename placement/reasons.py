"""Why work may not go somewhere, or waits: ``(id, params)``, and the one table of its words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from common.errors import BerthError, Conflict, Forbidden, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.protocol import Resources


@dataclass(frozen=True)
class Reason:
    """An entry of the table with what it is about; ``str`` says it to whoever reads."""

    id: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(_TEXTS[self.id] % self.params)

    @property
    def error(self) -> BerthError:
        """The same as the error of the field that is wrong."""
        kind, name = _ERRORS.get(self.id, (Conflict, ""))
        return kind(str(self), fields={name: [str(self)]} if name else {})


@dataclass(frozen=True)
class Amounts:
    """What of a size is lacking, as in ``runtime.ports.Waiting``, in words."""

    lacking: tuple[str, ...]
    size: Resources

    def __str__(self) -> str:
        return ", ".join(self._one(word) for word in self.lacking)

    def _one(self, word: str) -> str:
        size = self.size
        if word == "cpu":
            return gettext("%(n)g CPU") % {"n": size.cpu_milli / 1000}
        if word == "memory":
            gib = round(size.memory_mib / 1024, 1)
            return gettext("%(n)g\N{NO-BREAK SPACE}GiB of memory") % {"n": gib}
        if not size.gpu_flavor:
            return ngettext("%(n)d GPU", "%(n)d GPUs", size.gpus) % {"n": size.gpus}
        return gettext("%(n)d × %(flavor)s") % {"n": size.gpus, "flavor": size.gpu_flavor}  # noqa: RUF001 - the sign


def waiting(lacking: Iterable[str], position: int, size: Resources) -> Reason:
    """Return what a workload waits for in a queue. ``lacking`` as in ``runtime.ports.Waiting``."""
    params = {"things": Amounts(tuple(lacking), size), "position": position, "n": position - 1}
    return Reason("waiting-behind" if position > 1 else "waiting", params)


STARTS_NOW = Reason("starts-now")
IN_USE = Reason("in-use")

_TEXTS: dict[str, Any] = {
    # it may not go there
    "no-pool": _("There is no pool called %(name)s here."),
    "pool-reserved": _("The pool %(name)s is reserved for other kinds of work: %(kinds)s."),
    "no-network": _("There is no extra network called %(name)s here."),
    "network-not-in-pool": _("The pool %(pool)s has no network called %(name)s."),
    "network-in-no-pool": _("None of the pools that this work may use has the network %(name)s."),
    "network-without-gpus": _("The network %(name)s comes with GPUs: ask for at least one."),
    "no-kind": _("%(cluster)s has no GPU of the kind %(kind)s that this work may use."),
    "kinds-differ": _("These kinds of device can't stand for each other: choose one."),
    # it never starts there
    "no-node-has": _("No node of %(cluster)s has %(things)s."),
    "machine-has-less": _(
        "%(place)s has less than it asks for: %(things)s. The most here: %(most)s."
    ),
    # it waits
    "waiting": _("Waiting for %(things)s; position %(position)d in the queue."),
    # there may be enough: who came first waits for more of it
    "waiting-behind": ngettext_lazy(
        "Waiting for %(things)s, as %(n)d ahead of it does; position %(position)d.",
        "Waiting for %(things)s, as %(n)d ahead of it do; position %(position)d.",
        "n",
    ),
    "silent": _("It would wait: %(cluster)s does not answer."),
    "volumes-stuck": _(
        "It would wait: no new volume can be used on %(cluster)s, as an operator sees."
    ),
    "oversized": _(
        "It asks for more than this machine has (%(cpus)g CPU, %(memory)g GiB of memory): "
        "it would wait until nearly nothing else runs, and others pass it."
    ),
    "behind": ngettext_lazy(
        "It would wait: %(n)d workload is ahead of it.",
        "It would wait: %(n)d workloads are ahead of it.",
        "n",
    ),
    "in-use": _("It would wait as the next one: what it asks for is in use."),
    "starts-now": _("It would start now."),
}

_ERRORS: dict[str, tuple[type[BerthError], str]] = {
    "no-pool": (Invalid, "pool"),
    "pool-reserved": (Forbidden, "pool"),
    "no-network": (Invalid, "network"),
    "network-not-in-pool": (Invalid, "network"),
    "network-in-no-pool": (Invalid, "network"),
    "network-without-gpus": (Invalid, "network"),
    "no-kind": (Invalid, "gpu_flavor"),
    "kinds-differ": (Invalid, "gpu_flavor"),
}
