"""The portal's urls, and a back door by which a test changes the world."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from accounts.models import User
from clusters.registry import router
from hubapi import activity, registry, revocation, services
from hubapi.models import Activity
from hubapi.selectors import idle_state
from portal.urls import urlpatterns as portal_patterns
from projects.models import Project
from runtime.models import Route
from runtime.protocol import Phase
from runtime.routers.base import RouteEntry
from tests.hubapi.conftest import Lookup, describe, ensure

LOOKUP = Lookup()
registry.register(LOOKUP)


def log_in(request: HttpRequest, user: str) -> dict[str, Any]:
    backend = "allauth.account.auth_backends.AuthenticationBackend"
    login(request, User.objects.get(username=user), backend=backend)
    return {}


def workload(request: HttpRequest, owner: str) -> dict[str, Any]:
    person, project = User.objects.get(username=owner), Project.objects.get()
    info = describe(person, project)
    LOOKUP.infos[info.uid] = info
    credentials = ensure(info, person, project, 1)
    env, secret_env = services.launch_environment(info, credentials)
    return {
        "uid": str(info.uid),
        "short_id": info.short_id,
        "url": info.public_url,
        "env": {**env, **secret_env},
        "arguments": services.server_arguments(),
        "probe": services.readiness_path(info.short_id),
        "service_token": services.service_token(info.uid),
    }


def route(request: HttpRequest, uid: str, target: str) -> dict[str, Any]:
    key = registry.route_key(LOOKUP.infos[UUID(uid)].short_id)
    Route.objects.create(key=key, uid=uid, target=target)
    router().put(RouteEntry(key=key, target=target, uid=uid))
    return {}


def share(request: HttpRequest, uid: str, user: str) -> dict[str, Any]:
    LOOKUP.share(UUID(uid), User.objects.get(username=user))
    return {}


def unshare(request: HttpRequest, uid: str, user: str) -> dict[str, Any]:
    LOOKUP.unshare(UUID(uid), User.objects.get(username=user))
    return {"cut": revocation.cut_due()}


def cut(request: HttpRequest) -> dict[str, Any]:
    return {"cut": revocation.cut_due()}


def poll(request: HttpRequest, uid: str) -> dict[str, Any]:
    activity.poll()
    row = Activity.objects.filter(uid=uid).values().get()
    return {"idle": asdict(idle_state(UUID(uid))), "row": row}


def stop(request: HttpRequest, uid: str) -> dict[str, Any]:
    """Tokens, then the route; the process is the test's."""
    info = LOOKUP.change(UUID(uid), phase=Phase.STOPPED)
    services.revoke_workload(info.uid)
    key = registry.route_key(info.short_id)
    Route.objects.filter(key=key).delete()
    router().drop(key)
    return {}


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    verb.__name__: verb for verb in (log_in, workload, route, share, unshare, cut, poll, stop)
}


@csrf_exempt
@login_not_required
def control(request: HttpRequest, verb: str) -> HttpResponse:
    return JsonResponse(VERBS[verb](request, **json.loads(request.body)))


urlpatterns = [*portal_patterns, path("_control/<str:verb>", control)]
