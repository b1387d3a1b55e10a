# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pages that only endpoints have: who called, keys, one request by hand, the canary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.clock import now
from common.errors import BerthError, wrong
from common.paging import PER_PAGE
from common.ui.responses import csv_download, go, refuse
from projects.access import Permission
from serving import examples, services, traffic
from serving.address import address_of
from serving.choices import Files, Stage
from serving.models import Endpoint, ModelVersion
from serving.runtimes import OPENAI
from serving.services.keys import MAX_LIMIT, NAME_MAX
from serving.services.trying import MOST_BODY, Answer, endpoint_try
from serving.ui.charts import chart, marks
from serving.ui.pages import PAGES
from work.ui.base import OneView
from work.ui.views import Detail

SPANS = (
    ("hour", _("1 hour")),
    ("day", _("24 hours")),
    ("week", _("7 days")),
    ("month", _("30 days")),
)
_HEAD = (
    "hour", "caller", "requests", "refused", "client_errors", "server_errors", "p50_s", "p99_s",
    "bytes_in", "bytes_out",
)  # fmt: skip
_OFFERED = 100  # versions to choose from


class Requests(OneView):
    """How it was called over time, and by whom: numbers, never what was sent."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}
    template_name = "serving/requests.html"
    tab = "requests"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponseBase:
        row = self.row()
        asked = request.GET.get("span", "")
        span = asked if asked in traffic.SPANS else "day"
        if request.GET.get("format") == "csv":
            return csv_download(f"{row.name}-requests.csv", _HEAD, _csv_rows(row, span))
        points = traffic.series(row, span)
        parts = [part for _begin, part in points]
        begins = [begin for begin, _part in points]
        served = services.served_by(row).filter(at__gte=begins[0])
        callers = traffic.by_caller(row, span)
        hours = Paginator(traffic.by_hour(row, span), PER_PAGE)
        said = {
            "span": span,
            "spans": SPANS,
            "points": points,
            "sums": traffic.total(points),
            "rates": chart(*_rates(parts)),
            "times": chart([one.p50 for one in parts], [one.p99 for one in parts]),
            "served": served,
            "marks": marks((one.at for one in served), begins),
            "callers": callers,
            "page": hours.get_page(request.GET.get("page")),
        }
        return self.render(self.page(row, said))


def _rates(parts: Sequence[traffic.Traffic]) -> tuple[list[float | None], list[float | None]]:
    """Return requests and failed ones a minute; None where no minute is over yet."""
    requests = [one.per_minute if one.minutes else None for one in parts]
    return requests, [one.server_errors / one.minutes if one.minutes else None for one in parts]


def _csv_rows(row: Endpoint, span: str) -> Any:
    for hour, caller, sums in traffic.by_hour(row, span):
        times = [None if one is None else round(one, 6) for one in (sums.p50, sums.p99)]
        counts = (sums.requests, sums.refused, sums.client_errors, sums.server_errors)
        name = f"{caller.name} ({caller.note})" if caller.note else caller.name
        yield (f"{hour:%Y-%m-%dT%H:%MZ}", name, *counts, *times, sums.bytes_in, sums.bytes_out)


class KeyForm(forms.Form):
    DAYS = (
        (30, _("30 days")),
        (90, _("90 days")),
        (365, _("one year")),
        (0, _("never")),
    )
    name = forms.CharField(
        label=_("Name"), max_length=NAME_MAX, help_text=_("Who calls with it, such as “web shop”.")
    )
    days = forms.TypedChoiceField(label=_("Expires after"), choices=DAYS, coerce=int, initial=90)
    requests_per_second = forms.IntegerField(
        label=_("Requests a second"), min_value=0, max_value=MAX_LIMIT, required=False
    )
    concurrent = forms.IntegerField(
        label=_("Requests at once"), min_value=0, max_value=MAX_LIMIT, required=False
    )
    requests_per_day = forms.IntegerField(
        label=_("Requests a day"), min_value=0, max_value=MAX_LIMIT, required=False
    )


class Keys(OneView):
    """Who may call it: keys with their limits. A new one is shown once."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "create", "POST": "create"}
    template_name = "serving/keys.html"
    tab = "keys"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        return self._page(self.row(), KeyForm())

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row, form = self.row(), KeyForm(request.POST)
        if not form.is_valid():
            return self._page(row, form, status=422)
        given = form.cleaned_data
        days = given.pop("days")
        limits = {name: value or 0 for name, value in given.items() if name != "name"}
        expires = now() + timedelta(days=days) if days else None
        try:
            key, secret = services.key_make(
                principal=self.principal, row=row, name=given["name"], expires_at=expires, **limits
            )
        except BerthError as error:
            return self._page(row, form, status=refuse(request, form, error))
        curl = examples.as_curl(address_of(row), examples.examples_of(row)[0])
        told: dict[str, Any] = {
            "made": key,
            "secret": secret,
            "code": f"export BERTH_KEY={secret}\n{curl}",
        }
        return self._page(row, KeyForm(), **told)

    def _page(self, row: Endpoint, form: KeyForm, status: int = 200, **more: Any) -> HttpResponse:
        made = services.keys_of(self.principal, row)
        rows = Paginator(made, PER_PAGE).get_page(self.request.GET.get("page"))
        said = {"form": form, "keys": rows, "page": rows, "address": address_of(row), **more}
        answer = self.render(self.page(row, said), status=status)
        answer["Cache-Control"] = "no-store"
        return answer


