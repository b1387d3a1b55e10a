"""The own profile."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from accounts.forms import ProfileForm
from accounts.models import User
from accounts.services import profile_update
from accounts.ui.base import SettingsView


class Profile(SettingsView):
    template_name: ClassVar[str] = "accounts/profile.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render({"form": ProfileForm(initial=_values(self.principal.user))})

    def post(self, request: HttpRequest) -> HttpResponse:
        form = ProfileForm(request.POST)
        if not form.is_valid():
            return self.render({"form": form}, status=400)
        profile_update(who=self.principal, **form.cleaned_data)
        return self.done(_("Your profile was saved."), "accounts:profile")


def _values(user: User) -> dict[str, str]:
    return {n: getattr(user, n) for n in ("display_name", "language", "timezone", "theme")}
