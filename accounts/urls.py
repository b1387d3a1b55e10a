"""Mounted at the root: sign-in under /accounts/, the own pages under /settings/."""

from django.urls import include, path
from django.views.generic import RedirectView

from accounts.ui import account, device, keys, security

settings_urls = [
    path("", RedirectView.as_view(pattern_name="accounts:profile"), name="settings"),
    path("profile", account.Profile.as_view(), name="profile"),
    path("security", security.Security.as_view(), name="security"),
    path("sessions", security.Sessions.as_view(), name="sessions"),
    path("sessions/<int:session_id>/end", security.SessionEnd.as_view(), name="session-end"),
    path("sessions/end-others", security.SessionsEndOthers.as_view(), name="sessions-end-others"),
    path("tokens", keys.Tokens.as_view(), name="tokens"),
    path("tokens/<uuid:uid>/revoke", keys.TokenRevoke.as_view(), name="token-revoke"),
    path("ssh-keys", keys.SshKeys.as_view(), name="ssh-keys"),
    path("ssh-keys/<uuid:uid>/remove", keys.SshKeyRemove.as_view(), name="ssh-key-remove"),
    path("device", device.Device.as_view(), name="device"),
    path("device/answer", device.DeviceAnswer.as_view(), name="device-answer"),
]

urlpatterns = [
    path("accounts/", include("allauth.urls")),
    path("settings/", include((settings_urls, "accounts"))),
]
