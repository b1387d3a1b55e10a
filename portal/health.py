"""Is this process alive, and can it serve.

``/livez`` says only that the process answers. ``/readyz`` is 503 when pages cannot be served
(database, migrations); what merely delays work (broker, proxy, machines) is named and counts
only with ``?all=1``, so that a dead broker does not take the portal away from people.
"""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views import View

from console.health import check_all


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
