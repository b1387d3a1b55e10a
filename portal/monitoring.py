"""What watches Berth asks: ``/livez``, ``/readyz``, ``/metrics``.

``/livez`` says only that the process answers. ``/readyz`` is 503 when pages cannot be served
(database, migrations); what merely delays work (broker, proxy, machines) is named and counts
only with ``?all=1``, so that a dead broker does not take the portal away from people.
``/metrics``: what the product does, read from the database when Prometheus asks.
"""

import hmac
import ipaddress
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db.models import Count, Max, Min, Sum
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views import View
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from clusters.models import Claim, Cluster, Device
from common.clock import now
from common.metrics import REGISTRY
from console.health import check_all
from events.models import Event, Seal
from loaders.models import LoadRun
from runtime.reconcilers import registered, rows_of
from usage.capacity import supply_now
from usage.ledger import WASTE
from usage.ratios import Ratio, Scope, live, lost_lately, nodes_now


class DomainCollector(Collector):
    """One query per family; registered only for the time of a scrape."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._phases()
        yield from self._due()
        yield from self._machines()
        yield from self._ratios()
        yield from self._loads()
        yield self._audit()

    def _phases(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("berth_objects", "Objects by phase.", labels=["kind", "phase"])
        for kind in registered():
            rows = rows_of(kind).filter(deleted_at__isnull=True)
            for row in rows.values("phase").annotate(n=Count("pk")).order_by("phase"):
                family.add_metric([kind, row["phase"]], row["n"])
        yield family

    def _due(self) -> Iterator[GaugeMetricFamily]:
        count = GaugeMetricFamily("berth_due_objects", "Objects due for a pass.", labels=["kind"])
        age = GaugeMetricFamily(
            "berth_due_oldest_seconds", "How long the oldest due object waits.", labels=["kind"]
        )
        moment = now()
        for kind in registered():
            due = (
                rows_of(kind)
                .filter(deleted_at__isnull=True, next_reconcile_at__lte=moment)
                .aggregate(n=Count("pk"), first=Min("next_reconcile_at"))
            )
            count.add_metric([kind], due["n"])
            waited = (moment - due["first"]).total_seconds() if due["first"] else 0.0
            age.add_metric([kind], waited)
        yield count
        yield age

    def _machines(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily("berth_cluster_up", "Whether it answers.", labels=["cluster"])
        for key, reachable in Cluster.objects.values_list("key", "reachable"):
            up.add_metric([key], float(reachable))
        yield up
        gpus = GaugeMetricFamily("berth_gpus", "GPUs by state.", labels=["cluster", "state"])
        rows: dict[tuple[str, str], int] = {}
        devices = Device.objects.select_related("cluster").annotate(held=Count("hold"))
        for device in devices:
            state = "unhealthy" if not device.healthy else "held" if device.held else "free"
            rows[device.cluster.key, state] = rows.get((device.cluster.key, state), 0) + 1
        for (cluster, state), number in rows.items():
            gpus.add_metric([cluster, state], number)
        yield gpus
        simulated = GaugeMetricFamily(
            "berth_gpus_simulated", "GPUs among them that do not exist.", labels=["cluster"]
        )
        for cluster, number in Counter(d.cluster.key for d in devices if d.simulated).items():
            simulated.add_metric([cluster], number)
        yield simulated
        waiting = GaugeMetricFamily("berth_queue_waiting", "Workloads that wait for room.")
        waiting.add_metric([], Claim.objects.filter(granted_at__isnull=True).count())
        yield waiting

    def _ratios(self) -> Iterator[GaugeMetricFamily]:
        """Requested, attached and utilised; a ratio is a quotient of sums of these."""
        supply = GaugeMetricFamily(
            "berth_gpus_supply", "GPUs in service, not held by others.", labels=["cluster", "gpu"]
        )
        for (cluster, flavor), number in supply_now().items():
            supply.add_metric([cluster, flavor], number)
        labels = ["cluster", "gpu", "project", "kind"]
        requested = GaugeMetricFamily(
            "berth_gpus_requested", "GPUs that work holds or waits for.", labels=labels
        )
        attached = GaugeMetricFamily("berth_gpus_attached", "GPUs that work holds.", labels=labels)
        measured = GaugeMetricFamily(
            "berth_gpus_measured", "GPUs among them of which it is known how busy.", labels=labels
        )
        use = GaugeMetricFamily(
            "berth_gpu_utilisation_ratio", "How busy those are, on average.", labels=labels
        )
        groups: dict[tuple[str, ...], Ratio] = defaultdict(Ratio)
        for row, own in live(Scope()):
            groups[row.cluster_key, row.flavor, row.project_slug, row.kind].add(own)
        for key, ratio in sorted(groups.items()):
            requested.add_metric(key, ratio.requested)
            attached.add_metric(key, ratio.attached)
            measured.add_metric(key, ratio.measured)
            if ratio.utilisation is not None:  # what nobody knows is no sample, and never 0
                use.add_metric(key, ratio.utilisation)
        # No counter: hours are written anew where something is learned late.
        lost = GaugeMetricFamily(
            "berth_gpu_waste_seconds",
            "GPU-seconds of the last 24 closed hours by cause.",
            labels=["cause", "lost"],
        )
        for cause, seconds in lost_lately().items():
            lost.add_metric([cause, "yes" if cause in WASTE else "no"], seconds)
        yield from (supply, requested, attached, measured, use, lost)
        yield from self._nodes()

    def _nodes(self) -> Iterator[GaugeMetricFamily]:
        labels = ["cluster", "node"]
        there = GaugeMetricFamily("berth_node_gpus", "GPUs in service by node.", labels=labels)
        held = GaugeMetricFamily(
            "berth_node_gpus_attached", "GPUs of a node that work holds.", labels=labels
        )
        use = GaugeMetricFamily(
            "berth_node_gpu_utilisation_ratio", "How busy those are, where known.", labels=labels
        )
        for key, node, ratio in nodes_now():
            there.add_metric([key, node], ratio.supply)
            held.add_metric([key, node], ratio.attached)
            if ratio.utilisation is not None:
                use.add_metric([key, node], ratio.utilisation)
        yield from (there, held, use)

    def _loads(self) -> Iterator[GaugeMetricFamily]:
        runs = GaugeMetricFamily(
            "berth_load_runs", "Runs of loads that ended in the last day.", labels=["result"]
        )
        size = GaugeMetricFamily("berth_load_read_bytes", "What they read from stores or sent.")
        day = LoadRun.objects.filter(ended_at__gte=now() - timedelta(days=1))
        total = 0
        for row in day.values("result").annotate(n=Count("pk"), read=Sum("bytes_read")):
            runs.add_metric([row["result"]], row["n"])
            total += row["read"]
        size.add_metric([], total)
        yield runs
        yield size

    def _audit(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily("berth_audit_unsealed_events", "Events not in the chain yet.")
        sealed = Seal.objects.aggregate(last=Max("last_event_id"))["last"] or 0
        family.add_metric([], Event.objects.filter(pk__gt=sealed).count())
        return family


def allowed(request: HttpRequest) -> bool:
    """Whoever has the token; without one only this machine, and not through a proxy."""
    token = getattr(settings, "BERTH_METRICS_TOKEN", "")
    given = request.headers.get("Authorization", "")
    if token:
        return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


class AnyHostMiddleware:
    """Prometheus asks each replica by its address, which is no name of the portal's."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self._host = urlsplit(settings.BERTH_PUBLIC_URL).netloc

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path == "/metrics":  # nothing of the answer depends on it
            request.META["HTTP_HOST"] = self._host
        return self.get_response(request)


@method_decorator(login_not_required, name="dispatch")
class Metrics(View):
    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponse:
        if not allowed(request):
            return HttpResponse("Not from here.\n", status=403, content_type="text/plain")
        # only for the time of a scrape: nothing is asked to describe itself at start
        text = generate_latest(REGISTRY) + generate_latest(DomainCollector())
        return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


@method_decorator(login_not_required, name="dispatch")
class Livez(View):
    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return HttpResponse("ok\n", content_type="text/plain")


@method_decorator(login_not_required, name="dispatch")
class Readyz(View):
    """Says which part is down, never why: the reason is on the operators' system page."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponse:
        checks = check_all()
        every = request.GET.get("all") == "1"
        ready = all(c.ok for c in checks if c.vital or every)
        state = "ok" if all(c.ok for c in checks) else "degraded" if ready else "down"
        body = {"status": state, "checks": {c.name: "ok" if c.ok else "down" for c in checks}}
        return JsonResponse(body, status=200 if ready else 503)
