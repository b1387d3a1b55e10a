"""Prometheus metrics of this process: requests, and what other apps register.

Numbers of the product (workspaces by phase, GPUs held …) come from the database at scrape time
(``portal.monitoring``), so every process answers the same.
"""

import time
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

REQUESTS = Counter(
    "berth_http_requests_total",
    "Requests answered, by view, method and status class.",
    ["view", "method", "status"],
    registry=REGISTRY,
)
LATENCY = Histogram(
    "berth_http_request_seconds",
    "Time to answer, by view.",
    ["view"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetricsMiddleware:
    """Counts requests by the name of their view: a bounded set, never by path."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        view = (match.view_name if match else "") or "other"
        method = request.method if request.method in METHODS else "other"
        REQUESTS.labels(view, method, f"{response.status_code // 100}xx").inc()
        if not getattr(response, "streaming", False):
            LATENCY.labels(view).observe(time.perf_counter() - started)
        return response