class KeyRevoke(OneView):
    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    stands_on = Keys.of(PAGES)

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        uid = request.POST.get("key", "")[:36]
        key = services.key_revoke(principal=self.principal, row=row, uid=uid)
        said = _t("“%(name)s” is revoked: within seconds it calls nothing more.")
        messages.success(request, said % {"name": key.name})
        return go(request, self.pages.address("keys", row))


class TryForm(forms.Form):
    method = forms.ChoiceField(
        label=_("Method"), choices=[("POST", "POST"), ("GET", "GET")], required=False
    )
    path = forms.CharField(label=_("Path"), max_length=500, required=False)
    body = forms.CharField(label=_("Body"), max_length=MOST_BODY, required=False, strip=False)
    version = forms.ChoiceField(label=_("Answered by"), required=False)


class Try(OneView):
    """One request by hand: an example to begin with, the answer, and the same as code."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read", "POST": "read"}
    template_name = "serving/try.html"
    tab = "try"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        return self._page(self.row())

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        form = TryForm(request.POST)
        form.fields["version"].choices = _versions(row)  # type: ignore[attr-defined]
        if not form.is_valid():
            return self._page(row, form, status=422)
        sent = {name: form.cleaned_data[name] for name in ("path", "body", "version")}
        try:
            answer = endpoint_try(
                principal=self.principal, row=row, method=form.cleaned_data["method"], **sent
            )
        except BerthError as error:
            return self._page(row, form, status=refuse(request, form, error))
        return self._page(row, form, answer=answer)

    def _page(
        self, row: Endpoint, form: TryForm | None = None, *, status: int = 200, **more: Answer
    ) -> HttpResponse:
        version = row.version
        signature = {} if version is None else version.signature
        begin = examples.examples_of(row)
        asked = self.request.GET.get("as", "")
        shown = next((one for one in begin if one.protocol == asked), begin[0])
        if form is None:
            told = {name: getattr(shown, name) for name in ("method", "path", "body")}
            form = TryForm(initial=told)
            form.fields["version"].choices = _versions(row)  # type: ignore[attr-defined]
        values = {name: form[name].value() or "" for name in ("method", "path", "body")}
        sends = examples.Example(shown.protocol, **values)
        address = address_of(row)
        code = [("curl", examples.as_curl(address, sends))]
        code.append(("Python", examples.as_python(address, sends)))
        if shown.protocol == OPENAI:
            code.append(("Python (openai)", examples.as_openai(address, shown)))
        said = {
            "form": form,
            "address": address,
            "begin": begin,
            "shown": shown,
            "code": code,
            "cut": examples.is_cut(signature),
            "has_signature": bool(signature.get("inputs")),
            "may_call": self.can(Permission.ENDPOINT_CALL),
            **more,
        }
        return self.render(self.page(row, said), status=status)


def _versions(row: Endpoint) -> list[tuple[str, Any]]:
    """Return which of them may be asked for; nothing where there is no choice."""
    canary = row.canary if row.canary_of_id is None else None
    found = [one.version.name for one in (row, canary) if one is not None and one.version]
    by_split = ("", _("as the split has it"))
    return [by_split, *((name, name) for name in found)] if len(set(found)) > 1 else [by_split]


class CanaryForm(forms.Form):
    model = forms.ChoiceField(label=_("Version"))
    image = forms.CharField(label=_("Image"), max_length=512, required=False)
    min_replicas = forms.IntegerField(label=_("Replicas"), min_value=1, max_value=64, initial=1)

    def __init__(self, *args: Any, row: Endpoint, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if row.version is None:
            del self.fields["model"]
            self.fields["image"].initial = row.image
            return
        del self.fields["image"]
        versions = ModelVersion.objects.filter(model=row.version.model, files=Files.THERE)
        versions = versions.exclude(pk=row.version.pk).exclude(stage=Stage.RETIRED)
        self.fields["model"].choices = [  # type: ignore[attr-defined]
            (f"{row.version.model.name}/{one.name}", _version_words(one))
            for one in versions.order_by("-id")[:_OFFERED]
        ]


def _version_words(one: ModelVersion) -> str:
    metrics = ", ".join(f"{name} {value:g}" for name, value in list(one.metrics.items())[:3])
    return f"{one.name} ({metrics})" if metrics else one.name


class Canary(OneView):
    """The form of a canary."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "create", "POST": "create"}
    template_name = "serving/canary.html"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, {"form": CanaryForm(row=row)}))

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        form = CanaryForm(request.POST, row=row)
        if form.is_valid():
            said = {name: value for name, value in form.cleaned_data.items() if value}
            said["max_replicas"] = max(row.max_replicas, said["min_replicas"])
            try:
                services.canary_make(principal=self.principal, row=row, said=said)
            except BerthError as error:
                status = refuse(request, form, error)
                return self.render(self.page(row, {"form": form}), status=status)
            messages.success(request, _t("The canary is starting. It gets no request yet."))
            return go(request, self.pages.address("detail", row))
        return self.render(self.page(row, {"form": form}), status=422)


