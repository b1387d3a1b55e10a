"""The page behind an invitation's link. Open to visitors: they may have no account yet.

The secret goes from the address into the session at once, so that neither history, logs of
later requests nor a Referer carry it.
"""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables

from common.middleware import client_ip
from projects import services
from projects.gate import secret_keep, secret_of, secret_take


@method_decorator([login_not_required, never_cache, sensitive_variables("secret")], name="dispatch")
class OpenInvitation(View):
    http_method_names = ["get"]

    def get(self, request: HttpRequest, secret: str) -> HttpResponse:
        services.invitation_find(secret)
        secret_keep(request, secret)
        return redirect("projects:invitation-accept")


@method_decorator([login_not_required, never_cache], name="dispatch")
class AcceptInvitation(View):
    http_method_names = ["get", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        row = services.invitation_find(secret_of(request))
        return render(request, "projects/invitation.html", {"invitation": row})

    def post(self, request: HttpRequest) -> HttpResponse:
        user: Any = request.user
        if not user.is_authenticated:
            return redirect("projects:invitation-accept")
        secret = secret_take(request)
        row = services.invitation_accept(user=user, secret=secret, ip=client_ip(request))
        if row.project is None:
            return redirect("/")
        return redirect("projects:overview", project=row.project.slug)
