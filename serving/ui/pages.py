"""What the pages of endpoints say and show of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.clock import now
from common.ui.components import Tab
from projects.access import Permission, permissions_of
from runtime.protocol import Desired, Seen
from serving import traffic
from serving.address import address_of
from serving.choices import State
from serving.cost import cost_of
from serving.examples import examples_of
from serving.kind import ENDPOINT
from serving.models import Endpoint
from serving.runtimes import runtime_of
from serving.selectors import replicas_of
from serving.services import (
    endpoint_sleep,
    endpoint_takeover,
    may_take_over,
    served_by,
    takes_back,
)
from serving.states import STATES
from serving.templatetags.serving import latency, percent_of_errors, rate
from serving.ui.charts import chart, marks
from serving.ui.form import endpoint_form, size_that_follows
from work.selectors import may_change, may_end
from work.ui.pages import Column, Fact, Pages, Verb, Words

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from accounts.principal import Principal
    from work.fields import Text

_NOTHING = "\N{EN DASH}"
_COSTS_OF = timedelta(days=30)
# state → (word, tone, shape)
_REPLICA: dict[str, tuple[Promise, str, str]] = {
    Seen.CREATED: (_("Waiting"), "quiet", "hourglass"),
    Seen.STARTING: (_("Starting"), "starting", "loader-2"),
    Seen.READY: (_("Ready"), "running", "player-play"),
    Seen.STOPPING: (_("Stopping"), "stopping", "loader-3"),
    Seen.EXITED: (_("Ended"), "stopped", "square"),
    Seen.MISSING: (_("Gone"), "failed", "help-circle"),
}


def _facts(row: Endpoint) -> list[Fact]:
    found = [] if row.runtime else [Fact(_("Model server"), str(runtime_of(row).label))]
    if row.version is not None:
        address = row.version.model.get_absolute_url()
        found.insert(0, Fact(_("All its versions"), row.version.model.name, url=address))
        found.insert(0, Fact(_("Version"), row.version.name, url=row.version.get_absolute_url()))
    return found


def _seen(rows: Sequence[Endpoint]) -> None:
    """Read what the list says of each: two questions for all of a page."""
    sums = traffic.lately(rows)
    canaries = Endpoint.objects.filter(canary_of__in=rows, deleted_at=None)
    beside = {one.canary_of_id: one for one in canaries.exclude(desired=Desired.ABSENT)}
    for row in rows:
        row.lately, row.beside = sums[row.pk], beside.get(row.pk)


def _serves(_who: Principal, row: Endpoint) -> SafeString:
    name = row.model or row.image or str(runtime_of(row).label)
    if row.version is None:
        return format_html('<span class="text-break">{}</span>', name)
    keys = {"model": row.version.model.name, "version": row.version.name}
    url = reverse("models:version", kwargs={"project": row.project.slug, **keys})
    return format_html('<a class="text-break" href="{}">{}</a>', url, name)


def _replica_count(_who: Principal, row: Endpoint) -> SafeString:
    count = row.replicas if row.desired == Desired.RUNNING else 0
    told = format_html('<span class="num">{}</span>', count)
    if row.max_replicas == row.min_replicas:
        return told
    bounds = _t("between %(least)d and %(most)d")
    words = bounds % {"least": row.min_replicas, "most": row.max_replicas}
    return format_html('<span title="{}">{}</span>', words, told)


def _figure(text: str) -> SafeString:
    return format_html('<span class="num text-nowrap">{}</span>', text)


def _canary_share(_who: Principal, row: Endpoint) -> SafeString:
    if row.beside is None:
        return _figure(_NOTHING)
    return _figure(f"{row.canary_percent}\N{NO-BREAK SPACE}%")


_COLUMNS = (
    "name",
    "state",
    Column("serves", _("Serves"), _serves),
    Column("replicas", _("Replicas"), _replica_count, number=True),
    Column(
        "rate",
        _("Requests a minute"),
        lambda _who, row: _figure(rate(row.lately.per_minute)),
        number=True,
    ),
    Column("p99", _("p99"), lambda _who, row: _figure(latency(row.lately.p99)), number=True),
    Column(
        "errors",
        _("Errors"),
        lambda _who, row: _figure(percent_of_errors(row.lately.failed_share)),
        number=True,
    ),
    Column("split", _("Canary"), _canary_share, number=True),
    "acts",
)


def _own_part(who: Principal, row: Endpoint) -> dict[str, Any]:
    """Return what stands below its timeline: requests, canary, replicas, cost."""
    canary = row.canary if row.canary_of_id is None else None
    canary_state = None if canary is None else STATES.of(canary)
    is_ready, current = canary_state == State.READY, STATES.of(row)
    answers = current in {State.READY, State.ASLEEP} and Permission.ENDPOINT_CALL in permissions_of(
        who, row.project
    )
    apart = {} if canary is None else traffic.lately([row, canary], apart=True)
    share = row.canary_percent if is_ready else 0
    hour = traffic.series(row, "hour")
    served = list(served_by(row)) if row.canary_of_id is None else []
    since = now() - _COSTS_OF
    shown = [(one, *_REPLICA[one["state"]]) for one in replicas_of(row)]
    counts = Counter(str(word) for _one, word, _tone, _shape in shown)
    return {
        "address": address_of(row),
        "example": examples_of(row)[0] if answers else None,
        "sums": traffic.lately([row])[row.pk],
        "hour": chart([part.per_minute if part.minutes else None for _begin, part in hour]),
        "was_called": any(part.requests for _begin, part in hour),
        "hour_times": chart(*_times(hour)),
        "canary": canary,
        "shares": [
            (one, apart[one.pk], percent)
            for one, percent in ((row, 100 - share), (canary, share))
            if one is not None and one.pk in apart
        ],
        "canary_ready": is_ready,
        "canary_takes_back": canary is not None
        and (row.canary_percent or row.promoting)
        and takes_back(row, canary),
        "canary_state": canary_state,
        "canary_why": None if canary is None else STATES.why(canary),
        "may_change": may_change(who, row) and not row.project.archived_at,
        "served": served,
        "marks": marks((one.at for one in served), [begin for begin, _part in hour]),
        "replicas": shown,
        "replica_counts": " · ".join(f"{n}\N{NO-BREAK SPACE}{w}" for w, n in counts.items()),
        "has_nodes": any(one["node"] for one, *_rest in shown),
        "cost": cost_of(row, since, traffic.requests_since(row, since)),
    }


def _times(parts: traffic.Series) -> tuple[list[float | None], list[float | None]]:
    return [part.p50 for _begin, part in parts], [part.p99 for _begin, part in parts]


def _tabs(who: Principal, row: Endpoint) -> Sequence[Tab]:
    found = [Tab("try", "try", _t("Try it")), Tab("requests", "requests", _t("Requests"))]
    if may_change(who, row):
        found.append(Tab("keys", "keys", _t("Keys")))
    return found


def _logs(row: Endpoint) -> list[tuple[int, str]]:
    numbers = sorted({0, *(one["index"] for one in replicas_of(row))})
    return [(n, _t("Replica %(n)d") % {"n": n}) for n in numbers]


def _sleep(who: Principal, row: Endpoint) -> Text:
    sleeps = STATES.of(row) == State.READY and not row.promoting
    return _("Put to sleep") if sleeps and may_end(who, row) else ""


def _takeover(who: Principal, row: Endpoint) -> Text:
    if not may_take_over(who, row):
        return ""
    return _("Take over") if row.owner_id != who.user.pk else _("Begin anew as yours")


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
        wake=_("Wake"),
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
    columns=_COLUMNS,
    seen=_seen,
    own_part="serving/_endpoint.html",
    style="css/serving.css",
    script="js/endpoints.js",
    form=endpoint_form,
    follows=size_that_follows,
    own_part_of=_own_part,
    tabs=_tabs,
    more_verbs=(
        Verb(
            name="sleep",
            icon="moon",
            word=_sleep,
            act=endpoint_sleep,
            done=_("“%(name)s” goes to sleep. The next request wakes it."),
            ends=True,
            lost=_("It gives all it holds back. The next request wakes it, and is answered."),
        ),
        Verb(
            name="takeover",
            icon="user-check",
            word=_takeover,
            act=endpoint_takeover,
            done=_("“%(name)s” is yours now, and goes on answering."),
            ends=True,
            listed=False,
            lost=_(
                "It becomes yours: from now on your rights, limits and credentials count. Address "
                "and keys stay. What answers goes on until the same answers for you; what stopped "
                "because its owner went starts again."
            ),
        ),
    ),
    logs_of=_logs,
    links=(("endpoints:catalogue", _("Catalogue"), "layout-grid"),),
)