def _seen(request: HttpRequest) -> str:
    """Return what the page showed where the button was: somebody else may have been faster."""
    return request.POST.get("seen", "")[:64]


class CanarySplit(OneView):
    """Set its share; 0, which is a button of its own, takes all back at once."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    stands_on = Detail.of(PAGES)

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        said = request.POST.get("percent", "")[:4]
        if not (said.isascii() and said.isdecimal()):
            raise wrong("percent", _t("From 0 to 100."))
        percent = int(said)
        seen = _seen(request)
        services.canary_split(principal=self.principal, row=row, percent=percent, seen=seen)
        if percent:
            told = _t("%(n)d %% of the requests go to the canary.") % {"n": percent}
        else:
            told = _t("All requests go back to “%(name)s”.") % {"name": row.model or row.name}
        messages.success(request, told)
        return go(request, self.pages.address("detail", row))


class CanaryPromote(OneView):
    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    stands_on = Detail.of(PAGES)

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        services.canary_promote(principal=self.principal, row=row, seen=_seen(request))
        messages.success(request, _t("What the canary serves becomes the endpoint's own."))
        return go(request, self.pages.address("detail", row))


class CanaryEnd(OneView):
    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    stands_on = Detail.of(PAGES)

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        services.canary_end(principal=self.principal, row=row, seen=_seen(request))
        messages.success(request, _t("The canary gets no request any more, and ends."))
        return go(request, self.pages.address("detail", row))


class RollBack(OneView):
    """Serve what it served before."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    stands_on = Detail.of(PAGES)

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        before = services.served_before(row)
        services.endpoint_roll_back(principal=self.principal, row=row, seen=_seen(request))
        said = _t("“%(name)s” is starting beside it, and gets all requests as soon as it answers.")
        messages.success(request, said % {"name": before.serves if before else row.name})
        return go(request, self.pages.address("detail", row))


OWN: Mapping[str, type[OneView]] = {
    "requests": Requests,
    "try": Try,
    "keys": Keys,
    "key-revoke": KeyRevoke,
    "canary": Canary,
    "canary-split": CanarySplit,
    "canary-promote": CanaryPromote,
    "canary-end": CanaryEnd,
    "roll-back": RollBack,
}
