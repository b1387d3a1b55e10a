"""Letting a terminal sign in."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from accounts.forms import DeviceApproveForm, DeviceForm
from accounts.services import device_approve, device_deny
from accounts.services.device import device_find
from accounts.ui.base import SettingsView
from common.errors import NotFound


class Device(SettingsView):
    template_name: ClassVar[str] = "accounts/device.html"
    required_platform: ClassVar[dict[str, str]] = {"GET": "user"}

    def get(self, request: HttpRequest) -> HttpResponse:
        code = request.GET.get("code", "")[:16]
        if not code:
            return self.render({"form": DeviceForm()})
        try:
            waiting = device_find(user_code=code)
        except NotFound as error:
            form = DeviceForm({"code": code})
            form.is_valid()
            form.add_error(None, error.message)
            return self.render({"form": form}, status=404)
        approve = DeviceApproveForm(initial={"code": code, "days": 30})
        return self.render({"waiting": waiting, "approve": approve, "code": code})


class DeviceAnswer(SettingsView):
    template_name: ClassVar[str] = "accounts/device.html"
    required_platform: ClassVar[dict[str, str]] = {"POST": "user"}

    def post(self, request: HttpRequest) -> HttpResponse:
        form = DeviceApproveForm(request.POST)
        if not form.is_valid():
            return self.render({"form": DeviceForm(request.POST)}, status=400)
        data = form.cleaned_data
        if request.POST.get("answer") != "approve":
            device_deny(who=self.principal, user_code=data["code"])
            return self.done(_("The terminal was refused."), "accounts:device")
        device_approve(
            who=self.principal,
            user_code=data["code"],
            read_only=data["read_only"],
            days=data["days"],
        )
        return self.render({"approved": True})
