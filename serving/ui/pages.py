"""What the pages of endpoints say and show of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from serving.choices import State
from serving.kind import ENDPOINT
from serving.runtimes import runtime_of
from serving.states import STATES
from work.ui.pages import Fact, Pages, Words

if TYPE_CHECKING:
    from serving.models import Endpoint


def _facts(row: Endpoint) -> list[Fact]:
    found = [Fact(_("Model server"), str(runtime_of(row).label))]
    if row.version is not None:
        address = row.version.model.get_absolute_url()
        found.insert(0, Fact(_("Model"), str(row.version), url=address))
    return found


PAGES = Pages(
    kind=ENDPOINT,
    routes="endpoints",
    words=Words(
        mine=_("My endpoints"),
        new=_("Deploy a model"),
        none=_("No endpoint yet"),
        about=_(
            "An endpoint answers requests with a model: one address, keys for those who call it, "
            "as many replicas as its requests need, and none while nobody calls."
        ),
        again=_("Start"),
        stop=_("Stop"),
        stop_chosen=_("Stop the chosen"),
        stopped=_("“%(name)s” is being stopped."),
        stop_lost=_("It answers nobody until it is started again. Its address and keys stay."),
        delete_lost=_("Its address answers nobody any more, and its keys are void."),
        stop_many=lambda n: ngettext("Stop %(n)d endpoint", "Stop %(n)d endpoints", n) % {"n": n},
        stopping_many=lambda n: (
            ngettext("%(n)d endpoint is being stopped.", "%(n)d endpoints are being stopped.", n)
            % {"n": n}
        ),
        delete_many=lambda n: (
            ngettext("Delete %(n)d endpoint", "Delete %(n)d endpoints", n) % {"n": n}
        ),
        deleting_many=lambda n: (
            ngettext("%(n)d endpoint is being deleted.", "%(n)d endpoints are being deleted.", n)
            % {"n": n}
        ),
        events=_("What happened to all endpoints of the project"),
        document=_("Endpoint as YAML"),
    ),
    states=STATES,
    shapes={
        State.QUEUED: ("pending", "hourglass"),
        State.STARTING: ("starting", "loader-2"),
        State.READY: ("running", "player-play"),
        State.ASLEEP: ("stopped", "moon"),
        State.STOPPING: ("stopping", "loader-3"),
        State.STOPPED: ("stopped", "square"),
        State.FAILED: ("failed", "alert-triangle"),
        State.DELETING: ("deleting", "loader-3"),
    },
    goes_on=("queued", "ready", "asleep"),
    ahead=(
        ("accepted", "placed", "starting", "ready", "running"),
        ("accepted", "placed", "scheduled", "starting", "image", "ready", "running"),
    ),
    facts_of=_facts,
)
