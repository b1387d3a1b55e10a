"""Demand against supply by kind of GPU (A15): is there enough of each, and when was there not?"""

from datetime import timedelta
from typing import Any, ClassVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from clusters.models import Flavor
from common.clock import now
from common.ui import responses
from console.capacity_chart import chart
from console.views.base import ConsoleView
from usage import capacity
from usage.ranges import range_of

SPANS = (30, 90)  # days, one press each


class Capacity(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/capacity.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        span = range_of(request.GET)
        kinds = capacity.report(span)
        if request.GET.get("format") == "csv":
            return responses.csv_download("capacity.csv", capacity.HEAD, capacity.csv_rows(kinds))
        labels = dict(Flavor.objects.values_list("name", "label"))
        today = timezone.localdate(now())
        return self.render(
            {
                "kinds": [(labels.get(kind.kind, kind.kind), kind, chart(kind)) for kind in kinds],
                "since": timezone.localdate(span.since).isoformat(),
                "until": request.GET.get("until", ""),
                "spans": [(n, today - timedelta(days=n)) for n in SPANS],
            }
        )
